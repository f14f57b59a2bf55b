"""Training steps of a PyTorch model: ``mlp``, ``resnet``, ``transformer`` or ``loader``.

``closure``: those of the transformer as Lightning makes them, with clipped gradients in a closure.
"""

import statistics
import sys
import time

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)


class Block(nn.Module):
    """Two convolutions, and what goes around them."""

    def __init__(self, width):
        super().__init__()
        self.first = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.second = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for _ in range(2))

    def forward(self, x):
        inside = torch.relu(self.norms[0](self.first(x)))
        return torch.relu(x + self.norms[1](self.second(inside)))


class Transformer(nn.Module):
    """An encoder of words."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(1000, 128)
        layer = nn.TransformerEncoderLayer(128, 4, 512, batch_first=True, dropout=0.0)
        self.encoder, self.head = nn.TransformerEncoder(layer, 4), nn.Linear(128, 1000)

    def forward(self, x):
        return self.head(self.encoder(self.words(x))).flatten(0, 1)


class Normalize(nn.Module):
    """As torchvision's: a module without parameters, called for each image."""

    def forward(self, x):
        return (x - 0.13) / 0.31


class Digits(torch.utils.data.Dataset):
    """Images that a module normalizes."""

    images, transform = torch.rand(2048, 1, 28, 28), nn.Sequential(Normalize())

    def __len__(self):
        return len(self.images)

    def __getitem__(self, at):
        return self.transform(self.images[at]), at % 10


def batches(x, y):
    """The same one for ever."""
    while True:
        yield x, y


def loaded():
    """Those of a loader."""
    while True:
        yield from torch.utils.data.DataLoader(Digits(), 64)


name, steps = sys.argv[1], int(sys.argv[2])
if name == "mlp":
    widths = nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
    net, data = nn.Sequential(*widths), batches(torch.randn(64, 256), torch.randint(10, (64,)))
elif name == "resnet":
    ends = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)
    net = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), *(Block(32) for _ in range(6)), *ends)
    data = batches(torch.randn(16, 3, 32, 32), torch.randint(10, (16,)))
elif name in ("transformer", "closure"):
    net, words = Transformer(), torch.randint(1000, (8, 64))
    data = batches(words, torch.randint(1000, (512,)))
else:
    parts = nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(2704, 10)
    net, data = nn.Sequential(*parts), loaded()
optimizer = torch.optim.Adam(net.parameters(), 1e-4)
criterion = nn.CrossEntropyLoss()
times = []


def closure():
    """Gradients, clipped."""
    x, y = next(data)
    optimizer.zero_grad()
    loss = criterion(net(x), y)
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    return loss


for _ in range(steps):
    began = time.perf_counter()
    if name == "closure":
        loss = optimizer.step(closure)
    else:
        x, y = next(data)
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        loss.backward()
        optimizer.step()
    times.append(time.perf_counter() - began)
print(f"MS {1e3 * statistics.median(times[steps // 4 :]):.4f} loss {loss.item():.9g}")
