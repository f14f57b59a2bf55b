"""Whether a twin computes bit for bit what the program's own session computes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tfdbg_cli.engines.onnx.requests import Request

__all__ = ["Sameness"]

# So many runs with inputs of the same shapes, asked for the same outputs, have to be the same.
_ENOUGH = 5
# Programs whose inputs have ever other shapes are compared in each run.
_MOST_KINDS = 1000


class Sameness:
    """Counts the runs in which both have given the same; one that differs ends it for good."""

    def __init__(self) -> None:
        self._counts: dict[Any, int] = {}
        self._has_differed = False

    def holds(self, request: Request) -> bool:
        """Whether the twin can be trusted to give what the program's session would."""
        return not self._has_differed and self._counts.get(_kind(request), 0) >= _ENOUGH

    @property
    def may_hold(self) -> bool:
        """Whether it is of use to compare."""
        return not self._has_differed

    def compare(
        self, request: Request, outputs: Mapping[str, Any], found: Mapping[str, Any]
    ) -> None:
        """Both have made a run.

        Args:
            request: what was asked of the program's session.
            outputs: what that has given: arrays.
            found: what the twin has: OrtValues.
        """
        if all(_is_same(outputs[name], found[name].numpy()) for name in request.names):
            if len(self._counts) < _MOST_KINDS:
                kind = _kind(request)
                self._counts[kind] = self._counts.get(kind, 0) + 1
        else:
            self._has_differed = True
            self._counts.clear()


def _kind(request: Request) -> Any:
    feeds = ((name, np.shape(value)) for name, value in sorted(request.feeds.items()))
    return (*request.names,), (*feeds,)


def _is_same(one: Any, other: Any) -> bool:
    return (
        isinstance(one, np.ndarray)
        and one.dtype == other.dtype
        and one.dtype != object
        and one.shape == other.shape
        and one.tobytes() == other.tobytes()
    )
