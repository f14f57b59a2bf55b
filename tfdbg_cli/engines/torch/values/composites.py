"""Tensors that only a class of their own, or a transform, can compute with, held by their parts.

No operator is ever called on such a tensor: PyTorch's own kernels, which would take its memory for
something else, can end the process, and the class's code belongs to the program.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from tfdbg_cli.engines.torch.private import JAGGED, RAGGED, is_wrapped, undispatched
from tfdbg_cli.engines.torch.values.access import Access, access, has_own_dispatch, why_nothing
from tfdbg_cli.engines.torch.values.arrays import class_keeps, title
from tfdbg_cli.engines.torch.values.layouts import (
    has_memory,
    inner_of,
    inner_tensors,
    jagged_parts,
    undisturbed,
)
from tfdbg_cli.engines.torch.values.notes import nested_note, note, wrapper_note

__all__ = ["Composite", "taken_apart"]

# A class within a class: nobody nests deeper, and a cycle ends.
_DEEPEST = 8


class Composite:
    """What such a tensor is shown by.

    Args:
        parts: tensors that PyTorch's own kernels know.
        said: what the elements don't tell.
        problem: why there are no elements to show.
    """

    def __init__(self, parts: Sequence[torch.Tensor], said: str = "", problem: str = "") -> None:
        self.parts = parts
        self.said = said
        self.problem = problem

    def shown(self, parts: Sequence[torch.Tensor]) -> torch.Tensor | None:
        """What stands for the whole.

        Args:
            parts: as they were when they were held.
        """
        return parts[0] if parts else None

    def note(self, parts: Sequence[torch.Tensor]) -> str:
        """What its elements don't tell."""
        inner = note(parts[0]) if parts else ""
        return "; ".join(filter(None, [self.said, inner]))


class _JaggedTensor(Composite):
    """A nested tensor: the parts one after the other, and where each begins and ends.

    Args:
        parts: values, offsets and maybe lengths.
        dim: of the values, along which they are joined.
    """

    def __init__(self, parts: Sequence[torch.Tensor], dim: int) -> None:
        super().__init__(parts)
        self._dim = dim

    def shown(self, parts: Sequence[torch.Tensor]) -> torch.Tensor:
        """The values; only those that the parts have, where there are others in between."""
        pieces = jagged_parts(parts, self._dim)
        if sum(each.shape[self._dim] for each in pieces) == parts[0].shape[self._dim]:
            return parts[0]
        return torch.cat(pieces, self._dim) if pieces else parts[0].narrow(self._dim, 0, 0)

    def note(self, parts: Sequence[torch.Tensor]) -> str:
        """The shapes."""
        text = nested_note([tuple(each.shape) for each in jagged_parts(parts, self._dim)])
        return "; ".join(filter(None, [self.said, text]))


def taken_apart(tensor: torch.Tensor) -> Composite | None:
    """What a tensor is held by that must not be touched; ``None``: PyTorch's own kernels know it.

    Calls no operator on it; of its class, at most ``__tensor_flatten__``.
    """
    if access(tensor) >= Access.LAYOUT:
        return None
    with undisturbed():
        return _taken_apart(tensor, 0)


def _taken_apart(tensor: torch.Tensor, depth: int) -> Composite | None:
    if access(tensor) is Access.NOTHING:
        return Composite((), problem=f"{title(tensor)}: {why_nothing(tensor)}")
    if is_wrapped(tensor):
        return _inside(tensor, inner_of(tensor, depth), depth)
    if not has_own_dispatch(tensor):
        return None
    if tensor.is_nested:
        found = inner_tensors(tensor)
        parts = [found[name] for name in JAGGED if name in found]
        if len(parts) < 2 or any(_taken_apart(each, depth + 1) is not None for each in parts):
            return Composite((), problem=class_keeps(tensor))
        return _JaggedTensor(parts, getattr(tensor, RAGGED, 1) - 1)
    inner = inner_of(tensor, depth)
    if inner is None and has_memory(tensor):
        with undispatched():  # the class adds to what a tensor is
            inner = tensor.detach()
        if has_own_dispatch(inner):
            return Composite((), problem=class_keeps(tensor))
        return Composite([inner], wrapper_note(tensor))
    return _inside(tensor, inner, depth)


def _inside(tensor: torch.Tensor, inner: torch.Tensor | None, depth: int) -> Composite:
    if inner is None or inner is tensor or depth >= _DEEPEST:
        return Composite((), problem=class_keeps(tensor))
    said = wrapper_note(tensor)
    found = _taken_apart(inner, depth + 1)
    if found is None:
        return Composite([inner], said)
    found.said = "; ".join(filter(None, [said, found.said]))
    return found
