"""The rows of ``ps``: the lines of a source file, each with the ops or tensors that it made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from tfdbg_cli.commands.graph.phases import PHASES, Phase, phases_of
from tfdbg_cli.commands.shell.parsing import quoted
from tfdbg_cli.commands.source.index import SourceFile
from tfdbg_cli.common.documents import Line, Link, Span, line
from tfdbg_cli.dumps.dump import Dump

__all__ = ["SourceListing"]


class _Group(NamedTuple):
    """What a line made, in one phase.

    Attributes:
        phase: ``None`` where the file has only one.
        names: of nodes or tensors.
    """

    phase: Phase | None
    names: list[str]


class _Row(NamedTuple):
    """A row of the screen.

    Attributes:
        number: of the source line.
        group: of its elements; -1: the line itself.
        at: which element of its group; the limit: so many are left out.
    """

    number: int
    group: int = -1
    at: int = 0


class SourceListing:
    """The rows of a file.

    Args:
        dump: whose nodes.
        path: of the file.
        entry: what it made; ``None``: nothing.
        text: line number -> text.
        tensors: name the dumped tensors instead of the nodes.
        limit: how many names under a line, of each phase.
    """

    def __init__(
        self,
        dump: Dump,
        path: str,
        entry: SourceFile | None,
        text: Mapping[int, str],
        *,
        tensors: bool,
        limit: int,
    ) -> None:
        self._dump = dump
        self._path = path
        self._text = text
        self._tensors = tensors
        self._limit = limit
        self._lines = entry.lines if entry is not None else {}
        self._phases = phases_of(dump, entry.nodes if entry is not None else ())
        found = set(self._phases.values())
        self._present = [phase for phase in PHASES if phase in found]
        self._groups = {number: list(self._grouped(names)) for number, names in self._lines.items()}
        self._width = len(f"L{max(text, default=1)}")
        self._rows: list[_Row] = []
        self._places: dict[int, int] = {}
        for number in text:
            self._places[number] = len(self._rows)
            self._rows.append(_Row(number))
            for at, group in enumerate(self._groups.get(number, ())):
                shown = min(len(group.names), limit + 1)  # one more: that some are left out
                self._rows += [_Row(number, at, index) for index in range(shown)]

    def __len__(self) -> int:
        return len(self._rows)

    def place(self, number: int) -> int:
        """The row of a source line; the first one where there is no such line."""
        return self._places.get(number, 0)

    def legend(self) -> Line:
        """What the marks mean."""
        if not self._present:
            text = "(*: this run computed nodes of the line; -: it only created nodes)"
            return line((text, "dim"))
        marks = "; ".join(f"{phase.mark}: {phase.summary}" for phase in self._present)
        return line((f"({marks})", "dim"))

    def row(self, at: int) -> Line:
        """One row."""
        row = self._rows[at]
        if row.group < 0:
            return self._source_line(row.number)
        group = self._groups[row.number][row.group]
        head: list[Span | str] = [" " * (self._width + 5)]
        if group.phase is not None:
            head += [Span(group.phase.mark, group.phase.role), " "]
        if row.at == self._limit:
            return line(*head, *self._omission(row.number, group))
        name = group.names[row.at]
        if self._tensors:
            return line(*head, (name, "link", f"pt {quoted(name)}"))
        role = "link" if self._dump.by_node(name) else "info"
        return line(*head, (name, role, f"ni -a -d -t {quoted(name)}"))

    def _grouped(self, names: Iterable[str]) -> Iterator[_Group]:
        by_phase: dict[Phase | None, list[str]] = {}
        for name in names:
            shown = self._tensors_of(name) if self._tensors else [name]
            if shown:
                by_phase.setdefault(self._phases.get(name), []).extend(shown)
        for phase in (*self._present, None):
            if phase in by_phase:
                yield _Group(phase, by_phase[phase])

    def _tensors_of(self, node: str) -> list[str]:
        data = (datum.tensor_name for datum in self._dump.by_node(node) if not datum.is_view)
        return list(dict.fromkeys(data))

    def _source_line(self, number: int) -> Line:
        """The text with its marks: ``*`` it ran, ``-`` it only made nodes; or its phases."""
        label = f"{f'L{number}':<{self._width}} "
        names = self._lines.get(number, ())
        text = (self._text[number], "source" if names else "")
        if self._present:
            found = {self._phases.get(name) for name in names}
            marks = [
                Span(phase.mark, phase.role) if phase in found else Span(" ")
                for phase in self._present
            ]
            return line((label, "dim"), *marks, " ", text)
        if not names:
            return line((f"{label}  ", "dim"), text)
        if any(map(self._dump.by_node, names)):
            return line((f"{label}* ", "success"), text)
        return line((f"{label}- ", "dim"), text)

    def _omission(self, number: int, group: _Group) -> list[Span]:
        what = "tensor" if self._tensors else "op"
        more = f"ps {quoted(self._path)} -b {number} -m {self._limit + 5}"
        more += " -t" if self._tensors else ""
        left = len(group.names) - self._limit
        text = f"(... Omitted {left} of {len(group.names)} {what}(s) ...) "
        return [Span(text, "dim"), Span("+5", "link", Link(more))]
