"""Where runs begin and end: at calls of compiled functions that no other one makes."""

from __future__ import annotations

import contextlib
import functools
import re
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax

from tfdbg_cli.common.errors import one_line
from tfdbg_cli.common.interpreter.program_signals import pass_on
from tfdbg_cli.dumps.feeds import LazyFeeds
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.run_info import RunInfo
from tfdbg_cli.engines.base import Capture, RunHandle, SteppedRun, Watch
from tfdbg_cli.engines.jax.plans.plan import computes_gradients
from tfdbg_cli.engines.jax.plans.values import as_array
from tfdbg_cli.engines.jax.private import (
    NAMES,
    is_clean,
    is_own_jaxpr,
    is_program_function,
    unchecked,
    wrapped,
)
from tfdbg_cli.engines.jax.runs.calls import (
    Call,
    FunctionCall,
    JaxprCall,
    Leaf,
    by_path,
    place_of,
)
from tfdbg_cli.engines.jax.runs.earlier import EarlierStates
from tfdbg_cli.engines.jax.runs.errors import show_errors_program_only
from tfdbg_cli.engines.jax.runs.in_place import InPlace
from tfdbg_cli.engines.jax.runs.levels import OUTPUTS, OutputsLevel, ReplayLevel, is_of_run
from tfdbg_cli.engines.jax.runs.ops_level import OpsLevel
from tfdbg_cli.engines.jax.runs.timing import TimingLevel
from tfdbg_cli.engines.jax.stepping.calls import PromptedCall, Trap, stepper_of
from tfdbg_cli.engines.jax.twins.twins import Twin, Twins
from tfdbg_cli.engines.kit.contain import contained
from tfdbg_cli.engines.kit.description import OpenRun, RunDescription, RunDriver
from tfdbg_cli.engines.kit.levels import FULL, MODULES, RECORDS, CaptureLevel
from tfdbg_cli.engines.kit.life import RunLife
from tfdbg_cli.engines.kit.policy import CapturePolicy, RunCosts

__all__ = ["CALL", "TRAINING", "JaxPolicy", "JaxRuns"]

#: A call of a function that computes gradients.
TRAINING = "training run"
#: Any other one.
CALL = "call"
_TRAINS = re.compile(r"train|update|fit", re.IGNORECASE)


