"""A small transformer in mixed precision with a bug: it learns, then its loss becomes NaN.

    python examples/debug_transformer.py                    # see that something is wrong
    python -m tfdbg_cli examples/debug_transformer.py       # find out what
    python examples/debug_transformer.py --fix              # the same program without the bug

The model learns to count on: each sequence goes up by a stride of its own. The layers are those of
"Attention Is All You Need" (Vaswani et al., 2017), but for what is missing.
"""

import argparse

import torch
from torch import nn
from torch.nn import functional as F

STRIDES = 3


class Attention(nn.Module):
    """Causal self-attention with several heads."""

    def __init__(self, size, options):
        super().__init__()
        self.heads, self.is_scaled = options.heads, options.fix
        self.query = nn.Linear(size, size)
        self.key = nn.Linear(size, size)
        self.value = nn.Linear(size, size)
        self.output = nn.Linear(size, size)
        future = torch.ones(options.length, options.length, dtype=torch.bool).triu(1)
        self.register_buffer("future", future, persistent=False)

    def split(self, x):
        """(batch, length, size) -> (batch, heads, length, size of a head)."""
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x):
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        if self.is_scaled:
            q = q / q.shape[-1] ** 0.5
        # The bug: without the division these grow past 65504, the largest float16.
        scores = q @ k.transpose(-2, -1)
        scores = scores.masked_fill(self.future, float("-inf"))
        weights = torch.softmax(scores, dim=-1)
        return self.output((weights @ v).transpose(1, 2).flatten(-2))


class Layer(nn.Module):
    """Attention and a feed-forward network, each followed by a normalisation."""

    def __init__(self, size, options):
        super().__init__()
        self.attention = Attention(size, options)
        self.norm1 = nn.LayerNorm(size)
        self.mlp = nn.Sequential(nn.Linear(size, 4 * size), nn.GELU(), nn.Linear(4 * size, size))
        self.norm2 = nn.LayerNorm(size)

    def forward(self, x):
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.mlp(x))


class Transformer(nn.Module):
    """A decoder that predicts the next number."""

    def __init__(self, options):
        super().__init__()
        self.size = options.size
        self.numbers = nn.Embedding(options.numbers, self.size)
        self.positions = nn.Embedding(options.length, self.size)
        self.layers = nn.ModuleList(Layer(self.size, options) for _ in range(options.layers))
        self.head = nn.Linear(self.size, options.numbers)

    def forward(self, numbers):
        x = self.numbers(numbers) * self.size**0.5
        x = x + self.positions(torch.arange(numbers.shape[1], device=numbers.device))
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def make_batch(options):
    """Sequences (batch, length) that count modulo ``numbers``, and the numbers after each."""
    start = torch.randint(options.numbers, (options.batch_size, 1))
    stride = torch.randint(1, STRIDES + 1, (options.batch_size, 1))
    sequences = (start + stride * torch.arange(options.length + 1)) % options.numbers
    return sequences[:, :-1], sequences[:, 1:]


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--fix", action="store_true", help="divide by the root of the size of a head: no bug")
    add("--steps", type=int, default=30, metavar="N")
    add("--learning-rate", type=float, default=0.008, metavar="R")
    add("--layers", type=int, default=2, metavar="N")
    add("--heads", type=int, default=2, metavar="N")
    add("--size", type=int, default=160, metavar="N", help="of the vectors between the layers")
    add("--length", type=int, default=16, metavar="N", help="of a sequence")
    add("--numbers", type=int, default=16, metavar="N", help="how many there are")
    add("--batch-size", type=int, default=4, metavar="N")
    add("--seed", type=int, default=3)
    return parser.parse_args()


def main():
    options = parse_options()
    torch.set_num_threads(1)  # so little work is slower on several: they wait for each other
    torch.manual_seed(options.seed)
    model = Transformer(options)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.learning_rate)

    for step in range(1, options.steps + 1):
        numbers, following = make_batch(options)
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(numbers)
            loss = F.cross_entropy(logits.flatten(0, 1), following.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
