"""Makes steppers of calls, and of runs that were recorded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.engines.base import Capture
from tfdbg_cli.engines.tensorflow.functions.describing import RunDescriber
from tfdbg_cli.engines.tensorflow.functions.held import HeldTensor
from tfdbg_cli.engines.tensorflow.functions.level import ValuesLevel
from tfdbg_cli.engines.tensorflow.functions.stepping.layout import CallLayout
from tfdbg_cli.engines.tensorflow.functions.stepping.records import RecordedRun
from tfdbg_cli.engines.tensorflow.functions.stepping.state import CallVariables
from tfdbg_cli.engines.tensorflow.functions.stepping.stepper import CallStepper
from tfdbg_cli.engines.tensorflow.functions.stepping.worlds import MadeCall
from tfdbg_cli.engines.tensorflow.functions.variables import is_writing
from tfdbg_cli.engines.tensorflow.shared.values import holdable
from tfdbg_cli.stepping.stepper import Step

__all__ = ["call_stepper", "run_stepper"]


def call_stepper(
    watcher: ValuesLevel, variables: CallVariables, error: BaseException | None
) -> CallStepper:
    """A stepper of the only call that a run is made of.

    Args:
        watcher: has seen it.
        variables: as they were before it.
        error: that it has raised.
    """
    describing, nodes, data = watcher.describing()
    (call,) = describing.calls
    event, known = call.event, call.event.known
    layout = CallLayout(
        event.twin.layout,
        call.inlined,
        call.arguments,
        {node.name: node for node in nodes},
        [holdable(tensor.dtype) for tensor in event.inputs],
    )
    given = {
        (each.path, each.node, each.slot): each.value.tensor()
        for each in call.seen
        if isinstance(each.value, HeldTensor)
    }
    made = MadeCall(
        known,
        event.inputs,
        list(event.outputs),
        error,
        event.failed,
        layout,
        call.inlined,
        Graph(nodes),
        data,
        given,
        variables,
    )
    return CallStepper(made)


def run_stepper(watcher: ValuesLevel, value: Any, error: BaseException | None) -> RecordedRun:
    """A stepper of any run that was made.

    Args:
        watcher: has seen it.
        value: that the caller of the run gets.
        error: that it has raised.
    """
    describing, nodes, data = watcher.describing()
    owners = dict(_owners(describing, nodes))
    members: dict[str, list[str]] = {}
    for node in nodes:
        members.setdefault(owners.get(node.name, node.name), []).append(node.name)
    slots: dict[str, set[int]] = {}
    for datum in data:
        slots.setdefault(datum.node_name, set()).add(datum.output_slot)
    handles = {f"{node.name}:0" for node in nodes if node.op_type == "VarHandleOp"}
    written: dict[int, Sequence[str]] = {}
    steps: list[Step] = []
    place: dict[str, int] = {}
    for node in nodes:
        if node.name in owners or node.op_type == "VarHandleOp":
            continue
        inside = members[node.name]
        for name in inside:
            place[name] = len(steps)
        own = set(inside)
        inputs = tuple(each for each in node.inputs if each.rpartition(":")[0] not in own)
        outputs = tuple(f"{node.name}:{slot}" for slot in sorted(slots.get(node.name, ())))
        if is_writing(node.op_type):
            written[len(steps)] = [each[:-2] for each in inputs if each in handles]
        is_feed = node.op_type == "Input"
        steps.append(Step(node.name, node.op_type, inputs, outputs, tuple(inside), is_feed))
    failed = watcher.failed_op(error) if error is not None else ""
    failed_at = place.get(failed, len(steps))
    real = Capture(value, None, error)
    return RecordedRun(steps, place, Graph(nodes), data, real, failed_at, written)


def _owners(describing: RunDescriber, nodes: Sequence[Node]) -> Iterator[tuple[str, str]]:
    """Nodes within loops and branches, and the loop or branch that is a step."""
    for call in describing.calls:
        names = call.inlined.names
        for path, inside in names.items():
            outer = next(
                (
                    names[path[:at]][node]
                    for at, (node, _) in enumerate(path)
                    if node in names[path[:at]]
                ),
                None,
            )
            if outer is not None:
                for name in inside.values():
                    yield name, outer
