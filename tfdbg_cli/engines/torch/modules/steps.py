"""Steps of optimizers: what one writes to is copied before, so that it can be made once more."""

from __future__ import annotations

import contextlib
import functools
import operator
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch.optim import Adam, AdamW

from tfdbg_cli.common.interpreter.signal_gate import uninterrupted
from tfdbg_cli.engines.kit.patching.places import seem
from tfdbg_cli.engines.kit.stacks import Stack
from tfdbg_cli.engines.torch.around.surrounding import Around, Invocation, surrounding
from tfdbg_cli.engines.torch.modules.effects import ReplayRefusal, confined, fenced
from tfdbg_cli.engines.torch.modules.reach import Reach
from tfdbg_cli.engines.torch.modules.state import (
    keep_container,
    keep_object,
    keep_random,
    keep_reached,
)
from tfdbg_cli.engines.torch.names.sites import tensors_in
from tfdbg_cli.engines.torch.private import (
    calls_hooks,
    copy_all,
    quiet,
    storage_key,
    uncounted,
    write_count,
)
from tfdbg_cli.engines.torch.record.capture_levels import FullLevel
from tfdbg_cli.engines.torch.record.fast_steps import DTYPES, LARGEST, MOST_BYTES
from tfdbg_cli.engines.torch.record.op_record import OPTIMIZER
from tfdbg_cli.engines.torch.values.access import Access, access
from tfdbg_cli.engines.torch.values.layouts import same_bits, undisturbed

__all__ = ["Steps", "closure_in"]

# Numbers with which a step of Adam can't go bad.
_LEAST_EPS, _LARGEST_BETA = 1e-16, 0.9999

_dtype_of = operator.attrgetter("dtype")
_Form = tuple[torch.Size, torch.dtype, torch.device]


class _OptimizerFacts:
    """What is known of an optimizer after its first step.

    Attributes:
        writes_gradients: a step has written to a gradient.
        copies: memory for copies of what it writes to.
    """

    def __init__(self) -> None:
        self.writes_gradients: bool | None = None
        self.copies: list[torch.Tensor] = []
        self.forms: list[_Form] = []


_known: weakref.WeakKeyDictionary[Any, _OptimizerFacts] = weakref.WeakKeyDictionary()


