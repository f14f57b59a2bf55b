"""PyTorch's state of a thread while two pieces of code take turns on it: each has its own."""

from __future__ import annotations

import _thread
import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import torch

from tfdbg_cli.engines.torch.modes import (
    dispatch_modes,
    function_modes,
    put_dispatch_modes,
    put_function_modes,
)
from tfdbg_cli.engines.torch.private import (
    force_keys,
    function_mode_count,
    gradient_state,
    has_gradients,
    has_saved_hooks,
    inference_mode,
    is_function_enabled,
    local_keys,
    modes_below,
    put_gradient_state,
    put_saved_hooks,
    take_saved_hooks,
    without_quiet,
)

__all__ = ["apart"]


class apart:
    """Around a switch to another piece of code on this thread: what that does isn't done here.

    Modes, gradients on or off, autocast, dispatch keys and hooks for saved tensors are afterwards
    what they were.

    Args:
        fresh: the other code begins as on a new thread, or has to put back a state of its own;
            otherwise it begins with the state of this one.
    """

    __slots__ = ("_is_fresh", "_way_back")

    def __init__(self, *, fresh: bool) -> None:
        self._is_fresh = fresh
        self._way_back: Any = None

    def __enter__(self) -> None:
        if not _is_as_new():
            self._way_back = _apart(self._is_fresh)
            self._way_back.__enter__()

    def __exit__(self, *error: Any) -> bool | None:
        if self._way_back is not None:
            return bool(self._way_back.__exit__(*error))
        if not _is_as_new():
            _renew()
        return None


@contextlib.contextmanager
def _apart(fresh: bool) -> Iterator[None]:
    functions, modes, hooks = function_modes(), dispatch_modes(), take_saved_hooks()
    is_inference, gradients = torch.is_inference_mode_enabled(), gradient_state()
    keys = local_keys()
    # Each of these puts back what it has found, all of it.
    with without_quiet(), force_keys(*keys), inference_mode(False):
        if fresh:
            put_function_modes([])
            put_dispatch_modes([])
            keys = _keys_of_a_new_thread()
        else:
            put_saved_hooks(hooks)
        with inference_mode(is_inference and not fresh), force_keys(*keys):
            if not fresh:
                put_gradient_state(gradients)
            try:
                yield
            finally:
                take_saved_hooks()
                put_function_modes(functions)
                put_dispatch_modes(modes)
                put_saved_hooks(hooks)


def _is_as_new() -> bool:
    """Whether this thread's state is that of a new one: nearly always."""
    included, excluded = local_keys()
    return (
        not function_mode_count()
        and not modes_below()
        and (included.raw_repr(), excluded.raw_repr()) == _raw_keys_of_a_new_thread()
        and is_function_enabled()
        and not torch.is_inference_mode_enabled()
        and has_gradients()
        and not has_saved_hooks()
    )


# What sets a state for as long as it lives.
_lasting: list[Any] = []


def _renew() -> None:
    """Let it be so again: the other code has left something on for good."""
    take_saved_hooks()
    put_function_modes([])
    put_dispatch_modes([])
    for guard in (without_quiet(), inference_mode(False), force_keys(*_keys_of_a_new_thread())):
        guard.__enter__()
        _lasting.append(guard)


@functools.cache
def _raw_keys_of_a_new_thread() -> tuple[int, int]:
    included, excluded = _keys_of_a_new_thread()
    return included.raw_repr(), excluded.raw_repr()


@functools.cache
def _keys_of_a_new_thread() -> tuple[Any, Any]:
    found: list[tuple[Any, Any]] = []
    is_done = _thread.allocate_lock()
    is_done.acquire()

    def look() -> None:
        found.append(local_keys())
        is_done.release()

    # `threading.Thread` would be one of the program's, and recorded.
    _thread.start_new_thread(look, ())
    is_done.acquire()
    return found[0]
