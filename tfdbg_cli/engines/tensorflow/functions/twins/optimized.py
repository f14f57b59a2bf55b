"""What TensorFlow's optimizer makes of a function, and what it can't make of the function's twin.

It makes one op of several where nobody else reads what is between them: a product, a bias and a
relu. A twin that returns the product keeps it from doing so, and its results are others: each op
rounds, and a fused relu may make 0 of a nan. So the runtime is asked for the graph that it makes of
the function, and for that of the twin. What the twin computes for the function's own results and
the function doesn't is left unread.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from tensorflow.core.framework import function_pb2, types_pb2
from tensorflow.python.framework import op_def_registry

from tfdbg_cli.engines.tensorflow.functions.definitions import (
    MARK,
    BodyNode,
    FunctionBody,
    Kind,
    plain_text,
)
from tfdbg_cli.engines.tensorflow.functions.effects import has_state
from tfdbg_cli.engines.tensorflow.functions.twins.layouts import PASSING

__all__ = ["OptimizedGraph", "Place", "Unread", "refused", "unread_edges"]

#: A node of a body: the names of both.
Place = tuple[str, str]
#: By the name of a body: its tensors that nobody may read, by node and slot; of an argument the
#: node has no name. Whether the function has them all the same, so that nobody knows their values:
#: a fused op may give others than its ops do one by one.
Unread = Mapping[str, Mapping[tuple[str, int], bool]]

# What the runtime puts into names to make them its own.
_NUMBER = re.compile(r"/_\d+")
# Nodes that hand on what they get, and those that say what comes next.
_HANDING = frozenset({"Enter", "Exit", "LoopCond", "Merge", "NextIteration", "Switch", "_SwitchN"})
_SENT = frozenset({"_HostSend", "_Send"})
_GOT = frozenset({"_HostRecv", "_Recv"})
_OUTSIDE = frozenset({"NoOp", "_Arg", "_Retval"})


def refused(definition: Any) -> Any:
    """A copy of a function with one more argument, which nothing reads.

    The runtime prepares a call of it, and refuses the call, as long as what it is given there is of
    another type than float32: nothing of the function is executed.
    """
    made = function_pb2.FunctionDef()
    made.CopyFrom(definition)
    made.signature.name = f"{definition.signature.name}{MARK}asked"
    made.signature.input_arg.add(name="tfdbg_refused", type=types_pb2.DT_FLOAT)
    return made


class OptimizedGraph:
    """The graph that the runtime executes for a call of a function.

    Args:
        graphs: its parts, one for each device.
    """

    def __init__(self, graphs: Iterable[Any]) -> None:
        nodes = {node.name: node for graph in graphs for node in graph.node}
        sources = _Sources(nodes)
        # The names of its nodes, as the bodies have them -> op types, and what these are given.
        self._steps: dict[str, set[tuple[Any, ...]]] = {}
        for node in sources.needed():
            if node.op not in _HANDING | _SENT | _GOT | _OUTSIDE | PASSING and node.op != "Const":
                given = tuple(sorted(sources.of(item) for item in _data(node)))
                fused = tuple(node.attr["fused_ops"].list.s) if "fused_ops" in node.attr else ()
                step = (plain_text(node.op), *fused), given
                self._steps.setdefault(_plain(node.name), set()).add(step)
        #: The names of those that something of ours reads.
        self.read = {
            sources.of(item).partition(":")[0]
            for node in nodes.values()
            if _is_ours(node.name)
            for item in _data(node)
        }
        self._names = {*map(_plain, nodes)}
        self._folders = {
            name[:at] for name in self._names for at, each in enumerate(name) if each == "/"
        }

    def lacks(self, body: FunctionBody) -> set[Place]:
        """The nodes of a function that it doesn't have: fused, merged, computed ahead."""
        return {
            (inside.name, node.name)
            for name, inside, node in self._nodes(body)
            if name not in self._names and node.name in inside.live and _is_plain(node)
        }

    def apart(
        self, twin: OptimizedGraph, body: FunctionBody
    ) -> tuple[dict[Place, bool], set[Place]]:
        """The nodes that a twin reads, and so computes something else for the function's results.

        Args:
            twin: the graph of the function's twin.
            body: of the function.

        Returns:
            Those, and whether the function has them, in some way; the nodes that may be read
            in their place: where they have a name in common, they are theirs.
        """
        nodes = [each for each in twin._nodes(body) if _is_plain(each[2])]
        places = {name: (inside.name, node.name) for name, inside, node in nodes}
        own = {name: steps - self._steps.get(name, set()) for name, steps in twin._steps.items()}
        own = {name: steps for name, steps in own.items() if steps}
        # The function hasn't it; it is something else there; it is given something else; it gives.
        gone = {*places} - self._names
        others = {
            name
            for name, steps in own.items()
            if not {op for op, _ in steps} <= {op for op, _ in self._steps.get(name, ())}
        }
        given = {item for steps in own.values() for _, items in steps for item in items}
        for names in (gone, others, own, {each.partition(":")[0] for each in given}):
            found = {
                places[name]: names is not gone and not self._has_other(name, twin)
                for name in names
                if name in places and name in twin.read
            }
            if found:
                readers = [
                    ((inside.name, node.name), {(inside.name, each) for each, _ in node.inputs})
                    for _, inside, node in nodes
                ]
                # Of several ops that are made one, the last is there if nobody reads the others.
                taken = {each for place, given in readers if place in found for each in given}
                found = {place: found[place] for place in found if place in taken} or found
                instead = {place for place, given in readers if not given.isdisjoint(found)}
                return found, instead if names is others else set()
        return {}, set()

    def _has_other(self, name: str, twin: OptimizedGraph) -> bool:
        """Whether it computes something else in a node's place, of the same: ``Rsqrt``, say."""
        mine, theirs = self._steps.get(name, set()), twin._steps.get(name, set())
        ops, inputs = zip(*mine, strict=True) if mine else ((), ())
        return {*inputs} == {given for _, given in theirs} and not any(
            op in ops for op, _ in theirs
        )

    def _nodes(
        self, body: FunctionBody, before: str = ""
    ) -> Iterator[tuple[str, FunctionBody, BodyNode]]:
        """The nodes of a function and of those that were put in the place of its calls."""
        for node in body.nodes:
            name = f"{before}{node.name}"
            yield name, body, node
            for step, inner in node.inner.items():
                folder = f"{name}/branch{step}" if node.op.endswith("Case") else f"{name}/{step}"
                folder = folder.removesuffix("/")
                if folder in self._folders:
                    yield from self._nodes(inner, f"{folder}/")


