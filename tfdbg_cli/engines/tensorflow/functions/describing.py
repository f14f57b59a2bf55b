"""Puts a run of a TensorFlow 2 program into words: its nodes, and what they have made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from tensorflow.python.framework import op_def_registry
from tensorflow.python.util import nest

from tfdbg_cli.common.node_words import NUMBER
from tfdbg_cli.dumps.datum import Datum
from tfdbg_cli.dumps.graph import Node, node_name_of
from tfdbg_cli.engines.kit.numbering import Numbering
from tfdbg_cli.engines.kit.stacks import Stack
from tfdbg_cli.engines.kit.watch_matcher import WatchMatcher
from tfdbg_cli.engines.tensorflow.functions.held import BodyTensor, HeldTensor, HeldValue, values_of
from tfdbg_cli.engines.tensorflow.functions.inlined import InlinedNames, Path
from tfdbg_cli.engines.tensorflow.functions.keras_names import KerasNames
from tfdbg_cli.engines.tensorflow.functions.library import KnownFunction, Library
from tfdbg_cli.engines.tensorflow.functions.pipelines.described import RunDraft, explain
from tfdbg_cli.engines.tensorflow.functions.pipelines.iterators import Iterators
from tfdbg_cli.engines.tensorflow.functions.private import (
    options_in,
    outputs_of,
    packed_outputs,
)
from tfdbg_cli.engines.tensorflow.functions.replicas import scope_of_replica
from tfdbg_cli.engines.tensorflow.functions.slots import Slot
from tfdbg_cli.engines.tensorflow.functions.twins.twin import Twin
from tfdbg_cli.engines.tensorflow.functions.twins.windows import IterationWindow
from tfdbg_cli.engines.tensorflow.functions.variables import WrittenVariables
from tfdbg_cli.engines.tensorflow.shared.stacks import meant_by
from tfdbg_cli.engines.tensorflow.shared.values import holdable

__all__ = ["GRADIENT", "Call", "DescribedCall", "Event", "Op", "RunDescriber", "returned"]

#: What the names of ops of a gradient begin with.
GRADIENT = "gradient_tape/"
_OPTIONAL = "OptionalFromValue"


class Event:
    """Something that the program did in the run.

    Attributes:
        inputs: tensors.
        outputs: tensors.
        stack: where.
        timestamp: when.
        scope: what names of the replica begin with in whose thread it was.
    """

    def __init__(self, inputs: Sequence[Any], stack: Stack, timestamp: int) -> None:
        self.inputs, self.stack, self.timestamp = inputs, stack, timestamp
        self.scope = scope_of_replica()
        self.outputs: Sequence[Any] = ()


class Op(Event):
    """An op that was executed by itself."""

    op_type = name = ""
    attributes: tuple[Any, ...] = ()


class Call(Event):
    """A call of a traced function."""

    function: Any
    known: KnownFunction
    twin: Twin
    added: Sequence[Any] = ()
    failed = ""
    by_xla = False  # shown is what XLA computes when it computes it again

    @property
    def is_of_xla(self) -> bool:
        """Whether XLA computes it, and its values are computed again."""
        return self.known.is_compiled and not self.known.holds

    @property
    def is_kept(self) -> bool:
        """Whether its values can be known."""
        return bool(self.failed) or not self.added or self.twin.keeps(self.added)

    def news(self) -> set[int]:
        """The numbers of what is bad and wasn't before without anything that was waited for."""
        if not self.added:
            return set()
        bad = np.flatnonzero(self.added[-1].numpy() > 0)
        return {*bad.tolist()} - self.known.excused


class DescribedCall(NamedTuple):
    """A call in words.

    Attributes:
        event: the call.
        inlined: the names of its nodes.
        arguments: per argument the tensor.
        seen: its tensors.
    """

    event: Any
    inlined: InlinedNames
    arguments: Sequence[str]
    seen: Sequence[BodyTensor]


