"""Reads and writes variables of a session with the operations that its graph has for it anyway."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from tfdbg_cli.engines.tensorflow.private import is_reference, serial_of
from tfdbg_cli.engines.tensorflow.sessions.errors import attempt

__all__ = ["VariableDoors"]

_Run = Callable[..., Any]

_READS = "ReadVariableOp"
_WRITES = frozenset({"Assign", "AssignVariableOp"})


class VariableDoors:
    """How the variables of a graph can be read and set; nothing is added to the graph.

    Args:
        variables: the operations that hold them.
        run: ``Session.run``, past the debugger.
    """

    def __init__(self, variables: Iterable[Any], run: _Run) -> None:
        self._run = run
        self._getters: dict[Any, Any] = {}
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

    def read(self, variables: Iterable[Any]) -> dict[Any, Any]:
        """The values of variables, in memory of their own; of those that have one."""
        known = [each for each in variables if each in self._getters]
        if not known:
            return {}
        getters = [self._getters[each] for each in known]
        values, error = attempt(lambda: self._run(getters))
        if error is None:
            return {each: np.array(value) for each, value in zip(known, values, strict=True)}
        found = {}
        for variable, getter in zip(known, getters, strict=True):
            value, error = attempt(functools.partial(self._run, getter))
            if error is None:  # else it is uninitialized
                found[variable] = np.array(value)
        return found

    def write(self, values: Mapping[Any, Any]) -> None:
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
            self._run(setters, {given.deref(): value for given, value in feeds.items()})
