"""Makes a dump of the records of a run: tensors in the order of time, a graph, stacks in words."""

from __future__ import annotations

import functools
import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from tfdbg_cli.common.errors import one_line
from tfdbg_cli.common.node_words import (
    CHECKED,
    MADE_BY,
    MADE_INSIDE,
    OUTPUT_SHAPES,
    WRITTEN_BY,
)
from tfdbg_cli.common.printable import cut
from tfdbg_cli.dumps.dump import Datum, InconvertibleTensorProto
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.sources import Frame
from tfdbg_cli.engines.torch.names.called import called_as
from tfdbg_cli.engines.torch.record.generated import script_frames
from tfdbg_cli.engines.torch.record.holding import HeldValue, Holder
from tfdbg_cli.engines.torch.record.op_record import BACKWARD, JUDGED, OpOutput, OpRecord
from tfdbg_cli.engines.torch.record.views import ViewFinder
from tfdbg_cli.engines.torch.record.written import is_written
from tfdbg_cli.engines.torch.values.arrays import describe, to_numpy
from tfdbg_cli.engines.torch.values.layouts import dtype_name

__all__ = ["RunDump", "assemble", "device_name"]

# Longer arguments are of no use on a screen.
_LONGEST_TEXT = 200
_INPUT = "Input"


class RunDump(MemoryDump):
    """The dump of a run of a PyTorch program.

    Values are those of the time at which they were made as long as the run was recorded. What the
    program writes to afterwards may change them, unless `settle` is called first.

    Args:
        records: the graph's nodes.
        holder: of the values.
        is_part: the run goes on: others use the same values.

    Attributes:
        keeps_graph: a backward pass of the run has kept its graph for another one.
    """

    keeps_graph = False

    def __init__(self, records: Sequence[OpRecord], holder: Holder, is_part: bool = False) -> None:
        super().__init__(lambda: Graph(lambda: map(_node, records)))
        self._records = records
        self._holder = holder
        self._is_part = is_part

    def ops(self) -> Iterator[tuple[str, OpRecord]]:
        """Each op under the name of its node."""
        for record in self._records:
            yield record.name, record

    def settle(self) -> None:
        """Copy what the program could still write to. The dump may then outlive the stop."""
        if not self._is_part:
            self._holder.settle()

    def close(self) -> None:
        if not self._is_part:
            self._holder.close()
        super().close()


