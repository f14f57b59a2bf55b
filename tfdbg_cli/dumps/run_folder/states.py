"""Which run has left each parameter as it is, as far as the runs that are kept tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["States", "Writers"]


class Writers(NamedTuple):
    """The runs of which one, or the program behind it, has written what a parameter holds.

    Attributes:
        first: the last run that was kept in which it had another value; 0: there is none.
        last: the run before the first one that was kept in which it has this one.
    """

    first: int
    last: int

    def __str__(self) -> str:
        if not self.first:
            return f"before run {self.last + 1}"
        if self.first == self.last:
            return f"by run {self.last}"
        return f"by one of the runs {self.first} to {self.last}"


class States:
    """Follows the values of parameters over the runs of a program, by their hashes."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[bytes, int, Writers]] = {}

    def seen(self, run: int, hashes: Mapping[str, bytes]) -> dict[str, Writers]:
        """Which runs have written what parameters hold.

        Args:
            run: its number; runs come in their order, and one may come again.
            hashes: of the values at the start of the run, by the names of the tensors.
        """
        found: dict[str, Writers] = {}
        for name, value in hashes.items():
            before, seen, writers = self._known.get(name, (b"", 0, Writers(0, 0)))
            if value != before:
                writers = Writers(min(seen, run - 1), run - 1)
            self._known[name] = value, run, writers
            found[name] = writers
        return found
