"""A function that makes a call once more with other values in it.

What exists once (random numbers, what an iterator gave) is given to it, as are the tensors that
somebody has overridden; all else is done as in the call, on variables of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
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
from tfdbg_cli.engines.tensorflow.functions.effects import is_foreign
from tfdbg_cli.engines.tensorflow.functions.inlined import Path
from tfdbg_cli.engines.tensorflow.functions.twins.nodes import add_stand_in
from tfdbg_cli.engines.tensorflow.functions.twins.twin import Twin, make_twin
from tfdbg_cli.engines.tensorflow.shared.values import holdable

__all__ = ["Edge", "Replay", "make_replay"]

#: Path, node, slot.
Edge = tuple[Path, str, int]
_numbers = itertools.count(1)


class Replay(NamedTuple):
    """A call that is made once more.

    Attributes:
        twin: gives everything in it.
        body: of the function.
        given: what it gets behind the arguments of the call.
        find: gives the definitions of the functions in it.
    """

    twin: Twin
    body: FunctionBody
    given: Sequence[Edge]
    find: Callable[[str], Any]


def make_replay(
    body: FunctionBody,
    find: Callable[[str], Any],
    overridden: Collection[Edge],
    given: Mapping[tuple[Path, str], Collection[int]],
    undone: Collection[tuple[Path, str]],
) -> Replay:
    """Make such a function.

    Args:
        body: of the function.
        find: gives the ``FunctionDef`` of a name.
        overridden: tensors that are given to it; what makes them is done all the same, unless only
            they are what it is there for.
        given: nodes that aren't executed -> the outputs that are known of them.
        undone: nodes that write to variables, and aren't executed.
    """
    maker = _Maker(frozenset(overridden), given, frozenset(undone))
    name, edges = maker.make(body, ())

    def find_made(wanted: str) -> Any:
        return maker.made.get(wanted) or find(wanted)

    bodies: dict[str, FunctionBody] = {}
    made = read_body(name, find_made, bodies)
    left_out: set[int] = set()
    for each, (original, path) in maker.originals.items():
        bodies[each].live = original.live
        for node in bodies[each].nodes:
            if maker.is_needless(node, path):
                left_out.add(id(node))
    twin = make_twin(made, find_made, lambda node: id(node) not in left_out, has_health=False)
    twin = twin._replace(definitions=[*maker.made.values(), *twin.definitions])
    return Replay(twin, made, edges, find_made)


class _Maker:
    """Copies a function, and those that it calls, for each place where they are called."""

    def __init__(
        self,
        overridden: frozenset[Edge],
        given: Mapping[tuple[Path, str], Collection[int]],
        undone: frozenset[tuple[Path, str]],
    ) -> None:
        self._overridden, self._given, self._undone = overridden, given, undone
        self._number = next(_numbers)
        self.made: dict[str, Any] = {}
        self.originals: dict[str, tuple[FunctionBody, Path]] = {}

    def is_needless(self, node: BodyNode, path: Path) -> bool:
        """Whether all that a node gives is given."""
        slots = range(len(node.outputs))
        if (path, node.name) in self._given or (path, node.name) in self._undone:
            return True
        return bool(slots) and all((path, node.name, slot) in self._overridden for slot in slots)

    def make(self, body: FunctionBody, path: Path) -> tuple[str, list[Edge]]:
        """The copy's name, and what it gets besides the arguments."""
        definition = function_pb2.FunctionDef()
        definition.signature.CopyFrom(body.definition.signature)
        name = f"{body.name}{MARK}replay_{self._number}_{len(self.originals)}"
        definition.signature.name = name
        self.originals[name] = body, path
        renamed: dict[str, str] = {}
        edges: list[Edge] = []

        def argument(edge: Edge, kind: int) -> str:
            made = f"tfdbg_given_{len(edges)}"
            edges.append(edge)
            definition.signature.input_arg.add(name=made, type=kind)
            return made

        for node in body.nodes:
            key = path, node.name
            if key in self._given or key in self._undone or is_foreign(node):
                self._stand_in(node, definition, path, argument, renamed)
            else:
                made = definition.node_def.add()
                made.CopyFrom(node.definition)
                for each in [each for each in made.attr if each.startswith("_Xla")]:
                    del made.attr[each]
                if node.kind == Kind.CALL and node.inner:
                    self._call(node, made, path, argument)
            for slot, output in enumerate(node.outputs):
                if (*key, slot) in self._overridden:
                    renamed[output.reference] = argument((*key, slot), output.dtype)
        for made in definition.node_def:
            inputs = [renamed.get(item, item) for item in made.input]
            del made.input[:]
            made.input.extend(inputs)
        for result, reference in body.definition.ret.items():
            definition.ret[result] = renamed.get(reference, reference)
        for result, reference in body.definition.control_ret.items():
            definition.control_ret[result] = reference
        self.made[name] = definition
        return name, edges

    def _call(
        self, node: BodyNode, made: Any, path: Path, argument: Callable[[Edge, int], str]
    ) -> None:
        ((step, called),) = node.inner.items()
        name, edges = self.make(called, (*path, (node.name, step)))
        kinds = [each.type for each in self.made[name].signature.input_arg]
        kinds = kinds[len(kinds) - len(edges) :]
        inputs = [item for item in made.input if not item.startswith("^")]
        waits = [item for item in made.input if item.startswith("^")]
        inputs += [argument(edge, kind) for edge, kind in zip(edges, kinds, strict=True)]
        del made.input[:]
        made.input.extend([*inputs, *waits])
        if "f" in made.attr:
            made.attr["f"].func.name = name
            made.attr["Tin"].list.type.extend(kinds)
        else:
            made.op = name

    def _stand_in(
        self,
        node: BodyNode,
        definition: Any,
        path: Path,
        argument: Callable[[Edge, int], str],
        renamed: dict[str, str],
    ) -> None:
        """A node of the same name that gives what is known."""
        known = self._given.get((path, node.name), ())
        held = [at for at in sorted(known) if holdable(dtypes.as_dtype(node.outputs[at].dtype))]
        outputs = [node.outputs[slot] for slot in held]
        given = [argument((path, node.name, slot), node.outputs[slot].dtype) for slot in held]
        made = add_stand_in(definition, node.name, outputs, given, renamed)
        made.input.extend(item for item in node.definition.input if item.startswith("^"))
