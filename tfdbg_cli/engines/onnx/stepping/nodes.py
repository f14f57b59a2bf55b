"""Single nodes of a model, each computed as a model of its own."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.dumps.dtypes import name_of
from tfdbg_cli.engines.onnx.install import straight
from tfdbg_cli.engines.onnx.model import Model, ModelNode
from tfdbg_cli.engines.onnx.twin import session_of
from tfdbg_cli.engines.onnx.values import ELEMENTS, arrays_of, as_value

__all__ = ["BodyRunner", "NodeRunner", "model_of"]

_NUMBERS = {name: number for number, name in ELEMENTS.items()}


class NodeRunner:
    """Computes nodes of a model from other inputs than those of the run.

    Args:
        session: the program's.
        model: of it.
    """

    def __init__(self, session: Any, model: Model) -> None:
        self._session, self._model = session, model
        self._names = {tensor: name for name, tensor in model.tensors.items()}
        #: By the node and the types of its inputs.
        self._made: dict[tuple[str, tuple[int, ...]], Any] = {}

    def run(self, node: ModelNode, values: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs of a node by ``node:slot``.

        Args:
            node: one of the model's own graph.
            values: of the tensors that it reads, ``node:slot``.

        Raises:
            UserError: it reads what is not an array.
            Exception: ONNX Runtime's.
        """
        for tensor in node.inputs:
            if not isinstance(values[tensor], np.ndarray | np.generic):
                raise UserError(
                    f"{node.name} reads {tensor}, which is not an array: {values[tensor]}."
                )
        arrays = {name: np.asarray(values[name]) for name in node.inputs}
        numbers = tuple(_NUMBERS[name_of(array.dtype)] for array in arrays.values())
        key = node.name, numbers
        if key not in self._made:
            self._made[key] = self._session_of(node, numbers)
        feeds = {
            self._names[tensor]: _ort_value(array, number)
            for (tensor, array), number in zip(arrays.items(), numbers, strict=True)
        }
        with straight():
            found = self._made[key].run_with_ort_values(list(node.outputs.values()), feeds)
        made = zip(node.outputs, found, strict=True)
        return {f"{node.name}:{slot}": as_value(value) for slot, value in made}

    def _session_of(self, node: ModelNode, numbers: tuple[int, ...]) -> Any:
        names = (self._names[tensor] for tensor in dict.fromkeys(node.inputs))
        inputs = dict(zip(names, numbers, strict=True))
        proto = model_of(self._model, node.name, [node.proto], inputs, node.outputs.values())
        with straight():
            return session_of(proto, self._session)


class BodyRunner:
    """Computes the bodies of branches and loops.

    Args:
        session: the program's.
        model: of it.
    """

    def __init__(self, session: Any, model: Model) -> None:
        self._session, self._model = session, model
        self._made: dict[tuple[int, tuple[tuple[str, int], ...]], tuple[Any, Any]] = {}

    def run(self, body: Any, values: Mapping[str, Any]) -> dict[str, Any]:
        """The tensors of a body, by its own names: all that is computed from arrays, or sequences.

        Args:
            body: a graph.
            values: what it can see, by the model's names.

        Raises:
            Exception: ONNX Runtime's.
        """
        names = sorted(_free_names(body) | {each.name for each in body.input})
        arrays = {
            name: np.asarray(values[name])
            for name in names
            if isinstance(values.get(name), np.ndarray | np.generic)
        }
        numbers = {name: _NUMBERS[name_of(array.dtype)] for name, array in arrays.items()}
        lists = {}
        for name in names:
            given = arrays_of(values.get(name))
            number = self._elements(name, body, given) if given is not None else 0
            if number and all(array.dtype.isbuiltin for array in arrays.values()):
                lists[name], numbers[name] = given, number
        nodes = _computable(body, set(names) - numbers.keys())
        held = {each.name for each in body.initializer}
        wanted = [name for node in nodes for name in node.output if name]
        wanted += (each.name for each in body.output if each.name in held)
        made: dict[str, Any] = {}
        if wanted:
            key = id(body), tuple(numbers.items())
            if key not in self._made:
                made_of = self._session_of(body, nodes, wanted, numbers, lists)
                self._made[key] = body, made_of
            made = _computed(self._made[key][1], wanted, arrays, lists, numbers)
        # A body may hand on what it was given.
        handed = {each.name for each in body.output} - made.keys()
        made.update((name, values[name]) for name in handed if name in values)
        return made

    def _elements(self, name: str, body: Any, arrays: Sequence[Any]) -> int:
        """The type of the elements of a sequence; 0: it isn't known, or NumPy hasn't it."""
        if arrays:
            found = {each.dtype for each in arrays}
            is_known = len(found) == 1 and all(each.isbuiltin for each in found)
            return _NUMBERS[name_of(found.pop())] if is_known else 0
        said = next((each for each in body.input if each.name == name), None)
        said = said or self._model.types.get(name)
        type_ = said.type.sequence_type.elem_type.tensor_type if said is not None else None
        return type_.elem_type if type_ is not None else 0

    def _session_of(
        self,
        body: Any,
        nodes: Sequence[Any],
        wanted: Sequence[str],
        inputs: Mapping[str, int],
        lists: Collection[str],
    ) -> Any:
        proto = model_of(self._model, body.name or "body", nodes, inputs, wanted)
        for each in proto.graph.input:
            if each.name in lists:
                each.type.sequence_type.elem_type.tensor_type.elem_type = inputs[each.name]
        proto.graph.initializer.extend(body.initializer)
        with straight():
            return session_of(proto, self._session)


