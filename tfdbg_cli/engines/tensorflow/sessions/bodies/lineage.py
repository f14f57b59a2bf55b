"""Where tensors come from, in the graph that ran and in the user's, in the same terms."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from tensorflow.core.framework import graph_pb2

from tfdbg_cli.dumps.elements import split_tensor_name
from tfdbg_cli.dumps.tfdbg_dir.names import parse_feed_node_name
from tfdbg_cli.engines.tensorflow.shared.body_nodes import Functions, Inner, argument_index, kind_of

__all__ = [
    "CONTROL",
    "LONGEST_CHAIN",
    "PASSING",
    "SENT",
    "BodyLineage",
    "BodyPlace",
    "ExecutedNode",
    "LineageLeaf",
    "place_of",
]

#: The control flow of version 1, which loops and branches run as.
CONTROL = frozenset({"Enter", "Exit", "LoopCond", "Merge", "NextIteration", "Switch"})
#: What hands on its input as it is. The runtime adds and removes such nodes as it likes.
PASSING = frozenset({"Identity", "IdentityN", "StopGradient"})
#: What devices send to each other goes through these.
SENT = frozenset({"_HostRecv", "_HostSend", "_Recv", "_Send"})
#: Chains longer than this are not looked through.
LONGEST_CHAIN = 2000


class LineageLeaf(NamedTuple):
    """Where a tensor comes from.

    Attributes:
        kind: ``node``: an operation of the user's; ``loop``: the argument of a loop's body;
            ``out``: a result of a call; ``made``: a node that the runtime has made.
        name: the user's name of the node or call; the runtime's of a node it has made.
        slot: the output, or the number of the argument.
    """

    kind: str
    name: str
    slot: int


class BodyPlace(NamedTuple):
    """A tensor of the user's graph, and the calls that lead to it."""

    op: Any
    slot: int
    prefix: str
    calls: tuple[tuple[str, Any], ...]


class ExecutedNode(NamedTuple):
    """A node of the graph that ran."""

    op: str
    inputs: tuple[tuple[str, int], ...]
    attributes: Any


