"""At which level `run -f` looks at a run: as closely as its price allows."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from tfdbg_cli.engines.base import Watch
from tfdbg_cli.engines.torch.ranks import meeting
from tfdbg_cli.engines.torch.record.capture_levels import (
    CHECKED,
    CaptureLevel,
    FullLevel,
    RecordsLevel,
)
from tfdbg_cli.engines.torch.record.run_recorder import Names
from tfdbg_cli.engines.torch.runs.rewind import Guard
from tfdbg_cli.engines.torch.runs.signals import SignalLevel

if TYPE_CHECKING:
    from tfdbg_cli.engines.torch.program import Program

__all__ = ["FULL", "RECORDS", "SIGNALS", "CapturePolicy"]

SIGNALS = "signals"
RECORDS = "op records"
FULL = "everything"

# The first runs allocate memory, make the states of optimizers, compile: they tell nothing.
_WARM_UP = 2
# Two of each, as runs may alternate between two kinds of work (the halves of a GAN).
_PATTERN = (FULL, FULL, SIGNALS, SIGNALS)
_SAMPLES = 4


class _RunCosts:
    """What is known of the runs of one kind.

    Attributes:
        count: how many were debugged.
        seconds: how long they took, by level.
        is_large: their values have not fitted in memory.
        refusal: why their lines can't be run again.
        excused: signals that are bad in any case.
    """

    def __init__(self) -> None:
        self.count = 0
        self.seconds: dict[str, list[float]] = {FULL: [], SIGNALS: []}
        self.is_large = False
        self.refusal = ""
        self.excused: set[str] = set()

    def ratio(self) -> float | None:
        """How much longer runs take when everything is held; ``None``: not known yet."""
        full, signals = self.seconds[FULL], self.seconds[SIGNALS]
        if min(len(full), len(signals)) < _SAMPLES:
            return None
        return statistics.median(full) / statistics.median(signals)


class CapturePolicy:
    """Chooses how each run is watched, and learns from what it has cost.

    While a filter is awaited that nan and infinities are signs of, everything is held at first.
    Some runs in between are watched by signals only, which costs next to nothing; if that turns
    out to be faster by more than the setting ``overhead``, or if the values don't fit in memory,
    it stays so, as long as the lines of a bad run can be run once more. A run of which they can't
    is watched op by op, and its values are let go where they don't fit.

    ``overhead`` 1 asks for signals from the first run on, ``inf`` for everything in all runs.

    Args:
        program: whose runs they are.
        names: what things are called.
        optimizers: those that are alive.
    """

    def __init__(self, program: Program, names: Names, optimizers: Iterable[Any]) -> None:
        self._program = program
        self._names = names
        self._optimizers = optimizers
        self._guard = Guard()
        self._ledgers: dict[str, _RunCosts] = {}
        self._last_kind = ""

    def ahead(self, watch: Watch) -> CaptureLevel:
        """A watcher for what comes before the next run, which is probably one like the last."""
        return self._make(watch, self._last_kind)

    def watcher(self, watch: Watch, kind: str, ahead: CaptureLevel | None) -> CaptureLevel:
        """The watcher of a run.

        Args:
            watch: what was asked for.
            kind: of the run.
            ahead: what has watched so far; it goes on where that will do.
        """
        self._last_kind = kind
        level = self._level(watch, kind)
        if ahead is not None:
            if ahead.watch == watch and ahead.level == level and level != SIGNALS:
                return ahead
            ahead.discard()
        return self._make(watch, kind)

    def ended(self, watcher: CaptureLevel, kind: str) -> None:
        """A run has ended: what it tells about the next ones."""
        ledger = self._ledger(kind)
        if not watcher.watch.filter_name:
            return
        ledger.count += 1
        ledger.is_large = ledger.is_large or watcher.is_large
        ledger.refusal = ledger.refusal or watcher.refusal
        if ledger.count > _WARM_UP and watcher.is_regular and watcher.level in ledger.seconds:
            samples = ledger.seconds[watcher.level]
            samples.append(watcher.seconds)
            del samples[:-_SAMPLES]

    def reason(self, watcher: CaptureLevel, kind: str) -> str:
        """At which level a run was watched and why."""
        ledger = self._ledger(kind)
        overhead = self._program.setting("overhead")
        ratio = ledger.ratio()
        causes = []
        if watcher.watch.filter_name in CHECKED:
            if ledger.is_large:
                causes.append("the values don't fit in memory")
            elif ratio is not None:
                causes.append(f"everything takes {ratio:.1f}x; setting overhead {overhead:g}")
            elif overhead <= 1 or overhead == math.inf:
                causes.append(f"setting overhead {overhead:g}")
            if watcher.level != SIGNALS:
                obstacle = self._obstacle(kind)
                if obstacle and (ledger.is_large or watcher.level == RECORDS):
                    causes.append(obstacle)
        return f"{watcher.level} ({', '.join(causes)})" if causes else watcher.level

    def _ledger(self, kind: str) -> _RunCosts:
        return self._ledgers.setdefault(kind, _RunCosts())

    def _obstacle(self, kind: str) -> str:
        """Why signals alone won't do for a kind of runs; mostly empty."""
        if not self._program.setting("guard"):
            return "setting guard off"
        if kind not in ("training run", "inference run"):
            return f"a {kind} can't be run once more"
        if meeting() is not None:
            return "no guard: other processes take part in the runs"
        refusal = self._ledger(kind).refusal
        return f"no guard: {refusal}" if refusal else ""

    def _level(self, watch: Watch, kind: str) -> str:
        if watch.filter_name not in CHECKED:
            return FULL  # only the values can tell
        ledger, overhead = self._ledger(kind), self._program.setting("overhead")
        if self._obstacle(kind):
            return RECORDS if ledger.is_large or overhead <= 1 else FULL
        if ledger.is_large or overhead <= 1:
            return SIGNALS
        if overhead == math.inf:
            return FULL
        ratio = ledger.ratio()
        if ratio is not None:
            return SIGNALS if ratio > overhead else FULL
        if ledger.count < _WARM_UP:
            return FULL
        return _PATTERN[(ledger.count - _WARM_UP) % len(_PATTERN)]

    def _make(self, watch: Watch, kind: str) -> CaptureLevel:
        level = self._level(watch, kind)
        if level == FULL:
            return FullLevel(watch, self._names)
        if level == RECORDS:
            return RecordsLevel(watch, self._names)
        ledger = self._ledger(kind)
        return SignalLevel(watch, self._names, self._parameters, self._guard, ledger.excused)

    def _parameters(self) -> Iterator[torch.Tensor]:
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                yield from group["params"]
