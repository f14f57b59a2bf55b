"""What TensorFlow's profiler has seen of a thread: ops, functions, and the kernels in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tfdbg_cli.engines.tensorflow.functions.private import trace_of

__all__ = ["MARK", "KernelRun", "ProfilerTrace"]

#: Shows which thread is the program's.
MARK = "tfdbg_run"
# They hand over what the function is given and gives.
_MARKS = frozenset({"_Arg", "_Retval", "_SOURCE", "_SINK", "_DeviceArg", "_DeviceRetval"})


class KernelRun(NamedTuple):
    """A kernel that was executed.

    Attributes:
        node: the runtime's name.
        kernel: its type.
        start: microseconds.
        time: the same.
        device: that it ran on.
    """

    node: str
    kernel: str
    start: float
    time: float
    device: str


class ProfilerTrace:
    """What the profiler has seen."""

    def __init__(self, raw: bytes) -> None:
        trace = trace_of(raw)
        self._devices: Mapping[int, Any] = trace.devices
        self._events = sorted(trace.trace_events, key=lambda event: int(event.timestamp_ps))
        self._thread = next(
            ((event.device_id, event.resource_id) for event in self._events if event.name == MARK),
            None,
        )

    def executions(self) -> Iterator[tuple[str, bool, list[KernelRun]]]:
        """What the program's thread has executed: op or function, and the kernels."""
        mine = [event for event in self._events if _thread(event) == self._thread]
        for event in mine:
            op = event.args.get("eager_op", "")
            if event.name != "EagerExecute" or not op:
                continue
            inside = [each for each in self._events if _is_within(each, event)]
            if event.args.get("is_func") == "1":
                yield op, True, list(self._kernels(event, inside))
                continue
            runs = [e for e in inside if _thread(e) == self._thread and e.name.endswith("::Run")]
            yield op, False, [self._executed(runs[0] if runs else event, op, op)]

    def _kernels(self, call: Any, inside: Sequence[Any]) -> Iterator[KernelRun]:
        """The kernels of a function that is called."""
        own = {
            event.args["id"]
            for event in inside
            if event.name == "FunctionRun" and _thread(event) == _thread(call)
        }
        working: dict[Any, list[Any]] = {}
        for event in inside:
            if event.name == "ExecutorState::Process" and event.args.get("id") in own:
                working.setdefault(_thread(event), []).append(event)
        for event in inside:
            if event.name == "ExecutorState::ProcessAsync::Start":
                if event.args.get("step_id") in own:
                    yield self._executed(event, event.args["name"], event.args["kernel_type"])
                continue
            node, colon, kernel = event.args.get("long_name", "").rpartition(":")
            if not colon or kernel in _MARKS or "tfdbg_" in node:
                continue
            mine = working.get(_thread(event), ())
            is_own = any(_is_within(event, each) for each in mine)
            if is_own or node == call.args["eager_op"]:
                yield self._executed(event, node, kernel)

    def _executed(self, event: Any, node: str, kernel: str) -> KernelRun:
        device = self._devices.get(event.device_id)
        start, time = event.timestamp_ps / 1e6, event.duration_ps / 1e6
        return KernelRun(node, kernel, start, time, str(device.name) if device else "")


def _thread(event: Any) -> tuple[int, int]:
    return event.device_id, event.resource_id


def _is_within(event: Any, outer: Any) -> bool:
    start, end = outer.timestamp_ps, outer.timestamp_ps + outer.duration_ps
    return bool(start <= event.timestamp_ps and event.timestamp_ps + event.duration_ps <= end)
