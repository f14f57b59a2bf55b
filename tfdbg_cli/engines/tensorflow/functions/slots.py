"""Tensors of ops that are executed by themselves, whose values aren't kept unless they are bad."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np

__all__ = ["Slot", "Slots", "bad_of", "is_bad"]

# Values that are kept where otherwise none is: of bad tensors, the first ones.
_MOST_KEPT = 100
# Ops in which something bad has begun, whose inputs are kept as well: they tell why.
_MOST_BEGUN = 4


class Slot:
    """Stands for a tensor.

    Attributes:
        dtype, shape: of the tensor.
        is_bad: whether it has a nan or an infinity.
        tensor: it; ``None``: it isn't kept.
    """

    __slots__ = ("dtype", "is_bad", "shape", "tensor")

    def __init__(self, tensor: Any) -> None:
        self.dtype, self.shape = tensor.dtype, tensor.shape
        self.is_bad = False
        self.tensor: Any = None


class _Event(Protocol):
    inputs: Sequence[Any]
    outputs: Sequence[Any]


class Slots:
    """Which slots stand for the program's tensors."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], Slot]] = {}
        self._kept = self._begun = 0

    def of(self, tensor: Any) -> Any:
        """What stands for a tensor; itself, if nothing does."""
        found = self._known.get(id(tensor))
        return found[1] if found is not None and found[0]() is tensor else tensor

    def put(self, event: _Event) -> None:
        """Let slots stand for the tensors of an op that has just been executed.

        What is bad is kept, and what it was made of where that is clean.
        """
        given = event.inputs
        event.inputs = [self.of(tensor) for tensor in given]
        made = list(event.outputs)
        event.outputs = [self._slot(tensor) for tensor in made]
        bad = [pair for pair in zip(event.outputs, made, strict=True) if pair[0].is_bad]
        for slot, tensor in bad[: _MOST_KEPT - self._kept]:
            self._kept += 1
            slot.tensor = tensor
        is_first = not any(isinstance(each, Slot) and each.is_bad for each in event.inputs)
        if bad and is_first and self._begun < _MOST_BEGUN:
            self._begun += 1
            for slot, tensor in zip(event.inputs, given, strict=True):
                if isinstance(slot, Slot):
                    slot.tensor = tensor

    def _slot(self, tensor: Any) -> Slot:
        slot = Slot(tensor)
        slot.is_bad = is_bad(tensor)
        self._known[id(tensor)] = weakref.ref(tensor), slot
        return slot


def is_bad(tensor: Any) -> bool:
    """Whether a nan or an infinity is in a tensor. Waits for its device."""
    return bool(bad_of([tensor]))


def bad_of(tensors: Iterable[Any]) -> list[Any]:
    """Those of some tensors that have a nan or an infinity. Waits for their devices."""
    with np.errstate(all="ignore"):
        return [each for each in tensors if _has_bad(each)]


def _has_bad(tensor: Any) -> bool:
    if isinstance(tensor, Slot):
        return tensor.is_bad
    if not (tensor.dtype.is_floating or tensor.dtype.is_complex):
        return False
    try:
        values = np.asarray(memoryview(tensor))  # no copy
    except (BufferError, TypeError, ValueError):
        values = tensor.numpy()
    return not (np.isfinite(values.sum()) or np.isfinite(values).all())
