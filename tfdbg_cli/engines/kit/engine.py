"""An engine whose process is one program, made when it is first needed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Generic, TypeVar

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.engines.base import Glimpse, HostOf, ProgramEngine, ShowsOpenRuns
from tfdbg_cli.engines.kit.program import Program, RunsAdapter

__all__ = ["OneProgramEngine"]


P = TypeVar("P", bound=Program)


class OneProgramEngine(ProgramEngine, ShowsOpenRuns, Generic[P]):
    """Hands everything on to the program; a subclass makes it."""

    def __init__(self) -> None:
        self._program: P | None = None
        self._setting: Callable[[str], Any] | None = None

    @abstractmethod
    def make_program(self) -> P:
        """What stands for this process."""

    def program(self) -> P:
        """What stands for this process, always the same."""
        if self._program is None:
            self._program = self.make_program()
            if self._setting is not None:
                self._program.setting = self._setting
        return self._program

    def is_session(self, obj: Any) -> bool:
        """Whether it is a program of this engine."""
        return isinstance(obj, Program) and obj.engine_name == self.name

    def adapt(self, session: Program) -> RunsAdapter:
        return RunsAdapter(session)

    def configure(self, setting: Callable[[str], Any]) -> None:
        """Take the settings."""
        self._setting = setting
        if self._program is not None:
            self._program.setting = setting

    def install(self, wrap: HostOf) -> Callable[[], None]:
        """Watch the program's runs; returns the way back."""
        return self.program().install(wrap)

    def block(self, name: str = "") -> AbstractContextManager[None]:
        """A run that the user marks."""
        try:
            return self.program().runs.block(name)
        except UserError:  # said when it was to be installed
            return nullcontext()

    def glimpse(self) -> AbstractContextManager[Glimpse | None]:
        if self._program is None:
            return nullcontext()
        return self._program.runs.glimpse()

    def failed(self, error: BaseException) -> None:
        """The program ends with this error: a run that is open is shown."""
        if self._program is not None:
            self._program.failed(error)
