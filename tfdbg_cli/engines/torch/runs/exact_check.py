"""An exact check of tensors for nan and infinities while they are still there to be looked at."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

import torch

from tfdbg_cli.common.program_signals import pass_on
from tfdbg_cli.engines.torch.private import (
    below_autograd,
    functions_seen,
    is_capturing,
    is_plain_on_cpu,
    is_zero,
    modes_below,
    quiet,
    top_interpreter,
    undispatched,
)
from tfdbg_cli.engines.torch.runs.suspect_check import (
    CHECKED_DTYPES,
    SumChecks,
    is_unobserved,
)
from tfdbg_cli.engines.torch.values.layouts import PLAIN, is_freed, is_plain, undisturbed

__all__ = ["Verdicts", "is_clean", "is_nonfinite"]

_Key = TypeVar("_Key", bound=Hashable)
_Tensor, _Parameter = torch.Tensor, torch.nn.Parameter

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
    if tensor.layout is not torch.strided or modes_below() or top_interpreter():
        return False
    if functions_seen() or is_zero(tensor) or tensor.is_nested or is_freed(tensor):
        return False
    if tensor.requires_grad and torch.is_grad_enabled():
        tensor = tensor.detach()
    return math.isfinite(tensor.sum().item())


class Verdicts(Generic[_Key]):
    """Finds the tensors that hold a nan or an infinity, and no others.

    On a CPU each is judged when it is added. On other devices it is reduced to one number there,
    and nothing waits for them before `bad`. Autograd, dispatch modes and random numbers are not
    touched.

    Args:
        keep: called with a bad tensor while it is there; only where that is known at once.
        is_last: nobody can look at the tensors later.

    Attributes:
        count: how many tensors were looked at.
        may_skip: a tensor that is clean if certain others are needn't be added, as these are known
            to be clean, or it is there later.
    """

    def __init__(
        self,
        keep: Callable[[_Key, int, torch.Tensor], None] | None = None,
        *,
        is_last: bool = True,
    ) -> None:
        self.count = 0
        self.may_skip = True
        self._is_last = is_last
        self._keep = keep
        self._bad: dict[tuple[_Key, int], None] = {}
        self._others: SumChecks[_Key] = SumChecks()

    def add(self, key: _Key, slot: int, tensor: torch.Tensor) -> None:
        """Check a tensor as it is now. Doesn't raise.

        Args:
            key: what `bad` calls it, with ``slot``.
            slot: which output of its operator or module.
            tensor: of any dtype and layout.
        """
        self.count += 1
        try:
            if functions_seen():  # it would see every attribute that is read
                with quiet():
                    self._add(key, slot, tensor)
                return
            kind = type(tensor)
            if (
                (kind is _Tensor or kind is _Parameter)
                and tensor.is_cpu
                and tensor.dtype in _FLOATING
                and not modes_below()
                and top_interpreter() is None
                and not (tensor.requires_grad and torch.is_grad_enabled())
                and not is_zero(tensor)
                and tensor.is_contiguous()
                and tensor.untyped_storage().nbytes() >= tensor.nbytes
                and not tensor.storage_offset()
                and cmath.isfinite(tensor.sum().item())
            ):
                return  # nearly always; the sum is ten times faster than a look at each element
        except Exception as error:  # it has no memory of its own
            pass_on(error)
        self._add(key, slot, tensor)

    def _add(self, key: _Key, slot: int, tensor: torch.Tensor) -> None:
        try:
            dtype = tensor.dtype
            if dtype not in CHECKED_DTYPES:
                return
            if dtype in _FLOATING and type(tensor) in PLAIN and top_interpreter() is None:
                if is_plain_on_cpu(tensor):
                    if is_freed(tensor):
                        return
                    if is_unobserved(tensor):
                        if not cmath.isfinite(tensor.sum().item()):
                            self._judge(key, slot, tensor)
                        return
                elif is_zero(tensor):  # those have no data
                    return
                if is_plain(tensor) and not tensor.is_meta and not is_capturing():
                    if is_freed(tensor):
                        return
                    if tensor.is_cpu:
                        self._judge(key, slot, tensor)
                    elif tensor.numel():
                        self._reduce(key, slot, tensor)
                    return
        except Exception as error:  # an operator that a device doesn't have
            pass_on(error)
        self._doubt()
        self._others.add(key, slot, tensor)

    def _judge(self, key: _Key, slot: int, tensor: torch.Tensor) -> None:
        with undispatched(), below_autograd():
            # The sum of finite elements may be infinite.
            is_bad = not (
                cmath.isfinite(tensor.sum().item()) or torch.isfinite(tensor).all().item()
            )
        if is_bad:
            self._bad[key, slot] = None
            self._doubt()
            if self._keep is not None:
                self._keep(key, slot, tensor)

    def _reduce(self, key: _Key, slot: int, tensor: torch.Tensor) -> None:
        with undispatched(), below_autograd():
            if tensor.is_cuda:
                # The largest magnitude is finite only if all are, and never overflows: one kernel.
                found = torch.linalg.vector_norm(tensor, math.inf)
            else:  # zeros, or nan in place of what is bad, by operators that every device has
                found = (tensor - tensor).sum()
        self._doubt()
        self._others.add_total(key, slot, found)

    def _doubt(self) -> None:
        """Something is bad, or may be: it isn't known yet."""
        self.may_skip = not self._is_last

    @property
    def has_nothing(self) -> bool:
        """Whether all that was looked at is known to be clean. Nobody waits for a device."""
        return not self._bad and not self._others.count

    def read_with(self, other: Verdicts[Any]) -> None:
        """Wait for the devices once, not once for each of two."""
        both = self, other
        joined: SumChecks[Any] = SumChecks()
        for at, each in enumerate(both):
            joined.take(at, each._others)
        for (at, key), slot in joined.suspects() if joined.count else ():
            both[at]._bad[key, slot] = None

    def bad(self) -> list[tuple[_Key, int]]:
        """The bad tensors so far. Waits for the devices that have something to say, once each."""
        if self._others.count:
            others, self._others = self._others, SumChecks()
            self._bad.update(dict.fromkeys(others.suspects()))
        return list(self._bad)