def unread_edges(body: FunctionBody, places: Mapping[Place, bool]) -> Unread:
    """The tensors that can't be read where some nodes are left alone.

    They are also results of calls, and arguments of what is called.

    Args:
        body: of a function.
        places: the nodes; whether the function has them all the same.
    """
    found: dict[str, dict[tuple[str, int], bool]] = {}
    if not places:
        return found
    waiting, known = [body], {body.name}
    order: list[FunctionBody] = []
    while waiting:
        each = waiting.pop()
        order.append(each)
        found[each.name] = {
            (node.name, slot): places[each.name, node.name]
            for node in each.nodes
            if (each.name, node.name) in places
            for slot in range(len(node.outputs))
        }
        for node in each.nodes:
            for inner in node.inner.values():
                if inner.name not in known:
                    known.add(inner.name)
                    waiting.append(inner)
    count = -1
    while count != (count := sum(map(len, found.values()))):
        for each in order:
            own = found[each.name]
            for node in each.nodes:
                if node.kind == Kind.CALL and node.inner:
                    ((_, inner),) = node.inner.items()
                    theirs = found[inner.name]
                    for at, edge in enumerate(node.inputs):
                        if edge in own:
                            theirs["", at] = own[edge]
                    for at, edge in enumerate(inner.returns):
                        if edge in theirs:
                            own[node.name, at] = theirs[edge]
                elif node.op in PASSING and node.inputs[0] in own:
                    own[node.name, 0] = own[node.inputs[0]]
    return found


