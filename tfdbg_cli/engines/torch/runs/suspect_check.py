"""A quick check of many tensors for nan and infinities: one sum each, and one look at the end."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any, Generic, TypeVar

import torch

from tfdbg_cli.common.interpreter.program_signals import pass_on
from tfdbg_cli.engines.torch.private import (
    below_autograd,
    is_capturing,
    quiet,
    top_interpreter,
    undispatched,
)
from tfdbg_cli.engines.torch.values.access import PLAIN, Access, access, is_seen
from tfdbg_cli.engines.torch.values.layouts import parts_of, undisturbed

__all__ = ["CHECKED_DTYPES", "SumChecks"]

_Key = TypeVar("_Key", bound=Hashable)
_Checked = tuple[Any, int, torch.Tensor | None, bool]

_SUMMED = frozenset({torch.float32, torch.float64, torch.complex64, torch.complex128})
_HALVES = frozenset({torch.float16, torch.bfloat16})


def _dtypes(*names: str) -> frozenset[torch.dtype]:
    return frozenset(getattr(torch, name) for name in names if hasattr(torch, name))


# The codes that are nan or infinite. As integers they are at an end of the range, signed or not:
# OCP 8-bit Floating Point Specification, https://arxiv.org/abs/2209.05433 and 2206.02915.
_E5M2 = _dtypes("float8_e5m2")  # 7c to 7f, fc to ff
_E4M3FN = _dtypes("float8_e4m3fn")  # 7f, ff
_FNUZ = _dtypes("float8_e4m3fnuz", "float8_e5m2fnuz")  # 80
_SCALE = _dtypes("float8_e8m0fnu")  # ff
_CODED = _E5M2 | _E4M3FN | _FNUZ | _SCALE
#: What may hold a nan or an infinity.
CHECKED_DTYPES = _SUMMED | _HALVES | _CODED | _dtypes("complex32")


class SumChecks(Generic[_Key]):
    """Finds the tensors that may hold a nan or an infinity.

    A sum shows them: it is finite only if all elements are. The other way round it is not so, as
    finite elements may add up to more than their dtype can hold: what is found here are suspects,
    each to be looked at. No bad tensor is overlooked.

    The sums stay on their devices, and nothing waits for a device before `suspects`. Integers and
    booleans cost nothing. Autograd, dispatch modes and random numbers are not touched, and no
    tensor makes `add` raise: what can't be summed is a suspect.

    Attributes:
        totals: of the tensors that were checked; one in several parts has one for each.
        largest: the magnitudes among the totals, as soon as `suspects` has read them.
    """

    def __init__(self) -> None:
        # The sum, a boolean that says whether codes are bad, or None: nobody knows.
        self.totals: list[_Checked] = []
        self.largest: dict[tuple[_Key, int], float] = {}

    def add(self, key: _Key, slot: int, tensor: torch.Tensor) -> None:
        """Check a tensor as it is now.

        Args:
            key: what `suspects` calls it, with ``slot``.
            slot: which output of its operator.
            tensor: of any dtype and layout.
        """
        try:
            how = access(tensor)
            with quiet():  # a class or mode would see every attribute that is read
                if how in (Access.NOTHING, Access.ZEROS) or tensor.dtype not in CHECKED_DTYPES:
                    return
                if (
                    how < Access.MEMORY
                    or type(tensor) not in PLAIN
                    or top_interpreter() is not None
                ):
                    self._add_parts(key, slot, tensor)
                elif _is_captured(tensor):
                    return
                elif not is_seen(tensor):
                    self.totals.append((key, slot, _total(tensor), False))
                else:
                    # The same as `undisturbed`, for tensors without a class: a tenth of its price.
                    with undispatched(), below_autograd():
                        self.totals.append((key, slot, _total(tensor), False))
        except Exception as error:  # an operator that a device doesn't have: the caller looks
            pass_on(error)
            self.totals.append((key, slot, None, False))

    def add_total(
        self, key: _Key, slot: int, total: torch.Tensor, *, is_largest: bool = False
    ) -> None:
        """As `add`, of a tensor that somebody has reduced.

        Args:
            key, slot: as for `add`.
            total: a number that is finite if the tensor is clean.
            is_largest: it is the largest magnitude, and `largest` is to have it.
        """
        self.totals.append((key, slot, total, is_largest))

    def take(self, mark: Hashable, other: SumChecks[Any]) -> None:
        """Add what another one has added, which then has nothing; its keys become pairs.

        Args:
            mark: their first parts.
            other: the other one.
        """
        for key, slot, total, is_largest in other.totals:
            self.totals.append(((mark, key), slot, total, is_largest))
        other.totals = []

    def _add_parts(self, key: _Key, slot: int, tensor: torch.Tensor) -> None:
        with undisturbed():
            for part in parts_of(tensor):
                if part.dtype in CHECKED_DTYPES and not _is_captured(part):
                    self.totals.append((key, slot, _total(part), False))

    def suspects(self) -> list[tuple[_Key, int]]:
        """The tensors that may be bad, in the order in which they were added, each once.

        Waits for the devices that have something to sum.
        """
        checked = [*self.totals]  # another thread of the program may go on
        places: dict[tuple[_Key, int], None] = {}
        for (key, slot, _, is_largest), number in zip(checked, self._read(checked), strict=True):
            if not math.isfinite(number):
                places[key, slot] = None
            if is_largest:
                self.largest[key, slot] = number
        return list(places)

    def _read(self, checked: Sequence[_Checked]) -> list[float]:
        """The totals as numbers, which are nan where nobody can tell."""
        numbers = [math.nan] * len(checked)
        with undisturbed():
            for device, groups in self._groups(checked).items():
                try:
                    if device.type == "cuda":  # they may have been summed in several streams
                        torch.cuda.synchronize(device)
                    found = torch.cat([_numbers(group) for _, group in groups]).tolist()
                except Exception as error:  # everything on a device that fails is looked at
                    pass_on(error)
                    continue
                places = (at for ats, _ in groups for at in ats)
                for at, number in zip(places, found, strict=True):
                    numbers[at] = number
        return numbers

    def _groups(
        self, checked: Sequence[_Checked]
    ) -> dict[torch.device, list[tuple[list[int], list[torch.Tensor]]]]:
        """The totals that can be stacked, with their places, for each device."""
        found: dict[tuple[torch.device, torch.dtype], tuple[list[int], list[torch.Tensor]]] = {}
        for at, (_, _, total, _) in enumerate(checked):
            if total is not None:
                places, totals = found.setdefault((total.device, total.dtype), ([], []))
                places.append(at)
                totals.append(total)
        devices: dict[torch.device, list[tuple[list[int], list[torch.Tensor]]]] = {}
        for (device, _), group in found.items():
            devices.setdefault(device, []).append(group)
        return devices


def _numbers(totals: list[torch.Tensor]) -> torch.Tensor:
    """Totals of one dtype as floating point numbers: those of clean tensors are finite."""
    stacked = torch.stack(totals)
    if stacked.dtype is torch.bool:
        return torch.where(stacked, math.inf, 0.0)
    return torch.where(stacked.isfinite(), 0.0, math.inf) if stacked.is_complex() else stacked


def _is_captured(tensor: torch.Tensor) -> bool:
    """Whether a sum would become part of a CUDA graph that the program is recording."""
    return tensor.is_cuda and is_capturing()


def _total(tensor: torch.Tensor) -> torch.Tensor:
    """What tells of a strided tensor whether it is bad, on its device."""
    dtype = tensor.dtype
    if dtype in _CODED:
        return _has_bad_code(tensor)
    if not dtype.is_complex and tensor.is_cuda and dtype in _HALVES:
        # Costs nothing there, and no sum of finite elements overflows. On a CPU it makes a copy.
        return tensor.sum(dtype=torch.float32)
    if dtype not in _SUMMED and dtype not in _HALVES:  # complex32, which has no sum
        tensor = torch.view_as_real(tensor.resolve_conj())
    return tensor.sum()


def _has_bad_code(tensor: torch.Tensor) -> torch.Tensor:
    if not tensor.numel():
        return torch.zeros((), dtype=torch.bool, device=tensor.device)
    signed, unsigned = tensor.view(torch.int8), tensor.view(torch.uint8)
    if tensor.dtype in _FNUZ:
        return signed.min() == -0x80
    if tensor.dtype in _SCALE:
        return unsigned.max() == 0xFF
    first = 0x7C if tensor.dtype in _E5M2 else 0x7F
    return (signed.max() >= first) | (unsigned.max() >= first | 0x80)
