"""What a module's call begins with, and what making it once more must leave as it was."""

from __future__ import annotations

import contextlib
import functools
import itertools
import random
import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import torch

from tfdbg_cli.engines.torch.modules.reach import Reach, is_of_the_program
from tfdbg_cli.engines.torch.names.sites import tensors_in
from tfdbg_cli.engines.torch.private import (
    any_autocast,
    buffers_of,
    children_of,
    count_of,
    parameters_of,
    write_count,
)
from tfdbg_cli.engines.torch.values.access import is_readable
from tfdbg_cli.engines.torch.values.layouts import fingerprint, undisturbed

__all__ = [
    "Circumstances",
    "Start",
    "circumstances",
    "has_iterator",
    "held_tensors",
    "keep_container",
    "keep_object",
    "keep_random",
    "keep_reached",
    "put_random",
    "random_states",
    "unchanged",
    "under",
    "version_of",
]

# Larger buffers are tables that nobody changes: they are not copied at each call.
_LARGEST_BUFFER = 1 << 20
_MOST_ITEMS = 10_000
_PLAIN = (bool, int, float, complex, str, bytes, tuple, type(None))
_CONTAINERS = (list, dict, set, deque)
# What holds no state of its own, or is kept elsewhere.
_NOT_KEPT = (torch.nn.Module, torch.Tensor, type, FunctionType, ModuleType)
# How deep the objects are that are put back: an attribute, what it holds, what that holds.
_DEPTH = 3
# Larger arrays are data that nobody changes.
_LARGEST_ARRAY = 1 << 26

_Buffer = tuple[dict[str, Any], str, torch.Tensor, torch.Tensor]


class Circumstances(NamedTuple):
    """What is in force around a call.

    Attributes:
        gradients: whether autograd notes what is done.
        inference: whether it is inference mode.
        autocast: device type and dtype for each device on which it is on.
    """

    gradients: bool
    inference: bool
    autocast: tuple[tuple[str, torch.dtype], ...]


_DEVICES = ("cpu", "cuda", "xpu", "mps")


def circumstances() -> Circumstances:
    """What is in force now."""
    autocast: tuple[tuple[str, torch.dtype], ...] = ()
    if any_autocast():
        autocast = tuple(
            (device, torch.get_autocast_dtype(device))
            for device in _DEVICES
            if torch.is_autocast_enabled(device)
        )
    return Circumstances(torch.is_grad_enabled(), torch.is_inference_mode_enabled(), autocast)


@contextlib.contextmanager
def under(found: Circumstances) -> Iterator[None]:
    """Have the same in force within."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.inference_mode(found.inference))
        if not found.inference:
            stack.enter_context(torch.set_grad_enabled(found.gradients))
        on = dict(found.autocast)
        for device in {*on, *(each for each, _ in circumstances().autocast)}:
            stack.enter_context(torch.autocast(device, on.get(device), enabled=device in on))
        yield


def version_of(tensor: torch.Tensor) -> int:
    """What a write to a tensor changes: their number, or what its elements tell; -1: nothing."""
    if not tensor.is_inference():
        return write_count(tensor)
    with undisturbed():
        return fingerprint(tensor)


# Random numbers.


def random_states() -> tuple[Any, ...]:
    """Where PyTorch's generators stand: that of the CPU, those of CUDA devices."""
    if torch.cuda.is_initialized():
        return (torch.get_rng_state(), *torch.cuda.get_rng_state_all())
    return (torch.get_rng_state(),)


def put_random(states: tuple[Any, ...]) -> None:
    """Let them stand there again."""
    with undisturbed():
        torch.set_rng_state(states[0])
        if len(states) > 1:
            torch.cuda.set_rng_state_all(list(states[1:]))


def _other_random() -> Callable[[], None]:
    """Remember where the generators of Python and NumPy stand; returns the way back."""
    python = random.getstate()
    numpy = sys.modules.get("numpy.random")
    numbers = numpy.get_state(legacy=False) if numpy is not None else None

    def restore() -> None:
        random.setstate(python)
        if numpy is not None:
            numpy.set_state(numbers)

    return restore


# What an outermost call begins with.


class _Parts(NamedTuple):
    """Where the parts of a module have their buffers and parameters.

    Attributes:
        buffers: the dictionaries of each part.
        parameters: all of them.
        places: where the parameters of each part are, and these.
        held: views of the parameters and of the parts of each part.
        ids: of what these hold.
        statistics: those without a gradient, if they are small: Keras keeps what layers write
            there, as others do in buffers.
        counted: the other parameters.
        is_plain: every part is one of PyTorch's: none asks others for random numbers.
        attributes: the dictionaries of the other parts.
    """

    buffers: list[dict[str, Any]]
    parameters: list[torch.Tensor]
    places: list[tuple[dict[str, Any], str, torch.Tensor | None]]
    held: list[Any]
    ids: list[int]
    statistics: dict[str, Any]
    counted: list[torch.Tensor]
    is_plain: bool
    attributes: list[dict[str, Any]]


