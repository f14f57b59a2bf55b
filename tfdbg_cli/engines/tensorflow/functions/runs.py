"""Where the runs of a TensorFlow 2 program begin and end."""

from __future__ import annotations

import contextlib
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType
from typing import Any

from tensorflow.python.eager import context
from tensorflow.python.framework import errors

from tfdbg_cli.common.errors import one_line
from tfdbg_cli.common.interpreter.program_signals import pass_on
from tfdbg_cli.common.memory import unnoticed_memory
from tfdbg_cli.common.streams import tell
from tfdbg_cli.dumps.dump import RunInfo
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.engines.base import RunHandle, SteppedRun, Watch
from tfdbg_cli.engines.kit.contain import contained
from tfdbg_cli.engines.kit.description import OpenRun, RunDescription
from tfdbg_cli.engines.kit.levels import CHECKED, FULL, CaptureLevel
from tfdbg_cli.engines.kit.life import BLOCK, RunLife
from tfdbg_cli.engines.kit.policy import CapturePolicy, RunCosts
from tfdbg_cli.engines.tensorflow.functions.definitions import plain_text
from tfdbg_cli.engines.tensorflow.functions.keras_names import KerasNames
from tfdbg_cli.engines.tensorflow.functions.level import ValuesLevel
from tfdbg_cli.engines.tensorflow.functions.library import KnownFunction, Library
from tfdbg_cli.engines.tensorflow.functions.losses import Losses
from tfdbg_cli.engines.tensorflow.functions.ops import listen
from tfdbg_cli.engines.tensorflow.functions.pipelines.iterators import Iterators
from tfdbg_cli.engines.tensorflow.functions.private import (
    NAMES,
    call_twin,
    function_name,
    reword,
)
from tfdbg_cli.engines.tensorflow.functions.replicas import (
    goes_into_threads,
    is_replica,
    records_gradients,
)
from tfdbg_cli.engines.tensorflow.functions.stepping.prompted import PromptedCall, Trap, stepper_of
from tfdbg_cli.engines.tensorflow.functions.timing.level import TimedLevel
from tfdbg_cli.engines.tensorflow.functions.twins.twin import Twin
from tfdbg_cli.engines.tensorflow.functions.twins.windows import DEFAULT_ROOM

__all__ = ["INFERENCE", "TRAINING", "FunctionPolicy", "FunctionRuns"]

TRAINING, INFERENCE = "training run", "inference run"


class FunctionPolicy(CapturePolicy):
    """There is one level.

    Args:
        value: of a setting.
        names: what Keras calls layers and variables.

    Attributes:
        names: as above.
        iterators: of the program.
        room: how many bytes the iterations of a loop may take.
    """

    def __init__(self, value: Callable[[str], Any], names: KerasNames) -> None:
        super().__init__(value)
        self.names = names
        self.iterators = Iterators()
        self.room = DEFAULT_ROOM

    def make(self, level: str, watch: Watch, costs: RunCosts) -> CaptureLevel:
        self.room = DEFAULT_ROOM if watch.limit is None else watch.limit // 4
        is_limited = self.is_free and watch.filter_name in CHECKED
        allowance = unnoticed_memory() if is_limited else None
        spares_updates = is_limited and not costs.refusal
        return ValuesLevel(watch, listen, self.names, self.iterators, allowance, spares_updates)

    def _level(self, watch: Watch, kind: str) -> str:
        return FULL


class _CallState(threading.local):
    """Whether this thread is in a call of a traced function, whose own calls are part of it."""

    is_on = False

    def __enter__(self) -> None:
        self.is_on = True

    def __exit__(self, *_: object) -> None:
        self.is_on = False


