"""PyTorch Lightning: two epochs of ``Trainer.fit`` with validation.

Two inference runs of the sanity check, then in each epoch three training runs (``SFB``: Lightning
calls ``optimizer.step`` with a closure) and two inference runs (``F``).
"""

import logging
import tempfile
import warnings

import lightning
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

logging.getLogger("lightning").setLevel(logging.ERROR)
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
warnings.filterwarnings("ignore", module="lightning")


class Regression(lightning.LightningModule):
    """A small network and its training."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))

    def training_step(self, batch, _):
        x, y = batch
        return F.mse_loss(self.net(x), y)

    def validation_step(self, batch, _):
        x, y = batch
        self.log("val_loss", F.mse_loss(self.net(x), y))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.05)


def loader(batches):
    return DataLoader(TensorDataset(torch.randn(8 * batches, 4), torch.randn(8 * batches, 1)), 8)


torch.manual_seed(0)
model = Regression()
with tempfile.TemporaryDirectory() as folder:
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_epochs=2,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
    )
    trainer.fit(model, loader(3), loader(2))

total = sum(p.detach().double().sum().item() for p in model.parameters())
print(f"val_loss {trainer.callback_metrics['val_loss'].item():.9g}, parameters {total!r}")
