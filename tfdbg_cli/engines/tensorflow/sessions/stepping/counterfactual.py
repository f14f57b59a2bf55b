"""The recorded run of a stepper, and the runs that it would have been with other values."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from tfdbg_cli.common.errors import UserError, one_line
from tfdbg_cli.common.interpreter.program_signals import pass_on
from tfdbg_cli.dumps.dump import Datum
from tfdbg_cli.dumps.proto.graph_def import FUNCTIONAL
from tfdbg_cli.engines.base import Capture, Watch
from tfdbg_cli.engines.tensorflow.sessions import errors
from tfdbg_cli.engines.tensorflow.sessions.stepping.effects import VARIABLES
from tfdbg_cli.engines.tensorflow.sessions.stepping.layout import Unit, UnitLayout
from tfdbg_cli.engines.tensorflow.sessions.stepping.record import RunRecord
from tfdbg_cli.engines.tensorflow.sessions.stepping.region import (
    Change,
    Region,
    beyond_recall,
    find_missing,
    find_one,
    find_region,
)
from tfdbg_cli.engines.tensorflow.sessions.stepping.scratch import Result, Scratch
from tfdbg_cli.engines.tensorflow.sessions.stepping.variables import VariableDoors
from tfdbg_cli.engines.tensorflow.shared import guard
from tfdbg_cli.engines.tensorflow.shared.private import config_of, functions_of

__all__ = ["Counterfactual", "Counterfactuals"]

# What is kept with a layout.
_PROSPECTS = "prospects"
_COMPLETION = "completion"
_ALONE = "alone"
_CHANGED = "changed"
# Each has a session of its own; who asks for more of them gets all tensors.
_MOST_ALONE = 4
_MOST_CHANGED = 4


class Counterfactual(NamedTuple):
    """What comes of a run that is different from the recorded one.

    Attributes:
        record: the tensors of what was computed anew.
        variables: the variables that this has worked on, as it has left them.
        error: what it has raised.
        failed_at: the step that has raised it; the number of steps where none has.
    """

    record: RunRecord
    variables: Mapping[Any, Any]
    error: BaseException | None
    failed_at: int


class Completion(NamedTuple):
    """What computes the tensors that the real runs of a layout don't record.

    Attributes:
        names: of the tensors that they do.
        region: what is computed.
        scratch: does it.
    """

    names: frozenset[str]
    region: Region
    scratch: Scratch


class Counterfactuals:
    """Makes the run once, and whatever it would have been as often as somebody asks.

    The runtime's optimizer leaves alone what is fetched and may rewrite the rest: for the same
    bits as in the plain run, the run fetches of its intermediate tensors only those that can't be
    computed a second time (random numbers, what Python functions and queues give). The others are
    computed from these when somebody looks.

    Args:
        adapter: of the session.
        layout: the steps of the run.
        arguments: those of ``Session.run``.

    Attributes:
        layout: as above.
        capture: the run itself; its dump has a part of the tensors only.
        initial: variable -> its value before the run, for those that it may write.
        stuck: the variables that it writes and that can't be set to something else.
        failed_at: the step that has failed; the number of steps where none has.
    """

    def __init__(
        self,
        adapter: Any,
        layout: UnitLayout,
        arguments: tuple[Any, Any, Any, Any],
    ) -> None:
        self._adapter, self.layout = adapter, layout
        known = layout.known.get(_PROSPECTS)
        if known is None:
            known = layout.known[_PROSPECTS] = Prospects(layout, adapter.framework_graph)
        self._prospects: Prospects = known
        self.stuck = known.stuck
        run = guard.runner(adapter.session)
        with guard.bypass():
            self.initial = self.read(layout.variables)
            self.capture: Capture = adapter.debug_with(
                run, *arguments, Watch(), unwanted=self._is_unwanted, known=self.initial
            )
        assert self.capture.dump is not None
        self._is_complete = False
        # Tensors that were computed without all others.
        self._alone: dict[str, RunRecord | None] = {}
        error = self.capture.error
        self.failed_at = len(layout.units)
        if error is not None and self.capture.late is None:
            self.failed_at = self._place(error, self._recorded, range(len(layout.units)))

    def _is_unwanted(self, node: str, slot: int) -> bool:
        op = self._adapter.framework_graph.get_operation_by_name(node)
        unit = self.layout.unit_of[op]
        if not self.layout.shown(op, slot):
            return False
        # What is read of a variable now may be another value later.
        is_read = bool(unit.reads) and not self._uses_inside(unit)
        return unit.index not in self._prospects.lost and not is_read

    def _uses_inside(self, unit: Unit) -> bool:
        """Whether a loop or a function reads variables in its body."""
        return bool(unit.reads) and unit.index in self._prospects.reading_inside

    @functools.cached_property
    def _recorded(self) -> RunRecord:
        assert self.capture.dump is not None
        return RunRecord(self.layout, self.capture.dump.data())

    def read(self, variables: Iterable[Any]) -> dict[Any, Any]:
        """The values of variables of the session, in memory of their own; of those that have one.

        To be called where `guard.bypass` holds.
        """
        return self._prospects.doors.read(self._adapter.session, variables)

    def write(self, values: Mapping[Any, Any]) -> None:
        """Set variables of the session; see `read`.

        Raises:
            OpError: the session can't; e.g. it is closed.
        """
        self._prospects.doors.write(self._adapter.session, values)

    def settle(self) -> None:
        """Get ready for the program to go on: variables will have other values then."""
        inside = self._prospects.reading_inside
        used = {variable for index in inside for variable in self.layout.units[index].reads}
        if not self._is_complete and used - self.initial.keys():
            with guard.bypass():
                self.initial |= self.read(used - self.initial.keys())

    @property
    def has_failed(self) -> bool:
        """Whether the runtime hasn't come to the end of the run."""
        return self.failed_at < len(self.layout.units)

    @property
    def record(self) -> RunRecord:
        """All tensors of the run."""
        if not self._is_complete:
            self._is_complete = True
            self._complete()
        return self._recorded

    def record_of(self, tensor_name: str) -> RunRecord:
        """A record that has a tensor, if there is one: not more is computed than it takes."""
        if self._is_complete or self._recorded.place(tensor_name) is not None:
            return self._recorded
        if tensor_name not in self._alone:
            self._alone[tensor_name] = self._compute_alone(tensor_name)
        return self._alone[tensor_name] or self.record

    def _complete(self) -> None:
        assert self.capture.dump is not None
        try:
            result, region = self._missing()
        except UserError as error:
            self.capture.dump.warnings.append(f"Tensors are missing: {error.message}")
            return
        except Exception as bug:  # the run has its result, whatever happens to the dump
            self.capture.dump.warnings.append(f"Tensors are missing: {one_line(bug)}")
            return
        if result.error is not None and not self.has_failed:
            self.capture.dump.warnings.append(f"Tensors are missing: {errors.reason(result.error)}")
        self._recorded.take_over(RunRecord(self.layout, result.data), region.changed)

    def _missing(self) -> tuple[Result, Region]:
        """What of the run was not recorded, computed, and where it belongs."""
        session, graph = self._adapter.session, self._adapter.framework_graph
        known, names = self.layout.known.get(_COMPLETION), frozenset(self._recorded.names)
        if known is None or known.names != names or self.has_failed:
            region = find_missing(self.layout, self._recorded, self._prospects.lost)
            scratch = None if self.has_failed else self._scratch(Change(), region)
            if scratch is None or not scratch.lasts:
                return self._compute(Change(), region, self.failed_at)[0], region
            known = self.layout.known[_COMPLETION] = Completion(names, region, scratch)
        initial = self._initial(known.region)
        result = known.scratch.again(
            self._recorded, initial, Change(), graph, config_of(session), type(self._adapter)
        )
        if result.error is not None:
            del self.layout.known[_COMPLETION]
            result = self._compute(Change(), known.region, self.failed_at)[0]
        return result, known.region

    def _compute_alone(self, tensor_name: str) -> RunRecord | None:
        """One tensor that the run hasn't recorded, if it takes nothing but plain operations."""
        if self.has_failed:
            return None
        known = self.layout.known.setdefault(_ALONE, {})
        if tensor_name not in known and len(known) < _MOST_ALONE:
            known[tensor_name] = self._prospects.alone(tensor_name, self._recorded, self._scratch)
        scratch: Scratch | None = known.get(tensor_name)
        if scratch is None:
            return None
        session, graph = self._adapter.session, self._adapter.framework_graph
        try:
            value = scratch.value(tensor_name, self._recorded, graph, config_of(session))
        except Exception as error:  # it will be said of the complete record
            pass_on(error)
            known[tensor_name] = None
            return None
        tensor = self.layout.tensors[tensor_name]
        datum = Datum(tensor.op.name, tensor.value_index, lambda: value)
        return RunRecord(self.layout, [datum])

    # What would have been.

    def region(self, change: Change) -> Region:
        """What a change makes it necessary to compute anew.

        Raises:
            UserError: that isn't possible.
        """
        region = find_region(self.layout, self.record, change, self.stuck, self.has_failed)
        for variable in region.variables:
            if not self._prospects.doors.can_read(variable):
                raise UserError(
                    f"This needs the value of the variable {variable.name}, and the graph has no "
                    "operation that reads it."
                )
        return region

    def world(self, change: Change, region: Region) -> Counterfactual:
        """Compute it."""
        result, failed_at = self._compute(change, region, len(self.layout.units))
        error = result.error
        if error is not None:
            error = _of_the_program(error, self._adapter.framework_graph)
        record = RunRecord(self.layout, result.data)
        return Counterfactual(record, result.variables, error, failed_at)

    def _compute(self, change: Change, region: Region, end: int) -> tuple[Result, int]:
        """Compute it, but nothing from a step on.

        Of a run that fails nothing is left but the error: what comes before the failing step is
        computed once more without it.

        Returns:
            What came of it, and the step that has failed; ``end``: none.
        """
        result = self._execute(change, _before(self.layout, region, end))
        error = result.error
        while result.error is not None:
            record, error = RunRecord(self.layout, result.data), result.error
            failed_at = self._place(error, record, sorted(region.changed))
            if failed_at >= end:
                break
            end = failed_at
            region = _before(self.layout, region, end, without="python")
            result = self._execute(change, region)
        return result._replace(error=error), end

    def _execute(self, change: Change, region: Region) -> Result:
        session, graph, kind = (
            self._adapter.session,
            self._adapter.framework_graph,
            type(self._adapter),
        )
        key = region, change.kind
        known: dict[Any, Scratch] = self.layout.known.setdefault(_CHANGED, {})
        with guard.bypass():
            scratch = known.pop(key, None)
            if scratch is None:
                scratch = self._scratch(change, region)
                if self.has_failed or not scratch.lasts:
                    return scratch.run(graph, config_of(session), kind)
            result = scratch.again(
                self._recorded, self._initial(region), change, graph, config_of(session), kind
            )
            if result.error is None:
                known[key] = scratch
                if len(known) > _MOST_CHANGED:
                    del known[next(iter(known))]
            return result

    def _scratch(self, change: Change, region: Region) -> Scratch:
        return Scratch(
            self.layout,
            self._recorded,
            change,
            region,
            self._initial(region),
            bool(self._adapter.session.sess_str),
        )

    def _initial(self, region: Region) -> dict[Any, Any]:
        """What the variables of a region were before the run."""
        others = region.variables - set(self.layout.variables) - self.initial.keys()
        with guard.bypass():
            return self.initial | self.read(others)

    def _place(self, error: BaseException, record: RunRecord, candidates: Any) -> int:
        """The step that has failed."""
        described = self._adapter.describe_error(error)
        name = described.op_name if described is not None else ""
        places = self.layout.places
        while name and name not in places:
            name = name.rpartition("/")[0]
        if name:
            return places[name]
        steps = self.layout.steps
        for index in candidates:
            if any(record.place(made) is None for made in steps[index].outputs):
                return int(index)
        return len(steps) - 1

    def left_by(self, change: Change) -> dict[Any, Any]:
        """What a changed run makes of the session's variables; of those that the change concerns.

        Raises:
            UserError: it can't be computed.
        """
        region = self.region(change)
        return self.outcome(change, region, self.world(change, region))

    def outcome(self, change: Change, region: Region, world: Counterfactual) -> dict[Any, Any]:
        """What the session's variables are to be set to."""
        values: dict[Any, Any] = {}
        for variable in self.layout.variables:
            if variable in self.stuck:
                continue
            writers = self.layout.writers(variable)
            undone = change.undone.get(variable, frozenset())
            if undone.issuperset(writers):
                values[variable] = self.initial[variable]
            elif (undone or not region.changed.isdisjoint(writers)) and (
                variable in world.variables  # else it never got a value
            ):
                values[variable] = world.variables[variable]
        return values


