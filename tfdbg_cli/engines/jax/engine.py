"""The engine object that the registry loads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tfdbg_cli.engines.base import SteppedRun, StepsCalls, TellsUse
from tfdbg_cli.engines.jax.traits import TRAITS
from tfdbg_cli.engines.kit.engine import OneProgramEngine
from tfdbg_cli.engines.kit.program import Program, RunsAdapter

__all__ = ["ENGINE", "JaxEngine"]


class JaxEngine(OneProgramEngine[Program], StepsCalls, TellsUse):
    """Programs that use JAX; it is imported by the program, and used from `install` on."""

    name = "jax"
    modules = ("jax",)
    traits = TRAITS

    def make_program(self) -> Program:
        from tfdbg_cli.engines.jax.runs.patches import JaxPatches
        from tfdbg_cli.engines.jax.runs.runs import JaxPolicy, JaxRuns

        program = Program(TRAITS)
        runs = JaxRuns(program, JaxPolicy(program.value))
        program.runs, program.patches = runs, JaxPatches(runs)
        return program

    def adapt(self, session: Program) -> RunsAdapter:
        from tfdbg_cli.engines.jax.ranks import JaxAdapter

        return JaxAdapter(session)

    def has_computed(self) -> bool:
        """TensorFlow imports JAX where it is installed."""
        from tfdbg_cli.engines.jax.private import has_devices

        return has_devices()

    def call_stepper(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        scopes: frozenset[str] | None = None,
    ) -> SteppedRun:
        """A call of a function, which is made now, to be gone through op by op.

        Raises:
            UserError: this JAX hasn't what it takes, or the function isn't one call.
        """
        del scopes
        from tfdbg_cli.engines.jax.runs.runs import JaxRuns

        program = self.program()
        assert isinstance(program.runs, JaxRuns)
        return program.runs.call_stepper(function, args, kwargs, program.watched)

    def is_own(self, function: Any) -> bool:
        """Whether ``jax.jit`` has made it."""
        from tfdbg_cli.engines.jax.private import compiled_function
        from tfdbg_cli.engines.jax.stepping.calls import InterceptedCall

        return isinstance(function, (compiled_function, InterceptedCall))

    def intercept(
        self, module: Any, around: Callable[[Callable[..., Any], Any, Any], Any]
    ) -> Callable[[], None]:
        """Let calls of a compiled function go through another one."""
        from tfdbg_cli.engines.jax.private import is_clean
        from tfdbg_cli.engines.jax.stepping.calls import intercept

        return intercept(module, around, lambda: not is_clean())


#: What the registry loads.
ENGINE = JaxEngine()
