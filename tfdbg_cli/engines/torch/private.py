"""The parts of PyTorch that have no public name, each with what is done where it isn't there."""

from __future__ import annotations

import contextlib
import importlib
import operator
import sys
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils import _python_dispatch

__all__ = [
    "NO_SEQUENCE",
    "code_of",
    "current_node",
    "dispatch_modes",
    "fake_classes",
    "function_modes",
    "insert_function_mode",
    "insert_mode",
    "is_capturing",
    "is_inserted",
    "is_tracing",
    "modes_below",
    "next_sequence",
    "pin",
    "put_dispatch_modes",
    "put_function_modes",
    "quiet",
    "remove_function_mode",
    "remove_mode",
    "renew_mode",
    "resolve_api",
    "sequence_of",
    "storage_key",
    "storage_uses",
    "unobserved",
]

_C: Any = torch._C


def _nothing() -> None:
    return None


def _zero() -> int:
    return 0


#: The sequence number of autograd nodes that have none (``AccumulateGrad``).
NO_SEQUENCE = 2**64 - 1

#: The autograd node that runs on this thread, ``None`` outside of backward passes.
current_node: Callable[[], Any] = getattr(_C, "_current_autograd_node", _nothing)

#: The number that this thread's next autograd node is going to have.
next_sequence: Callable[[], int] = getattr(
    getattr(_C, "_autograd", None), "_get_sequence_nr", _zero
)

#: How many dispatch modes are on; inside of the lowest one of the program's, how many of PyTorch's
#: own are (fake tensors, tracing).
modes_below: Callable[[], int] = getattr(_C, "_len_torch_dispatch_stack", _zero)

#: Whether ``torch.jit.trace`` is at work on this thread: what is done becomes a part of its result.
is_tracing: Callable[[], bool] = getattr(_C, "_is_tracing", bool)

#: While it lasts no subclass's and no mode's ``__torch_function__`` is called.
quiet: Callable[[], Any] = _C.DisableTorchFunction


def is_capturing() -> bool:
    """Whether what is done now becomes part of a CUDA graph that the program records.

    Not what was built is asked, nor whether there is a GPU (to look for one initializes the
    driver, after which no forked process can use it), but whether the program has begun to use it.
    """
    return torch.cuda.is_initialized() and bool(torch.cuda.is_current_stream_capturing())


def sequence_of(node: Any) -> int:
    """The sequence number of an autograd node, `NO_SEQUENCE` if it has none."""
    number = getattr(node, "_sequence_nr", None)
    return number() if number is not None else NO_SEQUENCE


@contextlib.contextmanager
def unobserved() -> Iterator[None]:
    """What is done inside is seen by no mode, no subclass and no autograd."""
    with quiet(), torch.no_grad(), _C._DisableTorchDispatch():
        yield


def storage_key(tensor: torch.Tensor) -> int:
    """What tensors that share memory have in common; 0: the tensor has no storage of its own."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (RuntimeError, NotImplementedError, AttributeError):
        return 0


def pin(tensor: torch.Tensor) -> object:
    """While the result lives, no other storage gets the `storage_key` of this tensor.

    The memory itself is not kept.
    """
    return StorageWeakRef(tensor.untyped_storage())


def storage_uses(key: int) -> int:
    """How many tensors refer to the storage of a `storage_key`; a large number if unknown."""
    count = getattr(_C, "_storage_Use_Count", None)
    return int(count(key)) if count is not None else 1 << 30


def code_of(module: str, *path: str) -> CodeType | None:
    """The code of a function of PyTorch, ``None`` where this version has none of that name."""
    try:
        found: Any = importlib.import_module(module)
        for name in path:
            found = getattr(found, name)
        code = getattr(found, "__code__", None)
    except (ImportError, AttributeError):
        return None
    return code if isinstance(code, CodeType) else None


def fake_classes() -> tuple[type, ...]:
    """The classes of tensors that have a shape and no data, as far as they are in use."""
    found = (
        getattr(sys.modules.get(f"torch._subclasses.{module}"), name, None)
        for module, name in (
            ("fake_tensor", "FakeTensor"),
            ("functional_tensor", "FunctionalTensor"),
        )
    )
    return tuple(kind for kind in found if kind is not None)


def resolve_api(function: Any) -> str:
    """The dotted public name of a function of PyTorch's API, empty where it has none."""
    try:
        return torch.overrides.resolve_name(function) or ""
    except Exception:
        return ""


# Dispatch modes. Those that PyTorch itself puts in place (fake tensors, functionalization, tracing)
# lie below all others and are not part of the stack.


def _is_infrastructure(mode: Any) -> bool:
    return getattr(mode, "_mode_key", None) is not None


def _stack() -> list[Any]:
    return [_C._get_dispatch_stack_at(index) for index in range(_C._len_torch_dispatch_stack())]


