"""A trace block that is applied to runs that the program makes later."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tfdbg_cli.dumps.dump import RunInfo
from tfdbg_cli.engines.base import SteppedRun

if TYPE_CHECKING:
    from tfdbg_cli.tracing.tracer import Tracer

__all__ = ["AppliedBlock"]


class AppliedBlock:
    """A block that is applied to later runs, until `remove` or as often as was asked for.

    Args:
        tracer: whose block.
        times: to so many runs; ``None``: to all.
    """

    def __init__(self, tracer: Tracer, times: int | None) -> None:
        self._tracer = tracer
        self._left = times
        self._is_nested = False
        self._has_warned = False
        self._end: Callable[[], None] | None = None

    def __enter__(self) -> Any:
        self._is_nested = self._tracer._block is None
        if self._is_nested:
            return self._tracer._enter(sys._getframe(1), self)
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        if self._is_nested:
            return self._tracer.__exit__(kind, error, traceback)
        self.remove()
        return False

    @property
    def left(self) -> int | None:
        """To how many more runs it will be applied; ``None``: to all of them."""
        return self._left

    def begin(self) -> None:
        """Apply it from now on."""
        if self._end is None and self._left != 0:
            self._end = self._tracer._subject.intercept(self._apply)

    def remove(self) -> None:
        """Apply it to no more runs; may be called more than once."""
        self._left = 0
        if self._end is not None:
            end, self._end = self._end, None
            end()

    def _apply(self, run: SteppedRun, info: Callable[[], RunInfo]) -> None:
        if self._left == 0:
            return
        if self._left is not None:
            self._left -= 1
        absent = None
        try:
            absent = self._tracer._apply(self, run, info)
        finally:
            if absent is not None and self._left is not None and self._end is not None:
                self._left += 1  # a run of another kind: none of those that were asked for
            if self._left == 0:
                self.remove()
        if absent is not None and run.is_open_ended and not self._has_warned:
            # Of a program it isn't known what other runs make: the name may be misspelled.
            self._has_warned = True
            text = f"A trace block was not applied: {str(absent).splitlines()[0]}"
            warnings.warn(text, RuntimeWarning, stacklevel=2)
