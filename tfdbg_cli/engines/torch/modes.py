"""The modes of this thread: ours goes below the program's, and comes out from wherever it is."""

from __future__ import annotations

import operator
from typing import Any

from tfdbg_cli.engines.torch.around.private import (
    COMPILER_FLAGS,
    put_compiler_flag,
    put_compiler_flags,
)
from tfdbg_cli.engines.torch.private import (
    default_device_mode,
    dispatch_mode_at,
    function_mode_at,
    function_mode_count,
    is_dispatching,
    is_infrastructure,
    modes_below,
    pop_dispatch_mode,
    pop_function_mode,
    push_dispatch_mode,
    push_function_mode,
)

__all__ = [
    "dispatch_modes",
    "function_modes",
    "insert_function_mode",
    "insert_mode",
    "is_inserted",
    "put_dispatch_modes",
    "put_function_modes",
    "remove_function_mode",
    "remove_mode",
    "renew_mode",
]

# Dispatch modes. Those that PyTorch itself puts in place (fake tensors, functionalization, tracing)
# lie below all others and are not part of the stack.


def _stack() -> list[Any]:
    return [dispatch_mode_at(index) for index in range(modes_below())]


def is_inserted(mode: Any) -> bool:
    """Whether a dispatch mode is on this thread's stack."""
    count = modes_below()
    if count < 2:
        return count == 1 and dispatch_mode_at(0) is mode
    return any(found is mode for found in _stack())


def renew_mode(mode: Any) -> None:
    """Turn a dispatch mode on again that is on the stack while its dispatch key is off."""
    if not is_dispatching() and is_inserted(mode):
        remove_mode(mode)
        insert_mode(mode)


def insert_mode(mode: Any) -> None:
    """Put a dispatch mode below all modes of the program; nothing if it is there already."""
    if not modes_below():
        push_dispatch_mode(mode)
        put_compiler_flags(_flags.get(type(mode)) or _flags_of(mode))
        return
    if is_inserted(mode):
        return
    above = [found for found in _stack() if not is_infrastructure(found)]
    for _ in above:
        pop_dispatch_mode(None)
    for found in (mode, *above):
        push_dispatch_mode(found)
    _renew_flags()


def dispatch_modes() -> list[Any]:
    """The dispatch modes of this thread that aren't PyTorch's own, the lowest first."""
    return [found for found in _stack() if not is_infrastructure(found)]


def put_dispatch_modes(modes: list[Any]) -> None:
    """Let these be the dispatch modes of this thread, instead of others."""
    found = dispatch_modes()
    if len(found) == len(modes) and all(map(operator.is_, found, modes)):
        return
    for _ in found:
        pop_dispatch_mode(None)
    for mode in modes:
        push_dispatch_mode(mode)
    _renew_flags()


def remove_mode(mode: Any) -> bool:
    """Take a dispatch mode out of this thread's stack, wherever it is; whether it was there."""
    if modes_below() == 1 and dispatch_mode_at(0) is mode:
        pop_dispatch_mode(None)
        put_compiler_flags(_NO_FLAGS)
        return True
    if not is_inserted(mode):
        return False
    above = []
    while (top := pop_dispatch_mode(None)) is not mode:
        above.append(top)
    for found in reversed(above):
        push_dispatch_mode(found)
    _renew_flags()
    return True


def _renew_flags() -> None:
    """A mode keeps the earlier answer while it is on, which is wrong once one below it is gone."""
    modes = _stack()
    for flag in COMPILER_FLAGS:
        value = False
        seen: dict[int, int] = {}
        for mode in modes:
            index = seen.get(id(mode), 0)
            seen[id(mode)] = index + 1
            earlier = getattr(mode, flag.kept, None)
            if earlier is not None and index < len(earlier):
                earlier[index] = value
            value = value or flag.counts(mode)
        put_compiler_flag(flag, value)


_NO_FLAGS = {flag.name: False for flag in COMPILER_FLAGS}


_flags: dict[type, dict[str, bool]] = {}


def _flags_of(mode: Any) -> dict[str, bool]:
    """What the compiler is told while a mode of ours is the only one."""
    found = {flag.name: bool(flag.counts(mode)) for flag in COMPILER_FLAGS}
    return _flags.setdefault(type(mode), found)


# Function modes.


def _take_functions(mode: Any) -> list[Any]:
    """Pop all function modes; those that are not ``mode``, innermost first."""
    popped = [pop_function_mode() for _ in range(function_mode_count())]
    return [found for found in popped if found is not mode]


def function_modes() -> list[Any]:
    """The function modes of this thread, the lowest first."""
    return [function_mode_at(index) for index in range(function_mode_count())]


def put_function_modes(modes: list[Any]) -> None:
    """Let these be the function modes of this thread, instead of others."""
    _take_functions(None)
    for mode in modes:
        push_function_mode(mode)


def insert_function_mode(mode: Any) -> None:
    """Put a function mode below those of the program.

    Only that of ``torch.set_default_device`` has to be the lowest.
    """
    if not function_mode_count():
        push_function_mode(mode)
        return
    others = _take_functions(mode)[::-1]
    default = default_device_mode()
    lowest = [others.pop(0)] if others and others[0] is default else []
    for found in (*lowest, mode, *others):
        push_function_mode(found)


def remove_function_mode(mode: Any) -> None:
    """Take a function mode out, wherever it is; nothing if it isn't there."""
    count = function_mode_count()
    if not count:
        return
    if count == 1 and function_mode_at(0) is mode:
        pop_function_mode()
        return
    for found in reversed(_take_functions(mode)):
        push_function_mode(found)