class JaxRuns(RunLife[OpenRun]):
    """The runs of a program that uses JAX."""

    can_profile = True

    def __init__(self, program: Any, policy: Any) -> None:
        super().__init__(program, policy)
        self._kinds: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._own = threading.local()
        self._states = EarlierStates()
        self._inside: Call | None = None
        #: Takes calls that somebody goes through.
        self._trap: Trap | None = None
        #: Operations outside of any run, since the last one.
        self._outside = self._outside_before = 0

    def settle(self) -> None:
        self._states.clear()  # nobody waits

    def is_framework_error(self, error: BaseException) -> bool:
        """Whether it is one of JAX's own classes, of a computation or of tracing it."""
        return is_of_run(error) or type(error).__module__.startswith(("jax.", "jaxlib."))

    @contextlib.contextmanager
    def quiet(self) -> Iterator[None]:
        """What is computed for us is not a run, and no part of one."""
        with self._at_work(), unchecked():
            yield

    @contextlib.contextmanager
    def _at_work(self) -> Iterator[None]:
        before = getattr(self._own, "is_at_work", False)
        self._own.is_at_work = True
        try:
            yield
        finally:
            self._own.is_at_work = before

    def is_paused(self) -> bool:
        return getattr(self._own, "is_at_work", False)

    def call(
        self,
        function: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        plain: Callable[..., Any],
    ) -> Any:
        """What ``jax.jit`` has made is called.

        Args:
            function: it.
            args, kwargs: what it gets.
            plain: calls it.
        """
        trap = self._trap
        if trap is not None and trap.is_here() and is_clean() and is_program_function(function):
            made = FunctionCall(function, args, kwargs)
            return self._trapped(trap, made, lambda: plain(function, *args, **kwargs))
        if self._inside is not None or not self._counts(
            is_program_function, function, lambda: wrapped(function) is not None
        ):
            return plain(function, *args, **kwargs)
        again = functools.partial(plain, function)
        call = self._made(lambda: FunctionCall(function, args, kwargs, again))
        return self._watched(call, function, lambda: plain(function, *args, **kwargs))

    def call_jaxpr(
        self,
        title: str,
        jaxpr: Any,
        values: Sequence[Any],
        is_donated: bool,
        plain: Callable[[], Any],
        is_own: Callable[[Any], bool] = is_own_jaxpr,
    ) -> Any:
        """A jaxpr is called: of a function that is compiled ahead of time, or by ``jax.grad``."""
        if self._inside is not None or not self._counts(
            lambda each: not is_own(each.jaxpr), jaxpr, lambda: True
        ):
            return plain()
        call = self._made(lambda: JaxprCall(title, jaxpr, values, is_donated))
        return self._watched(call, title, plain)

    def call_gradient(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        plain: Callable[[], Any],
    ) -> Any:
        """What ``jax.grad`` or one like it has made is called: op by op if nothing compiles it.

        Args:
            function: of which it computes gradients.
            args, kwargs: what it gets.
            plain: calls it.
        """
        if self._run is not None or not self._counts(lambda _: True, function, lambda: False):
            return plain()
        call = self._made(lambda: FunctionCall(function, args, kwargs))
        if call is None:
            return plain()

        def given() -> Mapping[str, Any]:
            return {leaf.path: leaf.value for leaf in call.named()}

        with self.stretch(TRAINING, call.title, given):
            result = plain()
            self._gradient_done(given, result)
            return result

    @contained
    def _gradient_done(self, given: Callable[[], Mapping[str, Any]], result: Any) -> None:
        watcher = self.watcher
        if isinstance(watcher, ReplayLevel):
            watcher.given, watcher.returned = given(), by_path(result)

    def describe_stretch(
        self, kind: str, title: str, inputs: Mapping[str, Any] | None
    ) -> RunDescription:
        leaves = [Leaf(path, value, "", value) for path, value in (inputs or {}).items()]
        return CallDescription(kind, self.count(kind), title, lambda: leaves)

    def _trapped(self, trap: Trap, call: Call, plain: Callable[[], Any]) -> Any:
        """A call that somebody makes to go through it; what it calls itself isn't looked at."""
        if self._inside is not None:
            return plain()
        self._inside = call
        try:
            return trap.call(call, plain)
        finally:
            self._inside = None

    def call_stepper(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        watched: Callable[[], Callable[[], None]],
    ) -> SteppedRun:
        """Call a function past whoever debugs; see `StepsCalls.call_stepper`.

        Args:
            function: what is called.
            args, kwargs: with what.
            watched: sees what the program does; returns what ends it.
        """
        trap = Trap()

        def go_in(work: Callable[[], Any]) -> Any:
            outer, unwatch = self._trap, watched()
            self._trap = trap
            try:
                with self._at_work():  # the program is, too
                    return work()
            finally:
                self._trap = outer
                unwatch()

        return stepper_of(trap, go_in, function, args, kwargs)

    def can_step(self) -> bool:
        return True

    def timing_level(self, watch: Watch) -> CaptureLevel:
        """A replay with clocks."""
        return TimingLevel(watch)

    def drive(self, watcher: CaptureLevel, handle: RunHandle) -> PromptedCall | None:
        return PromptedCall(watcher, handle.conduct) if isinstance(watcher, ReplayLevel) else None

    def _stepped(self, prompted: RunDriver, call: Call) -> Capture | None:
        assert isinstance(prompted, PromptedCall)
        with self.quiet():
            return prompted.made(call)

    def _watched(self, call: Call | None, function: Any, plain: Callable[[], Any]) -> Any:
        """Make a call, which is a run or part of one."""
        if call is None:
            return plain()
        is_run = self._run is None
        if is_run:
            NAMES.tell_version()  # not at the import, which may be another framework's
            self._open_call(call, function)
        run = self._run
        if run is None:
            return plain()
        if run.watcher is not None:
            self._before(call)
        else:
            self._states.clear()
        self._inside = call
        began = time.perf_counter()
        try:
            watcher = run.watcher
            made = watcher.make(call, plain) if isinstance(watcher, ReplayLevel) else plain()
            result = call.result = made
        except BaseException as error:
            self._inside = None
            show_errors_program_only(error)
            call.error = error
            self._after(call)
            if run.prompted is not None and self.is_framework_error(error):
                capture = self._stepped(run.prompted, call)
                if capture is not None and capture.error is None:  # it was mended
                    if is_run:
                        self.close_run()
                    return capture.value
            if is_run:
                if isinstance(error, Exception):
                    self.fail(error)
                if self._run is run:
                    run.cut_short = f"the program raised {one_line(error)}"
                    self.close_run()
            raise
        self._inside = None
        call.seconds = time.perf_counter() - began
        self._after(call)
        if run.prompted is not None:
            capture = self._stepped(run.prompted, call)
            if capture is not None:
                if capture.error is not None:
                    if is_run:
                        self.close_run(capture.error)
                    raise capture.error
                result = capture.value
        if is_run and self._run is run:
            self._learn(call, function, run)
            return self._returned(call, run, result)
        return result

    def _returned(self, call: Call, run: OpenRun, result: Any) -> Any:
        """The call that a run is has returned: close it; what the program gets."""
        if isinstance(run.watcher, ReplayLevel):
            run.watcher.returning = call
        self.close_run()
        return result if run.replaced is None else run.replaced[0]

    def _made(self, make: Callable[[], Call]) -> Call | None:
        try:
            return make()
        except Exception as error:
            pass_on(error)
            self.give_up(error)
            return None

    def _counts(
        self, is_program: Callable[[Any], bool], function: Any, is_part: Callable[[], bool]
    ) -> bool:
        """Whether a call is a run, or part of one."""
        try:
            if self.is_idle() or not self.is_here() or not is_clean():
                return False
            # Python itself computes then, op by op, and to trace the function would be to call it.
            is_python: bool = jax.config.jax_disable_jit  # type: ignore[attr-defined]
            if self._run is not None:
                return not is_python and is_part()
            is_run = not is_python and is_program(function)
        except Exception as error:
            pass_on(error)
            self.give_up(error)
            return False
        self._outside += not is_run
        return is_run

    @contained
    def _open_call(self, call: Call, function: Any) -> None:
        kind = self._kinds.get(function) if not isinstance(function, str) else None
        if kind is None:
            kind = TRAINING if _TRAINS.search(call.title) else CALL
        description = CallDescription(kind, self.count(kind), call.title, call.named)
        if place := place_of(function):  # others may have its name, such as <lambda>
            description.whose = f"{call.title} ({place})"
        self.open_run(OpenRun(description))

    @contained
    def _before(self, call: Call) -> None:
        watcher = self.watcher
        recomputes = isinstance(watcher, ReplayLevel) and watcher.recomputes
        call.keep(self._states if recomputes else None)

    @contained
    def _after(self, call: Call) -> None:
        watcher = self.watcher
        if isinstance(watcher, ReplayLevel) and (
            call.error is None or isinstance(call.error, Exception)
        ):
            call.done()
            watcher.called(call)

    @contained
    def _learn(self, call: Call, function: Any, run: OpenRun) -> None:
        """Know of which kind the runs of a function are: it was traced by now."""
        known = None if isinstance(function, str) else self._kinds.get(function)
        kind = known or (TRAINING if computes_gradients(call.jaxpr.jaxpr) else CALL)
        if known is None and not isinstance(function, str):
            self._kinds[function] = kind
        if kind != run.kind:
            self.counts[run.kind] -= 1
            run.kind = run.description.kind = kind
            run.description.number = self.count(kind)

    def called_back(self, callback: Any, result: Any) -> None:
        """A compiled function has called one of the program's."""
        if self._inside is not None:
            self._inside.callbacks.add(callback, result)

    def describe_end(self, run: OpenRun, dump: MemoryDump | None, info: RunInfo) -> None:
        watcher = run.watcher
        if isinstance(watcher, ReplayLevel):
            watcher.describe(info)
        count = self._outside_before
        if count:
            ops, them = ("1 op", "it") if count == 1 else (f"{count} ops", "them")
            said = (
                f"{ops} outside of compiled functions since the run before: "
                f"with tfdbg_cli.run(): makes a run of {them}"
            )
            info.details = [*info.details, ("Not seen", said)]

    def closing(self, run: OpenRun) -> None:
        self._outside_before, self._outside = self._outside, 0


