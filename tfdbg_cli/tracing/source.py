"""Where the source text of running code may be found."""

from __future__ import annotations

import code as console
import contextlib
import linecache
import sys
from collections.abc import Iterator
from types import CodeType, FrameType

from tfdbg_cli.dumps.source_text import live_source, split_source
from tfdbg_cli.tracing.statements import codes_in

__all__ = ["sources"]

# How many lines back what was typed is looked for, and in how many parts a statement may be: a
# decorator, an `else` and a closing bracket begin one.
_MOST_TYPED = 1000
_MOST_PARTS = 6


def sources(frame: FrameType) -> Iterator[list[str]]:
    """The texts that a frame's code may have been compiled from, the likeliest first.

    Args:
        frame: of a script, a notebook's cell, a console, ``python -c``, or of a compiled string
            whose text is in `linecache`.

    Yields:
        Lines without their line ends, numbered as the code's.
    """
    filename = frame.f_code.co_filename
    if filename == "<stdin>":
        yield from _typed(frame.f_code)
        return
    if filename == "<string>":
        yield from _command(frame)
    yield from _buffered(frame)
    cached = linecache.getlines(filename, frame.f_globals)
    if cached:
        yield split_source("".join(cached))
    if not filename.startswith("<"):
        kept = live_source(filename)
        if kept is not None:
            yield kept.lines
        with contextlib.suppress(OSError, UnicodeDecodeError, SyntaxError):
            linecache.checkcache(filename)
            yield split_source("".join(linecache.getlines(filename, frame.f_globals)))


def _command(frame: FrameType) -> Iterator[list[str]]:
    """What came after ``-c``."""
    if frame.f_globals.get("__name__") != "__main__":
        return
    words = sys.orig_argv
    for index, word in enumerate(words[1:-1], 1):
        if word.startswith("-") and not word.startswith("--") and word.endswith("c"):
            yield split_source(words[index + 1])
            return
        if word.startswith("-c"):
            yield split_source(word[2:])
            return


def _buffered(frame: FrameType) -> Iterator[list[str]]:
    """What was typed into a console that is written in Python and is still being run."""
    caller = frame.f_back
    while caller is not None:
        runs = caller.f_code is console.InteractiveInterpreter.runsource.__code__
        if runs and caller.f_locals.get("filename") == frame.f_code.co_filename:
            yield split_source(str(caller.f_locals["source"]))
            return
        caller = caller.f_back


def _typed(code: CodeType) -> Iterator[list[str]]:
    """What was typed at the interpreter's own prompt, from readline's history.

    Empty lines and repeated ones aren't in there: only what compiles to the very same code is the
    text. Newer interpreters put it into `linecache`.
    """
    cached = linecache.getlines(code.co_filename)
    if cached:
        yield split_source("".join(cached))
    readline = sys.modules.get("readline")
    if readline is None:
        return
    last = readline.get_current_history_length()
    history = range(max(1, last - _MOST_TYPED), last + 1)
    lines = [readline.get_history_item(index) or "" for index in history]
    parts = [index for index, line in enumerate(lines) if line[:1] not in ("", " ", "\t", "#")]
    ends = [*parts, len(lines)]
    for index, start in reversed([*enumerate(parts)]):
        for end in ends[index + 1 : index + 1 + _MOST_PARTS]:
            if _compiles_to(lines[start:end], code):
                yield lines[start:end]
                return


def _compiles_to(lines: list[str], code: CodeType) -> bool:
    try:
        made = compile("\n".join(lines) + "\n", code.co_filename, "single", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return code in codes_in(made)
