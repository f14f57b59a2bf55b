"""The protocol between an engine and the sessions that debug it.

An engine knows one framework: what its sessions are, where a run begins and ends, how to compute
the same run and keep its intermediate tensors. It knows nothing of commands or screens.
docs/engines.md walks through it step by step with the NumPy engine as the example.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfdbg_cli.dumps.dump import RunError
from tfdbg_cli.dumps.graph import Graph
from tfdbg_cli.dumps.memory import MemoryDump

__all__ = ["Capture", "Engine", "SessionAdapter", "Watch", "WrapSession"]


@dataclass(frozen=True)
class Watch:
    """Which tensors of a run to keep. Regexes are searched anywhere; ``None`` keeps all.

    Attributes:
        node_name: on the node's name.
        op_type: on its op type.
        tensor_dtype: on the name of the output's dtype (``float32``).
        debug_urls: where an engine that can writes its own dumps; most engines ignore it.
        debug_ops: as in the original; ``DebugIdentity`` keeps the value.
        tolerate_failures: a debug op that can't be made for a tensor is left out.
    """

    node_name: str | None = None
    op_type: str | None = None
    tensor_dtype: str | None = None
    debug_urls: tuple[str, ...] = ()
    debug_ops: tuple[str, ...] = ("DebugIdentity",)
    tolerate_failures: bool = False


@dataclass
class Capture:
    """What a debugged run gave.

    Attributes:
        value: what the plain run would have returned; meaningless if ``error`` is set.
        dump: the tensors; after an error, those that were computed before it; ``None`` after an
            undebugged run.
        error: the exception of the run itself, to be raised after it was shown.
        run_metadata: the engine's own record of the run, if it has one.
    """

    value: Any
    dump: MemoryDump | None
    error: BaseException | None = None
    run_metadata: Any = None


class SessionAdapter(ABC):
    """One session of the framework, as the wrapper session sees it.

    Attributes:
        session: the framework's own session object.
    """

    engine_name: str = ""

    def __init__(self, session: Any) -> None:
        self.session = session

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

    def profile_run(self, fetches: Any, feed_dict: Any, options: Any, run_metadata: Any) -> Capture:
        """The same run, timed op by op; `Capture.dump` has a `Dump.profile`."""
        raise NotImplementedError(f"The {self.engine_name} engine doesn't measure op times yet.")

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

    @abstractmethod
    def graph(self) -> Graph:
        """The session's graph as it is now; lazy."""

    @property
    @abstractmethod
    def framework_graph(self) -> Any:
        """The framework's own graph object."""

    @abstractmethod
    def describe_error(self, error: BaseException) -> RunError | None:
        """What the framework says of an error of a run; ``None`` if it isn't the framework's."""


#: Given a framework's session, the wrapper that debugs it (the same one each time).
WrapSession = Callable[[Any], Any]


class Engine(ABC):
    """One framework.

    Attributes:
        name: as ``--engine`` takes it.
        modules: the engine is loaded once the script has imported any of these.
    """

    name: str = ""
    modules: Sequence[str] = ()

    @abstractmethod
    def is_session(self, obj: Any) -> bool:
        """Whether an object is a session of this framework that `adapt` takes."""

    @abstractmethod
    def adapt(self, session: Any) -> SessionAdapter:
        """An adapter for a session; its methods bypass what `install` has put in place."""

    @abstractmethod
    def install(self, wrap: WrapSession) -> Callable[[], None]:
        """Make every session of the framework debugged, also those that exist already.

        Each run that the user's program asks for becomes
        ``wrap(session).run(fetches, feed_dict, options, run_metadata)``; runs that the framework
        makes for its own housekeeping, and those an adapter makes, go straight through.

        Returns:
            A function that undoes it.
        """
