"""A run that goes on only as far as a block's reads ask it to."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.common.interpreter.program_signals import contained
from tfdbg_cli.dumps.dump import RunInfo
from tfdbg_cli.dumps.elements import parse_execution
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.engines.base import Capture, HasGradients, OpenEndedRun, SteppedRun, no_modules
from tfdbg_cli.stepping.stepper import Step
from tfdbg_cli.tracing.calls import Calls
from tfdbg_cli.tracing.errors import AbsentError, OutOfOrderError, TraceError, user_line
from tfdbg_cli.tracing.handed import Handouts
from tfdbg_cli.tracing.order import Order

__all__ = ["Drive"]

_STOPPED = "The run was ended by t.stop()"
_NOT_MEANT = "The run doesn't compute the tensors that the block asks for"
_GIVEN_UP = "The run was given up when the block raised an error"


class Drive:
    """Drives a stepped run for a block.

    Args:
        run: at its beginning.
        info: makes what is told of the run on screens and in dumps.
        keep: values that were passed may be read.
        from_inside: the block is the run's own code: it can't be driven, only looked at.
        is_borrowed: somebody else has asked for the run, and finishes it.
    """

    def __init__(
        self,
        run: SteppedRun,
        info: Callable[[], RunInfo],
        *,
        keep: bool = False,
        from_inside: bool = False,
        is_borrowed: bool = False,
    ) -> None:
        self.run = run
        self._info = info
        self._keep = keep or from_inside
        self._from_inside = from_inside
        self._is_borrowed = is_borrowed
        self._order = Order(run)
        self._values = Handouts(run)
        self._gradients = Handouts(run)
        #: Of modules.
        self.calls = Calls(self, from_inside=from_inside)
        self.opened = run if isinstance(run, OpenEndedRun) else None
        self._graded = run if isinstance(run, HasGradients) else None
        if self.opened is not None and from_inside:
            self.opened.before_each(self.settle)
        if self.opened is not None and self._keep:
            self.opened.modules.keep(only_last=from_inside and not keep)
        #: Tensors that may never come, and where they were assigned to.
        self._assigned: dict[str, TracebackType | None] = {}
        self._assigned_gradients: dict[str, TracebackType | None] = {}
        self._capture: Capture | None = None
        self._ended = ""
        self.is_withdrawn = False
        #: Where somebody else's run was when the block got it, and what was overridden.
        self._start = run.position if is_borrowed and not run.is_open_ended else None
        self._before = dict(run.overrides) if is_borrowed else {}

    def program(self) -> OpenEndedRun:
        """The run, whose modules are asked for.

        Raises:
            UserError: it has none.
        """
        if self.opened is None:
            raise no_modules(self.run.engine_name)
        return self.opened

    @property
    def is_over(self) -> bool:
        """Whether the run is at its end, or was ended before."""
        return self._capture is not None or bool(self._ended)

    def read(self, name: str) -> Any:
        """The value of a tensor; the run goes on until it is computed.

        Raises:
            OutOfOrderError: the run has passed it.
            TraceError: the run is over, or there is no such tensor in it.
            Exception: what the run itself raises on the way.
        """
        if self._from_inside:
            name = self._order.latest(name)
        if name in self._values:
            return self._values.get(name)
        self.settle()
        run = self.run
        index = self._order.maker(name)
        if self.is_over:
            if not (self._keep and self._capture is not None and index is not None):
                raise self.over(f"{name} was not read before")
        elif self._from_inside:
            if index is None and not run.has(name):
                raise self._order.ahead(name)
        elif index is None and not (run.is_open_ended or run.has(name)):
            raise self._order.unknown(name)
        elif index is None or index >= run.position:
            self._go_on(name, index)
        elif self._order.lacks(name):
            raise self._order.unknown(name)
        elif index < run.position - 1 and not (self._keep or run.steps[index].is_feed):
            raise self._order.passed(name, index)
        if not run.has(name):
            raise self._order.unknown(name)
        return self._values.add(name, run.value(name), run.lent(name))

    def _go_on(self, name: str, index: int | None) -> None:
        run = self.run
        if not (run.reach(name) if index is None else run.go_on(lambda: run.position > index)):
            self.end()
            raise self._order.unknown(name)

    def until(self, is_done: Callable[[], bool]) -> None:
        """Let the run go on until something is so, at most to its end."""
        if not self.is_over:
            self.settle()
            if not self.run.go_on(is_done):
                self.result()

    def assign(self, name: str, value: Any) -> None:
        """Give a tensor another value for the rest of the run.

        Raises:
            OutOfOrderError: a step that was done has used it.
            TraceError: the run is over, or there is no such tensor in it.
            UserError: the tensor can't have this value.
        """
        if self.is_over:
            raise self.over(f"{name} can't be changed any more")
        if self._from_inside:
            name = self._meant(name)
        self._values.drop(name)  # whatever the block has written into what it had
        self.settle()
        was_there = self._put(name, value)
        if was_there:
            self._values.add(name, self.run.value(name), self.run.lent(name))
        elif self._order.maker(name) is None:
            self._assigned[name] = user_line()

    def _put(self, name: str, value: Any) -> bool:
        """Override a tensor; whether it was there already."""
        run = self.run
        index = self._order.maker(name)
        if index is None and not (run.is_open_ended or run.has(name)):
            raise self._order.unknown(name)
        if index is not None and index < run.position and self._order.lacks(name):
            raise self._order.unknown(name)
        # One of several values is used by the step that it is inside of.
        reader = self._order.reader(name) if parse_execution(name)[1] is None else index
        is_known = index is not None or not run.is_open_ended
        if is_known and reader is not None and reader < run.position:
            raise self._order.used(name, index, reader)
        if self._is_blind_to(name):
            raise self._order.gone_on(name)
        was_there = run.has(name)
        run.override(name, value)
        return was_there

    def _is_blind_to(self, name: str) -> bool:
        return self.opened is not None and self.opened.is_blind_to(name)

    def _is_unused(self, name: str) -> bool:
        reader = self._order.reader(name)
        if self._is_blind_to(name):
            return False
        return self._order.maker(name) is None or reader is None or reader >= self.run.position

    def settle(self, *, is_end: bool = False) -> None:
        """Before the run goes on, let it have what the block has written into values.

        Args:
            is_end: the block is at its end.

        Raises:
            OutOfOrderError: the run has gone on with the value already.
            UserError: the tensor can't be changed.
        """
        if self.is_over:
            return
        for name in self._values.written(self._is_unused, is_end=is_end):
            try:
                self._put(name, self._values.get(name))
            except UserError as error:
                raise _written(name, "value", error) from None
        graded = self._graded
        if graded is None:
            return
        for name in self._gradients.written(graded.is_gradient_open, is_end=is_end):
            try:
                graded.set_gradient(name, self._gradients.get(name))
            except UserError as error:
                raise _written(name, "gradient", error) from None

    def _meant(self, name: str) -> str:
        """What an assignment is to where the block calls the module: in a loop the next call's.

        Until it was used or assigned to, a tensor of the last call is meant.
        """
        order = self._order
        latest = order.latest(name)
        if order.is_of_one_call(name) or order.maker(latest) is None:
            return name
        is_done_with = order.reader(latest) is not None or latest in self.run.overrides
        return order.coming(name) if is_done_with else latest

    def gradient(self, name: str) -> Any:
        """The gradient with respect to a tensor; the run goes on until it is computed.

        Raises:
            UserError: this engine has none, or the run computes none of this tensor.
        """
        if self._from_inside:
            name = self._order.latest(name)
        if name in self._gradients:
            return self._gradients.get(name)
        self.settle()
        graded = self._to_gradient(name, is_to_set=False)
        try:
            return self._gradients.add(name, graded.gradient(name))
        except KeyError:
            raise self._no_gradient(name) from None

    def assign_gradient(self, name: str, value: Any) -> None:
        """Let the backward pass go on with another gradient with respect to a tensor.

        Raises:
            UserError: it has none, or has used it, or it can't be this one.
        """
        if self.is_over:
            raise self.over(f"the gradient of {name} can't be changed any more")
        if self._from_inside:
            name = self._order.latest(name)
        self._gradients.drop(name)
        self.settle()
        graded = self._to_gradient(name, is_to_set=True)
        try:
            graded.set_gradient(name, value)
        except KeyError:
            raise self._no_gradient(name) from None
        self._assigned_gradients[name] = user_line()

    def _to_gradient(self, name: str, *, is_to_set: bool) -> HasGradients:
        """Let the run go on to where a gradient is known, or the tensor that it is of."""
        graded = self._graded
        if graded is None:
            raise UserError(
                f"The {self.run.engine_name} engine has no .grad.",
                "Gradients are tensors of the graph like any other: read them by their name.",
            )
        if self._from_inside or self.is_over:
            return graded
        if not self.run.go_on(lambda: graded.has_gradient(name, is_to_set=is_to_set)):
            self.end()
        return graded

    def _no_gradient(self, name: str) -> TraceError:
        if self._order.maker(name) is None and not self.run.is_made(name):
            return self._order.unknown(name)
        return TraceError(
            f"The run has computed no gradient with respect to {name} up to here.",
            "It is computed by the backward pass, if the loss depends on it.",
        )

    def result(self) -> Any:
        """What the run returns; the rest of it is done first.

        Raises:
            TraceError: it was ended before, or a tensor that was assigned to never came.
            BaseException: what the run itself has raised.
        """
        if self._ended:
            raise TraceError(f"{self._ended}: it has no result.")
        if self._capture is None:
            self.settle()
            self._finish()
        return self._outcome()

    def _finish(self) -> None:
        if self.run.is_open_ended:
            self.run.go_on(None)  # nobody asks what would be without overrides
        self._capture = self.run.finish()

    def _outcome(self) -> Any:
        assert self._capture is not None
        if self._capture.error is not None:
            raise self._capture.error
        return self._capture.value

    def end(self) -> None:
        """The run has no more steps: the program's own error goes before what the block misses."""
        if not self._is_borrowed:
            self.result()
        elif self.run.is_open_ended:
            capture = self.run.finish()  # a second one gives the same
            if capture.error is not None:
                raise capture.error

    def missed(self) -> TraceError | None:
        """The error for something that was assigned to and never came."""
        for name, line in self._assigned.items():
            if self._order.maker(name) is None and self._order.reader(name) is None:
                return self._order.unknown(name).with_traceback(line)
        for name in self.opened.unused_gradients if self.opened is not None else ():
            return self._no_gradient(name).with_traceback(self._assigned_gradients.get(name))
        return self.calls.missed()

    def stop(self) -> None:
        """End the run here: nothing more is done.

        Raises:
            UserError: it can't be ended here.
        """
        if not self.is_over:
            if not (self._from_inside or self._is_borrowed):
                self.run.stop()
            self._ended = _STOPPED

    def close(self) -> None:
        """Do the rest of a run that nobody has ended.

        Raises:
            TraceError: a tensor that was assigned to never came.
            BaseException: what the run itself raises.
        """
        if not self._ended:
            try:
                self.settle(is_end=True)
            except UserError:
                self.give_up(may_finish=True)
                raise
            if self._capture is None:
                self._finish()
            self._outcome()
            missed = self.missed()
            if missed is not None:
                raise missed

    def give_up(self, *, may_finish: bool) -> None:
        """The block has raised: as if the run had never begun, or as if there were no block.

        Args:
            may_finish: where it can't be taken back, the rest of it may be done.
        """
        if self.is_over:
            return
        self._ended = _GIVEN_UP
        if self.run.real is not None:
            with contextlib.suppress(Exception):  # the block's own error is the one to tell of
                self.run.withhold()
        try:
            self.run.discard()
            return
        except UserError:
            pass  # what it has done can't be undone, so it gets its end
        if not may_finish:
            return
        with contained:
            for name in tuple(self.run.overrides):
                self.run.take_back(name)
            self.run.finish()

    def withdraw(self, error: BaseException) -> bool:
        """Leave somebody else's run alone if it doesn't compute what the block asks for.

        Args:
            error: of the block.

        Returns:
            Whether it is such a run: it is as it was before the block, as far as it can be.
        """
        if not (self._is_borrowed and isinstance(error, AbsentError) and error.is_elsewhere):
            return False
        run, self._ended = self.run, _NOT_MEANT
        self.is_withdrawn = True
        if self.opened is not None:
            self.opened.modules.take_back()
        with contextlib.suppress(UserError):
            while self._start is not None and run.position > self._start:
                run.back()
        for name, value in tuple(run.overrides.items()):
            with contextlib.suppress(UserError):
                if name not in self._before:
                    run.take_back(name)
                elif value is not self._before[name]:
                    run.override(name, self._before[name])
        return True

    def overridden(self) -> None:
        """Somebody else had the run in hand: what was read may be overridden by now."""
        for name in self._values:
            if name in self.run.overrides:
                self._values.add(name, self.run.value(name))

    def dump(self) -> MemoryDump:
        """What was computed so far."""
        found = self._capture.dump if self._capture is not None else None
        dump = found if found is not None else self.run.dump()
        dump.set_run_info(self._info())
        return dump

    def info(self) -> RunInfo:
        """What the run is asked for."""
        return self._info()

    @property
    def names(self) -> Sequence[str]:
        """The nodes in the order in which they are computed."""
        return [step.node for step in self.run.steps]

    @property
    def step(self) -> Step | None:
        """The next step; ``None`` at the end."""
        self.settle()
        return None if self.is_over else self.run.next

    def over(self, what: str) -> TraceError:
        """The error for something that is asked for after the run."""
        if self._ended:
            return TraceError(f"{self._ended}: {what}.")
        return TraceError(
            f"The run is over: {what}.",
            "Read it in the block, or keep every value: trace(..., keep=True).",
        )


def _written(name: str, what: str, error: UserError) -> UserError:
    """The error for something written into a value that can't have an effect any more."""
    kind = OutOfOrderError if isinstance(error, OutOfOrderError) else TraceError
    return kind(
        f"The block has written into the {what} of {name}, which is to change the run: {error}",
        "To work on a copy of your own, copy it first: np.array(...), or .clone() in PyTorch.",
    )
