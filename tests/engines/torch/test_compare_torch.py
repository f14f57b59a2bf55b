"""Training runs of PyTorch that part at a known op."""

import pytest
from planted_kit import Planted
from program_server import Programs
from samples import sample

_PROGRAM = """
import sys

import torch
import torch.nn.functional as F
from torch import nn

variant = sys.argv[1]
torch.manual_seed(1 if variant == "seed" else 0)


class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.norm = nn.LayerNorm(size, eps=1e-4 if variant == "eps" else 1e-5)
        self.up = nn.Linear(size, 2 * size)
        self.down = nn.Linear(2 * size, size)

    def forward(self, x):
        hidden = torch.relu(self.up(self.norm(x))) * (1.001 if variant == "factor" else 1.0)
        if variant == "bf16":
            hidden = hidden.bfloat16().float()
        return x + self.down(hidden)


class Net(nn.Module):
    def __init__(self, size=32):
        super().__init__()
        self.embed = nn.Linear(8, size)
        self.blocks = nn.Sequential(Block(size), Block(size))
        self.head = nn.Linear(size, 8)

    def forward(self, x):
        found = self.blocks(self.embed(x)).view(4, 4, -1)
        found = found.transpose(1, 0 if variant == "view" else 1)
        return self.head((found * 1.0).reshape(16, -1))


class Renamed(nn.Module):
    def __init__(self, size=32):
        super().__init__()
        self.embed = nn.Linear(8, size)
        self.layers = nn.Sequential(Block(size), Block(size))
        self.head = nn.Linear(size, 8)

    def forward(self, x):
        found = self.layers(self.embed(x)).view(4, 4, -1).transpose(1, 1)
        return self.head((found * 1.0).reshape(16, -1))


model = Renamed() if variant == "renamed" else Net()
if variant == "transposed":
    with torch.no_grad():
        model.head.weight[:, :8] = model.head.weight[:, :8].T.clone()
parameters = list(model.parameters())
if variant == "stale":
    parameters = parameters[:-1]
optimizer = torch.optim.SGD(parameters, lr=0.1)
generator = torch.Generator().manual_seed(7)
for _ in range(3):
    x = torch.randn(16, 8, generator=generator)
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), x)
    loss.backward()
    if variant == "clipped":
        nn.utils.clip_grad_norm_(parameters, 0.01)
    optimizer.step()
"""


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory, programs: Programs) -> Planted:
    folder = tmp_path_factory.mktemp("planted")
    program = folder / "program.py"
    program.write_text(_PROGRAM)

    def run(*arguments: str) -> tuple[int, str, str]:
        done = programs.debugged(*arguments)
        return done.status, done.out, done.err

    return Planted(run, program, folder)


@pytest.mark.parametrize(
    ("variant", "where"),
    [
        *sample(
            [
                ("seed", "embed.weight:0: it was different at the start of this run."),
                ("eps", "blocks.0.norm/native_layer_norm:0: made here: its inputs agree."),
                ("factor", "blocks.0/mul:0: made here: its inputs agree."),
                (
                    "bf16",
                    "blocks.0.down/addmm:0: made here: its inputs agree.",
                ),
                ("view", "transpose:0: made here: its inputs agree."),
                ("transposed", "head.weight:0: it was different at the start of this run."),
                ("stale", "head.bias:0: it was different at the start of this run."),
                (
                    "clipped",
                    "optimizer/SGD/embed.weight/add_:0: made here: only A computes it from "
                    "gradients/embed.weight/AccumulateGrad/detach:0, only B from foreach_mul_:0.",
                ),
                ("renamed", ""),
            ],
            3,
        )
    ],
)
def test_runs_part_where_they_were_made_to(planted: Planted, variant: str, where: str) -> None:
    assert planted.parted(variant) == where


def test_a_parameter_that_is_stale_was_written_by_an_earlier_run(planted: Planted) -> None:
    _, out, _ = planted.run(
        *("--batch", "--dump-dir", str(planted.kept("none")), "-c", "use 3"),
        *("-c", f"compare {planted.kept('stale')} head.bias"),
    )
    assert "It was written by run 2 in A, before run 1 in B." in out


def test_a_view_of_both_runs_side_by_side(planted: Planted) -> None:
    words = "-c", "use 0", "-c", f"compare {planted.kept('view')} transpose"
    _, out, err = planted.run("--batch", "--dump-dir", str(planted.kept("none")), *words)
    assert "[transpose] transpose:0  float32 [4, 4, 32]" in out, err
    assert "made here: its inputs agree\n" in out and "matched by name\n" in out
    assert 'found = found.transpose(1, 0 if variant == "view" else 1)' in out


def test_lists_begin_where_the_runs_part(planted: Planted) -> None:
    first = planted.compared("factor")[0]
    # By the last run the parameters have long been different.
    assert first["tensor"] == "embed.weight:0"
    assert first["said"] == "it was different at the start of this run"
    assert planted.compared("renamed") == []


@pytest.mark.parametrize(
    ("variant", "run", "says"),
    [
        ("stale", 2, "head.bias:0: it was different at the start of this run."),
        ("view", 1, "transpose:0: made here: its inputs agree."),
    ],
)
def test_a_training_stops_at_the_first_run_that_differs(
    planted: Planted, variant: str, run: int, says: str
) -> None:
    words = ["--batch", "-c", f"run -d {planted.kept('none')}", str(planted.program), variant]
    status, out, err = planted.run(*words)
    assert status == 1, err
    assert f"--- run-end: training run #{run}:" in out
    assert f"They part at {says}" in out
