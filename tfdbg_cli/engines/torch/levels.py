"""What every level of PyTorch is told of a run, besides what levels of all engines are told."""

from __future__ import annotations

from typing import Any

from tfdbg_cli.engines.kit.levels import CaptureLevel

__all__ = ["TorchLevel"]


class TorchLevel(CaptureLevel):
    """Looks at one run of a PyTorch program; this one at nothing."""

    guarded = (*CaptureLevel.guarded, "enter_module", "leave_module")

    def enter_module(self, module: Any, arguments: Any = None) -> None:
        """A module is called, by the program or by another module."""

    def leave_module(self, module: Any, output: Any) -> None:
        """The call returns, or (with ``None``) raises."""

    def rest(self) -> None:
        """What comes, until `wake`, is no work of the program's own code outside of modules."""

    def wake(self) -> None:
        """The program goes on with its own code."""

    def will_be_partial(self) -> None:
        """The backward pass that begins is not for all parameters."""

    def backward_done(self, is_grad: bool, value: Any = None) -> None:
        """A backward pass has gone well; ``is_grad``: it has returned gradients, the value."""
