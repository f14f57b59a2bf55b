"""FSDP on two processes with gloo: four training steps, with parameters that are freed in between.

With ``--hang`` rank 1 stays in its third step for so many seconds.
"""

import argparse
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


class Late(nn.Linear):
    """A linear layer that may take its time."""

    seconds = 0.0

    def forward(self, x):
        time.sleep(self.seconds)
        return super().forward(x)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hang", type=float, default=0.0)
    args = parser.parse_args()

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    late = Late(32, 16)
    model = nn.Sequential(nn.Sequential(nn.Linear(16, 32), nn.GELU(), late), nn.Linear(16, 2))
    fully_shard(model[0], mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    for step in range(4):
        late.seconds = args.hang if (dist.get_rank(), step) == (1, 2) else 0.0
        x = torch.randn(8, 16)
        loss = nn.functional.cross_entropy(model(x), (x.sum(1) > 0).long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if dist.get_rank() == 0:
            print(f"step {step}: {loss.item()!r}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
