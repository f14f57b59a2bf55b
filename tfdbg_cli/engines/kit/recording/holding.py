"""Keeps the values of a run: in memory, and on disk what ``--dump-limit`` has no room for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from tfdbg_cli.common.errors import one_line
from tfdbg_cli.engines.kit.spill import SizeWarning, SpillFile

__all__ = ["Holder"]


class _HeldValue:
    """A value: the array itself, or where its elements are in the file."""

    __slots__ = ("as_array", "kind", "offset", "shape", "size", "spill", "value")

    def __init__(self, value: Any, size: int, as_array: Callable[[Any], Any]) -> None:
        self.value, self.size, self.as_array = value, size, as_array
        self.spill: SpillFile | None = None
        self.offset = 0
        self.kind: np.dtype[Any] = np.dtype(bool)
        self.shape: tuple[int, ...] = ()

    def read(self) -> Any:
        """The elements."""
        if self.spill is None:
            return self.as_array(self.value)
        data = memoryview(self.spill.read(self.offset, self.size)).toreadonly()
        return np.frombuffer(data, self.kind).reshape(self.shape)


class Holder:
    """The values of one run.

    Args:
        limit: bytes in memory; the oldest values beyond it go to disk. ``None``: no limit.
        as_array: a value as a NumPy array, or as an object that says why it can't be one.

    Attributes:
        problem: why more than that is in memory; empty: it isn't.
    """

    def __init__(self, limit: int | None, as_array: Callable[[Any], Any]) -> None:
        self._limit, self._as_array = limit, as_array
        self._warning = SizeWarning(limit)
        self._bytes = 0
        self._spilled: SpillFile | None = None
        self._order: deque[_HeldValue] = deque()
        self._known: dict[int, _HeldValue] = {}
        self.problem = ""

    @property
    def spilled_bytes(self) -> int:
        """Bytes of the values on disk."""
        return self._spilled.size if self._spilled is not None else 0

    def hold(self, value: Any, size: int) -> Callable[[], Any]:
        """Keep a value of ours.

        Args:
            value: nobody writes to it.
            size: its bytes; 0: it stays in memory.

        Returns:
            A function that reads it.
        """
        held = self._known.get(id(value))
        if held is not None:
            return held.read
        held = _HeldValue(value, size, self._as_array)
        if self._limit is None or not size:
            return held.read
        self._known[id(value)] = held
        self._order.append(held)
        self._bytes += size
        self._warning.see(self._bytes)
        while self._bytes > self._limit and self._order and not self.problem:
            self._spill(self._order.popleft())
        return held.read

    def _spill(self, held: _HeldValue) -> None:
        array = self._as_array(held.value)
        self._bytes -= held.size
        del self._known[id(held.value)]
        if not isinstance(array, np.ndarray):  # it says why it can't be read
            return
        try:
            if self._spilled is None:
                self._spilled = SpillFile()
            held.offset = self._spilled.add(np.ascontiguousarray(array).tobytes())
        except (OSError, MemoryError) as error:
            self.problem = f"values stay in memory, above --dump-limit: {one_line(error)}"
            return
        held.kind, held.shape, held.size = array.dtype, array.shape, array.nbytes
        held.spill, held.value = self._spilled, None
