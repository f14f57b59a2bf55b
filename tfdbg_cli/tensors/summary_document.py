"""The numeric summary as a Document: of a large array, a first look until all of it is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfdbg_cli.common.arrays import Array, np
from tfdbg_cli.common.documents import Document, Line, TextDocument, line
from tfdbg_cli.common.errors import one_line
from tfdbg_cli.tensors.measurements import Background, Itself
from tfdbg_cli.tensors.summary import Summary, summarize, summary_lines

__all__ = ["SummaryDocument", "summary_document"]

# Arrays up to this size take less time than anybody notices.
_AT_ONCE = 1 << 21

# Of larger ones so many pieces of so many elements are looked at first.
_PIECES, _PIECE = 64, 4096


def summary_document(
    array: Array,
    width: int,
    *,
    is_log: bool = False,
    log_counts: bool = False,
    choices: Line | None = None,
    is_brief: bool = False,
) -> Document:
    """The numeric summary of an array.

    Args:
        array: which.
        width: columns that the histogram may take.
        is_log: whether its bins are to be equal in the logarithms.
        log_counts: whether its bars grow with the logarithm of their counts.
        choices: what stands above it.
        is_brief: whether it takes one line only.
    """
    options = {"log_counts": log_counts, "choices": choices, "is_brief": is_brief}
    work = _SummaryTask(array, is_log)
    return SummaryDocument(work, Background(Itself()), width, options)


class _SummaryTask:
    """The summary of one array, which a thread makes if it is large."""

    def __init__(self, array: Array, is_log: bool) -> None:
        self._array: Array | None = array
        self.size = array.size
        self.is_log = is_log
        self.summary: Summary | None = None
        self.error = ""
        self.first_look: Summary | None = None
        if array.size <= _AT_ONCE:
            self.work(lambda: None)
        else:
            self.first_look = summarize(_some_of(array), is_log=is_log)

    def work(self, check: Callable[[], object]) -> None:
        """Make the summary."""
        if self._array is None:
            return
        try:
            self.summary = summarize(self._array, is_log=self.is_log, check=check)
        except Exception as error:
            self.error = one_line(error)
        self._array = None

    @property
    def is_done(self) -> bool:
        """Whether there is nothing more to come."""
        return self._array is None


def _some_of(array: Array) -> Array:
    """Some pieces of a large array, from its beginning to its end."""
    starts = np.linspace(0, array.size - _PIECE, _PIECES).astype(np.int64)
    places = (starts[:, None] + np.arange(_PIECE)).reshape(-1)
    if array.flags.c_contiguous:
        some: Array = array.reshape(-1)[places]
    else:
        some = array[np.unravel_index(places, array.shape)]
    return some


class SummaryDocument(Document):
    """Counts, statistics, quantiles and a histogram.

    The lines of a large array are those of a first look at some pieces, and say so, until all of it
    was read.

    Args:
        work: what makes the summary.
        background: where it does.
        width: columns that the histogram may take.
        options: of `summary_lines`.
    """

    def __init__(
        self,
        work: _SummaryTask,
        background: Background[_SummaryTask],
        width: int,
        options: dict[str, Any],
    ) -> None:
        self._work = work
        self._background = background
        self._width = width
        self._options = options
        self._text: TextDocument | None = None
        # The numbers of all elements need no more lines than those of some, but for a note.
        self._count = len(self._lines())

    def _lines(self) -> list[Line]:
        work = self._work
        found = work.summary or work.first_look
        if work.error or found is None:
            return [line((f"This can't be measured: {work.error}", "error"))]
        made = summary_lines(found, self._width, **self._options)
        if work.is_done:
            return made
        text = f"(a first look at {found.total:,} of {work.size:,} elements; … the rest is read)"
        return [*made, line((text, "warning"))]

    @property
    def line_count(self) -> int:
        return self._count

    def lines(self, start: int, stop: int) -> list[Line]:
        if not self._work.is_done:
            self._background.want([self._work])
            return self._padded(self._lines())[max(start, 0) : max(stop, 0)]
        if self._text is None:
            self._text = TextDocument(self._padded(self._lines()))
        return self._text.lines(start, stop)

    def _padded(self, made: list[Line]) -> list[Line]:
        """As many lines as were promised."""
        return [*made, *[line()] * (self._count - len(made))][: self._count]

    @property
    def pending(self) -> bool:
        """Whether the rest of a large array is still read; asking keeps it coming."""
        return self._background.is_pending

    def settle(self, start: int, stop: int) -> None:
        """Read the rest."""
        self._work.work(lambda: None)
        self._background.drop([self._work])

    def resized(self, width: int) -> Document:
        """The same with a histogram for another width."""
        if width == self._width:
            return self
        return SummaryDocument(self._work, self._background, width, self._options)
