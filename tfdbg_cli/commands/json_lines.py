"""``--json``: one JSON object a line, made when somebody reads it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from tfdbg_cli.commands.registry import Argument
from tfdbg_cli.common.arrays import np
from tfdbg_cli.common.documents import LazyDocument, Line, Span

__all__ = ["JSON_ARGUMENT", "VERSION", "head", "json_document"]

#: Of the structure that docs/json.md describes.
VERSION = 1

#: The option of every command that lists.
JSON_ARGUMENT = Argument(("--json",), "one JSON object per line, for other programs")


def head(framework: str, run: str, number: int) -> dict[str, Any]:
    """What every JSON object about a stop begins with."""
    return {"version": VERSION, "framework": framework, "run": {"name": run, "number": number}}


def json_document(count: int, make: Callable[[int], Mapping[str, Any]]) -> LazyDocument:
    """A Document of ``count`` JSON objects.

    JSON has no nan and no infinities: they become the strings ``nan``, ``inf`` and ``-inf``.

    Args:
        count: how many.
        make: the object of a number from 0 on; its values are numbers, strings, booleans, ``None``,
            NumPy scalars, and lists and mappings of them.
    """

    def row(number: int) -> Line:
        # ASCII only: the text passes every pipe. DEL is the one that JSON itself lets through.
        text = json.dumps(_plain(make(number))).replace("\x7f", "\\u007f")
        return Line([Span(text)])

    document = LazyDocument(count, row)
    document.is_data = True
    return document


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, complex):
        return str(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
