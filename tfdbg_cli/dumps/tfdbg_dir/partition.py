"""The graphs that a debugged run left per device, cleared of the debugger's nodes and joined."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, replace

from tfdbg_cli.dumps.elements import tensor_name_of
from tfdbg_cli.dumps.graph import Graph, Node, node_name_of
from tfdbg_cli.dumps.proto.graph_def import GraphDef, GraphDefNode, NodeDef
from tfdbg_cli.dumps.sources import Frame
from tfdbg_cli.dumps.tfdbg_dir.names import is_copy_node, is_debug_node, parse_copy_node_name

__all__ = ["DeviceGraph", "FeedName", "has_ref_output", "user_graph"]

#: The tensor that an ``_arg_…`` node feeds, ``None`` for one that keeps its own name.
FeedName = Callable[[str], tuple[str, int] | None]

_SENDS = frozenset({"_Send", "_HostSend"})
_RECVS = frozenset({"_Recv", "_HostRecv"})
# The constant that TensorFlow sends where only the order matters.
_CONTROL = re.compile(r"(.+?)(/ctrl)?/_\d+")

# Ops of TensorFlow whose first output is a reference: the consumer may change the value.
_REF_PREFIXES = ("Apply", "SparseApply", "ScatterNd")
_REF_OPS = frozenset(
    (
        "Assign",
        "AssignAdd",
        "AssignSub",
        "Barrier",
        "ConditionalAccumulator",
        "FIFOQueue",
        "FakeQueue",
        "FixedLengthRecordReader",
        "HashTable",
        "IdentityReader",
        "LMDBReader",
        "MutableDenseHashTable",
        "MutableHashTable",
        "MutableHashTableOfTensors",
        "PaddingFIFOQueue",
        "PriorityQueue",
        "RandomShuffleQueue",
        "RefEnter",
        "RefExit",
        "RefIdentity",
        "RefMerge",
        "RefNextIteration",
        "RefSelect",
        "RefSwitch",
        "ScatterAdd",
        "ScatterDiv",
        "ScatterMax",
        "ScatterMin",
        "ScatterMul",
        "ScatterSub",
        "ScatterUpdate",
        "SparseConditionalAccumulator",
        "Stack",
        "StridedSliceAssign",
        "TFRecordReader",
        "TemporaryVariable",
        "TensorArray",
        "TensorArrayGrad",
        "TextLineReader",
        "Variable",
        "VariableV2",
        "WholeFileReader",
    )
)
_NO_REF = frozenset({"ScatterNd", "ScatterNdNonAliasingAdd"})


def has_ref_output(op_type: str) -> bool:
    """Whether an op's first output is a reference to a variable, a queue and the like."""
    return op_type in _REF_OPS or (op_type.startswith(_REF_PREFIXES) and op_type not in _NO_REF)


class DeviceGraph:
    """One device's graph, as it was run and without the nodes that the debugger put in.

    Args:
        graph_def: the graph with the debugger's nodes.
        device_name: the device.

    Attributes:
        nodes: name -> node; ``_Arg``, ``_Retval``, ``_Send`` and ``_Recv`` nodes are there.
        inputs: node -> inputs with the debugger's copies replaced; slot 0 isn't written.
        control_inputs: node -> nodes, without the debugger's.
        duplicates: names that the graph has more than once; the first node counts.
    """

    def __init__(self, graph_def: GraphDef, device_name: str) -> None:
        self.debug_graph_def = graph_def
        self.device_name = device_name
        self.nodes: dict[str, NodeDef] = {}
        self.inputs: dict[str, list[str]] = {}
        self.control_inputs: dict[str, list[str]] = {}
        self.duplicates: list[str] = []
        copied: dict[str, str] = {}
        for node in graph_def.node:
            if is_debug_node(node.name):
                continue
            if is_copy_node(node.name):
                if node.data_inputs:
                    copied.setdefault(node.name, node.data_inputs[0])
            elif node.name in self.nodes:
                self.duplicates.append(node.name)
            else:
                self.nodes[node.name] = node
        for name, node in self.nodes.items():
            inputs = self.inputs[name] = []
            control = self.control_inputs[name] = []
            for source in node.input:
                if not source.startswith("^"):
                    inputs.append(_original(source, copied))
                elif not is_debug_node(source[1:]):
                    control.append(source[1:])

    @functools.cached_property
    def recipients(self) -> dict[str, list[str]]:
        """Node -> the nodes that consume its outputs, once per edge."""
        table: dict[str, list[str]] = {name: [] for name in self.nodes}
        for name, inputs in self.inputs.items():
            for source in inputs:
                table.setdefault(node_name_of(source), []).append(name)
        return table

    @functools.cached_property
    def control_recipients(self) -> dict[str, list[str]]:
        """Node -> the nodes that wait for it."""
        table: dict[str, list[str]] = {name: [] for name in self.nodes}
        for name, sources in self.control_inputs.items():
            for source in sources:
                table.setdefault(source, []).append(name)
        return table

    @functools.cached_property
    def reversed_ref_inputs(self) -> dict[str, list[str]]:
        """Node with a reference output -> the nodes that consume it and may change its value."""
        table: dict[str, list[str]] = {}
        for name, inputs in self.inputs.items():
            for source in inputs:
                node = self.nodes.get(source)
                if node is not None and has_ref_output(node.op):
                    table.setdefault(source, []).append(name)
        return table

    def non_debug_graph_def(self) -> GraphDef:
        """The graph as it would have run without the debugger."""
        graph = GraphDef(rest=self.debug_graph_def.rest)
        for name, node in self.nodes.items():
            control = (f"^{source}" for source in self.control_inputs[name])
            inputs = [*self.inputs[name], *control]
            graph.node.append(replace(node, name=name, input=inputs))
        return graph


