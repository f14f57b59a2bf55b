"""Memory that holds rubbish until it is written to, as caches and FSDP have it, is no bad input.

Fresh memory is full of nan here, which otherwise happens by chance.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from program_server import Programs, environment
from samples import sample

LEVELS = ("auto", "modules", "ops", "values")

PROGRAM = """
import torch
torch.manual_seed(0)
torch.use_deterministic_algorithms(True)

class Cached(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(4, 4)
        self.plain = torch.empty(10, 4)
        self.register_buffer("cache", torch.empty(10, 4))
    def forward(self, x, at):
        made = self.net(x)
        self.plain[at] = made
        self.cache.index_copy_(0, torch.tensor([at]), made[None])
        return self.plain[:READ].sum() + self.cache.narrow(0, 0, at + 1).sum()

net, cached = torch.nn.Linear(4, 4), Cached()
whole, parts, out = torch.empty(2, 4), torch.empty(8), torch.empty(8)
for run in range(4):
    with torch.no_grad():
        value = cached(torch.ones(4), run)
    made = net(torch.ones(2, 4))
    rows = made.detach()
    whole.view(8).copy_(rows.view(8))
    for part, row in zip(parts.chunk(2), rows):
        part.copy_(row)
    torch.add(rows.view(8), 1, out=out)
    loss = made.sum() + whole.sum() + parts.sum() + out.sum() + net(out.view(2, 4)).sum()
    loss.backward()
    print("TOLD", loss.item(), value.item())
"""

#: Two processes: sharded parameters are in memory that is given back between two uses.
SHARDED = """
import ctypes
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard

resize = torch.UntypedStorage.resize_
def resize_with_rubbish(storage, size):
    resize(storage, size)
    if size:
        ctypes.memset(storage.data_ptr(), 255, size)
torch.UntypedStorage.resize_ = resize_with_rubbish
torch.set_num_threads(1)
dist.init_process_group("gloo", timeout=timedelta(seconds=120))
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
SHARD
optimizer = torch.optim.SGD(net.parameters(), 1e-4)
x = torch.randn(32, 8) * 10
for run in range(8):
    optimizer.zero_grad()
    loss = net(x).square().mean()
    if run == BAD:
        loss = loss / 0.0  # bad
    loss.backward()
    optimizer.step()
    if dist.get_rank() == 0:
        print("TOLD", loss.item(), flush=True)
dist.destroy_process_group()
"""
SHARDS = {
    "fully_shard": """
mesh = init_device_mesh("cpu", (2,))
for each in (net[0], net[2], net):
    fully_shard(each, mesh=mesh)
""",
    "FullyShardedDataParallel": """
net = FullyShardedDataParallel(net, device_id=torch.device("cpu"))
""",
}

#: Two processes that send each other activations and gradients, and collect and share numbers.
PIPELINE = """
from datetime import timedelta

import torch
import torch.distributed as dist

torch.use_deterministic_algorithms(True)
dist.init_process_group("gloo", timeout=timedelta(seconds=120))
rank = dist.get_rank()
torch.manual_seed(0)
net = torch.nn.Linear(4, 8) if rank == 0 else torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(net.parameters(), 1e-2)
hold, shared = torch.empty(16, 8), torch.empty(1)
for run in range(5):
    optimizer.zero_grad()
    fresh = torch.empty(16, 8)
    memory = hold if run % 2 else fresh
    if rank == 0:
        out = net(torch.ones(16, 4)) / (1.0 if run < BAD else 0.0)
        dist.send(out.detach(), 1)
        dist.recv(memory, 1)
        out.backward(memory)
    else:
        dist.recv(memory, 0)
        given = memory.clone().requires_grad_()
        loss = net(given).square().mean()
        loss.backward()
        dist.send(given.grad, 0)
    optimizer.step()
    parts = [torch.empty(1) for _ in range(2)]
    dist.all_gather(parts, torch.full((1,), float(run)))
    dist.broadcast(shared if rank else torch.ones(1), 0)
    swapped = torch.empty(2)
    dist.all_to_all_single(swapped, torch.ones(2))
    print("TOLD", torch.cat([*parts, shared if rank else parts[0], swapped]).tolist(), flush=True)
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    return Programs(environment(tmp_path_factory.mktemp("programs")))


def _commands(level: str, *more: str) -> list[str]:
    asked = ["-c", f"config set level {level}"] if level != "auto" else []
    return [*asked, "-c", "run -f", *more]


@pytest.mark.parametrize("level", LEVELS)
def test_what_is_read_was_written(programs: Programs, tmp_path: Path, level: str) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM.replace("READ", "at + 1"))
    done = programs.debugged("--batch", *_commands(level), path)
    assert "no tensor passed" in done.err, done.out + done.err
    assert re.findall("TOLD.*", done.out) == re.findall("TOLD.*", programs.plain(path).out)


@pytest.mark.parametrize("level", LEVELS)
def test_what_is_read_was_never_written(programs: Programs, tmp_path: Path, level: str) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM.replace("READ", "at + 2"))
    done = programs.debugged("--batch", *_commands(level), path)
    # Who has made the memory is seen, or not.
    came_in = r"It began in \[Input\] \S+\s.*\nWhy: +it came in from outside"
    assert re.search(rf"{came_in}|\nWhy: +it reads memory that was never written", done.out), done


@pytest.mark.parametrize("level", ["auto", "modules"])
@pytest.mark.parametrize("way", SHARDS)
def test_sharded_weights_that_overflow(
    programs: Programs, tmp_path: Path, way: str, level: str
) -> None:
    path = tmp_path / "program.py"
    path.write_text(
        SHARDED.replace("SHARD\n", SHARDS[way]).replace("1e-4", "1e30").replace("BAD", "9")
    )
    plain = programs.ranks(path)
    done = programs.ranks("-m", "tfdbg_cli", "--batch", *_commands(level), path)
    # Who makes a call again that gathers parameters is out of step with the other rank.
    assert re.findall("TOLD.*", done[0].out) == re.findall("TOLD.*", plain[0].out), done
    assert "training run #2" in done[0].out + done[1].out


@pytest.mark.parametrize("level", [*sample(LEVELS, 2)])
@pytest.mark.parametrize("way", SHARDS)
def test_sharded_parameters(programs: Programs, tmp_path: Path, way: str, level: str) -> None:
    path = tmp_path / "program.py"
    path.write_text(SHARDED.replace("SHARD\n", SHARDS[way]).replace("BAD", "6"))
    plain = programs.ranks(path)
    done = programs.ranks("-m", "tfdbg_cli", "--batch", *_commands(level), path)
    # A look at a sharded tensor that asks the other rank for its part waits for it for ever.
    assert re.findall("TOLD.*", done[0].out) == re.findall("TOLD.*", plain[0].out), done
    begins = re.findall(r"It began in (\[div\] rank_\d/div:0)", done[0].out + done[1].out)
    assert begins, done
    assert "training run #7" in done[0].out + done[1].out


@pytest.mark.parametrize("level", LEVELS)
def test_what_another_process_sends(programs: Programs, tmp_path: Path, level: str) -> None:
    path = tmp_path / "program.py"
    path.write_text(PIPELINE.replace("BAD", "9"))
    for done in programs.ranks("-m", "tfdbg_cli", "--batch", *_commands(level), path):
        assert "no tensor passed" in done.err, done
    path.write_text(PIPELINE.replace("BAD", "3"))
    done = programs.ranks("-m", "tfdbg_cli", "--batch", *_commands(level), path)
    assert re.search(r"It began in \[div\] rank_0/div:0", done[0].out + done[1].out), done
