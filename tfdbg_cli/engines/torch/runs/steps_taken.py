"""What becomes of gradients between a backward pass and a step: clipping, and a gradient scaler."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch

from tfdbg_cli.common.interpreter.program_signals import contained, pass_on
from tfdbg_cli.dumps.series.tracks import (
    CLIP_LIMIT,
    CLIP_NORM,
    CLIP_SCALE,
    LOSS_SCALE,
    STEP_SKIPPED,
    UNSCALED_STEP,
    VALUE_LIMIT,
)
from tfdbg_cli.engines.torch.names.scopes import Names
from tfdbg_cli.engines.torch.private import KERAS_VALUE, SCALE, SCALER_STATES, unobserved
from tfdbg_cli.engines.torch.runs.noted import NotedNumbers, is_number

__all__ = ["StepNotes", "without_gradient"]

_MOST_NAMES = 6


def without_gradient(optimizers: Iterable[Any], names: Names) -> str:
    """The parameters that a step has left as they were, for want of a gradient; empty: none.

    Args:
        optimizers: that have made the step.
        names: of the parameters.
    """
    with contained, unobserved():  # a class of the program's own may do anything when it is asked
        groups = (group for optimizer in optimizers for group in optimizer.param_groups)
        owned = {id(each): each for group in groups for each in group["params"]}
        missing = {key for key, each in owned.items() if each.grad is None}
        if not missing or len(missing) == len(owned):  # all: they were thrown away since
            return ""
        found = [leaf.name for tensor, leaf in names.tensors() if id(tensor) in missing]
        shown = ", ".join(found[:_MOST_NAMES]) + ", …" * (len(found) > _MOST_NAMES)
        return f"{shown or 'parameters of no module'} ({len(missing)} of {len(owned)} parameters)"
    return ""


def _is_of_keras(owner: Any) -> bool:
    """Whether something is an optimizer of Keras 3 that multiplies the loss, too."""
    kind = type(owner)
    return kind.__name__ == "LossScaleOptimizer" and kind.__module__.startswith("keras.src.")


class StepNotes:
    """Notes what a program's own clipping and scaling have found; nothing is computed for it.

    Args:
        numbers: get them.
        run: the number of the run that is open; ``None``: none is.
    """

    def __init__(self, numbers: NotedNumbers, run: Callable[[], int | None]) -> None:
        self._numbers, self._run = numbers, run
        self._is_off = False
        self._scaler: weakref.ref[Any] | None = None  # has scaled the loss of the run
        self._scaled_in = -1
        self._before: torch.Tensor | None = None  # the steps that an optimizer of Keras has made

    def scaled(self, scaler: Any, run: int) -> None:
        """A gradient scaler has multiplied the loss with which a backward pass begins."""
        self._scaler, self._scaled_in = weakref.ref(scaler), run
        self._note(LOSS_SCALE, run, getattr(scaler, SCALE, None))

    def clipped(self, norm: Any, limit: Any) -> None:
        """The norm of gradients was clipped.

        Args:
            norm: what it was before.
            limit: the largest that is allowed.
        """
        run = self._run()
        if run is None:
            return
        self._note(CLIP_NORM, run, norm)
        self._note(CLIP_LIMIT, run, limit)
        scaler = self._scaler() if self._scaler is not None else None
        if scaler is not None and run == self._scaled_in and not self._is_unscaled(scaler):
            self._note(CLIP_SCALE, run, getattr(scaler, SCALE, None))

    def values_clipped(self, limit: Any) -> None:
        """The elements of gradients were clipped.

        Args:
            limit: the largest magnitude that is allowed.
        """
        run = self._run()
        if run is not None:
            self._note(VALUE_LIMIT, run, limit)

    def begins(self, owner: Any, run: int) -> None:
        """A step begins that no other one makes.

        Args:
            owner: an optimizer or a gradient scaler, be it Keras' of both kinds.
            run: the number of the run.
        """
        with contained, unobserved():
            if isinstance(owner, torch.optim.Optimizer):
                if run == self._scaled_in:
                    self._note(UNSCALED_STEP, run, 1)
            elif _is_of_keras(owner):
                scale = owner.dynamic_scale if owner.built else owner.initial_scale
                self._note(LOSS_SCALE, run, getattr(scale, KERAS_VALUE, scale))
                self._before = getattr(owner.iterations, KERAS_VALUE).clone()

    def ends(self, owner: Any, run: int) -> None:
        """Such a step is over."""
        before, self._before = self._before, None
        with contained, unobserved():
            if before is not None:
                is_same = getattr(owner.iterations, KERAS_VALUE) == before
                self._note(STEP_SKIPPED, run, is_same.float())

    def stepped(self, scaler: Any, optimizer: Any, run: int) -> None:
        """A gradient scaler has made a step of an optimizer, or left it out."""
        state = (getattr(scaler, SCALER_STATES, None) or {}).get(id(optimizer), {})
        found = [*(state.get("found_inf_per_device") or {}).values()]
        if len(found) == 1:  # of several devices the sum would have to wait
            self._note(STEP_SKIPPED, run, found[0])

    @staticmethod
    def _is_unscaled(scaler: Any) -> bool:
        """Whether gradients have lost the factor of a scaler since the last step."""
        states = getattr(scaler, SCALER_STATES, None) or {}
        return any(state.get("found_inf_per_device") for state in states.values())

    def _note(self, name: str, run: int, number: Any) -> None:
        if self._is_off:
            return
        try:
            with unobserved():  # nor is it seen which attributes are read
                if isinstance(number, int | float) or is_number(number):
                    self._numbers.note(
                        name, run, number if isinstance(number, torch.Tensor) else float(number)
                    )
        except Exception as error:
            pass_on(error)
            self._is_off = True
