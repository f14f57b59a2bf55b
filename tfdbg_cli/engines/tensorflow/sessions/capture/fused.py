"""What is fetched in a run without keeping the optimizer from making what it makes of it alone."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

from tensorflow.core.framework import graph_pb2
from tensorflow.core.protobuf import config_pb2
from tensorflow.python.framework import op_def_registry

from tfdbg_cli.common.interpreter.program_signals import contained
from tfdbg_cli.engines.tensorflow.sessions.capture.plan import CapturePlan
from tfdbg_cli.engines.tensorflow.sessions.capture.spool import borrow_folder, take
from tfdbg_cli.engines.tensorflow.sessions.capture.watch import debug_options
from tfdbg_cli.engines.tensorflow.shared import guard
from tfdbg_cli.engines.tensorflow.shared.optimized import (
    PASSING,
    GraphNode,
    OptimizedGraph,
    settled,
)
from tfdbg_cli.engines.tensorflow.shared.private import is_reference, prepared_call
from tfdbg_cli.engines.tensorflow.shared.redo import inputs_of

__all__ = ["keeping_fused", "telling"]

# A node that is in no graph: whoever watches it is shown the graph.
_NO_NODE = "tfdbg_no_node"
# How the runtime names what gives a fetched tensor.
_RESULT = "_retval_"


def keeping_fused(session: Any, plan: CapturePlan) -> CapturePlan:
    """The same plan, leaving unread what the program's own run has not, or not so.

    The runtime is asked for the graphs of both runs; nothing is executed.

    Args:
        session: in this process.
        plan: of a run.
    """
    return _settled(session, _begun(session, plan))


def telling(session: Any, plan: CapturePlan) -> CapturePlan:
    """As `keeping_fused`, fetching only what tells whether anything is bad; the rest is made of it.

    Args:
        session: in this process, on a CPU alone: what isn't fetched is computed there.
        plan: of a run.

    Returns:
        The plan; without anything in `CapturePlan.told`, all is fetched: the runtime would make
        something else of the program's own run.
    """
    begun = whole = _begun(session, plan)
    for _ in range(2):
        fewer = _fewer(whole)
        made = _settled(session, fewer)
        if made.left <= fewer.left:  # what the check has counted on can be looked at
            return made
        whole = _settled(session, begun)
    return whole


def _fewer(plan: CapturePlan) -> CapturePlan:
    """A plan without what the tensors tell of that its check looks at."""
    needed = {*plan.check.looked, *(source for _, source in plan.composed)}
    kept = {entry.node for entry in plan.entries if entry.copied or entry.fetch in needed}
    known = {(entry.node, entry.slot) for entry in plan.entries}
    plain = [op for op in plan.ops if _is_plain(op, plan) and known.issuperset(inputs_of(op))]
    fewer = plan.leaving({op.name for op in plain if op.name not in kept})
    again = {op.name: f"{op.name}/tfdbg_again" for op in plain if op.name in kept}
    return replace(fewer, told=fewer.left - plan.left, again=again)


def _begun(session: Any, plan: CapturePlan) -> CapturePlan:
    """A plan without what the runtime makes something else of in the program's own run."""
    plain = _looked(session, plan, plan.asked)
    nodes = list(_nodes_of(plan)) if plain is not None else []
    unread = plain.lacks(nodes) | plain.summed(nodes) if plain is not None else ()
    return replace(plan.leaving(unread), optimized=plain)


def _settled(session: Any, plan: CapturePlan) -> CapturePlan:
    nodes, plain = list(_nodes_of(plan)), plan.optimized
    made, _ = settled(
        plan.leaving,
        lambda made: _looked(session, plan, made.prepared.tensors),
        lambda _: nodes,
        plain,
    )
    if plain is None:
        return made
    # In a loop the watch holds them.
    summed = plain.summed(nodes)
    return replace(made, watched=[key for key in made.watched if key[0] not in summed])


def _looked(session: Any, plan: CapturePlan, fetches: Sequence[Any]) -> OptimizedGraph | None:
    """As `_graph_of`, which the run itself says best what is wrong with."""
    with contained:
        return _graph_of(session, plan, fetches, {tensor.name for tensor in plan.asked})
    return None


def _graph_of(
    session: Any, plan: CapturePlan, fetches: Sequence[Any], asked: Collection[str]
) -> OptimizedGraph | None:
    """What the runtime makes of a run.

    Args:
        session, plan: of the run.
        fetches: the tensors to fetch.
        asked: the names of those that the program asks for.
    """
    graphs: list[bytes] = []
    with borrow_folder() as folder, guard.bypass():
        options = config_pb2.CallableOptions()
        options.feed.extend(tensor.name for tensor in plan.feeds)
        options.fetch.extend(tensor.name for tensor in fetches)
        options.target.extend(op.name for op in plan.targets)
        watch = debug_options([(_NO_NODE, 0)], None, (f"file://{folder}",))
        options.run_options.debug_options.CopyFrom(watch)
        if prepared_call(session, options) is None:
            return None
        take(folder, lambda _: None, graphs.append)

    def is_ours(node: Any) -> bool:
        name, _, slot = node.name.removeprefix(_RESULT).rpartition("_")[0].rpartition("_")
        return bool(node.op == "_Retval" and f"{name}:{slot}" not in asked)

    parts = map(graph_pb2.GraphDef.FromString, graphs)
    return OptimizedGraph(parts, is_ours, {op.name for op in plan.targets}) if graphs else None


def _nodes_of(plan: CapturePlan) -> Iterator[GraphNode]:
    ends = {tensor.op.name for tensor in plan.asked}
    for op in reversed(plan.ops):
        inputs = [tensor.op.name for tensor in op.inputs]
        is_plain = bool(inputs) and _is_plain(op, plan)
        is_call = op.name in plan.functional
        yield GraphNode(op.name, op.name, inputs, op.name not in ends, is_plain, is_call)
        if (op.name in ends) if op.type in PASSING else not (is_plain or is_call):
            ends.update(inputs)


def _is_plain(op: Any, plan: CapturePlan) -> bool:
    """Whether an operation may be left unread, and be computed of its inputs if somebody looks."""
    signature = op_def_registry.get(op.type)
    return not (
        signature is None
        or signature.is_stateful
        or op.type in PASSING
        or op.name in plan.functional
        or any(map(is_reference, (*op.inputs, *op.outputs)))
    )
