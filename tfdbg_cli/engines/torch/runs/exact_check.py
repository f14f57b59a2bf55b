"""An exact check of tensors for nan and infinities while they are still there to be looked at."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, TypeVar

import torch

from tfdbg_cli.common.interpreter.program_signals import pass_on
from tfdbg_cli.engines.torch.private import (
    below_autograd,
    functions_seen,
    is_capturing,
    modes_below,
    quiet,
    top_interpreter,
    undispatched,
)
from tfdbg_cli.engines.torch.record.op_facts import REAL
from tfdbg_cli.engines.torch.runs.suspect_check import CHECKED_DTYPES, SumChecks
from tfdbg_cli.engines.torch.values.access import PLAIN, Access, access, are_on_host, is_seen
from tfdbg_cli.engines.torch.values.layouts import undisturbed

__all__ = ["Verdicts", "are_clean", "is_nonfinite", "largest_of", "largest_unseen"]

_Key = TypeVar("_Key", bound=Hashable)
_HOST = Access.HOST
# Of tensors with more elements two vectorized reductions are faster than one that isn't.
_LONG = 8192
_WHOLE = frozenset({torch.float32, torch.float64})

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
    if tensor.dtype not in _FLOATING or access(tensor) < Access.MEMORY:
        return True  # codes don't overflow; of the rest nobody can say more
    with undisturbed():
        return not bool(torch.isfinite(tensor).all())


def are_clean(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether all of some tensors on a CPU are known to be finite, at next to no cost.

    Where it says no, nothing is known: that is for `Verdicts`. Nobody waits for a device.
    """
    if modes_below() or functions_seen() or top_interpreter() is not None:
        return not tensors
    if not are_on_host(tensors):
        return False
    total = 0.0
    with below_autograd():
        for tensor in tensors:
            if tensor.dtype in REAL:
                total += tensor.sum().item()
            elif tensor.dtype in CHECKED_DTYPES:
                return False
    return math.isfinite(total)


def largest_of(tensors: Sequence[torch.Tensor]) -> list[float] | None:
    """The largest magnitude of each of some tensors on a CPU; nan if an element is.

    It costs about twice as much as a sum, and tells as much: it is finite only if all elements are.

    Returns:
        ``None``: it can't be had at such a price. Nobody waits for a device.
    """
    if modes_below() or functions_seen() or top_interpreter() is not None:
        return None
    with below_autograd():
        return _largest(tensors)


def largest_unseen(tensors: Sequence[torch.Tensor]) -> list[float] | None:
    """As `largest_of`, where the debugger's own dispatch mode is on."""
    if top_interpreter() is not None:
        return None
    with quiet(), undispatched(), below_autograd():
        return _largest(tensors)


def _largest(tensors: Sequence[torch.Tensor]) -> list[float] | None:
    if not are_on_host(tensors):
        return None
    found = []
    for tensor in tensors:
        dtype = tensor.dtype
        if dtype not in REAL or not tensor.numel():
            return None
        if dtype in _WHOLE and tensor.numel() > _LONG:
            low, high = tensor.amin().item(), tensor.amax().item()
        else:
            least, largest = torch.aminmax(tensor)
            low, high = least.item(), largest.item()
        found.append(max(-low, high))
    return found


class Verdicts(Generic[_Key]):
    """Finds the tensors that hold a nan or an infinity, and no others.

    On a CPU each is judged when it is added. On other devices it is reduced to one number there,
    and nothing waits for them before `bad`. Autograd, dispatch modes and random numbers are not
    touched.

    Args:
        keep: called with a bad tensor while it is there; only where that is known at once.
        is_last: nobody can look at the tensors later.
        measures: `largest` is wanted.

    Attributes:
        count: how many tensors were looked at.
        may_skip: a tensor that is clean if certain others are needn't be added, as these are known
            to be clean, or it is there later.
        largest: the largest magnitudes of tensors on devices, as far as they have been read.
    """

    def __init__(
        self,
        keep: Callable[[_Key, int, torch.Tensor], None] | None = None,
        *,
        is_last: bool = True,
        measures: bool = False,
    ) -> None:
        self.count = 0
        self.largest: dict[tuple[_Key, int], float] = {}
        self._measures = measures
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
            how = access(tensor)
            if how is _HOST and not is_seen(tensor):  # nearly always
                dtype = tensor.dtype
                # The sum is ten times faster than a look at each element.
                if dtype in _FLOATING and not cmath.isfinite(tensor.sum().item()):
                    self._judge(key, slot, tensor)
                if dtype in _FLOATING or dtype not in CHECKED_DTYPES:
                    return
            with quiet():
                if self._is_done(how, key, slot, tensor):
                    return
                # Of a special class or layout: where it is to be kept, nobody can wait.
                is_here = self._keep is not None and tensor.is_cpu
            if is_here and top_interpreter() is None:
                if is_nonfinite(tensor):
                    self._found(key, slot, tensor)
                return
        except Exception as error:  # an operator that a device doesn't have
            pass_on(error)
        self._doubt()
        self._others.add(key, slot, tensor)

    def _is_done(self, how: Access, key: _Key, slot: int, tensor: torch.Tensor) -> bool:
        """Whether there is nothing to be seen, or it was seen in place."""
        if how in (Access.NOTHING, Access.ZEROS) or tensor.dtype not in CHECKED_DTYPES:
            return True
        is_plain = how >= Access.MEMORY and type(tensor) in PLAIN and tensor.dtype in _FLOATING
        if not is_plain or top_interpreter() is not None or is_capturing():
            return False
        if tensor.is_cpu:
            self._judge(key, slot, tensor)
        elif tensor.numel():
            self._reduce(key, slot, tensor)
        return True

    def _judge(self, key: _Key, slot: int, tensor: torch.Tensor) -> None:
        with undispatched(), below_autograd():
            # The sum of finite elements may be infinite.
            is_bad = not (
                cmath.isfinite(tensor.sum().item()) or torch.isfinite(tensor).all().item()
            )
        if is_bad:
            self._found(key, slot, tensor)

    def _found(self, key: _Key, slot: int, tensor: torch.Tensor) -> None:
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
        is_largest = self._measures and tensor.is_cuda and not tensor.is_complex()
        self._others.add_total(key, slot, found, is_largest=is_largest)

    def _doubt(self) -> None:
        """Something is bad, or may be: it isn't known yet."""
        self.may_skip = not self._is_last

    @property
    def has_nothing(self) -> bool:
        """Whether all that was looked at is known to be clean. Nobody waits for a device."""
        return not self._bad and not self._others.totals

    def read_with(self, other: Verdicts[Any]) -> None:
        """Wait for the devices once, not once for each of two."""
        both = self, other
        if not (self._others.totals or other._others.totals):
            return
        joined: SumChecks[Any] = SumChecks()
        for at, each in enumerate(both):
            joined.take(at, each._others)
        for (at, key), slot in joined.suspects():
            both[at]._bad[key, slot] = None
        for ((at, key), slot), number in joined.largest.items():
            both[at].largest[key, slot] = number

    def bad(self) -> list[tuple[_Key, int]]:
        """The bad tensors so far. Waits for the devices that have something to say, once each."""
        if self._others.totals:
            others, self._others = self._others, SumChecks()
            self._bad.update(dict.fromkeys(others.suspects()))
            self.largest |= others.largest
        return list(self._bad)
