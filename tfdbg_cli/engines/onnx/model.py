"""The model of a session: its nodes and tensors by the names under which the user knows them."""

from __future__ import annotations

import functools
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from tfdbg_cli.common.errors import UserError, one_line
from tfdbg_cli.dumps.elements import free_name
from tfdbg_cli.dumps.graph import CARRY, COLLECTED, parse_tensor_name
from tfdbg_cli.engines.onnx.values import ELEMENTS, bits_of

__all__ = [
    "HANDED_ON",
    "INITIALIZER",
    "INPUT",
    "LOOPS",
    "Handed",
    "Model",
    "ModelNode",
    "Weight",
    "read_model",
]

INPUT, INITIALIZER = "Input", "Initializer"
#: Their bodies are computed again and again.
LOOPS = frozenset(["Loop", "Scan"])
#: The type of a node of the debugger's own that gives what it got.
HANDED_ON = "Identity"
#: Ops whose results another run, or another session, doesn't have.
_RANDOM = frozenset(
    [
        *("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform"),
        "RandomUniformLike",
    ]
)
#: Domains that every ONNX Runtime has; ops of others come with libraries and may have state.
_DOMAINS = frozenset(
    [
        *("", "ai.onnx", "ai.onnx.ml", "ai.onnx.preview.training", "ai.onnx.training"),
        *("com.microsoft", "com.microsoft.nchwc", "com.ms.internal.nhwc"),
    ]
)


class Handed(NamedTuple):
    """A node that the model doesn't have: what an iteration gets, or what becomes of it.

    Attributes:
        name: as the user knows it.
        op_type: ``Carry``: given by the iteration before, or by what is around the loop;
            ``ScanInput``: a slice of an input of a ``Scan``; ``Iteration``: its number;
            ``Identity``: handed on as it was given; ``_Collected``: of all iterations.
        inputs: what it may be, ``node:slot``.
        tensor: the body's name of it; empty: it is collected, and never shown.
        scope: the node and body that it is in.
    """

    name: str
    op_type: str
    inputs: tuple[str, ...] = ()
    tensor: str = ""
    scope: str = ""


@dataclass
class ModelNode:
    """A node of the model.

    Attributes:
        name: as the user knows it: its own, or that of its first output where it has none.
        proto: it, as the model has it.
        inputs: the tensors that it reads, ``node:slot``.
        outputs: its outputs that have a name: the model's name of each slot.
        scope: the node and branch that it is in, ``loop/body``; empty: the model's own graph.
        owner: the node that it is inside of; ``None``: the model's own.
        body: the nodes inside of it.
        branches: of an ``If`` what each branch gives: names of graphs -> tensors, ``node:slot``.
        handed: of a loop what each iteration gets and what becomes of it.
        ends: of a loop what each output may be: that with which it began, and that of its body.
    """

    name: str
    proto: Any
    inputs: tuple[str, ...]
    outputs: dict[int, str]
    scope: str = ""
    owner: ModelNode | None = None
    body: list[ModelNode] = field(default_factory=list)
    branches: dict[str, list[str]] = field(default_factory=dict)
    handed: list[Handed] = field(default_factory=list)
    ends: list[list[str]] = field(default_factory=list)

    @property
    def op_type(self) -> str:
        """With its domain, where it isn't ONNX's own."""
        domain: str = self.proto.domain
        own: str = self.proto.op_type
        return own if domain in ("", "ai.onnx") else f"{domain}.{own}"


class Weight(NamedTuple):
    """An initializer: a value that the model holds.

    Attributes:
        node: the name that it goes by.
        dtype, shape: of its value.
        load: reads it.
    """

    node: str
    dtype: str
    shape: tuple[int, ...]
    load: Callable[[], Any]


