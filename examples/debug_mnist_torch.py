"""The classifier of debug_mnist.py in PyTorch, with the same bug.

    python examples/debug_mnist.py --engine torch                     # see that something is wrong
    python -m tfdbg_cli examples/debug_mnist.py --engine torch        # find out what

`--stable` and the other options are those of debug_mnist.py.
"""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


class Classifier(nn.Module):
    """Two dense layers."""

    def __init__(self, inputs, hidden_units, classes):
        super().__init__()
        self.hidden = nn.Linear(inputs, hidden_units)
        self.logits = nn.Linear(hidden_units, classes)
        for layer in (self.hidden, self.logits):
            nn.init.trunc_normal_(layer.weight, std=0.1, a=-0.2, b=0.2)
            nn.init.constant_(layer.bias, 0.1)

    def forward(self, x):
        return self.logits(torch.relu(self.hidden(x)))


def cross_entropy(logits, y_, stable):
    if stable:
        return F.cross_entropy(logits, y_)
    y = torch.softmax(logits, dim=1)
    # The bug: where the softmax underflows to 0, its logarithm is -inf.
    diff = -(y_ * torch.log(y))
    return diff.mean()


def accuracy(model, images, labels):
    with torch.no_grad():
        correct = model(images).argmax(1) == labels.argmax(1)
    return correct.float().mean().item()


def train(options, training_set, test_set):
    """Steps of Adam, and the accuracy before each of them."""
    torch.set_num_threads(1)  # so little work is slower on several: they wait for each other
    torch.manual_seed(options.seed)
    images, labels = map(torch.from_numpy, training_set)
    test_images, test_labels = map(torch.from_numpy, test_set)
    model = Classifier(images.shape[1], options.hidden_units, labels.shape[1])
    optimizer = torch.optim.Adam(model.parameters(), lr=options.learning_rate)
    shuffle = np.random.RandomState(options.seed)

    for step in range(options.max_steps):
        reached = accuracy(model, test_images, test_labels)
        print(f"Accuracy at step {step}: {reached:.4f}")
        batch = shuffle.randint(len(images), size=options.batch_size)
        x, y_ = images[batch], labels[batch]
        optimizer.zero_grad()
        loss = cross_entropy(model(x), y_, options.stable)
        loss.backward()
        optimizer.step()
