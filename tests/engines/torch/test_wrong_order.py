"""What is said of a launcher that is debugged is a command line that works."""

import os
import shlex
import subprocess
import sys

import pytest
from samples import night, sample

LAUNCHERS = ("torch.distributed.run", "torch.distributed.launch")
PROGRAM = """
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
x = torch.tensor([1.0, 0.0], requires_grad=True)
optimizer = torch.optim.SGD([x], lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    torch.log(x).sum().backward()
    optimizer.step()
dist.destroy_process_group()
"""


@night
@pytest.mark.parametrize("module", [*sample(LAUNCHERS, 2)])
def test_the_order_that_is_said_debugs_the_ranks(tmp_path, module):
    (tmp_path / "train.py").write_text(PROGRAM)

    def run(*words):
        return subprocess.run(
            [sys.executable, *words],
            cwd=tmp_path,
            env={**os.environ, "XDG_CONFIG_HOME": str(tmp_path), "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    launcher = ("-m", module, "--nproc-per-node", "2", "train.py")
    done = run("-m", "tfdbg_cli", "--batch", "-c", "run -f has_inf_or_nan", *launcher)
    note = next(line for line in done.stderr.splitlines() if line.startswith("tfdbg: "))
    words = shlex.split(note.partition("To debug them: ")[2])
    start = ["-m", "torch.distributed.run"] if words[0] == "torchrun" else words[1:3]
    rest = words[1:] if words[0] == "torchrun" else words[3:]
    done = run(*start, *rest)
    assert done.returncode == 0, done.stderr
    assert "run-end: on ranks 0, 1" in done.stdout
    assert "rank_1/gradients/LogBackward0/div:0" in done.stdout
