"""At which level `run -f` looks at a run of PyTorch: what keeps it from signals, and the levels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from tfdbg_cli.engines.base import Watch
from tfdbg_cli.engines.kit.levels import FULL, RECORDS, CaptureLevel
from tfdbg_cli.engines.kit.policy import CapturePolicy, RunCosts
from tfdbg_cli.engines.torch.ranks import meeting
from tfdbg_cli.engines.torch.record.capture_levels import FullLevel, RecordsLevel
from tfdbg_cli.engines.torch.record.run_recorder import Names
from tfdbg_cli.engines.torch.runs.rewind import Guard
from tfdbg_cli.engines.torch.runs.signals import SignalLevel

__all__ = ["TorchCapturePolicy"]


class TorchCapturePolicy(CapturePolicy):
    """Chooses how each run is watched.

    Args:
        setting: the value of a setting by its name.
        names: what things are called.
        optimizers: those that are alive.
    """

    def __init__(
        self, setting: Callable[[str], Any], names: Names, optimizers: Iterable[Any]
    ) -> None:
        super().__init__(setting)
        self._names = names
        self._optimizers = optimizers
        self._guard = Guard()

    def obstacle(self, kind: str, costs: RunCosts) -> str:
        """Why the lines of a bad run of this kind can't be run once more; mostly empty."""
        if not self.setting("guard"):
            return "setting guard off"
        if kind not in ("training run", "inference run"):
            return f"a {kind} can't be run once more"
        if meeting() is not None:
            return "no guard: other processes take part in the runs"
        return f"no guard: {costs.refusal}" if costs.refusal else ""

    def make(self, level: str, watch: Watch, costs: RunCosts) -> CaptureLevel:
        if level == FULL:
            return FullLevel(watch, self._names)
        if level == RECORDS:
            return RecordsLevel(watch, self._names)
        return SignalLevel(watch, self._names, self._parameters, self._guard, costs.excused)

    def _parameters(self) -> Iterator[torch.Tensor]:
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                yield from group["params"]
