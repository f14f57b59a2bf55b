"""Which forward passes of a run can still be used by a backward pass."""

from __future__ import annotations

import operator
import weakref
from typing import Any

import torch

from tfdbg_cli.engines.torch.names.sites import tensors_in
from tfdbg_cli.engines.torch.private import interpreters, quiet

__all__ = ["Forwards", "is_differentiating"]

_KEY = "tfdbg_cli"


def is_differentiating() -> bool:
    """Whether a transform of ``torch.func`` is at work that is going to ask for gradients."""
    found = interpreters()  # nearly always none
    return bool(found) and any(each.key().name == "Grad" for each in found)


class _Mark:
    """Lives as long as the autograd graph that holds it."""

    __slots__ = ("__weakref__",)


class Forwards:
    """The calls of modules that a run has begun with, as far as their results live.

    Attributes:
        count: how many there were.
        error: what the program raised in the last of them; empty: nothing.
    """

    def __init__(self) -> None:
        self.count = 0
        self.error = ""
        self._marks: list[weakref.ref[_Mark]] = []
        self._are_unknown = False
        self._trained: set[int] = set()

    def add(self, module: torch.nn.Module, output: Any) -> None:
        """A call has returned."""
        self.count += 1
        self.error = ""
        if module.training:
            self._trained.add(id(module))
        tensors = [tensor for _, tensor in tensors_in("", output, depth=4, most=None)]
        if not tensors:  # nobody knows where they are
            self._are_unknown = True
            return
        mark = _Mark()
        with quiet():
            # A node's dictionary goes with the node, and into no copy of the tensor.
            for node in {tensor.grad_fn for tensor in tensors if tensor.grad_fn is not None}:
                node.metadata[_KEY] = mark
                self._marks.append(weakref.ref(mark))

    def failed(self, error: str) -> None:
        """A call was left with an error: it has no result."""
        self.count += 1
        self.error = error

    def are_forgotten(self) -> bool:
        """Whether no backward pass can use any of them: the program has dropped all results."""
        known = self.count and not self._are_unknown
        return bool(known) and not any(map(operator.call, self._marks))

    def has_trained(self, module: torch.nn.Module) -> bool:
        """Whether one was of this module in training mode."""
        return id(module) in self._trained
