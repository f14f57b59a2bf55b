"""A run whose ops are timed, in a replay that is made for that."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import jax

from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.profile import Profile, ProfileEntry, place_of
from tfdbg_cli.engines.base import Capture, Watch
from tfdbg_cli.engines.jax.plans.ops import Op
from tfdbg_cli.engines.jax.plans.replay import Replay
from tfdbg_cli.engines.jax.runs.levels import ReplayedRun, ReplayLevel
from tfdbg_cli.engines.kit.levels import CaptureLevel

__all__ = ["TimingLevel"]

_OP_BY_OP = "These are the times of the ops done one by one; compiled together they take less."
# What an op that has given no array was done on.
_NO_DEVICE = "CPU:0"


class _TimedReplay(Replay):
    """Waits for what each op makes, and looks at the clock."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.timings: list[tuple[Op, int, int, str]] = []

    def _made(self, op: Op, inputs: Sequence[Any]) -> Sequence[Any]:
        if op.bodies:  # what it does is timed op by op
            return super()._made(op, inputs)
        began = time.perf_counter_ns()
        made = super()._made(op, inputs)
        jax.block_until_ready(made)  # type: ignore[no-untyped-call]
        self.timings.append((op, began, time.perf_counter_ns(), _device_of(made)))
        return made


class _TimedRun(ReplayedRun):
    """The calls of a run, each op with its times, and no values."""

    def __init__(self, watch: Watch) -> None:
        super().__init__(watch)
        self.replays: list[_TimedReplay] = []

    def make_replay(self, *args: Any) -> Replay:
        self.replays.append(made := _TimedReplay(*args))
        return made

    def _tell(self, node: str, slot: int, value: Any, is_owned: bool = False) -> None:
        if is_owned:
            self._tensors[id(value)] = (f"{node}:{slot}", value)


class TimingLevel(ReplayLevel):
    """Times each op of a run.

    Calls are done twice more: once for what JAX compiles for each op, once with clocks.
    """

    def finish(self, error: BaseException | None) -> Capture:
        """A dump with the timings of the run, its graph, and no tensors."""
        CaptureLevel.finish(self, error)
        for made in (_TimedRun(Watch()), timed := _TimedRun(Watch())):
            for call in self.calls:
                made.add(call)
        self.replayed = timed
        graph = timed.dump.graph()
        assert graph is not None
        devices: dict[str, list[ProfileEntry]] = {}
        timings = [each for replay in timed.replays for each in replay.timings]
        first = min((began for _, began, _, _ in timings), default=0)
        for op, began, ended, device in timings:
            took, start = (ended - began) / 1000, (began - first) / 1000
            entry = ProfileEntry(op.name, op.op_type, start, took, took, place=place_of(graph))
            devices.setdefault(device, []).append(entry)
        dump = MemoryDump(graph, profile=Profile(devices.items()))
        dump.warnings.append(_OP_BY_OP)
        return Capture(None, dump, error)


def _device_of(made: Sequence[Any]) -> str:
    for value in made:
        if isinstance(value, jax.Array):
            here = value.sharding.addressable_devices  # others are with other processes
            device = min(here or value.devices(), key=lambda each: each.id)
            return f"{device.platform.upper()}:{device.id}"
    return _NO_DEVICE
