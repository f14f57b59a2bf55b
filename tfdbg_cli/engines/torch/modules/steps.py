"""A step of an optimizer: what it writes to is copied before, so that it can be made once more."""

from __future__ import annotations

import contextlib
import operator
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch.optim import Adam, AdamW

from tfdbg_cli.common.interpreter.signal_gate import uninterrupted
from tfdbg_cli.engines.torch.modules.effects import ReplayRefusal, confined, fenced
from tfdbg_cli.engines.torch.modules.reach import Reach
from tfdbg_cli.engines.torch.modules.state import (
    keep_container,
    keep_object,
    keep_random,
    keep_reached,
)
from tfdbg_cli.engines.torch.names.sites import tensors_in
from tfdbg_cli.engines.torch.private import (
    calls_hooks,
    copy_all,
    quiet,
    storage_key,
    uncounted,
    write_count,
)
from tfdbg_cli.engines.torch.record.fast_steps import DTYPES, LARGEST, MOST_BYTES
from tfdbg_cli.engines.torch.values.access import Access, access
from tfdbg_cli.engines.torch.values.layouts import same_bits, undisturbed

__all__ = ["StepStart", "calls_once", "closure_in"]

# Numbers with which a step of Adam can't go bad.
_LEAST_EPS, _LARGEST_BETA = 1e-16, 0.9999

_dtype_of = operator.attrgetter("dtype")
_Form = tuple[torch.Size, torch.dtype, torch.device]


class _OptimizerFacts:
    """What is known of an optimizer after its first step.

    Attributes:
        writes_gradients: a step has written to a gradient.
        copies: memory for copies of what it writes to.
    """

    def __init__(self) -> None:
        self.writes_gradients: bool | None = None
        self.copies: list[torch.Tensor] = []
        self.forms: list[_Form] = []


_known: weakref.WeakKeyDictionary[Any, _OptimizerFacts] = weakref.WeakKeyDictionary()


