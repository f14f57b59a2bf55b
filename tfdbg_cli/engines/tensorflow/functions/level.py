"""Looks at a run of a TensorFlow 2 program: calls of traced functions, and ops between them."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from tensorflow.python.framework import errors, op_def_registry

from tfdbg_cli.dumps.datum import Datum
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.engines.base import Capture, Watch
from tfdbg_cli.engines.kit.clock import Clock
from tfdbg_cli.engines.kit.levels import CHECKED, FULL, CaptureLevel
from tfdbg_cli.engines.kit.numbering import Numbering
from tfdbg_cli.engines.kit.stacks import Stack, call_frame, take, user_frames, variables
from tfdbg_cli.engines.kit.watch_matcher import WatchMatcher
from tfdbg_cli.engines.tensorflow.capture.values import holdable
from tfdbg_cli.engines.tensorflow.functions.held import HeldTensor, HeldValue, values_of
from tfdbg_cli.engines.tensorflow.functions.inlined import Inlined
from tfdbg_cli.engines.tensorflow.functions.keras_names import KerasNames
from tfdbg_cli.engines.tensorflow.functions.library import KnownFunction
from tfdbg_cli.engines.tensorflow.functions.variables import WrittenVariables

__all__ = ["ValuesLevel"]

_GRADIENT = "gradient_tape/"
# How the runtime's messages name the node that failed, before and after they are put into words.
_NODE = re.compile(r"(?:\{\{node |Detected at node '?)([^\s}']+)")
_OP = re.compile(r"\[Op:(\w+)\]")


class _Event:
    """Something that the program did in the run.

    Attributes:
        inputs: tensors.
        outputs: tensors.
        stack: where.
        timestamp: when.
    """

    def __init__(self, inputs: Sequence[Any], stack: Stack, timestamp: int) -> None:
        self.inputs, self.stack, self.timestamp = inputs, stack, timestamp
        self.outputs: Sequence[Any] = ()


class _Op(_Event):
    """An op that was executed by itself."""

    op_type = name = ""
    attributes: tuple[Any, ...] = ()


class _Call(_Event):
    """A call of a traced function."""

    function: Any
    known: KnownFunction
    added: Sequence[Any] = ()
    failed = ""

    def news(self) -> set[int]:
        """The numbers of what is bad and wasn't before without anything that was waited for."""
        if not self.added:
            return set()
        bad = np.flatnonzero(self.added[-1].numpy() > 0)
        return {*bad.tolist()} - self.known.excused


