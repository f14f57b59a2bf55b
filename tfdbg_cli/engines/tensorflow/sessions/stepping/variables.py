"""Reads and writes variables of a session with the operations that its graph has for it anyway."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from tensorflow.core.protobuf import config_pb2
from tensorflow.python.client import session as tf_session

from tfdbg_cli.engines.tensorflow.sessions.errors import attempt
from tfdbg_cli.engines.tensorflow.shared.private import is_reference, prepared_call, serial_of
from tfdbg_cli.engines.tensorflow.shared.values import plain

__all__ = ["VariableDoors"]

# A class of the program's may do more in its `run`: that is for runs of the program's alone.
_run = tf_session.BaseSession.run

_READS = "ReadVariableOp"
_WRITES = frozenset({"Assign", "AssignVariableOp"})


class VariableDoors:
    """How the variables of a graph can be read and set; nothing is added to the graph.

    Args:
        variables: the operations that hold them.
    """

    def __init__(self, variables: Iterable[Any]) -> None:
        self._getters: dict[Any, Any] = {}
        # What reads some of them at once, by the names of the tensors.
        self._calls: dict[tuple[str, ...], Callable[..., Any] | None] = {}
        #: Variable -> the operation that assigns, and the tensor that it assigns.
        self._setters: dict[Any, tuple[Any, Any]] = {}
        for variable in variables:
            self._look(variable)

    def _look(self, variable: Any) -> None:
        handle = variable.outputs[0]
        if is_reference(handle):
            self._getters[variable] = handle
        # The runtime's optimizer may compute a sum from what it is made of, though it is fed: the
        # initializer, which comes first, assigns what is mostly a constant.
        for op in sorted(handle.consumers(), key=serial_of):
            # What an operation waits for would be executed as well.
            if op.control_inputs or op.inputs[0] is not handle:
                continue
            if op.type == _READS:
                self._getters.setdefault(variable, op.outputs[0])
            elif op.type in _WRITES and op.graph.is_feedable(op.inputs[1]):
                value = op.inputs[1]
                if not is_reference(value):
                    self._setters.setdefault(variable, (op, value))

    def can_read(self, variable: Any) -> bool:
        """Whether the graph has an operation that reads a variable and nothing else."""
        return variable in self._getters

    def can_write(self, variable: Any) -> bool:
        """Whether the graph has an operation that sets a variable to any value."""
        return variable in self._setters

    def read(self, session: Any, variables: Iterable[Any]) -> dict[Any, Any]:
        """The values of variables, in memory of their own; of those that have one."""
        known = [each for each in variables if each in self._getters]
        if not known:
            return {}
        getters = [self._getters[each] for each in known]
        values, error = attempt(lambda: self._read(session, getters))
        if error is None:
            # What is given may be the memory that updates write to.
            return {each: np.array(plain(value)) for each, value in zip(known, values, strict=True)}
        found = {}
        for variable, getter in zip(known, getters, strict=True):
            value, error = attempt(functools.partial(_run, session, getter))
            if error is None:  # else it is uninitialized
                found[variable] = np.array(value)
        return found

    def _read(self, session: Any, getters: Sequence[Any]) -> Any:
        if session.sess_str:  # on a server
            return _run(session, getters)
        names = tuple(getter.name for getter in getters)
        if names not in self._calls:
            self._calls[names] = prepared_call(session, config_pb2.CallableOptions(fetch=names))
        call = self._calls[names]
        return call(session, ()) if call is not None else _run(session, getters)

    def write(self, session: Any, values: Mapping[Any, Any]) -> None:
        """Set variables.

        Raises:
            OpError: the session can't; e.g. it is closed.
        """
        waiting = dict(values)
        while waiting:
            # Two variables may be assigned the same tensor: one run for each value of it.
            feeds: dict[Any, Any] = {}
            setters = []
            for variable in list(waiting):
                setter, given = self._setters[variable]
                if given.ref() not in feeds:
                    feeds[given.ref()] = waiting.pop(variable)
                    setters.append(setter)
            _run(session, setters, {given.deref(): value for given, value in feeds.items()})
