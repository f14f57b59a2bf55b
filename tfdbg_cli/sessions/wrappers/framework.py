"""The life of a debugged run, without saying what the debugger does at its two stops.

The names and fields are those of the original's ``tensorflow/python/debug/wrappers/framework.py``;
the engine (`tfdbg_cli.engines`) says how a framework computes a run and keeps its tensors.
"""

from __future__ import annotations

import contextlib
import re
import threading
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Self

from tfdbg_cli.common.traits import all_traits
from tfdbg_cli.dumps.dump import RunInfo
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.run_info import RunError, late_error
from tfdbg_cli.engines.base import (
    Adapter,
    CannotStep,
    Capture,
    MakesCallables,
    ProfilesRuns,
    RunCall,
    SessionAdapter,
    SteppedRun,
    Watch,
)
from tfdbg_cli.engines.interface import with_interface
from tfdbg_cli.engines.kit.watch_matcher import watch_of
from tfdbg_cli.engines.registry import engine_for
from tfdbg_cli.sessions.director.program_host import NOT_STEPPED, NOT_TIMED, ProgramHost
from tfdbg_cli.sessions.director.runs import Decision, StartedRun, describe_end
from tfdbg_cli.sessions.wrappers.abilities import AsksForSessions, RunsCallableOptions, RunsInParts
from tfdbg_cli.sessions.wrappers.instr_loop import (
    OnInstrEndRequest,
    OnInstrEndResponse,
    OnInstrStartAction,
    OnInstrStartRequest,
    OnInstrStartResponse,
    follow_instructions,
)
from tfdbg_cli.sessions.wrappers.interventions import applied
from tfdbg_cli.sessions.wrappers.node_stepper import NodeStepper
from tfdbg_cli.sessions.wrappers.requests import (
    OnRunEndRequest,
    OnRunEndResponse,
    OnRunStartAction,
    OnRunStartRequest,
    OnRunStartResponse,
    OnSessionInitAction,
    OnSessionInitRequest,
    OnSessionInitResponse,
    WatchOptions,
    check_type,
)
from tfdbg_cli.sessions.wrappers.stepped_runs import (
    finished,
    once_made,
)
from tfdbg_cli.sessions.wrappers.surface import SessionSurface

__all__ = [
    "BaseDebugWrapperSession",
    "OnInstrEndRequest",
    "OnInstrEndResponse",
    "OnInstrStartAction",
    "OnInstrStartRequest",
    "OnInstrStartResponse",
    "OnRunEndRequest",
    "OnRunEndResponse",
    "OnRunStartAction",
    "OnRunStartRequest",
    "OnRunStartResponse",
    "OnSessionInitAction",
    "OnSessionInitRequest",
    "OnSessionInitResponse",
    "WatchOptions",
]


class _Answer(Decision):
    """What `BaseDebugWrapperSession.on_run_start` has answered for a run of a program."""

    response: OnRunStartResponse


