"""How closely a run is looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfdbg_cli.engines.base import Watch
from tfdbg_cli.engines.jax.runs.in_place import InPlace
from tfdbg_cli.engines.jax.runs.levels import OUTPUTS, OutputsLevel, ReplayLevel
from tfdbg_cli.engines.jax.runs.ops_level import OpsLevel
from tfdbg_cli.engines.jax.twins.twins import Twin, Twins
from tfdbg_cli.engines.kit.levels import FULL, MODULES, RECORDS, CaptureLevel
from tfdbg_cli.engines.kit.policy import CapturePolicy, RunCosts

__all__ = ["JaxPolicy"]


class JaxPolicy(CapturePolicy):
    """While a filter for nan and infinities is awaited, what functions return is looked at.

    Doing them again op by op takes many times as long as they do: that is for what is bad, and for
    those who ask for values. In between, at the level of ops, a twin of each function is computed
    beside it, which tells whether anything in it is bad; that is for those who ask for it, too.

    Args:
        setting: the value of a setting.
    """

    def __init__(self, setting: Callable[[str], Any]) -> None:
        super().__init__(setting)
        self._twins: Twins[Twin] = Twins()
        self._in_place = InPlace()

    def make(self, level: str, watch: Watch, costs: RunCosts) -> CaptureLevel:
        del costs
        if level == FULL:
            return ReplayLevel(watch)
        if level != RECORDS:
            return OutputsLevel(watch)
        in_place = self._in_place if self.setting("results") == "twin" else None
        return OpsLevel(watch, self._twins, in_place)

    def obstacle(self, kind: str, costs: RunCosts) -> str:
        return ""

    def affordable(self, kind: str, costs: RunCosts) -> str:
        del kind, costs
        return FULL if self.holds or self.setting("overhead") == float("inf") else MODULES

    def reason(self, watcher: CaptureLevel, kind: str) -> str:
        found = super().reason(watcher, kind)
        if watcher.level == OUTPUTS and self.setting("level") == "auto":
            return f"{found}: config set level ops checks inner tensors as well"
        if isinstance(watcher, OpsLevel) and watcher.lacks:
            return f"{found}: {watcher.lack}"
        return found
