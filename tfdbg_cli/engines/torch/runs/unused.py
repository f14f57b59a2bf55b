"""Ops between runs whose results no run uses: metrics, averages of weights, printing."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable, Mapping, Sequence
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch

from tfdbg_cli.dumps.sources import is_debugger_code
from tfdbg_cli.engines.kit.stacks import line_at, user_frame
from tfdbg_cli.engines.torch.private import OVERLOAD_CALL, Pins, storage_key
from tfdbg_cli.engines.torch.runs.exact_check import are_clean

__all__ = ["UnusedOps"]

# So many ops of a place are recorded before it counts as one that no run uses. Those that write to
# memory are recorded for so many runs after one has read that.
_ENOUGH = 50
_MOST_RESULTS, _MOST_PLACES, _MOST_WRITTEN = 1000, 10_000, 20_000

#: The op's place and the place that has called it: code and instruction of each.
_Place = tuple[int, int, int, int]


class _Write(NamedTuple):
    """An op between runs that has written to memory: its name, and the line of the program."""

    op: str
    code: CodeType
    at: int


class UnusedOps:
    """Tells which ops before a run needn't be recorded: nothing at their place was ever used.

    Args:
        records_all: all have to be; only what was written to between runs is noted.
    """

    def __init__(self, *, records_all: bool = False) -> None:
        self._records_all = records_all
        self._run = 0
        # By the keys of storages: what was written since a run has read them, the last one last.
        self._written: dict[int, dict[_Place, _Write]] = {}
        self._pins = Pins()  # no other storage gets the key of one that is gone
        self._read: dict[int, _Write] = {}  # the last one to what this run has read
        self._read_in: dict[_Place, int] = {}  # the last run that has read what the ops wrote
        self._counts: dict[_Place, int] = {}
        self._used: set[_Place] = set()
        self._codes: dict[int, CodeType] = {}  # held: no other code has its address
        self._results: dict[int, tuple[weakref.ref[torch.Tensor], _Place]] = {}

    def begin_run(self) -> None:
        """What comes now isn't between runs."""
        self._run += 1
        self._read = {}

    def place(self, frame: FrameType) -> _Place | None:
        """The place of an op that needn't be recorded; ``None``: it has to be.

        Args:
            frame: in which it is called.
        """
        place = self._place_of_call(frame)
        return place if self._is_known(place) and place not in self._used else None

    def writes(self, op: str, frame: FrameType, memory: Mapping[int, torch.Tensor]) -> bool:
        """Whether an op that writes to memory needn't be recorded.

        Args:
            op: its name.
            frame: in which it is called.
            memory: the keys of the storages that it writes to -> a tensor in each.
        """
        place = self._place_of_call(frame)
        if len(self._pins.keys) >= _MOST_WRITTEN:
            self._forget_writes()
        caller = user_frame(frame) or frame
        write = _Write(op, caller.f_code, caller.f_lasti)
        for key, tensor in memory.items():
            self._pins.add(key, tensor)
            writes = self._written.setdefault(key, {})
            writes.pop(place, None)
            writes[place] = write
        return self._is_known(place) and self._run - self._read_in.get(place, -_ENOUGH) >= _ENOUGH

    def read(self, tensors: Iterable[torch.Tensor]) -> str:
        """A run reads memory: the ops that have written there are recorded from now on.

        Returns:
            The last of these ops, and its line; empty: there is none.
        """
        last = None
        for tensor in tensors if self._written or self._read else ():
            key = storage_key(tensor)
            for place, write in self._written.pop(key, {}).items():
                self._read_in[place] = self._run
                self._read[key] = write
            last = self._read.get(key, last)
        if last is None:
            return ""
        file, line = os.path.basename(last.code.co_filename), line_at(last.code, last.at)
        return f"{last.op} ({file}:{line})"

    def _place_of_call(self, frame: FrameType) -> _Place:
        if frame.f_code is OVERLOAD_CALL:
            while _is_between(frame.f_code) and frame.f_back is not None:
                frame = frame.f_back
        outer = frame.f_back or frame
        code, outer_code = frame.f_code, outer.f_code
        place = id(code), frame.f_lasti, id(outer_code), outer.f_lasti
        if place not in self._counts:
            if len(self._counts) >= _MOST_PLACES:
                for known in (self._counts, self._used, self._codes, self._results, self._read_in):
                    known.clear()
                self._forget_writes()
            self._codes[id(code)], self._codes[id(outer_code)] = code, outer_code
            self._counts[place] = 0
        return place

    def _forget_writes(self) -> None:
        self._written, self._read = {}, {}
        self._pins.clear()

    def _is_known(self, place: _Place) -> bool:
        """Whether enough ops of a place were recorded; this is one more."""
        self._counts[place] += 1
        return self._counts[place] > _ENOUGH and not self._records_all

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
            self._read_in[place] = self._run

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