class BodyLineage:
    """Follows tensors back to where they come from, through whatever hands them on.

    Args:
        graphs: serialized ``GraphDef`` of the partitions of a run, with their debug nodes.
        main: gives the operation of the outermost graph with a name, or ``None``.
        find: gives the node of a function's body with a name of the runtime's, or ``None``.
        functions: of the outermost graph.
    """

    def __init__(
        self,
        graphs: Iterable[Any],
        main: Callable[[str], Any],
        find: Callable[[str], Inner | None],
        functions: Functions,
    ) -> None:
        self._find = find
        self._main = main
        self.functions = functions
        self._users: dict[str, Inner | None] = {}
        self._sent: dict[str, str] = {}
        #: The nodes of the graph that ran, by the runtime's names.
        self.nodes: dict[str, ExecutedNode] = {}
        for data in graphs:
            self._read(graph_pb2.GraphDef.FromString(bytes(data)))
        #: The bodies that the graph holds, by prefix.
        self.bodies: dict[str, Inner] = {}
        #: The user's name of a node that is in the graph -> the runtime's.
        self.present: dict[str, str] = {}
        for name in self.nodes:
            user = self.user(name)
            if user is not None:
                self.present[user.name] = name
                if user.calls:
                    self.bodies.setdefault(user.prefix, user)
        #: The user's name of a call -> the prefixes of its bodies.
        self.prefixes: dict[str, set[str]] = {}
        for prefix, body in self.bodies.items():
            at, call = body.calls[-1]
            self.prefixes.setdefault(at + call.name, set()).add(prefix)

    # The graph that ran.

    def _read(self, graph: Any) -> None:
        for node in graph.node:
            if node.name.startswith("__dbg_"):
                continue
            inputs = tuple(
                split_tensor_name(text) for text in node.input if not text.startswith("^")
            )
            if node.op in SENT:
                key = str(node.attr["tensor_name"].s)
                if node.op.endswith("Send"):
                    self._sent[key] = node.name
                else:
                    inputs = ((f"\0{key}", 0),)
            self.nodes[node.name] = ExecutedNode(node.op, inputs, node.attr)

    def user(self, name: str) -> Inner | None:
        """The user's operation behind a name of the runtime's."""
        if name not in self._users:
            op = self._main(name)
            own = Inner(name, op, "", (), True) if op is not None else self._find(name)
            self._users[name] = own
        return self._users[name]

    def direct(self, name: str, slot: int) -> tuple[str, int]:
        """A tensor before debug operations copied it and devices sent it to each other."""
        for _ in range(LONGEST_CHAIN):
            if name.startswith("\0"):
                name, slot = self._sent.get(name[1:], name[1:]), 0
            node = self.nodes.get(name)
            if node is None or not node.inputs:
                return name, slot
            if node.op not in SENT and not (
                node.op in ("Copy", "CopyHost") and name.startswith("__copy_")
            ):
                return name, slot
            name, slot = node.inputs[0]
        return name, slot

    def trace(self, name: str, slot: int) -> LineageLeaf:
        """Where a tensor of the graph that ran comes from."""
        for _ in range(LONGEST_CHAIN):
            name, slot = self.direct(name, slot)
            node, user = self.nodes.get(name), self.user(name)
            if node is None:
                break
            handed = (node.op in PASSING or _enters_once(node.op, node.attributes)) and (
                user is None
                or user.op.type in PASSING
                or user.op.type == node.op
                or self.functions.is_call(user.op)
            )
            if handed or (user is None and node.op in CONTROL and node.op != "Merge"):
                inputs = node.inputs
                if not inputs:
                    break
                name, slot = inputs[slot if node.op == "IdentityN" else 0]
                continue
            if user is not None:
                return LineageLeaf("node", user.name, slot)
            if node.op == "Merge":
                ways = [each for each in node.inputs if self.op_type(*each) != "NextIteration"]
                if len(ways) == len(node.inputs):
                    return LineageLeaf("out", name, -1)
                if len(ways) == 1 and self._comes_round(name):
                    name, slot = ways[0]
                    continue
                return LineageLeaf("loop", name, -1)
            fed = parse_feed_node_name(name) if node.op == "_Arg" else None
            return (
                LineageLeaf("made", name, slot)
                if fed is None
                else LineageLeaf("node", fed[0], fed[1])
            )
        return LineageLeaf("made", name, slot)

    def _comes_round(self, merge: str) -> bool:
        """Whether a loop hands on the variable of a Merge unchanged."""
        inputs = self.nodes[merge].inputs
        name, slot = next(each for each in inputs if self.op_type(*each) == "NextIteration")
        for _ in range(LONGEST_CHAIN):
            name, slot = self.direct(name, slot)
            node = self.nodes.get(name)
            if node is None or node.op not in PASSING | CONTROL or not node.inputs:
                return False
            if node.op == "Merge":
                return name == merge
            name, slot = node.inputs[slot if node.op == "IdentityN" else 0]
        return False

    def op_type(self, name: str, slot: int) -> str:
        """The type of the node that a tensor of the graph that ran is an output of, if any."""
        node = self.nodes.get(self.direct(name, slot)[0])
        return node.op if node is not None else ""

    # The user's graph.

    def origin(self, place: BodyPlace) -> tuple[LineageLeaf, BodyPlace]:
        """Where a tensor of the user's graph comes from, and the place that this is."""
        for _ in range(LONGEST_CHAIN):
            op, slot, prefix, calls = place
            name = prefix + op.name
            index = argument_index(op) if calls else None
            if index is not None:
                at, call = calls[-1]
                if kind_of(call) == "While" and not self._is_invariant(call, index):
                    return LineageLeaf("loop", at + call.name, index), place
                outer = self.functions.passed(call, index)
                if outer is None:
                    break
                place = BodyPlace(outer.op, outer.value_index, at, calls[:-1])
            elif op.type in PASSING or _enters_once(op.type, op.node_def.attr):
                source = op.inputs[slot if op.type == "IdentityN" else 0]
                place = BodyPlace(source.op, source.value_index, prefix, calls)
            elif self.functions.is_call(op) and not self._runs_as_is(name, op):
                inside = self.functions.results(op).get("")
                if inside is None:
                    return LineageLeaf("out", name, slot), place
                result = inside[slot]
                place = BodyPlace(result.op, result.value_index, f"{name}/", (*calls, (prefix, op)))
            else:
                break
        return LineageLeaf("node", place.prefix + place.op.name, place.slot), place

    def _runs_as_is(self, name: str, op: Any) -> bool:
        node = self.nodes.get(self.present.get(name, ""))
        return node is not None and node.op == op.type

    def _is_invariant(self, call: Any, index: int) -> bool:
        results = self.functions.results(call).get("body")
        return results is not None and argument_index(results[index].op) == index

    def call(self, name: str, user: Inner) -> BodyPlace | None:
        """The call with a name of the user's; ``None`` if there is none.

        Args:
            name: e.g. ``loop/body/_1/cond``.
            user: a node that may be inside of it.
        """
        calls: tuple[tuple[str, Any], ...] = ()
        for at, call in user.calls:
            if at + call.name == name:
                return BodyPlace(call, 0, at, calls)
            calls = (*calls, (at, call))
        op = self._main(name)
        if op is not None:
            return BodyPlace(op, 0, "", ())
        for prefix in sorted(self.bodies, key=len, reverse=True):
            if name.startswith(prefix):
                body = self.bodies[prefix]
                graph = body.op.graph
                try:
                    op = graph.get_operation_by_name(name[len(prefix) :])
                except (KeyError, ValueError):
                    continue
                return BodyPlace(op, 0, prefix, body.calls)
        return None


def _enters_once(op_type: str, attributes: Any) -> bool:
    """Whether a node hands the same tensor to all iterations of a loop."""
    return op_type == "Enter" and bool(attributes["is_constant"].b)


def place_of(tensor: Any, user: Inner) -> BodyPlace:
    """The place of a tensor of the graph that an operation of the user's is in."""
    return BodyPlace(tensor.op, tensor.value_index, user.prefix, user.calls)
