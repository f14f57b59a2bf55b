"""What is kept of the outermost calls of modules, so that one of them can be made once more."""

from __future__ import annotations

import time
import weakref
from collections.abc import Sequence
from types import FrameType
from typing import Any, NamedTuple

import torch

from tfdbg_cli.engines.kit.stacks import Stack, call_frame, take
from tfdbg_cli.engines.torch.modules.facts import Facts
from tfdbg_cli.engines.torch.modules.state import (
    Circumstances,
    Start,
    circumstances,
    random_states,
    version_of,
)
from tfdbg_cli.engines.torch.names.sites import tensors_in
from tfdbg_cli.engines.torch.private import below_autograd, undispatched
from tfdbg_cli.engines.torch.record.capture import program_modes
from tfdbg_cli.engines.torch.values.access import PLAIN, is_readable
from tfdbg_cli.engines.torch.values.layouts import undisturbed

__all__ = ["Border", "Gradient", "InnerCall", "ModuleCall", "alias_of"]


def alias_of(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor that has the same memory, and doesn't keep what the other was made of."""
    if type(tensor) not in PLAIN:
        return tensor
    with undispatched(), below_autograd():
        return tensor.detach()


class Gradient:
    """What a backward pass has handed to the call that made a tensor.

    Attributes:
        tensor: itself; ``None``: it is not kept.
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
    """A tensor that an outermost call of a module has returned.

    Attributes:
        call: that made it; those around it return the same one.
        slot: which of its outputs.
        reference: the tensor, as long as the program has it.
        version: how often it had been written to.
        gradients: of each backward pass so far.
        kept: the same memory, where the program's own code outside of modules gets the tensor.
    """

    __slots__ = ("call", "gradients", "kept", "reference", "slot", "version")

    def __init__(self, call: ModuleCall, slot: int, tensor: torch.Tensor, version: int) -> None:
        self.call = call
        self.slot = slot
        self.reference = weakref.ref(tensor)
        self.version = version
        self.gradients: list[Gradient] = []
        self.kept: torch.Tensor | None = None

    def tensor(self) -> torch.Tensor | None:
        """The tensor, if it is still what it was."""
        found = self.reference()
        if found is None:
            found = self.kept
        return found if found is not None and version_of(found) == self.version else None


# In the place of modules that are no longer held.
_GONE = torch.nn.Module()


class ModuleCall:
    """One call of a module by the program's own code, or by a module that wraps it.

    Attributes:
        module: itself.
        facts: about it.
        parent: the call of the wrapper.
        is_wrapper: it is one.
        arguments: positional ones and others.
        tensors: those among them, and how often each had been written to.
        written: those that it has written to, by their ids -> copies of what they were.
        sources: the borders that they are.
        borders: what it has returned, by slot.
        count: how many such calls of the module the run had before.
        stack: where it was made.
        began, ended: nanoseconds of the performance counter.
        trains: the module was in training mode.
        under: what was in force around it.
        random: where the generators of PyTorch stood.
        is_watched: a dispatch mode of the program saw its ops.
        start: what else it began with.
    """

    __slots__ = (
        "arguments",
        "began",
        "borders",
        "count",
        "ended",
        "facts",
        "is_watched",
        "is_wrapper",
        "module",
        "parent",
        "random",
        "sources",
        "stack",
        "start",
        "tensors",
        "trains",
        "under",
        "written",
    )

    def __init__(
        self,
        module: torch.nn.Module,
        facts: Facts,
        arguments: tuple[tuple[Any, ...], dict[str, Any]],
        parent: ModuleCall | None,
        count: int,
        frame: FrameType | None,
    ) -> None:
        self.module = module
        self.facts = facts
        self.parent = parent
        self.is_wrapper = False
        self.arguments: tuple[tuple[Any, ...], dict[str, Any]] | None = arguments
        self.count = count
        self.stack = take(call_frame(frame), None, None)
        self.tensors = [(tensor, version_of(tensor)) for tensor in _tensors(arguments)]
        self.written: dict[int, torch.Tensor] = {}
        self.sources: list[Border] = []
        self.borders: dict[int, Border] = {}
        self.trains = module.training
        self.under: Circumstances = circumstances()
        self.random = random_states()
        self.is_watched = bool(program_modes())
        self.start: Start | None = Start(module)
        self.ended = 0
        self.began = time.perf_counter_ns()

    @property
    def chain(self) -> list[torch.nn.Module]:
        """The modules whose calls led to it, outermost first, and its own."""
        return [*(self.parent.chain if self.parent is not None else ()), self.module]

    @property
    def parameters(self) -> Sequence[torch.Tensor]:
        """Those that its module had: the program may have put others in their place since."""
        return self.start.parameters if self.start is not None else ()

    def keep(self, most: int) -> None:
        """Copy what it gets, as it may write to that.

        Args:
            most: bytes that all of it may take.
        """
        with undisturbed():
            tensors = [tensor for tensor, _ in self.tensors if is_readable(tensor)]
            is_dense = all(tensor.layout is torch.strided for tensor in tensors)
            if is_dense and sum(tensor.nbytes for tensor in tensors) <= most:
                self.written = {id(each): _copy(each) for each in tensors}

    def has_written(self) -> bool:
        """Whether it has written to what it got; copies of the rest aren't kept any longer."""
        found = {id(tensor) for tensor, version in self.tensors if version_of(tensor) != version}
        if self.written:
            self.written = {key: copy for key, copy in self.written.items() if key in found}
        return bool(found)

    def release(self) -> None:
        """Hold no module any longer: the program may drop it while the dump is still there."""
        self.module, self.arguments, self.start = _GONE, None, None

    def forget(self) -> None:
        """Keep no tensor any longer: hooks of autograd nodes may keep this."""
        self.arguments = self.start = None
        self.tensors, self.written = [], {}
        for border in self.borders.values():
            border.gradients.clear()
            border.kept = None
        self.borders = {}  # they keep this


class InnerCall(NamedTuple):
    """A call of a module by another one; nothing is kept of it.

    Attributes:
        module: itself.
        call: the outermost one that led to it.
        facts: about the module.
    """

    module: torch.nn.Module
    call: ModuleCall
    facts: Facts

    @property
    def chain(self) -> list[torch.nn.Module]:
        """As that of a call, without those in between."""
        return [*self.call.chain, self.module]


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode(tensor.is_inference()):
        return tensor.detach().clone()


def _tensors(arguments: tuple[tuple[Any, ...], dict[str, Any]]) -> list[torch.Tensor]:
    found = []
    args, kwargs = arguments
    for value in (*args, *kwargs.values()) if kwargs else args:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, list | tuple | dict) or hasattr(value, "__dict__"):
            found += [tensor for _, tensor in tensors_in("", value)]
    return found
