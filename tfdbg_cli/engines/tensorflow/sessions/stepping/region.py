"""Which part of a run is to be computed anew when some of its tensors get other values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.engines.tensorflow.sessions.stepping.effects import VARIABLES
from tfdbg_cli.engines.tensorflow.sessions.stepping.layout import Unit, UnitLayout
from tfdbg_cli.engines.tensorflow.sessions.stepping.record import RunRecord

__all__ = ["Change", "Region", "beyond_recall", "find_missing", "find_one", "find_region"]

# Constants up to this many elements are computed where they are needed; larger ones are fed.
_SMALL = 1024


@dataclass(frozen=True)
class Change:
    """In what a run is to differ from the recorded one.

    Attributes:
        values: ``(operation, slot)`` -> the value that units see instead of the computed one.
        until: ``(operation, slot)`` -> the first unit that sees the computed value again; none:
            all see the other one.
        undone: variable -> the units that write to it and whose writes don't count.
        restored: variable -> the first unit that sees it restored.
    """

    values: Mapping[tuple[Any, int], Any] = field(default_factory=dict)
    until: Mapping[tuple[Any, int], int] = field(default_factory=dict)
    undone: Mapping[Any, frozenset[int]] = field(default_factory=dict)
    restored: Mapping[Any, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.values or self.restored)

    @property
    def kind(self) -> tuple[Any, ...]:
        """What makes it as another change, but for the values."""
        others = (self.until, self.undone, self.restored)
        return frozenset(self.values), *(frozenset(each.items()) for each in others)

    def seen(self, edge: tuple[Any, int], unit: int) -> bool:
        """Whether a unit sees another value of a tensor than the computed one."""
        return edge in self.values and unit < self.until.get(edge, unit + 1)

    def skips(self, unit: Unit) -> bool:
        """Whether nothing of what a unit writes is to stay."""
        return bool(unit.writes) and all(
            unit.index in self.undone.get(variable, ()) for variable in unit.writes
        )


@dataclass(frozen=True)
class Region:
    """What is executed once more.

    Attributes:
        changed: the units whose tensors may be others than those recorded.
        included: the units that are executed: those, and what they can't do without.
        variables: the variables that they work on.
        gated: operations whose recorded values are used, but only if they would have run.
    """

    changed: frozenset[int]
    included: frozenset[int]
    variables: frozenset[Any]
    gated: frozenset[Any]


class _Search:
    def __init__(
        self,
        layout: UnitLayout,
        record: RunRecord,
        change: Change,
        stuck: frozenset[Any],
        has_failed: bool,
    ) -> None:
        self._layout, self._record, self._change = layout, record, change
        self._stuck, self._has_failed = stuck, has_failed
        self._ends = frozenset().union(*layout.ends.values())
        self.changed: set[int] = set()
        self.included: set[int] = set()
        self.variables: set[Any] = set()
        self.gated: set[Any] = set()

    # What is different.

    def spread(self) -> None:
        layout, change = self._layout, self._change
        waiting = [
            index
            for edge in change.values
            for index in layout.readers.get(edge, ())
            if change.seen(edge, index)
        ]
        for variable, start in change.restored.items():
            waiting += [
                index
                for index in layout.users[variable]
                if index >= start
                and any(layout.depends(index, on) for on in change.undone.get(variable, ()))
            ]
        if self._has_failed:
            needed = self._needed()
            waiting += [i for i in sorted(needed) if not self._is_recorded(layout.units[i])]
        while waiting:
            unit = layout.units[waiting.pop()]
            if unit.index in self.changed or self.keeps(unit) or change.skips(unit):
                continue
            self.changed.add(unit.index)
            for op in unit.ops:
                for slot in range(len(op.outputs)):
                    edge = (op, slot)
                    waiting += [
                        index
                        for index in layout.readers.get(edge, ())
                        if edge not in layout.fed and not change.seen(edge, index)
                    ]
            for variable in unit.writes:
                waiting += [
                    index for index in layout.users[variable] if layout.depends(index, unit.index)
                ]
        for variable, ends in layout.ends.items():
            writers = layout.writers(variable)
            if not self.changed.isdisjoint(writers) or change.undone.get(variable):
                units = [layout.units[index] for index in ends]
                self.changed |= {
                    each.index for each in units if not (self.keeps(each) or change.skips(each))
                }

    def _needed(self) -> set[int]:
        """The units that the outcome depends on: not those behind overrides."""
        layout, found = self._layout, set[int]()
        end = len(layout.units)
        waiting = [layout.unit_of[e[0]] for e in layout.asked if not self._change.seen(e, end)]
        waiting += [unit for unit in layout.units if unit.writes]
        while waiting:
            unit = waiting.pop()
            if unit.index in found:
                continue
            found.add(unit.index)
            for op in unit.ops:
                data, control = layout.edges[op]
                edges = [each for each in data if each not in layout.fed]
                sources = [each[0] for each in edges if not self._change.seen(each, unit.index)]
                waiting += [layout.unit_of[each] for each in (*sources, *control)]
        return found

    def _is_recorded(self, unit: Unit) -> bool:
        """Whether a failed run got so far as to know the values of a unit."""
        if unit.step.is_feed or (unit.step.unfit and not unit.writes):
            return True
        return not unit.writes and all(
            self._record.place(name) is not None for name in unit.step.outputs
        )

    def keeps(self, unit: Unit) -> bool:
        """Whether a unit isn't executed again, whatever goes into it."""
        if unit.step.is_feed or unit.writes & self._stuck:
            return True
        if unit.keeps not in ("random", "python"):
            return bool(unit.keeps)
        # One that has not been executed yet may be.
        is_sure = not self._has_failed and self._layout.always(unit.ops[0])
        return is_sure or len(unit.ops) > 1 or self._is_recorded(unit)

    # What it takes.

    def collected(self) -> Region:
        """What has changed, and all that it takes to compute that."""
        layout, units = self._layout, self._layout.units
        waiting: list[Unit] = [units[index] for index in self.changed]
        for edge in self._change.values:
            if not layout.certain(*edge):
                waiting += self._gate(edge[0])
        for variable, undone in self._change.undone.items():
            others = [index for index in layout.writers(variable) if index not in undone]
            waiting += [units[index] for index in others if variable not in self._stuck]
        while waiting:
            unit = waiting.pop()
            if unit.index in self.included:
                continue
            if unit.index not in self.changed:
                if self._change.skips(unit):
                    continue
                if self._may_be_gated(unit):
                    if unit.ops[0] not in self.gated:
                        self.gated.add(unit.ops[0])
                        waiting += self._conditions(unit.ops[0])
                    continue
                self._check(unit)
            self.included.add(unit.index)
            self.variables.update(op for op in unit.ops if op.type in VARIABLES)
            waiting += self._needs(unit)
        return Region(
            frozenset(self.changed),
            frozenset(self.included),
            frozenset(self.variables),
            frozenset(self.gated),
        )

    def _may_be_gated(self, unit: Unit) -> bool:
        return (
            len(unit.ops) == 1
            and not self._layout.always(unit.ops[0])
            and self.keeps(unit)
            and self._is_recorded(unit)
        )

    def _check(self, unit: Unit) -> None:
        """Whether a unit may be executed for the sake of others."""
        if unit.step.is_feed:
            name = unit.step.node
            raise UserError(f"The value that was fed for {name} is only in the session.")
        if unit.draws and not self._has_failed:
            raise UserError(
                f"For this {unit.step.node} would have to be computed again, with other random "
                f"numbers ({unit.draws[0]})."
            )
        if self.keeps(unit):
            raise UserError(
                f"For this {unit.step.node} ({unit.step.op_type}) would have to be executed again."
            )

    def _needs(self, unit: Unit) -> list[Unit]:
        layout, units = self._layout, self._layout.units
        found: list[Unit] = []
        for op in unit.ops:
            data, control = layout.edges[op]
            for edge in dict.fromkeys(data):
                if self._change.seen(edge, unit.index) or edge in layout.fed:
                    continue
                source = layout.unit_of[edge[0]]
                is_given = (op, edge) not in layout.live and self._is_given(source, *edge)
                if source is not unit and not is_given:
                    found.append(source)
            found += [layout.unit_of[each] for each in control if not layout.always(each)]
        for state in unit.reads | unit.writes | unit.shares:
            if state.type in VARIABLES:
                self.variables.add(state)
                found.append(layout.unit_of[state])
                if state in self._stuck:
                    continue
            found += [
                units[index]
                for index in layout.users[state]
                if state in units[index].writes | units[index].shares
            ]
        return found

    def _is_given(self, source: Unit, op: Any, slot: int) -> bool:
        """Whether the recorded value of a tensor is fed, rather than computed once more."""
        if source.index in self.changed or not self._layout.certain(op, slot):
            return False
        if source.index in self._ends:
            return False  # what was recorded is what it was in the end
        if op.type == "Const" and (op.outputs[slot].shape.num_elements() or 0) <= _SMALL:
            return False
        return self._record.array(op.outputs[slot]) is not None

    def _gate(self, op: Any) -> list[Unit]:
        """What an overridden tensor that exists in some runs only has to wait for."""
        if op.type.removeprefix("Ref") in ("Switch", "Merge"):
            return [self._layout.unit_of[op]]
        return self._conditions(op)

    def _conditions(self, op: Any) -> list[Unit]:
        """What decides whether an operation runs."""
        data, control = self._layout.edges[op]
        found = [each for each, slot in data if not self._layout.certain(each, slot)]
        found += [each for each in control if not self._layout.always(each)]
        return [self._layout.unit_of[each] for each in found]


