"""The engine object that the registry loads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfdbg_cli.engines.jax.traits import TRAITS
from tfdbg_cli.engines.kit.engine import OneProgramEngine
from tfdbg_cli.engines.kit.program import Program

if TYPE_CHECKING:
    pass

__all__ = ["ENGINE", "JaxEngine"]


class JaxEngine(OneProgramEngine[Program]):
    """Programs that use JAX; it is imported by the program, and used from `install` on."""

    name = "jax"
    modules = ("jax",)
    traits = TRAITS

    def make_program(self) -> Program:
        from tfdbg_cli.engines.jax.runs.patches import JaxPatches
        from tfdbg_cli.engines.jax.runs.policy import JaxPolicy
        from tfdbg_cli.engines.jax.runs.runs import JaxRuns

        program = Program(TRAITS)
        runs = JaxRuns(program, JaxPolicy(program.value))
        program.runs, program.patches = runs, JaxPatches(runs)
        return program


#: What the registry loads.
ENGINE = JaxEngine()
