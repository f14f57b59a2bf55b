"""The life of a debugged run, without saying what the debugger does at its two stops.

The names and fields are those of the original's ``tensorflow/python/debug/wrappers/framework.py``;
the engine (`tfdbg_cli.engines`) says how a framework computes a run and keeps its tensors.
"""

from __future__ import annotations

import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tfdbg_cli.dumps.dump import RunInfo
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.engines.base import Capture, SessionAdapter
from tfdbg_cli.engines.registry import engine_for
from tfdbg_cli.sessions.requests import (
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

__all__ = [
    "BaseDebugWrapperSession",
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


class BaseDebugWrapperSession(ABC):
    """A session that asks what to do before each run and tells after it.

    Everything it doesn't define is forwarded to the wrapped session.

    Args:
        sess: a session of any engine that is loaded.
        thread_name_filter: only runs on threads whose name this regex is found in are debugged.
        pass_through_operrors: errors of a run are raised at once, without `on_run_end`.
        adapter: how to drive the session; found through the engines by default.

    Raises:
        TypeError: no engine knows the session.
        ValueError: `on_session_init` answered with an unknown action.
    """

    def __init__(
        self,
        sess: Any,
        thread_name_filter: str | None = None,
        pass_through_operrors: bool = False,
        adapter: SessionAdapter | None = None,
    ) -> None:
        if adapter is None:
            engine = engine_for(sess)
            if engine is None:
                raise TypeError(
                    "Expected a session of TensorFlow or of the NumPy engine; "
                    f"got type {type(sess)}"
                )
            adapter = engine.adapt(sess)
        self._sess = sess
        self._adapter = adapter
        self._thread_name_filter = re.compile(thread_name_filter) if thread_name_filter else None
        self._pass_through_operrors = pass_through_operrors
        self._run_call_count = 0
        self._count_lock = threading.Lock()
        self._default_contexts: list[Any] = []

        response = self.on_session_init(OnSessionInitRequest(sess))
        check_type(response, OnSessionInitResponse)
        if response.action == OnSessionInitAction.REMOTE_INSTR_LOOP:
            raise NotImplementedError("The remote instruction loop is not available yet.")
        if response.action != OnSessionInitAction.PROCEED:
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

    # The face of a session.

    @property
    def graph(self) -> Any:
        """The wrapped session's graph."""
        return self._adapter.framework_graph

    @property
    def graph_def(self) -> Any:
        """The wrapped session's graph_def."""
        return self._sess.graph_def

    @property
    def sess_str(self) -> Any:
        """The wrapped session's target."""
        return self._sess.sess_str

    @property
    def session(self) -> Any:
        """The wrapped session itself."""
        return self._sess

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
            callable_options: not supported together with fetches.

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
        if callable_runner is not None and (fetches is not None or feed_dict is not None):
            raise ValueError(
                "callable_runner and fetches/feed_dict are mutually exclusive, but are used "
                "simultaneously."
            )
        if callable_options is not None and (fetches is not None or feed_dict is not None):
            raise ValueError(
                "callable_options and fetches/feed_dict are mutually exclusive, but are used "
                "simultaneously."
            )
        count = self.increment_run_call_count()
        if callable_options is not None:
            return self._run_callable_options(callable_options, callable_runner_args)
        if callable_runner is not None:
            args = tuple(callable_runner_args or ())
            return self._run_opaque(callable_runner, args, count, options, run_metadata)
        adapter = self._adapter
        if adapter.is_empty(fetches) or self._other_thread():
            return adapter.run(fetches, feed_dict, options, run_metadata)

        info = RunInfo(
            call_count=count,
            fetches=adapter.fetch_names(fetches),
            feeds=adapter.feeds(feed_dict),
            engine=adapter.engine_name,
        )
        request = OnRunStartRequest(fetches, feed_dict, options, run_metadata, count, run_info=info)
        response = self._ask(request)
        if response.action == OnRunStartAction.NON_DEBUG_RUN:
            value, error = self._plainly(
                lambda: adapter.run(fetches, feed_dict, options, run_metadata)
            )
            capture = Capture(value, None, error)
        elif response.action == OnRunStartAction.PROFILE_RUN:
            capture = adapter.profile_run(fetches, feed_dict, options, run_metadata)
        else:
            capture = adapter.debug_run(fetches, feed_dict, options, run_metadata, response.watch())
        return self._finish(response.action, capture, info)

    def _ask(self, request: OnRunStartRequest) -> OnRunStartResponse:
        response = self.on_run_start(request)
        check_type(response, OnRunStartResponse)
        if response.action not in OnRunStartAction.ALL:
            raise ValueError(f"Invalid OnRunStartAction value: {response.action}")
        return response

    def _plainly(self, run: Callable[[], Any]) -> tuple[Any, BaseException | None]:
        """The value of a run, or its framework error; anything else is raised at once."""
        try:
            return run(), None
        except Exception as error:
            if self._adapter.describe_error(error) is None:
                raise
            return None, error

    def _finish(self, action: str, capture: Capture, info: RunInfo) -> Any:
        if capture.error is not None:
            info.error = self._adapter.describe_error(capture.error)
            if self._pass_through_operrors:
                raise capture.error
        if capture.dump is not None:
            capture.dump.set_run_info(info)
        request = OnRunEndRequest(
            action,
            run_metadata=capture.run_metadata,
            tf_error=capture.error,
            dump=capture.dump,
            error=info.error,
        )
        capture.dump = None  # the request alone holds it: who spills it to disk frees the memory
        self.on_run_end(request)
        if capture.error is not None:
            raise capture.error
        return capture.value

    def _other_thread(self) -> bool:
        wanted = self._thread_name_filter
        return wanted is not None and not wanted.search(threading.current_thread().name)

    def _run_opaque(
        self,
        runner: Callable[..., Any],
        args: tuple[Any, ...],
        count: int,
        options: Any,
        run_metadata: Any,
    ) -> Any:
        """A runner that isn't ours to look into: the two stops, around an undebugged run."""
        if self._other_thread():
            return runner(*args)
        info = RunInfo(
            call_count=count, runner="runner from make_callable()", engine=self._adapter.engine_name
        )
        request = OnRunStartRequest(None, None, options, run_metadata, count, True, run_info=info)
        response = self._ask(request)
        value, error = self._plainly(lambda: runner(*args))
        dump = (
            None
            if response.action == OnRunStartAction.NON_DEBUG_RUN
            else MemoryDump(self._adapter.graph)
        )
        return self._finish(response.action, Capture(value, dump, error), info)

    def _run_callable_options(self, callable_options: Any, args: Sequence[Any] | None) -> Any:
        raise NotImplementedError("Runs from CallableOptions are not debugged yet.")

    def make_callable(
        self, fetches: Any, feed_list: Sequence[Any] | None = None, accept_options: bool = False
    ) -> Callable[..., Any]:
        """A callable that runs the fetches through this wrapper.

        Args:
            fetches: as in `run`.
            feed_list: the feed keys whose values the callable takes as positional arguments.
            accept_options: whether it takes ``options`` and ``run_metadata`` too.
        """
        keys = list(feed_list or [])

        def runner(*values: Any, **kwargs: Any) -> Any:
            if len(values) != len(keys):
                raise TypeError(
                    f"The callable takes {len(keys)} feed value(s), but {len(values)} were given."
                )
            unknown = set(kwargs) - ({"options", "run_metadata"} if accept_options else set())
            if unknown:
                raise TypeError(
                    f"The callable got an unexpected keyword argument {sorted(unknown)[0]!r}."
                )
            feed_dict = dict(zip(keys, values, strict=True)) if keys else None
            return self.run(fetches, feed_dict=feed_dict, **kwargs)

        return runner

    def run_step_fn(self, step_fn: Callable[..., Any]) -> Any:
        """``run_step_fn`` of the wrapped monitored session; its runs come back through `run`."""
        return step_fn(_StepContext(self))

    @contextmanager
    def as_default(self) -> Iterator[BaseDebugWrapperSession]:
        """Make this the default session: ``tensor.eval()`` goes through the debugger."""
        with self._enter_default():
            yield self

    def _enter_default(self) -> Any:
        default = getattr(self._adapter, "default_session", None)
        return default(self) if default is not None else self._sess.as_default()

    def __enter__(self) -> BaseDebugWrapperSession:
        # The wrapped session's own with statement (its graph, its closing, the exceptions that a
        # monitored session swallows), and inside it the wrapper as the default session.
        if hasattr(type(self._sess), "__enter__"):
            self._sess.__enter__()
        context = self._enter_default()
        context.__enter__()
        self._default_contexts.append(context)
        return self

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> bool:
        swallowed = False
        try:
            self._default_contexts.pop().__exit__(exc_type, exc_value, traceback)
        finally:
            if hasattr(type(self._sess), "__exit__"):
                swallowed = bool(self._sess.__exit__(exc_type, exc_value, traceback))
            else:
                self.close()
        return swallowed

    def close(self) -> None:
        """Close the wrapped session."""
        self._sess.close()

    def should_stop(self) -> bool:
        """Whether a monitored session should stop.

        Raises:
            ValueError: the wrapped session has no such method.
        """
        if not hasattr(self._sess, "should_stop"):
            raise ValueError(
                "The wrapped session does not have a method named 'should_stop'. "
                "Do you intend to wrap a tf.MonitoredSession?"
            )
        return bool(self._sess.should_stop())

    def __getattr__(self, name: str) -> Any:
        if name in ("_sess", "_adapter"):  # not set yet: an error in __init__, not a lookup
            raise AttributeError(name)
        return getattr(self._sess, name)


class _StepContext:
    """What a ``step_fn`` gets: the session and a way to run its hooks."""

    def __init__(self, wrapper: BaseDebugWrapperSession) -> None:
        self._wrapper = wrapper

    @property
    def session(self) -> BaseDebugWrapperSession:
        return self._wrapper

    def run_with_hooks(self, *args: Any, **kwargs: Any) -> Any:
        return self._wrapper.run(*args, **kwargs)

    def request_stop(self) -> None:
        raise StopIteration("step_fn has requested the iterations to stop.")
