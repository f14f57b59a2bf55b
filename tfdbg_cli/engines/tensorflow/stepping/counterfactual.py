"""The recorded run of a stepper, and the runs that it would have been with other values."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tensorflow.python.client import session as tf_session

from tfdbg_cli.common.errors import UserError, one_line
from tfdbg_cli.dumps.proto.graph_def import FUNCTIONAL
from tfdbg_cli.engines.base import Capture, Watch
from tfdbg_cli.engines.tensorflow.private import config_of, functions_of
from tfdbg_cli.engines.tensorflow.sessions import errors, guard
from tfdbg_cli.engines.tensorflow.stepping.effects import VARIABLES
from tfdbg_cli.engines.tensorflow.stepping.layout import Unit, UnitLayout
from tfdbg_cli.engines.tensorflow.stepping.record import RunRecord
from tfdbg_cli.engines.tensorflow.stepping.region import (
    Change,
    Region,
    beyond_recall,
    find_missing,
    find_region,
)
from tfdbg_cli.engines.tensorflow.stepping.scratch import Result, Scratch
from tfdbg_cli.engines.tensorflow.stepping.variables import VariableDoors

__all__ = ["Counterfactual", "Counterfactuals"]


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
        doors: to the variables that the run uses.
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
        self._calls = FUNCTIONAL | functions_of(adapter.framework_graph).keys()
        run = guard.runner(adapter.session)
        known = [state for state in layout.users if state.type in VARIABLES]
        # A class of the program's may do more in its `run`: that is for the run alone.
        own_run = functools.partial(tf_session.BaseSession.run, adapter.session)
        self.doors = VariableDoors(known, own_run)
        self.stuck = frozenset(_stuck(layout, self.doors))
        self._lost = beyond_recall(layout, self.stuck)
        with guard.bypass():
            self.initial = self.doors.read(layout.variables)
            self.capture: Capture = adapter.debug_with(
                run, *arguments, Watch(), unwanted=self._is_unwanted
            )
        assert self.capture.dump is not None
        self._recorded = RunRecord(layout, self.capture.dump.data())
        self._is_complete = False
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
        return unit.index not in self._lost and not is_read

    def _uses_inside(self, unit: Unit) -> bool:
        """Whether a loop or a function reads variables in its body."""
        return bool(unit.reads) and (len(unit.ops) > 1 or unit.step.op_type in self._calls)

    def settle(self) -> None:
        """Get ready for the program to go on: variables will have other values then."""
        used = {
            variable
            for unit in self.layout.units
            if self._uses_inside(unit)
            for variable in unit.reads
        }
        if not self._is_complete and used - self.initial.keys():
            with guard.bypass():
                self.initial |= self.doors.read(used - self.initial.keys())

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
        """The record, complete unless the real run has a tensor: then that is all of it."""
        return self._recorded if self._recorded.place(tensor_name) is not None else self.record

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
        known, names = self.layout.completion, frozenset(self._recorded.names)
        if known is None or known.names != names or self.has_failed:
            region = find_missing(self.layout, self._recorded, self._lost)
            scratch = None if self.has_failed else self._scratch(Change(), region)
            if scratch is None or not scratch.lasts:
                return self._compute(Change(), region, self.failed_at)[0], region
            known = self.layout.completion = Completion(names, region, scratch)
        initial = self._initial(known.region)
        result = known.scratch.again(
            self._recorded, initial, graph, config_of(session), type(self._adapter)
        )
        if result.error is not None:
            self.layout.completion = None
            result = self._compute(Change(), known.region, self.failed_at)[0]
        return result, known.region

    # What would have been.

    def region(self, change: Change) -> Region:
        """What a change makes it necessary to compute anew.

        Raises:
            UserError: that isn't possible.
        """
        region = find_region(self.layout, self.record, change, self.stuck, self.has_failed)
        for variable in region.variables:
            if not self.doors.can_read(variable):
                raise UserError(
                    f"For this the variable {variable.name} would have to be read, for which the "
                    "graph has no operation."
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
        with guard.bypass():
            scratch = self._scratch(change, region)
            graph, kind = self._adapter.framework_graph, type(self._adapter)
            return scratch.run(graph, config_of(self._adapter.session), kind)

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
            return self.initial | self.doors.read(others)

    def _place(self, error: BaseException, record: RunRecord, candidates: Any) -> int:
        """The step that has failed."""
        described = self._adapter.describe_error(error)
        name = described.op_name if described is not None else ""
        places = {op.name: unit.index for op, unit in self.layout.unit_of.items()}
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
