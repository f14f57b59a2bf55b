"""Programs that listen, and the terminals and sockets that attach to them."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from terminal_kit import Terminal

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """\
import sys, time
from tfdbg_cli.engines import numpy as tf

steps, pause = int(sys.argv[1]), float(sys.argv[2])
x = tf.placeholder(tf.float32, [None], name="x")
y = tf.log(x, name="y")
z = tf.multiply(y, 2.0, name="z")
with tf.Session() as session:
    for step in range(steps):
        session.run(z, {x: [1.0, float(step != 7)]})
        print("step", step, flush=True)
        time.sleep(pause)
if len(sys.argv) > 3:
    raise ValueError("the data were bad")
"""


class Job:
    """A program under the debugger without a terminal.

    Args:
        folder: for its files.
        arguments: of tfdbg, in front of the script.
        program: the source of the script.
        args: of the script.
        launcher: False: the script runs as python runs it.
    """

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        program: str = PROGRAM,
        args: tuple[object, ...] = (20, 0.02),
        launcher: bool = True,
    ) -> None:
        self.environment = os.environ | {"PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}
        script = folder / "train.py"
        script.write_text(program, encoding="utf-8")
        self.folder = folder
        number = len(list(folder.glob("*.out")))
        self._out, self._err = folder / f"{number}.out", folder / f"{number}.err"
        command = [sys.executable, *(["-m", "tfdbg_cli"] if launcher else [])]
        with self._out.open("w") as out, self._err.open("w") as err:
            self.process = subprocess.Popen(
                [*command, *arguments, str(script), *map(str, args)],
                cwd=folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )

    @property
    def out(self) -> str:
        return self._out.read_text()

    @property
    def err(self) -> str:
        return self._err.read_text()

    @property
    def steps(self) -> int:
        """How many steps it has printed."""
        return self.out.count("step")

    @property
    def address(self) -> str:
        """Where it listens, as it says."""
        until(lambda: "tfdbg_cli attach " in self.err or self.process.poll() is not None, self)
        found = re.search(r"tfdbg_cli attach (\S+)", self.err)
        assert found, self.err
        return found[1]

    @property
    def port(self) -> int:
        return int(self.address)

    @property
    def tokens(self) -> list[Path]:
        return list((Path(os.environ["XDG_STATE_HOME"]) / "tfdbg_cli" / "attach").glob("*.token"))

    def waits(self) -> None:
        """Wait until it waits for a client."""
        until(lambda: "waits for" in self.err, self)

    def ends(self) -> int:
        """Wait for its end; its exit status."""
        return self.process.wait(20)

    def attach(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """A client without a terminal, from its beginning to its end."""
        return self._client(*arguments, self.address, stdin=stdin)

    def _client(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "tfdbg_cli", "attach", *arguments],
            env=self.environment,
            cwd=self.folder,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

    def batch(self, *commands: str) -> subprocess.CompletedProcess[str]:
        """The same with commands."""
        return self.attach("--batch", *_options(commands))

    def bare(self, *commands: str) -> subprocess.CompletedProcess[str]:
        """The same without saying where."""
        return self._client("--batch", *_options(commands))


def _options(commands: tuple[str, ...]) -> list[str]:
    return [part for command in commands for part in ("-c", command)]


def until(condition: Callable[[], bool], job: Job | None = None, seconds: float = 15.0) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not condition():
        told = "" if job is None else f"{job.out}\n{job.err}"
        assert time.monotonic() < end, f"it never came to that\n{told}"
        time.sleep(0.01)


class Screen(Terminal):
    """A client on a pseudo-terminal."""

    def __init__(self, job: Job, *arguments: str, size: tuple[int, int] = (100, 30)) -> None:
        own = {name: text for name, text in job.environment.items() if name != "NO_COLOR"}
        command = (sys.executable, "-m", "tfdbg_cli", "attach", *arguments, job.address)
        super().__init__(size=size, command=command, cwd=job.folder, **own)


def connected(job: Job) -> socket.socket:
    """A bare connection to a program."""
    made = socket.create_connection(("127.0.0.1", job.port), 10)
    made.settimeout(10)
    return made
