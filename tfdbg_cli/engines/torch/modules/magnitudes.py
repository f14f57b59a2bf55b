"""What the tensors are called whose largest magnitudes are kept from run to run."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tfdbg_cli.dumps.series.history import GRADIENT as OF_PARAMETER
from tfdbg_cli.dumps.series.history import OUTPUT as OF_MODULE
from tfdbg_cli.dumps.series.history import OUTPUT_GRADIENT, Measured
from tfdbg_cli.engines.torch.modules.checks import GRADIENT, OUTPUT, PARAMETER
from tfdbg_cli.engines.torch.names.scopes import Names

__all__ = ["Magnitudes"]

# Of a program whose runs differ all the time.
_MOST = 64
_KINDS = {OUTPUT: OF_MODULE, GRADIENT: OUTPUT_GRADIENT, PARAMETER: OF_PARAMETER}

_Sizes = Mapping[tuple[str, int], tuple[Any, float]]
_Known = tuple[Sequence[weakref.ref[Any]], Sequence[Measured]]


class Magnitudes:
    """Names the tensors that were measured in a run; they are mostly those of the run before.

    Args:
        names: of modules and parameters.
    """

    def __init__(self, names: Names) -> None:
        self._names = names
        self._known: dict[tuple[tuple[str, int], ...], _Known] = {}

    def row(self, sizes: _Sizes) -> tuple[Sequence[Measured], Iterable[float]]:
        """What was measured, and its magnitudes.

        Args:
            sizes: see `Checks`.
        """
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
