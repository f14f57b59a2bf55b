"""How closely a run is looked at."""

from __future__ import annotations

from tfdbg_cli.engines.base import Watch
from tfdbg_cli.engines.jax.runs.levels import OUTPUTS, OutputsLevel, ReplayLevel
from tfdbg_cli.engines.kit.levels import FULL, MODULES, CaptureLevel
from tfdbg_cli.engines.kit.policy import CapturePolicy, RunCosts

__all__ = ["JaxPolicy"]


class JaxPolicy(CapturePolicy):
    """While a filter for nan and infinities is awaited, what functions return is looked at.

    Doing them again op by op takes many times as long as they do: that is for what is bad, and for
    those who ask for values.
    """

    def make(self, level: str, watch: Watch, costs: RunCosts) -> CaptureLevel:
        del costs
        return ReplayLevel(watch) if level == FULL else OutputsLevel(watch)

    def obstacle(self, kind: str, costs: RunCosts) -> str:
        return ""

    def affordable(self, kind: str, costs: RunCosts) -> str:
        del kind, costs
        return FULL if self.holds or self.setting("overhead") == float("inf") else MODULES

    def reason(self, watcher: CaptureLevel, kind: str) -> str:
        found = super().reason(watcher, kind)
        if watcher.level == OUTPUTS and self.setting("level") == "auto":
            return f"{found}: config set level values for all that is computed on the way"
        return found
