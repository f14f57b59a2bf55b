"""Names that are unique in a run, numbered in the order in which they are asked for."""

from __future__ import annotations

import itertools
import threading

__all__ = ["Numbering"]


class Numbering:
    """The names of the nodes of one run.

    Args:
        keeps_underscores: names may begin with one; otherwise it is left out, as TensorFlow has no
            such names.
    """

    def __init__(self, keeps_underscores: bool = False) -> None:
        self._keeps_underscores = keeps_underscores
        self._lock = threading.Lock()
        # Name -> how many nodes asked for it.
        self._counts: dict[str, int] = {}
        self._unnamed = itertools.count()

    def name(self, base: str) -> str:
        """The name of a node: the first is called ``base``, the next ``base_1``, and so on."""
        if base.startswith("_") and not self._keeps_underscores:
            base = base.lstrip("_") or "op"
        counts = self._counts
        with self._lock:
            count = counts.get(base, 0)
            name = f"{base}_{count}" if count else base
            while name in counts:  # of another node that is really called so
                count += 1
                name = f"{base}_{count}"
            counts[base] = count + 1
            if count:
                counts[name] = 1
        return name

    def unnamed(self) -> str:
        """A name for a tensor that the program has none for."""
        return f"tensor_{next(self._unnamed)}"

    def clear(self) -> None:
        """Begin again: a run has names of its own."""
        with self._lock:
            self._counts.clear()
            self._unnamed = itertools.count()
