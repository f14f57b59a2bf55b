"""The variables of a call: as they were before it, and others in their place."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tensorflow.python.framework import ops as framework_ops
from tensorflow.python.ops import gen_resource_variable_ops as ops
from tensorflow.python.ops import resource_variable_ops

from tfdbg_cli.engines.tensorflow.functions.private import variable_kind
from tfdbg_cli.engines.tensorflow.functions.variables import quietly, variable_values

__all__ = ["CallVariables"]


class CallVariables:
    """The variables that a call is given.

    Args:
        arguments: of the call, which wasn't made yet.

    Args:
        arguments: of the call.

    Attributes:
        initial: number of the argument -> the value before the call.
    """

    def __init__(self, arguments: Sequence[Any]) -> None:
        self._kinds: dict[int, tuple[Any, Any, Any]] = {}
        self._withheld: dict[int, Any] = {}
        for at, argument in enumerate(arguments):
            kind = variable_kind(argument)
            if kind is not None:
                self._kinds[at] = argument, *kind
        self.initial = self.read(self._kinds)

    def read(self, variables: Any) -> dict[int, Any]:
        """The values of variables now, of those that have one."""
        return variable_values({at: self._kinds[at][0] for at in variables})

    def write(self, values: Mapping[int, Any]) -> None:
        """Set variables."""
        with quietly():
            for at, value in values.items():
                ops.assign_variable_op(self._kinds[at][0], value)

    def withhold(self, variables: Sequence[int]) -> None:
        """Give variables the values from before the call, until `settle`."""
        if not self._withheld:
            held = [at for at in variables if at in self.initial]
            self._withheld = self.read(held)
            self.write({at: self.initial[at] for at in held})

    def settle(self, values: Mapping[int, Any]) -> None:
        """Let variables be what the call has made of them, or what is given here."""
        withheld, self._withheld = self._withheld, {}
        self.write({**withheld, **values})

    def take_back(self) -> None:
        """Nothing is withheld any more; the variables stay as they were before the call."""
        self._withheld = {}

    def after_call(self, variable: int) -> Any:
        """What the call has made of a variable without overrides; ``None``: it has no value."""
        if variable in self._withheld:
            return self._withheld[variable]
        return self.read([variable]).get(variable)

    @contextlib.contextmanager
    def others(self, variables: Sequence[int]) -> Iterator[Mapping[int, Any]]:
        """Variables with the values from before the call: number -> handle."""
        made: dict[int, Any] = {}
        with quietly():
            for at in variables:
                handle, dtype, shape = self._kinds[at]
                with framework_ops.device(handle.device):
                    made[at] = resource_variable_ops.UninitializedVariable(
                        trainable=False, dtype=dtype, shape=shape
                    )
                    if at in self.initial:
                        ops.assign_variable_op(made[at].handle, self.initial[at])
        yield {at: variable.handle for at, variable in made.items()}
        made.clear()
