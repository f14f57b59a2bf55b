"""A PyTorch program that goes on op by op: the side of whoever steps through it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from numpy.typing import NDArray

from tfdbg_cli.common.errors import UserError, did_you_mean
from tfdbg_cli.common.interpreter.program_signals import contained
from tfdbg_cli.dumps.dump import Datum
from tfdbg_cli.dumps.elements import node_name_of
from tfdbg_cli.dumps.graph import Graph
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.sources import show_program_only
from tfdbg_cli.engines.base import Capture, HasGradients, OpenEndedRun, no_modules
from tfdbg_cli.engines.kit.stepped import at_its_end, no_step_done
from tfdbg_cli.engines.torch.private import count_of, unobserved
from tfdbg_cli.engines.torch.stepping.changes import ProgramValues
from tfdbg_cli.engines.torch.stepping.gradients import Gradients
from tfdbg_cli.engines.torch.stepping.modules import TorchModuleCalls
from tfdbg_cli.engines.torch.stepping.op_gate import (
    FAIL,
    GO,
    STEP,
    EndEvent,
    ErrorEvent,
    OpGate,
    never,
)
from tfdbg_cli.engines.torch.stepping.records import RecordedOutputs
from tfdbg_cli.engines.torch.stepping.values import copied, fitted
from tfdbg_cli.engines.torch.values.layouts import same_bits
from tfdbg_cli.stepping.calls import ModuleCalls, Spot
from tfdbg_cli.stepping.stepper import Step, StepOutcome

if TYPE_CHECKING:
    from tfdbg_cli.engines.torch.record.run_recorder import RunRecorder

__all__ = ["TorchStepper"]

_CAVEATS = (
    "The steps to come aren't known before the program gets to them.",
    "Only the last op can be undone, not what the program has done since.",
    "What other threads do is recorded, and not stepped through.",
)


class TorchStepper(OpenEndedRun, HasGradients):
    """A run of a program, whoever has started it.

    Args:
        recorder: of the run.
        passage: stops the program at its ops.
        tell: gives the program the thread, with what it is to do, until it has something to say.
        conclude: the capture of the run at its end, with what is to be said in its dump.
        abandon: gives the run up while no step was done; ``None``: nobody can.
        look_away: lets the program do the rest of the run as if there were no stepper; ``None``:
            all of it is looked at.
        sees_all: no op is done that isn't a step.
    """

    engine_name = "torch"
    caveats = _CAVEATS

    def __init__(
        self,
        recorder: RunRecorder,
        passage: OpGate,
        tell: Callable[[str], Any],
        conclude: Callable[[EndEvent, Sequence[str]], Capture],
        abandon: Callable[[], None] | None = None,
        look_away: Callable[[], None] | None = None,
        sees_all: bool = True,
    ) -> None:
        self._passage = passage
        self._overrides = passage.overrides
        self._tell = tell
        self._conclude = conclude
        self._abandon = abandon
        self._look_away = look_away
        self._sees_all = sees_all
        self._recorded = RecordedOutputs(recorder, passage.is_open)
        self._changes = ProgramValues(self._recorded, passage)
        self._gradients = Gradients(self._recorded, passage)
        self._modules: TorchModuleCalls | None = None
        self._is_begun = False
        self._ended: EndEvent | None = None
        self._failure: Exception | None = None
        # The steps after those that were undone, the next one last.
        self._held_back: list[Step] = []
        self._capture: Capture | None = None

    def hear(self, event: Any) -> None:
        """Something has happened to the program."""
        self._is_begun = True
        if isinstance(event, EndEvent):
            self._ended = event
            del self._passage.steps[self.position :]  # an op that was interrupted
        elif isinstance(event, ErrorEvent) and not isinstance(event.error, UserError):
            self._failure = event.error

    def let_go(self) -> str:
        """Nobody steps any more: what the program is to do."""
        while self._passage.undone:
            self._do_again()
        return FAIL if self._failure is not None else GO

    def notes(self) -> list[str]:
        """What is to be said with the dump of the run."""
        overrides = self._overrides
        found = [name for name in overrides.values if name in overrides.effective]
        notes = [f"Overridden while stepping: {', '.join(found)}."] if found else []
        made = [name for step in self._passage.steps for name in step.outputs]
        for name in overrides.values:
            if name not in overrides.effective:
                text = f"{name} was overridden, and no op has made or used it."
                notes.append(f"{text} {did_you_mean(name, made)}".strip())
        return notes

    # Where the run is.

    @property
    def steps(self) -> Sequence[Step]:
        self._begin()
        return self._passage.steps

    @property
    def position(self) -> int:
        """How many were done."""
        return self._passage.position

    @property
    def next(self) -> Step | None:
        """The next step: the program goes on to its next op if it stands still after one."""
        self._begin()
        if self._passage.is_between:
            self._go(STEP)
        return super().next

    @property
    def done(self) -> Sequence[Step]:
        return self._passage.steps[: self.position]

    def _begin(self) -> None:
        if not self._is_begun:
            self._is_begun = True
            self._go(STEP)

    def _go(self, command: str) -> None:
        """Let the program go on.

        Raises:
            Exception: what an op raises that it was let.
            BaseException: an interruption or an exit, which ends the program.
        """
        self._failure = None
        event = self._tell(command)
        self.hear(event)
        error = event.error if isinstance(event, ErrorEvent | EndEvent) else None
        if error is not None and (
            isinstance(event, ErrorEvent) or not isinstance(error, Exception)
        ):
            raise error

    def advance(self, iteration: bool = False) -> StepOutcome:
        """Let the next op be done, and the program go on up to the op after that.

        An error of the program's own is not raised here: it is that of the run, see `finish`.

        Raises:
            UserError: the run is at its end.
            Exception: what the op raises; it is still the next one.
            BaseException: an interruption or an exit: the run is at its end.
        """
        try:
            self._begin()
            if self.next is None:
                raise at_its_end()
            if self._passage.undone:
                self._do_again()
            else:
                self._go(STEP)
        except BaseException as error:
            show_program_only(error)
            raise
        outcome = self._passage.outcome
        assert outcome is not None
        return outcome

    def go_on(self, is_there: Callable[[], bool] | None) -> bool:
        """Let the program go on without stopping at its ops, until something is so.

        Where nothing has asked for more it stands still right after the op that has made it so: no
        other op has used its outputs. (`next` lets it go on to the next op.)
        """
        if is_there is None:
            self._rest()
        return self._go_on(is_there or never, only_ops=False)

    def _rest(self) -> None:
        """Nobody waits for anything any more."""
        look_away, modules = self._look_away, self._modules
        if look_away is None or self._overrides.values or self._gradients.is_waiting:
            return
        if self._ended is None and modules is not None and modules.rest():
            self._look_away = None
            look_away()

    def reach(self, tensor_name: str) -> bool:
        """The same, until there is a tensor."""
        return self._go_on(lambda: self.is_made(tensor_name), only_ops=True)

    def reach_call(self, spot: Spot) -> bool:
        modules = self._modules
        if modules is None:
            raise no_modules(self.engine_name)
        modules.goal = spot
        try:
            return self._go_on(lambda: modules.is_at_hand(spot), only_ops=True)
        finally:
            modules.goal = None

    def _go_on(self, goal: Callable[[], bool], *, only_ops: bool) -> bool:
        try:
            while self._passage.undone and not goal():
                self._do_again()
            if self._ended is None and not goal():
                self._is_begun = True
                self._passage.wait_for(goal, only_ops=only_ops)
                self._go(STEP)
            return goal()
        except BaseException as error:
            show_program_only(error)
            raise
        finally:
            self._passage.wait_for(None)

    def look(self) -> None:
        """Something is done: stand still here if that is waited for."""
        self._passage.look()

    def is_blind_to(self, tensor_name: str) -> bool:
        """Whether ops were done since it was made that weren't recorded."""
        return self._recorded.is_blind_to(self.resolve(tensor_name))

    def is_made(self, tensor_name: str) -> bool:
        return self._changes.is_made(self.resolve(tensor_name))

    def finish(self) -> Capture:
        """Let the program do the rest.

        Raises:
            BaseException: an interruption or an exit, the first time; the capture has it, too.
        """
        if self._capture is not None:
            return self._capture
        try:
            self._rest()
            self._begin()
            command = self.let_go()
            if self._ended is None:
                self._go(command)
        except BaseException as error:
            show_program_only(error)
            raise
        assert self._ended is not None
        self._gradients.release()
        self._capture = self._conclude(self._ended, self.notes())
        return self._capture

    def stop(self) -> None:
        """End the run where it is: the call doesn't come to its end."""
        if self._abandon is None:
            raise UserError("This run can't be ended in the middle: the program makes it itself.")
        self._gradients.release()
        self._abandon()
        self._is_begun = True
        self._ended = self._ended or EndEvent()
        del self._passage.steps[self.position :]

    def discard(self) -> Capture | None:
        """Give the run up: only what has not done anything can be made again."""
        if self._modules is not None:
            self._modules.take_back()
        self._gradients.take_back()
        is_untouched = not self.position and (self._sees_all or not self._is_begun)
        if is_untouched and self._abandon is not None:
            self.stop()
            return None
        used = [name for name in self._overrides.effective if self._changes.user(name)]
        if used:
            raise UserError(
                f"The run can't be given up: steps were done with another {used[0]}.",
                "Let it go on, and restore the variables.",
            )
        for name in list(self._overrides.values):
            self.take_back(name)
        return self.finish()

    # Back.

    def back(self) -> Step:
        """Undo the last op, if the program has nothing of it but tensors."""
        passage = self._passage
        if not self.position:
            raise no_step_done()
        if not passage.undoable:
            name = passage.steps[self.position - 1].node
            raise UserError(
                f"{name} can't be undone: only the last op can be.", "The program has gone on."
            )
        call = passage.undoable[-1]
        record, overrides = call.record, self._overrides
        is_overridden = any(output.name in overrides.effective for output in record.outputs)
        call.undo(overrides.instead(record, call.given), is_overridden)
        passage.undone.append(passage.undoable.pop())
        self._held_back += reversed(passage.steps[passage.position :])
        passage.go_back()
        for output in call.record.outputs:
            self._overrides.effective.discard(output.name)
        return passage.steps[passage.position]

    def _do_again(self) -> None:
        call = self._passage.undone[-1]
        record, passage = call.record, self._passage
        results = call.again(self._overrides.instead(record, call.given))
        try:
            for output, tensor in zip(record.outputs, results, strict=False):
                value = self._overrides.values.get(output.name)
                if value is not None:
                    fitting = fitted(output.name, value, tensor)
                    self._overrides.originals[output.name] = copied(tensor)
                    self._changes.put(output, tensor, fitting)
                    self._overrides.effective.add(output.name)
        except UserError:
            call.try_again()
            raise
        for output, tensor in zip(record.outputs, results, strict=False):
            if output.held is not None:
                self._recorded.renew(output, tensor)
        passage.undoable.append(passage.undone.pop())
        passage.finished(record, call)
        if self._held_back:
            passage.steps.append(self._held_back.pop())

    # Values and variables: see `ProgramValues`.

    def resolve(self, name: str) -> str:
        """``model/softmax`` is ``model/_softmax``, unless there are both."""
        return self._recorded.resolve(name)

    def has(self, tensor_name: str) -> bool:
        return self._changes.has(self.resolve(tensor_name))

    def as_array(self, value: Any) -> NDArray[Any] | None:
        """A tensor as an array; NumPy knows no bfloat16."""
        if isinstance(value, torch.Tensor):
            with contained:  # of a class of the program's
                value = value.detach().cpu()
                return super().as_array(value.float() if value.dtype == torch.bfloat16 else value)
            return None
        return super().as_array(value)

    def value(self, tensor_name: str) -> torch.Tensor:
        """A copy of a tensor as it was made, or of what stands for it."""
        return self._changes.value(self.resolve(tensor_name))

    def mark(self, value: Any, like: Any = None) -> Any:
        """Its version, and elements: what is written through ``.data`` or NumPy has no version."""
        return count_of(value), copied(value) if like is None else like

    def lent(self, tensor_name: str) -> Any:
        """The program's own tensor, mostly."""
        return self._changes.found(self.resolve(tensor_name))

    def is_written(self, value: Any, mark: Any) -> bool:
        version, before = mark
        with unobserved():
            return count_of(value) != version or not same_bits(value, before)

    def gradient(self, tensor_name: str) -> torch.Tensor:
        """The gradient with respect to a tensor, as the backward pass of this run computes it.

        Raises:
            KeyError: it is not computed yet.
            UserError: the tensor has none.
        """
        return self._gradients.get(self.resolve(tensor_name))

    def set_gradient(self, tensor_name: str, value: Any) -> None:
        """Let the backward pass go on with another gradient; see `Gradients.put`."""
        self._gradients.put(self.resolve(tensor_name), value)

    def has_gradient(self, tensor_name: str, *, is_to_set: bool = False) -> bool:
        name, gradients = self.resolve(tensor_name), self._gradients
        return gradients.is_known(name) if is_to_set else gradients.is_found(name)

    @property
    def modules(self) -> ModuleCalls:
        if self._modules is None:
            raise no_modules(self.engine_name)
        return self._modules

    @modules.setter
    def modules(self, modules: TorchModuleCalls) -> None:
        self._modules = modules

    def name_tensor(self, tensor: Any) -> str:
        """A name for what was read of a module's call."""
        if self._modules is None or not self._modules.was_given(tensor):
            raise KeyError(tensor)
        return self._gradients.name(tensor)

    def is_gradient_open(self, tensor_name: str) -> bool:
        """Whether the backward pass stands still at it."""
        return self._gradients.is_open(self.resolve(tensor_name))

    def before_each(self, look: Callable[[], None]) -> None:
        self._passage.before = look

    @property
    def unused_gradients(self) -> Sequence[str]:
        return self._gradients.unused

    @property
    def overrides(self) -> Mapping[str, Any]:
        """Name -> value."""
        return dict(self._overrides.values)

    def override(self, tensor_name: str, value: Any) -> None:
        """Give a tensor another value; see `Overrides` for how the program gets it."""
        tensor_name = self.resolve(tensor_name)
        is_at_op = self._is_begun and not self._passage.is_between
        coming = self.next if is_at_op else None
        if coming is not None and coming.unfit and coming.node == node_name_of(tensor_name):
            raise UserError(f"{tensor_name} can't be overridden: {coming.unfit}")
        self._changes.override(tensor_name, value)
        self._failure = None

    def take_back(self, tensor_name: str) -> None:
        """Remove an override; what the program has got instead becomes what was computed."""
        self._changes.take_back(self.resolve(tensor_name))
        self._failure = None

    def original(self, tensor_name: str) -> torch.Tensor | None:
        return self._changes.original(self.resolve(tensor_name))

    @property
    def updated(self) -> Sequence[str]:
        """Parameters, buffers, and other tensors from before the run that ops have written to."""
        return list(self._passage.updated)

    def restore(self, variables: Sequence[str] = ()) -> Sequence[str]:
        names = self._changes.restore(variables)
        self._failure = None
        return names

    # What there is to see.

    def graph(self) -> Graph | None:
        """The ops that were done."""
        return self.dump().graph()

    def made(self, outcome: StepOutcome) -> Sequence[Datum]:
        """The tensors of the op that was done last."""
        return self._recorded.made(outcome.step.node)

    def dump(self) -> MemoryDump:
        """What was computed so far. It takes time in proportion to the ops that were done."""
        self._begin()
        return self._recorded.dump()