class StepStart:
    """What a step of any optimizer begins with; cheap to take.

    Args:
        optimizer: is about to make it; its closure has been called.
        most: bytes that copies may take.

    Attributes:
        parameters: those that it updates.
        refusal: why it can't be made once more: a clause; empty: it can.
    """

    @uninterrupted
    def __init__(self, optimizer: Any, most: int) -> None:
        self.optimizer = optimizer
        self.parameters: list[torch.Tensor] = []
        self._gradients: list[tuple[torch.Tensor, torch.Tensor, int]] = []
        known = _known.get(optimizer)
        if known is None:
            known = _known[optimizer] = _OptimizerFacts()
        self._known = known
        with quiet():
            is_ordinary = _is_ordinary(optimizer)
        if is_ordinary:
            self.refusal = (
                "the tensors that it writes to aren't copied if its settings are the usual ones"
            )
            return
        with undisturbed():  # the program's modes and classes of tensors are asked nothing
            self._begin(optimizer, known, most)

    def _begin(self, optimizer: Any, known: _OptimizerFacts, most: int) -> None:
        # One may make the steps of another.
        inner = [] if _is_known(optimizer) else vars(optimizer).values()
        self._optimizers = [optimizer, *(e for e in inner if isinstance(e, torch.optim.Optimizer))]
        self.parameters = [each for group in optimizer.param_groups for each in group["params"]]
        gradients = ((each, each.grad) for each in self.parameters)
        self._gradients = [
            (each, grad, write_count(grad)) for each, grad in gradients if grad is not None
        ]
        self._tensors = list(self._written())
        self.refusal = self._why_not(most)
        if self.refusal:
            return
        forms = [(each.shape, each.dtype, each.device) for each in self._tensors]
        if forms != known.forms:
            known.copies = [torch.empty_like(each) for each in self._tensors]
            known.forms = forms
        copy_all(known.copies, self._tensors)
        self._put_back = self._keep_structure()

    def _written(self) -> Iterator[torch.Tensor]:
        """What it may write to."""
        seen = set[int]()
        found: list[Any] = [*self.parameters]
        for optimizer in self._optimizers:
            for state in optimizer.state.values():
                for value in state.values() if isinstance(state, dict) else (state,):
                    if isinstance(value, torch.Tensor):
                        found.append(value)
                    elif isinstance(value, list | tuple | dict):
                        found += [tensor for _, tensor in tensors_in("", value)]
            if not _is_known(optimizer):
                for name, value in vars(optimizer).items():
                    if name not in ("param_groups", "state"):
                        found += [tensor for _, tensor in tensors_in("", value)]
        if self._known.writes_gradients is not False:
            found += [gradient for _, gradient, _ in self._gradients]
        for tensor in found:
            if id(tensor) not in seen:
                seen.add(id(tensor))
                yield tensor

    def _why_not(self, most: int) -> str:
        if any(map(calls_hooks, self._optimizers)):
            return "it calls hooks"
        if any(access(each) is not Access.HOST for each in self._tensors):
            return "not all tensors that it writes to are in the memory of the CPU"
        size = sum(each.nbytes for each in self._tensors)
        if size > min(most, MOST_BYTES, LARGEST * len(self._tensors)):
            return f"a copy of its tensors would take {size / 1e6:.0f} MB in each run"
        return ""

    def _keep_structure(self) -> Sequence[Callable[[], None]]:
        """Keep what holds the tensors; returns the ways back."""
        kept = [] if _is_known(self.optimizer) else [keep_random()]
        for optimizer in self._optimizers:
            kept += [keep_object(optimizer), keep_container(optimizer.state)]
            kept += [keep_container(each) for each in optimizer.param_groups]
            for state in optimizer.state.values():
                if isinstance(state, dict):
                    kept.append(keep_container(state))
                    kept += [keep_container(each) for each in state.values() if type(each) is list]
        return kept

    def learn(self) -> None:
        """It was made; what was written to is known now."""
        if self._known.writes_gradients is None and self._gradients:
            self._known.writes_gradients = self._has_written_gradients()

    def _has_written_gradients(self) -> bool:
        with undisturbed():
            return any(write_count(each) != version for _, each, version in self._gradients)

    def again(self, make: Callable[[], Any], around: AbstractContextManager[None]) -> bool:
        """Make it once more, and leave all as the first step has left it.

        Args:
            make: makes it, and has it recorded.
            around: what is no part of the program.

        Returns:
            Whether that came to the same.

        Raises:
            ReplayRefusal: it can't be made, or wouldn't be unnoticed.
        """
        if self.refusal:
            raise ReplayRefusal(self.refusal)
        if not self._known.writes_gradients and self._has_written_gradients():
            raise ReplayRefusal("it has written to gradients")
        with undisturbed():
            after = [each.detach().clone() for each in self._tensors]
            memories = [each.data for each in self.parameters]
            gradients = [each.grad for each in self.parameters]
            restore = [*self._keep_structure()]
            if not _is_known(self.optimizer):
                restore += keep_reached(Reach(self.optimizer))
            _put(self._tensors, self._known.copies)
            for put_back in reversed(self._put_back):
                put_back()
            for parameter, gradient, _ in self._gradients:
                parameter.grad = gradient
            own = {storage_key(each) for each in self._tensors}
        try:
            with contextlib.ExitStack() as counts, around, confined(), fenced(own):
                for each in self._tensors:
                    if not each.is_inference():
                        counts.enter_context(uncounted(each))
                make()
            with undisturbed():
                return all(map(same_bits, after, self._tensors))
        finally:
            with undisturbed():
                for parameter, memory, first in zip(
                    self.parameters, memories, gradients, strict=True
                ):
                    if parameter.data_ptr() != memory.data_ptr():
                        parameter.data = memory
                    parameter.grad = first
                _put(self._tensors, after)
                for put_back in reversed(restore):
                    put_back()


