"""Monitored sessions: the debugged run is the one that the session makes, hooks and all."""

from __future__ import annotations

import dataclasses
import operator
import threading
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from tensorflow.python.framework import errors_impl

from tfdbg_cli.dumps.graph import Graph
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.engines.base import CannotStep, Capture, RunCall, Watch
from tfdbg_cli.engines.tensorflow.sessions import errors
from tfdbg_cli.engines.tensorflow.sessions.adapter import TensorFlowAdapter
from tfdbg_cli.engines.tensorflow.sessions.install import open_doors
from tfdbg_cli.engines.tensorflow.sessions.stepping.stepper import TensorFlowStepper
from tfdbg_cli.engines.tensorflow.shared import guard

__all__ = ["MonitoredAdapter"]


class MonitoredAdapter(TensorFlowAdapter):
    """A ``MonitoredSession``, ``MonitoredTrainingSession`` or ``SingularMonitoredSession``.

    Its ``run`` is called as the user called it. What it then asks of the session below, the
    user's fetches and those of the hooks, is debugged; hooks see the arguments, results and
    metadata of a plain run, and a session that is recovered is debugged as well.
    """

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self._below: weakref.WeakKeyDictionary[Any, TensorFlowAdapter] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()

    def _adapter_of(self, session: Any) -> TensorFlowAdapter:
        with self._lock:
            adapter = self._below.get(session)
            if adapter is None:
                adapter = self._below[session] = TensorFlowAdapter(weakref.proxy(session))
            return adapter

    def call(self, fetches: Any, feed_dict: Any, options: Any, run_metadata: Any) -> RunCall:
        arguments = (fetches, feed_dict, options, run_metadata)

        def untouched(
            adapter: TensorFlowAdapter, run: Any, fetches: Any, feeds: Any, opts: Any, metadata: Any
        ) -> Capture:
            return errors.run_plainly(lambda: run(fetches, feeds, opts, metadata))

        def plain() -> Capture:
            capture = self._below_run(untouched, *arguments)
            capture.dump = None
            return capture

        return dataclasses.replace(super().call(*arguments), plain=plain)

    def debug_run(
        self, fetches: Any, feed_dict: Any, options: Any, run_metadata: Any, watch: Watch
    ) -> Capture:
        def debug(
            adapter: TensorFlowAdapter, run: Any, fetches: Any, feeds: Any, opts: Any, metadata: Any
        ) -> Capture:
            return adapter.debug_with(run, fetches, feeds, opts, metadata, watch)

        return self._below_run(debug, fetches, feed_dict, options, run_metadata)

    def profile_run(self, fetches: Any, feed_dict: Any, options: Any, run_metadata: Any) -> Capture:
        """``MonitoredSession.run`` with the run below it timed; the hooks' own runs are not."""
        return self._below_run(
            TensorFlowAdapter.profile_with, fetches, feed_dict, options, run_metadata
        )

    def stepper(
        self, fetches: Any, feed_dict: Any, options: Any, run_metadata: Any
    ) -> TensorFlowStepper:
        """``MonitoredSession.run``, made at once; its hooks have seen it without overrides."""
        made: list[TensorFlowStepper] = []

        def step(adapter: TensorFlowAdapter, run: Any, *arguments: Any) -> Capture:
            stepper = adapter.stepper(*arguments)
            stepper.returned = operator.itemgetter("caller")
            made.append(stepper)
            return stepper.real

        capture = self._below_run(step, fetches, feed_dict, options, run_metadata)
        if made:
            # What a hook has raised afterwards comes at the run's end.
            made[-1].real.error, made[-1].real.late = capture.error, capture.late
            return made[-1]
        if capture.error is not None:
            raise capture.error
        raise CannotStep("This run never came to a session that could be stepped.")

    def _below_run(
        self,
        capture_with: Callable[..., Capture],
        fetches: Any,
        feed_dict: Any,
        options: Any,
        run_metadata: Any,
    ) -> Capture:
        """The run, with ``capture_with(adapter, run, *arguments)`` in place of the one below."""
        captures: list[Capture] = []

        def intercept(
            session: Any, plain: Any, all_fetches: Any, feeds: Any, opts: Any, metadata: Any
        ) -> Any:
            adapter = self._adapter_of(session)
            capture = capture_with(adapter, plain, all_fetches, feeds, opts, metadata)
            captures.append(capture)
            if capture.error is not None:
                raise capture.error
            return capture.value

        run = guard.runner(self.session)
        value: Any = None
        error: BaseException | None = None
        with open_doors(), guard.bypass():
            withdraw = guard.intercept(guard.Interception(fetches, intercept))
            try:
                value = run(fetches, feed_dict, options, run_metadata)
            except BaseException as raised:
                if not captures and not isinstance(raised, errors_impl.OpError):
                    raise  # an argument is wrong, or a hook has raised before the run
                error = raised
            finally:
                withdraw()
        if not captures:
            return Capture(value, MemoryDump(self.graph), error, run_metadata)
        last = captures[-1]
        late = last.late
        if error is not None and error is not last.error:
            # A hook's, after the run or, once its session was lost, before another attempt.
            late = errors.late(error)
            if late is not None and last.error is not None:
                late.is_late = False
        return Capture(value, last.dump, error, last.run_metadata, late)

    def graph(self) -> Graph:
        return super().graph() if self.session.graph is not None or self._view else Graph([])

    def default_session(self, wrapper: Any) -> AbstractContextManager[Any]:
        """Nothing: a monitored session can't be the default session."""
        return nullcontext(wrapper)
