"""Executions of loops and branches: which belong together, and what they left in arrays."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tfdbg_cli.common.arrays import np
from tfdbg_cli.dumps.dump import Datum, Dump
from tfdbg_cli.dumps.graph import Graph, Node, node_name_of

__all__ = ["ArrayContents", "Executions", "InputMoment", "body_of", "call_of"]

# The names of function bodies that the runtime has inlined: "loop/body/_3/add".
_STEP = re.compile(r"(.*)/(body|cond|then|else|branch(?:es)?[/_:]?\d+)/_\d+/")
_BODY = re.compile(r".*/(?:body|cond|then|else|branch(?:es)?[/_:]?\d+)/_\d+/")
# TensorFlow 1 has arrays, and stacks for what a gradient needs of a loop.
_READS = re.compile(r"TensorArray(Read|Gather|Concat)(V\d)?|StackPop(V2)?")
_WRITES = re.compile(r"(TensorArray(?:Write|Scatter|Split)|StackPush)(?:V\d)?")
# Among the inputs of what writes.
_PLACE_OF_VALUE = {
    "TensorArrayScatter": 2,
    "TensorArraySplit": 1,
    "TensorArrayWrite": 2,
    "StackPush": 1,
}
# An array of gradients is one for each array and each of these.
_GRADIENTS, _SOURCE = "TensorArrayGrad", "source"
# They hand the handle of an array into a loop or a branch.
_PASSING = frozenset({"Enter", "Identity", "Merge", "RefEnter", "Switch"})


class InputMoment(NamedTuple):
    """The moment at which an input is looked at.

    Attributes:
        moment: the place of the consumer in the order of the dumps.
        body: the function body that the consumer is in, empty outside of any.
        execution: which of the executions of that body; -1: unknown.
        all: not the last dump counts but all bad ones: they were collected in a list.
    """

    moment: int
    body: str = ""
    execution: int = -1
    all: bool = False


class Executions:
    """Counts the executions of the bodies of loops and branches, from what was dumped of them.

    All nodes of a body are executed once in each of its iterations.

    Args:
        dump: whose tensors.
        graph: the dump's.
        order: the identity of a dumped tensor -> its place in the order of the dumps.
    """

    def __init__(self, dump: Dump, graph: Graph, order: Mapping[int, int]) -> None:
        self._dump = dump
        self._graph = graph
        self._order = order
        # The body of a branch -> in which executions of the body around it the branch was taken.
        self._branches: dict[str, list[int] | None] = {}
        # Body -> the place of its first dump in the order.
        self._begun: dict[str, int] = {}

    def branch(self, node: Node, chosen: Datum, count: int) -> int:
        """The number of the branch that a predicate has chosen, of so many.

        Args:
            node: an ``If`` or a ``Case``.
            chosen: the dump of its predicate or index.
            count: how many branches it has.
        """
        value = np.asarray(self._dump.value(chosen)).reshape(-1)
        if node.op_type.endswith("If"):
            return 0 if value.size and value[0] else 1
        index = int(value[0]) if value.size else -1
        return index if 0 <= index < count else count - 1

    def aligned(self, when: InputMoment, body: str) -> InputMoment:
        """The same moment as an execution of another body, as far as that is known.

        Args:
            when: a moment in an execution of some body.
            body: the prefix of a body around it or inside of it.
        """
        if when.body == body or not body:
            return when._replace(execution=-1) if when.body != body else when
        at, execution = when.body, when.execution
        while at != body and at.startswith(body) and execution >= 0:  # out of branches
            taken = self._taken(at)
            execution = taken[execution] if taken and execution < len(taken) else -1
            at = body_of(at[:-1])
        into = []
        inside = body
        while inside != at and inside.startswith(at) and at:
            into.append(inside)
            inside = body_of(inside[:-1])
        for each in reversed(into):  # into branches
            taken = self._taken(each)
            execution = taken.index(execution) if taken and execution in taken else -1
            at = each
        return when._replace(body=body, execution=execution if at == body else -1)

    def has_run(self, tensor: str, when: InputMoment) -> bool:
        """Whether the body that a tensor is in has been executed; true outside of bodies."""
        body = body_of(tensor)
        if not body:
            return True
        if body not in self._begun:
            # Any dump of the body will do: the first one.
            found = (d for d in self._dump.data() if d.node_name.startswith(body))
            first = next(found, None)
            self._begun[body] = len(self._order) if first is None else self._order[id(first)]
        return self._begun[body] < when.moment

    def _taken(self, body: str) -> list[int] | None:
        """In which executions of the body around it a branch was taken; ``None``: unknown."""
        if body not in self._branches:
            match = _STEP.fullmatch(body)
            node = self._graph.nodes.get(match[1]) if match is not None else None
            found = None
            if node is not None and match is not None and node.returns and node.inputs:
                step, ways = match[2], node.returns[0]
                number = {"then": 0, "else": 1}.get(step.partition("/")[0])
                if number is None and "branch" in step:
                    number = int(re.sub(r"\D", "", step) or 0)
                same = body_of(node.inputs[0]) == body_of(match[1])
                data = self._dump.by_tensor(node.inputs[0]) if same else []
                if number is not None and data:
                    chosen = [self.branch(node, datum, len(ways)) for datum in data]
                    found = [at for at, branch in enumerate(chosen) if branch == number]
            self._branches[body] = found
        return self._branches[body]


class ArrayContents:
    """Which tensors are put into the arrays and stacks of a graph.

    The edges don't say it: what reads has the handle of the array and, of an array, a number that
    orders it behind what writes.

    Args:
        graph: which it is.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._written: dict[str, list[str]] | None = None

    def read_by(self, node: Node) -> Sequence[str]:
        """The tensors of which one that a node reads from an array may consist; else none.

        Args:
            node: of any op.
        """
        if not _READS.fullmatch(node.op_type) or not node.inputs:
            return ()
        if self._written is None:
            self._written = {}
            for each in self._graph.nodes.values():
                match = _WRITES.fullmatch(each.op_type)
                place = _PLACE_OF_VALUE[match[1]] if match is not None else 0
                if 0 < place < len(each.inputs):
                    array = self._array(each.inputs[0])
                    self._written.setdefault(array, []).append(each.inputs[place])
        return self._written.get(self._array(node.inputs[0]), ())

    def _array(self, handle: str) -> str:
        """What tells the array of a handle from others."""
        sources, seen = "", set[str]()
        while handle not in seen:
            seen.add(handle)
            node = self._graph.nodes.get(node_name_of(handle))
            if node is None or not node.inputs:
                break
            if node.op_type.startswith(_GRADIENTS):
                sources += f"/{node.attributes.get(_SOURCE, '')}"
            elif node.op_type not in _PASSING:
                break
            handle = node.inputs[0]
        return f"{node_name_of(handle)}{sources}"


def body_of(name: str) -> str:
    """What stands before the names of the innermost function body that a node is in."""
    match = _BODY.match(name)
    return match[0] if match is not None else ""


def call_of(body: str) -> str:
    """The call whose body has a prefix; the prefix itself if it is none."""
    match = _STEP.fullmatch(body)
    return match[1] if match is not None else body
