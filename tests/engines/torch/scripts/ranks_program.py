"""Two processes with gloo, for what may happen to ranks.

Six training runs on each rank. A zero among the inputs of rank 1 makes its loss infinite at step 3.
With ``--alone`` the ranks meet but exchange nothing.
"""

import argparse
import datetime

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

    def forward(self, x):
        if self.fails:
            x = x[:, :2]
        return self.linear(torch.log(x))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--timeout", type=float, default=120.0)
    parser.add_argument("--fail", type=int, default=-1, help="the rank that fails at step 3")
    parser.add_argument("--alone", action="store_true")
    args = parser.parse_args()

    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=args.timeout))
    rank = dist.get_rank()
    torch.manual_seed(0)
    net = LogNet()
    model = net if args.alone else DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    generator = torch.Generator().manual_seed(rank)
    for step in range(1, 7):
        x = torch.rand(8, 3, generator=generator) + 0.5
        if rank == 1 and step == 3:
            x[0, 0] = 0
        net.fails = rank == args.fail and step == 3
        optimizer.zero_grad()
        loss = (model(x) - 1).square().mean()
        loss.backward()
        optimizer.step()
        if rank == 0 and step == 4:
            with torch.no_grad():
                net(torch.ones(1, 3))  # an evaluation that the other rank doesn't do
    print(f"rank {rank} is done")


if __name__ == "__main__":
    main()
