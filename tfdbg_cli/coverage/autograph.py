"""What TensorFlow runs as a rewritten copy counts for the lines that were copied.

Autograph writes a copy of each function that it converts
into a temporary file and runs that; coverage.py then reports the function's own lines as missed
(https://github.com/nedbat/coveragepy/issues/856). Autograph knows where each line comes from.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

from coverage import Coverage, CoverageData, CoveragePlugin, FileReporter, FileTracer
from coverage.exceptions import CoverageException
from coverage.python import PythonFileReporter

__all__ = ["coverage_init"]

# How autograph names the files, in ``tensorflow.python.autograph.pyct.loader``.
_PREFIX = "__autograph_generated_file"
_ORIGINS = "tensorflow.python.autograph.pyct.origin_info"
# The functions that it makes of what may run or not; the number tells several apart.
_SIDE = re.compile(r"(if|else|loop)_body(_\d+)?")

#: Line of a copy -> file and line of what was copied.
_Lines = Mapping[int, tuple[str, int]]


class AutographPlugin(CoveragePlugin):
    """Traces autograph's files, whose lines are other files'."""

    def __init__(self) -> None:
        self._copies: dict[str, _Lines] = {}
        self._branches: _Branches | None = None
        self._is_watching = False

    def file_tracer(self, filename: str) -> FileTracer | None:
        """One for autograph's files; asked when the first line of one is about to run."""
        if not os.path.basename(filename).startswith(_PREFIX):
            return None
        self._watch()
        return _Tracer(self._copies, self._branches)

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
        measured = Coverage.current()
        if measured is not None and measured.get_option("run:branch"):
            self._branches = _Branches(measured)

        @functools.wraps(tell)
        def create_source_map(nodes: Any, code: str, filepath: str) -> Any:
            found = tell(nodes, code, filepath)
            self._copies[os.path.basename(filepath)] = {
                place.lineno: (origin.loc.filename, origin.loc.lineno)
                for place, origin in found.items()
            }
            return found

        origins.create_source_map = create_source_map  # type: ignore[union-attr]


class _Branches:
    """What has run of copied functions, where jumps are measured.

    Each side of a branch is a function of its own in a copy: coverage.py would see a jump from the
    branch to what comes after it and none to its sides.

    Args:
        measured: what gets the jumps, whenever it is asked for its data.
    """

    def __init__(self, measured: Coverage) -> None:
        self._lines: dict[str, set[int]] = {}
        # File -> (line of the branch, whether it is the side of the condition's truth).
        self._sides: dict[str, set[tuple[int, bool]]] = {}
        get_data = measured.get_data

        @functools.wraps(get_data)
        def with_jumps() -> CoverageData:
            data = get_data()
            for file in list(self._lines):
                with contextlib.suppress(CoverageException):  # there is no such source any more
                    source = PythonFileReporter(file, measured)
                    data.add_arcs({file: self._jumps(file, source)})
            return data

        measured.get_data = with_jumps  # type: ignore[method-assign]

    def ran(self, file: str, line: int) -> None:
        """A line runs."""
        self._lines.setdefault(os.path.realpath(file), set()).add(line)

    def took(self, file: str, line: int, side: str) -> None:
        """A side runs: ``if``, ``else``, or ``loop``, which is left some time, too."""
        sides = self._sides.setdefault(os.path.realpath(file), set())
        sides.add((line, side != "else"))
        if side == "loop":
            sides.add((line, False))

    def _jumps(self, file: str, source: FileReporter) -> set[tuple[int, int]]:
        """All that happened as jumps from line to line, of those that the source has."""
        lines = source.translate_lines(self._lines[file])  # of statements, the first
        sides = {
            (first, is_true)
            for line, is_true in self._sides.get(file, ())
            for first in source.translate_lines([line])
        }
        branches = {line for line, _ in sides}
        exits: dict[int, list[int]] = {}
        for line, after in source.arcs():
            exits.setdefault(line, []).append(after)
        # A line has run where a jump leads to it; this one is not a line's.
        jumps = {(-1, line) for line in lines}
        for line in lines & exits.keys():
            # What is in a branch stands right after it.
            inside = min((after for after in exits[line] if after > line), default=None)
            for after in exits[line]:
                # What is left at its end goes on at a line, or leaves the function (below 0).
                is_left = line not in branches or (line, after == inside) in sides
                if is_left and (after in lines or after < 0):
                    jumps.add((line, after))
        return jumps


class _Tracer(FileTracer):
    """Tells of each frame in a copy where it is in what was copied.

    Args:
        copies: name of a copy's file -> its lines.
        branches: learns what runs; ``None``: only lines are measured.
    """

    def __init__(self, copies: Mapping[str, _Lines], branches: _Branches | None) -> None:
        self._copies = copies
        self._branches = branches

    def source_filename(self) -> str:
        """Not known before a function of the copy runs."""
        return ""

    def has_dynamic_source_filename(self) -> bool:
        """It isn't that of the copy."""
        return True

    def dynamic_source_filename(self, filename: str, frame: FrameType) -> str | None:
        """The file of what was copied; asked at each call in a copy."""
        lines = self._lines(frame)
        side = _SIDE.fullmatch(frame.f_code.co_name)
        caller = _caller(frame) if side else None
        if self._branches is not None and side and caller is not None:
            place = lines.get(caller.f_lineno)
            if place is not None:
                self._branches.took(*place, side[1])
        return next((file for file, _ in lines.values()), None)

    def line_number_range(self, frame: FrameType) -> tuple[int, int]:
        """The line of what was copied; (-1, -1): autograph has added this one."""
        file, line = self._lines(frame).get(frame.f_lineno, ("", -1))
        if self._branches is None:
            return line, line
        if line > 0:
            self._branches.ran(file, line)
        return -1, -1

    def _lines(self, frame: FrameType) -> _Lines:
        return self._copies.get(os.path.basename(frame.f_code.co_filename), {})


def _caller(frame: FrameType) -> FrameType | None:
    """Whose branch it is: TensorFlow's own frames are in between."""
    file = frame.f_code.co_filename
    caller = frame.f_back
    while caller is not None and caller.f_code.co_filename != file:
        caller = caller.f_back
    return caller


def coverage_init(reg: Any, options: Mapping[str, str]) -> None:
    """What coverage.py calls: https://coverage.readthedocs.io/en/latest/plugins.html."""
    reg.add_file_tracer(AutographPlugin())
