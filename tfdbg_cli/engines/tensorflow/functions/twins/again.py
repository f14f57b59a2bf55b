"""A function whose plain part can be computed again: what has effects or state is given to it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from tensorflow.core.framework import function_pb2
from tensorflow.python.framework import dtypes

from tfdbg_cli.engines.tensorflow.functions.definitions import (
    MARK,
    BodyNode,
    FunctionBody,
    Kind,
    read_body,
)
from tfdbg_cli.engines.tensorflow.functions.effects import (
    has_state,
    nodes_behind,
    touches_state,
)
from tfdbg_cli.engines.tensorflow.functions.twins.nodes import add_stand_in
from tfdbg_cli.engines.tensorflow.functions.twins.optimized import Place, unread_edges
from tfdbg_cli.engines.tensorflow.functions.twins.twin import Twin, make_twin
from tfdbg_cli.engines.tensorflow.functions.variables import is_writing
from tfdbg_cli.engines.tensorflow.shared.values import holdable

__all__ = ["make_again", "make_before", "why_not"]


_XLA = "_Xla"


def why_not(body: FunctionBody) -> str:
    """Why a function's values can't be computed again; empty: they can."""
    for node in body.nodes:
        if node.kind == Kind.CALL and node.inner:
            found = next((text for each in node.inner.values() if (text := why_not(each))), "")
            if found:
                return found
        elif node.inner and node.kind == Kind.DATASET:
            kept = "of one iteration, the first bad one or the last"
            return f"{node.name} goes through a dataset: {kept}"
        elif node.inner and any(touches_state(each) for each in node.inner.values()):
            return f"{node.name} reads or writes state within a loop or a branch"
        elif node.kind and not node.inner:
            return f"{node.name} can't be looked into"
    return ""


class _Pure(NamedTuple):
    """A function without state: its name, and the types of what it is given besides."""

    name: str
    kinds: Sequence[int]


def make_again(
    body: FunctionBody,
    find: Callable[[str], Any],
    room: int,
    by_xla: bool = False,
    unread: Collection[Place] = (),
) -> Twin:
    """A function of its arguments and of what its stateful nodes gave, in their order.

    It gives everything in it.

    Args:
        body: of a function of which `why_not` says nothing.
        find: gives the ``FunctionDef`` of a name.
        room: how many bytes the iterations of a loop may take.
        by_xla: XLA compiles what it compiles of the function; it gives nothing in loops and
            branches then.
        unread: nodes whose outputs aren't given, so that the optimizer makes the same of the rest.
    """
    maker = _Maker(by_xla)
    pure = maker.make(body)

    def find_made(name: str) -> Any:
        return maker.made.get(name) or find(name)

    bodies: dict[str, FunctionBody] = {}
    repeated = read_body(pure.name, find_made, bodies)
    for name, original in maker.originals.items():
        bodies[name].live = original.live
    edges = unread_edges(
        repeated,
        {
            (name, node)
            for name, original in maker.originals.items()
            for at, node in unread
            if at == original.name
        },
    )
    twin = make_twin(repeated, find_made, lambda node: True, room=room, unread=edges)
    _restore(repeated, maker.originals, set())
    return twin._replace(definitions=[*maker.made.values(), *twin.definitions])


def _restore(body: FunctionBody, originals: dict[str, FunctionBody], seen: set[int]) -> None:
    """Let functions, and nodes that were replaced, look as they did."""
    if id(body) in seen:
        return
    seen.add(id(body))
    original = originals.get(body.name)
    definition = original.definition if original is not None else None
    own = {node.name: node for node in definition.node_def} if definition is not None else {}
    for node in body.nodes:
        node.definition = own.get(node.name, node.definition)
        for inner in node.inner.values():
            _restore(inner, originals, seen)
    if definition is not None:
        body.definition = definition


def make_before(body: FunctionBody, find: Callable[[str], Any], failed: str) -> Twin:
    """A function of the same arguments that gives what a node that has failed doesn't stand before.

    Left out is what reads the node's outputs, and what might be another value by now: random
    numbers, variables that may have been written.

    Args:
        body: of a function.
        find: gives the ``FunctionDef`` of a name.
        failed: the node.
    """
    after = nodes_behind(body, {failed})
    written = {
        source
        for node in body.nodes
        if node.name not in after and has_state(node) and is_writing(node.op)
        for source in node.inputs
    }
    left: set[str] = set()
    for node in body.nodes:
        is_unknown = (
            any(touches_state(each) for each in node.inner.values())
            if node.inner
            else has_state(node) and (node.op != "ReadVariableOp" or node.inputs[0] in written)
        )
        if is_unknown or node.name in after or any(name in left for name, _ in node.inputs):
            left.add(node.name)
    definition = function_pb2.FunctionDef()
    definition.signature.CopyFrom(body.definition.signature)
    definition.signature.name = f"{body.name}{MARK}before"
    del definition.signature.output_arg[:]
    del definition.signature.control_output[:]
    for node in body.nodes:
        if node.name not in left:
            made = definition.node_def.add()
            made.CopyFrom(node.definition)
            _set_inputs(made, [item for item in made.input if not item.startswith("^")])

    def find_made(name: str) -> Any:
        return definition if name == definition.signature.name else find(name)

    before = read_body(definition.signature.name, find_made, {})
    before.live = body.live
    twin = make_twin(before, find_made, lambda node: True, has_health=False)
    return twin._replace(definitions=[definition, *twin.definitions])


def _set_inputs(made: Any, inputs: Sequence[str]) -> None:
    del made.input[:]
    made.input.extend(inputs)


class _Maker:
    """Makes functions without state of those that have some."""

    def __init__(self, by_xla: bool) -> None:
        self._by_xla = by_xla
        self.made: dict[str, Any] = {}
        self.originals: dict[str, FunctionBody] = {}
        self._pure: dict[str, _Pure] = {}

    def make(self, body: FunctionBody) -> _Pure:
        """A function that gets what the stateful nodes of another one give."""
        if body.name not in self._pure:
            self._pure[body.name] = self._make(body)
        return self._pure[body.name]

    def _compiles(self, attribute: str) -> bool:
        return self._by_xla and attribute.startswith(_XLA)

    def _make(self, body: FunctionBody) -> _Pure:
        definition = function_pb2.FunctionDef()
        definition.signature.CopyFrom(body.definition.signature)
        definition.signature.name = f"{body.name}{MARK}again{'_by_xla' * self._by_xla}"
        definition.signature.is_stateful = False
        for name in filter(self._compiles, body.definition.attr):
            definition.attr[name].CopyFrom(body.definition.attr[name])
        del definition.signature.control_output[:]
        self.originals[definition.signature.name] = body
        renamed: dict[str, str] = {}
        kinds: list[int] = []

        def argument(kind: int) -> str:
            name = f"tfdbg_given_{len(kinds)}"
            kinds.append(kind)
            definition.signature.input_arg.add(name=name, type=kind)
            return name

        for node in body.nodes:
            if not node.inner and has_state(node):
                self._give(node, definition, argument, renamed)
                continue
            made = definition.node_def.add()
            made.CopyFrom(node.definition)
            for name in [each for each in made.attr if each.startswith(_XLA)]:
                if not self._compiles(name):
                    del made.attr[name]
            inputs = [item for item in made.input if not item.startswith("^")]
            if node.kind == Kind.CALL:
                ((_, called),) = node.inner.items()
                pure = self.make(called)
                inputs += [argument(kind) for kind in pure.kinds]
                if "f" in made.attr:
                    made.attr["f"].func.name = pure.name
                    made.attr["Tin"].list.type.extend(pure.kinds)
                else:
                    made.op = pure.name
            _set_inputs(made, inputs)
        for made in definition.node_def:
            _set_inputs(made, [renamed.get(item, item) for item in made.input])
        for name, reference in body.definition.ret.items():
            definition.ret[name] = renamed.get(reference, reference)
        self.made[definition.signature.name] = definition
        return _Pure(definition.signature.name, kinds)

    def _give(
        self,
        node: BodyNode,
        definition: Any,
        argument: Callable[[int], str],
        renamed: dict[str, str],
    ) -> None:
        """Put arguments in the place of what a stateful node gives."""
        held = [output for output in node.outputs if holdable(dtypes.as_dtype(output.dtype))]
        if not held:
            return
        given = [argument(output.dtype) for output in held]
        add_stand_in(definition, node.name, held, given, renamed)
