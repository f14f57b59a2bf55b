"""What TensorFlow runs as a rewritten copy counts for the lines that were copied.

Autograph writes a copy of each function that it converts
into a temporary file and runs that; coverage.py then reports the function's own lines as missed
(https://github.com/nedbat/coveragepy/issues/856). Autograph knows where each line comes from.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

from coverage import CoveragePlugin, FileTracer

__all__ = ["coverage_init"]

# How autograph names the files, in ``tensorflow.python.autograph.pyct.loader``.
_PREFIX = "__autograph_generated_file"
_ORIGINS = "tensorflow.python.autograph.pyct.origin_info"

#: Line of a copy -> file and line of what was copied.
_Lines = Mapping[int, tuple[str, int]]


class AutographPlugin(CoveragePlugin):
    """Traces autograph's files, whose lines are other files'."""

    def __init__(self) -> None:
        self._copies: dict[str, _Lines] = {}
        self._is_watching = False

    def file_tracer(self, filename: str) -> FileTracer | None:
        """One for autograph's files; asked when the first line of one is about to run."""
        if not os.path.basename(filename).startswith(_PREFIX):
            return None
        self._watch()
        return _Tracer(self._copies)

    def file_reporter(self, filename: str) -> str:
        """The files are Python's."""
        return "python"

    def _watch(self) -> None:
        """Learn of each copy where its lines come from, which is told once it is loaded."""
        origins = sys.modules.get(_ORIGINS)
        tell: Callable[..., Any] | None = getattr(origins, "create_source_map", None)
        if self._is_watching or tell is None:
            return
        self._is_watching = True

        @functools.wraps(tell)
        def create_source_map(nodes: Any, code: str, filepath: str) -> Any:
            found = tell(nodes, code, filepath)
            self._copies[os.path.basename(filepath)] = {
                place.lineno: (origin.loc.filename, origin.loc.lineno)
                for place, origin in found.items()
            }
            return found

        origins.create_source_map = create_source_map  # type: ignore[union-attr]


class _Tracer(FileTracer):
    """Tells of each frame in a copy where it is in what was copied.

    Args:
        copies: name of a copy's file -> its lines.
    """

    def __init__(self, copies: Mapping[str, _Lines]) -> None:
        self._copies = copies

    def source_filename(self) -> str:
        """Not known before a function of the copy runs."""
        return ""

    def has_dynamic_source_filename(self) -> bool:
        """It isn't that of the copy."""
        return True

    def dynamic_source_filename(self, filename: str, frame: FrameType) -> str | None:
        """The file of what was copied."""
        lines = self._lines(frame)
        return next((file for file, _ in lines.values()), None)

    def line_number_range(self, frame: FrameType) -> tuple[int, int]:
        """The line of what was copied; (-1, -1): autograph has added this one."""
        _, line = self._lines(frame).get(frame.f_lineno, ("", -1))
        return line, line

    def _lines(self, frame: FrameType) -> _Lines:
        return self._copies.get(os.path.basename(frame.f_code.co_filename), {})


def coverage_init(reg: Any, options: Mapping[str, str]) -> None:
    """What coverage.py calls: https://coverage.readthedocs.io/en/latest/plugins.html."""
    reg.add_file_tracer(AutographPlugin())
