"""The engine object that the registry loads."""

from __future__ import annotations

from tfdbg_cli.engines.kit.engine import OneProgramEngine
from tfdbg_cli.engines.kit.program import Program, RunsAdapter
from tfdbg_cli.engines.tensorflow.functions.traits import TRAITS

__all__ = ["ENGINE", "FunctionsEngine"]


class FunctionsEngine(OneProgramEngine[Program]):
    """Programs of TensorFlow 2; TensorFlow is imported by the first method that needs it."""

    name = "tensorflow2"
    modules = ("tensorflow.python.eager.polymorphic_function.polymorphic_function",)
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


#: What the registry loads.
ENGINE = FunctionsEngine()
