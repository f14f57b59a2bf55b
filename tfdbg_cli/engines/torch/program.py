"""The PyTorch program as the session that is debugged, and its adapter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.engines.base import Meeting, SteppedRun
from tfdbg_cli.engines.kit.program import Program, RunsAdapter
from tfdbg_cli.engines.torch.around.process_patches import PROCESS_PATCHES
from tfdbg_cli.engines.torch.private import NAMES, STEPPED
from tfdbg_cli.engines.torch.ranks import meeting
from tfdbg_cli.engines.torch.runs.patches import Interceptor, Patches
from tfdbg_cli.engines.torch.runs.runs import Runs
from tfdbg_cli.engines.torch.traits import TRAITS

__all__ = ["TorchAdapter", "TorchProgram"]


class TorchProgram(Program):
    """This process, as far as it uses PyTorch."""

    runs: Runs
    patches: Patches

    def __init__(self) -> None:
        super().__init__(TRAITS)
        PROCESS_PATCHES.setting = self.value
        self.runs = Runs(self)
        self.patches = Patches(self.runs)

    def prepare(self) -> None:
        """Which optimizers there are decides what a run is. It takes long: see `watched`."""
        self.runs.optimizers.find()

    def begun(self) -> None:
        """Say of which versions the engine knows that it works."""
        NAMES.tell_version()

    def call_stepper(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        scopes: frozenset[str] | None = None,
    ) -> SteppedRun:
        """A call of a function, to be made step by step."""
        from tfdbg_cli.engines.torch.stepping.call import SteppedCall

        if why_not := NAMES.why_not(STEPPED):
            raise UserError(why_not)

        return SteppedCall(self, function, args, kwargs, scopes).stepper()

    def intercept(self, module: Any, through: Interceptor) -> Callable[[], None]:
        """See `TorchEngine.intercept`."""
        unpatch, undo = self.watched(), self.patches.intercept(module, through)
        undone: list[bool] = []

        def give_up() -> None:
            if not undone:
                undone.append(True)
                undo()
                unpatch()

        return give_up


class TorchAdapter(RunsAdapter):
    """The program as the wrapper session sees it: it runs by itself, nobody runs it."""

    def seed(self) -> str | None:
        """That of the default generator on the CPU."""
        import torch

        return f"{torch.initial_seed()} (torch.initial_seed())"

    def meeting(self) -> Meeting | None:
        """The default process group's, once there is one."""
        found = meeting()
        if found is not None:
            found.whereabouts = self.session.runs.where
        return found
