"""The values that a block has got, and whether it has written to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tfdbg_cli.engines.base import SteppedRun

__all__ = ["Handouts"]


class Handouts:
    """Values that were handed out, by the name of their tensor.

    They are copies. What the block writes into one (``value[...] = 0``) is found when the block
    asks for something else, or ends: before the run goes on.

    Args:
        run: whose values they are.
    """

    def __init__(self, run: SteppedRun) -> None:
        self._run = run
        self._values: dict[str, Any] = {}
        self._marks: dict[str, Any] = {}
        # Those whose marks are good until the run goes on.
        self._fresh: set[str] = set()
        # Those that can't be changed any more are told of at the end, and what is known by then.
        self._done: set[str] = set()
        self._late: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._values))

    def get(self, name: str) -> Any:
        """What was handed out."""
        return self._values[name]

    def add(self, name: str, value: Any, like: Any = None) -> Any:
        """Hand out a value; returns it.

        Args:
            name: of the tensor.
            value: of it.
            like: what the run has `lent` of it.
        """
        self._values[name] = value
        self._mark(name, like)
        self._done.discard(name)
        return value

    def _mark(self, name: str, like: Any = None) -> None:
        self._marks[name] = self._run.mark(self._values[name], like)
        if like is None:
            self._fresh.discard(name)
        else:
            self._fresh.add(name)

    def drop(self, name: str) -> None:
        """The tensor has another value now."""
        self._values.pop(name, None)
        self._marks.pop(name, None)
        self._late.discard(name)

    def written(self, is_open: Callable[[str], bool], *, is_end: bool = False) -> Iterator[str]:
        """The values that the block has written to; each is told of once. Then the run may go on.

        Args:
            is_open: whether a tensor can still be changed; those that can't are looked at last.
            is_end: that is now.
        """
        for name in self:
            mark = self._marks[name]
            if mark is None or (name in self._done and not is_end):
                continue
            is_fresh, is_written = name in self._fresh, name in self._late
            if not is_open(name):
                self._done.add(name)
            is_told = is_end or name not in self._done
            if is_told or is_fresh:
                is_written = is_written or self._run.is_written(self._values[name], mark)
            if is_end:
                self._marks[name] = None  # it may be the program's own tensor
            elif is_fresh or (is_told and is_written):
                self._mark(name)
            if is_written and is_told:
                self._late.discard(name)
                yield name
            elif is_written:
                self._late.add(name)
