"""At which level `run -f` looks at a run: as closely as its price allows."""

from __future__ import annotations

import math
import statistics
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Collection
from typing import Any

from tfdbg_cli.engines.base import Watch
from tfdbg_cli.engines.kit.levels import CHECKED, FULL, MODULES, RECORDS, CaptureLevel

__all__ = ["CapturePolicy", "RunCosts"]

# The first runs allocate memory, make the states of optimizers, compile: they tell nothing.
_WARM_UP = 2
# Two of each, as runs may alternate between two kinds of work (the halves of a GAN).
_PATTERN = (False, False, True, True)
_SAMPLES = 4
# What modules take of a plain step that isn't tiny: no run goes unwatched to find out.
_OF_PLAIN = 1.05
# The setting ``level`` -> the level.
_ASKED = {"values": FULL, "ops": RECORDS, "modules": MODULES}


class RunCosts:
    """What is known of the runs of one kind.

    Attributes:
        count: how many were debugged.
        seconds: how long they took, by level.
        medians: of these, as soon as they tell something.
        is_large: their values take more memory than what is only waited for may.
        refusal: why a bad part of them can't be done once more.
        excused: what is bad in any case.
        is_bare: no module is called in them.
    """

    def __init__(self) -> None:
        self.count = 0
        self.seconds: dict[str, list[float]] = {FULL: [], RECORDS: [], MODULES: []}
        self.medians: dict[str, float] = {}
        self.is_large = False
        self.refusal = ""
        self.excused: set[Any] = set()
        self.is_bare = False

    def ratio(self, level: str, other: str = MODULES) -> float | None:
        """How much longer runs take at a level than at another one; ``None``: not known yet."""
        close, far = self.medians.get(level), self.medians.get(other)
        return close / far if close is not None and far is not None else None