def _computed(
    session: Any,
    wanted: Sequence[str],
    arrays: Mapping[str, Any],
    lists: Mapping[str, Any],
    numbers: Mapping[str, int],
) -> dict[str, Any]:
    """Outputs of a session by name: of sequences ONNX Runtime makes and takes lists alone."""
    made: dict[str, Any] = {}
    with straight():
        if not lists:
            feeds = {name: _ort_value(array, numbers[name]) for name, array in arrays.items()}
            found = zip(wanted, session.run_with_ort_values(wanted, feeds), strict=True)
            made = {name: as_value(value) for name, value in found if value.is_tensor()}
        rest = [name for name in wanted if name not in made]
        if rest and all(array.dtype.isbuiltin for array in arrays.values()):
            found = zip(rest, session.run(rest, {**arrays, **lists}), strict=True)
            made.update((name, as_value(value)) for name, value in found)
    return made


def _computable(body: Any, unknown: set[str]) -> list[Any]:
    """The nodes of a graph that read nothing unknown, nor what would be computed from that."""
    found = []
    for node in body.node:
        if unknown.isdisjoint(_read_by(node)):
            found.append(node)
        else:
            unknown = unknown | set(node.output)
    return found


def _read_by(node: Any) -> set[str]:
    """What a node reads, be it in its bodies."""
    read = {name for name in node.input if name}
    return read.union(*(_free_names(each.g) for each in node.attribute if each.HasField("g")))


def _free_names(body: Any) -> set[str]:
    """What a graph reads from around it."""
    own = {each.name for each in (*body.input, *body.initializer)}
    own |= {name for node in body.node for name in node.output}
    read = {each.name for each in body.output}
    return read.union(*map(_read_by, body.node)) - own


def model_of(
    model: Model,
    name: str,
    nodes: Iterable[Any],
    inputs: Mapping[str, int],
    outputs: Iterable[str],
) -> Any:
    """A model of some nodes of another one, with its versions of op sets.

    Args:
        model: the other one.
        name: of its graph.
        nodes: in their order.
        inputs: name -> type of the elements.
        outputs: names.
    """
    import onnx

    found = onnx.ModelProto(ir_version=model.proto.ir_version)
    found.opset_import.extend(model.proto.opset_import)
    found.graph.name = name
    found.graph.node.extend(nodes)
    for each, number in inputs.items():
        given = found.graph.input.add()
        given.name = each
        given.type.tensor_type.elem_type = number
    found.graph.output.extend(onnx.ValueInfoProto(name=each) for each in outputs)
    return found


def _ort_value(array: Any, number: int) -> Any:
    held = np.require(array, requirements="C")
    if held.dtype.kind == "V" or not held.dtype.isbuiltin:
        raw = held.view(f"u{held.dtype.itemsize}")
        return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(raw, number)
    return onnxruntime.OrtValue.ortvalue_from_numpy(held)
