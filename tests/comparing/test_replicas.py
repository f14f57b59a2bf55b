"""Replicas that should be equal, of which one was left out of an all-reduce."""

import pytest
from program_server import Programs, debugger_in, environment

pytest.importorskip("torch")
pytestmark = pytest.mark.torch

PROGRAM = """
import os, sys
import torch
import torch.distributed as dist

variant, meet = sys.argv[1:]
rank = int(os.environ["RANK"])
dist.init_process_group("gloo", init_method="file://" + meet, rank=rank, world_size=2)
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
torch.manual_seed(rank)
for step in range(3):
    x, y = torch.randn(16, 4), torch.randn(16, 2)
    optimizer.zero_grad()
    (net(x) - y).square().mean().backward()
    for parameter in net.parameters():
        is_left_out = variant == "bad" and rank == 1 and parameter.shape == (2, 8)
        dist.all_reduce(parameter.grad.clone() if is_left_out else parameter.grad)
        parameter.grad /= 2
    optimizer.step()
dist.destroy_process_group()
"""


def test_a_rank_without_an_all_reduce(tmp_path):
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    programs = Programs(environment(tmp_path))
    for variant in ("good", "bad"):
        keep = "--keep-dumps", "-c", "run -k", "--dump-root", tmp_path / variant
        words = "--batch", *keep, program, variant, tmp_path / f"meet_{variant}"
        for each in programs.ranks("-m", "tfdbg_cli", *words):
            assert each.status == 0, each.err

    def told(*words):
        done = debugger_in(tmp_path, "--batch", *map(str, words))
        return done.returncode, done.stdout

    # Rank by rank beside a good run: the op, though the ranks of each have other batches.
    status, text = told("--dump-dir", tmp_path / "good", "--against", tmp_path / "bad")
    assert status == 1
    said = "They part at rank_1/div__2:0: made here: only A computes it from "
    assert f"{said}rank_1/c10d.allreduce__2:0, only B from rank_1/gradients/2.weight/" in text
    # One rank beside the other: which parameter, and since when.
    ranks = [tmp_path / "bad" / f"rank_{rank}" for rank in (0, 1)]
    compare = f"compare {ranks[1]} -t Parameter"
    status, text = told("--dump-dir", ranks[0], "-c", compare, "-c", "use 1", "-c", compare)
    assert status == 1
    last, before = text.split("run_000002 -")
    assert "Of the runs before, run_000002 is the first that differs in it." in last
    assert "4 pair(s) of tensors, 1 beyond the bar." in before
    assert "They part at 2.weight:0: it was different at the start of this run." in before
    assert "No run before differs in it: run_000001 has left it so." in before
    assert told("--dump-dir", ranks[0], "-c", "use 0", "-c", compare)[0] == 0