class Prospects:
    """What is known of the runs of a layout before they are made.

    Args:
        layout: the steps of the run.
        graph: of the session.

    Attributes:
        doors: to the variables that the run uses.
        stuck, lost: as in `Counterfactuals` and `beyond_recall`.
        reading_inside: the units of loops and functions that read variables in their bodies.
    """

    def __init__(self, layout: UnitLayout, graph: Any) -> None:
        self._layout = layout
        self._calls = FUNCTIONAL | functions_of(graph).keys()
        self.doors = VariableDoors(state for state in layout.users if state.type in VARIABLES)
        self.stuck = frozenset(_stuck(layout, self.doors))
        self.lost = beyond_recall(layout, self.stuck)
        self.reading_inside = frozenset(
            unit.index
            for unit in layout.units
            if unit.reads and (len(unit.ops) > 1 or self._calls_function(unit))
        )

    def _calls_function(self, unit: Unit) -> bool:
        return unit.step.op_type in self._calls

    def alone(
        self, tensor_name: str, record: RunRecord, make: Callable[[Change, Region], Scratch]
    ) -> Scratch | None:
        """What computes a tensor of plain operations; ``None``: it takes others, too."""
        layout = self._layout
        tensor = layout.tensors.get(tensor_name)
        unit = layout.unit_of.get(tensor.op) if tensor is not None else None
        if tensor is None or unit is None or unit.index in self.lost:
            return None
        if not layout.certain(tensor.op, tensor.value_index):
            return None
        try:
            region = find_one(layout, record, unit)
            is_plain = not (region.gated or region.variables) and all(
                self._is_plain(layout.units[index]) for index in region.included
            )
            return make(Change(), region) if is_plain else None
        except UserError:
            return None

    def _is_plain(self, unit: Unit) -> bool:
        state = unit.reads or unit.writes or unit.shares or unit.keeps or unit.draws
        if state or len(unit.ops) != 1 or self._calls_function(unit):
            return False
        op = unit.ops[0]
        return all(self._layout.certain(op, slot) for slot in range(len(op.outputs)))