class StepStart:
    """What a step of any optimizer begins with; cheap to take.

    Args:
        optimizer: is about to make it; its closure has been called.
        most: bytes that copies may take.

    Attributes:
        parameters: those that it updates.
        refusal: why it can't be made once more: a clause; empty: it can.
    """

    @uninterrupted
    def __init__(self, optimizer: Any, most: int) -> None:
        self.optimizer = optimizer
        self.parameters: list[torch.Tensor] = []
        self._gradients: list[tuple[torch.Tensor, torch.Tensor, int]] = []
        known = _known.get(optimizer)
        if known is None:
            known = _known[optimizer] = _OptimizerFacts()
        self._known = known
        with quiet():
            is_ordinary = _is_ordinary(optimizer)
        if is_ordinary:
            self.refusal = (
                "the tensors that it writes to aren't copied if its settings are the usual ones"
            )
            return
        with undisturbed():  # the program's modes and classes of tensors are asked nothing
            self._begin(optimizer, known, most)

    def _begin(self, optimizer: Any, known: _OptimizerFacts, most: int) -> None:
        # One may make the steps of another.
        inner = [] if _is_known(optimizer) else vars(optimizer).values()
        self._optimizers = [optimizer, *(e for e in inner if isinstance(e, torch.optim.Optimizer))]
        self.parameters = [each for group in optimizer.param_groups for each in group["params"]]
        gradients = ((each, each.grad) for each in self.parameters)
        self._gradients = [
            (each, grad, write_count(grad)) for each, grad in gradients if grad is not None
        ]
        self._tensors = list(self._written())
        self.refusal = self._why_not(most)
        if self.refusal:
            return
        forms = [(each.shape, each.dtype, each.device) for each in self._tensors]
        if forms != known.forms:
            known.copies = [torch.empty_like(each) for each in self._tensors]
            known.forms = forms
        copy_all(known.copies, self._tensors)
        self._put_back = self._keep_structure()

    def _written(self) -> Iterator[torch.Tensor]:
        """What it may write to."""
        seen = set[int]()
        found: list[Any] = [*self.parameters]
        for optimizer in self._optimizers:
            for state in optimizer.state.values():
                for value in state.values() if isinstance(state, dict) else (state,):
                    if isinstance(value, torch.Tensor):
                        found.append(value)
                    elif isinstance(value, list | tuple | dict):
                        found += [tensor for _, tensor in tensors_in("", value)]
            if not _is_known(optimizer):
                for name, value in vars(optimizer).items():
                    if name not in ("param_groups", "state"):
                        found += [tensor for _, tensor in tensors_in("", value)]
        if self._known.writes_gradients is not False:
            found += [gradient for _, gradient, _ in self._gradients]
        for tensor in found:
            if id(tensor) not in seen:
                seen.add(id(tensor))
                yield tensor

    def _why_not(self, most: int) -> str:
        if any(map(calls_hooks, self._optimizers)):
            return "it calls hooks"
        if any(access(each) is not Access.HOST for each in self._tensors):
            return "not all tensors that it writes to are in the memory of the CPU"
        size = sum(each.nbytes for each in self._tensors)
        if size > min(most, MOST_BYTES, LARGEST * len(self._tensors)):
            return f"a copy of its tensors would take {size / 1e6:.0f} MB in each run"
        return ""

    def _keep_structure(self) -> Sequence[Callable[[], None]]:
        """Keep what holds the tensors; returns the ways back."""
        kept = [] if _is_known(self.optimizer) else [keep_random()]
        for optimizer in self._optimizers:
            kept += [keep_object(optimizer), keep_container(optimizer.state)]
            kept += [keep_container(each) for each in optimizer.param_groups]
            for state in optimizer.state.values():
                if isinstance(state, dict):
                    kept.append(keep_container(state))
                    kept += [keep_container(each) for each in state.values() if type(each) is list]
        return kept

    def learn(self) -> None:
        """It was made; what was written to is known now."""
        if self._known.writes_gradients is None and self._gradients:
            self._known.writes_gradients = self._has_written_gradients()

    def _has_written_gradients(self) -> bool:
        with undisturbed():
            return any(write_count(each) != version for _, each, version in self._gradients)

    def again(self, make: Callable[[], Any], around: AbstractContextManager[None]) -> bool:
        """Make it once more, and leave all as the first step has left it.

        Args:
            make: makes it, and has it recorded.
            around: what is no part of the program.

        Returns:
            Whether that came to the same.

        Raises:
            ReplayRefusal: it can't be made, or wouldn't be unnoticed.
        """
        if self.refusal:
            raise ReplayRefusal(self.refusal)
        if not self._known.writes_gradients and self._has_written_gradients():
            raise ReplayRefusal("it has written to gradients")
        with undisturbed():
            after = [each.detach().clone() for each in self._tensors]
            memories = [each.data for each in self.parameters]
            gradients = [each.grad for each in self.parameters]
            restore = [*self._keep_structure()]
            if not _is_known(self.optimizer):
                restore += keep_reached(Reach(self.optimizer))
            _put(self._tensors, self._known.copies)
            for put_back in reversed(self._put_back):
                put_back()
            for parameter, gradient, _ in self._gradients:
                parameter.grad = gradient
            own = {storage_key(each) for each in self._tensors}
        try:
            with contextlib.ExitStack() as counts, around, confined(), fenced(own):
                for each in self._tensors:
                    if not each.is_inference():
                        counts.enter_context(uncounted(each))
                make()
            with undisturbed():
                return all(map(same_bits, after, self._tensors))
        finally:
            with undisturbed():
                for parameter, memory, first in zip(
                    self.parameters, memories, gradients, strict=True
                ):
                    if parameter.data_ptr() != memory.data_ptr():
                        parameter.data = memory
                    parameter.grad = first
                _put(self._tensors, after)
                for put_back in reversed(restore):
                    put_back()


def closure_in(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The closure that a step is given, or what else; ``None``: nothing.

    Accelerate, and so the Trainer of Transformers, hands on a closure that is none.
    """
    return next((each for each in (*args, *kwargs.values()) if each is not None), None)


def calls_once(optimizer: Any, closure: Any) -> bool:
    """Whether an optimizer calls a closure once, before it does anything else.

    Hooks of the program's may call it, too, or ask which it is.
    """
    is_known = _is_known(optimizer) and not isinstance(optimizer, torch.optim.LBFGS)
    return is_known and callable(closure) and not calls_hooks(optimizer)


def _is_ordinary(optimizer: Any) -> bool:
    """Whether a step makes nothing bad of what is clean, but for gradients at the dtype's end.

    Adam divides a mean of gradients by the root of a mean of their squares. If these overflow, too,
    what is taken from a parameter is small.
    """
    return type(optimizer) in (Adam, AdamW) and all(
        {type(group["lr"]), type(group["eps"]), type(group["weight_decay"])} <= {int, float}
        and 0 <= group["lr"] <= 1
        and _LEAST_EPS <= group["eps"] <= 1
        and 0 <= group["weight_decay"] <= 1
        and all(type(beta) is float and 0 <= beta <= _LARGEST_BETA for beta in group["betas"])
        and {*map(_dtype_of, group["params"])} <= DTYPES
        for group in optimizer.param_groups
    )


def _is_known(optimizer: Any) -> bool:
    """Whether it is one of PyTorch's."""
    return type(optimizer).__module__.startswith("torch.optim.")


def _put(tensors: Sequence[torch.Tensor], copies: Sequence[torch.Tensor]) -> None:
    # Through `data`, whose version is its own: the program must not take it for a change.
    copy_all([each.data for each in tensors], copies)
