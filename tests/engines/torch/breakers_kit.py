"""Small programs that make watching hard, run alone and under the debugger, and compared."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from program_server import ROOT, BothWays, Done, Programs, environment

__all__ = ["EVERY_RUN", "MARK", "ROOT", "Both", "both", "lines_of", "nodes", "server", "shown"]


#: What lines of the programs begin with; all others are the debugger's.
MARK = "program:"

#: More stops than any of the programs has.
EVERY_RUN = ("run", *("lt", "run") * 12)

# What all programs begin with.
_PRELUDE = f"""
import hashlib
import sys

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


def tell(*values):
    print({MARK!r}, *values, flush=True)


def digest(*things):
    \"\"\"The bits of tensors and of the parameters and buffers of modules.\"\"\"
    tensors = []
    for thing in things:
        tensors += [thing] if isinstance(thing, torch.Tensor) else thing.state_dict().values()
    found = hashlib.sha1()
    for tensor in tensors:
        found.update(tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()[:12]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.second = nn.Linear(8, 2)

    def forward(self, x):
        return self.second(torch.tanh(self.first(x)))


def train(model, count=3, optimizer=None):
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(count):
        optimizer.zero_grad()
        loss = model(torch.randn(6, 4)).square().mean()
        loss.backward()
        optimizer.step()
    return loss


torch.manual_seed(0)
"""


class Both(BothWays):
    """Runs programs both ways.

    Attributes:
        folder: where they are.
    """

    def __init__(self, programs: Programs, folder: Path, settings: Path) -> None:
        super().__init__(programs, folder, _PRELUDE)
        self._settings = settings

    def debugged(self, path: Path, *commands: str) -> Done:
        """What it does under these commands; the debugger must not have failed.

        Args:
            path: of the program.
            commands: of the debugger; or ``--check`` and a filter.
        """
        for path_to_settings in self._settings.rglob("config.json"):
            path_to_settings.unlink()
        if commands[:1] == ("--check",):
            options = [*commands, "--check-only"]
        else:
            options = ["--batch", *(part for each in commands for part in ("-c", each))]
        done = self.programs.debugged(*options, "--engine", "torch", path)
        assert "the debugger failed" not in done.err, done.err
        return done

    def compare(self, path: Path, *commands: str) -> str:
        """What is shown under these commands; the program does what it does alone."""
        alone, done = self.alone(path), self.debugged(path, *commands)
        assert lines_of(alone), alone.err
        assert lines_of(done) == lines_of(alone), done.err
        # 1 and 3 are the check's own: nothing was checked, or something passed.
        own = (1, 3) if commands[:1] == ("--check",) else ()
        assert done.status == alone.status or done.status in own, done.err
        assert errors_of(done) == errors_of(alone), (done.err, alone.err)
        return done.out

    def __call__(self, text: str, *commands: str) -> str:
        """Compare a program under each way to watch; what is shown under the first of them.

        Args:
            text: of the program.
            commands: default: each run is debugged and listed.
        """
        path = self.write(text)
        out = self.compare(path, *(commands or EVERY_RUN))
        self.compare(path, "run -f has_inf_or_nan")
        self.compare(path, "run -t 1000")
        return out


def lines_of(done: Done) -> list[str]:
    """What the program has printed."""
    return [line for line in done.out.splitlines() if line.startswith(MARK)]


def errors_of(done: Done) -> list[str]:
    """The program's lines on standard error, without the times of logged ones.

    The debugger's own are those that tell at the end what was waited for and didn't come.
    """
    lines = [line for line in done.err.splitlines() if not line.startswith("tfdbg: ")]
    return [re.sub(r"^[VIWE]\d{4} [^]]*]", "", line) for line in lines]


def shown(out: str) -> str:
    """What the debugger has shown, from the first stop on."""
    return "\n".join(line for line in out.splitlines() if not line.startswith(MARK))


def nodes(out: str, run: int = 0) -> list[str]:
    """The names of the tensors in one of the lists that were shown."""
    part = out.split("--- lt ---")[run + 1].split("\n---", maxsplit=1)[0]
    return re.findall(r"(\S+):0$", part, re.MULTILINE)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> tuple[Programs, Path]:
    """Runs programs in a process that has imported PyTorch."""
    folder = tmp_path_factory.mktemp("breakers")
    return Programs(environment(folder)), folder


@pytest.fixture
def both(server: tuple[Programs, Path], tmp_path: Path) -> Both:
    """Runs programs alone and under the debugger."""
    programs, settings = server
    return Both(programs, tmp_path, settings)
