"""What only the wrappers of the original's sessions ask of an engine, or of its adapter.

They are abilities like those in `tfdbg_cli.engines.base`; TensorFlow 1 is the one that has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from tfdbg_cli.engines.base import RunCall

__all__ = [
    "AsksForHooks",
    "AsksForSessions",
    "RunsCallableOptions",
    "RunsInParts",
    "StreamsTensors",
]


@runtime_checkable
class RunsCallableOptions(Protocol):
    """Its sessions make callables of ``CallableOptions``."""

    def callable_call(
        self, callable_options: Any, values: Sequence[Any], run_metadata: Any
    ) -> RunCall:
        """The run that such a callable does with these values."""


@runtime_checkable
class RunsInParts(Protocol):
    """Its sessions do a run in several parts."""

    def partial_run_setup(self, fetches: Any, feeds: Any) -> Any:
        """Prepare a run that is done in parts; its handle."""

    def partial_call(self, handle: Any, fetches: Any, feed_dict: Any) -> RunCall:
        """One part of a prepared run."""


@runtime_checkable
class StreamsTensors(Protocol):
    """Its runtime itself sends tensors to `Watch.debug_urls` during a run."""

    def streams_to(self, url: str) -> bool:
        """Whether it can send to an address."""


@runtime_checkable
class AsksForSessions(Protocol):
    """The framework's own type checks ask for a class of sessions."""

    def session_interface(self) -> type:
        """The class that the framework demands of whatever stands for a session."""


@runtime_checkable
class AsksForHooks(Protocol):
    """The framework's own type checks ask for a class of hooks."""

    def hook_interface(self) -> type:
        """The class that the framework demands of a hook on its runs."""
