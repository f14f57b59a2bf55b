"""Makes one call of a module once more under full recording; the program doesn't notice.

The level *modules* sees only what modules return. If that is bad, the call is repeated here to find
the op. This happens before the optimizer's step: until then inputs and parameters are mostly what
they were at the call.

1. `Replayer.check` refuses if anything has changed since then: the version counters of inputs and
   parameters, train or eval mode, a dispatch mode that would see the second call.
2. `Replayer._run` puts the module back into the state at the call: its buffers, the random
   generators, grad mode and autocast. Afterwards everything is as it was before the replay, and
   nothing that the module printed or set in between remains.
3. The module is called, with its hooks: what they and its own code reach by name is put back, too
   (`Reach`). If gradients are asked for, the inputs are clones, and the gradients that reached the
   outputs the first time go into `torch.autograd.grad`, which leaves every ``.grad`` alone.
4. The new outputs are compared with the first ones, bit by bit. If they differ, the call depended
   on something else, and the screen says so.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from tfdbg_cli.common.errors import one_line
from tfdbg_cli.common.interpreter.program_signals import pass_on
from tfdbg_cli.dumps.dump import bound
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.engines.base import Watch
from tfdbg_cli.engines.kit.levels import ORIGIN
from tfdbg_cli.engines.torch.around.surrounding import Around
from tfdbg_cli.engines.torch.modes import function_modes
from tfdbg_cli.engines.torch.modules.calls import Gradient, ModuleCall
from tfdbg_cli.engines.torch.modules.effects import ReplayRefusal, confined, is_sharded, spared
from tfdbg_cli.engines.torch.modules.reach import Reach
from tfdbg_cli.engines.torch.modules.state import (
    has_iterator,
    held_tensors,
    put_random,
    unchanged,
    under,
    version_of,
)
from tfdbg_cli.engines.torch.names.scopes import Names
from tfdbg_cli.engines.torch.names.sites import replaced, tensors_in
from tfdbg_cli.engines.torch.private import (
    default_device_mode,
    is_wrapped,
    storage_key,
    without_hooks,
)
from tfdbg_cli.engines.torch.record.assembly import RunDump
from tfdbg_cli.engines.torch.record.capture import program_modes
from tfdbg_cli.engines.torch.record.capture_levels import FullLevel
from tfdbg_cli.engines.torch.record.run_recorder import RunRecorder
from tfdbg_cli.engines.torch.runs.exact_check import is_nonfinite
from tfdbg_cli.engines.torch.runs.unused import UnusedOps
from tfdbg_cli.engines.torch.values.layouts import same_bits, undisturbed

__all__ = ["Aside", "Replay", "ReplayRefusal", "Replayer"]

_WRITTEN = "an input was written to, by the module itself or later"

#: Around what is no part of the program: module calls within go through the visitor.
Aside = Callable[[Any], contextlib.AbstractContextManager[None]]


@dataclass
class Replay:
    """What came of making a call once more.

    Attributes:
        call: as the program has made it.
        dump: of its ops.
        passed: a tensor in it passes the filter, not only what it gets.
        came_in: something that it gets was bad already, and not by a module.
        inputs: tensors that it got -> what they are called in the dump.
        outputs: slot -> what its outputs are called.
        kept: tensors that the module keeps elsewhere, with the same elements as the second time ->
            what they are called.
        handed: slot -> what the gradients are called that its backward pass began with.
        gradients: the tensors that it got, its parameters -> what their gradients are called.
        time: when its backward pass began; 0: none was made.
        differs: it has returned something else than the first time.
        is_late: it has written to tensors that were what the first call had left.
        is_bad: there was a nan or an infinity, and where one was returned the first time, again.
    """

    call: ModuleCall
    dump: MemoryDump
    passed: bool
    inputs: list[tuple[torch.Tensor, str]] = field(default_factory=list)
    outputs: dict[int, str] = field(default_factory=dict)
    kept: list[tuple[torch.Tensor, str]] = field(default_factory=list)
    handed: dict[int, str] = field(default_factory=dict)
    gradients: list[tuple[torch.Tensor, str]] = field(default_factory=list)
    time: int = 0
    differs: bool = False
    is_late: bool = False
    is_bad: bool = False
    came_in: bool = False


class Replayer:
    """Makes calls of modules once more.

    The inputs have to be there, unchanged; the parameters, too. Buffers and random numbers are
    those of the first time as far as they are known, and afterwards what they were before. What is
    printed is dropped.

    Args:
        watch: what is awaited.
        names: what things are called.
        aside: around what is no part of the program.
        unused: knows what was written between runs.
    """

    def __init__(self, watch: Watch, names: Names, aside: Aside, unused: UnusedOps) -> None:
        self._watch = watch
        self._names = names
        self._aside = aside
        self._unused = unused

    def _level(self) -> FullLevel:
        made = FullLevel(self._watch, self._names)
        made.ops.unused = self._unused
        return made

    def again(self, call: ModuleCall, backward: int | None = None) -> Replay:
        """Make a call once more, and its last backward pass if there was one.

        Args:
            call: as the program has made it.
            backward: when the backward pass, which this is about, had something bad; ``None``: it
                is about the call.

        Raises:
            ReplayRefusal: that isn't possible, or would not be unnoticed.
        """
        self.check(call)
        needs_gradients = backward is not None
        gradients = {
            slot: found[-1]
            for slot, border in call.borders.items()
            if (found := [g for g in border.gradients if backward is None or g.time <= backward])
        }
        if gradients and all(each.is_whole for each in gradients.values()):
            try:
                return self._with_backward(call, gradients)
            except ReplayRefusal:  # reentrant checkpoints refuse `grad`
                if needs_gradients:
                    raise
        if not needs_gradients:
            return self._without(call)
        if not gradients:
            raise ReplayRefusal("no gradient has reached it")
        raise ReplayRefusal("the gradients that reached it were written to since")

    def _without(self, call: ModuleCall) -> Replay:
        assert call.arguments is not None
        twins = {key: _unwritten(copy, is_leaf=False)[1] for key, copy in call.written.items()}
        args, kwargs = _arguments(call, twins)
        level = self._level()
        given = _CallArguments(call, twins)
        done = self._run(level, call, twins, lambda: self._forward(level, given, args, kwargs))
        return self._result(level, call, done, given.named())

    def _with_backward(self, call: ModuleCall, gradients: dict[int, Gradient]) -> Replay:
        leaves: dict[int, torch.Tensor] = {}
        twins: dict[int, torch.Tensor] = {}
        for tensor, _ in call.tensors:
            key = id(tensor)
            if key in call.written:
                leaf, twins[key] = _unwritten(call.written[key], is_leaf=tensor.requires_grad)
            elif tensor.requires_grad:
                leaf = twins[key] = tensor.detach().clone().requires_grad_()
            if tensor.requires_grad:
                leaves[key] = leaf
        args, kwargs = _arguments(call, twins)
        level = self._level()
        given = _CallArguments(call, twins)
        found: dict[int, torch.Tensor] = {}

        def run() -> Any:
            output = self._forward(level, given, args, kwargs)
            found.update(self._backward(level, call, output, gradients, leaves))
            return output

        done = self._run(level, call, twins, run)
        handed = {
            slot: level.tensor_name(each.tensor)
            for slot, each in gradients.items()
            if each.tensor is not None
        }
        result = self._result(level, call, done, given.named())
        result.handed = handed
        known = (*(tensor for tensor, _ in call.tensors), *call.parameters)
        by_id = {id(tensor): tensor for tensor in known}
        result.gradients = [
            (by_id[key], name)
            for key, gradient in found.items()
            if key in by_id and (name := level.tensor_name(gradient))
        ]
        result.time = max(each.time for each in gradients.values())
        return result

    # The parts of it.

    def check(self, call: ModuleCall) -> None:
        """Raise `ReplayRefusal` where something is known to be in the way of a second call."""
        assert call.arguments is not None
        assert call.start is not None
        given = [each for each in call.tensors if id(each[0]) not in call.written]
        if any(version_of(tensor) != version for tensor, version in given):
            raise ReplayRefusal(_WRITTEN)
        if is_sharded((*call.chain, *call.module.modules())):
            raise ReplayRefusal("its parameters are shared out between ranks")
        if any(isinstance(value, Iterator) for value in (*call.arguments[0], *call.arguments[1])):
            raise ReplayRefusal("it is given an iterator")
        if not call.start.has_same_parameters():
            raise ReplayRefusal("parameters were written to since")
        if any(map(is_wrapped, call.parameters)):
            raise ReplayRefusal("a transform of torch.func is at work on its parameters")
        if call.module.training != call.trains:
            raise ReplayRefusal("it is in another mode now (train or eval)")
        for part in filter(has_iterator, call.module.modules()):
            raise ReplayRefusal("it keeps an iterator", (part,))
        Reach(call.module, call.arguments)
        others = [mode for mode in function_modes() if mode is not default_device_mode()]
        if call.is_watched or program_modes() or others:
            raise ReplayRefusal("a mode of the program would see it")

    @contextlib.contextmanager
    def around(
        self, recorder: RunRecorder, outermost: torch.nn.Module | None = None
    ) -> Iterator[None]:
        """What is done within is no part of the program; it is recorded by one.

        Args:
            recorder: records it.
            outermost: the module whose call it is told of already.
        """
        tracer = sys.gettrace()
        sys.settrace(None)
        try:
            with self._aside(_Visitor(recorder, outermost)):
                yield
        except (ReplayRefusal, KeyboardInterrupt):
            raise
        except BaseException as error:
            pass_on(error)
            raise ReplayRefusal(f"it failed the second time ({one_line(error)})") from None
        finally:
            sys.settrace(tracer)

    def _run(
        self,
        level: FullLevel,
        call: ModuleCall,
        twins: Mapping[int, torch.Tensor],
        run: Callable[[], Any],
    ) -> _Done:
        """Do something as at the time of a call; what it changes is put back."""
        start = call.start
        assert start is not None
        reach = Reach(call.module, call.arguments)
        before = held_tensors(call.module)
        level.begin_run()
        try:
            with (
                self.around(level, call.module),
                unchanged(call.module, reach),
                confined(),
                spared() as overwritten,
            ):
                start.restore()
                put_random(call.random)
                with under(call.under):
                    level.start()
                    try:
                        output = run()
                    finally:
                        level.stop()
                level.holder.settle()  # what is put back now isn't seen
                known = {storage_key(each) for each in (*start.copied(), *twins.values())}
                kept = [
                    (before[place], each)
                    for place, each in held_tensors(call.module).items()
                    if place in before and before[place] is not each
                ]
                return _Done(output, kept, not overwritten() <= known)
        except BaseException:
            level.discard()
            raise

    def _forward(self, level: FullLevel, given: _CallArguments, args: Any, kwargs: Any) -> Any:
        call = given.call
        names = _argument_names(call.module, args, kwargs)
        level.enter_again(call.chain, call.count, call.stack)
        level.name_inputs(lambda: names)
        given.take_names(level)
        output = None
        try:
            output = call.module(*args, **kwargs)
        finally:
            level.leave_module(call.module, output)
        return output

    def _backward(
        self,
        level: FullLevel,
        call: ModuleCall,
        output: Any,
        gradients: dict[int, Gradient],
        twins: dict[int, torch.Tensor],
    ) -> dict[int, torch.Tensor]:
        """The gradients of what a call gets and of its parameters, by the ids of those."""
        made = [tensor for _, tensor in tensors_in("", output)]
        pairs = [
            (made[slot], gradient.tensor)
            for slot, gradient in gradients.items()
            if slot < len(made) and made[slot].requires_grad and gradient.tensor is not None
        ]
        parameters = [each for each in call.parameters if each.requires_grad]
        leaves = {id(each): each for each in parameters} | twins
        if not pairs or not leaves:
            raise ReplayRefusal("it has no gradients the second time")
        stack = next(iter(gradients.values())).stack
        level.enter_phase("backward", [tensor for tensor, _ in pairs], stack)
        try:
            with without_hooks(parameters):
                found = torch.autograd.grad(
                    [tensor for tensor, _ in pairs],
                    list(leaves.values()),
                    [gradient for _, gradient in pairs],
                    allow_unused=True,
                )
        finally:
            level.leave_phase()
        return {
            key: gradient
            for key, gradient in zip(leaves, found, strict=True)
            if gradient is not None
        }

    def _result(
        self,
        level: FullLevel,
        call: ModuleCall,
        done: _Done,
        inputs: list[tuple[torch.Tensor, str]],
    ) -> Replay:
        made = [tensor for _, tensor in tensors_in("", done.output)]
        outputs = {slot: level.tensor_name(tensor) for slot, tensor in enumerate(made)}
        differs = is_good = False
        with undisturbed():
            for slot, border in call.borders.items():
                first = border.tensor()
                if first is None or slot >= len(made) or same_bits(first, made[slot]):
                    continue
                differs = True
                is_good = is_good or (is_nonfinite(first) and not is_nonfinite(made[slot]))
            kept = [
                (first, level.tensor_name(again))
                for first, again in done.kept
                if same_bits(first, again)
            ]
        capture = level.finish(None)
        dump = capture.dump
        if dump is None:
            assert capture.make_dump is not None
            dump = capture.make_dump()
        assert isinstance(dump, RunDump)
        dump.settle()  # the update that comes isn't seen
        replay = Replay(call, dump, bool(capture.filter_passed), inputs, outputs)
        replay.differs, replay.is_bad = differs, level.has_nonfinite and not is_good
        replay.is_late, replay.kept = done.is_late, [pair for pair in kept if pair[1]]
        if replay.passed:
            self._look_at_inputs(replay)
        return replay

    def _look_at_inputs(self, replay: Replay) -> None:
        """Find out whether something bad began in a call, or what it gets was bad."""
        known = {id(border.reference()) for border in replay.call.sources}
        own = [each for each, _ in replay.inputs if id(each) not in known]
        is_bad = any(is_nonfinite(replay.call.written.get(id(each), each)) for each in own)
        if not is_bad or self._watch.predicate is None:
            return
        if self._watch.filter_name != ORIGIN:  # what it gets is the first bad tensor
            replay.came_in = True
            return
        dump, given = replay.dump, {name for _, name in replay.inputs}
        predicate = bound(self._watch.predicate, dump)
        replay.came_in = not any(
            predicate(datum, dump.value(datum))
            for datum in dump.data()
            if datum.tensor_name not in given
            and (dump.suspects is None or datum.tensor_name in dump.suspects)
        )


class _Done(NamedTuple):
    """What came of doing something as at the time of a call.

    Attributes:
        output: what it returns.
        kept: tensors that the module keeps, as the program's own call has left them and as this has
            made them.
        is_late: it writes to memory that wasn't what it was at the call.
    """

    output: Any
    kept: list[tuple[torch.Tensor, torch.Tensor]]
    is_late: bool


class _CallArguments:
    """What a call gets, and what that is called before the call writes to it.

    Args:
        call: as the program has made it.
        twins: what it is given in place of tensors, by the ids of those.
    """

    def __init__(self, call: ModuleCall, twins: dict[int, torch.Tensor]) -> None:
        self.call = call
        self._twins = twins
        self._before: dict[int, Callable[[], str]] = {}
        self._level: FullLevel | None = None

    def take_names(self, level: FullLevel) -> None:
        """The call is about to be made."""
        self._level = level
        for key in self.call.written:
            self._before[key] = level.name_later(self._twins[key])

    def named(self) -> list[tuple[torch.Tensor, str]]:
        """The tensors of the program with their names, after the call."""
        level = self._level
        assert level is not None
        return [
            (
                tensor,
                self._before[id(tensor)]()
                if id(tensor) in self._before
                else level.tensor_name(self._twins.get(id(tensor), tensor)),
            )
            for tensor, _ in self.call.tensors
        ]


class _Visitor:
    """Makes the calls of modules within another one, on this thread.

    Args:
        recorder: is told of them.
        outermost: a module whose next call it is told of already.
    """

    def __init__(self, recorder: RunRecorder, outermost: torch.nn.Module | None) -> None:
        self._recorder = recorder
        self._outermost = outermost
        self._thread = threading.get_ident()

    def takes(self) -> bool:
        """Whether a call that is made now belongs to it."""
        return threading.get_ident() == self._thread

    def around(
        self, original: Callable[..., Any], module: torch.nn.Module, args: Any, kwargs: Any
    ) -> Around:
        """The call, with its hooks."""
        invocation = original, (module, *args), kwargs
        if module is self._outermost:
            self._outermost = None
            return (yield invocation)
        recorder = self._recorder
        recorder.enter_module(module)
        output = None
        try:
            output = yield invocation
        except ReplayRefusal as refusal:
            refusal.modules = refusal.modules or (module,)
            raise
        finally:
            recorder.leave_module(module, output)
        return output


def _argument_names(module: torch.nn.Module, args: Sequence[Any], kwargs: Any) -> dict[str, Any]:
    from tfdbg_cli.engines.kit.sites import argument_names

    return argument_names(module.forward, tuple(args), kwargs)


def _unwritten(copy: torch.Tensor, *, is_leaf: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """A leaf, and what a call is given in its place to write to."""
    with undisturbed(), torch.inference_mode(copy.is_inference()):
        leaf = copy.clone()
        if is_leaf:
            with torch.enable_grad():
                return leaf.requires_grad_(), leaf.clone()
    return leaf, leaf


def _arguments(call: ModuleCall, twins: dict[int, torch.Tensor]) -> tuple[Any, Any]:
    """The arguments of a call with other tensors in place of some."""
    written = [tensor for tensor, _ in call.tensors if id(tensor) in call.written]
    args, kwargs = replaced(call.arguments, twins)
    left = {id(tensor) for _, tensor in tensors_in("", (args, kwargs))}
    # One whose place isn't known, or that shares its memory.
    if len(set(map(storage_key, written))) < len(written) or left & call.written.keys():
        raise ReplayRefusal(_WRITTEN)
    return args, kwargs
