"""What variables held before a call is given back only if the call turns out to be bad.

A variable's value that somebody refers to is copied when the variable is written to: all of a
model would be, and of an optimizer, at each step. So the writes wait until it is known whether
anything before them is bad. Only if something is, the values leave the function. What an optimizer
makes of gradients waits likewise: of all variables at a time it would take as much memory.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from tensorflow.core.framework import function_pb2, types_pb2

from tfdbg_cli.engines.tensorflow.functions.definitions import FunctionBody
from tfdbg_cli.engines.tensorflow.functions.effects import has_state, may_write, nodes_behind
from tfdbg_cli.engines.tensorflow.functions.twins.layouts import Part
from tfdbg_cli.engines.tensorflow.functions.twins.nodes import add_node, add_zero

__all__ = ["READING", "Phases", "Read", "guard", "phases_of"]

_TAPE = "gradient_tape/"
#: The op type that gives a variable's value.
READING = "ReadVariableOp"


class Read(NamedTuple):
    """A variable's value among the results of a part.

    Attributes:
        node: that reads it.
        at: its number.
    """

    node: str
    at: int


class Phases(NamedTuple):
    """The nodes of a body, by when they are executed in a guarded one.

    Attributes:
        before: whose tensors tell whether something is bad before the writes.
        updates: which nothing but writes needs, gradients aside; they wait with these.
        writers: that write to variables.
        behind: these, and all that wait for one of them.
    """

    before: Collection[str]
    updates: Collection[str]
    writers: Collection[str]
    behind: Collection[str]


def phases_of(body: FunctionBody) -> Phases:
    """When the nodes of a body are executed."""
    writers = {node.name for node in body.nodes if may_write(node)}
    behind, updates = nodes_behind(body, writers), _updates(body, writers)
    before = {node.name for node in body.nodes} - behind - updates
    return Phases(before, updates, writers, behind)


def guard(part: Part, phases: Phases, reads: Sequence[Read]) -> list[Any]:
    """Return what is read as it is if something is bad, and no elements otherwise.

    Args:
        part: of the twin.
        phases: of the body that it is made of.
        reads: of the part's results.

    Returns:
        The functions that are called for it.
    """
    flag = part.health.is_bad(phases.before)
    made: list[Any] = []
    for is_late in (False, True):
        group = [read for read in reads if (read.node in phases.behind) is is_late]
        if not group:
            continue
        kinds = [part.layout.dtypes[read.at] for read in group]
        name = f"{part.definition.signature.name}_kept{is_late:d}"
        branches = [_branch(f"{name}_{step}", kinds, step == "then") for step in ("then", "else")]
        chosen = add_node(
            part.definition, "StatelessIf", [flag, *(part.references[read.at] for read in group)]
        )
        chosen.attr["Tcond"].type = types_pb2.DT_BOOL
        for key in ("Tin", "Tout"):
            chosen.attr[key].list.type.extend(kinds)
        for key, branch in zip(("then_branch", "else_branch"), branches, strict=True):
            chosen.attr[key].func.name = branch.signature.name
        for at, read in enumerate(group):
            part.references[read.at] = f"{chosen.name}:output:{at}"
        for node in part.definition.node_def if not is_late else ():
            if node.name in phases.updates or node.name in phases.writers:
                node.input.append(f"^{chosen.name}")
        made += branches
    return made


def _updates(body: FunctionBody, writers: set[str]) -> set[str]:
    """What nothing but writes needs, gradients aside."""
    needed = {name for name, _ in body.returns}
    found: set[str] = set()
    for node in reversed(body.nodes):
        is_last = node.name in writers or (
            node.name not in needed
            and node.name in body.live
            and bool(node.inputs)
            and not (node.inner or node.kind or has_state(node) or _TAPE in node.name)
        )
        if is_last:
            found.add(node.name)
        else:
            needed.add(node.name)
            needed.update(name for name, _ in node.inputs)
    return found - writers


def _branch(name: str, kinds: Sequence[int], keeps: bool) -> Any:
    """A function that returns what it is given, or as many tensors without elements."""
    made = function_pb2.FunctionDef()
    made.signature.name = name
    for at, kind in enumerate(kinds):
        made.signature.input_arg.add(name=f"given_{at}", type=kind)
        made.signature.output_arg.add(name=f"kept_{at}", type=kind)
        made.ret[f"kept_{at}"] = f"given_{at}" if keeps else add_zero(made, kind, 0)
    return made