class JaxPolicy(CapturePolicy):
    """While a filter for nan and infinities is awaited, what functions return is looked at.

    Doing them again op by op takes many times as long as they do: that is for what is bad, and for
    those who ask for values. In between, at the level of ops, a twin of each function is computed
    beside it, which tells whether anything in it is bad; that is for those who ask for it, too.

    Args:
        setting: the value of a setting.
    """

    def __init__(self, setting: Callable[[str], Any]) -> None:
        super().__init__(setting)
        self._twins: Twins[Twin] = Twins()
        self._in_place = InPlace()

    def make(self, level: str, watch: Watch, costs: RunCosts) -> CaptureLevel:
        del costs
        if level == FULL:
            return ReplayLevel(watch)
        if level != RECORDS:
            return OutputsLevel(watch)
        in_place = self._in_place if self.setting("results") == "twin" else None
        return OpsLevel(watch, self._twins, in_place)

    def obstacle(self, kind: str, costs: RunCosts) -> str:
        return ""

    def affordable(self, kind: str, costs: RunCosts) -> str:
        del kind, costs
        return FULL if self.holds or self.setting("overhead") == float("inf") else MODULES

    def reason(self, watcher: CaptureLevel, kind: str) -> str:
        found = super().reason(watcher, kind)
        if watcher.level == OUTPUTS and self.setting("level") == "auto":
            return f"{found}: config set level ops checks inner tensors as well"
        if isinstance(watcher, OpsLevel) and watcher.lacks:
            return f"{found}: {watcher.lack}"
        return found


