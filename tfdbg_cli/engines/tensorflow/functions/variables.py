"""What is read of variables that the same run has written."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from tensorflow.core.framework import types_pb2
from tensorflow.python.eager import context
from tensorflow.python.framework import errors, op_def_registry
from tensorflow.python.ops import gen_resource_variable_ops

from tfdbg_cli.dumps.dump import CannotRedo, Dump, Redo
from tfdbg_cli.engines.tensorflow.functions.private import stop_recording, variable_dtype

__all__ = [
    "WrittenVariables",
    "holds_now",
    "is_writing",
    "quietly",
    "redo_reads",
    "variable_values",
    "written_value",
]

_Key = TypeVar("_Key")

_ASSIGN, _READ = "AssignVariableOp", "ReadVariableOp"
_SIGNS = {"AssignAddVariableOp": 1, "AssignSubVariableOp": -1}
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


def written_value(op: str, before: Any, given: Sequence[Any]) -> Any:
    """What a variable is after an op has written to it.

    Args:
        op: its type.
        before: the variable.
        given: what it is written with.

    Raises:
        CannotRedo: the op does more than to set it, to add or to subtract.
    """
    if len(given) != 1 or (op != _ASSIGN and op not in _SIGNS):
        raise CannotRedo(f"{op} isn't computed again")
    return given[0] if op == _ASSIGN else before + _SIGNS[op] * given[0]


def redo_reads(dump: Dump, redo: Redo) -> Redo:
    """What `Dump.redo` is where a variable may be read that the same run has written.

    Args:
        dump: of the run.
        redo: computes all other nodes.
    """

    def again(
        name: str, given: Sequence[Any], made: Sequence[Any], *, is_wide: bool = False
    ) -> Sequence[Any] | None:
        graph = dump.graph()
        node = graph.nodes.get(name) if graph is not None else None
        if graph is None or node is None or node.op_type != _READ or len(node.inputs) < 2:
            return redo(name, given, made, is_wide=is_wide)
        handle = node.inputs[0]
        nodes = graph.nodes.values()
        writers = [each for each in nodes if is_writing(each.op_type) and handle in each.inputs]
        if len(writers) != 1 or [*writers[0].inputs] != [*node.inputs]:
            raise CannotRedo("its variable was written several times")
        return [written_value(writers[0].op_type, given[0], given[1:])]

    return again


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Ops of ours: executed at once, and no part of what tapes record."""
    with context.eager_mode(), stop_recording():
        yield


def variable_values(handles: Mapping[_Key, Any]) -> dict[_Key, Any]:
    """What variables hold now, those that hold something.

    Args:
        handles: by any keys. Those of something else than variables are left out.
    """
    found = {}
    with quietly():
        for key, handle in handles.items():
            dtype = variable_dtype(handle)
            if dtype is not None:
                with contextlib.suppress(errors.FailedPreconditionError):  # it was never written
                    found[key] = gen_resource_variable_ops.read_variable_op(handle, dtype)
    return found


def holds_now(handle: Any, tensor: Any) -> bool:
    """Whether a tensor is what a variable holds: their elements are in one place.

    Args:
        handle: of the variable.
        tensor: an eager one. On another device than a CPU nobody knows.
    """
    values = variable_values({0: handle})
    if not values or "CPU" not in tensor.device or "CPU" not in values[0].device:
        return False
    try:
        places = [np.asarray(memoryview(each)).ctypes.data for each in (tensor, values[0])]
    except (BufferError, TypeError, ValueError):  # NumPy doesn't know the dtype
        return False
    return bool(places[0] == places[1])


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
            before = () if op == _ASSIGN else self._sources.get(inputs[at], ())
            self._sources[inputs[at]] = tuple(dict.fromkeys((*before, *given)))

    def read(self, op: str, inputs: Sequence[str]) -> tuple[str, ...]:
        """What an op reads besides its inputs: that of which a variable was made."""
        if op != _READ or not inputs:
            return ()
        return self._sources.get(inputs[0], ())