class RunDescriber:
    """Puts a run into words.

    Args:
        inputs: what the user calls tensors.
        matcher: says which are wanted.
        keras: what Keras calls its layers and variables.
        has_values: whether there are any.

    Attributes:
        calls: those that were described.
        ops: type and name of each op that was executed by itself.
        lacks: sentences about what isn't there.
        definitions: name -> the ``NodeDef``, or op type and attributes of what was executed by
            itself.
    """

    def __init__(
        self,
        inputs: Mapping[str, Any],
        matcher: WatchMatcher,
        keras: KerasNames,
        has_values: bool = True,
    ) -> None:
        self._inputs = {id(tensor): (name, tensor) for name, tensor in inputs.items()}
        self._matcher, self._keras = matcher, keras
        self._variables = keras.variables()
        self._numbering = Numbering()
        self._nodes: list[Node] = []
        self._data: list[Datum] = []
        self._names: dict[int, str] = {}
        self._written = WrittenVariables()
        self._has_values = has_values
        self.calls: list[DescribedCall] = []
        self.ops: list[tuple[str, str]] = []
        self.lacks: list[str] = []
        self.definitions: dict[str, Any] = {}
        self._handles: dict[str, Any] = {}

    def trace_input(self, iterators: Iterators) -> str:
        """Add what has made a batch that came in bad; a sentence that says so, or nothing."""
        if not self._handles:
            return ""
        room = RunDraft(self._nodes, self._data, self._handles, self._numbering, self._add)
        return explain(room, iterators, Library())

    def describe(self, events: Sequence[Event]) -> tuple[list[Node], list[Datum], dict[int, str]]:
        """The nodes, the tensors, and the names of those that the program has."""
        for event in events:
            if isinstance(event, Call):
                self._call(event)
            elif isinstance(event, Op):
                self._op(event)
        return self._nodes, self._data, self._names

    def _op(self, op: Op) -> None:
        plain = op.name.removeprefix(GRADIENT)
        base = op.scope + plain.removeprefix(op.scope)
        phase = {}
        if plain != op.name:
            base, phase = f"gradients/{base}", {"_phase": "backward"}
        handle = self._variables.get(id(op.inputs[0]), "") if op.inputs else ""
        if op.op_type == "ReadVariableOp" and handle:
            base = f"{handle}/read"
        name = self._numbering.name(base)
        self.ops.append((op.op_type, name))
        signature = op_def_registry.get(op.op_type)
        names = [each.name for each in signature.input_arg] if signature is not None else []
        if len(names) != len(op.inputs):  # some are lists
            names = [""] * len(op.inputs)
        given = [
            self._input(tensor, f"{name}/{each}" if each else "", op.timestamp)
            for tensor, each in zip(op.inputs, names, strict=True)
        ]
        given += self._written.read(op.op_type, given)
        self._written.write(op.op_type, given)
        pairs = zip(op.attributes[::2], op.attributes[1::2], strict=False)
        raw = {str(key): value for key, value in pairs}
        self.definitions[name] = op.op_type, raw
        attributes = {key: str(value) for key, value in raw.items()} | phase
        attributes |= meant_by(op.op_type, op.stack.frames)
        self._nodes.append(
            Node(
                name,
                op.op_type,
                [each for each in given if each],
                attributes=attributes,
                frames=op.stack.frames,
            )
        )
        for slot, tensor in enumerate(op.outputs):
            self._names[id(tensor)] = f"{name}:{slot}"
            held = tensor.tensor if isinstance(tensor, Slot) else tensor
            if held is not None and holdable(tensor.dtype):
                self._add(name, op.op_type, slot, HeldTensor(held), op.timestamp)

    def _call(self, call: Call) -> None:
        layout = call.twin.layout
        self._variables = {**self._keras.variables(call.function), **self._variables}
        signature = layout.body.definition.signature.input_arg
        arguments = [
            self._input(tensor, f"input/{argument.name}", call.timestamp)
            for tensor, argument in zip(call.inputs, signature, strict=True)
        ]
        inlined = InlinedNames(
            layout,
            call.function,
            arguments,
            self._numbering,
            self._written,
            call.stack.frames,
            lambda graph, name: call.scope + self._keras.op_name(graph, name),
        )
        self._nodes += inlined.nodes
        self.definitions |= inlined.definitions
        for tensor, name in zip(call.outputs, inlined.returns, strict=False):
            self._names[id(tensor)] = name
        found: tuple[Any, Any] | None = None
        if not self._has_values:
            pass
        elif not call.failed:
            found = call.known.values(call.twin, call.inputs, call.added, call.by_xla)
            if found is None:
                self.lacks.append(
                    f"The values of {layout.body.title} weren't kept: its variables are large, and "
                    "nothing was bad before it wrote to them (config set level values keeps them)."
                )
        else:
            found = call.known.values_before(call.inputs, call.failed)
        lacks: dict[tuple[Path, str], IterationWindow] = {}

        def lack(path: Path, loop: str, held: IterationWindow) -> None:
            lacks.setdefault((path, loop), held)

        every = list(values_of(*found, call.inputs, lack)) if found is not None else []
        for (path, loop), held in lacks.items():
            self.lacks.append(_lacking(inlined.names[path].get(loop, loop), held))
        self.calls.append(DescribedCall(call, inlined, arguments, every))
        for seen in every:
            name = inlined.names[seen.path].get(seen.node, "")
            if name:
                self._add(name, seen.op, seen.slot, seen.value, call.timestamp, seen.is_view)

    def _input(self, tensor: Any, name: str, timestamp: int) -> str:
        """The name of what an op or a function gets; a node of its own if nothing has made it."""
        known = self._names.get(id(tensor))
        if known is not None:
            return known
        is_handle = not holdable(tensor.dtype)
        is_number = not is_handle and not tensor.shape.rank and not name.startswith("input/")
        if id(tensor) in self._inputs:
            is_number = False
            name = f"input/{self._inputs[id(tensor)][0]}"
        if is_handle:
            name = self._variables.get(id(tensor), name.removeprefix("input/"))
        made = self._numbering.name(name) if name else self._numbering.unnamed()
        attributes = {NUMBER: "True"} if is_number else None
        self._nodes.append(
            Node(made, "VarHandleOp" if is_handle else "Input", attributes=attributes)
        )
        self._names[id(tensor)] = f"{made}:0"
        if is_handle:
            self._handles[made] = tensor
        else:
            self._add(made, "Input", 0, HeldTensor(tensor), timestamp)
        return f"{made}:0"

    def _add(
        self, name: str, op: str, slot: int, value: HeldValue, timestamp: int, is_view: bool = False
    ) -> None:
        if self._has_values and self._matcher.wants(name, op, value.dtype):
            self._data.append(
                Datum(
                    name,
                    slot,
                    value.load,
                    timestamp=timestamp,
                    dtype=value.dtype if value.shape is not None else None,
                    shape=value.shape,
                    is_view=is_view,
                    note=value.note,
                )
            )


