"""PyTorch's state of a thread while two pieces of code take turns on it: each has its own."""

from __future__ import annotations

import _thread
import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import torch

from tfdbg_cli.engines.torch.private import (
    dispatch_modes,
    function_modes,
    put_dispatch_modes,
    put_function_modes,
)

__all__ = ["apart"]

_C: Any = torch._C


@contextlib.contextmanager
def apart(*, fresh: bool) -> Iterator[None]:
    """Around a switch to another piece of code on this thread: what that does isn't done here.

    Modes, gradients on or off, autocast, dispatch keys and hooks for saved tensors are afterwards
    what they were.

    Args:
        fresh: the other code begins as on a new thread, or has to put back a state of its own;
            otherwise it begins with the state of this one.
    """
    functions, modes, hooks = function_modes(), dispatch_modes(), _take_hooks()
    state = (
        torch.is_inference_mode_enabled(),
        torch.is_grad_enabled(),
        _C._is_fwd_grad_enabled(),
        _C._is_multithreading_enabled(),
    )
    keys = _C._dispatch_tls_local_include_set(), _C._dispatch_tls_local_exclude_set()
    # Each of these puts back what it has found, all of it.
    with _C._EnableTorchFunction(), _C._ForceDispatchKeyGuard(*keys), _C._InferenceMode(False):
        if fresh:
            put_function_modes([])
            put_dispatch_modes([])
            keys = _keys_of_a_new_thread()
        else:
            _put_hooks(hooks)
        with _C._InferenceMode(state[0] and not fresh), _C._ForceDispatchKeyGuard(*keys):
            if not fresh:
                _C._set_grad_enabled(state[1])
                _C._set_fwd_grad_enabled(state[2])
                _C._set_multithreading_enabled(state[3])
            try:
                yield
            finally:
                _take_hooks()
                put_function_modes(functions)
                put_dispatch_modes(modes)
                _put_hooks(hooks)


@functools.cache
def _keys_of_a_new_thread() -> tuple[Any, Any]:
    found: list[tuple[Any, Any]] = []
    is_done = _thread.allocate_lock()
    is_done.acquire()

    def look() -> None:
        found.append((_C._dispatch_tls_local_include_set(), _C._dispatch_tls_local_exclude_set()))
        is_done.release()

    # `threading.Thread` would be one of the program's, and recorded.
    _thread.start_new_thread(look, ())
    is_done.acquire()
    return found[0]


# Hooks for tensors that autograd saves: checkpoints count what is saved while theirs are on.


def _take_hooks() -> list[Any]:
    """Pop them all; innermost first."""
    top = getattr(_C._autograd, "_top_saved_tensors_default_hooks", None)
    found: list[Any] = []
    while top is not None and (hooks := top(True)) is not None:
        _C._autograd._pop_saved_tensors_default_hooks()
        found.append(hooks)
    return found


def _put_hooks(hooks: list[Any]) -> None:
    for pack, unpack in reversed(hooks):
        _C._autograd._push_saved_tensors_default_hooks(pack, unpack)
