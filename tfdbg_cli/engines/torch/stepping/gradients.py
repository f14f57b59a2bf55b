"""Gradients with respect to tensors of a program that is stepped through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.engines.torch.private import unobserved
from tfdbg_cli.engines.torch.record.op_record import BACKWARD, OpOutput
from tfdbg_cli.engines.torch.stepping.op_gate import OpGate
from tfdbg_cli.engines.torch.stepping.records import RecordedOutputs
from tfdbg_cli.engines.torch.stepping.values import as_value, copied, fitted

__all__ = ["Gradients"]


class Gradients:
    """Waits for the backward pass to come to the tensors that were asked for.

    A hook on the tensor gets its whole gradient, summed over all that have used it, before it is
    passed on, and may pass on another one; the hook is taken off at once. Of a tensor that the
    program has let go of, it is what the first op of its backward node gets from other nodes.

    Args:
        recorded: the outputs of the run.
        passage: stops the program in the hook, if somebody waits for the gradient.
    """

    def __init__(self, recorded: RecordedOutputs, passage: OpGate) -> None:
        self._recorded = recorded
        self._passage = passage
        self._found: dict[str, torch.Tensor] = {}
        self._hooks: dict[str, Callable[[], None]] = {}
        self._kinds: dict[str, tuple[Any, torch.dtype, torch.device]] = {}
        # What is to be passed on instead.
        self._given: dict[str, torch.Tensor] = {}
        # Those that were asked for themselves, by their made-up names.
        self._tensors: dict[str, torch.Tensor] = {}
        # The one whose hook the program is in.
        self._passing = ""

    def name(self, tensor: torch.Tensor) -> str:
        """A name for a tensor that the program has."""
        for name, known in self._tensors.items():
            if known is tensor:
                return name
        name = f"tensor {len(self._tensors)}"
        self._tensors[name] = tensor
        return name

    def get(self, name: str) -> torch.Tensor:
        """The gradient with respect to a tensor.

        Raises:
            KeyError: it is not computed yet; it is kept for the next time.
            UserError: the tensor has none.
        """
        self._wait_for(name)
        found = self._found[name]
        return copied(self._given.get(name, found))

    def put(self, name: str, value: Any) -> None:
        """Let the backward pass go on with another gradient.

        Raises:
            KeyError: there is no such tensor yet.
            UserError: the tensor has none, or it has been passed on, or can't be this one.
        """
        try:
            self._wait_for(name)
        except KeyError:
            if self._recorded.find(name) is None:
                raise
            raise UserError(
                f"The gradient with respect to {name} can't be set: the program no longer "
                "holds the tensor.",
                "Set it before anything is read that comes later.",
            ) from None
        if name in self._found and name != self._passing:
            raise UserError(
                f"The gradient with respect to {name} can't be changed any more: the backward pass "
                "has gone on with it.",
                "Set it before anything is read that comes later.",
            )
        given = as_value(name, value)
        self._given[name] = fitted(f"The gradient of {name}", given, self._like(name)).clone()

    def is_known(self, name: str) -> bool:
        """Whether `put` has an answer by now, be it an error."""
        try:
            self._wait_for(name)
        except KeyError:
            return False
        except UserError:
            pass
        return True

    def is_found(self, name: str) -> bool:
        """Whether `get` has an answer by now, be it an error."""
        return self.is_known(name) and name not in self._hooks

    def is_open(self, name: str) -> bool:
        """Whether the program stands still where this gradient is passed on."""
        return name == self._passing

    @property
    def is_waiting(self) -> bool:
        """Whether something is to be done in the backward pass."""
        return bool(self._hooks or self._given)

    @property
    def unused(self) -> list[str]:
        """Tensors whose gradients were given and never came."""
        return list(self._given)

    def _wait_for(self, name: str) -> None:
        if name in self._found or name in self._hooks:
            return
        output = self._recorded.find(name) if name not in self._tensors else None
        if output is None and name not in self._tensors:
            raise KeyError(name)
        tensor = self._tensors[name] if output is None else output.reference()
        if tensor is None:
            assert output is not None
            self._found[name] = self._received(name, output)
            return
        if self._passage.is_handed(tensor):  # what autograd makes of it isn't known yet
            raise KeyError(name)
        if not tensor.requires_grad:
            raise UserError(f"{name} doesn't require a gradient.")

        def keep(gradient: torch.Tensor) -> torch.Tensor | None:
            with unobserved():
                self._found[name] = gradient.detach().clone()
            self._hooks.pop(name)()
            del self._kinds[name]
            if name not in self._given:
                before, self._passing = self._passing, name
                try:
                    self._passage.look()
                finally:
                    self._passing = before
            given = self._given.pop(name, None)
            if given is None:
                return None
            self._found[name] = given
            return given

        with unobserved():
            self._hooks[name] = tensor.register_hook(keep).remove
            self._kinds[name] = tensor.shape, tensor.dtype, tensor.device

    def _like(self, name: str) -> torch.Tensor:
        """Something that a gradient has to be like."""
        if name in self._found:
            return self._found[name]
        shape, dtype, device = self._kinds[name]
        with unobserved():
            return torch.empty((), dtype=dtype, device=device).expand(shape)

    def _received(self, name: str, output: OpOutput) -> torch.Tensor:
        maker = output.record
        for record in self._recorded.of_gradient(maker):
            for each in record.inputs:
                if each.record.phase == BACKWARD and each.record.forward is not maker:
                    value = self._recorded.load(each)
                    if value is not None and tuple(value.shape) == output.shape:
                        return value
        raise KeyError(name)

    def take_back(self) -> None:
        """Let the backward pass go on as it would by itself."""
        self.release()
        self._given.clear()

    def release(self) -> None:
        """Take the hooks off that have had nothing to do."""
        while self._hooks:
            self._hooks.popitem()[1]()
