"""What a user reads and changes of a program that stands still between two ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tfdbg_cli.common.errors import UserError, did_you_mean
from tfdbg_cli.dumps.elements import parse_tensor_name
from tfdbg_cli.engines.kit.stepped import check_overridden, names_to_restore
from tfdbg_cli.engines.torch.record.op_record import OpOutput
from tfdbg_cli.engines.torch.stepping.op_gate import OpGate
from tfdbg_cli.engines.torch.stepping.overrides import is_alias, put
from tfdbg_cli.engines.torch.stepping.records import RecordedOutputs
from tfdbg_cli.engines.torch.stepping.values import as_value, copied, fitted, overwrite
from tfdbg_cli.engines.torch.values.access import is_readable

__all__ = ["ProgramValues"]


class ProgramValues:
    """Tensors by name, their values and what stands for them; variables and their old values.

    Args:
        recorded: the outputs of the run.
        passage: of its ops.
    """

    def __init__(self, recorded: RecordedOutputs, passage: OpGate) -> None:
        self._recorded = recorded
        self._passage = passage
        self._overrides = passage.overrides

    # Reading.

    def is_made(self, name: str) -> bool:
        """Whether a tensor was made or given a value; its own isn't looked for."""
        return name in self._overrides.values or self._recorded.find(name) is not None

    def has(self, name: str) -> bool:
        """Whether `value` gives something."""
        if name in self._overrides.values:
            return True
        output = self._recorded.find(name)
        return output is not None and self._recorded.load(output) is not None

    def value(self, name: str) -> torch.Tensor:
        """A copy of a tensor as it was made, or of what stands for it.

        Raises:
            KeyError: there is none.
        """
        value = self.found(name)
        if value is None:
            raise KeyError(name)
        return copied(value)

    def found(self, name: str) -> torch.Tensor | None:
        """What `value` makes a copy of."""
        output = self._recorded.find(name)
        if output is None or output.record.facts is None:
            value = self._overrides.values.get(name)
            if value is not None:
                return value
        return self._recorded.load(output) if output is not None else None

    def original(self, name: str) -> torch.Tensor | None:
        """What a tensor would be without overrides; ``None``: not known."""
        output = self._recorded.find(name)
        if output is None:
            return None
        twins = self._passage.twins
        if twins.is_affected(output):
            value = twins.value(output)
        elif output.record.facts is None:
            held = self._overrides.real(output)
            value = held.get() if held is not None else None
        else:
            value = self._recorded.load(output)
        return copied(value) if value is not None else None

    def user(self, name: str) -> str:
        """The first op that has used a tensor; empty: none has."""
        output = self._recorded.find(name)
        if output is None:
            return ""
        return self._recorded.user(output, with_views=output.record.facts is None)

    # Overrides.

    def override(self, name: str, value: Any) -> None:
        """Let a tensor have another value.

        Raises:
            UserError: it can't, or not this one.
        """
        node, slot = parse_tensor_name(name)
        if slot is None:
            raise UserError(f'"{name}" is not a tensor.', f'Try "{name}:0".')
        given = as_value(name, value)
        output = self._recorded.find(name)
        if output is None:
            self._check_ahead(name, node, given)
        elif output.record.facts is None:
            self._override_leaf(output, given)
        else:
            self._check_unused(output, "overridden")
            tensor = output.reference()
            if tensor is not None and is_alias(output) and self._passage.is_handed(tensor):
                fitting = fitted(name, given, tensor).clone()
                before = copied(tensor)
                self._passage.hand(tensor, fitting)
                self._recorded.swap(output, fitting)
            else:
                tensor = self._memory(output)
                fitting = fitted(name, given, tensor)
                before = self.put(output, tensor, fitting)
            self._overrides.originals.setdefault(name, before)
            self._overrides.effective.add(name)
        self._overrides.values[name] = given

    def _check_ahead(self, name: str, node: str, given: torch.Tensor) -> None:
        """What can be said of an override before its op is done."""
        passage = self._passage
        undone = next((call.record for call in passage.undone if call.record.name == node), None)
        if undone is not None:
            output = next((each for each in undone.outputs if each.name == name), None)
            if output is None:
                raise UserError(f"{node} has no such output.")
            fitted(name, given, self._memory(output))
            return
        done = next((s for s in passage.steps[: passage.position] if s.node == node), None)
        if done is not None:
            raise UserError(f"There is no {name}.", did_you_mean(name, done.outputs))

    def _override_leaf(self, output: OpOutput, given: torch.Tensor) -> None:
        user = self._recorded.user(output, with_views=True)
        if user:
            raise _too_late(output.name, user, "overridden")
        tensor = output.reference()
        if tensor is None:
            tensor = self._recorded.load(output)
        fitting = fitted(output.name, given, tensor) if tensor is not None else given
        self._overrides.show(output, fitting)

    def _check_unused(self, output: OpOutput, what: str) -> None:
        user = self._recorded.user(output, with_views=False)
        if user:
            raise _too_late(output.name, user, what)

    def _memory(self, output: OpOutput) -> torch.Tensor:
        """What has the memory of an output that can be given another value.

        Raises:
            UserError: others have it too.
        """
        shared = self._recorded.sharing(output)
        if shared:
            raise UserError(
                f"{output.name} can't be overridden now: it shares its memory with {shared}.",
                "Override it before it is computed.",
            )
        tensor = output.reference()
        if tensor is None and output.held is not None and output.held.key:
            tensor = output.held.get()
        if tensor is None:
            raise UserError(
                f"{output.name} can't be overridden any more: the program no longer holds it."
            )
        return tensor

    def put(self, output: OpOutput, tensor: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        """Overwrite an output, in the program's memory and in what is shown of the run.

        Returns:
            What it was before.
        """
        before = self._recorded.renew(output, tensor)
        put(output.name, tensor, value)
        return before

    def take_back(self, name: str) -> None:
        """Remove an override.

        Raises:
            UserError: there is none, or the program has used it.
        """
        overrides = self._overrides
        check_overridden(name, overrides.values)
        output = self._recorded.find(name)
        if output is not None and output.record.facts is None:
            overrides.hide(output)
        elif output is not None and name in overrides.originals:
            self._check_unused(output, "changed")
            tensor = self._memory(output)
            self.put(output, tensor, overrides.originals.pop(name))
        overrides.effective.discard(name)
        del overrides.values[name]

    # Variables.

    def restore(self, variables: Sequence[str]) -> Sequence[str]:
        """Give variables the value that they had when the run first used them.

        Args:
            variables: their names; empty: all that were changed.

        Raises:
            UserError: one can't be restored; then none is.
        """
        updated = self._passage.updated
        names = names_to_restore(variables, updated)
        leaves = dict(self._recorded.leaves())
        found: list[tuple[str, OpOutput, torch.Tensor, torch.Tensor]] = []
        for name in names:
            output = leaves[name]
            held = self._overrides.real(output)
            tensor, value = output.reference(), held.get() if held is not None else None
            if tensor is None or value is None or not is_readable(tensor):
                raise UserError(f"{name} can't be restored: its value was not kept.")
            found.append((name, output, tensor, value))
        for name, output, tensor, value in found:
            self._recorded.before_write(output)
            overwrite(tensor, value)
            del updated[name]
        self._passage.undoable = []  # undoing the last op would write to them again
        return names


def _too_late(name: str, user: str, what: str) -> UserError:
    return UserError(
        f"{name} can't be {what} any more: {user} has used it.",
        "Override it before it is used: in an earlier step, or as soon as the next run begins.",
    )
