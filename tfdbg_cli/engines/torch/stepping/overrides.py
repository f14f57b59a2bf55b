"""The values that a user puts in the place of others while a program is stepped through."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from tfdbg_cli.common.errors import UserError, one_line
from tfdbg_cli.dumps.elements import node_name_of
from tfdbg_cli.engines.torch.names.sites import replaced
from tfdbg_cli.engines.torch.private import storage_key
from tfdbg_cli.engines.torch.record.holding import HeldValue, Holder
from tfdbg_cli.engines.torch.record.op_record import OpOutput, OpRecord
from tfdbg_cli.engines.torch.stepping.values import copied, fitted, flat, overwrite

__all__ = ["Overrides", "is_alias", "plain_name", "put"]


class Overrides:
    """Tensor names and the values that they are to have.

    An op that is done after its output was overridden is executed all the same. What it has
    computed is overwritten in its own memory, so that views, and what autograd has saved, have the
    new value as well; only a view is replaced as a whole, since its memory is another tensor's.

    What no op has made (parameters, inputs) is never changed: ops are given another tensor instead.

    Args:
        holder: of the values of the run.

    Attributes:
        values: name -> value.
        originals: of those that the program has got: what it would have got.
        effective: the names of those that the program has got.
    """

    def __init__(self, holder: Holder) -> None:
        self.values: dict[str, torch.Tensor] = {}
        self._holder = holder
        self._real: dict[str, HeldValue | None] = {}
        self.originals: dict[str, torch.Tensor] = {}
        self.effective: set[str] = set()

    def meet(self, node: str) -> None:
        """An op is about to be done: values that were given for it under its plain name are its."""
        plain = plain_name(node)
        if plain == node:
            return
        for name in list(self.values):
            if node_name_of(name) == plain and name not in self.effective:
                self.values.setdefault(node + name[len(plain) :], self.values.pop(name))

    def instead(self, record: OpRecord, tensors: list[torch.Tensor]) -> dict[int, torch.Tensor]:
        """What to give to an op instead of leaves that are overridden.

        Args:
            record: of the op.
            tensors: that it was called with, nested lists flattened.

        Returns:
            Position among the tensors -> another one. What the op writes to stays.

        Raises:
            UserError: a value doesn't fit.
        """
        found: dict[int, torch.Tensor] = {}
        if not self.values or len(tensors) != len(record.inputs):
            return found
        written = {id(output) for output in record.overwrites or ()}
        for index, (tensor, output) in enumerate(zip(tensors, record.inputs, strict=True)):
            if output.record.facts is not None or id(output) in written:
                continue
            value = self.values.get(output.name)
            if value is not None:
                found[index] = fitted(output.name, value, tensor)
                if output.name not in self.effective:
                    self.originals[output.name] = copied(tensor)
                    self.effective.add(output.name)
                    self.show(output, found[index])
        return found

    def show(self, leaf: OpOutput, value: torch.Tensor) -> None:
        """Let the run have a value for a leaf that isn't the program's."""
        self._real.setdefault(leaf.name, leaf.held)
        leaf.held = self._holder.hold(value, 0)

    def real(self, leaf: OpOutput) -> HeldValue | None:
        """The program's value of a leaf, as far as it is held."""
        return self._real.get(leaf.name, leaf.held)

    def hide(self, leaf: OpOutput) -> None:
        """Let the run have the program's value for a leaf again."""
        leaf.held = self._real.pop(leaf.name, leaf.held)
        self.originals.pop(leaf.name, None)

    def inputs(self, record: OpRecord, args: Any, kwargs: Mapping[str, Any]) -> tuple[Any, Any]:
        """The arguments of an op, with what is to be given `instead`."""
        tensors = list(flat((args, kwargs)))
        instead = self.instead(record, tensors)
        if not instead:
            return args, kwargs
        by_id = {id(tensors[index]): value for index, value in instead.items()}
        return replaced(tuple(args), by_id), replaced(dict(kwargs), by_id)

    def outputs(self, record: OpRecord, result: Any) -> Any:
        """What the program gets of an op, before anybody has seen what it has returned.

        Raises:
            UserError: a value doesn't fit; nothing has changed.
        """
        tensors = list(flat(result))
        returned = {id(tensor) for tensor in tensors}
        overwritten = record.overwritten or []
        tensors += [tensor for tensor in overwritten if id(tensor) not in returned]
        named = {f"{record.name}:{slot}": tensor for slot, tensor in enumerate(tensors)}
        wanted = [
            (n, t, fitted(n, self.values[n], t)) for n, t in named.items() if n in self.values
        ]
        inputs = {output.key for output in record.inputs if output.key}
        replacements: dict[int, torch.Tensor] = {}
        for name, tensor, value in wanted:
            is_own = any(tensor is each for each in overwritten)
            self.originals[name] = copied(tensor)
            if not is_own and storage_key(tensor) in inputs:
                replacements[id(tensor)] = value.clone()
            else:
                put(name, tensor, value)
            self.effective.add(name)
        return replaced(result, replacements) if replacements else result


def plain_name(node: str) -> str:
    """A node without the underscore in front that nobody thinks of: ``model/_softmax``."""
    scope, slash, last = node.rpartition("/")
    return f"{scope}{slash}{last[1:]}" if len(last) > 1 and last[0] == "_" else node


def put(name: str, tensor: torch.Tensor, value: torch.Tensor) -> None:
    """Overwrite a tensor.

    Raises:
        UserError: that is not possible.
    """
    try:
        overwrite(tensor, value)
    except RuntimeError as error:
        raise UserError(f"{name} can't be overridden: {one_line(error)}.") from None


def is_alias(output: OpOutput) -> bool:
    """Whether an output has the memory of an input that its op doesn't write to."""
    record = output.record
    if not output.key or any(each.key == output.key for each in record.overwrites or ()):
        return False
    return any(each.key == output.key for each in record.inputs)
