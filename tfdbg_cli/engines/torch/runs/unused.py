"""Ops between runs whose results no run uses: metrics, printing, what becomes of a prediction."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from types import CodeType, FrameType
from typing import Any

import torch

from tfdbg_cli.dumps.sources import is_debugger_code
from tfdbg_cli.engines.torch.private import OVERLOAD_CALL
from tfdbg_cli.engines.torch.runs.exact_check import are_clean

__all__ = ["UnusedOps"]

# So many ops of a place are recorded before it counts as one that no run uses.
_ENOUGH = 50
_MOST_RESULTS, _MOST_PLACES = 1000, 10_000

#: The op's place and the place that has called it: code and instruction of each.
_Place = tuple[int, int, int, int]


class UnusedOps:
    """Tells which ops before a run needn't be recorded: nothing at their place was ever used."""

    def __init__(self) -> None:
        self._counts: dict[_Place, int] = {}
        self._used: set[_Place] = set()
        self._codes: dict[int, CodeType] = {}  # held: no other code has its address
        self._results: dict[int, tuple[weakref.ref[torch.Tensor], _Place]] = {}

    def place(self, frame: FrameType) -> _Place | None:
        """The place of an op that needn't be recorded; ``None``: it has to be.

        Args:
            frame: in which it is called.
        """
        if frame.f_code is OVERLOAD_CALL:
            while _is_between(frame.f_code) and frame.f_back is not None:
                frame = frame.f_back
        outer = frame.f_back or frame
        code, outer_code = frame.f_code, outer.f_code
        place = id(code), frame.f_lasti, id(outer_code), outer.f_lasti
        count = self._counts.get(place, 0)
        if count > _ENOUGH:
            return None if place in self._used else place
        if not count:
            if len(self._counts) >= _MOST_PLACES:
                for known in (self._counts, self._used, self._codes, self._results):
                    known.clear()
            self._codes[id(code)], self._codes[id(outer_code)] = code, outer_code
        self._counts[place] = count + 1
        return None

    def is_clean(self, place: _Place, result: Any) -> bool:
        """Whether what an op has made that wasn't recorded is known to be clean: it needn't be.

        If it isn't, the next ones of the place are recorded.
        """
        made = result if isinstance(result, list | tuple) else (result,)
        tensors = [each for each in made if isinstance(each, torch.Tensor)]
        floating = [e for e in tensors if e.dtype.is_floating_point or e.dtype.is_complex]
        if floating and not are_clean(floating):
            self._used.add(place)
            return False
        if len(self._results) >= _MOST_RESULTS:
            self._results.clear()
        for each in tensors:
            self._results[id(each)] = weakref.ref(each), place
        return True

    def place_of(self, tensor: torch.Tensor) -> _Place | None:
        """The place of the op that has made a tensor, if it wasn't recorded."""
        reference, place = self._results.get(id(tensor), (None, None))
        return place if reference is not None and reference() is tensor else None

    def use(self, place: _Place | None) -> None:
        """A run uses what an op of a place has made: its ops are recorded from now on."""
        if place is not None:
            self._used.add(place)

    @staticmethod
    def place_in(frames: Sequence[Any]) -> _Place | None:
        """The place of a recorded op.

        Args:
            frames: code, instruction and so on, innermost first; empty: it is a leaf.
        """
        if not frames:
            return None
        first, last = 0, len(frames) - 2
        while first < last and _is_between(frames[first]):
            first += 2
        code, at, outer, outer_at = (*frames[first : first + 4], *frames[first : first + 2])[:4]
        return id(code), at, id(outer), outer_at


def _is_between(code: CodeType) -> bool:
    """Whether a frame is there only because one dispatch mode of ours hands an op to the other."""
    return code is OVERLOAD_CALL or is_debugger_code(code)