class BaseDebugWrapperSession(SessionSurface, ProgramHost):
    """A session that asks what to do before each run and tells after it.

    Everything it doesn't define is forwarded to the wrapped session.

    Args:
        sess: a session of any engine that is loaded.
        thread_name_filter: only runs on threads whose name begins with a match of this regex are
            debugged.
        pass_through_operrors: errors of a run are raised at once, without `on_run_end`.
        adapter: how to drive the session; found through the engines by default.

    Raises:
        TypeError: no engine knows the session.
        ValueError: `on_session_init` answered with an unknown action.
    """

    def __new__(cls, sess: Any = None, *args: Any, **kwargs: Any) -> Self:
        """An instance that the session's framework takes for a session of its own."""
        engine = engine_for(sess)
        asks = engine if isinstance(engine, AsksForSessions) else None
        made: Self = object.__new__(with_interface(cls, asks.session_interface() if asks else None))
        return made

    def __init__(
        self,
        sess: Any,
        thread_name_filter: str | None = None,
        pass_through_operrors: bool = False,
        adapter: Adapter | None = None,
    ) -> None:
        if adapter is None:
            engine = engine_for(sess)
            if engine is None:
                known = ", ".join(traits.title for traits in all_traits())
                raise TypeError(f"Expected a session of {known}; got type {type(sess)}")
            adapter = engine.adapt(sess)
        super().__init__(sess, adapter)
        self._thread_name_filter = re.compile(thread_name_filter) if thread_name_filter else None
        self._pass_through_operrors = pass_through_operrors
        self._run_call_count = 0
        self._count_lock = threading.Lock()

        response = self.on_session_init(OnSessionInitRequest(sess))
        check_type(response, OnSessionInitResponse)
        if response.action == OnSessionInitAction.REMOTE_INSTR_LOOP:
            follow_instructions(self, self._session_adapter)
        elif response.action != OnSessionInitAction.PROCEED:
            raise ValueError(f"Invalid OnSessionInitAction value: {response.action}")

    # What a subclass decides.

    @abstractmethod
    def on_session_init(self, request: OnSessionInitRequest) -> OnSessionInitResponse:
        """Called once, when a session is wrapped."""

    @abstractmethod
    def on_run_start(self, request: OnRunStartRequest) -> OnRunStartResponse:
        """Called before each run: what is to be done with it?"""

    @abstractmethod
    def on_run_end(self, request: OnRunEndRequest) -> OnRunEndResponse:
        """Called after each run, with what it computed. An error is raised after it returns."""

    def invoke_node_stepper(
        self, node_stepper: NodeStepper, restore_variable_values_on_exit: bool = True
    ) -> Any:
        """Called for a run that is to be stepped through.

        What isn't done when this returns, is done then; a stepper that was discarded leads back to
        `on_run_start`.

        Args:
            node_stepper: the run.
            restore_variable_values_on_exit: kept for the original's signature. There, stepping
                left variables changed that the run had not; here each step is the run's own.

        Returns:
            Nothing that is looked at.
        """
        raise NotImplementedError(
            f"{type(self).__name__} asks for the stepper and has no invoke_node_stepper."
        )

    def on_instr_start(self, request: OnInstrStartRequest) -> OnInstrStartResponse:
        """Called in the remote instruction loop: what is to be done next?"""
        raise NotImplementedError(
            f"{type(self).__name__} asks for the remote instruction loop and has no on_instr_start."
        )

    def on_instr_end(self, request: OnInstrEndRequest) -> OnInstrEndResponse:
        """Called in the remote instruction loop, with what came of the instruction."""
        return OnInstrEndResponse()

    def note_run(self, call: RunCall, capture: Capture) -> None:
        """Note numbers of a run of a session that is over; it is `followed` what was watched."""

    @property
    def run_call_count(self) -> int:
        """How many runs were asked for, including those that went by undebugged."""
        return self._run_call_count

    def increment_run_call_count(self) -> int:
        """Count one more run."""
        with self._count_lock:
            self._run_call_count += 1
            return self._run_call_count

    def run(
        self,
        fetches: Any = None,
        feed_dict: Any = None,
        options: Any = None,
        run_metadata: Any = None,
        callable_runner: Callable[..., Any] | None = None,
        callable_runner_args: Sequence[Any] | None = None,
        callable_options: Any = None,
    ) -> Any:
        """The run, between `on_run_start` and `on_run_end`.

        Args:
            fetches, feed_dict, options, run_metadata: as the wrapped session's ``run``. None of
                them is changed.
            callable_runner: run this instead of fetches, with ``callable_runner_args``.
            callable_runner_args: its positional arguments.
            callable_options: run what this TensorFlow ``CallableOptions`` says instead, with
                ``callable_runner_args`` as the values of its feeds.

        Returns:
            What the wrapped session returns.

        Raises:
            ValueError: fetches were mixed with a callable.
            Exception: whatever the run itself raises.
        """
        if callable_runner is not None and callable_options is not None:
            raise ValueError(
                "callable_runner and callable_options are mutually exclusive, but are both "
                "specified in this call to BaseDebugWrapperSession.run()."
            )
        if fetches is not None or feed_dict is not None:
            callables = {"callable_runner": callable_runner, "callable_options": callable_options}
            for name, given in callables.items():
                if given is not None:
                    raise ValueError(
                        f"{name} and fetches/feed_dict are mutually exclusive, but are used "
                        "simultaneously."
                    )
        count = self.increment_run_call_count()
        adapter = self._session_adapter
        if callable_options is not None:
            values = tuple(callable_runner_args or ())
            if not isinstance(adapter, RunsCallableOptions):
                raise self._lacks("CallableOptions")
            call = adapter.callable_call(callable_options, values, run_metadata)
        elif callable_runner is not None:
            values = tuple(callable_runner_args or ())
            call = self._opaque_call(callable_runner, values, options, run_metadata)
        elif adapter.is_empty(fetches) or self.is_ignored():
            return adapter.run(fetches, feed_dict, options, run_metadata)
        else:
            call = adapter.call(fetches, feed_dict, options, run_metadata)
        if self.is_ignored():
            return call.run()
        call = applied(adapter.session, call, lambda: self._info(call, count))
        is_callable = callable_runner is not None
        request = OnRunStartRequest(
            fetches, feed_dict, options, run_metadata, count, is_callable, self._info(call, count)
        )
        return self._live(call, request)

    @property
    def _session_adapter(self) -> SessionAdapter:
        """The adapter, where somebody asks for a run."""
        if not isinstance(self._adapter, SessionAdapter):
            raise TypeError(
                f"Runs of the {self._adapter.engine_name} engine begin and end where the program "
                "does; `with tfdbg_cli.run():` makes one."
            )
        return self._adapter

    def _lacks(self, ability: str) -> NotImplementedError:
        return NotImplementedError(
            f"Sessions of the {self._adapter.engine_name} engine have no {ability}."
        )

    # The life of a run. Hooks, which see only its two ends, call these one by one.

    def _info(self, call: RunCall, count: int) -> RunInfo:
        return RunInfo(
            call_count=count,
            fetches=call.fetches,
            feeds=call.feeds,
            engine=self._adapter.engine_name,
            runner=call.runner,
            can_profile=call.profile is not None,
            can_step=call.stepper is not None,
            whose=self._whose,
        )

    @property
    def _whose(self) -> str:
        """Which session it is, where the program has others; see `RunInfo.whose`."""
        return ""

    def _live(self, call: RunCall, request: OnRunStartRequest) -> Any:
        """A run from its start to its end: its value, or its error."""
        while True:
            response = self._begin(request)
            if response.action != OnRunStartAction.INVOKE_STEPPER:
                action, capture = self._perform(response, call)
                self.note_run(call, capture)
                if action == OnRunStartAction.NON_DEBUG_RUN and capture.error is None:
                    capture.dump = None
                break
            stepped = self._step_through(call, request)
            if isinstance(stepped, Capture):
                action, capture = response.action, stepped
                break
            call = stepped  # as if it had never begun
        self._end(action, capture, request.run_info, response)
        if capture.error is not None:
            raise capture.error
        return capture.take_value()

    def _begin(self, request: OnRunStartRequest) -> OnRunStartResponse:
        """Ask what to do with a run."""
        response = self.on_run_start(request)
        check_type(response, OnRunStartResponse)
        if response.action not in OnRunStartAction.ALL:
            raise ValueError(f"Invalid OnRunStartAction value: {response.action}")
        return response

    def _perform(self, response: OnRunStartResponse, call: RunCall) -> tuple[str, Capture]:
        """Do it; the action that was performed and what came of it."""
        action = response.action
        if action == OnRunStartAction.NON_DEBUG_RUN:
            watch = watch_of(self.followed())
            if watch is not None:
                return action, call.debug(watch)
            if call.plain is not None:
                return action, call.plain()
            value, error = self._plainly(call.run)
            return action, Capture(value, None, error)
        if action == OnRunStartAction.PROFILE_RUN and call.profile is not None:
            return action, call.profile()
        capture = call.debug(response.watch())
        if action == OnRunStartAction.PROFILE_RUN and capture.dump is not None:
            can_profile = isinstance(self._adapter, ProfilesRuns)
            why = "Parts of a run can't be timed: this was a debugged one."
            capture.dump.warnings.append(why if can_profile else NOT_TIMED)
        return OnRunStartAction.DEBUG_RUN, capture

    def _step_through(self, call: RunCall, request: OnRunStartRequest) -> Capture | RunCall:
        """A run that somebody steps through; if that is discarded, the run that can be made."""
        stepper = None
        if call.stepper is not None:
            with contextlib.suppress(CannotStep):
                stepper = call.stepper()
        if stepper is None:
            capture = call.debug(Watch())
            if capture.dump is not None:
                capture.dump.warnings.append(NOT_STEPPED)
            return capture
        node_stepper = NodeStepper.of(stepper, request.run_info)
        self.invoke_node_stepper(node_stepper)
        if not node_stepper.is_discarded:
            capture = finished(stepper)
            if stepper.overrides and capture.dump is not None:
                names = ", ".join(stepper.overrides)
                capture.dump.warnings.append(f"Overridden in the stepper: {names}.")
            return capture
        made = node_stepper.instead
        return call if made is None else once_made(call, made, stepper.again)

    def _plainly(self, run: Callable[[], Any]) -> tuple[Any, BaseException | None]:
        """The value of a run, or its framework error; anything else is raised at once."""
        try:
            return run(), None
        except Exception as error:
            if self._adapter.describe_error(error) is None:
                raise
            return None, error

    def _end(
        self, action: str, capture: Capture, info: RunInfo, response: OnRunStartResponse
    ) -> None:
        """Tell of a run; its error is still to be raised."""
        if capture.error is None or not self._pass_through_operrors:
            describe_end(self._adapter, capture, info)
            self._tell(action, capture, info.error, response)

    def _tell(
        self, action: str, capture: Capture, error: RunError | None, response: OnRunStartResponse
    ) -> None:
        request = OnRunEndRequest(
            action,
            run_metadata=capture.run_metadata,
            tf_error=capture.error,
            error=error,
            run_start_response=response,
            capture=capture,
        )
        check_type(self.on_run_end(request), OnRunEndResponse)

    # The runs of a program.

    def begin(self, run: StartedRun) -> Decision:
        request = OnRunStartRequest(
            None, None, None, None, run.number, run_info=lambda: run.info, kind=run.kind
        )
        response = self._begin(request)
        decision = _Answer(run, response.action, response.watch())
        decision.response = response
        return decision

    def step(self, stepper: SteppedRun, info: RunInfo) -> None:
        self.invoke_node_stepper(NodeStepper.of(stepper, info))

    def end(self, decision: Decision, capture: Capture, error: RunError | None) -> None:
        assert isinstance(decision, _Answer)
        if capture.error is None or not self._pass_through_operrors:
            self._tell(decision.action, capture, error, decision.response)

    def is_ignored(self) -> bool:
        wanted = self._thread_name_filter
        return wanted is not None and not wanted.match(threading.current_thread().name)

    def _opaque_call(
        self, runner: Callable[..., Any], args: tuple[Any, ...], options: Any, run_metadata: Any
    ) -> RunCall:
        """A runner that isn't ours to look into: the two stops, around an undebugged run."""
        given = {"options": options, "run_metadata": run_metadata}
        kwargs = {name: value for name, value in given.items() if value is not None}

        def run() -> Any:
            return runner(*args, **kwargs)

        def plain() -> Capture:
            try:
                return Capture(run(), None, None, run_metadata)
            except Exception as error:
                told = self._adapter.describe_error(error) or late_error(error)
                if told is not None:
                    told.is_late = False  # whether it was done, nobody knows
                return Capture(None, None, error, run_metadata, told)

        def debug(watch: Watch | None = None) -> Capture:
            capture = plain()
            capture.dump = MemoryDump(self._adapter.graph)
            return capture

        return RunCall((), {}, run, debug, debug, runner="runner from make_callable()", plain=plain)

    # Other ways to run.

    def make_callable(
        self, fetches: Any, feed_list: Sequence[Any] | None = None, accept_options: bool = False
    ) -> Callable[..., Any]:
        """A callable that runs the fetches through this wrapper.

        Args:
            fetches: as in `run`.
            feed_list: the feed keys whose values the callable takes as positional arguments.
            accept_options: whether it takes ``options`` and ``run_metadata`` too.

        Raises:
            Exception: what the wrapped session says of arguments that are wrong.
        """
        adapter = self._adapter
        plain = (
            adapter.make_callable(fetches, feed_list, accept_options)
            if isinstance(adapter, MakesCallables)
            else None
        )
        keys = list(feed_list or [])
        known = {"options", "run_metadata"} if accept_options or plain is None else set()

        def runner(*values: Any, **kwargs: Any) -> Any:
            if plain is not None and (len(values) != len(keys) or not kwargs.keys() <= known):
                return plain(*values, **kwargs)  # knows best what is wrong
            feed_dict = dict(zip(keys, values, strict=True)) if keys else None
            return self.run(fetches, feed_dict=feed_dict, **kwargs)

        return runner

    def _make_callable_from_options(self, callable_options: Any) -> Callable[..., Any]:
        """A callable made of TensorFlow's ``CallableOptions`` (Keras makes its steps so)."""

        def runner(*values: Any, **kwargs: Any) -> Any:
            return self.run(
                None,
                run_metadata=kwargs.get("run_metadata"),
                callable_options=callable_options,
                callable_runner_args=values,
            )

        return runner

    def partial_run_setup(self, fetches: Any, feeds: Any = None) -> Any:
        """Prepare a run that is done in parts; arguments and result as the wrapped session's."""
        if not isinstance(self._adapter, RunsInParts):
            raise self._lacks("partial runs")
        return self._adapter.partial_run_setup(fetches, feeds)

    def partial_run(self, handle: Any, fetches: Any, feed_dict: Any = None) -> Any:
        """One part of a prepared run, between `on_run_start` and `on_run_end` like any run."""
        adapter = self._session_adapter
        if not isinstance(adapter, RunsInParts):
            raise self._lacks("partial runs")
        count = self.increment_run_call_count()
        call = adapter.partial_call(handle, fetches, feed_dict)
        if adapter.is_empty(fetches) or self.is_ignored():
            return call.run()
        request = OnRunStartRequest(
            fetches, feed_dict, None, None, count, run_info=self._info(call, count)
        )
        return self._live(call, request)
