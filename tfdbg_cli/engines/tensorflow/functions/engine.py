"""The engine object that the registry loads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tfdbg_cli.engines.base import SteppedRun, StepsCalls
from tfdbg_cli.engines.kit.engine import OneProgramEngine
from tfdbg_cli.engines.kit.program import Program, RunsAdapter
from tfdbg_cli.engines.tensorflow.functions.traits import TRAITS

__all__ = ["ENGINE", "FunctionsEngine"]


class FunctionsEngine(OneProgramEngine[Program], StepsCalls):
    """Programs of TensorFlow 2; TensorFlow is imported by the first method that needs it."""

    name = "tensorflow2"
    modules = ("tensorflow.python.distribute.distribute_lib",)
    traits = TRAITS

    def make_program(self) -> Program:
        from tfdbg_cli.engines.tensorflow.functions.keras_names import KerasNames
        from tfdbg_cli.engines.tensorflow.functions.patches import FunctionPatches
        from tfdbg_cli.engines.tensorflow.functions.runs import FunctionPolicy, FunctionRuns

        program = Program(TRAITS)
        names = KerasNames()
        runs = FunctionRuns(program, FunctionPolicy(program.value, names))
        program.runs, program.patches = runs, FunctionPatches(runs, names)
        return program

    def adapt(self, session: Program) -> RunsAdapter:
        from tfdbg_cli.engines.tensorflow.functions.ranks import FunctionsAdapter

        return FunctionsAdapter(session)

    def call_stepper(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        scopes: frozenset[str] | None = None,
    ) -> SteppedRun:
        """A call of a function, which is made now, to be gone through.

        Of a traced function the steps are those of its graph, and their tensors can be overridden.
        Whatever else is called can only be gone through.

        Raises:
            UserError: this TensorFlow hasn't what it takes.
        """
        del scopes
        from tfdbg_cli.engines.tensorflow.functions.runs import FunctionRuns

        program = self.program()
        runs = program.runs
        assert isinstance(runs, FunctionRuns)
        return runs.call_stepper(function, args, kwargs, self.is_own(function), program.watched)

    def is_own(self, function: Any) -> bool:
        """Whether it is a traced function."""
        from tfdbg_cli.engines.tensorflow.functions.private import is_traced
        from tfdbg_cli.engines.tensorflow.functions.stepping.intercepted import InterceptedCall

        return isinstance(function, InterceptedCall) or is_traced(function)

    def intercept(
        self, module: Any, around: Callable[[Callable[..., Any], Any, Any], Any]
    ) -> Callable[[], None]:
        """Let calls of a traced function go through another one."""
        from tfdbg_cli.engines.tensorflow.functions.stepping.intercepted import intercept

        return intercept(module, around)


#: What the registry loads.
ENGINE = FunctionsEngine()
