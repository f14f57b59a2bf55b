"""The NumPy engine as the debugger sees it; docs/engines.md walks through this file."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

import numpy as np

from tfdbg_cli.dumps.dump import CannotRedo, NewValues, RunError
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.profile import Locate, Profile, ProfileEntry, place_of
from tfdbg_cli.dumps.run_info import RunInfo
from tfdbg_cli.engines.base import Capture, SessionAdapter, SessionEngine, Watch, WrapSession
from tfdbg_cli.engines.kit.clock import Clock
from tfdbg_cli.engines.kit.fitting import refuse_written, replaced
from tfdbg_cli.engines.kit.watch_matcher import WatchMatcher
from tfdbg_cli.engines.numpy.dtypes import dtype_name
from tfdbg_cli.engines.numpy.errors import OpError
from tfdbg_cli.engines.numpy.executor import DEVICE, RunState, RunStep
from tfdbg_cli.engines.numpy.graph import Graph as NumpyGraph
from tfdbg_cli.engines.numpy.nodes import Operation
from tfdbg_cli.engines.numpy.registry import OPS
from tfdbg_cli.engines.numpy.session import (
    PreparedRun,
    Session,
    default_session,
    flatten_fetches,
    interceptors,
)
from tfdbg_cli.engines.numpy.stepping.layout import NodeLayout
from tfdbg_cli.engines.numpy.stepping.stepper import NumpyStepper
from tfdbg_cli.engines.numpy_traits import TRAITS

__all__ = ["ENGINE", "NumpyAdapter", "NumpyEngine"]


def _watched_slots(watch: Watch) -> Callable[[Operation], tuple[int, ...]]:
    """What gives the output slots of an operation that a watch asks for; decided once for each."""
    matcher = WatchMatcher(watch)

    def slots(op: Operation) -> tuple[int, ...]:
        dtypes = enumerate(dtype_name(tensor.dtype) for tensor in op.outputs)
        return tuple(slot for slot, dtype in dtypes if matcher.wants(op.name, op.type, dtype))

    return functools.cache(slots)


#: One execution of one node, on a clock in nanoseconds: when it began, when its outputs were
#: there, and when they were kept for who consumes them.
_Timing: TypeAlias = tuple[Operation, int, int, int]


class _TimedStep(RunStep):
    """A `RunStep` that times its nodes: a look at the clock around each."""

    def __init__(self, timings: list[_Timing], *arguments: Any) -> None:
        super().__init__(*arguments)
        self._timings = timings
        self._began = 0

    def _run_op(self, op: Operation) -> None:
        self._began = time.perf_counter_ns()
        super()._run_op(op)

    def _finish(self, op: Operation, results: Sequence[Any]) -> None:
        computed = time.perf_counter_ns()
        super()._finish(op, results)
        self._timings.append((op, self._began, computed, time.perf_counter_ns()))


class NumpyAdapter(SessionAdapter):
    """A `Session` of the NumPy engine, for the wrapper session."""

    engine_name = "numpy"
    session: Session

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._slots = functools.lru_cache(16)(_watched_slots)
        # By the plan and the feeds in the caller's order.
        self._layout = functools.lru_cache(16)(NodeLayout)
        self._graph = functools.lru_cache(1)(
            lambda version: Graph(functools.partial(map, _node, session.graph.get_operations()))
        )

    def seed(self) -> str | None:
        """The graph's."""
        seed = self.session.graph.seed
        return None if seed is None else f"{seed} (set_random_seed)"

    def run(self, fetches: Any, feed_dict: Any, options: Any, run_metadata: Any) -> Any:
        return self.session.run_directly(fetches, feed_dict)

    def debug_run(
        self, fetches: Any, feed_dict: Any, options: Any, run_metadata: Any, watch: Watch
    ) -> Capture:
        """The same run by the same code, which tells of every node it has computed.

        Nothing is copied: no kernel writes to an array that exists, and variables are replaced
        when they change.
        """
        dump = MemoryDump(self.graph, run_info=RunInfo(engine=TRAITS.name))
        dump.redo = self._redo
        slots, clock = self._slots(watch), Clock()

        def add(op: Operation, slot: int, value: Any) -> None:
            dump.add(op.name, slot, value, timestamp=clock.now(), device_name=DEVICE)

        def recorder(op: Operation, made: Sequence[Any]) -> None:
            for slot in slots(op):
                if made[slot] is not None:
                    add(op, slot, made[slot])

        def make_step(run: PreparedRun) -> RunStep:
            for tensor, value in run.values.items():
                if tensor.value_index in slots(tensor.op):
                    add(tensor.op, tensor.value_index, value)
            return RunStep(run.state, run.values, recorder)

        capture = _captured(lambda: self.session.run_directly(fetches, feed_dict, make_step), dump)

        def replace(value: Any, new: NewValues) -> Any:
            refuse_written(new)
            return replaced(fetches, value, self._tensor_name, new)

        capture.replaced = replace
        return capture

    def _tensor_name(self, fetch: Any) -> str:
        element = self.session.graph.as_graph_element(fetch)
        return "" if isinstance(element, Operation) else element.name

    def _redo(
        self, node: str, given: Sequence[Any], recorded: Sequence[Any], *, is_wide: bool = False
    ) -> Sequence[Any] | None:
        """`Dump.redo`: a kernel is a function of its inputs."""
        op = self.session.graph.get_operation_by_name(node)
        if any(each.variable is not None for each in op.inputs) or op.type == "Merge":
            raise CannotRedo("it reads or writes a variable, or is part of a loop")
        stream = np.random.default_rng(0)
        before = stream.bit_generator.state
        try:
            found = OPS[op.type].kernel(RunStep(RunState({}, stream), {}), op, list(given))
        except Exception as error:
            raise CannotRedo(f"it refuses these values: {type(error).__name__}") from error
        if stream.bit_generator.state != before:
            return None  # its numbers are those of the run
        results = (found,) if len(op.outputs) == 1 else found
        return [
            np.asarray(each, tensor.dtype) for each, tensor in zip(results, op.outputs, strict=True)
        ]

    def profile_run(self, fetches: Any, feed_dict: Any, options: Any, run_metadata: Any) -> Capture:
        """The same run by the same code, each of its nodes timed."""
        timings: list[_Timing] = []
        graph = self.graph()
        dump = MemoryDump(graph, profile=lambda: _profile(timings, place_of(graph)))

        def make_step(run: PreparedRun) -> RunStep:
            return _TimedStep(timings, run.state, run.values)

        return _captured(lambda: self.session.run_directly(fetches, feed_dict, make_step), dump)

    def stepper(
        self, fetches: Any, feed_dict: Any, options: Any, run_metadata: Any
    ) -> NumpyStepper:
        """The same run by the same code, a node at a time."""
        run = self.session.prepare(fetches, feed_dict)
        return NumpyStepper(run, self._layout(run.plan, tuple(run.values)), self.graph())

    def fetch_names(self, fetches: Any) -> list[str]:
        return [_name_of(item) for item in flatten_fetches(fetches)]

    def feeds(self, feed_dict: Any) -> Mapping[str, Any]:
        if not isinstance(feed_dict, Mapping):
            return {}
        return {_name_of(key): value for key, value in feed_dict.items()}

    def graph(self) -> Graph:
        return self._graph(self.session.graph.version)

    @property
    def framework_graph(self) -> NumpyGraph:
        return self.session.graph

    def describe_error(self, error: BaseException) -> RunError | None:
        if not isinstance(error, OpError):
            return None
        return RunError(type(error).__name__, error.message, error.node_name)

    def make_callable(
        self, fetches: Any, feed_list: Any, accept_options: bool
    ) -> Callable[..., Any]:
        """``Session.make_callable``."""
        return self.session.make_callable(fetches, feed_list, accept_options)

    def default_session(self, wrapper: Any) -> AbstractContextManager[Any]:
        """Make the wrapper the session of ``tensor.eval()``, and the graph the default one."""
        return default_session(wrapper)


