"""The text of source files of this process, taken while it is still what runs."""

from __future__ import annotations

import contextlib
import io
import linecache
import os
import re
import sys
import time
import tokenize
from collections.abc import Callable
from typing import NamedTuple

from tfdbg_cli.common.files import RefusedError, open_at_once, read_plain

__all__ = [
    "CHANGED",
    "SourceText",
    "decode_source",
    "keep_modules",
    "keep_source",
    "live_source",
    "split_source",
]

#: What is said of a file whose text was read after it had been edited.
CHANGED = "changed on disk since the program started: this may not be the text that ran"

# Modules are read before somebody asks only as long as that stays unnoticeable.
_MOST_FILES = 500
_LARGEST_FILE = 1 << 20
# What somebody asks for may be larger.
_LARGEST_SOURCE = 1 << 26

# When and where the debugger was loaded: with its launcher, before the program's first line.
_STARTED = time.time()
try:
    _FOLDER = os.getcwd()
except OSError:  # it was deleted
    _FOLDER = ""

# A line ends where Python's tokenizer ends it: not at form feeds and the like, as splitlines does.
_LINE_END = re.compile(r"\r\n|\r|\n")


class SourceText(NamedTuple):
    """A file's lines without their line ends, and what must be said of them (mostly nothing)."""

    lines: list[str]
    note: str = ""


_kept: dict[str, SourceText] = {}
# The files of the modules that were looked at.
_seen: set[str] = set()
# How many modules there were then, and which was the last: what is imported is put at the end.
_newest: tuple[int, str, object] | None = None


def split_source(text: str) -> list[str]:
    """The lines of a source text, numbered as Python numbers them."""
    lines = _LINE_END.split(text)
    if not lines[-1]:
        lines.pop()
    return lines


def decode_source(data: bytes) -> str | None:
    """The text of a source file by its coding cookie, UTF-8 without one; ``None``: no text.

    Bytes that the encoding doesn't know are shown as ``�``.
    """
    if b"\0" in data:
        return None
    encoding = "utf-8"
    with contextlib.suppress(SyntaxError):  # an unknown encoding, or bytes that aren't UTF-8
        encoding = tokenize.detect_encoding(io.BytesIO(data).readline)[0]
    try:
        text = data.decode(encoding, "replace")
    except (
        LookupError,
        UnicodeError,
    ):  # no encoding of texts (rot13), or one that replaces nothing
        text = data.decode("utf-8", "replace")
    return text.removeprefix("\ufeff")


def keep_source(path: str, data: bytes) -> None:
    """Keep what a file holds while it is certain to be what runs.

    Args:
        path: as the frames will name it.
        data: the file's bytes.
    """
    text = decode_source(data)
    if text is not None:
        _kept.setdefault(path, SourceText(split_source(text)))


def keep_modules(skip: Callable[[str], bool]) -> None:
    """Keep the text of the program's modules that were imported since the last call.

    Called for every dump: where nothing was imported it looks at the last module only, whatever
    has left ``sys.modules`` meanwhile.

    Args:
        skip: whether a path is not the program's own.
    """
    global _newest
    try:
        last = next(reversed(sys.modules))
        newest = (len(sys.modules), last, _file(sys.modules[last]))
    except (KeyError, RuntimeError, StopIteration):  # another thread imports
        newest = None
    if newest is not None and newest == _newest:
        return
    _newest = newest
    for path in map(_file, list(sys.modules.values())):
        if not isinstance(path, str) or path in _seen:
            continue
        _seen.add(path)
        if not path.endswith(".py") or skip(path):
            continue
        if len(_kept) < _MOST_FILES:
            with contextlib.suppress(OSError):
                if os.stat(path).st_size <= _LARGEST_FILE:
                    live_source(path)


def _file(module: object) -> object:
    # Through the dictionary: a lazy module must not be made to import anything.
    return getattr(module, "__dict__", {}).get("__file__")


def live_source(path: str) -> SourceText | None:
    """The text of a file of this process: what was kept, else what can be read now.

    Files inside archives are asked of their modules, names such as ``<ipython-input-1>`` of
    `linecache`. ``None``: nobody has it.
    """
    found = _kept.get(path)
    if found is None:
        found = _read(path)
        if found is not None:
            _kept[path] = found
    return found


def _read(path: str) -> SourceText | None:
    place = path if os.path.isabs(path) else os.path.join(_FOLDER, path)
    try:
        data = read_plain(place, _LARGEST_SOURCE)
        status = os.stat(place)
    except RefusedError:  # nor may linecache read it
        return _from_elsewhere(path) if path in linecache.cache else None
    except (OSError, ValueError):
        return _from_elsewhere(path)
    text = decode_source(data)
    if text is None:
        return None
    changed = status.st_mtime > _STARTED and not _is_compiled(path, status)
    return SourceText(split_source(text), CHANGED if changed else "")


def _from_elsewhere(path: str) -> SourceText | None:
    # linecache would search sys.path for a relative path and read another file of that name.
    # What `python -c` runs isn't the only text that is called so; Python 3.13 puts it there.
    if os.path.isabs(path) or (path in linecache.cache and path != "<string>"):
        lines = linecache.getlines(path)
        if lines:
            return SourceText(split_source("".join(lines)))
    for name, module in list(sys.modules.items()):
        names = getattr(module, "__dict__", {})
        if names.get("__file__") == path:
            with contextlib.suppress(Exception):
                text = names["__loader__"].get_source(name)
                if text:
                    return SourceText(split_source(text))
    return None


def _is_compiled(path: str, status: os.stat_result) -> bool:
    """Whether a module's cached bytecode was made from the file as it is now (PEP 3147, 552)."""
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", {})
        if names.get("__file__") == path and isinstance(names.get("__cached__"), str):
            with contextlib.suppress(OSError):
                with open(names["__cached__"], "rb", opener=open_at_once) as file:
                    head = file.read(16)
                mtime = int(status.st_mtime) & 0xFFFFFFFF
                size = status.st_size & 0xFFFFFFFF
                expected = mtime.to_bytes(4, "little") + size.to_bytes(4, "little")
                return head[4:8] == bytes(4) and head[8:] == expected
    return False
