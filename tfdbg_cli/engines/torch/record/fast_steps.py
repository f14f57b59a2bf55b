"""Steps of optimizers that nobody looks into, unless something bad comes out of them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.optim import SGD, Adam, AdamW, Optimizer

from tfdbg_cli.common.interpreter.signal_gate import uninterrupted
from tfdbg_cli.engines.kit.stacks import Stack
from tfdbg_cli.engines.torch.private import calls_hooks, copy_all
from tfdbg_cli.engines.torch.runs.exact_check import are_clean
from tfdbg_cli.engines.torch.values.access import Access, access
from tfdbg_cli.engines.torch.values.layouts import undisturbed

__all__ = ["DTYPES", "LARGEST", "MOST_BYTES", "FastStep"]

# What their steps write to besides parameters, and whether it has to be looked at. Whatever is bad
# in such a step, of what it gets or makes, makes the parameter bad: sums and products hand it on.
# Only by what is infinite a quotient may be zero: second moments, the number of the step.
_STATES: dict[type, Sequence[tuple[str, bool]]] = {
    SGD: (),
    Adam: (("step", True), ("exp_avg", False), ("exp_avg_sq", True)),
    AdamW: (("step", True), ("exp_avg", False), ("exp_avg_sq", True)),
}
_MORE_STATES = (
    ("momentum", ("momentum_buffer", False)),
    ("amsgrad", ("max_exp_avg_sq", True)),
)
_ITSELF = ("", True)
# In half precision the root of a clean second moment may become infinite by its correction.
DTYPES = frozenset({torch.float32, torch.float64, torch.bfloat16})
# Other ways to make a step.
_WAYS = ("foreach", "fused", "capturable", "differentiable")
_NUMBERS = ("lr", "eps", "weight_decay", "momentum", "dampening")
_LARGEST_EPS = 1e10
# Of larger tensors a copy costs more than to look at each op; and all that is kept for copies.
LARGEST = 1 << 19
MOST_BYTES = 1 << 26

_copies: weakref.WeakKeyDictionary[Optimizer, list[torch.Tensor]] = weakref.WeakKeyDictionary()


class FastStep:
    """A step that is about to be made, with a copy of all that it writes to.

    Args:
        optimizer: makes it.
        make: the same.
        tensors: that it writes to.
        telling: those of them that are bad if anything is.
        outer: where it is called.
    """

    def __init__(
        self,
        optimizer: Any,
        make: Callable[[], Any],
        tensors: Sequence[torch.Tensor],
        telling: Sequence[torch.Tensor],
        outer: Stack | None,
    ) -> None:
        self.optimizer = optimizer
        self.make = make
        self.outer = outer
        self._tensors, self._telling = tensors, telling
        copies = _copies.get(optimizer)
        if copies is None or list(map(_form, copies)) != list(map(_form, tensors)):
            copies = _copies[optimizer] = [torch.empty_like(each) for each in tensors]
        self._copies = copies
        copy_all(copies, tensors)

    @classmethod
    @uninterrupted
    def of(
        cls, optimizer: Any, make: Callable[[], Any], outer: Stack | None, most: int | None = None
    ) -> FastStep | None:
        """The step of an optimizer that is about to be made; ``None``: it isn't one of these.

        Args:
            optimizer: makes it, without a closure.
            make: the same.
            outer: where it is called.
            most: bytes that the copy may take; ``None``: as many as it is worth.
        """
        if type(optimizer) not in _STATES or calls_hooks(optimizer):
            return None
        with undisturbed():
            tensors, telling = _touched(optimizer, MOST_BYTES if most is None else most)
            return cls(optimizer, make, tensors, telling, outer) if tensors else None

    @uninterrupted
    def is_clean(self) -> bool:
        """Whether nothing in it was bad. No mode may be on."""
        return are_clean(self._telling)

    @uninterrupted
    def put_back(self) -> None:
        """It hasn't been made yet."""
        with undisturbed():
            # Through `data`, whose version is its own: the program must not take it for a change.
            copy_all([each.data for each in self._tensors], self._copies)


def _form(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.shape, tensor.dtype


def _touched(optimizer: Any, most: int) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """What a step is going to write to, and what of it tells of the rest.

    Nothing: it isn't known, or too much.
    """
    written: list[torch.Tensor] = []
    telling: list[torch.Tensor] = []
    size = 0
    for group in optimizer.param_groups:
        if not _is_simple(group):
            return [], []
        states = [*_STATES[type(optimizer)]]
        states += [each for option, each in _MORE_STATES if group.get(option)]
        for parameter in group["params"]:
            gradient, known = parameter.grad, optimizer.state.get(parameter, {})
            if gradient is None:
                continue
            if parameter.dtype not in DTYPES or not _is_like(gradient, parameter):
                return [], []
            tensors = [parameter, *(known.get(name) for name, _ in states)]
            for tensor, (name, tells) in zip(tensors, (_ITSELF, *states), strict=True):
                if tensor is None:  # the first step makes it
                    return [], []
                if not _is_like(tensor, tensor if name == "step" else parameter):
                    return [], []
                if tells:
                    telling.append(tensor)
                size += tensor.nbytes
            written += tensors
    return (written, telling) if size <= min(most, MOST_BYTES, LARGEST * len(written)) else ([], [])


def _is_simple(group: dict[str, Any]) -> bool:
    """Whether the steps of a group of parameters go the way that is known."""
    if any(map(group.get, _WAYS)) or group.get("eps", 0.0) > _LARGEST_EPS:
        return False
    betas = group.get("betas", ())
    numbers = (*map(group.get, _NUMBERS), *betas)
    return all(each is None or type(each) in (int, float) for each in numbers) and all(
        0 <= each < 1 for each in betas
    )


def _is_like(tensor: Any, parameter: torch.Tensor) -> bool:
    """Whether what belongs to a parameter, or itself, lies in memory as most do."""
    return (
        isinstance(tensor, torch.Tensor)
        and access(tensor) is Access.HOST
        and tensor.dtype is parameter.dtype
        and tensor.shape == parameter.shape
        and tensor.is_contiguous()
    )