def _stuck(layout: UnitLayout, doors: VariableDoors) -> Iterator[Any]:
    """The variables that overrides can't reach: they can't be set, or not computed again."""
    for variable in layout.variables:
        units = [layout.units[index] for index in layout.users[variable]]
        if (
            not doors.can_read(variable)
            or not doors.can_write(variable)
            or any(unit.keeps for unit in units if variable in unit.writes)
        ):
            yield variable


def _before(layout: UnitLayout, region: Region, end: int, without: str = "") -> Region:
    """A region without a step and those after it.

    Args:
        without: what a unit `Unit.keeps` that is left out as well, with all that depends on it.
    """
    included: set[int] = set()
    left_out: set[int] = set()
    for index in sorted(region.included):
        unit = layout.units[index]
        is_kept = bool(without) and unit.keeps == without
        if index >= end or is_kept or any(s.index in left_out for s in layout.sources(unit)):
            left_out.add(index)
        else:
            included.add(index)
    return dataclasses.replace(region, included=frozenset(included))


def _of_the_program(error: BaseException, graph: Any) -> BaseException:
    """An error as the program's own graph would have raised it."""
    described = errors.describe(error)
    if described is None:
        return error
    try:
        op = graph.get_operation_by_name(described.op_name)
    except (KeyError, ValueError):
        return error
    message = f"{described.message}\n\t [[{{{{node {op.name}}}}}]]"
    return type(error)(op.node_def, op, message)
