"""Reasons that lie before the run: what it was given, or what was in memory."""

from __future__ import annotations

from tfdbg_cli.common.arrays import Array, np
from tfdbg_cli.common.node_words import (
    BACKWARD,
    MADE_BY,
    MADE_INSIDE,
    NUMBER,
    PHASE,
    WRITES,
    WRITTEN_BY,
)
from tfdbg_cli.dumps.dump import Datum
from tfdbg_cli.dumps.graph import Node, node_name_of
from tfdbg_cli.filters.causes.advice import ADVICE, Cause
from tfdbg_cli.filters.causes.rules import BINARY, BY_ELEMENT
from tfdbg_cli.filters.lineage import WRITTEN, TensorLineage, floats, holds_others

__all__ = ["before_run", "from_outside", "of_memory", "written_before"]

_MOST_ROWS = 4
_OF_BUFFERS = "See what has written to it: start again with config set level ops."
# In the names of what adds a gradient to that of earlier backward passes.
_ACCUMULATING = "/AccumulateGrad/"


def written_before(lineage: TensorLineage, node: Node) -> Cause | None:
    """Of a variable that is read because an op of the same run has written to it."""
    nodes = lineage.graph.nodes if lineage.graph is not None else {}
    for name in node.control_inputs:
        writer = nodes.get(name)
        if writer is None or not writer.op_type.startswith("Assign"):
            continue
        if writer.inputs[:1] == node.inputs[:1]:
            given = ", ".join(writer.inputs[1:])
            advice = f"li {name} shows what that was made of."
            return Cause("weights", f"{name} wrote it in this run, from {given}", advice)
    return None


def before_run(lineage: TensorLineage, datum: Datum, node: Node) -> Cause | None:
    """Of a tensor that the program has computed itself, where the run began with its gradient."""
    graph, made_by = lineage.graph, node.attributes.get(MADE_BY, "")
    edges = graph.recipients(node.name, control=False) if graph is not None else ()
    phases = {graph.nodes[each.node].attributes.get(PHASE) for each in edges} if graph else {}
    name = f"{datum.tensor_name}{_rows(floats(datum))}"
    if edges and all(_ACCUMULATING in each.node for each in edges):
        text = f"it was in the gradient before this backward pass added to it ({name})"
        return Cause("before", text, "Call zero_grad() before each step, or start run -f earlier.")
    if MADE_INSIDE in node.attributes:
        by = f", by {made_by}" if made_by else ""
        text = f"it was computed in this run{by}, where nothing was recorded ({name})"
        return Cause("before", text, ADVICE["inside"])
    text = f"it was computed before this run, by {made_by} ({name})"
    if not made_by:
        text = f"it was there before this run, which began with a backward pass ({name})"
    is_before = made_by or phases == {BACKWARD}
    return Cause("before", text, ADVICE["before"]) if is_before else None


def from_outside(datum: Datum, node: Node, is_weight: bool) -> Cause:
    """Of what the run was given."""
    value = floats(datum)
    if NUMBER in node.attributes and value is not None:
        return Cause("number", f"{datum.tensor_name} is {float(value):g}", ADVICE["number"])
    name = f"{datum.tensor_name}{_rows(floats(datum))}"
    if is_weight:
        return _given("weights", f"it came in with the weights ({name})", node)
    return _given("batch", f"it came in from outside ({name})", node)


def _given(kind: str, text: str, node: Node, advice: str = "") -> Cause:
    """Of what the run was given; an op before it may have written that."""
    by = node.attributes.get(WRITTEN_BY)
    written = f"{by} wrote to it before this run: see what that was given."
    return Cause(kind, text, written if by else advice or ADVICE[kind])


def _rows(value: Array | None) -> str:
    """Which rows of a table are bad, where others aren't."""
    if value is None or value.ndim < 2:
        return ""
    is_bad = ~np.isfinite(value).reshape(len(value), -1).all(1)
    rows = [int(each) for each in np.flatnonzero(is_bad)]
    if not rows or len(rows) == len(value):
        return ""
    if len(rows) > 1 and rows[-1] - rows[0] == len(rows) - 1:
        return f", rows {rows[0]} to {rows[-1]}"
    shown = ", ".join(map(str, rows[:_MOST_ROWS]))
    more = f" and {len(rows) - _MOST_ROWS} more" if len(rows) > _MOST_ROWS else ""
    return f", row{'s' if len(rows) > 1 else ''} {shown}{more}"


def of_memory(lineage: TensorLineage, node: Node) -> Cause | None:
    """Of what was in memory before the run, and that an op lets out."""
    graph, roles = lineage.graph, lineage.roles
    computed = roles.computes(node.op_type)
    # What is written over needn't be read.
    over = node.attributes.get(WRITES, "").split(", ") if computed not in BINARY else ()
    # Names, and whether something bad is in memory that was written to in parts, on the way there.
    waiting = [(name, False) for name in node.inputs if name not in over]
    seen = set[str]()
    while waiting and graph is not None:
        name, is_rest_bad = waiting.pop(0)
        source = graph.nodes.get(node_name_of(name))
        if source is None or name in seen:
            continue
        seen.add(name)
        is_buffer = source.op_type in roles.buffers
        if is_buffer or roles.unwritten.fullmatch(source.op_type):
            data = lineage.dump.by_tensor(name)
            bad = [found for each in data if (found := lineage.bad(each))]
            # What nobody has written to isn't always kept.
            is_gone = not (is_buffer or data or lineage.dump.lists_only_bad)
            if bad or (is_gone and (is_rest_bad or computed in BY_ELEMENT)):
                if not is_buffer:
                    text = f"it reads memory that was never written ({name})"
                    return Cause("memory", text, ADVICE["memory"])
                what = "nan" if bad[0].nan else "infinite"
                text = f"it reads {name}, a buffer that has been {what} since before this run"
                return _given("memory", text, source, _OF_BUFFERS)
        elif holds_others(source):
            if source.op_type == WRITTEN:
                is_rest_bad = any(map(lineage.bad, lineage.dump.by_tensor(name)))
            waiting += [(each, is_rest_bad) for each in source.inputs]
    return None