class Model:
    """What a session computes.

    Args:
        proto: the model, without its external data.
        folder: where its external data is; empty: it was made of bytes.

    Attributes:
        inputs: node name -> the model's name of an input.
        weights: the initializers, by the model's names; those of bodies have the scope in front.
        nodes: those of the model's own graph, in the order in which they are computed.
        tensors: the model's name of a tensor of its own graph -> ``node:slot``.
        outputs: the model's names of its outputs.
        mapped: the folder with the values of large initializers, and these without them; ``None``:
            they aren't large, or nobody has needed them.
        optimised: tells what became of a node, where the graph that runs hasn't got it.
    """

    def __init__(self, proto: Any, folder: str) -> None:
        self.proto, self.folder = proto, folder
        self.mapped: tuple[str, list[Any]] | None = None
        self.optimised: Callable[[], Mapping[str, str]] = dict
        graph = proto.graph
        self._taken: set[str] = set()
        self.tensors: dict[str, str] = {}
        self.weights: dict[str, Weight] = {}
        held = {each.name for each in graph.initializer}
        held |= {each.values.name for each in graph.sparse_initializer}
        self.inputs: dict[str, str] = {}
        for value in graph.input:
            if value.name not in held:
                self.inputs[self._name_outside(value.name)] = value.name
        for tensor in graph.initializer:
            self._weigh(tensor.name, tensor, self._name_outside(tensor.name))
        for sparse in graph.sparse_initializer:
            self._name_outside(sparse.values.name)
        self.outputs = [value.name for value in graph.output]
        self.nodes = self._named(graph.node, self.tensors, "", None)

    def _free(self, name: str, scope: str) -> str:
        """A name that nothing has yet: the own one if it can be, the scope's if not."""
        if name not in self._taken:
            return name
        return free_name(f"{scope}/{name}" if scope else name, self._taken)

    def _take(self, name: str, scope: str) -> str:
        """The node of what comes from outside: ``x`` for the tensor ``x`` or ``x:0``."""
        _check_names(name)
        node = self._free(_plain(name), scope)
        self._taken.add(node)
        return node

    def _name_outside(self, name: str) -> str:
        node = self._take(name, "")
        self.tensors[name] = f"{node}:0"
        return node

    def _weigh(self, name: str, tensor: Any, node: str) -> None:
        load = functools.partial(_weight, tensor, self.folder)
        dtype = ELEMENTS.get(tensor.data_type, "")
        self.weights[name] = Weight(node, dtype, tuple(tensor.dims), load)

    def _named(
        self, protos: Sequence[Any], tensors: dict[str, str], scope: str, owner: ModelNode | None
    ) -> list[ModelNode]:
        made = []
        for proto in protos:
            _check_names(proto.name, proto.op_type, proto.domain, *proto.input, *proto.output)
            outputs = {slot: name for slot, name in enumerate(proto.output) if name}
            own = proto.name or _plain(next(iter(outputs.values()), proto.op_type))
            name = self._free(own, scope)
            self._taken.add(name)
            inputs = tuple(tensors[each] for each in proto.input if tensors.get(each))
            node = ModelNode(name, proto, inputs, outputs, scope, owner)
            made.append(node)
            captured: dict[str, None] = {}
            for attribute in proto.attribute:
                _check_names(attribute.name)
                for graph in (
                    *([attribute.g] if attribute.HasField("g") else ()),
                    *attribute.graphs,
                ):
                    captured.update(dict.fromkeys(self._fill(node, attribute.name, graph, tensors)))
            node.inputs += tuple(each for each in captured if each not in node.inputs)
            tensors.update((tensor, f"{name}:{slot}") for slot, tensor in outputs.items())
        return made

    def _fill(
        self, node: ModelNode, attribute: str, graph: Any, tensors: Mapping[str, str]
    ) -> list[str]:
        """Name what is in a body of a node; the tensors that it reads from around it."""
        scope = f"{node.name}/{attribute.removesuffix('_branch')}"
        held = {each.name: self._take(each.name, scope) for each in graph.initializer}
        for tensor in graph.initializer:
            self._weigh(f"{scope}/{tensor.name}", tensor, held[tensor.name])
        given = {each.name: "" for each in graph.input if each.name not in held}
        if node.op_type in LOOPS:  # else it is known by the node that brings it
            given = {each: self._take(each, scope) for each in given}
        own = {**held, **given}
        inner = {**tensors, **{each: f"{name}:0" if name else "" for each, name in own.items()}}
        body = self._named(graph.node, inner, scope, node)
        node.body += body
        made = [inner.get(each.name, "") for each in graph.output]
        if node.op_type == "If":
            node.branches[attribute] = made
        elif node.op_type in LOOPS:
            # The first Scan, of opset 8, has lengths of sequences in front.
            begins = [tensors.get(each, "") for each in node.proto.input][-len(given) :]
            self._hand(node, scope, given, begins, list(zip(graph.output, made, strict=True)))
        inside = {*own.values(), *(each.name for each in body)}
        read = (tensor for each in body for tensor in each.inputs)
        return [tensor for tensor in read if parse_tensor_name(tensor)[0] not in inside]

    def _hand(
        self,
        node: ModelNode,
        scope: str,
        given: Mapping[str, str],
        begins: Sequence[str],
        made: list[tuple[Any, str]],
    ) -> None:
        """Say what the iterations of a loop get, and what becomes of what they make.

        Args:
            node: the loop.
            scope: of its body.
            given: the body's inputs: their names -> those of their nodes.
            begins: the tensors that are the node's inputs.
            made: the body's outputs, with their tensors.
        """
        is_loop = node.op_type == "Loop"  # then the condition is carried, too
        scanned = next((a.i for a in node.proto.attribute if a.name == "num_scan_inputs"), 0)
        count = len(begins) - scanned
        for at, ((tensor, name), begin) in enumerate(zip(given.items(), begins, strict=False)):
            op_type, taken = CARRY, [begin]
            if is_loop and not at:
                op_type, taken = "Iteration", []
            elif at >= count:
                op_type = "ScanInput"
            elif at - is_loop < len(made):
                result, again = made[at - is_loop]
                if again != f"{name}:0" and again.removesuffix(":0") in given.values():
                    # As it was in the same iteration, whichever of them is dumped first.
                    kept = self._take(f"{tensor}_next", scope)
                    node.handed.append(Handed(kept, HANDED_ON, (again,), result.name, scope))
                    made[at - is_loop] = result, (again := f"{kept}:0")
                taken.append(again)
            node.handed.append(Handed(name, op_type, tuple(filter(None, taken)), tensor, scope))
        first = 2 if is_loop else 0
        for slot, (_, tensor) in enumerate(made[is_loop:]):
            if slot + first < count:
                node.ends.append([begins[slot + first], tensor])
            else:
                name = self._take(f"{node.name}/collected_{slot}", scope)
                node.handed.append(Handed(name, COLLECTED, (tensor,)))
                node.ends.append([f"{name}:0"])

    @functools.cached_property
    def all_nodes(self) -> list[ModelNode]:
        """Those inside of others too, after the node that they are in."""
        return list(_walk(self.nodes))

    @functools.cached_property
    def by_name(self) -> dict[str, ModelNode]:
        """The node of a name."""
        return {node.name: node for node in self.all_nodes}

    @functools.cached_property
    def random(self) -> list[ModelNode]:
        """The nodes that draw random numbers, or whose library may keep something."""
        return [
            node
            for node in self.all_nodes
            if node.proto.op_type in _RANDOM or node.proto.domain not in _DOMAINS
        ]

    @functools.cached_property
    def types(self) -> dict[str, Any]:
        """What the model says of the types of its tensors: ``ValueInfoProto`` by name."""
        graph = self.proto.graph
        return {each.name: each for each in (*graph.value_info, *graph.input, *graph.output)}

    def node_of_error(self, error: BaseException) -> ModelNode | None:
        """The node that an error of ONNX Runtime's speaks of, if it is one of the model's."""
        found = re.search(r"[Nn]ode(?:\.| )? ?\(?Name: ?'([^']*)'", str(error)) or re.search(
            r"[Nn]ode[ :]*\(([^)]+)\)", str(error)
        )
        name = found[1] if found else ""
        known = {node.proto.name: node for node in self.all_nodes if node.proto.name}
        if name in known:
            return known[name]
        op = re.search(r"while running (\w+) node", str(error))
        fits = [node for node in self.all_nodes if op and node.proto.op_type == op[1]]
        return fits[0] if len(fits) == 1 and not name else None


