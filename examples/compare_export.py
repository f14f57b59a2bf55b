"""A model beside its export: where do PyTorch and ONNX Runtime part?

    tfdbg --batch --keep-dumps --dump-root torch -c run -c run examples/compare_export.py
    python examples/compare_export.py --export model.onnx --eps 1e-2
    tfdbg --batch --keep-dumps --dump-root onnx -c run -c run --model model.onnx --inputs inputs.npz
    tfdbg --dump-dir torch --against onnx

An export with --eps has another epsilon in a layer norm; one with --half computes in float16, in
which the energy of the loudest frame is beyond the largest number.
"""

import argparse
import os

import numpy as np
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, size, eps=1e-5):
        super().__init__()
        self.norm = nn.LayerNorm(size, eps=eps)
        self.up = nn.Linear(size, 2 * size)
        self.down = nn.Linear(2 * size, size)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Loudness(nn.Module):
    """Scores frames by what is in them and by their energy."""

    def __init__(self, eps=1e-5):
        super().__init__()
        self.embed = nn.Linear(8, 16)
        self.first = Block(16)
        self.second = Block(16, eps)
        self.head = nn.Linear(16, 4)

    def forward(self, frames):
        x = self.second(self.first(self.embed(frames)))
        energy = frames.square().sum(-1, keepdim=True)
        return torch.softmax(self.head(x / (1 + energy)), -1)


def made(eps=1e-5):
    torch.manual_seed(0)
    model = Loudness(eps).eval()
    frames = torch.randn(2, 5, 8)
    frames[1, 3] *= 300
    return model, frames


def main():
    parser = argparse.ArgumentParser(description="A model, or its export.")
    parser.add_argument("--export", metavar="FILE", help="write FILE and inputs.npz beside it")
    parser.add_argument("--eps", type=float, default=1e-5, help="of the second block's layer norm")
    parser.add_argument("--half", action="store_true", help="export in float16")
    arguments = parser.parse_args()
    model, frames = made(arguments.eps)
    if arguments.export:
        if arguments.half:
            model, frames = model.half(), frames.half()
        torch.onnx.export(model, (frames,), arguments.export, input_names=["frames"], dynamo=True)
        inputs = os.path.join(os.path.dirname(arguments.export), "inputs.npz")
        np.savez(inputs, frames=frames.numpy())
        return
    with torch.no_grad():
        print(model(frames)[1].numpy().round(3))


if __name__ == "__main__":
    main()
