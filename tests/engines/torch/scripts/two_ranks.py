"""Data parallel training of two processes with gloo, to be started by ``torchrun``.

Five training runs on each rank: ``FBS``. A zero among the inputs of rank 1 makes its loss infinite
at step 3, and the gradients of both ranks not numbers from then on.
"""

import gc

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class LogNet(nn.Module):
    """A linear model of logarithms."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 1)

    def forward(self, x):
        return self.linear(torch.log(x))


def train(rank):
    torch.manual_seed(0)
    model = DistributedDataParallel(LogNet())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    generator = torch.Generator().manual_seed(rank)

    losses = []
    for step in range(1, 6):
        x = torch.rand(8, 3, generator=generator) + 0.5
        if rank == 1 and step == 3:
            x[0, 0] = 0
        optimizer.zero_grad()
        loss = (model(x) - 1).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    losses = train(rank)

    everybody = [None] * dist.get_world_size()
    dist.all_gather_object(everybody, losses)
    if rank == 0:
        for number, found in enumerate(everybody):
            print(f"rank {number}:", *(f"{loss:.9g}" for loss in found))
    # Threads of gloo that hold tensors yet when Python ends abort the process.
    gc.collect()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
