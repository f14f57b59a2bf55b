"""Sessions of a client: programs and dumps, each in a process of its own that is attached to."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tfdbg_cli.commands.reply import Reply
from tfdbg_cli.commands.shell.parsing import quoted
from tfdbg_cli.common.errors import UserError, one_line
from tfdbg_cli.common.settings import Settings
from tfdbg_cli.common.temporary import make_folder, remove_folder
from tfdbg_cli.net.address import Address, parse_address
from tfdbg_cli.net.tokens import find_token
from tfdbg_cli.ui.remote.connection import Connection, Disconnection, RunningProgram, StoppedProgram
from tfdbg_cli.ui.remote.proxies import RemoteHistory, RemoteService

__all__ = ["STREAMS", "EndedError", "RefusedError", "Session", "attached", "started"]

#: The streams of a program that are kept.
STREAMS = ("stdout", "stderr")


class RefusedError(UserError):
    """The program has refused something; its words are the program's."""


class EndedError(Exception):
    """A process has ended before it could be attached to.

    Attributes:
        status: its exit status.
        output: the end of each of its `STREAMS`.
    """

    def __init__(self, status: int, *output: str) -> None:
        super().__init__(f"It has ended with status {status}.")
        self.status = status
        self.output = dict(zip(STREAMS, output, strict=True))


# A socket's path may be about so long.
_LONGEST_PATH = 100
_BEGIN_SECONDS = 120.0
_END_SECONDS = 1.0
_WIDTH = 160


class Session:
    """One program or dump.

    Args:
        name: what clients call it.
        connection: to its process.
        process: that this server has started; ``None``: it was attached to.
        folder: for its socket and its output, and for what commands write.
    """

    def __init__(
        self,
        name: str,
        connection: Connection,
        folder: str,
        process: subprocess.Popen[bytes] | None = None,
    ) -> None:
        self.name = name
        self.connection = connection
        self.process = process
        self.folder = folder
        self._settings = Settings(None)
        self._history = RemoteHistory(connection)
        #: The stop that a client has seen, or has sent on.
        self.left = 0

    @property
    def at(self) -> str:
        """Where it is, see `Answer.at`."""
        state = self.connection.state
        if isinstance(state, Disconnection):
            if self.process is not None and self.process.poll() is None:
                return "running"  # the debugger in it is at its end, the process not yet
            return "ended" if state.why in ("end", "lost") else state.why
        if isinstance(state, RunningProgram) or state.number <= self.left:
            return "running"
        return state.title_role

    @property
    def title(self) -> str:
        """The title of the stop; empty while there is none."""
        state = self.connection.state
        return state.title if isinstance(state, StoppedProgram) else ""

    def run(self, text: str) -> Reply:
        """Run a command line at the stop.

        Raises:
            UserError: the program is at no stop, or the command is in error.
        """
        state = self.connection.state
        if not isinstance(state, StoppedProgram) or state.number <= self.left:
            ended = isinstance(state, Disconnection)
            raise UserError(
                "The program has ended." if ended else "The program is running.",
                "start begins it again." if ended else "run_until waits for its next stop.",
            )
        service = RemoteService(self.connection, state, self._settings, self._history)
        try:
            reply = service.run(text, _WIDTH)
        except KeyboardInterrupt:
            raise UserError("The command was cancelled.") from None
        if reply.failed:
            assert reply.message is not None
            raise RefusedError(reply.message.text)
        if reply.leave is not None:
            self.left = state.number
        return reply

    def cancel(self) -> None:
        """Cancel the commands at work; a program that runs stops at the end of its run."""
        self.connection.cancel()
        self.connection.request_stop()

    def wait(self, seconds: float) -> bool:
        """Wait until it isn't running any more; whether it still is."""
        until = time.monotonic() + seconds
        while self.at == "running" and time.monotonic() < until:
            version, state = self.connection.seen()
            left = until - time.monotonic()
            if self.process is not None and isinstance(state, Disconnection):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(max(left, 0))
            elif self.at == "running":
                self.connection.wait(version, left)
        return self.at == "running"

    def status(self) -> int | None:
        """The exit status of a process of ours that has ended; ``None``: there is none."""
        return None if self.process is None else self.process.poll()

    def why_ended(self) -> str:
        """The error that the program ended with; empty: it ended well, or hasn't."""
        state = self.connection.state
        return state.text if isinstance(state, Disconnection) else ""

    def output(self, stream: str, first: int, size: int) -> tuple[str, int]:
        """A part of what the program has written.

        Args:
            stream: one of `STREAMS`.
            first: its first byte; negative: counted from the end.
            size: bytes.

        Returns:
            The text, and how many bytes there are in all.

        Raises:
            UserError: the output of this program isn't kept here.
        """
        if self.process is None:
            raise UserError("The output of an attached program isn't here.")
        with open(os.path.join(self.folder, stream), "rb") as file:
            total = file.seek(0, os.SEEK_END)
            file.seek(max(total + first, 0) if first < 0 else min(first, total))
            return file.read(size).decode("utf-8", "replace"), total

    def written(self, command: str, name: str) -> bytes:
        """What a command line writes to a file in the session's own folder.

        Args:
            command: up to the name of the file.
            name: of the file.

        Raises:
            UserError: the command is in error, or the program can't write there, as an attached
                one on another machine can't.
        """
        path = Path(self.folder, name)
        path.unlink(missing_ok=True)
        self.run(f"{command} {quoted(str(path))}")
        try:
            return path.read_bytes()
        except OSError as error:
            raise UserError(f"It can't be brought here: {one_line(error)}.") from None

    def kill(self) -> None:
        """End a program that was started here at once."""
        if self.process is not None and self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def close(self) -> None:
        """End a program that was started here; leave one that was attached to running."""
        if self.process is None:
            self.connection.notify("detach")
        self.connection.close()
        if self.process is not None:
            _end(self.process)
        remove_folder(self.folder)


