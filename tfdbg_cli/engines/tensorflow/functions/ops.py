"""Ops that are executed by themselves, as they are executed."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, Protocol, TypeVar

from tensorflow.python.eager import context
from tensorflow.python.framework import op_callbacks

from tfdbg_cli.engines.kit.stacks import DEBUGGER, kind_of
from tfdbg_cli.engines.tensorflow.functions.private import element_count, variable_class
from tfdbg_cli.engines.tensorflow.shared.values import holdable

__all__ = ["MOST_AHEAD", "MOST_BYTES_AHEAD", "listen", "size_of", "used", "variables_given"]

#: So many ops from before a run are kept, and so much of what they have made.
MOST_AHEAD, MOST_BYTES_AHEAD = 20_000, 1 << 28


# What gives a batch that may be none.
_BATCHES = frozenset({"IteratorGetNextAsOptional"})


class _Event(Protocol):
    inputs: Sequence[Any]
    outputs: Sequence[Any]


E = TypeVar("E", bound=_Event)


def size_of(tensors: Sequence[Any]) -> int:
    """The bytes of eager tensors, less what NumPy can't hold."""
    size = 0
    for each in tensors:
        dtype = each.dtype
        if holdable(dtype):
            size += element_count(each) * dtype.size
    return size


def used(events: list[E], begins_at: int) -> list[E]:
    """The events of a run, and those before it whose tensors it uses.

    Args:
        events: in order.
        begins_at: how many came before the run.
    """
    if not begins_at:
        return events
    makers = {
        id(tensor): at
        for at, event in enumerate(events[:begins_at])
        for tensor in event.outputs
        if holdable(tensor.dtype) or getattr(event, "op_type", "") in _BATCHES
    }
    found: set[int] = set()
    pending = [tensor for event in events[begins_at:] for tensor in event.inputs]
    while pending:
        at = makers.get(id(pending.pop()))
        if at is not None and at not in found:
            found.add(at)
            pending += events[at].inputs
    return [*(events[at] for at in sorted(found)), *events[begins_at:]]


def variables_given(frame: FrameType | None) -> list[Any]:
    """The variables that an op was called with, in order, where TensorFlow itself reads them.

    Args:
        frame: what was called when the op had been executed. Around it is the op's own function
            in Python, unless the arguments were made tensors there.
    """
    while frame is not None and kind_of(frame.f_code) == DEBUGGER:
        frame = frame.f_back
    if frame is None or not os.path.basename(frame.f_code.co_filename).startswith("gen_"):
        return []
    values: list[Any] = []
    for value in frame.f_locals.values():
        values += value if isinstance(value, list | tuple) else [value]
    return [each for each in values if isinstance(each, variable_class)]


def listen(told: Callable[..., None]) -> Callable[[], None]:
    """Be told of the ops that this thread executes; what is returned ends it.

    Args:
        told: gets op type, name, inputs, attributes and outputs.
    """

    def seen(
        op_type: Any,
        inputs: Any,
        attributes: Any,
        outputs: Any,
        op_name: Any = None,
        graph: Any = None,
    ) -> None:
        if graph is not None:
            return
        kind = op_type.decode() if isinstance(op_type, bytes) else str(op_type)
        runtime = context.context()
        if runtime.has_function(kind):
            return
        # A name with a slash at its end is a whole one.
        is_whole = op_name and op_name[-1] == "/"
        name = op_name[:-1] if is_whole else f"{runtime.scope_name}{op_name or kind}"
        told(kind, name, inputs, attributes, outputs)

    op_callbacks.add_op_callback(seen)

    def end() -> None:
        try:
            op_callbacks.remove_op_callback(seen)
        except KeyError:  # the program has cleared them all
            pass

    return end
