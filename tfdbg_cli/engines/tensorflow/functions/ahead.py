"""What a program does before a run, of which only what the run uses belongs to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from tfdbg_cli.engines.tensorflow.capture.values import holdable

__all__ = ["MOST", "MOST_BYTES", "size_of", "used"]

#: So many ops from before a run are kept, and so much of what they have made.
MOST, MOST_BYTES = 20_000, 1 << 28


class _Event(Protocol):
    inputs: Sequence[Any]
    outputs: Sequence[Any]


E = TypeVar("E", bound=_Event)


def size_of(tensors: Sequence[Any]) -> int:
    """The bytes of eager tensors."""
    return sum(int(each.shape.num_elements() or 0) * each.dtype.size for each in tensors)


def used(events: Sequence[E], begins_at: int) -> list[E]:
    """The events of a run, and those before it whose tensors it uses.

    Args:
        events: in order.
        begins_at: how many came before the run.
    """
    makers = {
        id(tensor): at
        for at, event in enumerate(events[:begins_at])
        for tensor in event.outputs
        if holdable(tensor.dtype)
    }
    found: set[int] = set()
    pending = [tensor for event in events[begins_at:] for tensor in event.inputs]
    while pending:
        at = makers.get(id(pending.pop()))
        if at is not None and at not in found:
            found.add(at)
            pending += events[at].inputs
    return [*(events[at] for at in sorted(found)), *events[begins_at:]]