class CapturePolicy(ABC):
    """Chooses how each run is watched, and learns from what it has cost.

    While a filter is awaited that nan and infinities are signs of, the setting ``level`` asks for
    values (everything is held), ops (the values are let go) or modules (what is bad is done once
    more, op by op). With ``auto`` it is modules, but for the first runs, which are slow in any case
    and often those that are bad: they are looked at as closely as can be. Some runs are watched op
    by op in between, to compare; where that makes them slower by no more than the setting
    ``overhead``, it stays so, and then the same holds for everything. The values are let go where
    they don't fit in memory. A kind of run of which something bad could not be done once more is
    watched op by op from then on.

    ``overhead`` 1 asks for modules from the first run on, ``inf`` for everything in all runs.

    An engine says what keeps it from modules (`obstacle`), and makes the levels (`make`).

    Args:
        setting: the value of a setting by its name.

    Attributes:
        levels: those that the engine has. Without modules, ``auto`` looks at everything as long as
            that takes no longer than ``overhead`` times what the ops alone take.
        costs: what is known of each kind of runs.
        holds: values are asked for whatever comes of the run: with ``auto`` everything is held.
    """

    levels: Collection[str] = (FULL, RECORDS, MODULES)

    def __init__(self, setting: Callable[[str], Any]) -> None:
        self.setting = setting
        self.holds = False
        self.costs: defaultdict[str, RunCosts] = defaultdict(RunCosts)
        self._last_kind = ""
        # Kind of run -> that of the run which came behind the last one of this kind.
        self._following: dict[str, str] = {}

    @property
    def is_free(self) -> bool:
        """Whether it is chosen here how closely runs are watched, and so what is held of them."""
        is_open = self.setting("level") == "auto" and self.setting("overhead") < math.inf
        return is_open and not self.holds

    @abstractmethod
    def make(self, level: str, watch: Watch, costs: RunCosts) -> CaptureLevel:
        """A level for one run: `FULL`, `RECORDS` or `MODULES`.

        Args:
            level: which.
            watch: what is asked for.
            costs: what is known of runs of its kind.
        """

    def obstacle(self, kind: str, costs: RunCosts) -> str:
        """Why modules alone won't do for a kind of runs; empty: they will."""
        return "the engine sees no modules"

    def ahead(self, watch: Watch) -> CaptureLevel:
        """A watcher for what comes before the next run, which is probably of the kind that followed
        the last run of this kind.
        """
        return self._make(watch, self._following.get(self._last_kind, self._last_kind))

    def settle(self) -> None:
        """A run is over, and what comes before the next one is looked at, or not."""

    def watcher(self, watch: Watch, kind: str, ahead: CaptureLevel | None) -> CaptureLevel:
        """The watcher of a run.

        Args:
            watch: what was asked for.
            kind: of the run.
            ahead: what has watched so far; it goes on where that will do.
        """
        self._following[self._last_kind] = kind
        self._last_kind = kind
        if ahead is not None:
            if ahead.watch == watch and self._suits(ahead, kind):
                ahead.kind = kind
                return ahead
            ahead.discard()
        return self._make(watch, kind)

    def _suits(self, ahead: CaptureLevel, kind: str) -> bool:
        """Whether what has watched so far watches a run as well.

        If another kind of run was expected, another level would do better, but what was seen of
        the ops before the run would be lost.
        """
        if ahead.level == self._level(ahead.watch, kind):
            return True
        costs = self.costs[kind]
        is_open = self.is_free or self.setting("level") == "modules"
        if ahead.kind == kind or not is_open or costs.refusal:
            return False
        if ahead.level == MODULES:
            return not self.obstacle(kind, costs)
        return ahead.level != FULL or not costs.is_large

    def ended(self, watcher: CaptureLevel, kind: str) -> None:
        """A run has ended: what it tells about the next ones."""
        costs = self.costs[kind]
        if not watcher.watch.filter_name:
            return
        costs.count += 1
        costs.is_large = costs.is_large or watcher.is_large
        costs.refusal = costs.refusal or watcher.refusal
        costs.is_bare = watcher.is_bare
        if costs.count > _WARM_UP and watcher.is_regular and watcher.level in costs.seconds:
            samples = costs.seconds[watcher.level]
            samples.append(watcher.seconds_before + watcher.seconds)
            del samples[:-_SAMPLES]
            if len(samples) == _SAMPLES:
                costs.medians[watcher.level] = statistics.median(samples)

    def reason(self, watcher: CaptureLevel, kind: str) -> str:
        """At which level a run was watched and why."""
        costs = self.costs[kind]
        asked, overhead = self.setting("level"), self.setting("overhead")
        causes = []
        if watcher.watch.filter_name in CHECKED:
            cheapest = MODULES if MODULES in self.levels else RECORDS
            ratios = [
                f"{level} {'take' if level == RECORDS else 'takes'} {ratio:.1f}x"
                for level in (FULL, RECORDS)
                if level != cheapest and (ratio := costs.ratio(level, cheapest)) is not None
            ]
            if asked != "auto":
                causes.append(f"setting level {asked}")
            if costs.is_large and watcher.level == RECORDS:
                causes.append("the values take too much memory")
            if asked == "auto" and ratios:
                causes.append(f"{', '.join(ratios)}; setting overhead {overhead:g}")
            elif asked == "auto" and (overhead <= 1 or overhead == math.inf):
                causes.append(f"setting overhead {overhead:g}")
            wants_modules = asked == "modules" or (asked == "auto" and MODULES in self.levels)
            if watcher.level != MODULES and wants_modules and overhead < math.inf:
                obstacle = self.obstacle(kind, costs)
                if obstacle:
                    causes.append(obstacle)
        return f"{watcher.level} ({', '.join(causes)})" if causes else watcher.level

    def _level(self, watch: Watch, kind: str) -> str:
        if watch.filter_name not in CHECKED:
            return FULL  # only the values can tell
        costs, asked = self.costs[kind], self.setting("level")
        found = _ASKED.get(asked) or self.affordable(kind, costs)
        if found == MODULES and (MODULES not in self.levels or self.obstacle(kind, costs)):
            found = RECORDS
        if found == FULL and costs.is_large and self.is_free:
            found = RECORDS
        return found if found in self.levels else FULL

    def affordable(self, kind: str, costs: RunCosts) -> str:
        """The closest level that costs no more than allowed; or the next one to be measured."""
        overhead = self.setting("overhead")
        if self.holds:
            return FULL
        if overhead <= 1:
            return MODULES
        if costs.refusal and overhead < math.inf:
            return RECORDS
        if overhead == math.inf or costs.count < _WARM_UP:
            return FULL
        if MODULES not in self.levels:
            return self._without_modules(costs, overhead)
        if self.obstacle(kind, costs):
            return RECORDS if costs.is_bare else FULL
        found = MODULES
        for level in (RECORDS,) if costs.is_large else (RECORDS, FULL):
            ratio = costs.ratio(level)
            if ratio is None:
                is_close = _PATTERN[(costs.count - _WARM_UP) % len(_PATTERN)]
                return level if is_close else found
            if ratio * _OF_PLAIN > overhead:
                break
            found = level
        return found

    def _without_modules(self, costs: RunCosts, overhead: float) -> str:
        ratio = costs.ratio(FULL, RECORDS)
        if ratio is None:
            is_bare = _PATTERN[(costs.count - _WARM_UP) % len(_PATTERN)]
            return RECORDS if is_bare else FULL
        return FULL if ratio <= overhead else RECORDS

    def _make(self, watch: Watch, kind: str) -> CaptureLevel:
        found = self.make(self._level(watch, kind), watch, self.costs[kind])
        found.kind = kind
        return found
