"""Runs programs twice: as python does, and under the debugger."""

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from program_server import shared

ROOT = Path(__file__).resolve().parents[2]


class Done(NamedTuple):
    status: int
    stdout: str
    stderr: str

    @property
    def notes(self):
        return [line for line in self.stderr.splitlines() if line.startswith("tfdbg: ")]

    @property
    def own_stderr(self):
        lines = self.stderr.splitlines(keepends=True)
        return "".join(line for line in lines if not line.startswith("tfdbg: "))


class Runner:
    """Runs in ``folder`` with a configuration and a history of its own."""

    def __init__(self, folder):
        self.folder = folder
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "XDG_DATA_HOME": str(folder / "data"),
            "XDG_STATE_HOME": str(folder / "state"),
            "TF_CPP_MIN_LOG_LEVEL": "3",
        }

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def python(self, *arguments, cwd=None, stdin=""):
        done = subprocess.run(
            [sys.executable, *map(str, arguments)],
            cwd=cwd or self.folder,
            env=self.environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def forked(self, modules, *arguments):
        """The same in a copy of a process that has imported modules already; no stdin."""
        done = shared(*modules).python(*arguments)
        return Done(done.status, done.out, done.err)

    def tfdbg(self, *arguments, cwd=None, stdin=""):
        return self.python("-m", "tfdbg_cli", *arguments, cwd=cwd, stdin=stdin)

    def same(self, *arguments, cwd=None):
        """The run under the debugger, once it is known to be the same as plain python's."""
        plain = self.python(*arguments, cwd=cwd)
        debugged = self.tfdbg(*arguments, cwd=cwd)
        assert debugged.stdout == plain.stdout
        assert debugged.own_stderr == plain.stderr
        assert debugged.status == plain.status
        return debugged


@pytest.fixture
def runner(tmp_path):
    folder = tmp_path / "here"
    folder.mkdir()
    return Runner(folder)
