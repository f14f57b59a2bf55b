"""Batches come from a DataLoader with two worker processes.

Four training runs: ``FBS``. The workers' own tensors are in no run.
"""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Noisy(Dataset):
    """Samples that are made, with ops of PyTorch, when a worker asks for them."""

    def __len__(self):
        return 32

    def __getitem__(self, i):
        x = torch.randn(4, generator=torch.Generator().manual_seed(i))
        return x.tanh(), x.sum()


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for x, y in DataLoader(Noisy(), batch_size=8, shuffle=True, num_workers=2):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x).squeeze(1), y)
        loss.backward()
        optimizer.step()

    total = sum(p.detach().double().sum().item() for p in model.parameters())
    print(f"loss {loss.item():.9g}, parameters {total!r}")


if __name__ == "__main__":
    main()
