"""The program's side of stepping: its ops pass one by one, when they are let."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.engines.kit.patching.places import calling_at
from tfdbg_cli.engines.kit.stacks import call_frame
from tfdbg_cli.engines.torch.names.sites import replaced
from tfdbg_cli.engines.torch.private import KERNEL, SCHEMA
from tfdbg_cli.engines.torch.record.op_record import OpRecord
from tfdbg_cli.engines.torch.runs.failures import with_callers
from tfdbg_cli.engines.torch.stepping.counterfactual import OpCounterfactual
from tfdbg_cli.engines.torch.stepping.op_call import OpCall
from tfdbg_cli.engines.torch.stepping.overrides import Overrides, is_alias
from tfdbg_cli.engines.torch.stepping.values import flat
from tfdbg_cli.stepping.stepper import Step, StepOutcome

if TYPE_CHECKING:
    import torch

    from tfdbg_cli.engines.torch.record.op_recorder import OpRecorder

__all__ = ["ARRIVED", "FAIL", "GO", "MET", "STEP", "EndEvent", "ErrorEvent", "OpGate", "never"]

# What the program is told.
STEP = "step"
GO = "go"
FAIL = "fail"

#: The program is about to do an op.
ARRIVED = "arrived"
#: It is where it was to go, maybe between two ops.
MET = "met"


def never() -> bool:
    """What is never so: the program doesn't stop."""
    return False


class ErrorEvent(NamedTuple):
    """An op that was let has raised; the program waits where it was."""

    error: Exception


class EndEvent(NamedTuple):
    """The program's run has come to its end.

    Attributes:
        value: what it has returned, if it is a call.
        error: what it has raised.
    """

    value: Any = None
    error: BaseException | None = None


