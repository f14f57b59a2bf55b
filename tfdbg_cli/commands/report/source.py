"""The source lines of a report, with colours and how the tensors that they made are."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence

from tfdbg_cli.commands.report.html import Markup, element, escaped, joined
from tfdbg_cli.commands.source.index import source_files
from tfdbg_cli.commands.tensors.health import TensorHealth
from tfdbg_cli.dumps.dump import Datum, Dump
from tfdbg_cli.dumps.sources import Frame

__all__ = ["source_lines"]

_AROUND = 8
# Of a line's tensors, so many are looked at, none of them larger.
_MOST_TENSORS, _LARGEST = 200, 1 << 24
# Longer files have no colours.
_LONGEST = 1 << 20

# Beginnings of Pygments' token types, and the class of each.
_CLASSES = (
    ("Token.Comment", "c"),
    ("Token.Keyword", "k"),
    ("Token.Literal.String", "s"),
    ("Token.Literal.Number", "m"),
    ("Token.Operator.Word", "k"),
    ("Token.Name.Function", "n"),
    ("Token.Name.Class", "n"),
    ("Token.Name.Decorator", "n"),
)


def source_lines(dump: Dump, frame: Frame, health: TensorHealth) -> Markup | None:
    """The lines around one of the program's; ``None``: nobody has their text."""
    lines = dump.sources().lines(frame.file)
    if lines is None or not 1 <= frame.line <= len(lines):
        return None
    first = max(frame.line - _AROUND, 1)
    last = min(frame.line + _AROUND, len(lines))
    coloured = _coloured(lines)
    marks = _Marks(dump, frame.file, health)
    width = len(str(last))
    rows = []
    for number in range(first, last + 1):
        mark = marks.of(number)
        row = joined(
            [
                element("span", f"{number:{width}} ", class_="number"),
                mark,
                " ",
                coloured[number - 1],
            ]
        )
        is_it = number == frame.line
        rows.append(element("mark" if is_it else "span", row, class_="here") if is_it else row)
    return element("pre", joined(rows, "\n"), tabindex="0")


def _coloured(lines: list[str]) -> list[Markup]:
    """The lines with syntax colours where Pygments is installed, else plain."""
    text = "\n".join(lines)
    plain = [escaped(each) for each in lines]
    if len(text) > _LONGEST:
        return plain
    try:
        lexers = importlib.import_module("pygments.lexers.python")
    except ImportError:
        return plain
    found: list[list[Markup]] = [[]]
    lexer = lexers.PythonLexer(stripnl=False, ensurenl=False)
    for kind, value in lexer.get_tokens(text):
        name = _class_of(str(kind))
        for at, part in enumerate(value.split("\n")):
            if at:
                found.append([])
            if part:
                found[-1].append(element("span", part, class_=name) if name else escaped(part))
    made = [joined(each) for each in found]
    return made if len(made) == len(lines) else plain


def _class_of(kind: str) -> str:
    return next((name for begin, name in _CLASSES if kind.startswith(begin)), "")


class _Marks:
    """How the tensors are that the lines of a file have made."""

    def __init__(self, dump: Dump, path: str, health: TensorHealth) -> None:
        entry = source_files(dump).get(path) if dump.graph() is not None else None
        self._lines = entry.lines if entry is not None else {}
        self._dump, self._health = dump, health

    def of(self, number: int) -> Markup:
        """``✗`` where a line has made something bad, ``✓`` where all is clean."""
        data = [datum for name in self._lines.get(number, ()) for datum in self._dump.by_node(name)]
        states = [*self._states(data[:_MOST_TENSORS])]
        if any(states):
            return element("span", "✗", class_="bad")
        return element("span", "✓", class_="ok") if states else Markup(" ")

    def _states(self, data: Sequence[Datum]) -> Iterator[bool]:
        for datum in self._dump.maybe_nonfinite(data):
            size = self._health.facts.facts(datum).nbytes
            if size is not None and size <= _LARGEST:
                yield self._health.is_bad(datum)
        if data:
            yield False
