"""The loss of each run: what its backward pass begins with, noted without waiting for a device."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch

from tfdbg_cli.common.interpreter.program_signals import pass_on
from tfdbg_cli.dumps.series.tracks import LOSS
from tfdbg_cli.engines.torch.private import unobserved
from tfdbg_cli.engines.torch.runs.noted import NotedNumbers, is_number

__all__ = ["Losses"]


class Losses:
    """Notes the losses of a program's runs.

    Args:
        numbers: get them.
        scaled: is told of the gradient scaler that has multiplied the loss of a run.
    """

    def __init__(self, numbers: NotedNumbers, scaled: Callable[[Any, int], None]) -> None:
        self._numbers, self._tell_scaled = numbers, scaled
        self._is_off = False
        self._scaled: tuple[int, torch.Tensor, torch.Tensor] | None = None
        self._scaler: weakref.ref[Any] | None = None
        #: What the last backward pass began with, and the loss that it is a multiple of.
        self.multiple: tuple[torch.Tensor, torch.Tensor] | None = None

    def scaled(self, scaler: Any, loss: Any, product: Any) -> None:
        """A gradient scaler has multiplied a loss, and its backward pass begins with the product.

        Args:
            scaler: itself.
            loss: the program's.
            product: what the backward pass will begin with.
        """
        if self._is_off:
            return
        with unobserved():  # nor is it seen which attributes are read
            if isinstance(product, torch.Tensor) and is_number(loss):
                self._scaler = weakref.ref(scaler)
                self._scaled = id(product), product.detach(), loss.detach()

    def begins(self, root: Any, run: int) -> None:
        """A backward pass begins.

        Args:
            root: with what: a tensor, or several.
            run: the number of the run.
        """
        scaled, self._scaled, self.multiple = self._scaled, None, None
        if self._is_off:
            return
        try:
            with unobserved():  # nor is it seen which attributes are read
                if isinstance(root, list | tuple) and root:
                    root = root[0]
                if scaled is not None and scaled[0] == id(root):
                    self.multiple = scaled[1:]
                    root = scaled[2]
                    scaler = self._scaler() if self._scaler is not None else None
                    if scaler is not None:
                        self._tell_scaled(scaler, run)
                if is_number(root):
                    self._numbers.note(LOSS, run, root)
        except Exception as error:
            pass_on(error)
            self._is_off = True
