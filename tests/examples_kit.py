"""The examples as processes of their own: plain, and under the debugger."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

__all__ = ["ENGINES", "EXAMPLES", "ROOT", "Done", "debug", "line_of", "needs", "python", "screens"]

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"


_MARKERS = ("tensorflow", "torch", "jax")


def needs(*modules):
    """The marks of what needs modules."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    marks = [pytest.mark.skipif(bool(missing), reason=f"needs {', '.join(missing)}")]
    return marks + [getattr(pytest.mark, name) for name in _MARKERS if name in modules]


ENGINES = ["numpy", pytest.param("tensorflow", marks=needs("tensorflow"))]


class Done:
    """A program that has ended."""

    def __init__(self, done):
        self.status, self.out, self.err = done.returncode, done.stdout, done.stderr

    @property
    def tensors(self):
        """The names that the lists of tensors have in their last column."""
        return re.findall(r"^(?:\[|\w+ +(?:\d|ok)).* (\S+:\d+(?: \(#\d+\))?)$", self.out, re.M)


def python(*arguments, stdin="", cwd=None, warnings="ignore"):
    """``python ARGUMENTS``; no program of the examples ends with a traceback."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": warnings,
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "200",
    }
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env=environment,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert "Traceback (most" not in done.stderr, done.stderr
    return Done(done)


def debug(commands, name, *arguments):
    """An example, unmodified, in batch mode."""
    options = [part for command in commands for part in ("-c", command)]
    return python("-m", "tfdbg_cli", "--batch", *options, EXAMPLES / name, *arguments)


def screens(output):
    """Command -> the lines that it printed in batch mode."""
    pieces = re.split(r"^--- (.*) ---$", output, flags=re.M)
    shown = (piece.strip("\n").splitlines() for piece in pieces[2::2])
    return dict(zip(pieces[1::2], shown, strict=True))


def line_of(name, text):
    """The number of the first line of an example with a text."""
    lines = (EXAMPLES / name).read_text(encoding="utf-8").splitlines()
    return next(number for number, found in enumerate(lines, 1) if text in found)