class ValuesLevel(CaptureLevel):
    """Holds every tensor of a run.

    Args:
        watch: what is asked for.
        listen: sees ops from now on; returns what ends it.
        names: what Keras calls layers and variables.
    """

    level = FULL
    guarded = (*CaptureLevel.guarded, "op_done", "call_done")

    def __init__(
        self,
        watch: Watch,
        listen: Callable[[Callable[..., None]], Callable[[], None]],
        names: KerasNames,
    ) -> None:
        super().__init__(watch)
        self._listen, self._names = listen, names
        self._deafen: Callable[[], None] | None = None
        self._thread = threading.get_ident()
        self._matcher, self._clock = WatchMatcher(watch), Clock()
        self._events: list[_Event] = []
        self._inputs: dict[str, Any] = {}
        self._known: dict[int, Any] = {}  # held: no other tensor has its identity
        self._failed: tuple[BaseException | None, str] = (None, "")
        self._made: tuple[list[Node], list[Datum], dict[int, str]] | None = None
        self.gap = ""
        self.dump = self._dump = MemoryDump(
            lambda: Graph(self._described()[0]), make=lambda: self._described()[1]
        )

    def start(self) -> None:
        if self._deafen is None:
            self._deafen = self._listen(self.op_done)

    def stop(self) -> None:
        deafen, self._deafen = self._deafen, None
        if deafen is not None:
            deafen()

    def name_inputs(self, tensors: Callable[[], Mapping[str, Any]]) -> None:
        self._inputs.update(tensors())

    # While the program runs.

    def op_done(
        self,
        op_type: str,
        name: str,
        inputs: Sequence[Any],
        attributes: Any,
        outputs: Sequence[Any],
    ) -> None:
        """An op was executed by itself."""
        if threading.get_ident() != self._thread:
            return
        event = _Op(list(inputs), self._stack(), self._clock.now())
        self._name(event.inputs)
        event.op_type, event.name, event.attributes = op_type, name, tuple(attributes or ())
        event.outputs = list(outputs)
        self._known.update((id(tensor), tensor) for tensor in outputs)
        self._events.append(event)

    def _name(self, tensors: Sequence[Any]) -> None:
        """Note what the user calls tensors that nothing in the run has made."""
        found: dict[int, str] | None = None
        for tensor in tensors:
            if id(tensor) in self._known:
                continue
            self._known[id(tensor)] = tensor
            if found is None:
                frame = next(user_frames(sys._getframe(2)), None)
                held = variables(frame) if frame is not None else {}
                found = {id(value): name for name, value in held.items()}
            if id(tensor) in found:
                self._inputs.setdefault(found[id(tensor)], tensor)

    def call_done(
        self,
        function: Any,
        known: KnownFunction,
        arguments: Sequence[Any],
        results: Sequence[Any],
        added: Sequence[Any],
    ) -> None:
        """A traced function was called, by its twin."""
        event = _Call(list(arguments), self._stack(), self._clock.now())
        event.function, event.known = function, known
        event.outputs, event.added = list(results), list(added)
        self._known.update((id(tensor), tensor) for tensor in results)
        self._events.append(event)

    def call_failed(
        self, function: Any, known: KnownFunction, arguments: Sequence[Any], error: BaseException
    ) -> None:
        """A call of a traced function has raised an error."""
        self.call_done(function, known, arguments, (), ())
        found = _NODE.search(str(error))
        call = self._events[-1]
        assert isinstance(call, _Call)
        call.failed = found[1] if found else ""
        self._failed = (error, call.failed)

    def op_failed(self, error: BaseException) -> None:
        """An error comes out of the run; maybe an op's that was executed by itself."""
        found = _OP.search(str(error))
        if self._failed[0] is None and found and isinstance(error, errors.OpError):
            event = _Op([], self._stack(), self._clock.now())
            event.op_type, event.name = found[1], found[1]
            self._events.append(event)
            self._failed = (error, found[1])

    def _stack(self) -> Stack:
        return take(call_frame(sys._getframe(2)), None, None)

    # Afterwards.

    def tensor_name(self, tensor: Any) -> str:
        return self._described()[2].get(id(tensor), "")

    def name_later(self, tensor: Any) -> Callable[[], str]:
        return lambda: self.tensor_name(tensor)

    def failed_op(self, error: BaseException) -> str:
        failed, node = self._failed
        return node if error is failed else ""

    def finish(self, error: BaseException | None) -> Capture:
        capture = super().finish(error)
        capture.gap = self.gap
        if error is None and self.watch.filter_name in CHECKED:
            calls = [(call, call.news()) for call in self._events if isinstance(call, _Call)]
            is_bad = any(news for _, news in calls) or any(
                _is_bad(tensor)
                for op in self._events
                if isinstance(op, _Op)
                for tensor in op.outputs
            )
            capture.filter_passed = is_bad and self._is_hit()
            ops = len(self._events) - len(calls)
            parts = [f"{len(calls)} call(s)"] if calls else []
            parts += [f"{ops} op(s)"] if ops or not calls else []
            capture.progress_text = f"none in {' and '.join(parts)}"
            if not capture.filter_passed:
                for call, news in calls:
                    if news and call.known.is_compiled and not call.known.holds:
                        capture.gap = (
                            f"{call.known.body.title}, which XLA compiles, made a nan or an "
                            "infinity that isn't there when values are computed again without XLA"
                        )
                    call.known.excused |= news
                capture.dump, capture.make_dump = None, lambda: self._dump
        return capture

    def _is_hit(self) -> bool:
        """Whether the filter passes."""
        assert self.watch.predicate is not None
        exclude = re.compile(self.watch.exclude) if self.watch.exclude else None
        return bool(self._dump.find(self.watch.predicate, 1, exclude, lambda *_: None))

    def details(self) -> list[tuple[str, str]]:
        """Where the values of traced functions come from."""
        calls = [event for event in self._events if isinstance(event, _Call)]
        held = {call.known.body.title: why for call in calls if (why := call.known.holds)}
        texts = [f"of {title} held, as {why}" for title, why in held.items()]
        if any(not call.known.holds for call in calls):
            texts.insert(0, "computed again from what each call was given")
        if any(call.known.is_compiled for call in calls if not call.known.holds):
            texts[0] += ", without XLA"
        return [("Values", text) for text in texts]

    def _described(self) -> tuple[list[Node], list[Datum], dict[int, str]]:
        """The nodes, the tensors, and the names of those that the program has."""
        if self._made is None:
            self._made = _Describing(self._inputs, self._matcher, self._names).describe(
                self._events
            )
        return self._made


