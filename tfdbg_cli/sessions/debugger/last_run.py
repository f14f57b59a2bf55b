"""``--post-mortem``: the last run is kept, and shown when the program has ended with an error."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any, TextIO

from tfdbg_cli.commands.context import Context
from tfdbg_cli.commands.units import describe_run
from tfdbg_cli.common.errors import UserError, one_line
from tfdbg_cli.common.interpreter.program_signals import pass_on
from tfdbg_cli.common.streams import Streams
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.sources import is_library_path

if TYPE_CHECKING:
    import pdb

    from tfdbg_cli.sessions.debugger.debugger import Debugger

__all__ = ["LastRun"]


class LastRun:
    """The run that was over last, and the stop after the program's end.

    Args:
        debugger: whose runs they are.
    """

    def __init__(self, debugger: Debugger) -> None:
        self._debugger = debugger
        self._context: Context | None = None
        self._title = ""

    def keep(self, context: Context, label: str) -> None:
        """A run is over: it takes the place of the one before.

        Args:
            context: of the stop that there may be.
            label: what comes before the run's own description.
        """
        self.forget()
        if isinstance(context.dump, MemoryDump):
            context.dump.settle()  # the program goes on, and writes to what is its own
        self._context, self._title = context, f"{label}{describe_run(context.run_info)}"

    def forget(self) -> None:
        """Another run begins, whose tensors take the room."""
        context, self._context = self._context, None
        if context is not None:
            self._debugger.store.release(context.dump)

    def show(self, error: BaseException) -> None:
        """The program has ended with an error that nobody caught: look at what there is."""
        debugger, context = self._debugger, self._context
        if context is None:
            context = debugger.context("post-mortem", tracks=debugger.tracks)
        elif context.dump is not None and (kept := debugger.store.retain(context.dump)):
            debugger.note(kept)
        context.extra["uncaught"] = error
        context.extra["pdb"] = functools.partial(_ask, error, debugger.streams)
        last = f"; last run: {self._title}" if self._title else ""
        debugger.look(
            context,
            title=f"post-mortem: {type(error).__name__}{last}",
            title_role="error",
            initial_command="traceback",
        )


def _make_pdb(**streams: Any) -> pdb.Pdb:
    # On Python 3.13 it brings readline, with which the `input()` of a program edits lines.
    import pdb

    class _Pdb(pdb.Pdb):
        """Begins at the innermost line of the user's own; ``down`` goes on into libraries."""

        def get_stack(self, f: Any, t: Any) -> tuple[list[Any], int]:
            stack, at = super().get_stack(f, t)
            own = [i for i, (frame, _) in enumerate(stack) if not _is_librarys(frame)]
            return stack, own[-1] if own else at

    return _Pdb(**streams)


def _is_librarys(frame: FrameType) -> bool:
    return is_library_path(frame.f_code.co_filename)


def _ask(error: BaseException, streams: Streams) -> None:
    """Python's own debugger at the line that has raised an error.

    Raises:
        UserError: it has failed.
    """
    # Since 3.13 the error itself says more: its causes can be gone to.
    about: Any = error if sys.version_info >= (3, 13) else error.__traceback__
    trace = sys.gettrace()
    try:
        if streams.asks_a_person:
            with _on_terminal(streams):
                _interact(_make_pdb(), about)
        else:
            _interact(_make_pdb(stdin=streams.stdin, stdout=streams.out.stream), about)
    except Exception as failure:
        pass_on(failure)
        raise UserError(f"pdb has failed: {one_line(failure)}") from failure
    finally:
        sys.settrace(trace)


def _interact(asked: pdb.Pdb, about: Any) -> None:
    asked.reset()
    asked.interaction(None, about)


@contextlib.contextmanager
def _on_terminal(streams: Streams) -> Iterator[None]:
    """The process's streams are the terminal within, whatever the program has made of them.

    By their descriptors, as readline knows only these.
    """
    numbers = dict(zip((0, 1, 2), (streams.terminal[0], *[streams.terminal[1]] * 2), strict=True))
    kept: dict[int, int] = {}
    ours: list[TextIO] = []
    before = sys.stdin, sys.stdout, sys.stderr
    for stream in before[1:]:
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    try:
        for number, source in numbers.items():
            kept[number] = _copy(number)
            os.dup2(source, number)
        sys.stdin = os.fdopen(0, closefd=False)
        ours = [os.fdopen(n, "w", 1, closefd=False) for n in (1, 2)]
        sys.stdout, sys.stderr = ours
        yield
    finally:
        for stream in ours:
            with contextlib.suppress(OSError):
                stream.close()
        sys.stdin, sys.stdout, sys.stderr = before
        for number, copy in kept.items():
            if copy < 0:
                os.close(number)
            else:
                os.dup2(copy, number)
                os.close(copy)


def _copy(number: int) -> int:
    try:
        return os.dup(number)
    except OSError:  # the program has closed it
        return -1
