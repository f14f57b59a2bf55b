"""Nodes of a graph, computed again with other values, in a graph and a session of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import graph_pb2, types_pb2
from tensorflow.core.protobuf import config_pb2
from tensorflow.python.framework import op_def_library, op_def_registry

from tfdbg_cli.common.interpreter.program_signals import contained
from tfdbg_cli.dumps.datum import InconvertibleTensorProto
from tfdbg_cli.dumps.dump import CannotRedo, Redo
from tfdbg_cli.engines.tensorflow.shared import guard

__all__ = [
    "NOT_FETCHED",
    "RECOMPUTED",
    "Edge",
    "UnreadGraph",
    "UnreadNode",
    "UnreadTensors",
    "inputs_of",
    "redo_of",
]

#: Node and slot of a tensor.
Edge: TypeAlias = tuple[str, int]
#: Gives what loads the value of a tensor; ``None``: nobody has it.
Find: TypeAlias = Callable[[Edge], Callable[[], Any] | None]

#: What is said of a tensor that `UnreadTensors` gives.
RECOMPUTED = "recomputed from its inputs: reading it in the run would change the run's numbers"
#: The same where the run was only waited in, and it hasn't turned out to be what the run had.
NOT_FETCHED = "recomputed from its inputs: in the run it may have been different"

_FLOATS = (types_pb2.DT_HALF, types_pb2.DT_BFLOAT16, types_pb2.DT_FLOAT)
_HANDLES = (types_pb2.DT_RESOURCE, types_pb2.DT_VARIANT)
# They give the same in each run of the same graph, whatever is recorded of it.
_KEPT = (
    *("RandomUniform", "RandomStandardNormal", "TruncatedNormal"),
    *("Placeholder", "VarHandle", "ReadVariable", "Variable"),
)


def redo_of(find: Callable[[str], Any]) -> Redo:
    """What `Dump.redo` is for nodes of TensorFlow's.

    Args:
        find: gives a node by its name in the dump: a ``NodeDef``, or the op type and the attributes
            of an op that was executed by itself; ``None``: there is none.
    """
    made: list[_RedoGraph] = []

    def redo(
        node: str, given: Sequence[Any], recorded: Sequence[Any], *, is_wide: bool = False
    ) -> Sequence[Any] | None:
        definition = find(node)
        if definition is None:
            raise CannotRedo("the runtime has made it")
        if not made:
            made.append(_RedoGraph())
        return made[0].compute(definition, given, is_wide)

    return redo


class UnreadNode(NamedTuple):
    """A node of which a run has no tensors: the optimizer has made something else of it.

    Attributes:
        definition: its ``NodeDef``; it has no state, and calls no function.
        inputs: what it is given.
        slots: its outputs that somebody may look at.
    """

    definition: Any
    inputs: Sequence[Edge]
    slots: Sequence[int]


def inputs_of(op: Any) -> list[Edge]:
    """Node and slot of what an operation of a graph is given."""
    return [(tensor.op.name, tensor.value_index) for tensor in op.inputs]


class UnreadGraph:
    """All unread nodes of a graph, computed together: thousands of them one by one take long.

    Args:
        nodes: producers first; they are asked for once somebody looks.
    """

    def __init__(self, nodes: Iterable[UnreadNode]) -> None:
        self._nodes = nodes
        self._places: dict[Edge, Any] = {}
        self._outputs: dict[Edge, Any] = {}
        self._session: Any = None

    def compute(self, find: Find) -> dict[Edge, Any]:
        """The values of the nodes whose inputs all are known, or are such nodes' outputs.

        Args:
            find: gives what a run has read.

        Raises:
            tf.errors.OpError, ValueError, TypeError: a node refuses its inputs.
        """
        nodes, self._nodes = [*self._nodes], ()  # what can't be built isn't tried again
        with guard.bypass():
            if nodes:
                self._build(nodes, find)
            if not self._outputs:
                return {}
            fed = {place: _loaded(find(edge)) for edge, place in self._places.items()}
            found = self._session.run(self._outputs, fed)
        return {edge: np.asarray(value) for edge, value in found.items()}

    def _build(self, nodes: Sequence[UnreadNode], find: Find) -> None:
        made, names = graph_pb2.GraphDef(), dict[Edge, str]()
        unread = {(each.definition.name, slot) for each in nodes for slot in each.slots}
        places, outputs = dict[Edge, str](), dict[Edge, str]()
        for definition, inputs, slots in nodes:
            try:
                given = {
                    edge: tf.as_dtype(_loaded(None if edge in unread else find(edge)).dtype)
                    for edge in inputs
                    if edge not in names
                }
            except ValueError:
                continue
            for edge, dtype in given.items():
                place = made.node.add(name=f"tfdbg_given_{len(places)}", op="Placeholder")
                place.attr["dtype"].type = dtype.as_datatype_enum
                names[edge] = places[edge] = f"{place.name}:0"
            node = made.node.add()
            node.CopyFrom(definition)
            node.device = ""
            node.attr.pop("_class", None)
            del node.input[:]
            node.input.extend(names[edge] for edge in inputs)
            own = {(node.name, slot): f"{node.name}:{slot}" for slot in slots}
            names.update(own)
            outputs.update(own)
        graph = tf.Graph()
        with graph.as_default():
            elements = [*outputs.values(), *places.values()]
            found = tf.graph_util.import_graph_def(made, return_elements=elements, name="")
        self._session = _session_of(graph)
        self._places = dict(zip(places, found[len(outputs) :], strict=True))
        self._outputs = dict(zip(outputs, found, strict=False))


def _loaded(load: Callable[[], Any] | None) -> Any:
    value = load() if load is not None else None
    if value is None or isinstance(value, InconvertibleTensorProto):
        raise ValueError(str(value or "not read in the run: its inputs aren't known"))
    return value


class UnreadTensors:
    """The tensors of a run's unread nodes; computed when somebody looks.

    Args:
        graph: computes the nodes together.
        find: gives the run's tensors, these as well.
        redo: computes a node by itself, where an input has no value or another node refuses its.
    """

    def __init__(self, graph: UnreadGraph, find: Find, redo: Redo) -> None:
        self._graph, self._find, self._redo = graph, find, redo
        self._known: dict[Edge, Any] | None = None

    def load(self, edge: Edge, inputs: Sequence[Edge], dtype_name: str) -> Any:
        """A tensor as a dump keeps it.

        Args:
            edge: the tensor.
            inputs: of its node.
            dtype_name: its element type.
        """
        if self._known is None:
            self._known = {}
            with contained:  # they are computed one by one then
                self._known = self._graph.compute(self._find)
        if edge not in self._known:
            node, why = edge[0], ""
            try:
                given = [_loaded(self._find(each)) for each in inputs]
                outputs = self._redo(node, given, ()) or ()
                self._known.update(((node, slot), value) for slot, value in enumerate(outputs))
            except ValueError as error:
                why = str(error)
            except CannotRedo as error:
                why = f"not read in the run: {error}"
            if edge not in self._known:
                why = why or "not read in the run"
                self._known[edge] = InconvertibleTensorProto(why, dtype_name=dtype_name)
        return self._known[edge]


def _session_of(graph: Any) -> Any:
    settings = config_pb2.ConfigProto(device_count={"GPU": 0})
    settings.graph_options.rewrite_options.disable_meta_optimizer = True
    with guard.bypass():
        return tf.compat.v1.Session(graph=graph, config=settings)


class _RedoGraph:
    """A graph that grows by a node each time; nothing in it has a state."""

    def __init__(self) -> None:
        self._graph = tf.Graph()
        self._session = _session_of(self._graph)
        self._known: dict[tuple[Any, ...], tuple[list[Any], list[Any]]] = {}

    def compute(self, definition: Any, given: Sequence[Any], is_wide: bool) -> Sequence[Any] | None:
        is_alone = isinstance(definition, tuple)
        op_type: str = definition[0] if is_alone else definition.op
        if op_type.startswith(_KEPT):
            return None
        signature = op_def_registry.get(op_type)
        is_call = not is_alone and _calls_functions(definition)
        if signature is None or signature.is_stateful or is_call:
            raise CannotRedo("it has a state, or calls a function")
        if signature.output_arg and all(each.type in _HANDLES for each in signature.output_arg):
            raise CannotRedo(CannotRedo.NO_NUMBERS)
        kinds = tuple(str(each.dtype) for each in given)
        key = str(definition), kinds, is_wide
        with guard.bypass():
            if key not in self._known:
                with self._graph.as_default():
                    places = [
                        tf.compat.v1.placeholder(tf.as_dtype(each.dtype), None) for each in given
                    ]
                    try:
                        if is_alone:
                            outputs = _executed(signature, definition[1], places)
                        else:
                            outputs = _imported(definition, places, is_wide)
                    except (ValueError, TypeError) as error:
                        why = f"it refuses these values: {type(error).__name__}"
                        raise CannotRedo(why) from error
                self._known[key] = places, outputs
            places, outputs = self._known[key]
            try:
                found = self._session.run(outputs, dict(zip(places, given, strict=True)))
            except (tf.errors.OpError, ValueError, TypeError) as error:
                raise CannotRedo(f"it refuses these values: {type(error).__name__}") from error
        return [np.asarray(each) for each in found]


def _imported(definition: Any, places: Sequence[Any], is_wide: bool) -> list[Any]:
    """The outputs of a node of a graph, in the graph that is built."""
    graph = graph_pb2.GraphDef()
    node = graph.node.add()
    node.CopyFrom(definition)
    node.name, node.device = "node", ""
    node.attr.pop("_class", None)
    if is_wide:
        is_double = any(place.dtype == tf.float64 for place in places)
        _widen(node, types_pb2.DT_DOUBLE if is_double else types_pb2.DT_FLOAT)
    count = sum(not text.startswith("^") for text in node.input)
    if count != len(places):
        raise CannotRedo("its inputs aren't known")
    node.ClearField("input")
    mapping = {}
    for at, place in enumerate(places):
        node.input.append(f"given_{at}:0")
        made = graph.node.add(name=f"given_{at}", op="Placeholder")
        made.attr["dtype"].type = place.dtype.as_datatype_enum
        mapping[f"given_{at}:0"] = place
    [op] = tf.graph_util.import_graph_def(
        graph, input_map=mapping, return_elements=["node"], name="redo"
    )
    return list(op.outputs)


def _executed(signature: Any, attributes: Mapping[str, Any], places: Sequence[Any]) -> list[Any]:
    """The outputs of an op that was executed by itself, in the graph that is built."""
    arguments = signature.input_arg
    if len(arguments) != len(places):
        if len(arguments) != 1:
            raise CannotRedo("its record doesn't tell which tensors were in which list")
        places = [places]
    inferred = {
        name
        for each in arguments
        for name in (each.type_attr, each.number_attr, each.type_list_attr)
    }
    wanted = {each.name for each in signature.attr} - inferred
    given: dict[str, Any] = {
        each.name: place for each, place in zip(arguments, places, strict=True)
    }
    given |= {name: value for name, value in attributes.items() if name in wanted}
    # Functions of `raw_ops` call some arguments otherwise: Sum's reduction_indices are its axis.
    made = op_def_library.apply_op(signature.name, **given)
    return [*made] if isinstance(made, list | tuple) else [made]


def _calls_functions(node: Any) -> bool:
    return any(each.HasField("func") or each.list.func for each in node.attr.values())


def _widen(node: Any, wide: int) -> None:
    for each in node.attr.values():
        if each.type in _FLOATS:
            each.type = wide
        for at, kind in enumerate(each.list.type):
            if kind in _FLOATS:
                each.list.type[at] = wide
