"""Where nodes came from: stack frames, and the text of the source files as they ran."""

from __future__ import annotations

import functools
import os
import site
import sysconfig
from collections.abc import Iterable, Mapping
from types import FrameType
from typing import NamedTuple

from tfdbg_cli.dumps.source_text import keep_modules, live_source, split_source

__all__ = [
    "Frame",
    "Sources",
    "capture_stack",
    "is_debugger_path",
    "is_library_path",
    "own_frame",
]


class Frame(NamedTuple):
    """One frame of the stack that made a node.

    Attributes:
        file: absolute path, or a name such as ``<string>``.
        line: line number, from 1.
        function: name of the function, ``<module>`` for a script's own level.
        text: the source line, stripped; empty where it isn't known.
    """

    file: str
    line: int
    function: str
    text: str = ""


_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_EMBEDDED = os.path.join(_PACKAGE, "engines", "numpy") + os.sep
# What TensorFlow's autograph writes: a translation of the user's code, not the code.
_GENERATED = "__autograph_generated_file"


@functools.cache
def _library_roots() -> tuple[str, ...]:
    roots = set()
    for key in ("stdlib", "platstdlib", "purelib", "platlib"):
        path = sysconfig.get_paths().get(key)
        if path:
            roots.add(os.path.abspath(path) + os.sep)
    for path in [*site.getsitepackages(), site.getusersitepackages()]:
        roots.add(os.path.abspath(path) + os.sep)
    return tuple(sorted(roots))


def is_library_path(path: str) -> bool:
    """Whether a file belongs to a framework, the standard library or this debugger.

    Works for files of another machine too: any ``site-packages`` or ``dist-packages`` counts.
    """
    if path.startswith("<"):
        return path.startswith("<frozen ")
    if path.startswith(_PACKAGE):
        return True
    parts = path.replace("\\", "/").split("/")
    if "site-packages" in parts or "dist-packages" in parts or parts[-1].startswith(_GENERATED):
        return True
    return path.startswith(_library_roots())


def is_debugger_path(path: str) -> bool:
    """Whether a file is one of ours that only runs because the program is debugged.

    The embedded NumPy engine is a framework of its own and does not count.
    """
    if path.startswith("<frozen "):
        return True
    return path.startswith(_PACKAGE) and not path.startswith(_EMBEDDED)


class Sources:
    """The text of source files, as it was when it ran.

    The text of the program's own modules is taken when the first live `Sources` is made, that is
    at the first debugged run; a file that is read later and was edited meanwhile says so in `note`.

    Args:
        texts: path -> whole text, e.g. what a dump folder kept. Files that aren't in it are read
            on first use, if ``live``.
        live: whether files of this machine may be read.
    """

    def __init__(self, texts: Mapping[str, str] | None = None, live: bool = True) -> None:
        self._lines: dict[str, list[str] | None] = {
            path: split_source(text) for path, text in (texts or {}).items()
        }
        self._notes: dict[str, str] = {}
        self.live = live
        if live:
            keep_modules(is_library_path)

    def lines(self, path: str) -> list[str] | None:
        """The lines of a file without their line feeds, or ``None`` where nobody has them."""
        if path not in self._lines:
            found = live_source(path) if self.live else None
            self._lines[path] = None if found is None else found.lines
            self._notes[path] = "" if found is None else found.note
        return self._lines[path]

    def note(self, path: str) -> str:
        """What must be said of a file's text, e.g. that it has changed; mostly empty."""
        self.lines(path)
        return self._notes.get(path, "")

    def line(self, path: str, number: int) -> str:
        """One line, stripped; empty where it isn't known."""
        lines = self.lines(path)
        if lines is None or not 1 <= number <= len(lines):
            return ""
        return lines[number - 1].strip()

    def paths(self) -> list[str]:
        """The files whose text is held."""
        return sorted(path for path, lines in self._lines.items() if lines is not None)


def own_frame(frames: Iterable[Frame]) -> Frame | None:
    """The innermost frame of the user's own code; a line of a file rather than of a string.

    Args:
        frames: outermost first.

    Returns:
        ``None`` if all are inside libraries.
    """
    own = [frame for frame in frames if not is_library_path(frame.file)]
    of_files = [frame for frame in own if not frame.file.startswith("<")]
    found = of_files or own
    return found[-1] if found else None


def capture_stack(frame: FrameType | None, skip_prefix: str = "") -> tuple[Frame, ...]:
    """The stack of a frame, outermost first, without the debugger's own frames and source text.

    Args:
        frame: the innermost frame to keep.
        skip_prefix: frames of files under this folder are left out (the engine's own code).
    """
    found: list[Frame] = []
    while frame is not None:
        code = frame.f_code
        is_skipped = skip_prefix and code.co_filename.startswith(skip_prefix)
        if not is_skipped and not is_debugger_path(code.co_filename):
            found.append(Frame(code.co_filename, frame.f_lineno, code.co_name))
        frame = frame.f_back
    found.reverse()
    return tuple(found)
