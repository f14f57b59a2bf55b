"""Ops or modules as rows: their range in a narrower type, and what errors they make."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tfdbg_cli.commands.list_command import ListCommand, chosen_columns
from tfdbg_cli.commands.shell.parsing import quoted
from tfdbg_cli.commands.table import LazyTable
from tfdbg_cli.common.documents import Document, Link, Span
from tfdbg_cli.common.files import near_path
from tfdbg_cli.dumps.dump import Dump
from tfdbg_cli.precision.study import Row

__all__ = ["SORT_KEYS", "error_text", "precision_table", "record"]


def _place(row: Row) -> tuple[str, int]:
    return (row.frame.file, row.frame.line) if row.frame is not None else ("", 0)


#: Column -> what it is sorted by; ``worst`` is the order without one.
SORT_KEYS: Mapping[str, Callable[[Row], Any]] = {
    "reach": lambda row: -1 if row.reach is None else row.reach,
    "error": lambda row: -1 if row.error is None else row.error,
    "largest": lambda row: row.range.largest,
    "limit": lambda row: row.share_of_limit,
    "beyond": lambda row: row.range.share_beyond,
    "lost": lambda row: row.range.share_lost,
    "small": lambda row: row.range.share_small,
    "to": lambda row: row.target.name,
    "op_type": lambda row: row.op_type,
    "name": lambda row: row.name,
    "line": _place,
    "worst": lambda row: row.weight,
}

_HEADS = {
    "reach": "At end",
    "error": "Error",
    "limit": "Of limit",
    "beyond": "Overflow",
    "lost": "Lost",
    "to": "To",
    "name": "Name",
    "op_type": "Op type",
    "line": "Line",
    "largest": "Max |x|",
    "small": "Small",
}
# Numbers stand at the right.
_NUMBERS = ("reach", "error", "largest", "limit", "beyond", "lost", "small")


def error_text(error: float | None) -> str:
    """A relative error in a few characters; nothing where it isn't known."""
    if error is None:
        return ""
    return "overflow" if math.isinf(error) else f"{error:.1e}" if error else "0"


def _share_text(share: float) -> str:
    if not share:
        return ""
    percent = 100 * share
    return "<0.1 %" if percent < 0.1 else f"{percent:.1f} %"


def _limit_text(share: float) -> str:
    percent = 100 * share
    if 0 < percent < 0.001:
        return "<0.001 %"
    return f"{percent:.3g} %" if percent < 999.5 else f"{share:.3g} x"


def _texts(row: Row) -> dict[str, str]:
    return {
        "reach": error_text(row.reach),
        "error": error_text(row.error),
        "largest": f"{row.range.largest:.4g}",
        "limit": _limit_text(row.share_of_limit),
        "beyond": _share_text(row.range.share_beyond),
        "lost": _share_text(row.range.share_lost),
        "small": _share_text(row.range.share_small),
        "to": row.target.name,
        "op_type": row.op_type,
        "name": row.name,
        "line": f"{near_path(row.frame.file)}:{row.frame.line}" if row.frame is not None else "",
    }


def _role(row: Row, key: str) -> str:
    if key == "beyond" or (key in ("reach", "error") and math.isinf(getattr(row, key) or 0)):
        return "error"
    if key == "limit":
        share = row.share_of_limit
        return "error" if share > 1 else "warning" if share > _NEAR else "number"
    return "warning" if key == "lost" else "number" if key in _NUMBERS else ""


# So near the limit a few steps of training lead beyond it.
_NEAR = 0.25


def precision_table(
    dump: Dump | None, rows: list[Row], written: ListCommand, by_module: bool, columns: str
) -> Document:
    """The list.

    Args:
        dump: whose nodes and sources the links lead to; ``None``: there are no links.
        rows: in the order of the screen.
        written: the command line of the list; its columns are filled in here.
        by_module: the rows are modules.
        columns: as ``--columns`` names them.
    """
    several = len({row.target.name for row in rows}) > 1
    keys = [each for each in _HEADS if several or each != "to"]
    keys = [each for each in keys if not by_module or each != "op_type"]
    shown = chosen_columns(columns, tuple(keys))
    texts = [_texts(row) for row in rows]
    columns_of = {}
    for key in keys:
        width = max([len(_HEADS[key]), *(len(text[key]) for text in texts)])
        columns_of[key] = _HEADS[key], -width if key in _NUMBERS else width
    written = replace(written, shown=shown, chosen=columns, flag="--columns")
    written = replace(written, unsorted="worst", sorts=tuple(SORT_KEYS))
    graph = dump.graph() if dump is not None else None

    def is_at_hand(file: str) -> bool:
        return dump is not None and dump.sources().lines(file) is not None

    def cell(row: Row, key: str, text: str) -> list[Span]:
        link = None
        if key == "name" and graph is not None and row.name in graph:
            link = Link(f"ni -a -d -t {quoted(row.name)}")
        elif key == "line" and row.frame is not None and is_at_hand(row.frame.file):
            link = Link(f"ps {quoted(row.frame.file)} -b {row.frame.line}")
        return [Span(text, "link" if link else _role(row, key), link)] if text else []

    def cells(number: int) -> Mapping[str, Sequence[Span]]:
        return {key: cell(rows[number], key, text) for key, text in texts[number].items()}

    return LazyTable(len(rows), written, columns_of, cells)


def record(row: Row) -> dict[str, Any]:
    """A row of ``--json``."""
    return {
        "name": row.name,
        "op_type": row.op_type,
        "to": row.target.name,
        "error_at_end": row.reach,
        "own_error": row.error,
        "largest": row.range.largest,
        "of_limit": row.share_of_limit,
        "overflow": row.range.share_beyond,
        "lost": row.range.share_lost,
        "small": row.range.share_small,
        "elements": row.range.count,
        "file": row.frame.file if row.frame is not None else None,
        "line": row.frame.line if row.frame is not None else None,
    }
