"""What is read of variables that the same run has written."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from tensorflow.core.framework import types_pb2
from tensorflow.python.framework import op_def_registry

__all__ = ["WrittenVariables", "is_writing"]

_WRITING = ("Assign", "ResourceApply", "ResourceScatter", "ResourceSparseApply")


def is_writing(op: str) -> bool:
    """Whether ops of a type write to variables."""
    return op.startswith(_WRITING)


@functools.cache
def _handles(op: str) -> frozenset[int]:
    """Which inputs of an op type are handles."""
    signature = op_def_registry.get(op)
    arguments = signature.input_arg if signature is not None else ()
    return frozenset(at for at, each in enumerate(arguments) if each.type == types_pb2.DT_RESOURCE)


class WrittenVariables:
    """The tensors that variables hold, or were made of, by the names of their handles."""

    def __init__(self) -> None:
        self._sources: dict[str, tuple[str, ...]] = {}

    def write(self, op: str, inputs: Sequence[str]) -> None:
        """An op is executed: if it writes to a variable, that has something of its other inputs."""
        if not is_writing(op):
            return
        handles = _handles(op)
        given = tuple(name for at, name in enumerate(inputs) if at not in handles and name)
        for at in handles:
            before = () if op == "AssignVariableOp" else self._sources.get(inputs[at], ())
            self._sources[inputs[at]] = tuple(dict.fromkeys((*before, *given)))

    def read(self, op: str, inputs: Sequence[str]) -> tuple[str, ...]:
        """What an op reads besides its inputs: that of which a variable was made."""
        if op != "ReadVariableOp" or not inputs:
            return ()
        return self._sources.get(inputs[0], ())
