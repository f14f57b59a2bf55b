"""Nodes of a graph, computed again with other values, in a graph and a session of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import graph_pb2, types_pb2
from tensorflow.core.protobuf import config_pb2
from tensorflow.python.framework import op_def_library, op_def_registry

from tfdbg_cli.dumps.datum import InconvertibleTensorProto
from tfdbg_cli.dumps.dump import CannotRedo, Redo
from tfdbg_cli.engines.tensorflow.shared import guard

__all__ = ["RECOMPUTED", "RedoneGraph", "RedoneNode", "redo_of"]

#: What is said of a tensor that a `RedoneNode` gives.
RECOMPUTED = "recomputed from its inputs: reading it in the run would change the run's numbers"

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


class RedoneNode:
    """What the run had no tensors for: the optimizer has made something else of the node.

    Its outputs are computed of its inputs when somebody looks.

    Args:
        node: its name.
        inputs: give the values of what it is given, as a dump keeps them; ``None``: that isn't
            known.
        redo: computes nodes.
    """

    def __init__(self, node: str, inputs: Sequence[Callable[[], Any] | None], redo: Redo) -> None:
        self._node, self._inputs, self._redo = node, inputs, redo
        self._made: list[Any] = []

    def output(self, slot: int, dtype_name: str) -> Any:
        """One of its outputs, as a dump keeps it."""
        why = "" if self._made else self._compute()
        return InconvertibleTensorProto(why, dtype_name=dtype_name) if why else self._made[slot]

    def _compute(self) -> str:
        """Compute all outputs; returns why that can't be."""
        given = []
        for each in self._inputs:
            value = each() if each is not None else None
            if value is None or isinstance(value, InconvertibleTensorProto):
                return str(value or "not read in the run: its inputs aren't known")
            given.append(value)
        try:
            self._made.extend(self._redo(self._node, given, ()) or ())
        except CannotRedo as error:
            return f"not read in the run: {error}"
        return "" if self._made else "not read in the run"


class RedoneGraph:
    """Nodes of a graph, all computed together: thousands of them one by one take long.

    Args:
        definitions: their ``NodeDef``, producers first; none has a state, or calls a function.
        given: the element types of the tensors that others give them, by their names.
        outputs: the names of the tensors to compute.

    Raises:
        ValueError: one of them isn't a node of these inputs.
    """

    def __init__(
        self, definitions: Sequence[Any], given: Mapping[str, Any], outputs: Sequence[str]
    ) -> None:
        places = {name: f"tfdbg_given_{at}:0" for at, name in enumerate(given)}
        made = graph_pb2.GraphDef()
        for name, place in places.items():
            node = made.node.add(name=place.removesuffix(":0"), op="Placeholder")
            node.attr["dtype"].type = given[name].as_datatype_enum
        for definition in definitions:
            node = made.node.add()
            node.CopyFrom(definition)
            node.device = ""
            node.attr.pop("_class", None)
            node.ClearField("input")
            for each in definition.input:
                if not each.startswith("^"):
                    node.input.append(places.get(each if ":" in each else f"{each}:0", each))
        graph = tf.Graph()
        with graph.as_default():
            elements = [*outputs, *places.values()]
            found = tf.graph_util.import_graph_def(made, return_elements=elements, name="")
        self.given, self.outputs = list(given), list(outputs)
        self._outputs, self._places = found[: len(outputs)], found[len(outputs) :]
        self._session = _session_of(graph)

    def compute(self, values: Sequence[Any]) -> dict[str, Any]:
        """The values of `outputs` by their names, from those of `given`.

        Raises:
            tf.errors.OpError, ValueError, TypeError: an op refuses them.
        """
        with guard.bypass():
            fed = dict(zip(self._places, values, strict=True))
            found = self._session.run(self._outputs, fed)
        return dict(zip(self.outputs, map(np.asarray, found), strict=True))


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
