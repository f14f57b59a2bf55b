"""The examples as processes of their own: plain, and under the debugger."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from program_server import Programs, framework_of

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

    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err

    @property
    def tensors(self):
        """The names that the lists of tensors have in their last column."""
        return re.findall(
            r"^(?:\[|\w+ +(?:\d|ok)|[\d.]+[kMG]? +[A-Z]).* (\S+:\d+(?: \(#\d+\))?)$", self.out, re.M
        )


def python(*arguments, stdin="", cwd=None, warnings="ignore"):
    """``python ARGUMENTS``; no program of the examples ends with a traceback."""
    if modules := _framework(arguments):
        server = Programs(_environment(warnings), modules, cwd)
        found = server.python(*arguments, stdin=stdin)
        done = Done(found.status, found.out, found.err)
    else:
        done = _process(arguments, stdin, cwd, warnings)
    assert "Traceback (most" not in done.err, done.err
    return done


def _framework(arguments):
    """What a program imports that takes seconds: a process has it already. Empty: nothing."""
    words = list(map(str, arguments))
    scripts = [word for word in words if word.endswith(".py") and os.path.isfile(word)]
    if not scripts or (words[0] == "-m" and words[1] != "tfdbg_cli"):
        return ()
    if "torch" in words:
        return ("torch._dynamo",)
    if "tensorflow" in words:
        return ("tensorflow", "keras")
    return framework_of(Path(scripts[-1]))


def _environment(warnings):
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": warnings,
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "200",
    }


def _process(arguments, stdin, cwd, warnings):
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env=_environment(warnings),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


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