def beyond_recall(layout: UnitLayout, stuck: frozenset[Any]) -> frozenset[int]:
    """The units that couldn't be computed a second time with the same result.

    Args:
        layout: the units of the run.
        stuck: the variables that can't be set.
    """
    found: set[int] = set()
    tied: set[Any] = set()  # state of the run that such units work on
    while True:
        before = len(found)
        for unit in layout.units:
            edges = (edge for op in unit.ops for edge in layout.edges[op].data)
            if (
                unit.keeps
                or unit.draws
                or (unit.reads | unit.writes) & stuck
                or unit.shares & tied
                # What no array can hold has to be made again for whoever uses it.
                or any(
                    layout.unit_of[op].index in found
                    for op, slot in edges
                    if not layout.certain(op, slot)
                )
            ):
                found.add(unit.index)
                tied |= unit.shares
        if len(found) == before:
            return frozenset(found)


def find_one(layout: UnitLayout, record: RunRecord, unit: Unit) -> Region:
    """What it takes to compute what one unit makes, which is not recorded.

    Args:
        layout: the units of the run.
        record: what is recorded.
        unit: it can be computed a second time.

    Raises:
        UserError: something would have to be executed again that can't be.
    """
    search = _Search(layout, record, Change(), frozenset(), False)
    search.changed.add(unit.index)
    return search.collected()


