"""Where nodes came from: stack frames, whose they are, and the source files as they ran."""

from __future__ import annotations

import functools
import os
import site
import sysconfig
from collections.abc import Iterable, Mapping
from types import CodeType, FrameType, TracebackType
from typing import NamedTuple

from tfdbg_cli.common.errors import related, with_frames
from tfdbg_cli.common.interpreter.signal_gate import STAND_IN
from tfdbg_cli.common.traits import all_traits
from tfdbg_cli.dumps.source_text import keep_modules, live_source, split_source

__all__ = [
    "PACKAGE",
    "Frame",
    "Sources",
    "add_debugger_path",
    "capture_stack",
    "in_package",
    "is_debugger_code",
    "is_debugger_path",
    "is_engine_path",
    "is_library_path",
    "model_frame",
    "own_frame",
    "own_place",
    "show_program_only",
    "user_frame",
    "without_debugger",
]


class Frame(NamedTuple):
    """One frame of the stack that made a node.

    Attributes:
        file: absolute path, or a name such as ``<string>``.
        line: line number, from 1.
        function: name of the function, ``<module>`` for a script's own level.
        text: the source line, stripped; empty where it isn't known.
        columns: of the call in the line: of its first byte in UTF-8, and of the one after its
            last, from 0 (PEP 657); ``None``: not known.
    """

    file: str
    line: int
    function: str
    text: str = ""
    columns: tuple[int, int] | None = None


#: The folder of our code.
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_EMBEDDED = os.path.join(PACKAGE, "engines", "numpy") + os.sep
# What TensorFlow's autograph writes: a translation of the user's code, not the code.
_GENERATED = "__autograph_generated_file"


# Folders, with a separator at the end, and files of the engines of other packages.
_engines: tuple[str, ...] = ()


def add_debugger_path(path: str) -> None:
    """Count a file, or a folder whose path ends in a separator, as the debugger's own."""
    global _engines
    if path not in _engines:
        _engines = (*_engines, path)


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
    """Whether a file belongs to a framework, the standard library or this debugger: not the user's.

    Works for files of another machine too: any ``site-packages`` or ``dist-packages`` counts.
    """
    if path.startswith("<"):
        return path.startswith("<frozen ")
    if path.startswith((PACKAGE, *_engines)):
        return True
    parts = path.replace("\\", "/").split("/")
    if "site-packages" in parts or "dist-packages" in parts or parts[-1].startswith(_GENERATED):
        return True
    return path.startswith(_library_roots())


def is_debugger_path(path: str) -> bool:
    """Whether a file is one of ours that only runs because the program is debugged.

    Those of an engine of another package are among them. Each of them is a library's file
    (`is_library_path`) as well. The embedded NumPy engine is a
    framework of its own and does not count.
    """
    if path.startswith("<frozen "):
        return True
    if is_engine_path(path):
        return True
    return path.startswith(PACKAGE) and not path.startswith(_EMBEDDED)


def is_engine_path(path: str) -> bool:
    """Whether a file belongs to the engine of another package."""
    return path.startswith(_engines)


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

    def text(self, frame: Frame) -> str:
        """The line of a frame, stripped: as the frame has it, or else the file."""
        return frame.text or self.line(frame.file, frame.line)

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


def model_frame(frames: Iterable[Frame]) -> Frame | None:
    """The line of a library's model nearest to the op, where the program's own only calls it.

    Args:
        frames: outermost first.

    Returns:
        ``None`` if the program's own line called the framework's op or layer itself.
    """
    found = None
    for frame in frames:
        if not is_library_path(frame.file):
            found = None
        elif (path := in_package(frame.file)) and path.split("/")[0] not in _packages_of_ops():
            found = frame
    return found


@functools.cache
def _packages_of_ops() -> frozenset[str]:
    """The packages of frameworks: their functions are ops and layers, and no models."""
    known = all_traits()
    return frozenset(["numpy"]).union(*({each.package, *each.layers} for each in known))


def in_package(path: str) -> str:
    """A file from its installed package on: ``torch/nn/functional.py``; empty: it is in none."""
    parts = path.replace("\\", "/").split("/")
    for at in range(len(parts) - 1, 0, -1):
        if parts[at - 1] in ("site-packages", "dist-packages"):
            return "/".join(parts[at:])
    return ""


def capture_stack(frame: FrameType | None, skip: str = "") -> tuple[Frame, ...]:
    """The stack of a frame, outermost first, without the debugger's own frames and source text.

    Args:
        frame: the innermost frame to keep.
        skip: frames of files whose paths begin so are left out (the framework's own code).
    """
    found: list[Frame] = []
    while frame is not None:
        code = frame.f_code
        if not ((skip and code.co_filename.startswith(skip)) or is_debugger_code(code)):
            found.append(Frame(code.co_filename, frame.f_lineno, code.co_name))
        frame = frame.f_back
    found.reverse()
    return tuple(found)


def user_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame of the user's own code, from a frame outwards."""
    while frame is not None and is_library_path(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def own_place(error: BaseException, frame: FrameType | None = None) -> tuple[str, int]:
    """File and line of the user's own code that an error comes from; empty and 0: there is none.

    Args:
        error: its innermost frame that is the user's counts.
        frame: where the search goes on outwards, in frames that the error hasn't left yet; default:
            the outermost one of its traceback.
    """
    trace = error.__traceback__
    if frame is None and trace is not None:
        frame = trace.tb_frame
    outer = user_frame(frame)
    found = (outer.f_code.co_filename, outer.f_lineno) if outer is not None else ("", 0)
    while trace is not None:
        path = trace.tb_frame.f_code.co_filename
        if not is_library_path(path):
            found = path, trace.tb_lineno
        trace = trace.tb_next
    return found


def is_debugger_code(code: CodeType) -> bool:
    """Whether a code is ours, wherever it seems to be."""
    return code.co_name == STAND_IN or is_debugger_path(code.co_filename)


def without_debugger(trace: TracebackType | None) -> TracebackType | None:
    """A traceback without the debugger's frames; it isn't changed itself."""
    return with_frames(trace, lambda frame: not is_debugger_code(frame.f_code))


def show_program_only(error: BaseException) -> None:
    """Take the debugger's frames out of the tracebacks of an error and of what has led to it."""
    for each in related(error):
        each.__traceback__ = without_debugger(each.__traceback__)
