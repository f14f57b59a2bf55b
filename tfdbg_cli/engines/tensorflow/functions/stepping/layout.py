"""The steps of one call of a traced function, and what depends on what among them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple

from tensorflow.core.framework import types_pb2

from tfdbg_cli.dumps.graph import Node
from tfdbg_cli.engines.tensorflow.functions.definitions import BodyNode, Kind
from tfdbg_cli.engines.tensorflow.functions.effects import (
    is_foreign,
    is_foreign_inside,
    is_variable_op,
)
from tfdbg_cli.engines.tensorflow.functions.inlined import InlinedNames, Path, through
from tfdbg_cli.engines.tensorflow.functions.twins.layouts import Layout, LayoutItem
from tfdbg_cli.engines.tensorflow.functions.variables import is_writing
from tfdbg_cli.engines.tensorflow.shared.optimized import PASSING
from tfdbg_cli.stepping.stepper import Step

__all__ = ["CallLayout", "Source", "Unit"]

#: Of a variable that is none of the call's arguments.
_UNKNOWN = -1


class Source(NamedTuple):
    """Where a tensor is made.

    Attributes:
        path: that leads to the body; of an argument of the call empty.
        node: the name in it; of an argument empty.
        slot: of an argument, its number.
        dtype: ``DataType`` enum.
    """

    path: Path
    node: str
    slot: int
    dtype: int


class Unit(NamedTuple):
    """What one step does.

    Attributes:
        number: its place.
        step: as the user sees it.
        path: that leads to the body.
        node: of the body; ``None``: an argument of the call.
        inputs: all tensors that go into it, those inside of a loop or branch included.
        uses: the variables that it reads or writes, as numbers of the call's arguments.
        writes: those that it may write.
        keeps: it can't be done again.
    """

    number: int
    step: Step
    path: Path
    node: BodyNode | None
    inputs: frozenset[str] = frozenset()
    uses: frozenset[int] = frozenset()
    writes: frozenset[int] = frozenset()
    keeps: bool = False


class CallLayout:
    """The units of one call.

    Args:
        layout: of the function's twin.
        inlined: gives the nodes their names.
        arguments: per argument of the call the tensor that it is; handles have names, too.
        nodes: by their names.
        is_fed: per argument whether it is a value that nothing in the run has made.

    Attributes:
        units: in the order in which they are done.
        steps: those of the units.
        sources: tensor -> where it is made, if it can be overridden.
        tensors: all that leave a step.
        place: node -> index of its unit, those inside included.
        refusal: why nothing can be overridden; empty: it can.
    """

    def __init__(
        self,
        layout: Layout,
        inlined: InlinedNames,
        arguments: Sequence[str],
        nodes: Mapping[str, Node],
        is_fed: Sequence[bool],
    ) -> None:
        self._inlined, self._nodes = inlined, nodes
        self.arguments = tuple(arguments)
        self.units: list[Unit] = []
        self.sources: dict[str, Source] = {}
        self.refusal = ""
        signature = layout.body.definition.signature.input_arg
        for at, (name, is_value) in enumerate(zip(arguments, is_fed, strict=True)):
            if not is_value or name in self.sources:
                continue
            self.sources[name] = Source((), "", at, signature[at].type)
            node = name.rpartition(":")[0]
            step = Step(node, "Input", (), (name,), (node,), is_feed=True)
            self.units.append(Unit(len(self.units), step, (), None))
        is_handle = [each.type == types_pb2.DT_RESOURCE for each in signature]
        handles = {("", at): at for at, each in enumerate(is_handle) if each}
        self._place(layout, (), handles)
        self.steps = tuple(unit.step for unit in self.units)
        self.tensors = {name for step in self.steps for name in step.outputs}
        self.place = {name: unit.number for unit in self.units for name in unit.step.members}
        self._readers: dict[str, list[int]] = {}
        for unit in self.units:
            for name in unit.inputs:
                self._readers.setdefault(name, []).append(unit.number)

    def _place(
        self, layout: Layout, path: Path, handles: Mapping[tuple[str, int], int]
    ) -> dict[tuple[str, int], int]:
        """Make the units of a body; which tensors in it are handles of variables."""
        known = dict(handles)
        for item in layout.items:
            node = item.node
            known.update(_passed(item, known))
            if node.name not in layout.body.live or node.op == "NoOp":
                continue
            if node.kind == Kind.CALL and item.inner:
                ((step, (_, inner)),) = item.inner.items()
                inside = _handed(node.inputs, known)
                found = self._place(inner, (*path, (node.name, step)), inside)
                for slot, source in enumerate(inner.body.returns):
                    if source in found:
                        known[node.name, slot] = found[source]
                continue
            self._unit(path, node, item.inner, known)
        return known

    def _unit(
        self,
        path: Path,
        node: BodyNode,
        inner: Mapping[str, tuple[int, Layout]],
        handles: Mapping[tuple[str, int], int],
    ) -> None:
        name = self._inlined.names[path][node.name]
        found = self._nodes[name]
        members, inputs = [name], set(found.inputs)
        uses, writes = _variables(node, handles)
        given = node.inputs[1:] if node.kind == Kind.BRANCH else node.inputs
        keeps = is_foreign(node)
        for way, (_, layout) in inner.items():
            inside = (*path, (node.name, way))
            for member in self._members(layout, inside):
                members.append(member)
                inputs.update(self._nodes[member].inputs)
            more = _variables_inside(layout, _handed(given, handles))
            uses, writes = uses | more[0], writes | more[1]
            keeps = keeps or is_foreign_inside(layout.body)
        if keeps and node.kind and not self.refusal:
            what = "can't be looked into" if not inner else "reads or writes state that exists once"
            self.refusal = f"{name} {what}"
        elif _UNKNOWN in uses and not self.refusal:
            self.refusal = f"{name} works on a variable that isn't the function's argument"
        own = set(members)
        outside = {each for each in inputs if each.rpartition(":")[0] not in own}
        outputs = tuple(f"{name}:{slot}" for slot in range(len(node.outputs)))
        for slot, output in enumerate(node.outputs):
            self.sources[outputs[slot]] = Source(path, node.name, slot, output.dtype)
        read = tuple(each for each in found.inputs if each in outside)
        step = Step(name, node.op, read, outputs, tuple(members))
        self.units.append(
            Unit(len(self.units), step, path, node, frozenset(outside), uses, writes, keeps)
        )

    def _members(self, layout: Layout, path: Path) -> Iterator[str]:
        yield from (name for name in self._inlined.names[path].values() if name in self._nodes)
        for item in layout.items:
            for step, (_, inner) in item.inner.items():
                yield from self._members(inner, (*path, (item.node.name, step)))

    def index_of(self, node: str) -> int:
        """The index of a unit by the name in its function; the number of units: not known."""
        for unit in self.units:
            if unit.node is not None and unit.node.name == node:
                return unit.number
        return len(self.units)

    def readers(self, tensor_name: str) -> Sequence[int]:
        """The indices of the units that a tensor goes into."""
        return self._readers.get(tensor_name, ())

    def writers(self, variable: int) -> list[int]:
        """The indices of the units that may write a variable."""
        return [unit.number for unit in self.units if variable in unit.writes]

    def variable_name(self, variable: int) -> str:
        """The name of a variable's node."""
        return self.arguments[variable].rpartition(":")[0]

    @property
    def written(self) -> Sequence[int]:
        """The variables that the call may write."""
        return sorted({variable for unit in self.units for variable in unit.writes})

    def changed(
        self, overridden: Iterable[str], restored: Mapping[int, int]
    ) -> tuple[Set[int], Set[int]]:
        """What depends on overrides.

        Args:
            overridden: tensors.
            restored: variable -> the first unit that sees it restored.

        Returns:
            The indices of units, and variables.
        """
        tensors, variables, units = set(overridden), set(restored), set()
        for unit in self.units:
            is_reached = any(
                each in variables and unit.number >= restored.get(each, 0) for each in unit.uses
            )
            if is_reached or not tensors.isdisjoint(unit.inputs):
                units.add(unit.number)
                tensors.update(unit.step.outputs)
                variables |= unit.writes
        return units, variables


