"""What running some of the program's lines once more would change, kept and put back."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any

import torch

from tfdbg_cli.engines.torch.private import buffers_of, write_count
from tfdbg_cli.engines.torch.values.layouts import is_readable, undisturbed

__all__ = ["Beginning", "copied", "undone"]

# Larger buffers are tables that nobody changes: they are not copied at each run.
_LARGEST_BUFFER = 1 << 20
_MOST_ITEMS = 10_000
_PLAIN = (bool, int, float, complex, str, bytes, tuple, type(None))
_CONTAINERS = (list, dict, set)


class Beginning:
    """What a forward pass begins with, taken just before it and cheap to take.

    Parameters are not kept: nothing but the update changes them, and it comes later.
    """

    def __init__(self) -> None:
        self._put_back_random = _random_state()
        self._buffers: list[tuple[dict[str, Any], str, torch.Tensor, torch.Tensor]] = []
        self.modules: list[torch.nn.Module] = []

    def add(self, module: torch.nn.Module) -> None:
        """A module is about to be called."""
        if not any(module is known for known in self.modules):
            self.modules.append(module)
            self._buffers += _copied_buffers(module, _LARGEST_BUFFER)

    def restore(self) -> None:
        """Random numbers and buffers are again what they were."""
        with undisturbed():
            _restore_buffers(self._buffers)
        self.restore_random()

    def restore_random(self) -> None:
        """Random numbers are again what they were."""
        with undisturbed():
            self._put_back_random()


@contextlib.contextmanager
def undone(
    modules: Iterable[torch.nn.Module],
    parameters: Iterable[torch.Tensor],
    objects: Iterable[Any],
) -> Iterator[None]:
    """What the block changes of these is put back at its end; it begins without gradients.

    Random number generators and PyTorch's caches are always among it.

    Args:
        modules: their buffers and plain attributes.
        parameters: their gradients.
        objects: plain attributes of objects, the items of lists, dicts and sets, and the values of
            tensors that are no parameters.
    """
    with undisturbed():
        put_back = _kept(list(modules), list(parameters), list(objects))
    try:
        yield
    finally:
        with undisturbed():
            for restore in reversed(put_back):
                restore()


def _kept(
    modules: list[torch.nn.Module], parameters: list[torch.Tensor], objects: list[Any]
) -> list[Callable[[], None]]:
    """Remember how things are, and clear gradients and caches; returns the ways back."""
    owned = {id(parameter) for parameter in parameters}
    put_back: list[Callable[[], None]] = [_random_state(), torch.clear_autocast_cache]
    inner = [part for module in modules for part in module.modules()]
    for thing in {id(thing): thing for thing in [*inner, *objects]}.values():
        if not isinstance(thing, torch.Tensor):
            put_back.append(_keep_object(thing))
        elif id(thing) not in owned and is_readable(thing):
            put_back.append(_keep_tensor(thing))
    buffers = [item for module in modules for item in _copied_buffers(module, None)]
    put_back.append(lambda: _restore_buffers(buffers))
    gradients = [(parameter, parameter.grad) for parameter in parameters]

    def restore_gradients() -> None:
        for parameter, gradient in gradients:
            parameter.grad = gradient

    put_back.append(restore_gradients)
    for parameter in parameters:
        parameter.grad = None
    torch.clear_autocast_cache()
    return put_back


def copied(value: Any) -> Any:
    """A value as it is now: a small container is copied, anything else only referred to."""
    if type(value) in _CONTAINERS and len(value) <= _MOST_ITEMS:
        return value.copy()
    return value


def _random_state() -> Callable[[], None]:
    """Remember where all random number generators stand; returns the way back."""
    cpu = torch.get_rng_state()
    python = random.getstate()
    numpy = sys.modules.get("numpy.random")
    numbers = numpy.get_state(legacy=False) if numpy is not None else None
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []

    def restore() -> None:
        torch.set_rng_state(cpu)
        random.setstate(python)
        if numpy is not None:
            numpy.set_state(numbers)
        if devices:
            torch.cuda.set_rng_state_all(devices)

    return restore


def _copied_buffers(
    module: torch.nn.Module, limit: int | None
) -> list[tuple[dict[str, Any], str, torch.Tensor, torch.Tensor]]:
    """Where each buffer is, and a copy of it."""
    found = [
        (buffers_of(part), name, buffer)
        for part in module.modules()
        for name, buffer in buffers_of(part).items()
        if buffer is not None and is_readable(buffer) and (limit is None or buffer.nbytes <= limit)
    ]
    if not found:
        return []
    with undisturbed():
        return [(*place, place[-1].detach().clone()) for place in found]


def _restore_buffers(kept: list[tuple[dict[str, Any], str, torch.Tensor, torch.Tensor]]) -> None:
    for owner, name, buffer, copy in kept:
        owner[name] = buffer
        # Through `data`, whose version is its own: the program must not take it for a change.
        buffer.data.copy_(copy)


def _keep_tensor(tensor: torch.Tensor) -> Callable[[], None]:
    version, gradient = _version(tensor), tensor.grad if tensor.is_leaf else None
    copy = tensor.detach().clone()

    def restore() -> None:
        if _version(tensor) != version:
            tensor.data.copy_(copy)
        if tensor.is_leaf and tensor.grad is not gradient:
            tensor.grad = gradient

    return restore


def _version(tensor: torch.Tensor) -> int:
    return -1 if tensor.is_inference() else write_count(tensor)


def _keep_object(thing: Any) -> Callable[[], None]:
    if type(thing) in _CONTAINERS:
        return _keep_container(thing)
    attributes = getattr(thing, "__dict__", None)
    if isinstance(thing, ModuleType | type) or type(attributes) is not dict:
        return lambda: None
    plain = {name: value for name, value in attributes.items() if isinstance(value, _PLAIN)}
    inside = [_keep_container(item) for item in attributes.values() if type(item) in _CONTAINERS]

    def restore() -> None:
        for name, value in plain.items():
            if attributes.get(name, plain) is not value:
                attributes[name] = value
        for put_back in inside:
            put_back()

    return restore


def _keep_container(thing: Any) -> Callable[[], None]:
    if len(thing) > _MOST_ITEMS:
        return lambda: None
    items = thing.copy()

    def restore() -> None:
        if _same_items(thing, items):
            return
        thing.clear()
        (thing.extend if isinstance(thing, list) else thing.update)(items)

    return restore


def _same_items(one: Any, other: Any) -> bool:
    if len(one) != len(other):
        return False
    if isinstance(one, Mapping):
        return all(key in other and other[key] is value for key, value in one.items())
    if isinstance(one, list):
        return all(item is kept for item, kept in zip(one, other, strict=True))
    return {id(item) for item in one} == {id(item) for item in other}
