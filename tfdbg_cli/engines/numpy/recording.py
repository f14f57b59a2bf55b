"""What a computed tensor looks like in a dump of this engine."""

from __future__ import annotations

from typing import Any

from tfdbg_cli.dumps.dump import InconvertibleTensorProto
from tfdbg_cli.engines.numpy.executor import VariableRef

__all__ = ["DEVICE", "shown"]

#: Where everything is computed, as TensorFlow would write it.
DEVICE = "/job:localhost/replica:0/task:0/device:CPU:0"


def shown(value: Any) -> Any:
    """An output of a node as it is shown: of a variable, its value when the node ran.

    Returns:
        An array; an `InconvertibleTensorProto` for a variable without a value; ``None`` for an
        output that was not made.
    """
    if type(value) is not VariableRef:
        return value
    if value.snapshot is not None:
        return value.snapshot
    return InconvertibleTensorProto(f"Uninitialized variable {value.op.name}", initialized=False)