class CallDescription(RunDescription):
    """A run that is a call.

    Args:
        kind, number, title: as of any run.
        leaves: gives the arrays that it gets.
    """

    def __init__(
        self, kind: str, number: int, title: str, leaves: Callable[[], list[Leaf]]
    ) -> None:
        super().__init__(kind, number, title)
        self._leaves: Callable[[], list[Leaf]] | None = leaves

    def tensors(self) -> Mapping[str, Any]:
        """The arrays by their paths."""
        if self._leaves is None:
            return {}
        leaves = self._leaves()
        return LazyFeeds(
            {leaf.path: _reader(leaf.value) for leaf in leaves},
            {leaf.path: _shape(leaf.value) for leaf in leaves},
        )

    def began(self, watcher: Any) -> None:
        """Its inputs' names are known from the call itself."""
        replayed = getattr(watcher, "replayed", None)
        inputs = replayed.inputs if replayed is not None else {}
        self._made = {path: _constantly(name) for path, name in inputs.items()}

    def forget(self) -> None:
        super().forget()
        self._leaves = None


def _reader(value: Any) -> Callable[[], Any]:
    return lambda: as_array(value)


def _constantly(name: str) -> Callable[[], str]:
    return lambda: name


def _shape(value: Any) -> str:
    dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
    return f"{dtype} {list(shape)}" if dtype is not None and shape is not None else ""
