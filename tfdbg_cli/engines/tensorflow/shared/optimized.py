"""What TensorFlow's optimizer makes of a graph, and what it can't make of one that is looked at.

It makes one op of several where nobody else reads what is between them: a product, a bias and a
relu. Whoever fetches or returns the product keeps it from doing so, and the results are others:
each op rounds, and a fused relu may make 0 of a nan. So the runtime is asked for the graph that it
makes of the program's own, and for that of the one with more results; nothing is executed. What the
second one computes for the program's results and the first one doesn't is left unread.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from typing import Any, NamedTuple, TypeVar

from tensorflow.python.framework import op_def_registry

__all__ = ["COMPOSED", "PASSING", "GraphNode", "OptimizedGraph", "settled"]

#: They hand on their input as it is.
PASSING = frozenset({"Identity", "PreventGradient", "Snapshot", "StopGradient"})
#: What the optimizer makes one op of, in which each of them is done as it is: where one of them
#: isn't read, it has made an infinity of its input all the same.
COMPOSED = frozenset(
    {
        *("Acos", "Acosh", "Asin", "Atanh", "Cosh", "Exp", "Expm1", "Inv", "Log", "Log1p"),
        *("Reciprocal", "Rsqrt", "Selu", "Sinh", "Sqrt", "Square", "Tan"),
    }
)

# What the runtime puts into names to make them its own.
_NUMBER = re.compile(r"/_\d+")
# Nodes that hand on what they get, and those that say what comes next.
_HANDING = frozenset({"Enter", "Exit", "LoopCond", "Merge", "NextIteration", "Switch", "_SwitchN"})
_SENT = frozenset({"_HostSend", "_Send"})
_GOT = frozenset({"_HostRecv", "_Recv"})
_OUTSIDE = frozenset({"NoOp", "_Arg", "_Retval"})
# Begins with the first tensor that nobody else holds, in whose memory it sums the others up: of
# three, who holds one decides how the sum is rounded.
_SUM = "AddN"
# Those whose output may be in the memory of their input.
_SHARING = (PASSING | _HANDING) | {
    *("Bitcast", "EnsureShape", "ExpandDims", "IdentityN", "Reshape", "Slice", "Split", "SplitV"),
    *("Squeeze", "StridedSlice", "Unpack"),
}

_Twin = TypeVar("_Twin")


class GraphNode(NamedTuple):
    """A node as the program has it.

    Attributes:
        name: in the graph that the runtime makes.
        place: tells it from all others.
        inputs: the places of what it is given.
        is_between: what the program gets, and writes to variables, depends on it, and isn't it.
        is_plain: it may be left unread, and be computed of its inputs if somebody looks.
        is_call: what it calls, which nobody reads, is in a folder of its name.
    """

    name: str
    place: Any
    inputs: Collection[Any]
    is_between: bool
    is_plain: bool
    is_call: bool = False


class OptimizedGraph:
    """The graph that the runtime executes.

    Args:
        graphs: its parts, one for each device.
        is_ours: whether a node is there for what we read, not for the program.
        targets: the names of nodes that it is asked for besides its results.
        op_type: of a node's type, that which the program has.
    """

    def __init__(
        self,
        graphs: Iterable[Any],
        is_ours: Callable[[Any], bool],
        targets: Collection[str] = (),
        op_type: Callable[[str], str] = str,
    ) -> None:
        nodes = {node.name: node for graph in graphs for node in graph.node}
        sources = _Sources(nodes)
        # The names of its nodes, as the program has them -> op types, and what these are given.
        self._steps: dict[str, set[tuple[Any, ...]]] = {}
        needed = {node.name: node for node in sources.needed(is_ours, targets)}
        for node in needed.values():
            if node.op not in _HANDING | _SENT | _GOT | _OUTSIDE | PASSING and node.op != "Const":
                given = tuple(sources.of(item) for item in _data(node))
                given = given if node.op == _SUM else tuple(sorted(given))
                fused = tuple(node.attr["fused_ops"].list.s) if "fused_ops" in node.attr else ()
                step = (op_type(node.op), *fused), given
                self._steps.setdefault(_plain(node.name), set()).add(step)
        #: The names of those that are read for us, be it through branches and loops.
        self.read = {
            sources.of(item).partition(":")[0]
            for name, node in nodes.items()
            if name not in needed
            for item in _data(node)
        }
        self._names = {*map(_plain, nodes)}
        self._summed = {*map(_plain, _summed(nodes))}
        #: The folders of their names.
        self.folders = _folders(self._names)

    def _given(self, name: str) -> Iterator[str]:
        """The names of those that give a node something."""
        for _, items in self._steps.get(name, ()):
            yield from (item.partition(":")[0] for item in items)

    def lacks(self, nodes: Iterable[GraphNode]) -> set[Any]:
        """The places of those that it doesn't have: fused, merged, computed ahead."""
        return {
            node.place
            for node in nodes
            if node.name not in self._names and node.is_between and node.is_plain
        }

    def summed(self, nodes: Iterable[GraphNode]) -> set[Any]:
        """The places of those in whose memory something is that is summed up with two others."""
        return {node.place for node in nodes if node.name in self._summed and node.is_plain}

    def apart(
        self, twin: OptimizedGraph, nodes: Iterable[GraphNode], left: Set[Any]
    ) -> tuple[set[Any], set[Any]]:
        """The nodes that a twin reads, and so computes something else for the program's results.

        Args:
            twin: the graph with more results.
            nodes: of the program, as they are in that one.
            left: the places of those that it leaves unread.

        Returns:
            The places of those; the places of nodes that may be read instead: where they have a
            name in common, it is theirs.
        """
        nodes = [each for each in nodes if each.is_plain or each.is_call]
        calls = {each.name: each.place for each in nodes if each.is_call and each.place not in left}
        nodes = [each for each in nodes if each.is_plain]
        places = {each.name: each.place for each in nodes}
        own = {name: steps - self._steps.get(name, set()) for name, steps in twin._steps.items()}
        own = {name: steps for name, steps in own.items() if steps}
        # The program hasn't it; it is something else there; it is given something else; it gives.
        gone = places.keys() - self._names
        others = {
            name
            for name, steps in own.items()
            if not {op for op, _ in steps} <= {op for op, _ in self._steps.get(name, ())}
        }
        given = {item for steps in own.values() for _, items in steps for item in items}
        for names in (gone, others, own, {each.partition(":")[0] for each in given}):
            read = {places[name]: name for name in names if name in places and name in twin.read}
            # It is read as another node, of which the optimizer has made the same: a sum with 0.
            still = read.keys() & left
            found = {node.place for node in nodes if not still.isdisjoint(node.inputs)} - left
            if found:
                return found, set()
            found = read.keys() - left
            if found:
                # Of several ops that are made one, the last is there if nobody reads the others.
                taken = {each for node in nodes if node.place in found for each in node.inputs}
                taken |= {places.get(each) for at in found for each in twin._given(read[at])}
                found = found & taken or found
                instead = {node.place for node in nodes if not found.isdisjoint(node.inputs)}
                return found, instead if names is others else set()
        # It is within what is called there, or what that gives is wanted for others that are read.
        folders = _folders(own)
        inside = {place for name, place in calls.items() if name in folders}
        behind = {place for name, place in calls.items() if name in twin.read and own}
        return inside or behind, set()