class FunctionRuns(RunLife[OpenRun]):
    """Runs from a tape to an optimizer's update, and outermost calls of traced functions.

    Attributes:
        iterators: that the program has made, for as long as it has them.
    """

    def __init__(self, program: Any, policy: FunctionPolicy) -> None:
        super().__init__(program, policy)
        self._names = policy.names
        self._library = Library(lambda: policy.room)
        self.iterators = policy.iterators
        self._tapes = 0  # that are recording
        self._gradients = 0  # that were computed and not applied yet
        self._updates = 0  # optimizers at work, one calling another
        self._calling = _CallState()
        self.looks_ahead = True
        self._unknown: dict[int, Any] = {}  # functions without a twin
        self._trap: Trap | None = None
        self._losses = Losses(program.tracks, self.look_away)
        self._are_replicas = False  # at work, in threads of theirs

    def begin(self) -> None:
        # What TensorFlow computes while it is being imported finds it half set up.
        if not _is_being_imported():
            super().begin()

    def iterator_made(self, iterator: Any) -> None:
        """The program begins to go through a dataset: its batches may come before the first run."""
        self.iterators.add(iterator)
        if self._run is None and self._ahead is None and _is_eager() and not self.is_idle():
            self.begin()

    def is_framework_error(self, error: BaseException) -> bool:
        return isinstance(error, errors.OpError)

    # Traced functions.

    def call(self, function: Any, arguments: Sequence[Any], original: Callable[[Any], Any]) -> Any:
        """The program calls a traced function.

        Args:
            function: the framework's object for it.
            arguments: tensors.
            original: calls the function, or what is given in its place.
        """
        if self._calling.is_on or not _is_eager():
            return original(function)
        known = self._know(function)
        if self._are_replicas and known is not None and is_replica():
            return self._watched(function, known, arguments, original)
        trap = self._trap
        if trap is not None and trap.is_here() and known is not None:
            return self._trapped(trap, function, known, arguments, original)
        if known is None or _is_own(known) or self.is_idle() or not self.is_here():
            return self._unwatched(function, known, arguments, original)
        if self._run is not None and self._run.kind == TRAINING and self._is_over(known):
            self.close_run()
        if self._run is not None:
            return self._watched(function, known, arguments, original)
        kind = TRAINING if known.is_training else INFERENCE
        title = _title(known)
        # What Keras does between two steps is used by none of them.
        self.looks_ahead = title not in _KERAS_METHODS
        with self.stretch(kind, title, known.inputs(arguments)):
            run = self._run
            prompted = run.prompted if run is not None else None
            if not isinstance(prompted, PromptedCall):
                results = self._watched(function, known, arguments, original)
                if run is not None and kind == TRAINING:
                    self._losses.returned(function, known, results or (), run.description.number)
                if run is not None and isinstance(run.watcher, ValuesLevel):
                    run.watcher.returning = results
            else:
                results = prompted.call(
                    arguments,
                    lambda: self._watched(function, known, arguments, original),
                    self.look_away,
                )
        return results if run is None or run.replaced is None else run.replaced[0]

    @property
    def can_profile(self) -> bool:  # type: ignore[override]
        """Whether this TensorFlow has the profiler that we know."""
        return not NAMES.why_not("timed")

    def timing_level(self, watch: Watch) -> CaptureLevel:
        return TimedLevel(watch, listen, self._names, self.iterators)

    # Steps.

    @property
    def no_stepper(self) -> str:  # type: ignore[override]
        """Why runs can't be stepped through, where that could be mended."""
        return NAMES.why_not("stepped through")

    def can_step(self) -> bool:
        return not self.no_stepper

    def drive(self, watcher: CaptureLevel, handle: RunHandle) -> PromptedCall | None:
        return PromptedCall(watcher, handle.conduct) if isinstance(watcher, ValuesLevel) else None

    def call_stepper(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        is_traced: bool,
        watched: Callable[[], Callable[[], None]],
    ) -> SteppedRun:
        """Call a function past whoever debugs; see `StepsCalls.call_stepper`.

        Args:
            function: what is called.
            args, kwargs: with what.
            is_traced: it is a traced one.
            watched: sees what the program does; returns what ends it.
        """
        watcher = self.policy.make(FULL, Watch(), RunCosts())
        assert isinstance(watcher, ValuesLevel)
        trap = Trap(watcher, is_traced)

        def go_in(work: Callable[[], Any]) -> Any:
            outer, was_busy = self._trap, self._is_busy
            unwatch = watched()
            self._trap, self._is_busy = trap, True
            try:
                return work()
            finally:
                self._trap, self._is_busy = outer, was_busy
                unwatch()

        return stepper_of(trap, go_in, function, args, kwargs)

    def _trapped(
        self,
        trap: Trap,
        function: Any,
        known: KnownFunction,
        arguments: Sequence[Any],
        original: Callable[[Any], Any],
    ) -> Any:
        if _is_own(known):
            return self._unwatched(function, known, arguments, original)
        return trap.call(
            arguments,
            lambda: self._watched(function, known, arguments, original, trap.watcher),
        )

    # What is called.

    def inferring(self) -> str:
        """What to call the run that begins as a strategy is given something to run, as Keras does.

        It is empty for what is not a run by itself: a step of `fit` is one from its tape on.
        """
        if self._calling.is_on or not _is_eager() or self.is_idle() or not self.is_here():
            return ""
        method = _keras_method()
        if method not in _INFERRING:
            return ""
        self._close_applied()
        return method

    def replicated(self, strategy: Any, function: Any) -> tuple[str, str]:
        """The kind and title of the run that begins as a strategy is given something to run.

        They are empty where none begins by that.
        """
        if title := self.inferring():
            return INFERENCE, title
        if not _is_eager() or self.is_idle() or not self.is_here():
            return "", ""
        if self._calling.is_on or not goes_into_threads(strategy, function):
            return "", ""
        method = _keras_method()
        trains = bool(method) or records_gradients(function)
        self._close_applied()
        return (
            TRAINING if trains else INFERENCE,
            method or getattr(function, "__name__", "") or type(function).__name__,
        )

    def _close_applied(self) -> None:
        """Another run begins: one whose update was made by hand is over."""
        run = self._run
        if run is not None and run.kind == TRAINING and self._gradients and not self._tapes:
            self.close_run()
        self.looks_ahead = True

    @contextlib.contextmanager
    def replicas(self) -> Iterator[None]:
        """Replicas are at work; what they do belongs to the run that is open."""
        self._are_replicas, before = self._run is not None and self.is_here(), self._are_replicas
        try:
            yield
        finally:
            self._are_replicas = before

    def _is_over(self, known: KnownFunction) -> bool:
        """Whether a call comes after the update of a training run that was made by hand."""
        is_applied = self._gradients and not self._tapes and not self._updates
        return bool(is_applied) and not known.writes

    def _know(self, function: Any) -> KnownFunction | None:
        known = self._library.get(function)
        if known is None and id(function) not in self._unknown:
            try:
                known = self._library.know(function, function_name(function))
            except Exception as error:
                pass_on(error)
                self._cannot(function, error)
        return known

    def _cannot(self, function: Any, error: Exception) -> None:
        self._unknown[id(function)] = function
        tell(f"{function_name(function)} can't be watched: {one_line(error)}")

    def _unwatched(
        self,
        function: Any,
        known: KnownFunction | None,
        arguments: Sequence[Any],
        original: Callable[[Any], Any],
    ) -> Any:
        """Call a function that nobody looks at; by its twin, if that has its random numbers."""
        has_streams = known is not None and known.has_streams
        twin = self._twin(function, known, arguments) if has_streams else None
        with self._calling:
            if twin is None:
                return _worded(original, function)
            return call_twin(function, original, twin.name, twin.added, plain_text, twin.more)[0]

    def _watched(
        self,
        function: Any,
        known: KnownFunction,
        arguments: Sequence[Any],
        original: Callable[[Any], Any],
        watcher: CaptureLevel | None = None,
    ) -> Any:
        watcher = watcher or self.watcher
        if isinstance(watcher, TimedLevel):
            results = self._unwatched(function, known, arguments, original)
            watcher.call_done(function, known, arguments, results or (), ())
            return results
        if not isinstance(watcher, ValuesLevel):
            return self._unwatched(function, known, arguments, original)
        twin = self._twin(function, known, arguments, watcher.allowance)
        if twin is None:
            watcher.gap = f"{function_name(function)} could not be looked into"
            with self._calling:
                return _worded(original, function)
        is_exact = self._program.setting("exact")
        if is_exact and not known.only_reads:
            watcher.gap = f"setting exact: {_title(known)} has effects and can't be computed twice"
            with self._calling:
                return _worded(original, function)
        try:
            with self._calling:
                results, added = call_twin(
                    function, original, twin.name, twin.added, plain_text, twin.more
                )
                if is_exact:
                    results = _worded(original, function)
        except Exception as error:
            watcher.call_failed(function, known, arguments, error)
            raise
        watcher.call_done(function, known, arguments, results or (), added, twin)
        return results

    def _twin(
        self,
        function: Any,
        known: KnownFunction | None,
        arguments: Sequence[Any],
        allowance: int | None = None,
    ) -> Twin | None:
        if known is None or id(function) in self._unknown:
            return None
        try:
            is_guarded = allowance is not None and known.is_guarded(arguments, allowance)
            return known.twin(is_guarded, arguments)
        except Exception as error:
            pass_on(error)
            self._cannot(function, error)
            return None

    def fail(self, error: BaseException) -> None:
        if isinstance(self.watcher, ValuesLevel) and self.is_here():
            self.watcher.op_failed(error)
        super().fail(error)

    def open_for_error(self) -> None:
        kind = INFERENCE
        self.open_run(self.make_run(RunDescription(kind, self.count(kind), "eager ops")))

    # Tapes and updates.

    @contained
    def tape_entered(self) -> None:
        """A tape begins to record."""
        if self.is_idle() or not self.is_here() or not _is_eager():
            return
        self._tapes += 1
        run = self._run
        self.looks_ahead = True
        if run is not None and run.kind == TRAINING and self._tapes == 1 and self._gradients:
            self.close_run()
        if self._run is None:
            self._gradients = 0
            place = self.place_of(sys._getframe())
            title = _keras_method() or (f"tape at {place}" if place else "tape")
            self.open_run(self.make_run(RunDescription(TRAINING, self.count(TRAINING), title)))

    @contained
    def tape_left(self, error: BaseException | None) -> None:
        """It has done so."""
        self._tapes = max(self._tapes - 1, 0)
        if error is not None and not self._tapes:
            self.fail(error)

    def gradient_begins(self, target: Any) -> CaptureLevel | None:
        """A tape begins to compute gradients; what looks at that, which is to leave the phase.

        Args:
            target: of what.
        """
        if self._run is not None and self._run.kind == TRAINING and _is_eager() and self.is_here():
            self._losses.target(target, self._run.description.number)
        if not _is_eager():
            self._losses.traced(target)
        is_here = self.is_here() or (self._are_replicas and is_replica())
        watcher = self.watcher if is_here else None
        if watcher is not None:
            watcher.enter_phase("backward")
        return watcher

    @contained
    def gradient_done(self) -> None:
        """Gradients were computed."""
        if self._run is not None and self.is_here():
            self._gradients += 1
            self._run.is_complete = True  # whether the program applies them is its business

    @contained
    def update_begins(self, optimizer: Any) -> None:
        """An optimizer begins to apply gradients."""
        if self.is_here():
            if not self._updates:
                self._losses.update_begins(optimizer)
            self._updates += 1
            if self._updates == 1 and isinstance(self.watcher, ValuesLevel):
                self.watcher.begin_update(optimizer)

    @contained
    def update_ends(self, error: BaseException | None) -> None:
        """It has done so."""
        if not self.is_here() or not self._updates:
            return
        self._updates -= 1
        if not self._updates and isinstance(self.watcher, ValuesLevel):
            self.watcher.end_update()
        if self._updates or self._run is None or self._run.kind == BLOCK or not _is_eager():
            return
        if error is not None:
            self.fail(error)
            return
        self._gradients -= 1
        if self._gradients <= 0 and self._run.kind == TRAINING and not self._tapes:
            self.close_run()

    def describe_end(self, run: OpenRun, dump: MemoryDump | None, info: RunInfo) -> None:
        if isinstance(run.watcher, ValuesLevel):
            info.outputs = {**info.outputs, **run.watcher.outputs()}
            info.details = [*info.details, *run.watcher.details()]

    def open_run(self, run: OpenRun) -> None:
        if run.kind == TRAINING:
            self._losses.training_begins()
        super().open_run(run)

    def closing(self, run: OpenRun) -> None:
        self._gradients = 0
        if run.kind == TRAINING:
            if run.watcher is not None:
                run.watcher.stop()
            self._losses.training_ends(run.description.number)


