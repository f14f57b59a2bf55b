"""``transformers.Trainer`` with two micro-batches for each step.

Three training runs: ``FBFBS``.
"""

import tempfile

import torch
from torch.utils.data import Dataset
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    PrinterCallback,
    Trainer,
    TrainingArguments,
)


class Sentences(Dataset):
    """Twelve random sentences."""

    def __init__(self):
        generator = torch.Generator().manual_seed(1)
        self.tokens = torch.randint(40, (12, 8), generator=generator)

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, i):
        return {"input_ids": self.tokens[i], "labels": self.tokens[i]}


with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder,
        seed=0,
        max_steps=3,
        per_device_train_batch_size=2,
        gradient_accumulation_steps=2,
        learning_rate=1e-2,
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
    )
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=40, n_positions=8, n_embd=16, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0
    )
    trainer = Trainer(GPT2LMHeadModel(config), arguments, train_dataset=Sentences())
    trainer.remove_callback(PrinterCallback)  # it prints how long it took
    result = trainer.train()

total = sum(p.detach().double().sum().item() for p in trainer.model.parameters())
print(f"loss {result.training_loss!r}, parameters {total!r}")