def assemble(
    records: Sequence[OpRecord],
    holder: Holder,
    epoch: int,
    troubles: Sequence[str] = (),
    *,
    has_views: bool = False,
    is_part: bool = False,
) -> RunDump:
    """The dump of a run.

    Args:
        records: in the order in which they were begun.
        holder: of their values.
        epoch: nanoseconds between the performance counter and the time of day.
        troubles: what went wrong while they were made.
        has_views: views are to be there as well, as far as the values that they share are held.
        is_part: the run goes on.
    """
    kept = [record for record in records if record.is_adopted]
    dump = RunDump(kept, holder, is_part)
    dump.warnings += [*troubles, *holder.warnings]
    dump.absence = functools.partial(_why_absent, kept)
    moment = 0
    views = ViewFinder()
    for record in kept:
        # The order of the ops is that of the records, whatever the clock says.
        moment = max(moment + 1, (epoch + record.time) // 1000)
        for output in record.outputs:
            if output.held is not None:
                # Views that were asked for are listed with the rest.
                is_view = output.is_view and has_views
                dump.add_datum(_datum(record, output, output.held, moment, is_view))
            elif output.is_view and has_views:
                load = views.load(output)
                if load is not None:
                    dump.add_datum(_view(record, output, load, moment))
            if not output.is_view:
                views.add(output)
    return dump


def _why_absent(records: Sequence[OpRecord], name: str) -> str:
    """Why a node has no tensors; empty: it was not watched."""
    record = next((each for each in records if each.name == name), None)
    if record is None:
        return ""
    if record.error:
        return f"It raised {record.error}"
    if not record.outputs:
        return "It gives no tensor."
    if record.facts is not None and record.facts.is_uninitialized:
        return "Its memory has no values yet; lo tells which ops write to it."
    if record.outputs[0].device.type == "meta":
        return "It is on the meta device, where tensors have no values."
    if record.outputs[0].is_view:
        return "It is a view of a tensor whose value was not kept."
    if record.facts is not None and record.facts.is_late:
        return "What it has received was written to its memory later, by the op that lo names."
    if is_written(record):
        return "Nobody read it before it was written to again."
    return ""


def _datum(
    record: OpRecord, output: OpOutput, held: HeldValue, moment: int, is_view: bool
) -> Datum:
    dtype: str | None = None
    shape: tuple[int, ...] | None = None
    size: int | None = None
    tensor = held.tensor
    if tensor is None and all(part.tensor is not None for part in held.parts):
        tensor = held.get() if held.parts else None
    if tensor is not None:
        dtype, shape, size = describe(tensor)
    elif held.place is not None and held.place.dtype is not None:
        dtype = dtype_name(output.dtype)
        shape, size = tuple(output.shape or ()), held.place.length
    return Datum(
        record.name,
        output.slot,
        functools.partial(_value, held),
        timestamp=moment,
        device_name=device_name(output.device),
        dtype=dtype,
        shape=shape,
        nbytes=size,
        note=record.note or held.said,
        is_view=is_view,
    )


def _view(
    record: OpRecord, output: OpOutput, load: Callable[[], torch.Tensor | None], moment: int
) -> Datum:
    shape = tuple(output.shape or ())
    return Datum(
        record.name,
        output.slot,
        functools.partial(_viewed, load),
        timestamp=moment,
        device_name=device_name(output.device),
        dtype=dtype_name(output.dtype),
        shape=shape,
        nbytes=math.prod(shape) * output.dtype.itemsize,
        is_view=True,
    )


def _viewed(load: Callable[[], torch.Tensor | None]) -> Any:
    try:
        tensor = load()
    except RuntimeError as error:  # its memory was given back
        return InconvertibleTensorProto(f"It can't be read any more: {one_line(error)}")
    if tensor is None:
        return InconvertibleTensorProto("The value that it is a view of is gone.")
    return to_numpy(tensor)


def _value(held: HeldValue) -> Any:
    tensor = held.get()
    return (
        to_numpy(tensor)
        if tensor is not None
        else InconvertibleTensorProto(held.note or "The dump is closed.")
    )


@functools.cache
def device_name(device: torch.device) -> str:
    """A device as TensorFlow would call it."""
    kind = {"cuda": "GPU", "cpu": "CPU"}.get(device.type, device.type.upper())
    rank = os.environ.get("RANK", "0")
    task = rank if rank.isdigit() else "0"
    return f"/job:localhost/replica:0/task:{task}/device:{kind}:{device.index or 0}"


# The graph.


def _node(record: OpRecord) -> Node:
    device = device_name(record.outputs[0].device) if record.outputs else ""
    return Node(
        record.name,
        record.op_type,
        [output.name for output in record.inputs],
        (),
        device,
        functools.partial(_attributes, record),
        functools.partial(_frames, record),
    )


def _frames(record: OpRecord) -> tuple[Frame, ...] | None:
    if record.stack is None:
        return None
    forward = record.forward
    caller = forward if forward is not None and record.stack is forward.stack else record
    return (*record.stack.frames(), *script_frames(caller.script))


def _attributes(record: OpRecord) -> dict[str, str]:
    return {name: text for name, text in _attribute_items(record) if text}


def _attribute_items(record: OpRecord) -> Iterator[tuple[str, str]]:
    outputs = record.outputs
    if outputs:
        yield "T", dtype_name(outputs[0].dtype)
        yield (
            OUTPUT_SHAPES,
            json.dumps([None if o.shape is None else [*o.shape] for o in outputs], default=str),
        )
    facts = record.facts
    if record.op_type == _INPUT and outputs:
        given = outputs[0].reference()
        made_by = given.grad_fn if given is not None else None
        yield MADE_BY, made_by.name() if made_by is not None else record.made_by
        yield MADE_INSIDE, "true" if record.is_made_inside else ""
    yield WRITTEN_BY, record.written_by
    if facts is not None:
        yield "_aten", facts.overload
        yield "_phase", record.phase
    if record.module is not None:
        path, kind = record.module.path, record.module.class_name
        yield "_module", f"{path} ({kind})" if path else kind
        yield "_module_stack", record.module.stack
    if record.phase != BACKWARD:  # there it would be what started the pass
        yield "_api", called_as(record.stack) if record.stack is not None else ""
    is_view = bool(outputs) and all(output.is_view for output in outputs)
    if is_view:
        yield "_view", "true"
    if is_view or is_written(record):
        yield CHECKED, "true" if outputs[0].judged == JUDGED else ""
    if record.forward is not None:
        yield "_forward_node", record.forward.name
        yield "_own_backward", "true" if record.stack is not record.forward.stack else ""
    if record.phase == BACKWARD:
        yield "_grad_of", _gradient_of(record)
        yield "_backward_called_at", record.called_at.user_line() if record.called_at else ""
    yield (
        "_aliases",
        ", ".join(
            alias if not slot else f"{alias}={record.name}:{slot}"
            for slot, alias in record.aliases or ()
        ),
    )
    yield "_writes", ", ".join(output.name for output in record.overwrites or ())
    yield "_error", record.error
    if record.result is not None:
        yield "_result", cut(str(record.result), _LONGEST_TEXT)
    names = facts.arguments if facts is not None else ()
    constants = record.constants
    for position, value in zip(constants[::2], constants[1::2], strict=True):
        name = position
        if isinstance(position, int):
            name = names[position] if position < len(names) else str(position)
        yield f"_arg_{name}", cut(str(value), _LONGEST_TEXT)


def _gradient_of(record: OpRecord) -> str:
    """The parameter whose gradient an op is about, where autograd hands it over."""
    start, _, _ = record.prefix.partition("/AccumulateGrad/")
    return start.removeprefix("gradients/") if start != record.prefix else ""