def _handed(
    given: Sequence[tuple[str, int]], known: Mapping[tuple[str, int], int]
) -> dict[tuple[str, int], int]:
    """The arguments of the call among those of a function that is called in it."""
    return {("", at): known[source] for at, source in enumerate(given) if source in known}


def _variables(
    node: Any, handles: Mapping[tuple[str, int], int]
) -> tuple[frozenset[int], frozenset[int]]:
    if not is_variable_op(node.op):
        return frozenset(), frozenset()
    found = frozenset(handles[source] for source in node.inputs if source in handles)
    found = found or frozenset({_UNKNOWN})
    return found, found if is_writing(node.op) else frozenset()


def _variables_inside(
    layout: Layout, handles: Mapping[tuple[str, int], int]
) -> tuple[frozenset[int], frozenset[int]]:
    uses: frozenset[int] = frozenset()
    writes: frozenset[int] = frozenset()
    known = dict(handles)
    for item in layout.items:
        known.update(_passed(item, known))
        found = [_variables(item.node, known)]
        given = item.node.inputs[1:] if item.node.kind == Kind.BRANCH else item.node.inputs
        inside = _handed(given, known)
        found += [_variables_inside(inner, inside) for _, inner in item.inner.values()]
        for one, other in found:
            uses, writes = uses | one, writes | other
    return uses, writes


def _passed(
    item: LayoutItem, known: Mapping[tuple[str, int], int]
) -> Iterator[tuple[tuple[str, int], int]]:
    """The handles that a node hands on as they are."""
    node = item.node
    if node.op in PASSING and node.inputs and node.inputs[0] in known:
        yield (node.name, 0), known[node.inputs[0]]
    elif node.kind == Kind.LOOP:
        for _, inner in item.inner.values():
            for at, source in enumerate(inner.body.returns):
                is_same = through(inner.body, source) == ("", at)
                if is_same and at < len(node.inputs) and node.inputs[at] in known:
                    yield (node.name, at), known[node.inputs[at]]
