"""A session's graph as the commands see it: nodes, attributes and creation stacks, all lazy."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tensorflow.python.framework import dtypes, tensor_util

from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.engines.tensorflow.shared.body_nodes import Functions, Inner
from tfdbg_cli.engines.tensorflow.shared.inlined_bodies import Bodies
from tfdbg_cli.engines.tensorflow.shared.stacks import frames_of

__all__ = ["FED", "GraphView", "attributes_of"]

#: The type of a node that isn't a placeholder and whose tensor the program has fed: it was not
#: computed.
FED = "Fed"

# Constants up to this many elements show their value as an attribute.
_SMALL = 16


class GraphView:
    """Makes and keeps the nodes of one ``tf.Graph``, anew when the graph has grown.

    Args:
        graph: the ``tf.Graph``.
    """

    def __init__(self, graph: Any) -> None:
        self._graph = graph
        self._lock = threading.RLock()
        self._version = -1
        self._nodes: list[Node] = []
        self._plain: tuple[int, Graph] | None = None
        #: The functions whose bodies the runtime may have inlined.
        self.functions = Functions(graph)

    def graph(self, inner: Iterable[Inner] = (), feeds: Iterable[Any] = ()) -> Graph:
        """The graph as it is now; nothing is looked at before somebody asks for a node.

        Args:
            inner: nodes of inlined function bodies that a run has shown; their whole bodies
                become part of the graph.
            feeds: the tensors that the run was fed.
        """
        shown = {node.prefix: node for node in inner}
        # Of several outputs the others are computed.
        fed = [each.op for each in feeds if len(each.op.outputs) == 1]
        fed = [op for op in fed if not op.type.startswith("Placeholder")]
        if shown or fed:
            return Graph(lambda: self._of_run(shown.values(), fed))
        with self._lock:
            version = self._graph.version
            if self._plain is None or self._plain[0] != version:
                self._plain = version, Graph(self._all)
            return self._plain[1]

    def operation(self, name: str) -> Any:
        """The operation of the outermost graph with a name, or ``None``."""
        try:
            return self._graph.get_operation_by_name(name)
        except (KeyError, ValueError):
            return None

    def _of_run(self, shown: Iterable[Inner], fed: Iterable[Any]) -> list[Node]:
        bodies = Bodies(self.functions, shown, _made)
        nodes = {node.name: node for node in self._all()}
        for op in fed:
            frames = nodes[op.name].frames
            nodes[op.name] = Node(op.name, FED, (), (), op.device, frames=frames)
        for name, op in bodies.calls():
            plain = nodes[name]
            returns = bodies.returns("", op, ())
            nodes[name] = _made(name, op, plain.inputs, plain.control_inputs, returns)
        return [*nodes.values(), *bodies.nodes()]

    def _all(self) -> list[Node]:
        with self._lock:
            version = self._graph.version
            if version != self._version:
                self._nodes = [_node(op) for op in self._graph.get_operations()]
                self._version = version
            return self._nodes


def _node(op: Any) -> Node:
    inputs = [tensor.name for tensor in op.inputs]
    return _made(op.name, op, inputs, [source.name for source in op.control_inputs])


def _made(
    name: str,
    op: Any,
    inputs: Sequence[str],
    control: Sequence[str],
    returns: Sequence[Sequence[str]] = (),
    traced: bool = True,
) -> Node:
    return Node(
        name,
        op.type,
        inputs,
        control,
        op.device,
        lambda: _attributes(op),
        (lambda: frames_of(op)) if traced else None,
        returns=returns,
    )


def _attributes(op: Any) -> Mapping[str, str]:
    if op.type == "Const":
        # The definition of a constant holds all its data: it is not unpacked for a summary.
        tensor = op.outputs[0]
        count = tensor.shape.num_elements()
        if count is None or count > _SMALL:
            kind = tensor.dtype.name
            return {"dtype": kind, "value": f"{kind} {_shape(tensor.shape.as_list())}"}
    return attributes_of(op.node_def)


def attributes_of(node: Any) -> Mapping[str, str]:
    """The attributes of a ``NodeDef`` in a person's words."""
    if node.op == "Const":
        held = node.attr["value"].tensor
        sizes = [dim.size for dim in held.tensor_shape.dim]
        if math.prod(sizes) > _SMALL:
            kind = dtypes.as_dtype(held.dtype).name
            return {"dtype": kind, "value": f"{kind} {_shape(sizes)}"}
    return {name: _text(value) for name, value in sorted(node.attr.items())}


def _text(value: Any) -> str:
    """An ``AttrValue`` in a person's words."""
    kind = value.WhichOneof("value")
    if kind == "list":
        items = value.list
        for name in ("type", "shape", "s", "i", "f", "b", "func", "tensor"):
            members = getattr(items, name)
            if members:
                return f"[{', '.join(_item(name, member) for member in members)}]"
        return "[]"
    return "" if kind is None else _item(kind, getattr(value, kind))


def _item(kind: str, value: Any) -> str:
    if kind == "type":
        return str(dtypes.as_dtype(value).name)
    if kind == "shape":
        return "unknown" if value.unknown_rank else _shape([dim.size for dim in value.dim])
    if kind == "s":
        try:
            return str(value.decode("utf-8"))
        except UnicodeDecodeError:
            return repr(value)
    if kind == "func":
        return str(value.name)
    if kind == "tensor":
        array = tensor_util.MakeNdarray(value)
        name = dtypes.as_dtype(value.dtype).name
        shown = f" {array.tolist()}" if array.size <= _SMALL else ""
        return f"{name} {_shape(list(array.shape))}{shown}"
    return str(value)


def _shape(sizes: list[int | None]) -> str:
    return f"[{', '.join('?' if size is None or size < 0 else str(size) for size in sizes)}]"