def settled(
    make: Callable[[Collection[Any]], _Twin],
    look: Callable[[_Twin], OptimizedGraph | None],
    nodes: Callable[[OptimizedGraph], Iterable[GraphNode]],
    plain: OptimizedGraph | None,
) -> tuple[_Twin, Collection[Any]]:
    """A twin that leaves to the program's own results what the optimizer makes of them.

    Args:
        make: makes the twin, without reading what is at some places.
        look: gives the graph of a twin.
        nodes: gives the nodes of the program, as a graph has them.
        plain: its graph; ``None``: it isn't known.

    Returns:
        The twin, and the places that it leaves unread.
    """
    tried = set[Any]() if plain is None else plain.summed(nodes(plain))
    places = tried | (set[Any]() if plain is None else plain.lacks(nodes(plain)))
    twin = make(places)
    while plain is not None and (graph := look(twin)) is not None:
        found, instead = plain.apart(graph, nodes(graph), places)
        if not found:
            break
        places = (places - (instead - tried)) | found
        tried |= instead
        twin = make(places)
    return twin, places


def _plain(name: str) -> str:
    return _NUMBER.sub("", name)


def _summed(nodes: Mapping[str, Any]) -> set[str]:
    """The names of those in whose memory something is that is summed up with two others."""
    given = {name: [item.partition(":")[0] for item in _data(node)] for name, node in nodes.items()}
    sharing: dict[str, list[str]] = {}
    for name, node in nodes.items():
        for other in given[name] if node.op in _SHARING else ():
            sharing.setdefault(name, []).append(other)
            sharing.setdefault(other, []).append(name)
    sums = [names for name, names in given.items() if nodes[name].op == _SUM and len(names) > 2]
    found, waiting = set[str](), [name for names in sums for name in names]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += sharing.get(name, ())
    return found


def _folders(names: Iterable[str]) -> set[str]:
    return {name[:at] for name in names for at, each in enumerate(name) if each == "/"}


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

    def needed(self, is_ours: Callable[[Any], bool], targets: Collection[str]) -> Iterator[Any]:
        """What the program's results need, and what has effects; nothing of ours."""
        waiting = [
            name
            for name, node in self._nodes.items()
            if node.op == "_Retval"
            or name in targets
            or (node.op not in _OUTSIDE and _is_stateful(node))
        ]
        seen: set[str] = set()
        while waiting:
            name = waiting.pop()
            node = self._nodes.get(name)
            if name in seen or node is None or is_ours(node):
                continue
            seen.add(name)
            yield node
            waiting += [item.removeprefix("^").partition(":")[0] for item in node.input]
            if node.op in _GOT and node.attr["tensor_name"].s in self._sent:
                waiting.append(self._sent[node.attr["tensor_name"].s].partition(":")[0])


def _is_stateful(node: Any) -> bool:
    signature = op_def_registry.get(node.op)
    return signature is None or bool(signature.is_stateful)