def find_missing(layout: UnitLayout, record: RunRecord, lost: frozenset[int]) -> Region:
    """What of a run is not recorded and can be computed from what is.

    Args:
        layout: the units of the run.
        record: what is recorded.
        lost: the units that can't be computed a second time.

    Raises:
        UserError: something would have to be executed again that can't be.
    """
    search = _Search(layout, record, Change(), frozenset(), False)
    unknown: set[int] = set()
    for unit in layout.units:
        edges = [(op, slot) for op in unit.ops for slot in range(len(op.outputs))]
        missing = [
            edge
            for edge in edges
            if layout.shown(*edge) and record.place(edge[0].outputs[edge[1]].name) is None
        ]
        if unit.index in lost:
            if missing or not all(layout.certain(*edge) for edge in edges):
                unknown.add(unit.index)
        elif any(
            layout.unit_of[op].index in unknown and record.place(op.outputs[slot].name) is None
            for each in unit.ops
            for op, slot in layout.edges[each].data
            if (op, slot) not in layout.fed
        ):
            unknown.add(unit.index)
        elif missing:
            search.changed.add(unit.index)
    return search.collected()


def find_region(
    layout: UnitLayout,
    record: RunRecord,
    change: Change,
    stuck: frozenset[Any] = frozenset(),
    has_failed: bool = False,
) -> Region:
    """What a change makes it necessary to compute anew.

    Operations that must not be executed again keep what they gave; see `Effect.keeps`.

    Args:
        layout: the units of the run.
        record: the recorded run.
        change: in what the run is to be different.
        stuck: the variables that can't be set; what writes to them isn't executed again.
        has_failed: the recorded run has failed: whatever isn't known of it belongs to the region.

    Raises:
        UserError: something would have to be executed again that can't be.
    """
    search = _Search(layout, record, change, stuck, has_failed)
    search.spread()
    return search.collected()
