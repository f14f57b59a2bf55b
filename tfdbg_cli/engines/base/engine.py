"""An engine: what the debugger knows of one framework, or of programs that use it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

from tfdbg_cli.common.traits import EngineTraits
from tfdbg_cli.engines.base.adapters import ProgramAdapter, SessionAdapter
from tfdbg_cli.engines.base.runs import Glimpse, RunHost
from tfdbg_cli.engines.base.stepped import SteppedRun

__all__ = [
    "Engine",
    "HasFunctions",
    "HostOf",
    "ProgramEngine",
    "SessionEngine",
    "ShowsOpenRuns",
    "StepsCalls",
    "TellsUse",
    "WrapSession",
]

#: Given a framework's session, the wrapper that debugs it (the same one each time).
WrapSession = Callable[[Any], Any]
#: Given what stands for the program, who debugs it.
HostOf = Callable[[Any], RunHost]


class Engine(ABC):
    """One framework. Take `SessionEngine` or `ProgramEngine`.

    Attributes:
        name: as ``--engine`` takes it.
        modules: the engine is loaded once the script has imported any of these.
        traits: its settings, the roles of its ops and so on; ``None``: nothing is known of it.
    """

    name: str = ""
    modules: Sequence[str] = ()
    traits: EngineTraits | None = None

    @abstractmethod
    def is_session(self, obj: Any) -> bool:
        """Whether an object is what `adapt` takes."""

    @abstractmethod
    def adapt(self, session: Any) -> Any:
        """An adapter for it; its methods bypass what `install` has put in place."""

    def configure(self, setting: Callable[[str], Any]) -> None:
        """Take a function that tells the value of a setting by its name, now and later."""

    def failed(self, error: BaseException) -> None:
        """The program is about to end with an error that nobody caught.

        Engines that only see a part of what a run does may have to show an error screen now.
        """

    @abstractmethod
    def install(self, wrap: Callable[[Any], Any]) -> Callable[[], None]:
        """Debug all runs from now on: all of it is put in place, or nothing.

        Returns:
            A function that undoes it; it may be called twice, and in any order with others.
        """


class SessionEngine(Engine):
    """A framework in which sessions are asked for runs."""

    @abstractmethod
    def adapt(self, session: Any) -> SessionAdapter:
        """An adapter for a session."""

    @abstractmethod
    def install(self, wrap: WrapSession) -> Callable[[], None]:
        """Make every session of the framework debugged, also those that exist already.

        Each run that the user's program asks for becomes
        ``wrap(session).run(fetches, feed_dict, options, run_metadata)``, or has its ``callable_``
        keywords where it was asked for through a callable; runs that the framework makes for its
        own housekeeping, and those an adapter makes, go straight through, and so does a run for
        whose session ``wrap`` gives ``None``.
        """


class ProgramEngine(Engine):
    """A framework whose runs are stretches of a program: the engine sees where they begin and end.

    One object stands for the program, as a session does elsewhere.
    """

    @abstractmethod
    def adapt(self, session: Any) -> ProgramAdapter:
        """The adapter of what stands for the program."""

    @abstractmethod
    def install(self, wrap: HostOf) -> Callable[[], None]:
        """Watch the program's runs: each is opened and closed at ``wrap(program)``."""

    @abstractmethod
    def block(self, name: str = "") -> AbstractContextManager[None]:
        """A stretch of the program that the user marks as one run (``with tfdbg_cli.run():``)."""


# Abilities: what an engine may have besides, each for itself.


@runtime_checkable
class TellsUse(Protocol):
    """Its framework is also imported by others, who may never use it."""

    def has_computed(self) -> bool:
        """Whether anything was computed with it yet."""


@runtime_checkable
class ShowsOpenRuns(Protocol):
    """A run can be looked at while it goes on, between two of its ops."""

    def glimpse(self) -> AbstractContextManager[Glimpse | None]:
        """The run that goes on on this thread; ``None``: there is none.

        What is done within is no part of it.
        """


@runtime_checkable
class StepsCalls(Protocol):
    """Calls of functions are runs, and can be done step by step."""

    name: str

    def call_stepper(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        scopes: frozenset[str] | None = None,
    ) -> SteppedRun:
        """A call of a function as a run to be done step by step; its result is the run's.

        Args:
            function: what is called.
            args, kwargs: with what.
            scopes: only ops whose names begin so, with the rest of the name behind, are steps; all
                else is done as ever. ``None``: all are.
        """

    def is_module(self, thing: Any) -> bool:
        """Whether something is a module of the framework: a callable with named parts.

        By default nothing is: what a model calls has names, and no borders.
        """
        return False

    def has_module(self, module: Any, path: str) -> bool:
        """Whether a module has a part of this name; its own is empty."""
        return False

    def module_tensors(self, module: Any) -> Iterable[tuple[str, Any]]:
        """The tensors that a module holds, parameters and others, by their names."""
        return ()

    def intercept(
        self, module: Any, around: Callable[[Callable[..., Any], Any, Any], Any]
    ) -> Callable[[], None]:
        """Let calls of a module go through a function; not those that such a call makes itself.

        Args:
            module: this very one.
            around: gets what makes the call (without arguments: as it was meant), its positional
                arguments and its keyword arguments; what it returns, the call does.

        Returns:
            A function that undoes it.
        """


@runtime_checkable
class HasFunctions(Protocol):
    """The framework has a class of functions of its own."""

    def is_own(self, function: Any) -> bool:
        """Whether something is one, so that a call of it is a run of this framework."""