class NumpyEngine(SessionEngine):
    """The framework in `tfdbg_cli.engines.numpy`."""

    name = "numpy"
    modules = ("tfdbg_cli.engines.numpy",)
    traits = TRAITS

    def is_session(self, obj: Any) -> bool:
        return isinstance(obj, Session)

    def adapt(self, session: Any) -> NumpyAdapter:
        return NumpyAdapter(session)

    def install(self, wrap: WrapSession) -> Callable[[], None]:
        """Send every ``Session.run`` of the program through ``wrap``.

        ``Tensor.eval`` and ``make_callable`` end in ``Session.run``. Adapters call
        ``Session.run_directly`` and so go past it.
        """
        interceptors.append(wrap)
        return lambda: interceptors.remove(wrap) if wrap in interceptors else None


def _captured(run: Callable[[], Any], dump: MemoryDump) -> Capture:
    """Do a run; its outcome with the dump that it fills."""
    try:
        return Capture(run(), dump, held=dump.arrays)
    except OpError as error:
        return Capture(None, dump, error)


def _name_of(item: Any) -> str:
    """The name of a tensor, operation, variable or string; never raises."""
    if isinstance(item, str):
        return item
    name = getattr(item, "name", None)
    return name if isinstance(name, str) else repr(item)


def _profile(timings: Sequence[_Timing], locate: Locate) -> Profile:
    """Timings in microseconds from the beginning of the first node on."""
    entries = []
    for op, began, computed, ended in timings:
        spans = began - timings[0][1], computed - began, ended - began
        start, own, whole = (span / 1000 for span in spans)
        entries.append(ProfileEntry(op.name, op.type, start, own, whole, place=locate))
    return Profile([(DEVICE, entries)])


def _node(op: Operation) -> Node:
    inputs, control = [each.name for each in op.inputs], [each.name for each in op.control_inputs]
    attributes = functools.partial(_attributes, op)
    return Node(op.name, op.type, inputs, control, DEVICE, attributes, lambda: op.traceback)


def _attributes(op: Operation) -> dict[str, str]:
    """The attributes as text, with the type and static shape of each output."""
    found = {name: _text(value) for name, value in op.attributes.items()}
    for tensor in op.outputs:
        found[f"output:{tensor.value_index}"] = f"{dtype_name(tensor.dtype)} {tensor.shape}"
    return found


def _text(value: Any) -> str:
    if isinstance(value, np.dtype):
        return dtype_name(value)
    if isinstance(value, np.ndarray):
        return np.array2string(value, threshold=20, edgeitems=3)
    return str(value)


ENGINE = NumpyEngine()