def attached(name: str, address: str, *, take_over: bool = False) -> Session:
    """A session with a program that listens.

    Raises:
        UserError: it can't be attached to.
    """
    where = parse_address(address)
    token = find_token(where)
    try:
        connection = Connection(where, token, take_over=take_over)
    except UserError as error:
        raise RefusedError(error.message, error.hint) from None
    return Session(name, connection, make_folder())


def started(
    name: str,
    arguments: Sequence[str],
    *,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    python: str = "",
) -> Session:
    """A session with a process that is started for it.

    Args:
        name: of the session.
        arguments: of tfdbg.
        cwd: where it runs.
        env: variables that it has besides those of this process.
        python: its interpreter; default: this one.

    Raises:
        EndedError: it has ended before it listened.
        UserError: it can't be started.
    """
    folder = make_folder()
    if len(folder) > _LONGEST_PATH:
        remove_folder(folder)
        folder = make_folder("/tmp")
    address = Address("", 0, os.path.join(folder, "s"))
    process = None
    try:
        # -u: what it has printed before a stop can be read at the stop.
        debugger = [python or sys.executable, "-u", "-m", "tfdbg_cli", "--listen", str(address)]
        process = _process(folder, [*debugger, *arguments], cwd, env)
        return Session(name, _connection(address, process, folder), folder, process)
    except BaseException:
        if process is not None:
            _end(process)
        remove_folder(folder)
        raise


def _process(
    folder: str, command: Sequence[str], cwd: str | None, env: Mapping[str, str] | None
) -> subprocess.Popen[bytes]:
    with contextlib.ExitStack() as stack:
        out, err = (stack.enter_context(open(os.path.join(folder, s), "wb")) for s in STREAMS)
        try:
            return subprocess.Popen(
                command,
                cwd=cwd,
                env={**os.environ, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise UserError(f"It can't be started: {error}.") from None


def _connection(address: Address, process: subprocess.Popen[bytes], folder: str) -> Connection:
    """The connection to a process that begins to listen.

    Raises:
        EndedError: it has ended before it did.
        UserError: it takes too long.
    """
    until = time.monotonic() + _BEGIN_SECONDS
    while True:
        status = process.poll()
        try:
            return Connection(address, find_token(address, environment={}))
        except UserError:
            if status is not None:
                texts = [Path(folder, each).read_bytes()[-2_000:] for each in STREAMS]
                raise EndedError(status, *(t.decode("utf-8", "replace") for t in texts)) from None
            if time.monotonic() > until:
                raise
        time.sleep(0.02)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process of ours, with those that it has started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_SECONDS)