def is_inserted(mode: Any) -> bool:
    """Whether a dispatch mode is on this thread's stack."""
    return any(found is mode for found in _stack())


def renew_mode(mode: Any) -> None:
    """Turn a dispatch mode on again that is on the stack while its dispatch key is off."""
    key = getattr(getattr(_C, "DispatchKey", None), "Python", None)
    is_included = getattr(_C, "_dispatch_tls_is_dispatch_key_included", None)
    if key is None or is_included is None or is_included(key) or not is_inserted(mode):
        return
    remove_mode(mode)
    insert_mode(mode)


def insert_mode(mode: Any) -> None:
    """Put a dispatch mode below all modes of the program; nothing if it is there already."""
    if is_inserted(mode):
        return
    above = [found for found in _stack() if not _is_infrastructure(found)]
    for _ in above:
        _C._pop_torch_dispatch_stack(None)
    for found in (mode, *above):
        _C._push_on_torch_dispatch_stack(found)
    _renew_flags()


def dispatch_modes() -> list[Any]:
    """The dispatch modes of this thread that aren't PyTorch's own, the lowest first."""
    return [found for found in _stack() if not _is_infrastructure(found)]


def put_dispatch_modes(modes: list[Any]) -> None:
    """Let these be the dispatch modes of this thread, instead of others."""
    found = dispatch_modes()
    if len(found) == len(modes) and all(map(operator.is_, found, modes)):
        return
    for _ in found:
        _C._pop_torch_dispatch_stack(None)
    for mode in modes:
        _C._push_on_torch_dispatch_stack(mode)
    _renew_flags()


def remove_mode(mode: Any) -> None:
    """Take a dispatch mode out of this thread's stack, wherever it is; nothing if it isn't."""
    if not is_inserted(mode):
        return
    above = []
    while (top := _C._pop_torch_dispatch_stack(None)) is not mode:
        above.append(top)
    for found in reversed(above):
        _C._push_on_torch_dispatch_stack(found)
    _renew_flags()


# What PyTorch's compiler asks: whether modes are on, and of which kind. A mode keeps the earlier
# answer while it is on, which is wrong once something below it comes or goes.
_FLAGS: list[tuple[str, str, Callable[[Any], bool]]] = [
    ("_is_in_torch_dispatch_mode", "old_dispatch_mode_flags", lambda mode: True),
    (
        "_is_in_non_infra_torch_dispatch_mode",
        "old_non_infra_dispatch_mode_flags",
        lambda mode: not getattr(mode, "is_infra_mode", bool)(),
    ),
    (
        "_is_in_any_mode_without_ignore_compile_internals",
        "old_without_ignore_compile_internals_dispatch_mode_flags",
        lambda mode: not getattr(mode, "ignore_compile_internals", bool)(),
    ),
]


def _renew_flags() -> None:
    modes = _stack()
    for name, kept, counts in _FLAGS:
        if not hasattr(_python_dispatch, name):
            continue
        value = False
        seen: dict[int, int] = {}
        for mode in modes:
            index = seen.get(id(mode), 0)
            seen[id(mode)] = index + 1
            earlier = getattr(mode, kept, None)
            if earlier is not None and index < len(earlier):
                earlier[index] = value
            value = value or counts(mode)
        setattr(_python_dispatch, name, value)
        if name == "_is_in_any_mode_without_ignore_compile_internals":
            tell = getattr(
                _python_dispatch, "set_is_in_mode_without_ignore_compile_internals", None
            )
            if tell is not None:
                tell(value)


# Function modes.


def _take_functions(mode: Any) -> list[Any]:
    """Pop all function modes; those that are not ``mode``, innermost first."""
    popped = [_C._pop_torch_function_stack() for _ in range(_C._len_torch_function_stack())]
    return [found for found in popped if found is not mode]


def function_modes() -> list[Any]:
    """The function modes of this thread, the lowest first."""
    return [_C._get_function_stack_at(index) for index in range(_C._len_torch_function_stack())]


def put_function_modes(modes: list[Any]) -> None:
    """Let these be the function modes of this thread, instead of others."""
    _take_functions(None)
    for mode in modes:
        _C._push_on_torch_function_stack(mode)


def insert_function_mode(mode: Any) -> None:
    """Put a function mode below those of the program.

    Only that of ``torch.set_default_device`` has to be the lowest.
    """
    others = _take_functions(mode)[::-1]
    default = getattr(getattr(torch, "_GLOBAL_DEVICE_CONTEXT", None), "device_context", None)
    lowest = [others.pop(0)] if others and others[0] is default else []
    for found in (*lowest, mode, *others):
        _C._push_on_torch_function_stack(found)


def remove_function_mode(mode: Any) -> None:
    """Take a function mode out, wherever it is; nothing if it isn't there."""
    for found in reversed(_take_functions(mode)):
        _C._push_on_torch_function_stack(found)
