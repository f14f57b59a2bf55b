"""The source lines of a report, with colours and how the tensors that they made are."""

from __future__ import annotations

from tfdbg_cli.commands.report.html import Markup, element, joined, shown_spans
from tfdbg_cli.commands.source.index import source_files
from tfdbg_cli.commands.source.line_health import LineHealth
from tfdbg_cli.commands.source.syntax import syntax_of
from tfdbg_cli.dumps.dump import Dump
from tfdbg_cli.dumps.sources import Frame

__all__ = ["source_lines"]

_AROUND = 8
# Of a line that has made more tensors, nothing is told.
_MOST_TENSORS = 200


def source_lines(dump: Dump, frame: Frame) -> Markup | None:
    """The lines around one of the program's; ``None``: nobody has their text."""
    lines = dump.sources().lines(frame.file)
    if lines is None or not 1 <= frame.line <= len(lines):
        return None
    first = max(frame.line - _AROUND, 1)
    last = min(frame.line + _AROUND, len(lines))
    syntax = syntax_of(dump.sources(), frame.file)
    syntax.settle(last)
    marks = _marks(dump, frame.file, range(first, last + 1))
    width = len(str(last))
    rows = []
    for number in range(first, last + 1):
        place = element("span", f"{number:{width}}", class_="number")
        text = shown_spans(syntax.spans(number))
        row = joined([place, " ", marks.get(number, " "), " ", text] if text else [place])
        rows.append(element("mark", row, class_="here") if number == frame.line else row)
    return element("pre", joined(rows, "\n"), tabindex="0")


def _marks(dump: Dump, path: str, numbers: range) -> dict[int, Markup]:
    """Line -> ``✗`` where it has made something bad, ``✓`` where all is clean."""
    entry = source_files(dump).get(path) if dump.graph() is not None else None
    names = entry.lines if entry is not None else {}
    # Of lines with very many tensors (a training loop's) the health would be long in coming.
    few = {
        number: names[number]
        for number in numbers
        if 0 < sum(len(dump.by_node(name)) for name in names.get(number, ())) <= _MOST_TENSORS
    }
    health = LineHealth(dump, few)
    found = {}
    for number in few:
        health.settle(number)
        is_bad = health.of_line(number, lambda: True).total > 0
        found[number] = element("span", "✗" if is_bad else "✓", class_="bad" if is_bad else "ok")
    return found
