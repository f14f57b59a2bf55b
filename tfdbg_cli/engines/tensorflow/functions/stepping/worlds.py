"""Calls as they would have been with other values, or without some of what they wrote."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from tensorflow.python.framework import constant_op, dtypes, errors

from tfdbg_cli.dumps.dump import Datum
from tfdbg_cli.dumps.graph import Graph
from tfdbg_cli.engines.kit.replayed import StepData
from tfdbg_cli.engines.tensorflow.functions.definitions import plain_text
from tfdbg_cli.engines.tensorflow.functions.held import BodyTensor, HeldTensor, values_of
from tfdbg_cli.engines.tensorflow.functions.inlined import InlinedNames, Path
from tfdbg_cli.engines.tensorflow.functions.level import failing_node
from tfdbg_cli.engines.tensorflow.functions.library import KnownFunction, find_function, lent
from tfdbg_cli.engines.tensorflow.functions.private import call_by_name, reword
from tfdbg_cli.engines.tensorflow.functions.stepping.layout import CallLayout
from tfdbg_cli.engines.tensorflow.functions.stepping.records import by_node
from tfdbg_cli.engines.tensorflow.functions.stepping.replay import Edge, Replay, make_replay
from tfdbg_cli.engines.tensorflow.functions.stepping.state import CallVariables
from tfdbg_cli.engines.tensorflow.functions.twins.again import make_before
from tfdbg_cli.engines.tensorflow.functions.variables import quietly, variable_values

__all__ = ["Change", "MadeCall", "World", "Worlds", "tensor_of"]

_MOST = 4  # are kept
_Node = tuple[Path, str]


class MadeCall(NamedTuple):
    """A call that was made.

    Attributes:
        known: the function.
        arguments: tensors.
        results: tensors; of a call that has failed none.
        error: that it has raised.
        failed: the node that has raised it, by its name in the function.
        layout: its steps.
        inlined: the names of its nodes.
        graph: of the run.
        data: its tensors.
        given: what its stateful nodes gave, tensors by path, node and slot.
        variables: as they were before it.
    """

    known: KnownFunction
    arguments: Sequence[Any]
    results: Sequence[Any]
    error: BaseException | None
    failed: str
    layout: CallLayout
    inlined: InlinedNames
    graph: Graph
    data: Sequence[Datum]
    given: Mapping[Edge, Any]
    variables: CallVariables


class Change(NamedTuple):
    """What a call is to be.

    Attributes:
        overrides: tensor -> its value.
        undone: variable -> the indices of the units whose writes to it don't count.
        since: variable -> the first unit that sees it restored.
        kept: what nodes gave that are not executed again for that.
    """

    overrides: Mapping[str, Any] = MappingProxyType({})
    undone: Mapping[int, frozenset[int]] = MappingProxyType({})
    since: Mapping[int, int] = MappingProxyType({})
    kept: Mapping[Edge, Any] = MappingProxyType({})

    def __bool__(self) -> bool:
        return bool(self.overrides or self.undone)


class World(NamedTuple):
    """A call as it would have been.

    Attributes:
        changed: the indices of the units that depend on what is different.
        variables: those that do.
        data: the tensors.
        tensors: of the same, those that may be given to another one.
        results: of the call.
        outcome: variable -> its value afterwards.
        error: that it raises.
        failed_at: the index of the unit that raises it.
    """

    changed: frozenset[int]
    variables: frozenset[int]
    data: StepData
    tensors: Mapping[Edge, Any]
    results: Sequence[Any]
    outcome: Mapping[int, Any]
    error: BaseException | None
    failed_at: int


class Worlds:
    """Makes a call once more, each time as it is to be.

    Args:
        call: as it was made.
    """

    def __init__(self, call: MadeCall) -> None:
        self._call, self._layout = call, call.layout
        self._known: dict[int, tuple[Change, World]] = {}

    def of(self, change: Change) -> World:
        """The call with what is different in it."""
        found = self._known.get(id(change))
        if found is None:
            if len(self._known) >= _MOST:
                self._known.clear()
            found = self._known[id(change)] = change, self._made(change)
        return found[1]

    def _made(self, change: Change) -> World:
        """Make the call once more."""
        call, layout = self._call, self._layout
        units, variables = layout.changed(change.overrides, change.since)
        body, edges = call.known.body, {}
        arguments = list(call.arguments)
        for name, array in change.overrides.items():
            source = layout.sources[name]
            tensor = tensor_of(array, source.dtype)
            if source.node:
                edges[source.path, source.node, source.slot] = tensor
            for at, argument in enumerate(layout.arguments):
                if argument == name:
                    arguments[at] = tensor
        given: dict[_Node, set[int]] = {}
        for path, node, slot in (*call.given, *change.kept):
            if self._is_given(path, node) or (path, node, slot) in change.kept:
                given.setdefault((path, node), set()).add(slot)
        undone = set()
        for indices in change.undone.values():
            for at in indices:
                unit = layout.units[at]
                assert unit.node is not None
                undone.add((unit.path, unit.node.name))
        replay = make_replay(body, find_function, edges, given, undone)
        values = {**call.given, **change.kept, **edges}
        behind = [values[edge] for edge in replay.given]
        plain = len(body.definition.signature.output_arg)
        used = sorted({each for unit in layout.units for each in unit.uses})
        error: BaseException | None = None
        failed_at, made, twin = -1, [], replay.twin
        with quietly(), call.variables.others(used) as handles, lent(twin):
            every = [*(handles.get(at, each) for at, each in enumerate(arguments)), *behind]
            try:
                made = list(call_by_name(twin.name, every, plain + twin.added))
            except errors.OpError as raised:
                reword(raised, plain_text)
                error = raised
                failed_at = layout.index_of(failing_node(raised))
            outcome = variable_values(handles)
            seen = list(values_of(twin.layout, made[plain:], every)) if error is None else []
        if error is not None:
            seen = self._before(replay, every, failed_at)
        held = set(given)
        tensors = {
            (each.path, each.node, each.slot): each.value.tensor()
            for each in seen
            if isinstance(each.value, HeldTensor) and (each.path, each.node) not in held
        }
        data = by_node(layout.place, self._as_data(seen, held))
        return World(
            frozenset(units),
            frozenset(variables),
            data,
            tensors,
            made[:plain],
            outcome,
            error,
            failed_at,
        )

    def _is_given(self, path: Path, node: str) -> bool:
        name = self._call.inlined.names[path].get(node, "")
        at = self._layout.place.get(name)
        return at is not None and self._layout.units[at].keeps

    def _before(self, replay: Replay, arguments: Sequence[Any], failed_at: int) -> list[BodyTensor]:
        """What a call that fails has made before."""
        if failed_at >= len(self._layout.units):
            return []
        unit = self._layout.units[failed_at]
        if unit.path or unit.node is None:
            return []
        twin = make_before(replay.body, replay.find, unit.node.name)
        with quietly(), lent(twin):
            try:
                made = call_by_name(twin.name, arguments, twin.added)
            except errors.OpError:
                return []
            return list(values_of(twin.layout, made, arguments))

    def _as_data(self, seen: Iterable[BodyTensor], held: set[_Node]) -> Iterable[Datum]:
        names = self._call.inlined.names
        for each in seen:
            name = names.get(each.path, {}).get(each.node, "")
            if not name or (each.path, each.node) in held:
                continue
            yield Datum(
                name,
                each.slot,
                each.value.load,
                timestamp=0,
                dtype=each.value.dtype if each.value.shape is not None else None,
                shape=each.value.shape,
                is_view=each.is_view,
            )


def tensor_of(array: Any, dtype: int) -> Any:
    """An array as a tensor of a type."""
    with quietly():
        return constant_op.constant(array, dtypes.as_dtype(dtype))
