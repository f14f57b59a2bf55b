"""What is kept of the calls of modules, so that one of them can be made once more."""

from __future__ import annotations

import time
import weakref
from collections import deque
from collections.abc import Iterator
from types import FrameType
from typing import Any

import torch

from tfdbg_cli.engines.kit.stacks import Stack, call_frame, take
from tfdbg_cli.engines.torch.names.sites import tensors_in
from tfdbg_cli.engines.torch.private import modes_below, write_count
from tfdbg_cli.engines.torch.runs.module_state import (
    Circumstances,
    circumstances,
    random_states,
)

__all__ = ["Border", "Gradient", "Memory", "ModuleCall", "version_of"]

# Of inputs and gradients inside a model; those of the model itself are kept in any case.
_MOST_BYTES = 1 << 28


def version_of(tensor: torch.Tensor) -> int:
    """How often a tensor was written to; -1 where nobody counts."""
    return -1 if tensor.is_inference() else write_count(tensor)


class Gradient:
    """What a backward pass has handed to the call that made a tensor.

    Attributes:
        tensor: itself; ``None``: it is not kept any more.
        version: how often it had been written to.
        time: when it came, in nanoseconds of the performance counter.
        stack: where the backward pass was called.
    """

    __slots__ = ("stack", "tensor", "time", "version")

    def __init__(self, tensor: torch.Tensor, stack: Stack | None) -> None:
        self.tensor: torch.Tensor | None = tensor
        self.version = version_of(tensor)
        self.time = time.perf_counter_ns()
        self.stack = stack

    @property
    def is_whole(self) -> bool:
        """Whether it is still what it was."""
        return self.tensor is not None and version_of(self.tensor) == self.version


class Border:
    """A tensor that a call of a module has returned.

    Attributes:
        call: that made it; those around it return the same one.
        slot: which of its outputs.
        reference: the tensor, as long as the program has it.
        version: how often it had been written to.
        gradients: of each backward pass so far.
        kept: the tensor, where the program's own code outside of modules gets it.
        node: its autograd node there.
    """

    __slots__ = ("call", "gradients", "kept", "node", "reference", "slot", "version")

    def __init__(self, call: ModuleCall, slot: int, tensor: torch.Tensor, version: int) -> None:
        self.call = call
        self.slot = slot
        self.reference = weakref.ref(tensor)
        self.version = version
        self.gradients: list[Gradient] = []
        self.kept: torch.Tensor | None = None
        self.node: Any = None

    def around(self) -> list[ModuleCall]:
        """The calls that led to the one that made it and didn't return it, innermost first."""
        chain = reversed(self.call.chain)
        return [call for call in chain if self not in call.borders.values()]

    def tensor(self) -> torch.Tensor | None:
        """The tensor, if it is still what it was."""
        found = self.reference()
        if found is None or version_of(found) != self.version:
            return None
        return found


class ModuleCall:
    """One call of a module.

    Attributes:
        module: itself.
        parent: the call that it was made in.
        arguments: positional ones and others; ``None``: they are not kept any more.
        tensors: those among them, and how often each had been written to.
        sources: the borders that they are.
        borders: what it has returned, by slot.
        count: how many calls of the module the run had before.
        frame: that made it, until it returns.
        stack: where it was made.
        began, ended: nanoseconds of the performance counter.
        trains: the module was in training mode.
        under: what was in force around it.
        random: where the generators of PyTorch stood.
        is_watched: a dispatch mode of the program saw its ops.
        is_fed: it gets something that its parent has made by ops of its own.
        start: what the outermost call began with; of others ``None``.
    """

    __slots__ = (
        "arguments",
        "began",
        "borders",
        "count",
        "ended",
        "frame",
        "is_fed",
        "is_watched",
        "module",
        "parent",
        "random",
        "sources",
        "stack",
        "start",
        "tensors",
        "trains",
        "under",
    )

    def __init__(
        self,
        module: torch.nn.Module,
        arguments: tuple[tuple[Any, ...], dict[str, Any]],
        parent: ModuleCall | None,
        count: int,
        frame: FrameType | None,
    ) -> None:
        self.module = module
        self.parent = parent
        self.arguments: tuple[tuple[Any, ...], dict[str, Any]] | None = arguments
        self.count = count
        self.frame = at = call_frame(frame)
        if parent is None:
            self.stack = take(at, None, None)
        else:
            self.stack = take(at, parent.frame, parent.stack)
        self.tensors = [(tensor, version_of(tensor)) for tensor in _tensors(arguments)]
        self.sources: list[Border] = []
        self.borders: dict[int, Border] = {}
        self.trains = module.training
        self.under: Circumstances = circumstances()
        self.random = random_states()
        self.is_fed = False
        self.is_watched = bool(modes_below())
        self.start: Any = None
        self.ended = 0
        self.began = time.perf_counter_ns()

    @property
    def chain(self) -> list[ModuleCall]:
        """The calls that led to it, outermost first, and itself."""
        found = []
        call: ModuleCall | None = self
        while call is not None:
            found.append(call)
            call = call.parent
        return found[::-1]

    @property
    def root(self) -> ModuleCall:
        """The outermost of them."""
        return self.chain[0]

    def is_within(self, other: ModuleCall) -> bool:
        """Whether another one led to it, or is it."""
        call: ModuleCall | None = self
        while call is not None and call is not other:
            call = call.parent
        return call is not None

    def drop(self) -> None:
        """Keep its arguments no longer."""
        self.arguments = None
        self.tensors = []

    def forget(self) -> None:
        """Keep no tensor any longer: hooks of autograd nodes may keep this."""
        self.drop()
        self.frame = self.start = None
        for border in self.borders.values():
            border.gradients.clear()
            border.kept = border.node = None


def _tensors(arguments: tuple[tuple[Any, ...], dict[str, Any]]) -> list[torch.Tensor]:
    found = []
    args, kwargs = arguments
    for value in (*args, *kwargs.values()) if kwargs else args:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, list | tuple | dict) or hasattr(value, "__dict__"):
            found += [tensor for _, tensor in tensors_in("", value)]
    return found


class Memory:
    """Keeps inputs and gradients of calls as long as they are few.

    What comes into a model and the gradients of what comes out are kept in any case: they are
    small, and with them the model itself can be called once more.
    """

    def __init__(self, limit: int | None = None) -> None:
        self._limit = _MOST_BYTES if limit is None else min(limit, _MOST_BYTES)
        self._bytes = 0
        self._kept: deque[tuple[int, ModuleCall | Gradient]] = deque()

    def keep_call(self, call: ModuleCall) -> None:
        """A call inside a model."""
        self._add(sum(tensor.nbytes for tensor, _ in call.tensors), call)

    def keep_gradient(self, gradient: Gradient) -> None:
        """A gradient inside a model."""
        assert gradient.tensor is not None
        self._add(gradient.tensor.nbytes, gradient)

    def _add(self, size: int, thing: ModuleCall | Gradient) -> None:
        self._bytes += size
        self._kept.append((size, thing))
        while self._bytes > self._limit and self._kept:
            size, oldest = self._kept.popleft()
            self._bytes -= size
            if isinstance(oldest, ModuleCall):
                oldest.drop()
            else:
                oldest.tensor = None


def inner_first(calls: list[ModuleCall]) -> Iterator[ModuleCall]:
    """Calls such that none comes before one that it led to."""
    yield from sorted(calls, key=lambda call: -len(call.chain))
