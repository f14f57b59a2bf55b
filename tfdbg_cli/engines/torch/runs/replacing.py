"""Other values for the tensors of a run that is over, written to the program's own memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import torch

from tfdbg_cli.dumps.dump import CannotRedo, Dump, NewValues
from tfdbg_cli.engines.kit.fitting import stands_for
from tfdbg_cli.engines.torch.private import sequence_of, unobserved
from tfdbg_cli.engines.torch.record.assembly import RunDump
from tfdbg_cli.engines.torch.record.op_record import OpOutput, OpRecord
from tfdbg_cli.engines.torch.stepping.values import as_value, overwrite
from tfdbg_cli.engines.torch.values.arrays import to_numpy

__all__ = ["cannot_replace", "replace_tensors"]


def cannot_replace(value: Any, new: NewValues) -> NoReturn:
    """Refuse, where only a part of the run's tensors is known."""
    raise CannotRedo(
        "the debugger keeps all tensors of a run only at the level values (config set level "
        "values, before the run)"
    )


def replace_tensors(dump: Dump | None, value: Any, new: NewValues) -> Any:
    """Give the program's tensors other values, all of them or none; see `Capture.replaced`.

    Values that are held by reference are what the program's memory has now: results, gradients,
    and the parameters and the optimizer's state after the update.

    Args:
        dump: of the run.
        value: what the run returns; the program has it already.
        new: the tensors with other values.

    Raises:
        CannotRedo: a tensor can't get its value, or the program has used a value already.
    """
    if not isinstance(dump, RunDump):
        raise CannotRedo("the debugger has not recorded it")
    records = [record for _, record in dump.ops()]
    _refuse_numbers(records, new)
    _refuse_backward(records, new.node, dump.keeps_graph)
    for tensor, made in [*_writes(records, new)]:
        overwrite(tensor, made)
    return value


def _refuse_numbers(records: Sequence[OpRecord], new: NewValues) -> None:
    """The program knows numbers, or has decided something, by values that are other ones now."""
    for record in records:
        if record.result is None:
            continue
        for each in record.inputs:
            if new(each.name) is not None:
                line = record.stack.user_line() if record.stack is not None else ""
                place = f" at {line}" if line else ""
                raise CannotRedo(f"the program has read {each.name} as a number already{place}")


def _refuse_backward(records: Sequence[OpRecord], node: str, keeps_graph: bool) -> None:
    """The program may still compute gradients through the op as its line is now."""
    origin = next((each for each in records if each.name == node), None)
    if origin is None or origin.sequence < 0:
        return
    # The gradient of a sum needs no op of its own.
    names = {each.name for each in origin.outputs}
    around = [origin, *(r for r in records if any(each.name in names for each in r.inputs))]
    is_over = any(each.forward in around for each in records) and not keeps_graph
    if not is_over and _is_reached(records, origin.sequence):
        raise CannotRedo(f"the program can still compute gradients through {node}, as it was")


def _is_reached(records: Sequence[OpRecord], sequence: int) -> bool:
    """Whether an autograd node belongs to the graph of a tensor that the program has."""
    with unobserved():
        tensors = (output.reference() for record in records for output in record.outputs)
        waiting = [each.grad_fn for each in tensors if each is not None]
        seen = {None}
        while waiting:
            node = waiting.pop()
            if node in seen:
                continue
            if sequence_of(node) == sequence:
                return True
            seen.add(node)
            waiting += [each for each, _ in node.next_functions]
    return False


def _writes(
    records: Sequence[OpRecord], new: NewValues
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """The program's memory that has to have another value, and the value."""
    outputs = [each for record in records for each in record.outputs]
    living = {each.key for each in outputs if each.reference() is not None}
    largest: dict[int, int] = {}
    for each in outputs:
        if each.held is not None and each.held.key:
            largest[each.key] = max(largest.get(each.key, 0), _count(each))
    for output in outputs:
        held = output.held
        if output.key not in living or (held is None and output.is_view):
            continue  # the program has let go of it, or its memory is another output's
        if held is None or not held.key:  # overwritten: what is current covers it
            is_covered = _count(output) <= largest.get(output.key, 0)
            if not is_covered and new(output.name) is not None:
                raise CannotRedo(f"{output.name} wasn't kept, or was overwritten in part")
            continue
        value = new(output.name)
        if value is None:
            continue
        tensor = held.tensor
        if tensor is None or tensor.layout is not torch.strided or tensor.is_nested:
            raise CannotRedo(f"{output.name} isn't a dense tensor in memory")
        made = stands_for(output.name, value, to_numpy(tensor))
        yield tensor, as_value(output.name, made)


def _count(output: OpOutput) -> int:
    return math.prod(map(int, output.shape or ()))
