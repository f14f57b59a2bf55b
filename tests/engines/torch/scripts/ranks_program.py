"""Two processes with gloo, for what may happen to ranks.

Six training runs on each rank. A zero among the inputs of rank 1 makes its loss infinite at step 3.
With ``--alone`` the ranks meet but exchange nothing. With ``--endless`` there are training runs and
nothing else. With ``--late FILE`` rank 1 doesn't come through step 2 before there is that file.
"""

import argparse
import datetime
import itertools
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class LogNet(nn.Module):
    """A linear model of logarithms, which can be told to fail."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 1)
        self.fails = False
        self.awaited = None

    def forward(self, x):
        while self.awaited is not None and not self.awaited.exists():
            time.sleep(0.02)
        if self.fails:
            x = x[:, :2]
        return self.linear(torch.log(x))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--timeout", type=float, default=120.0)
    parser.add_argument("--fail", type=int, default=-1, help="the rank that fails at step 3")
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--endless", action="store_true")
    parser.add_argument("--late", type=Path)
    args = parser.parse_args()

    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=args.timeout))
    rank = dist.get_rank()
    torch.manual_seed(0)
    net = LogNet()
    model = net if args.alone else DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    generator = torch.Generator().manual_seed(rank)
    for step in itertools.count(1) if args.endless else range(1, 7):
        x = torch.rand(8, 3, generator=generator) + 0.5
        if rank == 1 and step == 3:
            x[0, 0] = 0
        net.fails = rank == args.fail and step == 3
        net.awaited = args.late if (rank, step) == (1, 2) else None
        optimizer.zero_grad()
        loss = (model(x) - 1).square().mean()
        loss.backward()
        optimizer.step()
        if args.endless:
            print(f"rank {rank} has done step {step}")
        elif rank == 0 and step == 4:
            with torch.no_grad():
                net(torch.ones(1, 3))  # an evaluation that the other rank doesn't do
    print(f"rank {rank} is done")


if __name__ == "__main__":
    main()
