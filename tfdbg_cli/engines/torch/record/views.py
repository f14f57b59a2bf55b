"""Values of views, computed from the value whose elements they share when somebody looks."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch

from tfdbg_cli.engines.torch.private import unobserved
from tfdbg_cli.engines.torch.record.holding import HeldValue
from tfdbg_cli.engines.torch.record.op_record import OpOutput
from tfdbg_cli.engines.torch.record.tracking import extent

__all__ = ["ViewFinder"]

# Views may conjugate complex elements without a trace in shape and strides; those of quantized
# tensors have scales of their own.
_NUMBERS = frozenset(
    dtype
    for dtype in vars(torch).values()
    if isinstance(dtype, torch.dtype)
    and (dtype.is_floating_point or dtype is torch.bool or "int" in str(dtype))
    and not str(dtype).startswith("torch.q")
)


class ViewFinder:
    """Tells how to compute the views of one run.

    The outputs must be told of in the order in which they were made. A view is computed from the
    last value that was made in its memory, if that covers it whole.
    """

    def __init__(self) -> None:
        # Storage -> what was made or written in it, oldest first.
        self._made: dict[int, list[OpOutput]] = {}

    def add(self, output: OpOutput) -> None:
        """An output that is not a view."""
        if output.key:
            self._made.setdefault(output.key, []).append(output)

    def load(self, view: OpOutput) -> Callable[[], torch.Tensor | None] | None:
        """A function that computes a view; ``None``: nothing that is held covers it."""
        if view.dtype not in _NUMBERS or not view.key:
            return None
        first, end = extent(view.offset, view.stride, view.shape or (), view.dtype)
        for base in reversed(self._made.get(view.key, ())):
            start, stop = extent(base.offset, base.stride, base.shape or (), base.dtype)
            if end <= start or stop <= first:
                continue  # it is beside the view
            covers = start <= first and end <= stop and _is_dense(base)
            if not covers or base.held is None or base.dtype is not view.dtype:
                return None
            return functools.partial(_view, base.held, base, view)
        return None


def _is_dense(output: OpOutput) -> bool:
    """Whether a tensor fills its part of the storage, each element once."""
    sizes = zip(output.stride, output.shape or (), strict=True)
    expected = 1
    for stride, size in sorted((stride, size) for stride, size in sizes if size != 1):
        if stride != expected:
            return False
        expected *= size
    return True


def _view(held: HeldValue, base: OpOutput, view: OpOutput) -> torch.Tensor | None:
    value = held.get()
    if value is None:
        return None
    with unobserved():
        if value.stride() != base.stride:  # it was copied since, and lies in another order
            again = torch.empty_strided(
                value.shape, base.stride, dtype=value.dtype, device=value.device
            )
            value = again.copy_(value)
        place = value.storage_offset() + view.offset - base.offset
        return value.as_strided(tuple(view.shape or ()), view.stride, place)