def _walk(nodes: Sequence[ModelNode]) -> Iterator[ModelNode]:
    for node in nodes:
        yield node
        yield from _walk(node.body)


def _check_names(*names: object) -> None:
    """Names are UTF-8, which ONNX Runtime doesn't ask for; protobuf gives others as bytes.

    Raises:
        UserError: one isn't.
    """
    for name in names:
        if not isinstance(name, str):
            raise UserError(f"The model has a name that isn't UTF-8: {name!r}.")


def _plain(name: str) -> str:
    """The node that a tensor is named after: ``dense/MatMul`` for ``dense/MatMul:0``."""
    return parse_tensor_name(name)[0]


def _weight(tensor: Any, folder: str) -> Any:
    """The value of an initializer.

    Raises:
        UserError: its external data is not there, or not in the model's folder.
    """
    from onnx import numpy_helper

    try:
        check_external(tensor, folder)
        return np.asarray(numpy_helper.to_array(tensor, folder))
    except UserError:
        raise
    except Exception as error:  # whatever damaged files lead to
        raise UserError(
            f"The initializer {tensor.name} can't be read: {one_line(error)}"
        ) from error


def check_external(tensor: Any, folder: str) -> None:
    """Refuse external data outside of the model's folder.

    Raises:
        UserError: it is outside, or missing, or too short.
    """
    said = {entry.key: entry.value for entry in tensor.external_data}
    if tensor.data_location != 1 or "location" not in said:
        return
    place = said["location"]
    base = os.path.realpath(folder or ".")
    path = os.path.realpath(os.path.join(base, place))
    if os.path.isabs(place) or not path.startswith(os.path.join(base, "")):
        raise UserError(
            f"The initializer {tensor.name} says that its data is in {place}, which is outside of "
            "the model's folder: it is not read."
        )
    if not os.path.isfile(path):
        raise UserError(
            f"The data of the initializer {tensor.name} is missing: there is no {place} beside "
            "the model."
        )
    try:
        offset, length = int(said.get("offset") or 0), int(said.get("length") or 0)
    except ValueError:
        raise UserError(f"Where the data of {tensor.name} is in {place} is not a number.") from None
    size = os.path.getsize(path)
    if offset < 0 or length < 0 or offset + length > size:
        raise UserError(
            f"{place} is too short: the data of the initializer {tensor.name} ends at "
            f"{offset + length:,} bytes, the file at {size:,}."
        )