_parts: weakref.WeakKeyDictionary[torch.nn.Module, _Parts] = weakref.WeakKeyDictionary()


def _parts_of(module: torch.nn.Module) -> _Parts:
    found = _parts.get(module)
    # The program may put other parameters there for one call (`functional_call`), or other parts.
    if found is None or found.ids != _ids(found.held):
        inner = list(module.modules())
        own = [each for each in inner if not type(each).__module__.startswith("torch.nn.modules.")]
        named = dict(module.named_parameters())
        frozen = {name: each for name, each in named.items() if not each.requires_grad}
        if sum(each.nbytes for each in frozen.values()) > _LARGEST_BUFFER:
            frozen = {}
        copied = {*map(id, frozen.values())}
        owners = [*map(parameters_of, inner)]
        held = [each.values() for each in (*owners, *map(children_of, inner))]
        found = _Parts(
            [buffers_of(part) for part in inner],
            [*named.values()],
            # Those of TorchScript aren't dictionaries.
            [(each, *item) for each in owners if isinstance(each, dict) for item in each.items()],
            held,
            _ids(held),
            frozen,
            [each for each in named.values() if id(each) not in copied],
            not own,
            [vars(part) for part in own],
        )
        if all(each.is_leaf for each in named.values()):  # another one keeps its graph
            _parts[module] = found
    return found


def _ids(held: Iterable[Iterable[Any]]) -> list[int]:
    return [*map(id, itertools.chain.from_iterable(held))]


class Start:
    """What an outermost call of a module begins with; cheap to take.

    Attributes:
        parameters: those of all parts.
        writes: how often they had been written to.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        parts = _parts_of(module)
        self.parameters = parts.parameters
        self._owners = parts.buffers
        self._places = parts.places
        self._counted = parts.counted
        self.writes = self.count_writes()
        self._buffers = _copied([*parts.buffers, parts.statistics], _LARGEST_BUFFER)
        self._put_random = None if parts.is_plain else _other_random()
        self._attributes = [(each, each.copy()) for each in parts.attributes]

    def has_same_parameters(self) -> bool:
        """Whether no parameter was written to since that `restore` doesn't put back."""
        return self.writes == self.count_writes()

    def count_writes(self) -> int:
        """How often parameters that aren't copied were written to until now."""
        try:
            return sum(map(write_count, self._counted))
        except RuntimeError:  # there are inference tensors among them
            return sum(map(count_of, self._counted))

    def memory(self) -> Iterator[torch.Tensor]:
        """The parameters and buffers of all parts."""
        buffers = (each for owner in self._owners for each in owner.values() if each is not None)
        return itertools.chain(self.parameters, buffers)

    def copied(self) -> Iterator[torch.Tensor]:
        """The tensors whose elements `restore` puts back."""
        return (buffer for _, _, buffer, _ in self._buffers)

    def restore(self) -> None:
        """All is again what it was, as far as known: parameters, buffers, random numbers."""
        for owner, name, parameter in self._places:
            owner[name] = parameter
        with undisturbed():
            for attributes, before in self._attributes:
                _put_attributes(attributes, before)
            _restore(self._buffers)
            if self._put_random is not None:
                self._put_random()


def _copied(owners: list[dict[str, Any]], limit: int | None) -> list[_Buffer]:
    """Where each buffer is, and a copy of it."""
    found = [
        (owner, name, buffer)
        for owner in owners
        if owner
        for name, buffer in owner.items()
        if buffer is not None and is_readable(buffer) and (limit is None or buffer.nbytes <= limit)
    ]
    if not found:
        return []
    with undisturbed():
        return [(*place, place[-1].detach().clone()) for place in found]


def _restore(kept: list[_Buffer]) -> None:
    for owner, name, buffer, copy in kept:
        owner[name] = buffer
        # Through `data`, whose version is its own: the program must not take it for a change.
        buffer.data.copy_(copy)


def held_tensors(module: torch.nn.Module) -> dict[tuple[int, str], torch.Tensor]:
    """The tensors that a module and its parts keep, but for parameters, by their places."""
    return {
        (id(part), name): tensor
        for part in module.modules()
        for key, value in [*vars(part).items(), *buffers_of(part).items()]
        if not key.startswith("_") or isinstance(value, torch.Tensor)
        for name, tensor in tensors_in(key, value)
    }


# What is put back.


