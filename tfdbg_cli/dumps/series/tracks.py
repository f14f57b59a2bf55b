"""The numbers over runs of a program: one a run, the last ones of which are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from tfdbg_cli.dumps.series.history import History
from tfdbg_cli.dumps.series.points import Series

__all__ = [
    "CLIP_LIMIT",
    "CLIP_NORM",
    "CLIP_SCALE",
    "LOSS",
    "LOSS_SCALE",
    "STEP_SKIPPED",
    "UNSCALED_STEP",
    "VALUE_LIMIT",
    "Mark",
    "Tracks",
]

#: The series that is followed without being asked for.
LOSS = "loss"
#: What clipping has found and allowed, and the factor that gradients still had then.
CLIP_NORM, CLIP_LIMIT, CLIP_SCALE = "clip_norm", "clip_limit", "clip_scale"
#: The largest magnitude of an element that clipping has allowed.
VALUE_LIMIT = "clip_value"
#: The factor of the loss in a run; 1 if the scaler left the step out.
LOSS_SCALE, STEP_SKIPPED = "loss_scale", "step_skipped"
#: 1 where an optimizer has made a step of its own in a run whose loss was scaled.
UNSCALED_STEP = "unscaled_step"

_MOST_MARKS = 1_000


class Mark(NamedTuple):
    """A run to be marked in a picture of a series.

    Attributes:
        run: its number.
        is_bad: something bad was found in it, or it failed; otherwise the program stopped there.
    """

    run: int
    is_bad: bool


class Tracks(Mapping[str, Series]):
    """The series of a program, by their names, and what is to be marked in them.

    Attributes:
        expressions: the series that are values of expressions, which somebody has asked for.
        has_norms: whether norms of gradients and parameters are followed, too.
        has_ranges: the largest magnitudes of tensors are measured in each run that is waited in.
        history: the largest magnitudes of tensors in the last runs.
        marks: the runs that the program has stopped at.
    """

    def __init__(self, series: Iterable[Series] = (), marks: Iterable[Mark] = ()) -> None:
        self._series = {each.name: each for each in series}
        self._find_expressions()
        self.has_norms = False
        self.has_ranges = False
        self.history = History()
        self.marks = [*marks]
        #: What tells the numbers that are still somewhere else, on a device, say.
        self.sources: list[Callable[[], None]] = []

    def __getitem__(self, name: str) -> Series:
        return self._series[name]

    def __iter__(self) -> Iterator[str]:
        return iter([*self._series])

    def __len__(self) -> int:
        return len(self._series)

    def follow(self, name: str, expression: str = "") -> Series:
        """Begin a series, in place of one of the same name."""
        made = self._series[name] = Series(name, expression)
        self._find_expressions()
        return made

    def forget(self, name: str) -> None:
        """Follow it no more, and let go of its numbers."""
        self._series.pop(name, None)
        self._find_expressions()

    def _find_expressions(self) -> None:
        self.expressions = [each for each in [*self._series.values()] if each.expression]

    def note(self, name: str, run: int, value: float, moment: float | None = None) -> None:
        """A number that an engine tells by itself, of a series that begins with its first one."""
        found = self._series.get(name)
        if found is None:
            found = self._series[name] = Series(name)
        if not found.expression:
            found.add(run, value, moment)

    def settle(self) -> None:
        """Somebody is going to look: read what is still on a device."""
        for source in self.sources:
            source()

    def mark(self, run: int, *, is_bad: bool) -> None:
        """The program stops at the end of a run."""
        self.marks = [*self.marks[1 - _MOST_MARKS :], Mark(run, is_bad)]
