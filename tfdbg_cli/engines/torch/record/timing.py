"""A run whose ops are timed: recorded as for the debugger, but with clocks in place of values."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any, NamedTuple

import torch

from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.profile import Locate, Profile, ProfileEntry, place_of
from tfdbg_cli.engines.base import Capture, Watch
from tfdbg_cli.engines.torch.names.scopes import Names
from tfdbg_cli.engines.torch.private import is_capturing
from tfdbg_cli.engines.torch.record.assembly import device_name
from tfdbg_cli.engines.torch.record.capture_levels import FullLevel
from tfdbg_cli.engines.torch.record.op_record import OpRecord
from tfdbg_cli.engines.torch.record.op_recorder import OpRecorder

__all__ = ["TimedOps", "TimingLevel"]

_CPU = torch.device("cpu")


class _Events(NamedTuple):
    """Marks in the stream of a GPU, before and after an op."""

    before: torch.cuda.Event
    after: torch.cuda.Event


class _Timing(NamedTuple):
    """One execution of an op, in nanoseconds of the performance counter.

    Attributes:
        record: the op.
        began: when the program called it.
        ended: when the call returned; a GPU may still be at work then.
        events: on a GPU.
    """

    record: OpRecord
    began: int
    ended: int
    events: _Events | None


class TimedOps(OpRecorder):
    """Looks at the clock as the last thing before an op and as the first thing behind it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.timings: list[_Timing] = []
        self._open: dict[int, tuple[int, torch.cuda.Event | None]] = {}

    def begin(
        self, op: Any, args: Any, kwargs: Mapping[str, Any], frame: FrameType | None
    ) -> OpRecord | None:
        record = super().begin(op, args, kwargs, frame)
        if record is not None:
            event = _mark(_gpu_of(record, kwargs))
            self._open[record.index] = (time.perf_counter_ns(), event)
        return record

    def end(self, record: OpRecord, result: Any) -> None:
        self._close(record)
        super().end(record, result)

    def failed(self, record: OpRecord, error: Exception) -> None:
        self._close(record)
        super().failed(record, error)

    def _close(self, record: OpRecord) -> None:
        ended = time.perf_counter_ns()
        began, before = self._open.pop(record.index, (ended, None))
        after = _mark(_gpu_of(record, {})) if before is not None else None
        events = _Events(before, after) if before is not None and after is not None else None
        self.timings.append(_Timing(record, began, ended, events))


def _gpu_of(record: OpRecord, kwargs: Mapping[str, Any]) -> torch.device | None:
    """The GPU that an op is going to run on, as far as its arguments tell."""
    for output in record.inputs:
        if output.device.type == "cuda":
            return output.device
    wanted = kwargs.get("device")
    return wanted if isinstance(wanted, torch.device) and wanted.type == "cuda" else None


def _mark(device: torch.device | None) -> torch.cuda.Event | None:
    """Record an event in the stream that the program uses; ``None``: not on a GPU."""
    # Tensors without data may be on a GPU that isn't there.
    if device is None or not torch.cuda.is_initialized() or is_capturing():
        return None
    event = torch.cuda.Event(enable_timing=True)
    event.record(torch.cuda.current_stream(device))
    return event


class TimingLevel(FullLevel):
    """Times each op of a run; no values are kept.

    The op time of an op on the CPU is the time of its call. On a GPU it is what lies between two
    events in the stream; the call itself may return before, or take longer: the longer of the two
    is the exec time.
    """

    def __init__(self, watch: Watch, names: Names) -> None:
        super().__init__(Watch(), names, hold=False, make_ops=TimedOps)
        self.watch = watch

    def finish(self, error: BaseException | None) -> Capture:
        """A dump with the timings of the run, its graph, and no tensors."""
        self.end()
        recorded, ops = self.make_dump(), self.ops
        assert isinstance(ops, TimedOps)
        timings = [each for each in ops.timings if each.record.is_adopted]
        if any(each.events is not None for each in timings):
            torch.cuda.synchronize()
        profile = _profile(timings, place_of(recorded.graph))
        dump = MemoryDump(recorded.graph, profile=profile)
        dump.warnings += recorded.warnings
        return Capture(None, dump, error)


def _profile(timings: Sequence[_Timing], locate: Locate) -> Profile:
    """The timings by device."""
    first = min((each.began for each in timings), default=0)
    devices: dict[str, list[ProfileEntry]] = {}
    for each in timings:
        record = each.record
        exec_time = (each.ended - each.began) / 1000
        op_time = exec_time
        if each.events is not None:
            op_time = each.events.before.elapsed_time(each.events.after) * 1000
            exec_time = max(exec_time, op_time)
        tensors = record.outputs or record.inputs
        device = device_name(tensors[0].device if tensors else _CPU)
        start = (each.began - first) / 1000
        entry = ProfileEntry(record.name, record.op_type, start, op_time, exec_time, place=locate)
        devices.setdefault(device, []).append(entry)
    return Profile(devices.items())
