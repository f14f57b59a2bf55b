"""The engine object that the registry loads."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.engines.base import SteppedRun, StepsCalls
from tfdbg_cli.engines.kit.engine import OneProgramEngine
from tfdbg_cli.engines.kit.program import Program, RunsAdapter
from tfdbg_cli.engines.torch.traits import TRAITS

if TYPE_CHECKING:
    from tfdbg_cli.engines.torch.program import TorchProgram

__all__ = ["ENGINE", "TorchEngine"]


class TorchEngine(OneProgramEngine["TorchProgram"], StepsCalls):
    """Programs that use PyTorch; it is imported by the program, and used from `install` on."""

    name = "torch"
    modules = ("torch",)
    traits = TRAITS

    def make_program(self) -> TorchProgram:
        """This process, as far as it uses PyTorch.

        Raises:
            UserError: this PyTorch hasn't what it takes; nothing was changed.
        """
        from tfdbg_cli.engines.torch.program import TorchProgram

        return TorchProgram()

    def adapt(self, session: Program) -> RunsAdapter:
        from tfdbg_cli.engines.torch.program import TorchAdapter

        return TorchAdapter(session)

    def call_stepper(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        scopes: frozenset[str] | None = None,
    ) -> SteppedRun:
        """A call of a module, or any function, to be done op by op.

        It begins when its first step is asked for.

        Raises:
            UserError: the package ``greenlet`` isn't installed.
        """
        from tfdbg_cli.engines.torch.private import NAMES, STEPPED
        from tfdbg_cli.engines.torch.stepping.call import SteppedCall

        program = self.program()
        if why_not := NAMES.why_not(STEPPED):
            raise UserError(why_not)
        return SteppedCall(program, function, args, kwargs, scopes).stepper()

    def is_module(self, thing: Any) -> bool:
        """Whether it is a ``torch.nn.Module``."""
        torch = sys.modules.get("torch")
        return torch is not None and isinstance(thing, torch.nn.Module)

    def has_module(self, module: Any, path: str) -> bool:
        try:
            return module.get_submodule(path) is not None
        except AttributeError:
            return False
        except RuntimeError:  # a ScriptModule
            return any(name == path for name, _ in module.named_modules())

    def module_tensors(self, module: Any) -> Iterable[tuple[str, Any]]:
        """Its parameters and buffers."""
        return (*module.named_parameters(), *module.named_buffers())

    def intercept(
        self, module: Any, around: Callable[[Callable[..., Any], Any, Any], Any]
    ) -> Callable[[], None]:
        return self.program().intercept(module, around)


#: What the registry loads.
ENGINE = TorchEngine()