def _is_bad(tensor: Any) -> bool:
    """Whether a nan or an infinity is in it."""
    if not (tensor.dtype.is_floating or tensor.dtype.is_complex):
        return False
    return not np.isfinite(tensor.numpy()).all()


class _Describing:
    """Puts a run into words."""

    def __init__(self, inputs: Mapping[str, Any], matcher: WatchMatcher, keras: KerasNames) -> None:
        self._inputs = {id(tensor): (name, tensor) for name, tensor in inputs.items()}
        self._matcher, self._keras = matcher, keras
        self._variables = keras.variables()
        self._numbering = Numbering()
        self._nodes: list[Node] = []
        self._data: list[Datum] = []
        self._names: dict[int, str] = {}
        self._written = WrittenVariables()

    def describe(self, events: Sequence[_Event]) -> tuple[list[Node], list[Datum], dict[int, str]]:
        for event in events:
            if isinstance(event, _Call):
                self._call(event)
            elif isinstance(event, _Op):
                self._op(event)
        return self._nodes, self._data, self._names

    def _op(self, op: _Op) -> None:
        base = op.name
        phase = {}
        if base.startswith(_GRADIENT):
            base, phase = "gradients/" + base.removeprefix(_GRADIENT), {"_phase": "backward"}
        handle = self._variables.get(id(op.inputs[0]), "") if op.inputs else ""
        if op.op_type == "ReadVariableOp" and handle:
            base = f"{handle}/read"
        name = self._numbering.name(base)
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
        attributes = {str(key): str(value) for key, value in pairs} | phase
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
            if holdable(tensor.dtype):
                self._add(name, op.op_type, slot, HeldTensor(tensor), op.timestamp)

    def _call(self, call: _Call) -> None:
        layout = call.known.twin().layout
        self._variables = {**self._keras.variables(call.function), **self._variables}
        signature = layout.body.definition.signature.input_arg
        arguments = [
            self._input(tensor, f"input/{argument.name}", call.timestamp)
            for tensor, argument in zip(call.inputs, signature, strict=True)
        ]
        inlined = Inlined(
            layout,
            call.function,
            arguments,
            self._numbering,
            self._written,
            call.stack.frames,
            self._keras.op_name,
        )
        self._nodes += inlined.nodes
        for tensor, name in zip(call.outputs, inlined.returns, strict=False):
            self._names[id(tensor)] = name
        if not call.failed:
            found: tuple[Any, Any] | None = call.known.values(call.inputs, call.added)
        else:
            found = call.known.values_before(call.inputs, call.failed)
        for seen in values_of(*found, call.inputs) if found is not None else ():
            name = inlined.names[seen.path].get(seen.node, "")
            if name:
                self._add(name, seen.op, seen.slot, seen.value, call.timestamp, seen.is_view)

    def _input(self, tensor: Any, name: str, timestamp: int) -> str:
        """The name of what an op or a function gets; a node of its own if nothing has made it."""
        known = self._names.get(id(tensor))
        if known is not None:
            return known
        is_handle = not holdable(tensor.dtype)
        if id(tensor) in self._inputs:
            name = f"input/{self._inputs[id(tensor)][0]}"
        if is_handle:
            name = self._variables.get(id(tensor), name.removeprefix("input/"))
        made = self._numbering.name(name) if name else self._numbering.unnamed()
        self._nodes.append(Node(made, "VarHandleOp" if is_handle else "Input"))
        self._names[id(tensor)] = f"{made}:0"
        if not is_handle:
            self._add(made, "Input", 0, HeldTensor(tensor), timestamp)
        return f"{made}:0"

    def _add(
        self, name: str, op: str, slot: int, value: HeldValue, timestamp: int, is_view: bool = False
    ) -> None:
        if self._matcher.wants(name, op, value.dtype):
            self._data.append(
                Datum(
                    name,
                    slot,
                    value.load,
                    timestamp=timestamp,
                    dtype=value.dtype if value.shape is not None else None,
                    shape=value.shape,
                    is_view=is_view,
                )
            )
