"""At which level `run -f` looks at a run of PyTorch: what keeps it from modules, and the levels."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from tfdbg_cli.common.memory import unnoticed_memory
from tfdbg_cli.dumps.series.tracks import Tracks
from tfdbg_cli.engines.base import Watch
from tfdbg_cli.engines.kit.levels import CHECKED, FULL, MODULES, RECORDS, CaptureLevel
from tfdbg_cli.engines.kit.policy import CapturePolicy, RunCosts
from tfdbg_cli.engines.torch.modules.checks import Stale
from tfdbg_cli.engines.torch.modules.facts import FactsOf
from tfdbg_cli.engines.torch.modules.level import ModulesLevel
from tfdbg_cli.engines.torch.modules.replay import Aside
from tfdbg_cli.engines.torch.names.scopes import Names
from tfdbg_cli.engines.torch.record.capture_levels import FullLevel, RecordsLevel
from tfdbg_cli.engines.torch.runs.magnitudes import Magnitudes, Sizes
from tfdbg_cli.engines.torch.runs.unused import UnusedOps

__all__ = ["TorchCapturePolicy"]

# On a CPU one run of so many is measured: each would cost some 4 % of itself by modules, where the
# magnitude comes in place of another check, and twice that where it is work of its own.
_MEASURED = {MODULES: 4, RECORDS: 8, FULL: 8}


class TorchCapturePolicy(CapturePolicy):
    """Chooses how each run is watched.

    Args:
        setting: the value of a setting by its name.
        names: what things are called.
        optimizers: those that are alive.
        tracks: tells where the numbers of runs go; ``None``: nobody wants them.
        aside: around what is no part of the program; module calls within go through a visitor.
    """

    def __init__(
        self,
        setting: Callable[[str], Any],
        names: Names,
        optimizers: Iterable[Any],
        tracks: Callable[[], Tracks | None],
        aside: Aside,
    ) -> None:
        super().__init__(setting)
        self._names = names
        self._optimizers = optimizers
        self._aside = aside
        self._spares: list[FullLevel] = []
        self._facts, self._stale, self._unused = FactsOf(), Stale(), UnusedOps()
        self._used = UnusedOps(records_all=True)
        self._magnitudes = Magnitudes(names, tracks)

    def obstacle(self, kind: str, costs: RunCosts) -> str:
        """What of a bad run of this kind could not be done once more; mostly empty."""
        if costs.is_bare:
            return "no module is called in it"
        return f"not replayed: {costs.refusal}" if costs.refusal else ""

    def make(self, level: str, watch: Watch, costs: RunCosts) -> CaptureLevel:
        allowance = self._allowance() if self.is_free else None
        sizes = Sizes(self._magnitudes, self._parameters, _MEASURED[level])
        if level in (FULL, RECORDS):
            made = (
                FullLevel(watch, self._names, allowance=allowance)
                if level == FULL
                else RecordsLevel(watch, self._names, allowance)
            )
            if watch.filter_name in CHECKED:
                made.sizes, made.ops.unused = sizes, self._unused if self.is_free else self._used
            return made
        return ModulesLevel(
            watch,
            self._names,
            self._parameters,
            self._aside,
            costs.excused,
            self._spares,
            self._facts,
            self._stale,
            sizes,
            not costs.seconds[MODULES] and self.setting("level") == "auto",
            self._unused,
            allowance,
        )

    def settle(self) -> None:
        while self._spares:
            self._spares.pop().discard()

    @staticmethod
    def _allowance() -> int:
        found = unnoticed_memory()
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            found = min(found, unnoticed_memory(torch.cuda.memory_allocated()))
        return found

    def _parameters(self) -> list[torch.Tensor]:
        return [p for each in self._optimizers for g in each.param_groups for p in g["params"]]
