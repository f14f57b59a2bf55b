"""A run of a program: while it is open, and what is known of it at its beginning and at its end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol

from tfdbg_cli.common.node_words import INPUTS
from tfdbg_cli.dumps.dump import Dump, InconvertibleTensorProto, RunInfo
from tfdbg_cli.dumps.feeds import LazyFeeds

if TYPE_CHECKING:
    from tfdbg_cli.engines.base import RunHandle, RunHost
    from tfdbg_cli.engines.kit.levels import CaptureLevel

__all__ = ["OpenRun", "RunDescription", "RunDriver", "WatchedProgram"]


class RunDescription:
    """One run, described when somebody wants to know.

    Args:
        kind: what kind of run; it may turn out to be another one.
        number: 1 for the first one of its kind.
        title: what to call it.
        inputs: what it gets, by the user's names.

    Attributes:
        whose: see `RunInfo.whose`.
    """

    def __init__(
        self, kind: str, number: int, title: str = "", inputs: Mapping[str, Any] | None = None
    ) -> None:
        self.kind = kind
        self.number = number
        self._title = self.whose = title
        self._inputs = dict(inputs or {})
        self._made: dict[str, Callable[[], str]] = {}

    def tensors(self) -> Mapping[str, Any]:
        """The tensors that it gets, by the names of the user's variables for them."""
        return self._inputs

    def info(self) -> RunInfo:
        """What is known at the beginning."""
        return RunInfo(kind=self.kind, runner=self._title, feeds=self.tensors(), number=self.number)

    def began(self, watcher: CaptureLevel) -> None:
        """The run begins; what it gets may have been made by ops that were recorded before."""
        given = self.tensors().items()
        self._made = {name: watcher.name_later(tensor) for name, tensor in given}

    def end(
        self,
        info: RunInfo,
        watcher: CaptureLevel,
        frame: FrameType | None,
        output: Any,
    ) -> None:
        """Add what is known at the end.

        Args:
            info: what was told at the beginning.
            watcher: has seen the run.
            frame: the user's.
            output: of the call that the run is; ``None``: it is none.
        """
        info.kind, info.number = self.kind, self.number
        self.forget()

    def take_feeds(self, info: RunInfo, dump: Dump | None) -> None:
        """Show the inputs as they were when the run used them, where the dump has them."""
        if dump is None:
            return
        loads: dict[str, Callable[[], Any]] = {}
        shapes = getattr(info.feeds, "shapes", {})
        tensors = {}
        for name in info.feeds:
            made = self._made.get(name)
            known = (f"{INPUTS}{name}:0", made() if made is not None else "")
            held = next((found for each in known if (found := dump.by_tensor(each))), None)
            loads[name] = held[0].get_tensor if held else _missing(name)
            if held:
                tensors[name] = held[0].tensor_name
        info.feeds = LazyFeeds(loads, shapes, tensors)

    def forget(self) -> None:
        """Nobody is going to ask: hold nothing of the program's."""
        self._inputs = {}


class WatchedProgram(Protocol):
    """The program, as the life of its runs needs it; `kit.program.Program` is one."""

    setting: Callable[[str], Any]

    def host(self) -> RunHost | None:
        """Who is asked at each run; ``None``: nobody debugs."""

    @property
    def is_attached(self) -> bool:
        """Whether there is a debugger, whatever it wants."""

    def is_idle(self) -> bool:
        """Whether nobody debugs at the moment, so that runs aren't even counted."""

    def rest(self) -> None:
        """So it is: what sees the program is taken off, until somebody debugs again."""

    def gave_up(self, error: Exception) -> None:
        """The program isn't watched any more."""


class RunDriver(Protocol):
    """Lets somebody step through an open run."""

    def end(self, error: BaseException | None) -> None:
        """The run is at its end, and nothing is recorded any more."""


class OpenRun:
    """A run that is open.

    Attributes:
        description: what is known of it.
        kind: of run, in two words.
        handle: the host's own of it.
        watcher: what looks at it; ``None``: nobody does.
        is_complete: nothing is missing of it, though the program has ended before it was closed.
        is_late: nothing was recorded before it.
        cut_short: what the program did before the run was at its end.
        prompted: lets somebody step through it; ``None``: nobody does.
        is_call: it is a call that somebody else makes step by step, and ends with that.
        thread: that it is on.
        is_followed: nobody debugs it: its watcher only sees values that are followed.
        replaced: what it is to return in place of what it has computed; ``None``: that.
    """

    def __init__(self, description: RunDescription) -> None:
        self.description = description
        self.kind = description.kind
        self.handle: RunHandle | None = None
        self.watcher: CaptureLevel | None = None
        self.is_complete = False
        self.is_late = False
        self.cut_short = ""
        self.prompted: RunDriver | None = None
        self.is_call = False
        self.is_followed = False
        self.replaced: tuple[Any] | None = None
        self.thread = threading.get_ident()


def _missing(name: str) -> Callable[[], Any]:
    def load() -> Any:
        return InconvertibleTensorProto(f"no op of the run used {name}: its value was not kept")

    return load
