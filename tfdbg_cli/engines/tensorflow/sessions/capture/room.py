"""Tensors that don't fit in memory: they aren't fetched but watched, and lie on the disk."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tfdbg_cli.engines.tensorflow.sessions.capture.plan import CapturePlan

__all__ = ["longest", "told", "within"]


def longest(values: Iterable[Any]) -> int:
    """What a dimension that the graph doesn't know is taken for: the longest one that is fed.

    It is rounded up to a power of two, so that a run has few plans however it is fed.
    """
    found = max((size for value in values for size in _shape(value)), default=1)
    return 1 << (found - 1).bit_length() if found > 1 else 1


def _shape(value: Any) -> Sequence[int]:
    """As far as it can be told at once."""
    if isinstance(value, np.ndarray):
        return list(value.shape)
    return (len(value),) if isinstance(value, list | tuple) else ()


def within(plan: CapturePlan, limit: int | None, length: int) -> CapturePlan:
    """The same plan, which fetches no more than fits in so much memory; made once.

    The last ones of those that nobody asked for are left to the watch.

    Args:
        plan: as it was made.
        limit: bytes; ``None``: whatever there is.
        length: of dimensions that the graph doesn't know.
    """
    if limit is None:
        return plan
    if length not in plan.sizes:
        plan.sizes[length] = [_estimate(tensor, length) for tensor in plan.extra]
    if 2 * sum(plan.sizes[length]) <= limit:  # the limit changes with the free memory
        return plan
    key = limit, length
    if key not in plan.smaller:
        plan.smaller[key] = _within(plan, limit, plan.sizes[length])
    return plan.smaller[key]


def _within(plan: CapturePlan, limit: int, sizes: Sequence[int]) -> CapturePlan:
    end = len(sizes) - plan.ahead  # these are read before the run: no watch sees them
    # What is fetched is copied: for a moment it is there twice.
    room = limit // 2 - sum(sizes[end:])
    copied, beyond = set(plan.copied), set[int]()
    for place, tensor in enumerate(plan.extra[:end]):
        room -= sizes[place]
        if room < 0 and place not in copied and tensor.op.name not in plan.updates:
            beyond.add(place)
    if not beyond:
        return plan
    moved = [entry for entry in plan.entries if entry.fetch in beyond]
    return dataclasses.replace(
        plan.without(lambda entry: entry.fetch in beyond),
        watched=[*plan.watched, *((entry.node, entry.slot) for entry in moved)],
        places=plan.places | {entry.node: entry.position for entry in moved},
        debug_options={},
        beyond=[(entry.node, entry.slot) for entry in moved],
    )


def _estimate(tensor: Any, length: int) -> int:
    """Bytes of a tensor, as far as the graph knows its shape."""
    rank = tensor.shape.rank
    sizes = [length] if rank is None else tensor.shape.as_list()
    known = (length if size is None else int(size) for size in sizes)
    return math.prod(known) * int(tensor.dtype.base_dtype.size)


def told(plan: CapturePlan, is_watched: bool) -> Iterator[str]:
    """What is to be said of the tensors that didn't fit."""
    if plan.beyond:
        what = f"{len(plan.beyond)} tensor(s) that --dump-limit leaves no room for were"
        if is_watched:
            why = "those that its optimizer removes are not shown"
            yield f"{what} written to the disk in the run; {why}."
        else:
            yield f"{what} left out."