def _original(source: str, copied: dict[str, str]) -> str:
    """What an input reads, if it reads a copy that the debugger made."""
    if not is_copy_node(source):
        return source
    found = copied.get(source)
    if found is None:
        found = parse_copy_node_name(source) or source
    return found.removesuffix(":0")


@dataclass(frozen=True)
class _DeviceTensor:
    """A tensor as one device's graph names it."""

    graph: DeviceGraph
    tensor: str


class _Joiner:
    """Follows names from one device's graph to the user's tensors."""

    def __init__(self, graphs: Iterable[DeviceGraph], feed_name: FeedName) -> None:
        self._feed_name = feed_name
        self._sent: dict[tuple[bytes, ...], _DeviceTensor] = {}
        for graph in graphs:
            for name, node in graph.nodes.items():
                if node.op in _SENDS and graph.inputs[name]:
                    self._sent[_channel(node)] = _DeviceTensor(graph, graph.inputs[name][0])

    def source(self, graph: DeviceGraph, name: str) -> _DeviceTensor | None:
        """Where the tensor that a ``_Recv`` node gives was sent from."""
        node = graph.nodes.get(name)
        if node is None or node.op not in _RECVS:
            return None
        return self._sent.get(_channel(node))

    def tensor(self, graph: DeviceGraph, tensor: str) -> str:
        """The user's name, with its slot, of an input."""
        seen: set[tuple[int, str]] = set()
        while (id(graph), tensor) not in seen:
            seen.add((id(graph), tensor))
            place = self.source(graph, node_name_of(tensor))
            if place is None:
                break
            graph, tensor = place.graph, place.tensor
        node = graph.nodes.get(node_name_of(tensor))
        if node is not None and node.op == "_Arg":
            fed = self._feed_name(node.name)
            if fed is not None:
                return f"{fed[0]}:{fed[1]}"
        return tensor_name_of(tensor)

    def control(self, graph: DeviceGraph, name: str) -> str:
        """The user's node behind a control input; what only carries a value is its source.

        A control edge between devices is a constant that waits for the producer
        (``x/ctrl/_2``, once ``x/_2``), sent and received, and an ``Identity`` of it (``x/_5``).
        """
        node = graph.nodes.get(name)
        inputs = graph.inputs.get(name, ())
        if node is not None and (node.op in _SENDS or node.op == "_Retval") and inputs:
            return node_name_of(self.tensor(graph, inputs[0]))
        if node is not None and node.op == "Identity" and len(inputs) == 1:
            place = self.source(graph, node_name_of(inputs[0]))
            if place is not None:
                sent = node_name_of(place.tensor)
                waits = place.graph.control_inputs.get(sent, ())
                match = _CONTROL.fullmatch(sent)
                if match is not None and len(waits) == 1 and (match[2] or waits[0] == match[1]):
                    return self.control(place.graph, waits[0])
        return node_name_of(self.tensor(graph, name))


def _channel(node: NodeDef) -> tuple[bytes, ...]:
    attributes = node.attr
    keys = ("tensor_name", "send_device", "recv_device")
    return tuple(attributes[key].s if key in attributes else b"" for key in keys)


def user_graph(
    graphs: Iterable[DeviceGraph],
    feed_name: FeedName,
    dumped: Container[tuple[str, str]],
    frames: Callable[[str], Iterable[Frame] | None],
) -> Graph:
    """All devices' graphs as the one that the user wrote.

    Feeds get their own names, ``_Retval`` nodes are left out, and what one device sends and
    another receives becomes a plain edge. A ``_Recv`` node stays (beside that edge) only if its
    tensor was dumped. A name that several devices have stands for the first device's node.

    Args:
        graphs: one per device.
        feed_name: what an ``_arg_…`` node feeds.
        dumped: the ``(device, node)`` pairs that have dumps.
        frames: looks up the creation stack of a node.
    """
    graphs = list(graphs)
    joiner = _Joiner(graphs, feed_name)

    def nodes() -> Iterable[Node]:
        taken: set[str] = set()
        fed: list[tuple[str, NodeDef, str]] = []
        for graph in graphs:
            for name, definition in graph.nodes.items():
                if definition.op in _SENDS or definition.op == "_Retval" or name in taken:
                    continue
                feed = feed_name(name) if definition.op == "_Arg" else None
                if feed is not None:
                    fed.append((feed[0], definition, graph.device_name))
                    continue
                inputs = [joiner.tensor(graph, source) for source in graph.inputs[name]]
                place = joiner.source(graph, name)
                if place is not None:
                    if (graph.device_name, name) not in dumped:
                        continue
                    inputs = [joiner.tensor(place.graph, place.tensor)]
                control = dict.fromkeys(
                    joiner.control(graph, source) for source in graph.control_inputs[name]
                )
                control.pop(name, None)
                taken.add(name)
                yield GraphDefNode(
                    name,
                    definition,
                    inputs,
                    control,
                    graph.device_name,
                    functools.partial(frames, name),
                )
        for name, definition, device in fed:
            if name not in taken:
                taken.add(name)
                yield GraphDefNode(
                    name, definition, (), (), device, functools.partial(frames, name)
                )

    return Graph(nodes)
