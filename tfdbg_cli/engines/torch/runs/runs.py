"""Where the runs of a PyTorch program begin and end, told by what it calls.

Four kinds of events: F, the outermost call of a module; B, the outermost backward pass; S, the
outermost step of an optimizer or a gradient scaler; X, a block that the user marks. A training run
is everything up to the end of S, an inference run is one F, a gradient run one B, and a marked
block is a run of its own.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NamedTuple

import torch

from tfdbg_cli.common.errors import one_line
from tfdbg_cli.common.interpreter.program_signals import pass_on
from tfdbg_cli.engines.kit.contain import contained
from tfdbg_cli.engines.kit.stacks import user_frame
from tfdbg_cli.engines.torch.around.process_patches import PROCESS_PATCHES
from tfdbg_cli.engines.torch.around.surrounding import Around, Invocation
from tfdbg_cli.engines.torch.levels import TorchLevel
from tfdbg_cli.engines.torch.modules.level import ModulesLevel
from tfdbg_cli.engines.torch.modules.steps import closure_in
from tfdbg_cli.engines.torch.names.sites import has_parameters
from tfdbg_cli.engines.torch.private import current_node
from tfdbg_cli.engines.torch.record.capture_levels import RecordingLevel
from tfdbg_cli.engines.torch.runs.clipping import Clipping
from tfdbg_cli.engines.torch.runs.description import (
    BLOCK,
    GRADIENT,
    INFERENCE,
    TRAINING,
)
from tfdbg_cli.engines.torch.runs.forwards import Forwards, is_differentiating
from tfdbg_cli.engines.torch.runs.keras_steps import variables_of
from tfdbg_cli.engines.torch.runs.lifecycle import Lifecycle, PatchedProgram, TorchRun
from tfdbg_cli.engines.torch.runs.loading import LoaderPause, is_of_data
from tfdbg_cli.engines.torch.runs.losses import Losses
from tfdbg_cli.engines.torch.runs.norms import Norms
from tfdbg_cli.engines.torch.runs.noted import NotedNumbers
from tfdbg_cli.engines.torch.runs.steps_taken import StepNotes
from tfdbg_cli.engines.torch.runs.updates_by_hand import update_after

__all__ = ["BLOCK", "GRADIENT", "INFERENCE", "TRAINING", "RunPosition", "Runs"]


# How many arguments `Tensor.backward` has, the tensor included, before those that tell for what.
_WITHOUT_INPUTS = 4
# Arguments of all backward passes after which the graph is still there.
_KEEPS_GRAPH = ("retain_graph", "create_graph")


class RunPosition(NamedTuple):
    """Where a piece of the program is.

    Attributes:
        run: that is open.
        is_busy: what happens is no part of the program.
        depths: in how many calls: of all kinds, modules, backward passes, steps.
    """

    run: TorchRun | None = None
    is_busy: bool = False
    depths: tuple[int, int, int, int] = (0, 0, 0, 0)


class Runs(Lifecycle):
    """The state machine; all runs are on one thread at a time.

    Args:
        program: whose runs they are.

    Attributes:
        losses: of the runs.
        steps_taken: what becomes of their gradients.
        loading: what data loaders compute.
    """

    def __init__(self, program: PatchedProgram) -> None:
        super().__init__(program)
        self._depth = 0
        self._module_depth = 0
        self._backward_depth = 0
        self._step_depth = 0
        self._inside = {event: _Boundary(self, event) for event in "FBS"}
        # Optimizers whose steps follow each other with nothing in between: one run.
        self._together: dict[int, int] = {}
        self._last_stepped: int | None = None
        numbers = NotedNumbers(program.tracks)
        self.steps_taken = StepNotes(numbers, self._number)
        self.losses = Losses(numbers, self.steps_taken.scaled)
        self.loading = LoaderPause(self.watchers)
        self.clipping = Clipping(self.steps_taken, self._outside)
        self._norms = Norms(program.tracks, self.names, self.optimizers)

    # The events. Each is seen around the original.

    def around_module(
        self, original: Any, module: torch.nn.Module, args: tuple[Any, ...], kwargs: Any
    ) -> Around | None:
        """A call of a module."""
        run = self._run
        if run is None and self.is_idle():
            return None
        given = original, (module, *args), kwargs
        if not self.is_here():
            return _within(PROCESS_PATCHES.helpers.module(module), given)
        if self._depth:
            watcher = run.watcher if run is not None else None
            return None if watcher is None else self._around_inner(watcher, module, given)
        if self._program.patches.keras.look((args, kwargs)):
            return _within(self.busy(), given)  # shapes are worked out: nothing is computed
        is_model = has_parameters(module)
        if run is None and not is_model and is_of_data(sys._getframe(1)):
            return None
        return self._around_outermost(module, given, is_model)

    def _around_inner(
        self, watcher: TorchLevel, module: torch.nn.Module, given: Invocation
    ) -> Around:
        if not self._module_depth and not self._backward_depth:
            self._note("F")  # called by an optimizer
        _, (_, *args), kwargs = given
        watcher.enter_module(module, ((*args,), kwargs))
        self._module_depth += 1
        output = None
        try:
            output = yield given
        except Exception as error:
            watcher.failed_op(error)  # while it is known in whose call
            raise
        finally:
            self._module_depth -= 1
            watcher.leave_module(module, output)
            if not self._module_depth:
                self._wake()
        return output

    def _around_outermost(
        self, module: torch.nn.Module, given: Invocation, is_model: bool
    ) -> Around:
        _, (_, *args), kwargs = given
        frame = user_frame(sys._getframe(1))
        self._root_called(module, (*args,), kwargs, frame, is_model)
        watcher = self.watcher
        if watcher is not None:
            watcher.enter_module(module, ((*args,), kwargs))
        output = None
        try:
            with self._inside["F"]:
                self._module_depth += 1
                try:
                    output = yield given
                except Exception as error:
                    if watcher is not None:
                        watcher.failed_op(error)
                    raise
                finally:
                    self._module_depth -= 1
                    if watcher is not None:
                        watcher.leave_module(module, output)
            run = self._run
            # (It may have got its first parameters just now.)
            is_model = is_model or has_parameters(module)
            if run is not None and run.forwards is not None and is_model:
                self._look(run.forwards.add, module, output)  # a backward pass may use it, or not
            if run is not None and run.closes_on == "F":
                self.close_run(frame=frame, output=output)
        finally:
            self._wake()
        return output

    def _wake(self) -> None:
        """The program goes on with its own code, in the same run or behind it."""
        if self._run is not None and self._run.watcher is not None:
            self._look(self._run.watcher.wake)

    def around_fetch(self, original: Any, fetcher: Any, indices: Any, /) -> Around | None:
        """A data loader makes a batch."""
        if self.is_idle() or not self.is_here() or self._depth:
            return None
        return self.loading.around(original, fetcher, indices)

    def around_trace(self, original: Any, /, *args: Any, **kwargs: Any) -> Around | None:
        """``torch.jit`` traces a model: a mode of ours would leave convolutions out of it."""
        if (self._run is None and self.is_idle()) or not self.is_here():
            return None
        return self._around_trace(original, args, kwargs)

    def _around_trace(self, original: Any, args: tuple[Any, ...], kwargs: Any) -> Around:
        go_back = self._look_away()
        try:
            return (yield original, args, kwargs)
        finally:
            go_back()

    def around_backward(
        self, original: Any, is_grad: bool, /, *args: Any, **kwargs: Any
    ) -> Around | None:
        """``torch.autograd.backward`` or ``grad``."""
        if self._run is None and self.is_idle():
            return None
        if not self.is_here():
            return _within(PROCESS_PATCHES.helpers.phase("backward"), (original, args, kwargs))
        if self._backward_depth and current_node() is None:
            return None  # `Tensor.backward` calls `torch.autograd.backward`
        return self._around_backward(original, args, kwargs, is_grad)

    def _around_backward(
        self, original: Any, args: tuple[Any, ...], kwargs: Any, is_grad: bool
    ) -> Around:
        is_outermost = not self._depth
        frame = user_frame(sys._getframe(1)) if is_outermost else None
        if is_outermost:
            self._settle_steps()
            self._settle_forwards(frame)
            if self._run is None:
                owned = bool(self.optimizers or self._program.setting("run_end")) and not is_grad
                kind, closes_on = (TRAINING, "S") if owned else (GRADIENT, "B")
                self._open(kind, closes_on, frame, title="grad()" if is_grad else "backward()")
            if self._run is not None:
                self._trains(self._run)  # before its numbers are noted, which go by its kind
        if not self._module_depth and not self._backward_depth:
            self._note("B")
        watcher = self.watcher
        if watcher is not None:
            if is_grad or len(args) > _WITHOUT_INPUTS or kwargs.get("inputs") is not None:
                self._look(watcher.will_be_partial)
            watcher.enter_phase("backward", args[0] if args else None)
        if is_outermost and not is_grad and self._run is not None:
            root = args[0] if args else kwargs.get("tensors")
            self.losses.begins(root, self._run.description.number)
        self._backward_depth += 1
        try:
            with self._inside["B"]:
                value = yield original, args, kwargs
        finally:
            self._backward_depth -= 1
            if watcher is not None:
                watcher.leave_phase()
        if watcher is not None:
            self._look(watcher.backward_done, is_grad, value)
        run = self._run
        if run is not None:
            run.keeps_graph |= id(True) in map(id, (*args, *map(kwargs.get, _KEEPS_GRAPH)))
        if is_outermost and run is not None:
            if not is_grad:
                self._norms.take(run.description.number, self.losses.multiple)
            update = update_after(frame) if run.closes_on == "B" else None
            if update is not None:
                self._await_update(run, frame, update)
            elif run.closes_on == "B" or (run.stepped and run.closes_on == "S"):
                self.close_run(frame=frame)
        self._wake()
        return value

    def around_step(self, original: Any, owner: Any, /, *args: Any, **kwargs: Any) -> Around | None:
        """``Optimizer.step`` or ``GradScaler.step``."""
        if self._run is None and self.is_idle():
            return None
        if isinstance(owner, torch.optim.Optimizer):
            self.optimizers.add(owner, self.is_elsewhere())
        if not self.is_here():
            phase = PROCESS_PATCHES.helpers.phase("optimizer", owner)
            return _within(phase, (original, (owner, *args), kwargs))
        return self._around_step(original, owner, args, kwargs)

    def _around_step(self, original: Any, owner: Any, args: tuple[Any, ...], kwargs: Any) -> Around:
        is_outermost = not self._step_depth and (not self._depth or self._backward_depth > 0)
        frame = user_frame(sys._getframe(1)) if is_outermost else None
        key = id(args[0]) if args and isinstance(args[0], torch.optim.Optimizer) else id(owner)
        if is_outermost and not self._depth:
            self._settle_update()
            self._settle_forwards(frame)
        if is_outermost and not self._depth and self._run is None:
            if self._last_stepped is not None and self._last_stepped != key:
                self._together[self._last_stepped] = key
            self._last_stepped = None
            self._open(TRAINING, "S", frame, title=f"{type(owner).__name__}.step()")
        if is_outermost:
            self._note("S")
            if self._run is not None:
                self._trains(self._run)
        watcher, is_optimizer = self.watcher, isinstance(owner, torch.optim.Optimizer)
        if is_optimizer and self._run is not None and not self._backward_depth:
            self._norms.take_step(self._run.description.number)
        if not self._step_depth and self._run is not None:
            self.steps_taken.begins(owner, self._run.description.number)
        if watcher is not None:
            watcher.enter_phase("optimizer" if is_optimizer else "scaler", owner)
        self._step_depth += 1
        # No frame of ours: a warning names the one that has called the step.
        step = functools.partial(original, owner)
        try:
            with self._inside["S"]:
                if isinstance(watcher, ModulesLevel) and is_optimizer:
                    value = yield from watcher.make_step(owner, (step, args, kwargs))
                elif is_outermost and closure_in(args, kwargs) is None and self._ends_run(key):
                    assert isinstance(watcher, RecordingLevel)
                    make = functools.partial(step, *args, **kwargs)
                    value = yield from watcher.make_step(owner, make)
                else:
                    value = yield original, (owner, *args), kwargs
        finally:
            self._step_depth -= 1
            if watcher is not None:
                watcher.leave_phase()
        run = self._run
        if run is not None and not self._step_depth:
            self.steps_taken.ends(owner, run.description.number)
        if run is not None and not is_optimizer and args:
            self.steps_taken.stepped(owner, args[0], run.description.number)
        if is_outermost and run is not None:
            run.stepped.append(key)
            if run.closes_on == "S" and not self._backward_depth and not self._another(run, key):
                self.close_run(frame=frame)
                self._last_stepped = key
        self._wake()
        return value

    def around_clipping(
        self, original: Any, is_norm: bool, /, *args: Any, **kwargs: Any
    ) -> Around | None:
        """``clip_grad_norm_`` or ``clip_grad_value_``."""
        if self.is_idle() or not self.is_here():
            return None
        return self.clipping.around(original, args, kwargs, is_norm)

    def _outside(self) -> ModulesLevel | None:
        """What looks at modules and records what is done outside of any; ``None``: nothing does."""
        watcher = self.watcher
        return watcher if isinstance(watcher, ModulesLevel) else None

    def _number(self) -> int | None:
        """The number of the run that is open; ``None``: none is."""
        return self._run.description.number if self._run is not None else None

    def around_end(self, original: Any, /, *args: Any, **kwargs: Any) -> Around | None:
        """The function of ``config run_end``."""
        if not self.is_here() or self._depth:
            return None
        return self._around_end(original, args, kwargs)

    def _around_end(self, original: Any, args: tuple[Any, ...], kwargs: Any) -> Around:
        frame = user_frame(sys._getframe(1))
        if self._run is None:
            self._open(TRAINING, "E", frame, title=f"{self._program.setting('run_end')}()")
        with self._inside["S"]:
            value = yield original, args, kwargs
        run = self._run
        if run is not None and run.closes_on == "E":
            self.close_run(frame=frame)
        return value

    def around_unit(
        self, kind: str, title: str, model: Any, original: Any, args: tuple[Any, ...], kwargs: Any
    ) -> Any:
        """A function of a framework's that is one run, whatever happens in it.

        Args:
            kind: of the run.
            title: what to call it.
            model: whose variables are named by their paths.
            original, args, kwargs: the function and what it is given.
        """
        if self.is_idle() or not self.is_here() or self._depth or self._is_block():
            return original(*args, **kwargs)
        self.names.name_all(variables_of(model))
        with self._unit(kind, title, user_frame(sys._getframe(2))):
            return original(*args, **kwargs)

    @contextlib.contextmanager
    def block(self, name: str = "") -> Iterator[None]:
        if not self.is_here() or self._depth or self._is_block():
            yield  # inside a module, another block, or a thread that isn't watched
            return
        with self._unit(BLOCK, name, user_frame(sys._getframe(1))):
            yield

    @contextlib.contextmanager
    def _unit(self, kind: str, title: str, frame: FrameType | None) -> Iterator[None]:
        self._settle_steps()
        if self._run is not None:
            self.close_run(frame=frame)
        self._open(kind, "", frame, title=title)
        try:
            yield
        except (Exception, KeyboardInterrupt) as error:
            self.fail(error)
            if self._is_block() and self._run is not None:
                self._run.cut_short = f"the program raised {one_line(error)}"
            raise
        finally:
            if self._is_block():
                self.close_run(frame=frame)

    # A call that somebody makes step by step, in turns with what it does itself.

    def place(self) -> RunPosition:
        """Where the program is: in which run, and in how many calls of each kind."""
        return RunPosition(
            self._run,
            self._is_busy,
            (self._depth, self._module_depth, self._backward_depth, self._step_depth),
        )

    def go_to(self, place: RunPosition) -> None:
        """Another piece of the program goes on."""
        self._run, self._is_busy, depths = place
        self._depth, self._module_depth, self._backward_depth, self._step_depth = depths

    def set_aside(self) -> Callable[[], None]:
        """A call is about to be made step by step: what is open is closed, or looks away.

        Returns:
            To be called after it.
        """
        self.settle()
        self.discard_ahead()
        if not self._depth and self._run is not None and self.is_here():
            self._settle_steps()
            if self._run is not None:
                self.close_run()
        return self._look_away()

    def _look_away(self) -> Callable[[], None]:
        """Nothing is recorded on this thread until what is returned is called."""
        place, watcher = self.place(), self.watcher
        if watcher is not None:
            watcher.stop()
        self.discard_ahead()
        self._is_busy = True

        def go_back() -> None:
            self.go_to(place)
            if watcher is not None and self.watcher is watcher:
                watcher.start()
            elif self._run is None:
                self.begin()

        return go_back

    # Opening and closing.

    @contained
    def _root_called(
        self,
        module: torch.nn.Module,
        args: tuple[Any, ...],
        kwargs: Any,
        frame: FrameType | None,
        is_model: bool,
    ) -> None:
        """F begins: it belongs to the run that is open, or opens one."""
        if isinstance(self._ahead, TorchLevel):
            self._ahead.rest()  # before it is stopped and started, which then costs nothing
        self._settle_steps()
        evaluates = not module.training
        if is_model:  # names are given in the order of the program, whatever is watched
            self.names.module(module, frame, None)
            # (A module without parameters, a loss, say, is no new forward pass.)
            self._settle_forwards(frame, module)
        run = self._run
        if run is None:
            trains = torch.is_grad_enabled() and self._is_trained(module)
            kind = TRAINING if trains and not evaluates else INFERENCE
            closes_on = "S" if trains else "F"
            if is_differentiating():  # a part of the function that it differentiates
                kind, closes_on = GRADIENT, "B"
            self._open(kind, closes_on, frame, module, args, kwargs)
            run = self._run
            if run is not None and closes_on != "F":
                run.only_evaluated = trains and evaluates and closes_on == "S"
                run.forwards = Forwards()
        elif not evaluates and is_model:
            self._trains(run)
        self._note("F")

    def _trains(self, run: TorchRun) -> None:
        """What looked like an evaluation is a step after all."""
        if run.only_evaluated:
            run.only_evaluated = False
            self._turns_out(run, TRAINING)

    def _settle_forwards(
        self, frame: FrameType | None, module: torch.nn.Module | None = None
    ) -> None:
        """Something new comes: a run that has nothing but forward passes may be over.

        It is one of an evaluation whose author forgot ``no_grad``, if all that came of them is
        gone, or if the model is called in evaluation mode now.

        Args:
            frame: the user's.
            module: that is called; ``None``: something other than a forward pass comes.
        """
        run = self._run
        if run is None or run.closes_on not in "SEB" or run.forwards is None:
            return
        if set(run.events) != {"F"}:
            return
        is_over = run.forwards.are_forgotten()
        if module is not None and is_over:
            run.cut_short = run.forwards.error
        if module is not None:
            is_over = is_over or run.only_evaluated
            is_over = is_over or (not module.training and run.forwards.has_trained(module))
            # What a transform of `torch.func` differentiates goes on until it has.
            is_over = is_over and not is_differentiating()
        elif run.closes_on == "B":
            is_over = False
        if is_over:
            self._evaluated(run)
            self.close_run(frame=frame)

    def _evaluated(self, run: TorchRun) -> None:
        """It was an evaluation, whatever it looked like."""
        if run.kind != INFERENCE:
            self._turns_out(run, INFERENCE)

    def end(self) -> None:
        run = self._run
        if run is not None and run.forwards is not None and set(run.events) == {"F"}:
            run.is_complete = run.only_evaluated or run.forwards.are_forgotten()
            if run.is_complete:
                self._evaluated(run)
        elif run is not None and run.closes_on == "U":
            run.is_complete = True
        super().end()

    def _turns_out(self, run: TorchRun, kind: str) -> None:
        """A run is of another kind than it seemed to be when it began."""
        self.counts[run.kind] -= 1
        self.counts[kind] = self.counts.get(kind, 0) + 1
        run.kind = run.description.kind = kind
        run.description.number = self.counts[kind]

    def _is_trained(self, module: torch.nn.Module) -> bool:
        """Whether something updates parameters of a module, as far as one can tell."""
        if self._program.setting("run_end"):
            return any(parameter.requires_grad for parameter in module.parameters())
        return self.optimizers.own(module)

    # Small things.

    def _is_block(self) -> bool:
        return self._run is not None and not self._run.closes_on

    def _look(self, done: Callable[..., None], *arguments: Any) -> None:
        """Something is done; what the watcher then does opens and closes no run."""
        self._depth += 1
        try:
            with self.quiet():
                done(*arguments)
        except Exception as error:
            pass_on(error)
            self.give_up(error)
        finally:
            self._depth -= 1

    def _note(self, event: str) -> None:
        if self._run is not None:
            self._run.events += event

    def _ends_run(self, key: int) -> bool:
        """Whether the recording of a run is going to end with an optimizer's step."""
        run = self._run
        if run is None or run.closes_on != "S" or self._backward_depth or run.prompted is not None:
            return False
        return isinstance(run.watcher, RecordingLevel) and not self._another(run, key)

    def _another(self, run: TorchRun, key: int) -> bool:
        """Whether another optimizer's step is known to follow this one's at once."""
        following = self._together.get(key)
        return following is not None and following not in run.stepped

    def _settle_steps(self) -> None:
        """Something other than a step comes: a run that waited for another step is over."""
        self._settle_update()
        run = self._run
        self._last_stepped = None
        if run is not None and run.stepped and run.closes_on == "S":
            self._together.pop(run.stepped[-1], None)
            self.close_run()


class _Boundary:
    """Inside the outermost call nothing opens or closes a run, but an error that leaves it.

    Args:
        runs: those that are told.
        event: that the call is.
    """

    __slots__ = ("_event", "_runs")

    def __init__(self, runs: Runs, event: str) -> None:
        self._runs, self._event = runs, event

    def __enter__(self) -> None:
        self._runs._depth += 1

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        runs = self._runs
        runs._depth -= 1
        if not runs._depth and isinstance(error, Exception | KeyboardInterrupt):
            runs.fail(error, "" if runs._is_block() else self._event)


def _within(context: contextlib.AbstractContextManager[Any], given: Invocation) -> Around:
    with context:
        return (yield given)