@contextlib.contextmanager
def unchanged(module: torch.nn.Module, reach: Reach) -> Iterator[None]:
    """What the block changes of a module is put back at its end, random numbers as well.

    That is buffers, tensors that are attributes, what the attributes of all its parts hold, and
    what else its code can reach.
    """
    with undisturbed():
        put_randoms = keep_random()
        inner = reach.modules
        put_back = [keep_object(part, _DEPTH) for part in inner]
        put_back += keep_reached(reach)
        tensors = [
            {name: each for name, each in vars(part).items() if isinstance(each, torch.Tensor)}
            for part in inner
        ]
        statistics = _parts_of(module).statistics
        buffers = _copied([*(buffers_of(part) for part in inner), *tensors, statistics], None)
    torch.clear_autocast_cache()
    try:
        yield
    finally:
        with undisturbed():
            _restore(buffers)
            for restore in reversed(put_back):
                restore()
        put_randoms()
        torch.clear_autocast_cache()


def keep_reached(reach: Reach) -> list[Callable[[], None]]:
    """Remember what some code reaches by name; returns the ways back."""
    return [*_kept_inside(reach.values, 1), reach.keep()]


def keep_random() -> Callable[[], None]:
    """Remember where all generators stand; returns the way back."""
    states, put_others = random_states(), _other_random()

    def restore() -> None:
        put_others()
        put_random(states)

    return restore


def keep_object(thing: Any, depth: int = 0) -> Callable[[], None]:
    """Remember the attributes of an object, with the items of those; returns the way back.

    Args:
        thing: the object.
        depth: that of what they hold that is remembered as well: objects, numbers of NumPy,
            generators of random numbers.
    """
    attributes = thing.__dict__
    before = dict(attributes)
    inside = list(_kept_inside(before.values(), depth))

    def restore() -> None:
        _put_attributes(attributes, before)
        for put_back in inside:
            put_back()

    return restore


def _put_attributes(attributes: dict[str, Any], before: Mapping[str, Any]) -> None:
    for name in attributes.keys() - before.keys():
        del attributes[name]
    for name, value in before.items():
        if attributes.get(name, before) is not value:
            attributes[name] = value


def keep_container(thing: Any, depth: int = 0) -> Callable[[], None]:
    """Remember the items of a container; returns the way back."""
    if len(thing) > _MOST_ITEMS:
        return lambda: None
    # Not what a class of the program's makes of these.
    kind: Any = next(each for each in _CONTAINERS if isinstance(thing, each))
    items = dict.copy(thing) if kind is dict else set(thing) if kind is set else list(thing)
    inside = list(_kept_inside(items.values() if isinstance(items, dict) else items, depth))

    def restore() -> None:
        if not _same_items(thing, items):
            kind.clear(thing)
            (kind.update if kind in (dict, set) else kind.extend)(thing, items)
        for put_back in inside:
            put_back()

    return restore


def _kept_inside(values: Iterable[Any], depth: int) -> Iterator[Callable[[], None]]:
    """The ways back of what some values hold."""
    for value in values:
        if type(value) in _PLAIN or isinstance(value, _NOT_KEPT):
            continue
        if type(value) in _CONTAINERS or (depth and isinstance(value, _CONTAINERS)):
            yield keep_container(value, max(depth - 1, 0))
        elif depth and (put_back := _kept_state(value)) is not None:
            yield put_back
        elif depth and hasattr(value, "__dict__") and is_of_the_program(type(value)):
            yield keep_object(value, depth - 1)


def _kept_state(thing: Any) -> Callable[[], None] | None:
    """The way back of what has a state that it tells; ``None``: it tells none."""
    np = sys.modules.get("numpy")
    if isinstance(thing, torch.Generator):
        return functools.partial(thing.set_state, thing.get_state())
    if isinstance(thing, random.Random):
        return functools.partial(thing.setstate, thing.getstate())
    if np is None:
        return None
    if isinstance(thing, np.random.RandomState):
        return functools.partial(thing.set_state, thing.get_state())
    if isinstance(thing, np.random.Generator):
        return functools.partial(setattr, thing.bit_generator, "state", thing.bit_generator.state)
    is_array = isinstance(thing, np.ndarray) and thing.nbytes <= _LARGEST_ARRAY
    if is_array and thing.flags.writeable:
        return functools.partial(np.copyto, thing, thing.copy())
    return None


def has_iterator(module: torch.nn.Module) -> bool:
    """Whether an attribute, or what one holds, is an iterator: nobody can put it back."""
    held = vars(module).values()
    inside = (each for value in held if isinstance(value, list | tuple) for each in value)
    maps = (each for value in held if isinstance(value, dict) for each in value.values())
    return any(
        type(each) not in _PLAIN and isinstance(each, Iterator)
        for each in itertools.chain(held, inside, maps)
    )


def _same_items(one: Any, other: Any) -> bool:
    if len(one) != len(other):
        return False
    if isinstance(one, Mapping):
        return all(key in other and other[key] is value for key, value in one.items())
    if isinstance(one, list | deque):
        return all(item is kept for item, kept in zip(one, other, strict=True))
    return {id(item) for item in one} == {id(item) for item in other}
