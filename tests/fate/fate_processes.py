"""Programs as processes of their own, with files or a terminal as streams, and who sits there."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from long_run import StoppedError, stopping

__all__ = ["LIMIT", "ROOT", "Client", "Companion", "Done", "Processes", "Typist"]

ROOT = Path(__file__).resolve().parents[2]

#: Seconds after which a program is killed.
LIMIT = 120.0


@dataclass(frozen=True)
class Done:
    """A program that has ended: its exit status (of a signal: less than 0) and what it left."""

    status: int | str
    stdout: bytes
    stderr: bytes
    files: Mapping[str, bytes]


class Companion:
    """Who sits at a program while it runs; this one does nothing."""

    #: For stdin and stdout, in the place of files.
    terminal: str | None = None

    def turn(self) -> None:
        """Look what there is to do; called all the while."""

    def close(self) -> None:
        """The program has ended."""


class Typist(Companion):
    """Types a command at each prompt of the line UI, the last one again and again.

    Args:
        commands: to type.
    """

    def __init__(self, commands: Sequence[str]) -> None:
        self._commands = list(commands)
        self._master, self._slave = os.openpty()
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("4H", 40, 120, 0, 0))
        self.terminal = os.ttyname(self._slave)
        self.shown = ""
        self._new = ""

    def turn(self) -> None:
        while select.select([self._master], [], [], 0)[0]:
            text = os.read(self._master, 1 << 16).decode("utf-8", "replace")
            self.shown += text
            self._new += text
        # A stop begins with its title; what is drawn again at a key is no new prompt.
        if re.search(r"(?s)(--- run-|\x1b\[\?2004h).*(tfdbg>|›) ", self._new):
            command = self._commands.pop(0) if len(self._commands) > 1 else self._commands[0]
            os.write(self._master, f"{command}\r".encode())
            self._new = ""

    def close(self) -> None:
        os.close(self._master)
        os.close(self._slave)


class Client(Companion):
    """Attaches once the program waits for somebody, looks, and leaves; again, if it was cut off.

    Args:
        address: where the program listens.
        err: the program's stderr.
        environment: of the client.
    """

    def __init__(self, address: str, err: Path, environment: Mapping[str, str]) -> None:
        self._arguments = ["-m", "tfdbg_cli", "attach", "--batch"]
        for command in ("ri", "run", "lt", "exit --detach"):
            self._arguments += ["-c", command]
        self._arguments.append(address)
        self._err, self._environment = err, environment
        #: What it says on stderr.
        self.said = err.with_name("client-stderr")
        self.said.write_bytes(b"")
        self._process: subprocess.Popen[bytes] | None = None

    def command(self) -> list[str]:
        """The arguments of python for the next one."""
        return self._arguments

    def is_awaited(self) -> bool:
        """Whether the program has said that it waits."""
        return b" waits for: " in self._err.read_bytes()

    def turn(self) -> None:
        if self._process is not None and self._process.poll():
            self._process = None
        if self._process is None and self.is_awaited():
            with self.said.open("ab") as said:
                self._process = subprocess.Popen(
                    [sys.executable, *self.command()],
                    env=dict(self._environment),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=said,
                    start_new_session=True,
                )

    def close(self) -> None:
        if self._process is not None:
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


class Processes:
    """Starts programs one after the other, in a folder that is always the same.

    Args:
        folder: for all that they need.
        modules: imported already where programs start; none: each is a fresh python.
    """

    def __init__(self, folder: Path, *modules: str) -> None:
        self.place = folder / "here"
        self._streams = [folder / name for name in ("stdin", "stdout", "stderr")]
        self.own_out = folder / "own-stdout"
        homes = ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "TORCHINDUCTOR_CACHE_DIR")
        self.environment = {
            **{name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")},
            **{name: str(folder / name) for name in homes},
            "PYTHONPATH": str(ROOT),
            "TMPDIR": str(folder / "tmp"),
            "COLUMNS": "100",
            "TERM": "xterm-256color",
            "PROMPT_TOOLKIT_NO_CPR": "1",
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
            "GRPC_ENABLE_FORK_SUPPORT": "0",
        }
        for name in ("here", "tmp", *homes):
            (folder / name).mkdir(parents=True, exist_ok=True)
        self._server = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("fate_server.py")), *modules],
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,  # a line that has been read ahead isn't seen by select
            start_new_session=True,  # a Ctrl-C is for the script that asks
        )
        self._has_begun = False

    @property
    def err(self) -> Path:
        """Where stderr goes."""
        return self._streams[2]

    def run(
        self, text: str, arguments: Sequence[str], companion: Companion, is_apart: bool
    ) -> Done:
        """Run a program to its end, alone in its folder.

        Args:
            text: of the program.
            arguments: of python, in front of ``script.py``.
            companion: who sits at it.
            is_apart: whether the program's stdout is another file than the debugger's.
        """
        subprocess.run(["rm", "-rf", self.place], check=True, start_new_session=True)
        self.place.mkdir()
        (self.place / "script.py").write_text(text, encoding="utf-8")
        for path in (*self._streams, self.own_out):
            path.write_bytes(b"")
        streams = [str(path) for path in self._streams]
        if companion.terminal is not None:
            streams[:2] = [companion.terminal] * 2
        status = self._ask(
            {
                "arguments": [*arguments, "script.py"],
                "folder": str(self.place),
                "environment": self.environment
                | ({"FATE_STDOUT": str(self.own_out)} if is_apart else {}),
                "streams": streams,
            },
            companion,
        )
        stdout = self.own_out if is_apart else self._streams[1]
        return Done(status, stdout.read_bytes(), self.err.read_bytes(), _files(self.place))

    def _ask(self, request: object, companion: Companion) -> int | str:
        server = self._server
        assert server.stdin is not None and server.stdout is not None
        server.stdin.write(json.dumps(request).encode() + b"\n")
        server.stdin.flush()
        child = self._answer("child")
        end = time.monotonic() + LIMIT
        late = False
        try:
            while not select.select([server.stdout], [], [], 0.02)[0]:
                companion.turn()
                self._end_if_asked()
                if time.monotonic() > end and not late:
                    late = True
                    _kill(child)
            status = self._answer("status")
        except BaseException:
            _kill(child)
            raise
        finally:
            companion.close()
        _kill(child)  # what the program has left running is not to meet the next one
        return f"killed after {LIMIT:.0f} s" if late else status

    def _answer(self, name: str) -> int:
        assert self._server.stdout is not None
        # Once it has imported its modules it starts what it is asked to.
        while not (self._has_begun or select.select([self._server.stdout], [], [], 0.1)[0]):
            self._end_if_asked()
        self._has_begun = True
        line = self._server.stdout.readline().decode()
        told, _, number = line.partition(" ")
        if told != name:
            raise RuntimeError(f"The server was to tell a {name}, not {line!r}.")
        return int(number)

    def _end_if_asked(self) -> None:
        if stopping.is_set():
            self._server.kill()
            raise StoppedError

    def close(self) -> None:
        """End the server."""
        if stopping.is_set():
            self._server.kill()
        self._server.communicate()


def _kill(child: int) -> None:
    """End a child that leads a session, with all in it."""
    if child < 2:  # all processes, or those of ours
        raise ValueError(f"No child is {child}.")
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)


def _files(folder: Path) -> dict[str, bytes]:
    paths = [path for path in sorted(folder.rglob("*")) if path != folder / "script.py"]
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b"(no file)"
        for path in paths
        if "__pycache__" not in path.parts
    }
