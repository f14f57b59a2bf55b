"""Keeps failures of the debugger's own away from the program."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from tfdbg_cli.common.interpreter.program_signals import pass_on
from tfdbg_cli.common.interpreter.signal_gate import uninterrupted
from tfdbg_cli.engines.kit.levels import CaptureLevel

__all__ = ["contain", "contained"]

P = ParamSpec("P")
T = TypeVar("T")


class _GivesUp(Protocol):
    def give_up(self, error: Exception) -> None: ...

    def quiet(self) -> AbstractContextManager[Any]: ...


G = TypeVar("G", bound=_GivesUp)


def contained(
    method: Callable[Concatenate[G, P], None],
) -> Callable[Concatenate[G, P], None]:
    """A method whose failures are told to its object's ``give_up`` instead of the caller.

    What it asks of tensors is seen by nothing of the program's: that is what `quiet` is for.
    """

    @uninterrupted
    @functools.wraps(method)
    def call(self: G, /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            with self.quiet():
                method(self, *args, **kwargs)
        except Exception as error:
            pass_on(error)
            self.give_up(error)

    return call


def contain(watcher: CaptureLevel, owner: _GivesUp) -> CaptureLevel:
    """A watcher whose failures while the program runs are the owner's: see `contained`."""
    # It has what is made here: that must not keep it, with all the values of the run.
    reference = weakref.ref(watcher)
    for name in watcher.guarded:
        guarded = _guarded(getattr(type(watcher), name))
        setattr(watcher, name, functools.partial(guarded, owner, reference))
    return watcher


@functools.cache
def _guarded(method: Callable[..., None]) -> Callable[..., None]:
    @uninterrupted
    def call(owner: _GivesUp, reference: Callable[[], Any], *args: Any, **kwargs: Any) -> None:
        try:
            with owner.quiet():
                method(reference(), *args, **kwargs)
        except Exception as error:
            pass_on(error)
            owner.give_up(error)

    return call
