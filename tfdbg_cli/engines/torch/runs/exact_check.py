"""An exact check of tensors for nan and infinities while they are still there to be looked at."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import torch

from tfdbg_cli.common.program_signals import pass_on
from tfdbg_cli.engines.torch.private import (
    below_autograd,
    functions_seen,
    is_capturing,
    is_zero,
    modes_below,
    quiet,
    undispatched,
)
from tfdbg_cli.engines.torch.runs.suspect_check import SumChecks, is_transformed
from tfdbg_cli.engines.torch.values.layouts import is_freed, is_plain, undisturbed

__all__ = ["Verdicts", "is_clean", "is_nonfinite"]

_Key = TypeVar("_Key", bound=Hashable)

_FLOATING = frozenset(
    {
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.float64,
        torch.complex64,
        torch.complex128,
    }
)


def is_nonfinite(tensor: torch.Tensor) -> bool:
    """Whether a tensor of any dtype and layout holds a nan or an infinity. Waits for its device."""
    checks: SumChecks[str] = SumChecks()
    checks.add("", 0, tensor)
    if not checks.suspects():
        return False
    if tensor.dtype not in _FLOATING or not is_plain(tensor):
        return True  # codes don't overflow; of the rest nobody can say more
    if is_freed(tensor):
        return False
    with undisturbed():
        return not bool(torch.isfinite(tensor).all())


def is_clean(tensor: torch.Tensor) -> bool:
    """Whether a plain tensor on a CPU is known to be finite, at next to no cost.

    Where it says no, nothing is known: that is for `Verdicts`. Nobody waits for a device.
    """
    kind = type(tensor)
    if (kind is not torch.Tensor and kind is not torch.nn.Parameter) or not tensor.is_cpu:
        return False
    if not tensor.is_floating_point():
        return not tensor.is_complex()
    if tensor.layout is not torch.strided or modes_below() or is_transformed():
        return False
    if functions_seen() or is_zero(tensor) or tensor.is_nested or is_freed(tensor):
        return False
    if tensor.requires_grad and torch.is_grad_enabled():
        tensor = tensor.detach()
    return math.isfinite(tensor.sum().item())


class Verdicts(Generic[_Key]):
    """Finds the tensors that hold a nan or an infinity, and no others.

    On a CPU each is judged when it is added, on other devices when `bad` is called. Autograd,
    dispatch modes and random numbers are not touched.

    Args:
        keep: called with a bad tensor while it is there; only where that is known at once.

    Attributes:
        count: how many tensors were looked at.
    """

    def __init__(self, keep: Callable[[_Key, int, torch.Tensor], None] | None = None) -> None:
        self.count = 0
        self._keep = keep
        self._bad: dict[tuple[_Key, int], None] = {}
        self._pending: list[tuple[_Key, int, torch.Tensor]] = []
        self._others: SumChecks[_Key] = SumChecks()

    def add(self, key: _Key, slot: int, tensor: torch.Tensor) -> None:
        """Check a tensor as it is now. Doesn't raise.

        Args:
            key: what `bad` calls it, with ``slot``.
            slot: which output of its operator or module.
            tensor: of any dtype and layout.
        """
        with quiet():
            self._add(key, slot, tensor)

    def _add(self, key: _Key, slot: int, tensor: torch.Tensor) -> None:
        self.count += 1
        try:
            if is_zero(tensor):  # those have no data
                return
            is_plain_one = is_plain(tensor) and not is_transformed() and not tensor.is_meta
            if is_plain_one and is_freed(tensor):
                return
            if tensor.dtype in _FLOATING and is_plain_one:
                with undispatched(), below_autograd():
                    if tensor.is_cpu:
                        self._judge(key, slot, tensor)
                        return
                    if not is_capturing():
                        self._pending.append((key, slot, torch.isfinite(tensor).all()))
                        return
        except Exception as error:  # an operator that a device doesn't have
            pass_on(error)
        self._others.add(key, slot, tensor)

    def _judge(self, key: _Key, slot: int, tensor: torch.Tensor) -> None:
        # The sum is ten times faster, but that of finite elements may be infinite.
        if not cmath.isfinite(tensor.sum().item()) and not torch.isfinite(tensor).all().item():
            self._bad[key, slot] = None
            if self._keep is not None:
                self._keep(key, slot, tensor)

    def bad(self) -> list[tuple[_Key, int]]:
        """The bad tensors so far. Waits for the devices that have something to say."""
        if self._pending:
            with undisturbed():
                # Another thread of the program may go on.
                pending, self._pending = self._pending, []
                for key, slot, is_finite in pending:
                    if not bool(is_finite):
                        self._bad[key, slot] = None
        if self._others.count:
            self._bad.update(dict.fromkeys(self._others.suspects()))
            self._others = SumChecks()
        return list(self._bad)
