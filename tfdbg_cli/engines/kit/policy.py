"""At which level `run -f` looks at a run: as closely as its price allows."""

from __future__ import annotations

import math
import statistics
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from tfdbg_cli.engines.base import Watch
from tfdbg_cli.engines.kit.levels import CHECKED, FULL, RECORDS, SIGNALS, CaptureLevel

__all__ = ["CapturePolicy", "RunCosts"]

# The first runs allocate memory, make the states of optimizers, compile: they tell nothing.
_WARM_UP = 2
# Two of each, as runs may alternate between two kinds of work (the halves of a GAN).
_PATTERN = (FULL, FULL, SIGNALS, SIGNALS)
_SAMPLES = 4


class RunCosts:
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


class CapturePolicy(ABC):
    """Chooses how each run is watched, and learns from what it has cost.

    While a filter is awaited that nan and infinities are signs of, everything is held at first.
    Some runs in between are watched by signals only, which costs next to nothing; if that turns
    out to be faster by more than the setting ``overhead``, or if the values don't fit in memory,
    it stays so, as long as the lines of a bad run can be run once more. A run of which they can't
    is watched op by op, and its values are let go where they don't fit.

    ``overhead`` 1 asks for signals from the first run on, ``inf`` for everything in all runs.

    An engine says what keeps it from signals (`obstacle`), and makes the levels (`make`).

    Args:
        setting: the value of a setting by its name.
    """

    def __init__(self, setting: Callable[[str], Any]) -> None:
        self.setting = setting
        self._costs: dict[str, RunCosts] = {}
        self._last_kind = ""

    @abstractmethod
    def make(self, level: str, watch: Watch, costs: RunCosts) -> CaptureLevel:
        """A level for one run: `FULL`, `RECORDS` or `SIGNALS`.

        Args:
            level: which.
            watch: what is asked for.
            costs: what is known of runs of its kind.
        """

    def obstacle(self, kind: str, costs: RunCosts) -> str:
        """Why signals alone won't do for a kind of runs; empty: they will."""
        return "the engine has no signals"

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
        costs = self.costs_of(kind)
        if not watcher.watch.filter_name:
            return
        costs.count += 1
        costs.is_large = costs.is_large or watcher.is_large
        costs.refusal = costs.refusal or watcher.refusal
        if costs.count > _WARM_UP and watcher.is_regular and watcher.level in costs.seconds:
            samples = costs.seconds[watcher.level]
            samples.append(watcher.seconds)
            del samples[:-_SAMPLES]

    def reason(self, watcher: CaptureLevel, kind: str) -> str:
        """At which level a run was watched and why."""
        costs = self.costs_of(kind)
        overhead = self.setting("overhead")
        ratio = costs.ratio()
        causes = []
        if watcher.watch.filter_name in CHECKED:
            if costs.is_large:
                causes.append("the values don't fit in memory")
            elif ratio is not None:
                causes.append(f"everything takes {ratio:.1f}x; setting overhead {overhead:g}")
            elif overhead <= 1 or overhead == math.inf:
                causes.append(f"setting overhead {overhead:g}")
            if watcher.level != SIGNALS:
                obstacle = self.obstacle(kind, costs)
                if obstacle and (costs.is_large or watcher.level == RECORDS):
                    causes.append(obstacle)
        return f"{watcher.level} ({', '.join(causes)})" if causes else watcher.level

    def costs_of(self, kind: str) -> RunCosts:
        """What is known of a kind of runs."""
        return self._costs.setdefault(kind, RunCosts())

    def _level(self, watch: Watch, kind: str) -> str:
        if watch.filter_name not in CHECKED:
            return FULL  # only the values can tell
        costs, overhead = self.costs_of(kind), self.setting("overhead")
        if self.obstacle(kind, costs):
            return RECORDS if costs.is_large or overhead <= 1 else FULL
        if costs.is_large or overhead <= 1:
            return SIGNALS
        if overhead == math.inf:
            return FULL
        ratio = costs.ratio()
        if ratio is not None:
            return SIGNALS if ratio > overhead else FULL
        if costs.count < _WARM_UP:
            return FULL
        return _PATTERN[(costs.count - _WARM_UP) % len(_PATTERN)]

    def _make(self, watch: Watch, kind: str) -> CaptureLevel:
        return self.make(self._level(watch, kind), watch, self.costs_of(kind))
