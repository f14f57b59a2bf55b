"""Collectives: written in place, waited for later, and hidden in wrappers of modules."""

import os
import subprocess
import sys

from breakers_kit import MARK, ROOT, Both, nodes
from samples import night

ALONE = """
import os
import tempfile

import torch.distributed as dist

store = dist.FileStore(os.path.join(tempfile.mkdtemp(), "store"), 1)
dist.init_process_group("gloo", store=store, rank=0, world_size=1)
"""


def test_data_parallel_in_one_process(both: Both) -> None:
    out = both(
        f"""{ALONE}
from torch.nn.parallel import DistributedDataParallel

model = DistributedDataParallel(Net())
tell(train(model, 3).item(), digest(model))
# Kept: PyTorch's own deadlock, seen plain too. The last holder of the group, the reducer, waits for
# gloo's thread with the GIL, which that thread may need.
dist.kept = model
dist.destroy_process_group()
""",
    )
    assert {"first/addmm", "gradients/first/addmm_grad/mm"} <= set(nodes(out, 2))
    assert "allreduce_" in " ".join(nodes(out, 2))


def test_sharded_parameters_in_one_process(both: Both) -> None:
    out = both(
        f"""{ALONE}
from torch.distributed.fsdp import fully_shard
from torch.distributed.device_mesh import init_device_mesh

model = Net()
fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
loss = train(model, 3)
tell(loss.item(), [type(each).__name__ for each in model.parameters()][:1])
tell(digest(*(each.to_local() for each in model.parameters())))
dist.destroy_process_group()
""",
    )
    assert "first/addmm" in " ".join(nodes(out, 2))


TWO = """
import os
import tempfile

import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel

def work(rank, path, done):
    torch.manual_seed(0)
    dist.init_process_group("gloo", store=dist.FileStore(path, 2), rank=rank, world_size=2)
    model = DistributedDataParallel(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(torch.full((3, 4), rank + 1.0)).square().mean()
        loss.backward()
        optimizer.step()
    ones = torch.full((2,), rank + 1.0)
    summed = ones.clone()
    with torch.no_grad():
        class Reduce(nn.Module):
            def forward(self, x):
                kept = x * 1
                before = kept + 1
                dist.all_reduce(kept)
                later = x * 2
                pending = dist.all_reduce(later, async_op=True)
                pending.wait()
                parts = [torch.zeros(2) for _ in range(2)]
                dist.all_gather(parts, kept)
                return before + kept + later + parts[1]
        reduce = Reduce()
        done(rank, reduce(ones), loss, model)
    dist.kept = model
    dist.destroy_process_group()

def other(rank, path):
    work(1, path, lambda *_: None)

def tell_all(rank, output, loss, model):
    tell(output.tolist(), loss.item(), digest(model))

if __name__ == "__main__":
    path = os.path.join(tempfile.mkdtemp(), "store")
    context = mp.start_processes(other, (path,), join=False, start_method="fork")
    work(0, path, tell_all)
    context.join()
"""


def run(*arguments: object) -> list[str]:
    """What a program prints that forks: it gets a process of its own."""
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout.splitlines()


@night
def test_collectives_of_two_processes(both: Both) -> None:
    path = both.write(TWO)
    commands = [*("run", "lt") * 4, "pt reduce/mul:0", "pt reduce/add:0"]
    options = [part for command in commands for part in ("-c", command)]
    lines = run("-m", "tfdbg_cli", "--batch", "--engine", "torch", *options, path)
    assert [line for line in lines if line.startswith(MARK)] == run(path)
    out = "\n".join(lines)
    assert out.count("--- run-end") == 4
    assert "[1., 1.]" in out.rpartition("pt reduce/mul:0 ---")[2].split("--- pt")[0]
    assert "[2., 2.]" in out.rpartition("pt reduce/add:0 ---")[2]
    assert "reduce/c10d.allreduce_" in nodes(out, 3)
