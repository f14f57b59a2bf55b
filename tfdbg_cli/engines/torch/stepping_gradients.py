"""Gradients with respect to tensors of a program that is stepped through."""

from __future__ import annotations

from collections.abc import Callable

import torch

from tfdbg_cli.engines.torch.private import unobserved
from tfdbg_cli.engines.torch.recording import BACKWARD, Output
from tfdbg_cli.engines.torch.stepping_records import Recorded
from tfdbg_cli.engines.torch.stepping_values import copied
from tfdbg_cli.errors import UserError

__all__ = ["Gradients"]


class Gradients:
    """Waits for the backward pass to come to the tensors that were asked for.

    A hook on the tensor gets its whole gradient, summed over all that have used it, before it is
    passed on; the hook is taken off at once. Of a tensor that the program has let go of, it is what
    the first op of its backward node gets from other nodes.

    Args:
        recorded: the outputs of the run.
    """

    def __init__(self, recorded: Recorded) -> None:
        self._recorded = recorded
        self._found: dict[str, torch.Tensor] = {}
        self._hooks: dict[str, Callable[[], None]] = {}

    def get(self, name: str) -> torch.Tensor:
        """The gradient with respect to a tensor.

        Raises:
            KeyError: it is not computed yet; it is kept for the next time.
            UserError: the tensor has none.
        """
        if name not in self._found and name not in self._hooks:
            self._wait_for(name)
        return copied(self._found[name])

    def _wait_for(self, name: str) -> None:
        output = self._recorded.find(name)
        if output is None:
            raise KeyError(name)
        tensor = output.reference()
        if tensor is None:
            self._found[name] = self._received(name, output)
            return
        if not tensor.requires_grad:
            raise UserError(f"{name} doesn't require a gradient.")

        def keep(gradient: torch.Tensor) -> None:
            with unobserved():
                self._found[name] = gradient.detach().clone()
            self._hooks.pop(name)()

        with unobserved():
            self._hooks[name] = tensor.register_hook(keep).remove

    def _received(self, name: str, output: Output) -> torch.Tensor:
        maker = output.record
        for record in self._recorded.of_gradient(maker):
            for each in record.inputs:
                if each.record.phase == BACKWARD and each.record.forward is not maker:
                    value = self._recorded.load(each)
                    if value is not None and tuple(value.shape) == output.shape:
                        return value
        raise KeyError(name)

    def release(self) -> None:
        """Take the hooks off that have had nothing to do."""
        while self._hooks:
            self._hooks.popitem()[1]()
