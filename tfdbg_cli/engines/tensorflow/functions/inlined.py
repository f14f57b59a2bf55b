"""The nodes of a traced function and of all that it calls, as one graph under the user's names."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tensorflow.core.framework import types_pb2

from tfdbg_cli.dumps.graph import Node
from tfdbg_cli.dumps.sources import Frame
from tfdbg_cli.engines.kit.numbering import Numbering
from tfdbg_cli.engines.tensorflow.functions.definitions import BodyNode, FunctionBody, Kind
from tfdbg_cli.engines.tensorflow.functions.twins.layouts import Layout, LayoutItem
from tfdbg_cli.engines.tensorflow.functions.variables import WrittenVariables
from tfdbg_cli.engines.tensorflow.shared.body_nodes import operations_of
from tfdbg_cli.engines.tensorflow.shared.graph import attributes_of
from tfdbg_cli.engines.tensorflow.shared.inlined_bodies import ARGUMENT
from tfdbg_cli.engines.tensorflow.shared.optimized import PASSING
from tfdbg_cli.engines.tensorflow.shared.private import function_of
from tfdbg_cli.engines.tensorflow.shared.stacks import frames_of, meant_by

__all__ = ["InlinedNames", "Path", "argument_key", "through"]

#: The calls that lead to a body: each the name of the node that calls and the step into it.
Path = tuple[tuple[str, str], ...]

_TAPE = "gradient_tape/"
_GRADIENTS = "gradients/"
# What TensorFlow calls the place where a loop's answer is used.
_TEST = "LoopCond"


class _Place(NamedTuple):
    """One body where it is called.

    Attributes:
        path: that leads to it.
        layout: of it.
        graph: its ``FuncGraph``; ``None``: nobody knows.
        tensors: per argument the tensor that it stands for.
        prefix: in front of names that others have too.
        is_backward: it computes gradients.
        call_frames: the stack of the call.
    """

    path: Path
    layout: Layout
    graph: Any
    tensors: Sequence[str]
    prefix: str
    is_backward: bool
    call_frames: Callable[[], Sequence[Frame] | None]


class InlinedNames:
    """Gives the nodes of one call of a function their names.

    Args:
        layout: of the function's twin.
        function: the framework's object for it.
        arguments: per argument the tensor that it was called with.
        numbering: the names of the run.
        written: the variables that the run has written so far.
        call_frames: the stack of the call.
        op_name: what the user calls an op of a graph.

    Attributes:
        nodes: all of them.
        names: path and the function's own name of a node -> name.
        definitions: name -> the ``NodeDef``.
        returns: per result of the function the tensor.
    """

    def __init__(
        self,
        layout: Layout,
        function: Any,
        arguments: Sequence[str],
        numbering: Numbering,
        written: WrittenVariables,
        call_frames: Callable[[], Sequence[Frame]],
        op_name: Callable[[Any, str], str],
    ) -> None:
        self._numbering, self._written = numbering, written
        self._op_name = op_name
        self.nodes: list[Node] = []
        self.names: dict[Path, dict[str, str]] = {}
        self.definitions: dict[str, Any] = {}
        self._answers: set[str] = set()  # tensors that say yes or no
        self._operations: dict[str, Mapping[str, Any]] = {}
        graph = getattr(function, "graph", None)
        title = layout.body.title
        is_backward = title.startswith("gradients of ")
        prefix = title.removeprefix("gradients of ")
        whole = _Place((), layout, graph, arguments, prefix, is_backward, call_frames)
        self.returns = self._place(whole)

    def _place(self, place: _Place) -> list[str]:
        """Name the nodes of a body; the tensors that it returns."""
        names = self.names[place.path] = {}
        tensors: dict[tuple[str, int], str] = {
            ("", at): tensor for at, tensor in enumerate(place.tensors)
        }
        for item in place.layout.items:
            node = item.node
            given = [tensors.get(source, "") for source in node.inputs]
            given += self._written.read(node.op, given)
            self._written.write(node.op, given)
            if node.kind == Kind.CALL and item.inner:
                ((step, (_, inner)),) = item.inner.items()
                made = self._place(self._inside(place, node, step, inner, given))
                tensors.update({(node.name, slot): each for slot, each in enumerate(made)})
                continue
            name = names[node.name] = self._name(place, node, given)
            self.definitions[name] = node.definition
            tensors.update(
                {(node.name, slot): f"{name}:{slot}" for slot in range(len(node.outputs))}
            )
            for slot, output in enumerate(node.outputs):
                if output.dtype == types_pb2.DT_BOOL:
                    self._answers.add(f"{name}:{slot}")
            returns: list[list[str]] = []
            if node.kind == Kind.BRANCH and item.inner:
                ends = [
                    self._place(self._inside(place, node, step, inner, given[1:]))
                    for step, (_, inner) in item.inner.items()
                ]
                returns = [[end[at] for end in ends] for at in range(len(node.outputs))]
            elif node.kind in (Kind.LOOP, Kind.DATASET) and item.inner:
                returns = self._loop(place, item, given)
            self._add(place, node, name, given, returns)
            if node.stands_for is not None:
                tensors.update(
                    {("", node.stands_for + at): f"{name}:{at}" for at in range(len(node.outputs))}
                )
        return [tensors.get(source, "") for source in place.layout.body.returns]

    def _loop(self, place: _Place, item: LayoutItem, given: Sequence[str]) -> list[list[str]]:
        _, inner = item.inner["body"]
        body = inner.body
        loop = item.node.loop
        states = len(given)
        if loop is not None:
            given, states = loop.arguments(given, given[0]), loop.states
        arguments, comes_round = [], []
        for at, argument in enumerate(body.definition.signature.input_arg):
            if at >= len(given):
                break
            source = through(body, body.returns[at]) if at < states else ("", at)
            if source == ("", at):  # the same in each iteration
                arguments.append(given[at])
                continue
            name = self._numbering.name(f"{item.node.name}/{argument.name}")
            arguments.append(f"{name}:0")
            comes_round.append((at, name))
        before = len(self.nodes)
        ends = self._place(self._inside(place, item.node, "body", inner, arguments))
        if "cond" in item.inner:
            self._test(place, item, arguments)
        for node in self.nodes[before:]:  # what one iteration writes the next one reads
            more = self._written.read(node.op_type, node.inputs)
            node.inputs = tuple(dict.fromkeys((*node.inputs, *more)))
        inside = self.names[(*place.path, (item.node.name, "body"))]
        for at, name in comes_round:
            inside[argument_key(at)] = name
            inputs = [each for each in (given[at], ends[at]) if each]
            self.nodes.append(Node(name, ARGUMENT, inputs))
        returns = [[given[at], ends[at]] for at in range(min(len(ends), len(given), states))]
        # What a loop over a dataset gives is a dataset.
        return returns if loop is None else [[each for pair in returns for each in pair if each]]

    def _test(self, place: _Place, item: LayoutItem, arguments: Sequence[str]) -> None:
        """Name the nodes of a loop's condition, and what stands for its answer."""
        before = len(self.nodes)
        inside = self._inside(place, item.node, "cond", item.inner["cond"][1], arguments)
        waiting = self._place(inside)
        nodes = {node.name: node for node in self.nodes[before:]}
        read: dict[str, None] = {}
        while waiting:  # what is compared, and by that says how long the loop goes on
            tensor = waiting.pop()
            if tensor in read:
                continue
            read[tensor] = None
            node = nodes.get(tensor.rpartition(":")[0])
            if tensor in self._answers and node is not None:
                waiting += node.inputs
        name = self._numbering.name(f"{item.node.name}/{_TEST}")
        self.names[inside.path][_TEST] = name
        self.nodes.append(Node(name, _TEST, read))

    def _inside(
        self, place: _Place, node: BodyNode, step: str, inner: Layout, given: Sequence[str]
    ) -> _Place:
        graph = None
        if place.graph is not None:
            try:
                graph = getattr(function_of(place.graph, inner.body.name), "graph", None)
            except KeyError:
                graph = None
        prefix = inner.body.title if node.kind == Kind.CALL else f"{node.name}/{step}"
        path = (*place.path, (node.name, step))
        return _Place(
            path,
            inner,
            graph,
            given,
            prefix,
            place.is_backward,
            functools.partial(self._frames, place, node),
        )

    def _name(self, place: _Place, node: BodyNode, given: Sequence[str]) -> str:
        if node.op == "ReadVariableOp" and given[0]:
            return self._numbering.name(f"{given[0].rpartition(':')[0]}/read")
        plain = node.name.removeprefix(_TAPE)
        is_gradient = plain != node.name or place.is_backward
        own = self._op_name(place.graph, plain)
        name = own
        if is_gradient and not name.startswith(_GRADIENTS):
            name = _GRADIENTS + name
        wanted = self._numbering.name(name)
        if wanted == name or own != plain:
            return wanted
        return self._numbering.name(f"{place.prefix}/{name.removeprefix(place.prefix + '/')}")

    def _add(
        self,
        place: _Place,
        node: BodyNode,
        name: str,
        given: Sequence[str],
        returns: Sequence[Sequence[str]],
    ) -> None:
        names = self.names[place.path]
        control = [names[each] for each in node.control if each in names]
        is_backward = place.is_backward or name.startswith(_GRADIENTS)

        frames = functools.partial(self._frames, place, node)

        def attributes() -> Mapping[str, str]:
            phase = {"_phase": "backward"} if is_backward else {}
            return {**attributes_of(node.definition), **phase, **meant_by(node.op, frames)}

        self.nodes.append(
            Node(
                name,
                node.op,
                [each for each in given if each],
                control,
                node.definition.device,
                attributes,
                frames,
                returns=returns,
            )
        )

    def _frames(self, place: _Place, node: BodyNode) -> Sequence[Frame] | None:
        """Where a node was traced; where that isn't known, where its function was called."""
        if place.graph is None:
            return place.call_frames()
        body = place.layout.body
        if body.name not in self._operations:
            self._operations[body.name] = operations_of(body.definition, place.graph)
        op = self._operations[body.name].get(node.name)
        return (frames_of(op) if op is not None else None) or place.call_frames()


def argument_key(at: int) -> str:
    """What stands for an argument of a loop's body among the names of its nodes."""
    return f":{at}"


def through(body: FunctionBody, source: tuple[str, int]) -> tuple[str, int]:
    """Where a tensor comes from, through what hands it on as it is."""
    nodes = {node.name: node for node in body.nodes if node.op in PASSING}
    while source[0] in nodes:
        source = nodes[source[0]].inputs[0]
    return source
