"""What is debugged, as the wrapper session sees it: a session, or a program."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

from tfdbg_cli.dumps.dump import RunError
from tfdbg_cli.dumps.graph import Graph
from tfdbg_cli.engines.base.ranks import Meeting
from tfdbg_cli.engines.base.runs import Capture, RunCall, Watch
from tfdbg_cli.engines.base.stepped import SteppedRun

__all__ = [
    "Adapter",
    "HasHooks",
    "KnowsSeed",
    "MakesCallables",
    "MakesDefault",
    "MeetsRanks",
    "ProfilesRuns",
    "ProgramAdapter",
    "SessionAdapter",
    "StepsRuns",
]


class Adapter(ABC):
    """One thing whose runs are debugged.

    What not every framework can do stands in protocols of its own (`ProfilesRuns` and so on): an
    adapter has their methods or hasn't, and `isinstance` tells.

    Attributes:
        engine_name: the name of its engine.
        session: the framework's own session object, or what stands for the program.
    """

    engine_name: str = ""

    def __init__(self, session: Any) -> None:
        self.session = session

    def graph(self) -> Graph:
        """The graph as it is now; lazy. Empty where graphs are made of what a run did."""
        return Graph(())

    @property
    def framework_graph(self) -> Any:
        """The framework's own graph object; ``None``: it has none."""
        return None

    @abstractmethod
    def describe_error(self, error: BaseException) -> RunError | None:
        """What the framework says of an error of a run; ``None`` if it isn't the framework's."""


class ProgramAdapter(Adapter):
    """A program whose runs are stretches of it: it runs by itself, nobody runs it."""


class SessionAdapter(Adapter):
    """One session of the framework."""

    @abstractmethod
    def run(self, fetches: Any, feed_dict: Any, options: Any, run_metadata: Any) -> Any:
        """The run, untouched by the debugger."""

    @abstractmethod
    def debug_run(
        self, fetches: Any, feed_dict: Any, options: Any, run_metadata: Any, watch: Watch
    ) -> Capture:
        """The same run, with the watched tensors kept.

        The result, the state it leaves, the random streams and the exception are those of `run`;
        nothing that belongs to the caller is changed. An exception of the framework that the run
        itself raised is returned in `Capture.error`; anything else is raised.
        """

    def call(self, fetches: Any, feed_dict: Any, options: Any, run_metadata: Any) -> RunCall:
        """The run of these arguments."""
        arguments = (fetches, feed_dict, options, run_metadata)
        # As `isinstance` does it, which takes microseconds.
        profile, stepper = getattr(self, "profile_run", None), getattr(self, "stepper", None)
        return RunCall(
            self.fetch_names(fetches),
            self.feeds(feed_dict),
            run=lambda: self.run(*arguments),
            debug=lambda watch: self.debug_run(*arguments, watch),
            profile=functools.partial(profile, *arguments) if profile else None,
            stepper=functools.partial(stepper, *arguments) if stepper else None,
        )

    @abstractmethod
    def fetch_names(self, fetches: Any) -> list[str]:
        """The names of the fetches, flattened, as a user would write them. Never raises."""

    @abstractmethod
    def feeds(self, feed_dict: Any) -> Mapping[str, Any]:
        """Feed name -> value as the caller gave it. Never raises."""

    def is_empty(self, fetches: Any) -> bool:
        """Whether the fetches ask for nothing (``[]``, ``{}``, ``[[], ()]``)."""
        if isinstance(fetches, Mapping):
            return all(self.is_empty(item) for item in fetches.values())
        if isinstance(fetches, list | tuple):
            return all(self.is_empty(item) for item in fetches)
        return False


# Abilities: what a session's adapter may have besides, each for itself.


@runtime_checkable
class ProfilesRuns(Protocol):
    """Its runs can be timed op by op."""

    def profile_run(self, fetches: Any, feed_dict: Any, options: Any, run_metadata: Any) -> Capture:
        """The same run, timed op by op; `Capture.dump` has a `Dump.profile`."""


@runtime_checkable
class StepsRuns(Protocol):
    """Its runs can be done step by step."""

    def stepper(self, fetches: Any, feed_dict: Any, options: Any, run_metadata: Any) -> SteppedRun:
        """The same run, to be done step by step.

        Raises:
            CannotStep: this run can't be.
            Exception: what the framework says of arguments that are wrong.
        """


@runtime_checkable
class MakesCallables(Protocol):
    """Its sessions make callables of fetches."""

    def make_callable(
        self, fetches: Any, feed_list: Any, accept_options: bool
    ) -> Callable[..., Any]:
        """The session's own callable, untouched by the debugger.

        Raises:
            Exception: what the framework says of arguments that are wrong.
        """


@runtime_checkable
class HasHooks(Protocol):
    """The framework calls hooks before and after a run."""

    def next_run(self, fetches: Any, take: Callable[[RunCall], Any]) -> Callable[[], None]:
        """Hand over the run that the framework is about to make on this thread.

        Args:
            fetches: the very object that the user asked for; hooks may fetch more.
            take: does the run; it returns the run's value or raises its error.

        Returns:
            A function that takes the wish back; to be called in any case.
        """


@runtime_checkable
class KnowsSeed(Protocol):
    """It can tell what the program's random numbers began with."""

    def seed(self) -> str | None:
        """The seed, in words; ``None``: the program has set none."""


@runtime_checkable
class MakesDefault(Protocol):
    """The framework has default sessions."""

    def default_session(self, wrapper: Any) -> AbstractContextManager[Any]:
        """Makes the wrapper the default session."""


@runtime_checkable
class MeetsRanks(Protocol):
    """Its programs may be one of several processes."""

    def meeting(self) -> Meeting | None:
        """Where they meet; ``None``: this one is alone, or that isn't known yet."""