class Steps:
    """The steps of optimizers in one run, made so that the last one can be made once more.

    Args:
        recorder: of the ops outside of modules.
        most: bytes that copies may take.

    Attributes:
        is_open: the ops of a step are recorded.
        stack: where the last one was called, as the level says.
        remade: the parameters whose step was made once more.
        warnings: what is to be said of that.
    """

    def __init__(self, recorder: FullLevel, most: int) -> None:
        self._recorder, self._most = recorder, most
        self._last: tuple[StepStart, Callable[[], Any]] | None = None
        self.is_open = False
        self.stack: Stack | None = None
        self.remade: Sequence[torch.Tensor] = ()
        self.warnings: list[str] = []

    def make(
        self,
        optimizer: Any,
        call: Invocation,
        wake: Callable[[], None],
        rest: Callable[[], None],
    ) -> Around:
        """Make one.

        Args:
            optimizer: whose step it is.
            call: makes it.
            wake, rest: let the recorder see ops from now on, or no longer.
        """
        make, args, kwargs = call
        closure = closure_in(args, kwargs)
        if closure is not None and not _calls_once(optimizer, closure):
            self._recorder.enter_phase(OPTIMIZER, optimizer)
            try:
                with self._opened(wake):  # it isn't made once more
                    return (yield call)
            finally:
                self._recorder.leave_phase()
        starts: list[tuple[StepStart, Callable[[], Any]]] = []
        if closure is not None:

            def calling() -> Around:
                with self._opened(wake):
                    loss = yield closure, (), {}
                rest()
                again = functools.partial(make, lambda: loss)  # it isn't called once more
                starts.append((StepStart(optimizer, self._most), again))
                return loss

            standing = surrounding(closure, calling)
            seem(standing, closure)
            call = make, (standing,), {}
        else:
            again = functools.partial(make, *args, **kwargs)
            starts.append((StepStart(optimizer, self._most), again))
        value = yield call
        for start, _ in starts:
            start.learn()
        self._last = starts[-1] if starts else None
        return value

    @contextlib.contextmanager
    def _opened(self, wake: Callable[[], None]) -> Iterator[None]:
        """What is done in a step is looked at as if there were none around it."""
        was_open = self.is_open  # a closure may make another optimizer's step with one
        self.is_open = True
        wake()
        try:
            yield
        finally:
            self.is_open = was_open

    def end(self, around: AbstractContextManager[None] | None) -> str:
        """The last one is over; make it once more, with every op recorded, if something is bad.

        Args:
            around: what is no part of the program; ``None``: nothing is bad.

        Returns:
            Why it can't be made once more; empty: it was, or needn't be.
        """
        last, self._last = self._last, None
        if last is None or around is None:
            return ""
        start, make = last
        recorder, kind = self._recorder, type(start.optimizer).__name__
        find_again: list[Callable[[], None]] = []

        def step_again() -> None:
            recorder.resume()
            try:
                recorder.enter_phase(OPTIMIZER, start.optimizer, self.stack)
                make()
                recorder.leave_phase()
                recorder.holder.settle()
                with quiet():
                    find_again.extend(map(recorder.ops.followed, start.parameters))
            finally:
                recorder.pause()

        try:
            if not recorder.can_resume:
                raise ReplayRefusal("something else was recorded since")
            is_same = start.again(step_again, around)
        except ReplayRefusal as refusal:
            return f"{kind}.step(): {refusal}"
        for find in find_again:
            find()
        if not is_same:
            self.warnings.append(f"The replay of {kind}.step() returned something else.")
        self.remade = start.parameters
        return ""


def closure_in(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The closure that a step is given, or what else; ``None``: nothing.

    Accelerate, and so the Trainer of Transformers, hands on a closure that is none.
    """
    return next((each for each in (*args, *kwargs.values()) if each is not None), None)


def _calls_once(optimizer: Any, closure: Any) -> bool:
    """Whether an optimizer calls a closure once, before it does anything else.

    Hooks of the program's may call it, too, or ask which it is.
    """
    is_known = _is_known(optimizer) and not isinstance(optimizer, torch.optim.LBFGS)
    return is_known and callable(closure) and not calls_hooks(optimizer)


def _is_ordinary(optimizer: Any) -> bool:
    """Whether a step makes nothing bad of what is clean, but for gradients at the dtype's end.

    Adam divides a mean of gradients by the root of a mean of their squares. If these overflow, too,
    what is taken from a parameter is small.
    """
    return type(optimizer) in (Adam, AdamW) and all(
        {type(group["lr"]), type(group["eps"]), type(group["weight_decay"])} <= {int, float}
        and 0 <= group["lr"] <= 1
        and _LEAST_EPS <= group["eps"] <= 1
        and 0 <= group["weight_decay"] <= 1
        and all(type(beta) is float and 0 <= beta <= _LARGEST_BETA for beta in group["betas"])
        and {*map(_dtype_of, group["params"])} <= DTYPES
        for group in optimizer.param_groups
    )


def _is_known(optimizer: Any) -> bool:
    """Whether it is one of PyTorch's."""
    return type(optimizer).__module__.startswith("torch.optim.")


def _put(tensors: Sequence[torch.Tensor], copies: Sequence[torch.Tensor]) -> None:
    # Through `data`, whose version is its own: the program must not take it for a change.
    copy_all([each.data for each in tensors], copies)
