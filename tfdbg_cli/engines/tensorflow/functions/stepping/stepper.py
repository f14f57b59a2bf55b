"""A call of a traced function that is gone through step by step, with other values if asked.

The call is made once, before the first step. What depends on an override is computed anew in a
function that is the same but for what was overridden (`replay`), on variables of its own; those of
the program get the outcome when the run is finished.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from tensorflow.python.framework import dtypes

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.engines.base import Capture
from tfdbg_cli.engines.kit.replayed import StepData, StepReader
from tfdbg_cli.engines.tensorflow.functions.stepping.layout import Unit
from tfdbg_cli.engines.tensorflow.functions.stepping.records import RecordedRun
from tfdbg_cli.engines.tensorflow.functions.stepping.replay import Edge
from tfdbg_cli.engines.tensorflow.functions.stepping.worlds import (
    Change,
    MadeCall,
    World,
    Worlds,
    tensor_of,
)
from tfdbg_cli.engines.tensorflow.shared.values import holdable

__all__ = ["CallStepper"]


class CallStepper(RecordedRun):
    """Goes through a call of a traced function."""

    def __init__(self, call: MadeCall) -> None:
        self._call, self._layout = call, call.layout
        layout = call.layout
        writes = {
            unit.number: [layout.variable_name(each) for each in sorted(unit.writes)]
            for unit in layout.units
            if unit.writes
        }
        failed_at = layout.index_of(call.failed) if call.error is not None else -1
        real = Capture(call.results or None, None, call.error)
        readers = {name: layout.readers(name) for name in layout.tensors}
        super().__init__(
            layout.steps, layout.place, call.graph, call.data, real, failed_at, writes, readers
        )
        self._returned: Callable[[Sequence[Any]], Any] | None = None
        self._variables = {layout.variable_name(each): each for each in layout.written}
        self._change = Change()
        self._worlds = Worlds(call)
        self.caveats = tuple(self._caveats())

    def returns(self, value: Any, made_of: Callable[[Sequence[Any]], Any]) -> None:
        """What whoever has called the function gets, where that isn't just tensors.

        Args:
            value: of the call that was made.
            made_of: makes it of other tensors.
        """
        self._real.value, self._returned = value, made_of

    def _caveats(self) -> Iterable[str]:
        yield "The call was made before the first step."
        if self._layout.refusal:
            yield f"Nothing in it can be overridden: {self._layout.refusal}."
            return
        kept = [unit.step.node for unit in self._layout.units if unit.keeps]
        if kept:
            more = f" and {len(kept) - 3} more" if len(kept) > 3 else ""
            yield (
                "Done once, before the first step, and what they gave stays whatever is overridden "
                f"before: {', '.join(kept[:3])}{more}."
            )
        if any(len(step.members) > 1 for step in self.steps):
            yield (
                "A loop or a branch is one step: its inner tensors can be looked at, but not "
                "overridden."
            )
        if self._call.known.is_compiled:
            yield "XLA has made the call; values, and what overrides lead to, are made without it."

    # Going on and going back.

    def _do(self, index: int) -> None:
        error, failed_at = self._fate()
        if error is not None and index == failed_at and not self._replaces(index):
            raise error

    def _fate(self) -> tuple[BaseException | None, int]:
        """The error that the run comes to, and the step that raises it."""
        error, failed_at = self._real.error, self._failed_at
        if self._change:
            world = self._world()
            if error is None or failed_at in world.changed or self._replaces(failed_at):
                return world.error, world.failed_at
        return error, failed_at

    def _replaces(self, index: int) -> bool:
        """Whether all that a step is there for is overridden."""
        if index >= len(self.steps):
            return False
        names = self.steps[index].outputs
        overrides = self._change.overrides
        return bool(names) and all(name in overrides for name in names)

    def _went_back(self) -> None:
        change, position = self._change, self._position
        undone = {
            each: frozenset(at for at in indices if at < position)
            for each, indices in change.undone.items()
        }
        if undone != change.undone:
            undone = {each: indices for each, indices in undone.items() if indices}
            since = {each: min(change.since[each], position) for each in undone}
            self._change = change._replace(undone=undone, since=since)

    def _stays(self, variable: str, index: int) -> bool:
        return index not in self._change.undone.get(self._variables[variable], ())

    def _restore(self, variables: Sequence[str]) -> None:
        self._check_changeable()
        layout, position = self._layout, self._position
        changed = self._variables
        wanted = {changed[name] for name in variables}
        undone, kept = dict(self._change.undone), dict(self._change.kept)
        for name in variables:
            if changed[name] not in self._call.variables.initial:
                raise UserError(f"{name} had no value before the first step.")
            undone[changed[name]] = frozenset(
                at for at in layout.writers(changed[name]) if at < position
            )
        for unit in layout.units[:position]:
            if unit.uses.isdisjoint(wanted):
                continue
            others = sorted(unit.writes - wanted)
            if len(unit.step.members) > 1 or (unit.writes and others):
                names_of = ", ".join(layout.variable_name(each) for each in others)
                raise UserError(
                    f"{unit.step.node} has done several things at once, which can't be undone "
                    "one by one.",
                    f"Restore them together: {names_of}." if others else "`step -b` goes back.",
                )
            if not unit.writes:
                kept.update(self._known_of(unit))
        since = dict(self._change.since) | dict.fromkeys(wanted, position)
        self._change = self._change._replace(undone=undone, since=since, kept=kept)

    def _known_of(self, unit: Unit) -> dict[Edge, Any]:
        """What a unit has given, as tensors."""
        assert unit.node is not None
        found: Mapping[Edge, Any] = self._call.given
        if self._change:
            world = self._world()
            found = world.tensors if unit.number in world.changed else found
        keys = [(unit.path, unit.node.name, slot) for slot in range(len(unit.node.outputs))]
        return {key: found[key] for key in keys if key in found}

    # Other values.

    @property
    def _overrides(self) -> Mapping[str, Any]:  # type: ignore[override]
        return self._change.overrides

    def override(self, tensor_name: str, value: Any) -> None:
        read = getattr(value, "numpy", None)
        super().override(tensor_name, read() if callable(read) else value)

    def _override(self, tensor_name: str, value: np.ndarray[Any, Any] | None) -> None:
        overrides = {name: v for name, v in self._overrides.items() if name != tensor_name}
        if value is not None:
            overrides[tensor_name] = value
        self._change = self._change._replace(overrides=overrides)

    def _check_changeable(self) -> None:
        call = self._call
        if self._layout.refusal:
            raise UserError(
                f"This call can be stepped through, but not changed: {self._layout.refusal}."
            )
        kept = [unit.step.node for unit in self._layout.units if unit.keeps]
        if call.error is not None and kept:
            raise UserError(
                f"The call has failed, and the result of {kept[0]} is lost with it: nothing in the "
                "call can be recomputed."
            )

    def _overridable(self, tensor_name: str) -> tuple[np.dtype[Any], Sequence[int | None] | None]:
        """The dtype and the shape that another value for a tensor has to have."""
        layout = self._layout
        inside = layout.place.get(tensor_name.rpartition(":")[0])
        is_made = self._base.place(tensor_name) is not None
        if inside is not None and tensor_name not in layout.tensors and is_made:
            self.check_inside(tensor_name, inside)
        self.check_known(tensor_name, layout.tensors)
        self._check_changeable()
        source = layout.sources[tensor_name]
        if not holdable(dtypes.as_dtype(source.dtype)):
            raise UserError(f"{tensor_name} is a handle: an array can't replace it.")
        self.check_unread(tensor_name)
        return np.dtype(dtypes.as_dtype(source.dtype).as_numpy_dtype), self.shape(tensor_name)

    def shape(self, tensor_name: str) -> tuple[int, ...] | None:
        value = self._base.value(tensor_name)
        return tuple(value.shape) if isinstance(value, np.ndarray | np.generic) else None

    # The call as it would have been.

    def _data(self, index: int) -> StepData:
        return self._data_of(self._change, index)

    def _data_of(self, change: Change, index: int) -> StepData:
        if not change:
            return self._base
        world = self._worlds.of(change)
        return world.data if index in world.changed or self._is_lost(index) else self._base

    def _reader(self) -> StepReader:
        change = self._change
        return lambda index: self._data_of(change, index).of(index)

    def _is_lost(self, index: int) -> bool:
        """Whether a step was not done by the call that was made."""
        return self._real.error is not None and not self._base.of(index)

    def _world(self) -> World:
        return self._worlds.of(self._change)

    # The ends.

    def variable(self, name: str) -> Any:
        if name not in self._variables:
            return super().variable(name)
        value = self._left(self._variables[name])
        return value.numpy() if value is not None else None

    def _left(self, variable: int) -> Any:
        """The value of a variable as the steps that were done have left it, a tensor."""
        later = [at for at in self._layout.writers(variable) if at >= self._position]
        if not later:
            return self._outcome(self._change).get(variable)
        undone = dict(self._change.undone)
        undone[variable] = undone.get(variable, frozenset()) | frozenset(later)
        if len(undone[variable]) == len(self._layout.writers(variable)):
            return self._call.variables.initial.get(variable)
        self._check_changeable()
        since = {variable: self._position} | dict(self._change.since)
        cut = self._change._replace(undone=undone, since=since)
        return self._worlds.of(cut).outcome.get(variable)

    def _outcome(self, change: Change) -> dict[int, Any]:
        """The variables at the end of the run."""
        variables = self._call.variables
        found = {each: variables.after_call(each) for each in self._layout.written}
        if change:
            world = self._worlds.of(change)
            has_failed = self._real.error is not None
            found |= {
                each: world.outcome.get(each)
                for each in self._layout.written
                if each in world.variables or has_failed
            }
        return {each: value for each, value in found.items() if value is not None}

    def withhold(self) -> None:
        self.check_open()
        self._call.variables.withhold(self._layout.written)

    def _finished(self) -> Capture:
        error, end = self._real.error, self._failed_at
        value = self._real.value
        if self._change:
            value, error, end = self._settled()
        else:
            self._call.variables.settle({})
        self._position = end if error is not None else len(self.steps)
        return Capture(value, None, error)

    def _settled(self) -> tuple[Any, BaseException | None, int]:
        """Let the program have what the overrides have led to."""
        world, layout = self._world(), self._layout
        error, end = self._fate()
        self._call.variables.settle(self._outcome(self._change))
        if error is not None:
            return None, error, end
        has_failed = self._real.error is not None
        results = []
        for at, name in enumerate(self._call.inlined.returns):
            maker = self._maker(name)
            if name in self._change.overrides:
                results.append(tensor_of(self._change.overrides[name], layout.sources[name].dtype))
            elif has_failed or maker in world.changed:
                results.append(world.results[at])
            else:
                results.append(self._call.results[at])
        if self._returned is not None:
            return self._returned(results), None, end
        return results or None, None, end

    def _forget(self) -> None:
        self._call.variables.take_back()
        self._change = Change()

    def _stop_here(self) -> None:
        found = {each: self._left(each) for each in self._layout.written}
        self._call.variables.settle({at: v for at, v in found.items() if v is not None})
