"""TensorFlow's GraphDef message to the nodes of a `Graph`, and a `Graph` to a GraphDef.

Field numbers as in ``tensorflow/core/framework/graph.proto`` and ``node_def.proto``.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tfdbg_cli.dumps.elements import tensor_name_of
from tfdbg_cli.dumps.files import Chunk
from tfdbg_cli.dumps.graph import Graph, Node, parse_tensor_name
from tfdbg_cli.dumps.proto import wire
from tfdbg_cli.dumps.proto.attr_values import AttrValue, encode_text, render, split_entry
from tfdbg_cli.dumps.sources import Frame
from tfdbg_cli.dumps.tfdbg_dir.names import collapse_slashes, decode_node_name, encode_node_name

__all__ = [
    "FUNCTIONAL",
    "GraphDef",
    "GraphDefNode",
    "NodeDef",
    "graph_chunks",
    "graph_of",
    "node_def_of",
    "parse_graph_def",
]

#: Ops whose results come from the body of a function of the graph's library. The runtime inlines
#: it, and its nodes stand under their own names.
FUNCTIONAL = frozenset(
    {
        "Case",
        "If",
        "PartitionedCall",
        "StatefulPartitionedCall",
        "StatelessCase",
        "StatelessIf",
        "StatelessWhile",
        "SymbolicGradient",
        "While",
    }
)

# The attribute with `Node.returns`, as JSON; no attribute of the node's own.
_RETURNS = "_tfdbg_returns"
_RETURNS_ENTRY = wire.put_text(1, _RETURNS)
# The version that consumers require at least since TensorFlow 1.0.
_PRODUCER = 27


@dataclass(slots=True)
class NodeDef:
    """One node as a GraphDef has it; the names of the fields are those of the message.

    Attributes:
        name: unique in its graph.
        op: op type.
        input: ``node``, ``node:slot`` or ``^node``; slot 0 isn't written.
        device: may be empty.
        entries: the serialized attribute entries.
        rest: the serialized fields that have no name here, as they were read.
    """

    name: str = ""
    op: str = ""
    input: list[str] = field(default_factory=list)
    device: str = ""
    entries: list[bytes] = field(default_factory=list)
    rest: bytes = b""

    @property
    def attr(self) -> dict[str, AttrValue]:
        """Attribute name -> value."""
        pairs = (split_entry(entry, 0, len(entry)) for entry in self.entries)
        return {key: AttrValue(value) for key, value in pairs}

    @property
    def data_inputs(self) -> list[str]:
        """The inputs that carry a tensor, as they are written."""
        return [name for name in self.input if not name.startswith("^")]

    @property
    def control_inputs(self) -> list[str]:
        """The nodes that must run before, without the caret."""
        return [name[1:] for name in self.input if name.startswith("^")]

    def to_bytes(self, encode: Callable[[str], str] = encode_node_name) -> bytes:
        """The serialized NodeDef.

        Args:
            encode: how names are written.
        """
        parts = [wire.put_text(1, encode(self.name))] if self.name else []
        if self.op:
            parts.append(wire.put_text(2, self.op))
        parts.extend(wire.put_text(3, _encode_input(name, encode)) for name in self.input)
        if self.device:
            parts.append(wire.put_text(4, self.device))
        parts.extend(wire.put_bytes(5, entry) for entry in self.entries)
        return b"".join([*parts, self.rest])


def _encode_input(name: str, encode: Callable[[str], str]) -> str:
    if name.startswith("^"):
        return f"^{encode(name[1:])}"
    node, slot = parse_tensor_name(name)
    return f"{encode(node)}:{slot}" if slot else encode(node)


@dataclass(slots=True)
class GraphDef:
    """A GraphDef: enough of the message for code that walks ``graph_def.node``.

    Attributes:
        node: the nodes.
        rest: the serialized other fields (function library, versions), as they were read.
    """

    node: list[NodeDef] = field(default_factory=list)
    rest: bytes = b""

    def SerializeToString(self, encode: Callable[[str], str] = encode_node_name) -> bytes:
        """The message, for ``graph_pb2.GraphDef.FromString``.

        Args:
            encode: how names are written.
        """
        nodes = (wire.put_bytes(1, node.to_bytes(encode)) for node in self.node)
        return b"".join([*nodes, self.rest])


def parse_graph_def(data: bytes | bytearray | memoryview) -> GraphDef:
    """Read a serialized GraphDef.

    Raises:
        DumpError: the bytes aren't a GraphDef.
    """
    data = bytes(data)
    graph = GraphDef()
    rest: list[bytes] = []
    for number, kind, a, b in wire.fields(data):
        if number == 1 and kind == wire.LENGTH:
            if b > a:  # an empty message would take a hundred times its bytes
                graph.node.append(_parse_node(data, a, b))
        elif kind == wire.LENGTH:
            rest.append(wire.put_bytes(number, data[a:b]))
        elif kind == wire.VARINT:
            rest.append(wire.put_varint(number, a))
    graph.rest = b"".join(rest)
    return graph


def _parse_node(data: bytes, start: int, end: int) -> NodeDef:
    node = NodeDef()
    for number, kind, a, b in wire.fields(data, start, end):
        if kind != wire.LENGTH:
            continue
        if number == 1:
            node.name = _read_name(data, a, b)
        elif number == 2:
            node.op = str(data[a:b], "utf-8", "replace")
        elif number == 3:
            node.input.append(_read_name(data, a, b))
        elif number == 4:
            node.device = str(data[a:b], "utf-8", "replace")
        elif number == 5:
            node.entries.append(data[a:b])
        else:
            node.rest += wire.put_bytes(number, data[a:b])
    return node


def _read_name(data: bytes, start: int, end: int) -> str:
    name = str(data[start:end], "utf-8", "replace")
    # Few names have either.
    if "%" in name or "//" in name:
        return decode_node_name(collapse_slashes(name))
    return name


class GraphDefNode(Node):
    """A node that keeps its attributes as they were stored, so that they can be written again.

    Args:
        name: the node's name, which may differ from that in the definition.
        definition: what was read.
        inputs: tensor names with their slots.
        control_inputs: node names.
        device: where the definition doesn't say.
        frames: looks up the creation stack.

    Attributes:
        entries: the serialized attribute entries.
    """

    __slots__ = ("entries",)

    def __init__(
        self,
        name: str,
        definition: NodeDef,
        inputs: Iterable[str],
        control_inputs: Iterable[str],
        device: str = "",
        frames: Callable[[], Iterable[Frame] | None] | None = None,
    ) -> None:
        self.entries = definition.entries
        super().__init__(
            name,
            definition.op,
            inputs,
            control_inputs,
            definition.device or device,
            functools.partial(_attribute_texts, definition.entries),
            frames,
            returns=_returns_in(definition.entries),
        )


def _returns_in(entries: list[bytes]) -> Sequence[Sequence[str]]:
    """What a node of ours that calls functions hands on; of a damaged one nothing."""
    for entry in entries:
        if entry.startswith(_RETURNS_ENTRY):
            _, value = split_entry(entry, 0, len(entry))
            try:
                found = json.loads(AttrValue(value).s)
                return [[str(tensor) for tensor in tensors] for tensors in found]
            except (ValueError, TypeError, RecursionError):
                return ()
    return ()


def _attribute_texts(entries: list[bytes]) -> Mapping[str, str]:
    pairs = (split_entry(entry, 0, len(entry)) for entry in entries)
    return {key: render(value) for key, value in pairs if key != _RETURNS}


def graph_of(
    graph_def: GraphDef, frames: Callable[[str], Iterable[Frame] | None] | None = None
) -> Graph:
    """The nodes of a GraphDef as they are, debug nodes included.

    Args:
        graph_def: what was read.
        frames: looks up the creation stack of a node.
    """
    return Graph(
        GraphDefNode(
            node.name,
            node,
            map(tensor_name_of, node.data_inputs),
            node.control_inputs,
            frames=functools.partial(frames, node.name) if frames is not None else None,
        )
        for node in graph_def.node
    )


def node_def_of(node: Node) -> NodeDef:
    """A node as a GraphDef has it. Attributes known only as text are typed by their look."""
    inputs = [name.removesuffix(":0") for name in node.inputs]
    inputs.extend(f"^{name}" for name in node.control_inputs)
    if isinstance(node, GraphDefNode):
        entries = list(node.entries)
    else:
        entries = [
            wire.put_text(1, key) + wire.put_bytes(2, encode_text(str(text)))
            for key, text in node.attributes.items()
        ]
        if node.returns:
            text = wire.put_text(2, json.dumps(node.returns))
            entries.append(_RETURNS_ENTRY + wire.put_bytes(2, text))
    return NodeDef(node.name, node.op_type, inputs, node.device, entries)


def graph_chunks(
    nodes: Iterable[NodeDef], encode: Callable[[str], str] = encode_node_name
) -> list[Chunk]:
    """A serialized GraphDef of some nodes, in pieces.

    Args:
        nodes: in any order.
        encode: how names are written; the default keeps them readable by `parse_graph_def`.
    """
    chunks: list[Chunk] = [wire.put_bytes(1, node.to_bytes(encode)) for node in nodes]
    chunks.append(wire.put_bytes(4, wire.put_varint(1, _PRODUCER)))
    return chunks
