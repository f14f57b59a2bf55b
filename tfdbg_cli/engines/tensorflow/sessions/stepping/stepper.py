"""A run of TensorFlow that is done step by step: made once as a whole, then gone through.

A runtime that executes whole graphs can't be stopped between two operations. So the real run is
made when the stepper is: its result is the plain run's, and whatever has state is executed once.
Steps go through what is known of it (`step_worlds`). An override has what depends on it computed
once more, in a graph and session of its own (`step_scratch`); the program's variables get the
outcome when the run is finished.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from tensorflow.python.framework import errors_impl as errors

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.dumps.dump import Datum
from tfdbg_cli.dumps.graph import Graph
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.engines.base import CannotStep, Capture, SessionAdapter
from tfdbg_cli.engines.kit.fitting import nobody_elses
from tfdbg_cli.engines.kit.replayed import ReplayStepper, StepReader
from tfdbg_cli.engines.tensorflow.sessions.capture.plan import plans_of
from tfdbg_cli.engines.tensorflow.sessions.capture.topology import edge_of
from tfdbg_cli.engines.tensorflow.sessions.errors import attempt
from tfdbg_cli.engines.tensorflow.sessions.requests import resolve
from tfdbg_cli.engines.tensorflow.sessions.stepping.caveats import caveats_of, updated_already
from tfdbg_cli.engines.tensorflow.sessions.stepping.changes import OverrideSet
from tfdbg_cli.engines.tensorflow.sessions.stepping.counterfactual import (
    Counterfactual,
    Counterfactuals,
)
from tfdbg_cli.engines.tensorflow.sessions.stepping.layout import Unit, UnitLayout, make_layout
from tfdbg_cli.engines.tensorflow.sessions.stepping.record import RunRecord
from tfdbg_cli.engines.tensorflow.sessions.stepping.region import Region
from tfdbg_cli.engines.tensorflow.sessions.stepping.session import SessionVariables
from tfdbg_cli.engines.tensorflow.shared.body_nodes import Functions
from tfdbg_cli.engines.tensorflow.shared.private import fetch_handler, is_reference
from tfdbg_cli.engines.tensorflow.shared.values import holdable

__all__ = ["TensorFlowStepper", "make_stepper"]


def make_stepper(
    adapter: SessionAdapter, functions: Functions, arguments: tuple[Any, Any, Any, Any]
) -> TensorFlowStepper:
    """Make a run and the stepper that goes through it.

    Args:
        adapter: of the session.
        functions: those of the session's graph.
        arguments: fetches, feeds, options and metadata, as ``Session.run`` takes them.

    Raises:
        CannotStep: handles are fetched, which exist once.
        Exception: what TensorFlow says of arguments that are wrong; nothing was run.
    """
    request = resolve(adapter.framework_graph, *arguments[:2])
    for tensor in request.fetches:
        if not holdable(tensor.dtype) or tensor.op.type.startswith("GetSessionHandle"):
            raise CannotStep(f"{tensor.name} is a handle: its run can't be stepped.")
    key = ("steps", adapter.framework_graph.version, *request.key())
    layout = plans_of(adapter.session).get(key, lambda: make_layout(request, functions))
    return TensorFlowStepper(adapter, layout, arguments)


class TensorFlowStepper(ReplayStepper):
    """A run that was made already, and the runs that it would have been with other values.

    Args:
        adapter: of the session.
        layout: the steps.
        arguments: those of the run.

    Attributes:
        returned: what of the fetched values goes to whoever asked for the run.
    """

    engine_name = "tensorflow"

    def __init__(
        self, adapter: SessionAdapter, layout: UnitLayout, arguments: tuple[Any, Any, Any, Any]
    ) -> None:
        super().__init__(layout.steps)
        self._adapter, self._layout = adapter, layout
        self._fetches = arguments[0]
        self.returned: Callable[[Any], Any] = lambda value: value
        self._worlds = worlds = Counterfactuals(adapter, layout, arguments)
        self._changes = OverrideSet(layout)
        self._region: Region | None = None
        self._made_world: Counterfactual | None = None
        self._variables = SessionVariables(worlds, bool(adapter.session.sess_str))
        self._by_name = {each.name: each for unit in layout.units for each in unit.writes}
        self._said: list[str] = []
        assert worlds.capture.dump is not None
        self._begun = worlds.capture.dump.t0()

    @property
    def caveats(self) -> Sequence[str]:  # type: ignore[override]
        """What can't be overridden or done again, a sentence each."""
        worlds = self._worlds
        failed = self.steps[worlds.failed_at].node if worlds.has_failed else None
        stuck = sorted(worlds.stuck, key=_name)
        return [*caveats_of(self._layout, stuck, failed), *self._said]

    # Going on and going back.

    def readers(self, tensor_name: str) -> Sequence[int]:
        return self._changes.readers(tensor_name)

    def _do(self, index: int) -> None:
        if self._is_changed(index):
            world = self._world()
            error, failed_at = world.error, world.failed_at
        else:
            error, failed_at = self._worlds.capture.error, self._worlds.failed_at
        if error is not None and index == failed_at and not self._changes.replaces(index):
            raise error

    def _writes(self, index: int) -> Sequence[str]:
        unit = self._layout.units[index]
        return sorted(each.name for each in unit.writes) if unit.writes and self._runs(unit) else []

    def _went_back(self) -> None:
        if self._changes.go_back(self._position):
            self._use(self._changes)

    # What is different from the recorded run.

    def _use(self, changes: OverrideSet) -> None:
        """Let the run be another one; if that isn't possible, what it was until now.

        Raises:
            UserError: it isn't.
        """
        before = self._changes, self._region, self._made_world
        self._changes, self._region, self._made_world = changes, None, None
        try:
            if changes:
                self._find_region()
        except UserError:
            self._changes, self._region, self._made_world = before
            raise
        self._shown = None

    def _find_region(self) -> Region:
        if self._region is None:
            self._region = self._worlds.region(self._changes.change())
        return self._region

    def _is_changed(self, index: int) -> bool:
        return bool(self._changes) and index in self._find_region().changed

    def _world(self) -> Counterfactual:
        if self._made_world is None:
            self._made_world = self._worlds.world(self._changes.change(), self._find_region())
        return self._made_world

    # Values.

    def _find(self, tensor_name: str) -> RunRecord | None:
        """Where the value of a tensor is found that was computed or fed."""
        records = [self._worlds.record_of(tensor_name)]
        if self._changes and any(index < self._position for index in self._find_region().changed):
            records.append(self._world().record)
        for record in records:
            place = record.place(tensor_name)
            if place is None:
                continue
            if self._is_changed(place):
                source = self._world().record
            else:
                source = self._worlds.record_of(tensor_name) if place >= 0 else record
            if place < self._position and source.place(tensor_name) is not None:
                return source
        return None

    def _is_there(self, tensor_name: str) -> bool:
        return self._find(tensor_name) is not None

    def _found(self, tensor_name: str) -> Any:
        record = self._find(tensor_name)
        return record.value(tensor_name) if record is not None else None

    def original(self, tensor_name: str) -> Any | None:
        """What a tensor was in the run as it is without overrides; ``None``: it had no value."""
        return nobody_elses(self._worlds.record.value(tensor_name))

    def _overridable(self, tensor_name: str) -> tuple[np.dtype[Any], Sequence[int | None] | None]:
        tensors = self._layout.tensors
        if tensor_name not in tensors and self._worlds.record.place(tensor_name) is not None:
            raise UserError(
                f"{tensor_name} is inside of a function that is called as one step.",
                "Override its inputs or its outputs.",
            )
        self.check_known(tensor_name, tensors)
        tensor = tensors[tensor_name]
        edge = edge_of(tensor)
        unit = self._layout.unit_of.get(edge[0])
        if edge not in self._layout.fed and unit is not None:
            self._check_fit(tensor, unit)
        self.check_unread(tensor_name)
        shape = None if tensor.shape.rank is None else tensor.shape.as_list()
        return np.dtype(tensor.dtype.base_dtype.as_numpy_dtype), shape

    def _override(self, tensor_name: str, value: np.ndarray[Any, Any] | None) -> None:
        changes = self._changes.copy()
        if value is None:
            changes.take_back(tensor_name, self._position)
        else:
            changes.set(tensor_name, value)
        self._use(changes)

    def _check_fit(self, tensor: Any, unit: Unit) -> None:
        name = tensor.name
        self.check_inside(name, unit.index)
        if is_reference(tensor) or not holdable(tensor.dtype):
            raise UserError(f"{name} is a handle: an array can't replace it.")
        is_made = unit.index < self._position
        if is_made and not self._layout.certain(*edge_of(tensor)) and not self.has(name):
            raise self.not_taken(name)

    def shape(self, tensor_name: str) -> tuple[int, ...] | None:
        tensor = self._layout.tensors.get(tensor_name)
        if tensor is None or not tensor.shape.is_fully_defined():
            return None
        return tuple(tensor.shape.as_list())

    def _mends(self, tensor_name: str) -> bool:
        changes, at = self._changes.copy(), self._position
        try:
            self._overridable(tensor_name)
            changes.set(tensor_name, None)
            return at in self._worlds.region(changes.change()).changed or changes.replaces(at)
        except UserError:
            return False

    def _check_takes_back(self, tensor_name: str) -> None:
        """An override that steps have used stays theirs."""

    @property
    def _overrides(self) -> Mapping[str, Any]:  # type: ignore[override]
        return self._changes.overrides

    # Variables.

    def _runs(self, unit: Unit) -> bool:
        """Whether a unit of a branch is executed: what it reads has values."""
        if self._layout.always(unit.ops[0]) or len(unit.ops) > 1:
            return True
        return all(
            self._layout.certain(*edge_of(tensor))
            or not holdable(tensor.dtype)
            or self._find(tensor.name) is not None
            for tensor in unit.ops[0].inputs
        )

    def _stays(self, variable: str, index: int) -> bool:
        return self._changes.counts(self._by_name[variable], index)

    def _restore(self, variables: Sequence[str]) -> None:
        restored = [self._by_name[name] for name in variables]
        for variable in restored:
            if variable in self._worlds.stuck:
                raise UserError(f"The graph has no operation to read or set {variable.name}.")
            if variable not in self._worlds.initial:
                raise UserError(f"{variable.name} had no value before the first step.")
        changes = self._changes.copy()
        changes.restore(restored, self._position)
        self._use(changes)

    # What there is to see.

    def graph(self) -> Graph | None:
        """The graph, with the function bodies that the run has shown."""
        assert self._worlds.capture.dump is not None
        return self._worlds.capture.dump.graph()

    def _make_dump(self) -> MemoryDump:
        dump, recorded = super()._make_dump(), self._worlds.capture.dump
        assert recorded is not None
        dump.warnings, dump.absence = recorded.warnings, recorded.absence
        return dump

    def _reader(self) -> StepReader:
        worlds = self._worlds
        changed = self._find_region().changed if self._changes else frozenset()
        anew = self._world().record if any(index < self._position for index in changed) else None

        def read(index: int) -> Sequence[Datum]:
            return (anew if anew is not None and index in changed else worlds.record).of(index)

        return read

    # The ends.

    @property
    def real(self) -> Capture:
        """The run that was made."""
        return self._worlds.capture

    def _finished(self) -> Capture:
        worlds = self._worlds
        error, end = worlds.capture.error, worlds.failed_at
        if self._changes:
            error, end = self._settle()
        else:
            self._write({})
        self._position = end
        value = None
        if error is None and self._changes:
            value, error = attempt(self._fetched)
        elif error is None:
            value = worlds.capture.value
        if error is None:
            value = self.returned(value)
        worlds.settle()
        late = worlds.capture.late if error is worlds.capture.error else None
        return Capture(value, None, error, worlds.capture.run_metadata, late)

    def withhold(self) -> None:
        """Give the session its variables back until the run is finished."""
        self.check_open()
        left = self._variables.withhold()
        if left:
            self._said.append(updated_already(left))

    def _settle(self) -> tuple[BaseException | None, int]:
        """Let the session have what the overrides have led to; how that ended, and where."""
        worlds, region, world = self._worlds, self._find_region(), self._world()
        error, end = world.error, world.failed_at
        failed_at = worlds.failed_at
        if error is None and not (failed_at in region.changed or self._changes.replaces(failed_at)):
            error, end = worlds.capture.error, worlds.failed_at
        self._write(worlds.outcome(self._changes.change(), region, world))
        return error, end

    def _write(self, values: Mapping[Any, Any]) -> None:
        """Set variables of the session."""
        assert self._worlds.capture.dump is not None
        for variable in self._variables.write(values):
            self._worlds.capture.dump.warnings.append(
                f"{variable.name} was set by other code while you stepped through this run; now it "
                "has the run's value."
            )

    def _fetched(self) -> Any:
        """What the run returns: the fetches in the caller's own structure."""
        handler = fetch_handler(self._adapter.framework_graph, self._fetches, {})
        values = []
        for tensor in handler.fetches():
            if not self.has(tensor.name):  # as the runtime says it
                message = f"{tensor.name} does not have value: its branch was not taken."
                raise errors.InvalidArgumentError(tensor.op.node_def, tensor.op, message)
            values.append(_returned(self._get(tensor.name)))
        return handler.build_results(self._adapter.session, values)

    def _forget(self) -> None:
        self._variables.take_back()
        self._use(OverrideSet(self._layout))

    def variable(self, name: str) -> Any:
        variable = self._layout.tensors[f"{name}:0"].op
        values = self._worlds.left_by(self._changes.cut(self._position))
        value = values.get(variable)
        return _returned(value if value is not None else self._variables.after_run(variable))

    def _stop_here(self) -> None:
        worlds, change = self._worlds, self._changes.cut(self._position)
        for variable in change.undone:
            if variable in worlds.stuck or variable not in worlds.initial:
                raise UserError(
                    f"The run can't be ended here: {variable.name} can't be set to its value "
                    "without the remaining steps.",
                    "Let it go on to its end.",
                )
        self._write(worlds.left_by(change) if change.undone or self._changes else {})
        worlds.settle()


def _returned(value: Any) -> Any:
    """An array as ``Session.run`` returns it: scalars are no arrays."""
    value = nobody_elses(value)
    return value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value


def _name(op: Any) -> str:
    return str(op.name)
