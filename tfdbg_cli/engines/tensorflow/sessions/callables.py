"""Callables made of ``CallableOptions``: Keras makes its training and evaluation steps so."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from tensorflow.core.protobuf import config_pb2
from tensorflow.python.framework import dtypes

from tfdbg_cli.dumps.elements import tensor_name_of
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.engines.base import CannotStep, Capture, RunCall, SteppedRun, Watch
from tfdbg_cli.engines.tensorflow.sessions.errors import attempt
from tfdbg_cli.engines.tensorflow.shared import guard
from tfdbg_cli.engines.tensorflow.shared.private import make_callable

if TYPE_CHECKING:
    from tfdbg_cli.engines.tensorflow.sessions.adapter import TensorFlowAdapter

__all__ = ["Callables"]

# A program has a handful; each holds an executor of the runtime.
_MOST = 64


class Callables:
    """The callables of one session, made once for each different ``CallableOptions``.

    Args:
        adapter: of the session.
    """

    def __init__(self, adapter: TensorFlowAdapter) -> None:
        self._adapter = adapter
        self._plain: OrderedDict[bytes, Callable[..., Any]] = OrderedDict()
        self._lock = threading.Lock()

    def call(self, options: Any, values: Sequence[Any], run_metadata: Any) -> RunCall:
        """The run that a callable does.

        It is debugged as the ``Session.run`` of the same fetches and feeds, where that gives the
        same; a callable that connects tensors with each other is run as it is.

        Args:
            options: a ``CallableOptions``; a copy is used.
            values: those of its feeds, in order.
            run_metadata: the caller's.
        """
        copied = config_pb2.CallableOptions()
        copied.CopyFrom(options)
        fetches = [*map(tensor_name_of, copied.fetch), *copied.target]
        feeds = dict(zip(map(tensor_name_of, copied.feed), values, strict=False))
        arguments = (fetches, feeds, self._run_options(copied), run_metadata)

        def run() -> Any:
            with guard.bypass():
                return self._callable(copied)(*values, run_metadata=run_metadata)

        def unwatched(reason: str) -> Capture:
            value, error = attempt(run)
            dump = MemoryDump(self._adapter.graph)
            dump.warnings.append(f"The run was not watched: {reason}")
            return Capture(value, dump, error, run_metadata)

        def cut(capture: Capture) -> Capture:
            if capture.error is None:
                capture.value = capture.value[: len(copied.fetch)]
            return capture

        def debug(watch: Watch) -> Capture:
            reason = self._obstacle(copied, values)
            return unwatched(reason) if reason else cut(self._adapter.debug_run(*arguments, watch))

        def profile() -> Capture:
            reason = self._obstacle(copied, values)
            return unwatched(reason) if reason else cut(self._adapter.profile_run(*arguments))

        def stepper() -> SteppedRun:
            reason = self._obstacle(copied, values)
            if reason:
                raise CannotStep(f"This run can't be stepped: {reason}")
            made = self._adapter.stepper(*arguments)
            made.returned = lambda fetched: fetched[: len(copied.fetch)]
            return made

        return RunCall(fetches, feeds, run, debug, profile, stepper)

    def _callable(self, options: Any) -> Callable[..., Any]:
        key = options.SerializeToString(deterministic=True)
        with self._lock:
            made = self._plain.get(key)
            if made is None:
                made = make_callable(self._adapter.session, options)
                self._plain[key] = made
                while len(self._plain) > _MOST:
                    self._plain.popitem(last=False)
            self._plain.move_to_end(key)
            return made

    def _run_options(self, options: Any) -> Any:
        return options.run_options if options.HasField("run_options") else None

    def _obstacle(self, options: Any, values: Sequence[Any]) -> str:
        """Why ``Session.run`` would not do the same; empty: it does."""
        if options.tensor_connection:
            return "its callable connects tensors with each other."
        if options.feed_devices or options.fetch_devices:
            return "its callable keeps tensors on their devices."
        if len(values) != len(options.feed) or not (options.fetch or options.target):
            return "its callable was called with the wrong arguments."
        graph = self._adapter.session.graph
        try:
            fed = [graph.get_tensor_by_name(tensor_name_of(name)) for name in options.feed]
            for name in options.fetch:
                graph.get_tensor_by_name(tensor_name_of(name))
            for name in options.target:
                graph.get_operation_by_name(name)
        except (KeyError, ValueError):
            return "its callable names what the graph doesn't have."
        # Session.run converts what it is fed, a callable takes it as it is.
        for tensor, value in zip(fed, values, strict=True):
            array = np.asarray(value)
            try:
                fits = dtypes.as_dtype(array.dtype) == tensor.dtype.base_dtype
            except TypeError:
                fits = False
            if not fits or not tensor.shape.is_compatible_with(array.shape):
                return f"the value fed for {tensor.name} has not its dtype or shape."
        return ""
