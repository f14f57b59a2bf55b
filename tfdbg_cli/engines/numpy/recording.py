"""What a computed tensor looks like in a dump of this engine."""

from __future__ import annotations

import time
from typing import Any

from tfdbg_cli.dumps.dump import InconvertibleTensorProto
from tfdbg_cli.engines.numpy.executor import VariableRef

__all__ = ["DEVICE", "Clock", "shown"]

#: Where everything is computed, as TensorFlow would write it.
DEVICE = "/job:localhost/replica:0/task:0/device:CPU:0"


class Clock:
    """Microseconds since the epoch that never go back, whatever is done to the system's clock."""

    def __init__(self) -> None:
        self._offset = time.time_ns() - time.perf_counter_ns()

    def now(self) -> int:
        """The time now."""
        return (self._offset + time.perf_counter_ns()) // 1000


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
