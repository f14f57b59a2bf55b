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
    gradient_state,
    inference_mode,
    local_keys,
    put_gradient_state,
    put_saved_hooks,
    take_saved_hooks,
    without_quiet,
)

__all__ = ["apart"]


@contextlib.contextmanager
def apart(*, fresh: bool) -> Iterator[None]:
    """Around a switch to another piece of code on this thread: what that does isn't done here.

    Modes, gradients on or off, autocast, dispatch keys and hooks for saved tensors are afterwards
    what they were.

    Args:
        fresh: the other code begins as on a new thread, or has to put back a state of its own;
            otherwise it begins with the state of this one.
    """
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
