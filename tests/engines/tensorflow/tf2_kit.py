"""Programs of TensorFlow 2 with a planted mistake, run alone and under the debugger."""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path

import pytest
from program_server import BothWays, Done, Programs, environment

__all__ = ["EVERY_RUN", "IS_2_12", "MARK", "Both", "both", "listed", "needs_keras_3", "server"]

#: What lines of the programs begin with; all others are the debugger's.
MARK = "program:"

#: The first runs one by one, and the rest alone.
EVERY_RUN = ("run", *("lt", "run") * 5, "exit --detach")


#: TensorFlow 2.12, whose Keras is the second.
IS_2_12 = int(version("keras").partition(".")[0]) < 3


def needs_keras_3(text: str) -> None:
    """Skip a test whose program uses Keras, where that is an older one (with TensorFlow 2.12)."""
    if "keras" in text and IS_2_12:
        pytest.skip("needs Keras 3")


_PRELUDE = f"""
import numpy as np
import tensorflow as tf


def tell(*values):
    print({MARK!r}, *values, flush=True)
"""


class Both(BothWays):
    """Runs programs both ways.

    Attributes:
        folder: where they are.
    """

    def __init__(self, programs: Programs, folder: Path) -> None:
        super().__init__(programs, folder, _PRELUDE)

    def debugged(self, path: Path, *commands: str) -> Done:
        """What it does under these commands; the debugger must not have failed."""
        options = [part for command in commands for part in ("-c", command)]
        done = self.programs.debugged("--batch", *options, path)
        for text in ("the debugger failed", "can't be watched"):
            assert text not in done.err, done.err
        return done

    def same(self, path: Path, *commands: str) -> Done:
        """What is shown under these commands; the program does what it does alone."""
        alone, done = self.alone(path), self.debugged(path, *commands)
        assert _lines(alone), alone.err
        assert _lines(done) == _lines(alone), done.err
        if not any("commands left" in line or "not run" in line for line in done.err.splitlines()):
            assert done.status == alone.status, done.err
        return done

    def __call__(self, text: str, *commands: str) -> Done:
        """A program does the same in each way to watch; what is shown under the first of them."""
        path = self.write(text)
        done = self.same(path, *(commands or EVERY_RUN))
        self.same(path, "run -f has_inf_or_nan -fenn .")
        self.same(path, "run -t 1000")
        return done

    def finds(self, text: str, node: str, commands: tuple[str, ...] = ()) -> Done:
        """A program's first bad tensor is this node's, made at the line with ``# BAD``."""
        path = self.write(text)
        lines = path.read_text().splitlines()
        (number,) = (at for at, line in enumerate(lines, 1) if "# BAD" in line)
        source = lines[number - 1].strip()
        shown = ("lt -f origin_of_nonfinite", f"ni -t {node}", *commands)
        done = self.same(path, "run -f origin_of_nonfinite", *shown)
        assert listed(done.out)[:1] == [node], done.out + done.err
        # Of what was loaded, or made when a gradient was traced, the call is known.
        assert re.search(rf"(Made|Called) at: program.py:{number} in", done.out), done.out
        assert source.rpartition("  # BAD")[0] in done.out, done.out
        self.same(path, *EVERY_RUN)
        return done


def listed(out: str, number: int = 0) -> list[str]:
    """The nodes of the tensors in one of the lists that were shown."""
    parts = re.split(r"^--- lt.*---$", out, flags=re.MULTILINE)
    part = parts[number + 1].split("\n---", maxsplit=1)[0]
    return re.findall(r"(\S+):\d+(?: \(#\d+\))?$", part, re.MULTILINE)


def _lines(done: Done) -> list[str]:
    return [line for line in done.out.splitlines() if line.startswith(MARK)]


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    """Runs programs in a process that has imported TensorFlow and Keras."""
    home = environment(tmp_path_factory.mktemp("programs"))
    return Programs({**home, "TF_CPP_MIN_LOG_LEVEL": "3"}, ("tensorflow", "keras"))


@pytest.fixture
def both(server: Programs, tmp_path: Path) -> Both:
    """Runs programs alone and under the debugger."""
    return Both(server, tmp_path)