def settled(
    make: Callable[[Unread], Any],
    look: Callable[[Any], OptimizedGraph | None],
    body: FunctionBody,
    plain: OptimizedGraph | None,
) -> tuple[Any, dict[Place, bool]]:
    """A twin that leaves to the function's own results what the optimizer makes of them.

    Args:
        make: makes the twin, without reading some tensors.
        look: gives the graph of a twin.
        body: of the function.
        plain: its graph; ``None``: it isn't known.

    Returns:
        The twin, and the nodes that it leaves unread; whether the function has them all the same.
    """
    places = dict.fromkeys(plain.lacks(body) if plain is not None else (), False)
    tried = set[Place]()
    twin = make(unread_edges(body, places))
    while plain is not None and (graph := look(twin)) is not None:
        found, instead = plain.apart(graph, body)
        if found.keys() <= places.keys():
            break
        for each in instead - tried:
            places.pop(each, None)
        places |= found
        tried |= instead
        twin = make(unread_edges(body, places))
    return twin, places


def _is_plain(node: BodyNode) -> bool:
    """Whether a node may be left unread, and be computed of its inputs if somebody looks."""
    return bool(node.inputs) and not (
        node.inner or node.kind or node.op in PASSING or has_state(node)
    )


def _plain(name: str) -> str:
    return _NUMBER.sub("", name)


def _data(node: Any) -> list[str]:
    return [item for item in node.input if not item.startswith("^")]


class _Sources:
    """Where the inputs of a graph's nodes come from.

    Args:
        nodes: by their names.
    """

    def __init__(self, nodes: Mapping[str, Any]) -> None:
        self._nodes = nodes
        self._sent = {
            node.attr["tensor_name"].s: node.input[0] for node in nodes.values() if node.op in _SENT
        }

    def of(self, item: str) -> str:
        """A node's name without the runtime's numbers, and the slot; the value of a constant."""
        while True:
            name, _, slot = item.partition(":")
            node = self._nodes.get(name)
            if node is not None and (node.op in PASSING or self._is_way_in(node)):
                item = node.input[0]
            elif node is not None and node.op in _GOT and node.attr["tensor_name"].s in self._sent:
                item = self._sent[node.attr["tensor_name"].s]
            elif node is not None and node.op == "Const":
                return f"={hash(node.attr['value'].tensor.SerializeToString(deterministic=True))}"
            else:
                return f"{_plain(name)}:{slot or 0}"

    def _is_way_in(self, node: Any) -> bool:
        """Whether a node hands on what a loop or a branch is given."""
        if node.op not in ("Switch", "_SwitchN"):
            return bool(node.op == "Enter")
        source = self._nodes.get(node.input[0].partition(":")[0])
        return source is None or source.op != "Merge"

    def needed(self) -> Iterator[Any]:
        """What the function's results need, and what has effects; nothing of ours."""
        waiting = [
            name
            for name, node in self._nodes.items()
            if node.op == "_Retval" or (node.op not in _OUTSIDE and _is_stateful(node))
        ]
        seen: set[str] = set()
        while waiting:
            name = waiting.pop()
            if name in seen or name not in self._nodes or _is_ours(name):
                continue
            seen.add(name)
            node = self._nodes[name]
            yield node
            waiting += [item.removeprefix("^").partition(":")[0] for item in node.input]
            if node.op in _GOT and node.attr["tensor_name"].s in self._sent:
                waiting.append(self._sent[node.attr["tensor_name"].s].partition(":")[0])


def _is_ours(name: str) -> bool:
    return "tfdbg_" in name


def _is_stateful(node: Any) -> bool:
    signature = op_def_registry.get(node.op)
    return signature is None or bool(signature.is_stateful)
