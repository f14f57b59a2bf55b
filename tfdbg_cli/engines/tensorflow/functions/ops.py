"""Ops that are executed by themselves, as they are executed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensorflow.python.eager import context
from tensorflow.python.framework import op_callbacks

__all__ = ["listen"]


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
        if context.context().has_function(kind):
            return
        scope = context.context().scope_name
        # A name with a slash at its end is a whole one.
        name = op_name[:-1] if (op_name or "").endswith("/") else f"{scope}{op_name or kind}"
        told(kind, name, inputs, attributes, outputs)

    op_callbacks.add_op_callback(seen)

    def end() -> None:
        try:
            op_callbacks.remove_op_callback(seen)
        except KeyError:  # the program has cleared them all
            pass

    return end