def _is_own(known: KnownFunction) -> bool:
    """Whether TensorFlow itself calls a function, to give variables their first values."""
    return known.title == "initialize_variables"


def _is_eager() -> bool:
    return bool(context.executing_eagerly())


def _is_being_imported() -> bool:
    spec = getattr(sys.modules.get("tensorflow"), "__spec__", None)
    return bool(getattr(spec, "_initializing", False))


# What Keras calls the steps of a model, and whose methods make them.
_KERAS_STEPS = re.compile(
    r"(?:one|multi)_step_on_(?:data|iterator)\w*|(?:train|test|predict)_function"
)
_INFERRING = frozenset({"evaluate", "predict", "test_on_batch", "predict_on_batch"})
_KERAS_METHODS = _INFERRING | {"fit", "train_on_batch"}


def _title(known: KnownFunction) -> str:
    """What to call a run that is a call of a function."""
    title = known.title
    return (_KERAS_STEPS.fullmatch(title) and _keras_method()) or title


def _keras_method() -> str:
    """The method of a Keras model that the program has called; empty: none."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        code = frame.f_code
        if code.co_name in _KERAS_METHODS and "keras" in code.co_filename:
            return code.co_name
        frame = frame.f_back
    return ""


def _worded(original: Callable[[Any], Any], function: Any) -> Any:
    """Call a function; an error says what it says without the debugger."""
    try:
        return original(function)
    except errors.OpError as error:
        reword(error, plain_text)
        raise
