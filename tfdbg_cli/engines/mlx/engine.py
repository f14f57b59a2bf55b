"""The engine: what begins and ends a run of a program that uses MLX, and what sees its ops.

A run is what the program makes real at once. It begins with a call of a function that computes
gradients, or of a module, and ends when `mx.eval` or the like has computed what was asked for.
"""

from __future__ import annotations

from tfdbg_cli.engines.kit.patching.patches import PatchSet
from tfdbg_cli.engines.kit.recording.program_kit import ProgramKit
from tfdbg_cli.engines.mlx.functions import see_functions
from tfdbg_cli.engines.mlx.op_facts import Plans
from tfdbg_cli.engines.mlx.ops import see_ops
from tfdbg_cli.engines.mlx.private import NAMES
from tfdbg_cli.engines.mlx.recorder import Recorder
from tfdbg_cli.engines.mlx.runs import Runs, see_runs
from tfdbg_cli.engines.mlx.traits import TRAITS

__all__ = ["ENGINE"]


class MlxEngine(ProgramKit):
    """Knows besides which outputs of a run's ops tell of all others.

    Attributes:
        plans: of earlier runs.
        now: the run that is open.
    """

    def __init__(self) -> None:
        super().__init__(TRAITS, ["mlx.core"], _see, Recorder, names=NAMES)
        self.plans = Plans()
        self.now = Runs(self)

    def gave_up(self, error: Exception) -> None:
        """Something is wrong with us: nothing more is watched."""
        self.program().runs.give_up(error)


def _see(engine: ProgramKit, patches: PatchSet) -> None:
    assert isinstance(engine, MlxEngine)
    see_ops(patches)
    see_functions(engine.now, patches)
    see_runs(engine.now, patches)


ENGINE = MlxEngine()
