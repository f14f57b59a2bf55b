"""What the tensors are called whose largest magnitudes are kept from run to run."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tfdbg_cli.dumps.series.history import GRADIENT as OF_PARAMETER
from tfdbg_cli.dumps.series.history import OUTPUT as OF_MODULE
from tfdbg_cli.dumps.series.history import OUTPUT_GRADIENT, Measured
from tfdbg_cli.engines.torch.modules.checks import GRADIENT, OUTPUT, PARAMETER
from tfdbg_cli.engines.torch.names.scopes import Names

__all__ = ["Magnitudes"]

# On a CPU one run of so many is measured: each would cost up to 5 % of itself.
_EVERY = 4
# What grows by so much from one measured run to the next is measured in the next one, too.
_FAST = 1.5
# Of a program whose runs differ all the time.
_MOST = 64
_KINDS = {OUTPUT: OF_MODULE, GRADIENT: OUTPUT_GRADIENT, PARAMETER: OF_PARAMETER}

_Sizes = Mapping[tuple[str, int], tuple[Any, float]]
_Known = tuple[Sequence[weakref.ref[Any]], Sequence[Measured]]


class Magnitudes:
    """Says in which runs tensors are measured, and names them; mostly as in the run before.

    Args:
        names: of modules and parameters.
    """

    def __init__(self, names: Names) -> None:
        self._names = names
        self._known: dict[tuple[tuple[str, int], ...], _Known] = {}
        self._counts: dict[str, int] = {}
        self._last: dict[tuple[str, int], float] = {}
        self._grows = False

    def is_due(self, kind: str) -> bool:
        """Whether a run that begins is to be measured where that has a price.

        Args:
            kind: of the run.
        """
        count = self._counts[kind] = self._counts.get(kind, -1) + 1
        return self._grows or not count % _EVERY

    def row(self, sizes: _Sizes) -> tuple[Sequence[Measured], Iterable[float]]:
        """What was measured, and its magnitudes.

        Args:
            sizes: see `Checks`.
        """
        if sizes:
            self._grows, self._last = (
                _grows(self._last, sizes),
                {key: size for key, (_, size) in sizes.items()},
            )
        key, things = tuple(sizes), [thing for thing, _ in sizes.values()]
        known = self._known.get(key)
        # Something else may have got the address of what is gone.
        if known is None or any(
            reference() is not thing for reference, thing in zip(known[0], things, strict=True)
        ):
            if len(self._known) >= _MOST:
                self._known.clear()
            tensors = [self._measured(kind, sizes[kind, at][0]) for kind, at in key]
            known = self._known[key] = [*map(weakref.ref, things)], tensors
        return known[1], [size for _, size in sizes.values()]

    def _measured(self, kind: str, thing: Any) -> Measured:
        if kind == PARAMETER:
            leaf = self._names.tensor(thing)
            name = leaf.name if leaf is not None else "a parameter"
            return Measured(f"gradient of {name}", name.rpartition(".")[0], _KINDS[kind])
        found = self._names.named(thing)
        path = found.path if found is not None else ""
        shown = path or type(thing).__name__
        begin = "output" if kind == OUTPUT else "gradient of the output"
        return Measured(f"{begin} of {shown}", path, _KINDS[kind])


def _grows(before: Mapping[Any, float], now: _Sizes) -> bool:
    """Whether what a module returns is much larger than when it was last measured."""
    return any(
        key[0] == OUTPUT and size > _FAST * before.get(key, math.inf)
        for key, (_, size) in now.items()
    )
