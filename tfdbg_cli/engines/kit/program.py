"""This process as what is debugged, as far as it uses a framework: one for each engine."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, Protocol

from tfdbg_cli.common.errors import message_of, one_line
from tfdbg_cli.common.interpreter.recursion import spare
from tfdbg_cli.common.settings import FIELDS
from tfdbg_cli.common.traits import EngineTraits
from tfdbg_cli.dumps.dump import RunError
from tfdbg_cli.dumps.series.tracks import Tracks
from tfdbg_cli.dumps.sources import own_place
from tfdbg_cli.engines.base import HostOf, ProgramAdapter, RunHost
from tfdbg_cli.engines.kit.life import RunLife

__all__ = ["Program", "ProgramObserver", "RunsAdapter"]

# How many frames of ours may be at the end of the stack, until they lift the limit.
_ENDS = 32


class ProgramObserver(Protocol):
    """How an engine sees what the program does: patches, hooks of the framework, both."""

    def install(self) -> None:
        """See it from now on: all of it, or nothing and an error. May be called more than once."""

    def undo(self) -> None:
        """Don't. May be called more than once."""


class Program:
    """What stands for the session. A subclass sets `runs` and `patches` when it is made.

    Args:
        traits: of the engine: its settings have their defaults until somebody brings others.

    Attributes:
        engine_name: of its engine.
        setting: the value of a setting by its name.
        runs: where its runs begin and end.
        patches: how that is seen.
    """

    runs: RunLife[Any]
    patches: ProgramObserver

    def __init__(self, traits: EngineTraits) -> None:
        self.engine_name = traits.name
        self.setting: Callable[[str], Any] = {
            field.name: field.default for field in (*FIELDS, *traits.settings)
        }.__getitem__
        self._hosts: list[HostOf] = []
        self._watchers = 0
        self._is_resting = self._has_room = False
        self._lock = threading.RLock()
        self._is_told_of_forks = False
        self._asked: RunHost | None = None
        #: Where a debugger keeps its wrapper of this; they live and die together.
        self._tfdbg_host: Any = None

    def value(self, name: str) -> Any:
        """The value of a setting, now."""
        return self.setting(name)

    def prepare(self) -> None:
        """Somebody begins to debug: what takes long and is needed for it."""

    def begun(self) -> None:
        """What the program does is seen now."""

    def install(self, wrap: HostOf) -> Callable[[], None]:
        """Watch the runs; returns the way back, which may be called more than once.

        Raises:
            UserError: the framework hasn't what it takes; nothing is watched then.
        """
        if not self._hosts:
            self.prepare()
        self._see(self.patches.install)
        self._is_resting = False
        self._hosts.append(wrap)
        try:
            self.runs.begin()
        except BaseException:
            self._hosts.remove(wrap)
            self._settle()
            raise

        def undo() -> None:
            if wrap in self._hosts:
                try:
                    if len(self._hosts) == 1:
                        self.runs.end()
                finally:
                    self._hosts.remove(wrap)
                    self._settle()

        return undo

    def watched(self, install: Callable[[], None] | None = None) -> Callable[[], None]:
        """See what the program does, debugged or not, until what is returned is called.

        Args:
            install: what to see it by; ``None``: all there is.
        """
        self._see(install or self.patches.install)
        self._watchers += 1

        def undo() -> None:
            self._watchers -= 1
            self._settle()

        return undo

    def _see(self, install: Callable[[], None]) -> None:
        with self._lock:
            install()
            self._make_room(True)
        self.begun()
        if not self._is_told_of_forks and hasattr(os, "register_at_fork"):
            self._is_told_of_forks = True
            os.register_at_fork(after_in_child=self.runs.abandon)

    def _settle(self) -> None:
        with self._lock:
            self._is_resting = self._is_resting and bool(self._hosts)
            if not self._watchers and (self._is_resting or not self._hosts):
                self.patches.undo()
                self._make_room(False)

    def rest(self) -> None:
        """Nobody debugs at the moment: the program is as if nobody had come, until somebody does.

        Whoever asks for a stop then may be on another thread.
        """
        host = self._asked
        if host is None or self._is_resting:
            return
        self._is_resting = True
        self._settle()
        host.when_wanted(self._wake)
        if not host.is_idle:
            self._wake()

    def _wake(self) -> None:
        with self._lock:
            if self._is_resting:
                self._is_resting = False
                self.prepare()
                self.patches.install()
                self._make_room(True)

    def _make_room(self, is_wanted: bool) -> None:
        """While the program is seen, functions of ours are called at any depth."""
        if is_wanted is not self._has_room:
            self._has_room = is_wanted
            spare(_ENDS if is_wanted else -_ENDS)

    def host(self) -> RunHost | None:
        """Who is asked at each run; ``None``: nobody debugs."""
        self._asked = self._hosts[-1](self) if self._hosts else None
        return self._asked

    def tracks(self) -> Tracks | None:
        """Where numbers over runs go; ``None``: nobody wants any."""
        return self._asked.tracks if self._asked is not None else None

    @property
    def is_attached(self) -> bool:
        """Whether there is a debugger, whatever it wants."""
        return bool(self._hosts) or bool(self._watchers)

    def is_idle(self) -> bool:
        """Whether nobody debugs at the moment, so that runs aren't even counted."""
        return self._asked is not None and self._asked.is_idle

    def gave_up(self, error: Exception) -> None:
        """The program isn't watched any more: nobody is to wait for its runs."""
        for host_of in self._hosts:
            host_of(self).gave_up(one_line(error))

    def failed(self, error: BaseException) -> None:
        """The program ends with this error."""
        self.runs.failed(error)


class RunsAdapter(ProgramAdapter):
    """A `Program` as the wrapper session sees it."""

    session: Program

    def __init__(self, session: Program) -> None:
        super().__init__(session)
        self.engine_name = session.engine_name

    def describe_error(self, error: BaseException) -> RunError | None:
        """The error in words, if it is one of the framework's; its op where that is known."""
        runs = self.session.runs
        name = runs.failed_op(error)
        if not name and not runs.ended_with(error) and not runs.is_framework_error(error):
            return None
        return RunError(type(error).__name__, message_of(error), name, *own_place(error))