def _lacking(loop: str, held: IterationWindow) -> str:
    """What isn't there of a loop, as a sentence."""
    first = held.first
    texts = [f"(#0) is its iteration {first}, as the {first} before it" if first else "it"]
    if held.is_cut:
        more = "those after the first bad one"
        texts = [f"{texts[0]} and {more}" if first else more]
    return f"Of the loop {loop} not all iterations are held: {texts[0]} had no room."


def returned(call: DescribedCall, results: Sequence[Any]) -> dict[str, str]:
    """Where each result of a call is in what the function returns -> the tensor.

    Args:
        call: in words.
        results: what the call has returned.
    """
    nodes = {each.name: each for each in call.inlined.nodes}
    names = [_computed(nodes, each) for each in call.inlined.returns]
    whole, function = None, call.event.function
    maker = nodes.get(node_name_of(names[0])) if len(names) == 1 else None
    if maker is not None and maker.op_type == _OPTIONAL:  # as of a step of Keras
        whole = options_in(outputs_of(function))
        names = [_computed(nodes, each) for each in maker.inputs]
    else:
        whole = packed_outputs(function, results)
    paths = nest.flatten_with_tuple_paths(whole, expand_composites=True)
    found = ["".join(f"[{key!r}]" for key in path) for path, each in paths if each is not None]
    if len(found) != len(names):
        return {}
    return {f"result{path}": name for path, name in zip(found, names, strict=True) if name}


def _computed(nodes: Mapping[str, Node], name: str) -> str:
    """The tensor that an op has computed: TensorFlow hands on all that functions return."""
    node = nodes.get(node_name_of(name))
    while node is not None and node.op_type == "Identity":
        name = node.inputs[0]
        node = nodes.get(node_name_of(name))
    return name
