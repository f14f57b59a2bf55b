"""What the tensors are called whose largest magnitudes are kept from run to run."""

from __future__ import annotations

import math
import operator
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from tfdbg_cli.common.interpreter.program_signals import contained
from tfdbg_cli.dumps.series.history import GRADIENT, OUTPUT, MeasuredTensor
from tfdbg_cli.dumps.series.tracks import Tracks
from tfdbg_cli.engines.torch.names.scopes import Names
from tfdbg_cli.engines.torch.names.sites import tensors_in
from tfdbg_cli.engines.torch.private import count_of, quiet
from tfdbg_cli.engines.torch.runs.exact_check import largest_unseen
from tfdbg_cli.engines.torch.values.access import gradient_of

__all__ = ["Magnitudes", "Sizes"]

# What grows by so much from one measured run to the next is measured in the next one, too.
_FAST = 1.5
# Of a program whose runs differ all the time.
_MOST = 64

_Sizes = Mapping[tuple[str, int], tuple[Any, float]]
_Known = tuple[Sequence[weakref.ref[Any]], Sequence[MeasuredTensor]]


class Sizes:
    """The largest magnitudes that were measured in one run.

    Args:
        magnitudes: says whether that is one to be measured, and what things are called.
        parameters: makes those that optimizers update.
        every: one run of so many is measured where that has a price.

    Attributes:
        is_due: it is one to be measured where that has a price.
        found: kind and module or parameter, by its id -> itself, and the largest magnitude: of
            several outputs and calls of a module that of the largest.
    """

    def __init__(
        self,
        magnitudes: Magnitudes,
        parameters: Callable[[], Iterable[torch.Tensor]],
        every: int,
    ) -> None:
        self._magnitudes, self._parameters, self._every = magnitudes, parameters, every
        self.is_due = False
        self._last: tuple[weakref.ref[torch.Tensor], int, float] | None = None
        self.found: dict[tuple[str, int], tuple[Any, float]] = {}

    def begin(self, kind: str) -> None:
        """The run begins.

        Args:
            kind: of the run.
        """
        self.is_due = self._magnitudes.is_due(kind, self._every)

    def note(self, kind: str, thing: Any, size: float) -> None:
        """A tensor was measured.

        Args:
            kind: `OUTPUT`, `OUTPUT_GRADIENT` or `GRADIENT`.
            thing: the module or parameter.
            size: the largest magnitude.
        """
        key = kind, id(thing)
        known = self.found.get(key)
        if known is None or not size <= known[1]:
            self.found[key] = thing, size

    def output(self, module: Any, output: Any) -> None:
        """Measure what a module returns, if it is on a CPU."""
        if not self.is_due or output is None:
            return
        if isinstance(output, torch.Tensor):
            with contained, quiet():
                self._whole_output(module, output)
            return
        with contained, quiet():
            for size in largest_unseen([tensor for _, tensor in tensors_in("", output)]) or ():
                self.note(OUTPUT, module, size)

    def _whole_output(self, module: Any, output: torch.Tensor) -> None:
        """Of one tensor; a container often returns the one that its last part has returned."""
        count = count_of(output)
        if self._last is not None and self._last[0]() is output and 0 <= count == self._last[1]:
            self.note(OUTPUT, module, self._last[2])
            return
        for size in largest_unseen([output]) or ():
            self._last = weakref.ref(output), count, size
            self.note(OUTPUT, module, size)

    def gradients(self) -> None:
        """Measure the gradients of parameters that are on a CPU; a backward pass is over."""
        if not self.is_due:
            return
        with contained, quiet():  # a class or a mode of the program's is asked nothing
            pairs = [(each, gradient_of(each)) for each in self._parameters()]
            told = [(each, gradient) for each, gradient in pairs if gradient is not None]
            found = largest_unseen([gradient for _, gradient in told]) or ()
            for (parameter, _), size in zip(told, found, strict=False):
                self.note(GRADIENT, parameter, size)

    def row(self) -> tuple[Sequence[MeasuredTensor], Iterable[float]]:
        """See `Magnitudes.row`."""
        return self._magnitudes.row(self.found)


class Magnitudes:
    """Says in which runs tensors are measured, and names them; mostly as in the run before.

    Args:
        names: of modules and parameters.
        tracks: tells where the numbers of runs go; ``None``: nobody wants them.
    """

    def __init__(self, names: Names, tracks: Callable[[], Tracks | None]) -> None:
        self._names, self._tracks = names, tracks
        self._known: dict[tuple[tuple[str, int], ...], _Known] = {}
        self._counts: dict[str, int] = {}
        self._last: dict[tuple[str, int], float] = {}
        self._grows = False

    def is_due(self, kind: str, every: int) -> bool:
        """Whether a run that begins is to be measured where that has a price.

        Args:
            kind: of the run.
            every: one run of so many is.
        """
        count = self._counts[kind] = self._counts.get(kind, -1) + 1
        tracks = self._tracks()
        is_asked = tracks is not None and tracks.has_ranges
        return is_asked or self._grows or not count % every

    def row(self, sizes: _Sizes) -> tuple[Sequence[MeasuredTensor], Iterable[float]]:
        """What was measured, and its magnitudes.

        Args:
            sizes: see `Sizes`.
        """
        if not sizes:
            return (), ()
        now = {key: size for key, (_, size) in sizes.items()}
        self._grows, self._last = _grows(self._last, now), now
        key, things = tuple(sizes), [thing for thing, _ in sizes.values()]
        known = self._known.get(key)
        # Something else may have got the address of what is gone.
        living = [reference() for reference in known[0]] if known is not None else []
        if known is None or not all(map(operator.is_, living, things)):
            if len(self._known) >= _MOST:
                self._known.clear()
            tensors = [self._measured(kind, sizes[kind, at][0]) for kind, at in key]
            known = self._known[key] = [*map(weakref.ref, things)], tensors
        return known[1], now.values()

    def _measured(self, kind: str, thing: Any) -> MeasuredTensor:
        if kind == GRADIENT:
            leaf = self._names.tensor(thing)
            name = leaf.name if leaf is not None else "a parameter"
            return MeasuredTensor(f"gradient of {name}", name.rpartition(".")[0], kind)
        found = self._names.named(thing)
        path = found.path if found is not None else ""
        shown = path or type(thing).__name__
        begin = "output" if kind == OUTPUT else "gradient of the output"
        return MeasuredTensor(f"{begin} of {shown}", path, kind)


def _grows(before: Mapping[Any, float], now: Mapping[Any, float]) -> bool:
    """Whether what a module returns is much larger than when it was last measured."""
    for key, size in now.items():
        if key[0] == OUTPUT and size > _FAST * before.get(key, math.inf):
            return True
    return False