class OpGate:
    """Stops a program before each of its ops, on its own thread.

    Args:
        ops: the records of the run.
        pause: tells whoever steps through the program what has happened, and returns what the
            program is to do: `STEP`, `GO` (don't stop any more) or `FAIL` (let the program have the
            error that was raised).

    Attributes:
        overrides: are put in place as the ops pass.
        twins: what would be without them.
        steps: those done, and the next one.
        position: how many were done.
        pending: the op that is about to be done.
        undoable: the op that was done last and, if views were made since, those.
        undone: what is to be done again, the next one last.
        outcome: of the last step.
        updated: what ops have written to that was there before the run, by name.
        is_free: the program doesn't stop.
        is_watched: somebody is there to be told.
        is_between: it stands still after an op, and the next one isn't known.
        is_waiting: something else than an op may make it stop.
        before: is called before each op.
    """

    def __init__(self, ops: OpRecorder, pause: Callable[[Any], str]) -> None:
        self.overrides = Overrides(ops.holder)
        self.twins = OpCounterfactual(self.overrides)
        self.steps: list[Step] = []
        self.position = 0
        self.pending: OpCall | None = None
        self.undoable: list[OpCall] = []
        self.undone: list[OpCall] = []
        self.outcome: StepOutcome | None = None
        self.is_free = False
        self.is_watched = True
        self.is_between = self.is_waiting = False
        self.before: Callable[[], None] | None = None
        self.updated: dict[str, None] = {}
        # The index of a step -> the variables that it was the first to change.
        self._first_updates: dict[int, list[str]] = {}
        self._goal: Callable[[], bool] | None = None
        self._is_hasty = False
        self._current: OpRecord | None = None
        # What an op gives the program that stands still after it, and what instead.
        self._handed: list[torch.Tensor] = []
        self._instead: dict[int, torch.Tensor] = {}
        self._ops = ops
        self._pause = pause
        self._thread = threading.get_ident()
        self._leaves: dict[int, OpRecord] = {}
        self._seen = 0

    def begin(self) -> None:
        """The ops of the calling thread are those that are stopped."""
        self._thread = threading.get_ident()

    def is_open(self, record: OpRecord) -> bool:
        """Whether an op isn't done, or was undone."""
        return record is self._current or any(call.record is record for call in self.undone)

    def wait_for(self, goal: Callable[[], bool] | None, *, only_ops: bool = False) -> None:
        """Don't stop at each op any more, but only where something is so.

        From then on it isn't known what would be without overrides.

        Args:
            goal: whether it is; asked before and after each op. ``None``: stop at each op.
            only_ops: nothing but ops can make it so.
        """
        self._goal = goal
        self.is_waiting = not only_ops and goal is not None and goal is not never
        self._is_hasty = self._is_hasty or goal is not None

    def look(self) -> None:
        """Something has happened: stop here if that is what is waited for."""
        if threading.get_ident() == self._thread and self._is_met():
            self.is_between = True
            self._ask(MET)

    def _is_met(self) -> bool:
        goal = self._goal
        if goal is None or self.is_free:
            return False
        try:
            is_met = goal()
        except Exception:  # whoever waits will ask again, and gets it
            is_met = True
        if is_met:
            self._goal = None
        return is_met

    def tell(self, error: UserError) -> bool:
        """What is put in the place of something doesn't fit; whether somebody may mend it."""
        if not self.is_watched:
            self._ops.troubles.append(str(error))
            return False
        self.is_between = True
        self._ask(ErrorEvent(error))
        return True

    def is_handed(self, tensor: torch.Tensor | None) -> bool:
        """Whether the program is about to get a tensor, and nobody else has it yet."""
        return any(tensor is each for each in self._handed)

    def hand(self, tensor: torch.Tensor, instead: torch.Tensor) -> None:
        """Let the program get another tensor instead of one that `is_handed`."""
        self._instead[id(tensor)] = instead

    def release(self) -> None:
        """The run is over: no op passes here any more, and nobody is told."""
        self._ops.passage = self.before = None
        self._pause = _go

    def perform(self, ops: OpRecorder, record: OpRecord, op: Any, args: Any, kwargs: Any) -> Any:
        """An op, when it is let; what the program gets of it.

        Raises:
            Exception: what the op raises.
        """
        if threading.get_ident() != self._thread:
            result = self._unasked(record, op, args, kwargs)
            ops.end(record, result)
            return result
        self._current = record
        if self.before is not None:
            self.before()
        stops = not self.is_free and (self._goal is None or self._is_met())
        if stops or (self.overrides.values and not self._is_hasty):
            self.pending = OpCall(record, op, args, kwargs)
        if self.overrides.values:
            self.overrides.meet(record.name)
        if stops:
            self.steps.append(_planned(record, op))
            self._ask(ARRIVED)
        made: list[Any] = []
        while True:
            try:
                if self.is_free and not self.is_watched:
                    result = self._unasked(record, op, args, kwargs)
                else:
                    result = self._made(record, op, args, kwargs, made)
                break
            except UserError as error:  # of ours: a value doesn't fit
                self.steps[self.position :] = [_planned(record, op)]
                self._ask(ErrorEvent(error))
            except Exception as error:
                if self._is_let(error):
                    ops.failed(record, error)
                    del self.steps[self.position :]
                    self.pending = self._current = None
                    del self, ops, record, args, kwargs, made  # the traceback keeps this frame
                    raise
        ops.end(record, result)
        self._done(record)
        return result if self._goal is None else self._after(result)

    def _after(self, result: Any) -> Any:
        """Stop after an op, if that is asked for; what the program gets of it."""
        self._handed = list(flat(result))
        try:
            self.look()
            return replaced(result, self._instead) if self._instead else result
        finally:
            self._handed, self._instead = [], {}

    def _made(
        self, record: OpRecord, op: Any, args: Any, kwargs: Mapping[str, Any], made: list[Any]
    ) -> Any:
        """What the program gets of an op; ``made`` keeps what it has computed for another try."""
        if not made:
            if self.overrides.values:
                args, kwargs = self.overrides.inputs(record, args, kwargs)
            made.append(_done(op, args, kwargs))
        return self.overrides.outputs(record, made[0]) if self.overrides.values else made[0]

    def _unasked(self, record: OpRecord, op: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
        """The same where nobody can be told that a value doesn't fit."""
        made: list[Any] = []
        try:
            return self._made(record, op, args, kwargs, made)
        except UserError as error:
            self._ops.troubles.append(str(error))
        return made[0] if made else _done(op, args, kwargs)

    def _is_let(self, error: Exception) -> bool:
        """Whether the program is to have an error; otherwise the op is tried again."""
        call = self.pending
        if self.is_free or call is None:
            return True
        call.try_again()
        trace, context = error.__traceback__, error.__context__
        error.__traceback__ = with_callers(trace, sys._getframe(1))
        command = self._ask(ErrorEvent(error))
        # It was shown in between, which has left its marks.
        error.__traceback__, error.__context__ = trace, context
        return command == FAIL

    def _ask(self, event: Any) -> str:
        command = self._pause(event)
        self.is_between = False
        self.is_free = command != STEP
        return command

    def _done(self, record: OpRecord) -> None:
        call, self.pending, self._current = self.pending, None, None
        if call is not None:
            call.done()
        if call is None or self.is_free:
            self.undoable = []
        else:
            is_view = bool(record.outputs) and all(map(is_alias, record.outputs))
            self.undoable = [*self.undoable, call] if is_view else [call]
        self.finished(record, call)

    def finished(self, record: OpRecord, call: OpCall | None) -> None:
        """A step is done, for the first time or again."""
        if self.overrides.originals:
            if call is not None:
                self.twins.done(call)
            else:
                self.twins.passed(record)
        step = Step(
            record.name,
            record.op_type,
            tuple(output.name for output in record.inputs),
            tuple(output.name for output in record.outputs),
            (record.name,),
        )
        updated = tuple(self._variables(record))
        fresh = [name for name in updated if name not in self.updated]
        if fresh:
            self.updated.update(dict.fromkeys(fresh))
            self._first_updates[self.position] = fresh
        self.steps[self.position :] = [step]
        self.position += 1
        self.outcome = StepOutcome(step, updated)

    def go_back(self) -> None:
        """The last step was undone: it is the next one."""
        self.position -= 1
        del self.steps[self.position + 1 :]
        for name in self._first_updates.pop(self.position, ()):
            self.updated.pop(name, None)

    def _variables(self, record: OpRecord) -> Iterator[str]:
        """What was there before the run, and an op has written to."""
        if not record.overwrites or (record.facts is not None and record.facts.keeps_elements):
            return
        records = self._ops.records
        for each in records[self._seen :]:
            if each.facts is None:
                self._leaves[each.outputs[0].key] = each
        self._seen = len(records)
        keys = dict.fromkeys(output.key for output in record.overwrites)
        yield from (self._leaves[key].name for key in keys if key in self._leaves)


def _go(event: Any) -> str:
    return GO


def _planned(record: OpRecord, op: Any) -> Step:
    """A step that is still to be done; how many outputs it has can't be told of all ops."""
    returns = getattr(getattr(op, SCHEMA, None), "returns", ())
    count = len(record.overwritten or ()) + sum(
        str(each.type) == "Tensor" and not (each.alias_info and each.alias_info.is_write)
        for each in returns
    )
    outputs = tuple(f"{record.name}:{slot}" for slot in range(count))
    inputs = tuple(output.name for output in record.inputs)
    has_tensors = bool(record.overwritten) or any("Tensor" in str(each.type) for each in returns)
    unfit = "" if has_tensors or not returns else "It gives no tensor."
    return Step(record.name, record.op_type, inputs, outputs, (record.name,), unfit=unfit)


def _done(op: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
    """What an op gives. Its warnings are those of the place that it was called at."""
    frame = call_frame(sys._getframe(1))
    kernel = getattr(op, KERNEL, op)
    return calling_at(frame)(kernel, args, kwargs) if frame is not None else kernel(*args, **kwargs)
