"""A transformer of three layers, one of which leaves float16: its activations grow to 4 million."""

import sys

import torch


class Block(torch.nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        self.norm1, self.norm2 = torch.nn.LayerNorm(size), torch.nn.LayerNorm(size)
        self.qkv, self.out = torch.nn.Linear(size, 3 * size), torch.nn.Linear(size, size)
        self.up, self.down = torch.nn.Linear(size, 4 * size), torch.nn.Linear(4 * size, size)
        self.heads = heads

    def forward(self, x):
        rows, places, size = x.shape
        parts = self.qkv(self.norm1(x)).view(rows, places, 3, self.heads, size // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        attention = torch.softmax(q @ k.transpose(-1, -2) / (size // self.heads) ** 0.5, -1)
        x = x + self.out((attention @ v).transpose(1, 2).reshape(rows, places, size))
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm2(x))))


class Model(torch.nn.Module):
    def __init__(self, words=50, size=32, heads=4, layers=3):
        super().__init__()
        self.table = torch.nn.Embedding(words, size)
        self.layers = torch.nn.ModuleList(Block(size, heads) for _ in range(layers))
        self.head = torch.nn.Linear(size, words)

    def forward(self, x):
        x = self.table(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def made():
    torch.manual_seed(0)
    model = Model().eval()
    with torch.no_grad():
        model.layers[1].down.weight *= 40000
        model.layers[1].up.weight *= 200
    return model


def batch(seed):
    return torch.randint(0, 50, (2, 16), generator=torch.Generator().manual_seed(seed))


if __name__ == "__main__" and "export" in sys.argv:
    torch.onnx.export(made(), (batch(0),), sys.argv[2], input_names=["x"], dynamo=False)
elif __name__ == "__main__":
    model = made()
    with torch.no_grad():
        for step in range(3):
            print(step, model(batch(step)).abs().max().item())