def _say_length(tensor: Any) -> None:
    """Write down how long external data is where the model doesn't, which means: as it must be.

    The package onnx would read all that is behind it in the file.
    """
    said = {entry.key: entry.value for entry in tensor.external_data}
    bits = bits_of(tensor.data_type)
    if tensor.data_location == 1 and not said.get("length") and bits:
        length = -(-math.prod(tensor.dims) * bits // 8)
        tensor.external_data.add(key="length", value=str(length))


def _home(proto: Any, source: str) -> str:
    """The folder of a model's external data.

    Where the model and its data are links into another folder (a cache of the Hugging Face Hub has
    them so), that one; the model then says where the data is in it.
    """
    folder = os.path.dirname(os.path.abspath(source))
    real = os.path.dirname(os.path.realpath(source))
    moved = []
    for tensor in proto.graph.initializer:
        for entry in tensor.external_data if tensor.data_location == 1 else ():
            if entry.key == "location":
                path = os.path.realpath(os.path.join(folder, entry.value))
                moved.append((entry, os.path.relpath(path, real)))
    if real == os.path.realpath(folder) or any(
        os.path.isabs(entry.value) or place.startswith(os.pardir) for entry, place in moved
    ):
        return folder
    for entry, place in moved:
        entry.value = place
    return real


def read_model(source: str | bytes) -> Model:
    """A model from what a session was made of.

    Raises:
        UserError: the package ``onnx`` isn't installed, or the model can't be read.
    """
    try:
        import onnx
        import onnx.inliner
    except ImportError as error:
        raise UserError(
            "The package onnx isn't installed: intermediate tensors can't be looked at.",
            "pip install onnx",
        ) from error
    try:
        if isinstance(source, bytes):
            proto, folder = onnx.load_model_from_string(source), ""
        else:
            proto = onnx.load(source, load_external_data=False)
            folder = _home(proto, source)
            for tensor in proto.graph.initializer:
                _say_length(tensor)
        if proto.functions:
            proto = onnx.inliner.inline_local_functions(proto)
    except Exception as error:  # protobuf's, or the file's
        raise UserError(f"The model can't be read as ONNX: {one_line(error)}") from error
    return Model(proto, folder)
