"""What tensors would be if nothing were overridden: what depends on an override is done twice."""

from __future__ import annotations

import torch

from tfdbg_cli.common.interpreter.program_signals import contained
from tfdbg_cli.engines.torch.record.op_record import OpOutput, OpRecord
from tfdbg_cli.engines.torch.record.written import is_written
from tfdbg_cli.engines.torch.stepping.op_call import OpCall
from tfdbg_cli.engines.torch.stepping.overrides import Overrides

__all__ = ["OpCounterfactual"]


class OpCounterfactual:
    """The values of a run without overrides, of the tensors that overrides have an effect on.

    PyTorch's own ops are done a second time with the twins of their inputs; of others nobody knows
    what they do besides. What depends on a value that isn't known isn't either, nor is what was
    written to through a view.

    Args:
        overrides: their effects.
    """

    def __init__(self, overrides: Overrides) -> None:
        self._overrides = overrides
        # ``None``: not known.
        self._values: dict[str, torch.Tensor | None] = {}

    def is_affected(self, output: OpOutput) -> bool:
        """Whether overrides have an effect on an output, or on what it was made of."""
        if output.name in self._values or output.name in self._overrides.originals:
            return True
        record = output.record
        return is_written(record) and any(map(self.is_affected, record.inputs))

    def value(self, output: OpOutput) -> torch.Tensor | None:
        """The twin of an output that `is_affected`; ``None``: not known."""
        name = output.name
        if name in self._values:
            return self._values[name]
        return self._overrides.originals.get(name)

    def done(self, call: OpCall) -> None:
        """An op was done: do it for the twins, if it has any."""
        record = call.record
        affected = {
            index: self.value(output)
            for index, output in enumerate(record.inputs)
            if self.is_affected(output)
        }
        if not affected:
            for output in record.outputs:  # done again, and its inputs are as they were
                self._values.pop(output.name, None)
            return
        values = {index: value for index, value in affected.items() if value is not None}
        made: list[torch.Tensor] | None = None
        if len(values) == len(affected) and _is_known(record):
            with contained:  # whatever it is, it isn't the program's
                made = call.imitate(values)
        for slot, output in enumerate(record.outputs):
            is_made = made is not None and slot < len(made)
            self._values[output.name] = made[slot] if made is not None and is_made else None

    def passed(self, record: OpRecord) -> None:
        """An op was done, and not for the twins: if it has any, they aren't known."""
        is_affected = any(map(self.is_affected, record.inputs))
        for output in record.outputs:
            if is_affected:
                self._values[output.name] = None
            else:
                self._values.pop(output.name, None)


def _is_known(record: OpRecord) -> bool:
    facts = record.facts
    return facts is not None and facts.overload.startswith("aten::")
