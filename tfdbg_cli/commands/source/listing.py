"""What ``ps`` shows: the lines of a source file, each with the ops or tensors that it made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tfdbg_cli.commands.graph.phases import PHASES, Phase, phases_of
from tfdbg_cli.commands.shell.parsing import quoted
from tfdbg_cli.commands.source.index import SourceFile
from tfdbg_cli.commands.source.line_health import LineHealth, Worst, in_time
from tfdbg_cli.commands.source.syntax import Syntax
from tfdbg_cli.commands.tensors.facts import TensorFacts
from tfdbg_cli.commands.tensors.health import TensorHealth
from tfdbg_cli.common.documents import Document, ElementStep, Line, Link, Span, TextDocument, line
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.dumps.dump import Datum, Dump
from tfdbg_cli.tensors.statistics import Health

__all__ = ["FileView", "SourceListing"]

# The names of bad ops behind the lines are at most so long; what counts is at their end.
_LONGEST_NAME = 32


@dataclass(frozen=True)
class FileView:
    """What is to be seen of a file.

    Attributes:
        path: of the file.
        tensors: the dumped tensors have names under the lines instead of the nodes.
        limit: how many names there are under a line, of each phase.
        is_folded: there are none but under the lines in ``open``; others tell how many they have.
        open: numbers of lines.
    """

    path: str
    tensors: bool = False
    limit: int = 10
    is_folded: bool = False
    open: frozenset[int] = frozenset()

    def command(self, begin: int = 0, **changes: Any) -> str:
        """The command that shows it, from a line on.

        Args:
            begin: the line; 0: from the beginning.
            changes: attributes that are to be others.
        """
        made = FileView(**{**vars(self), **changes})
        parts = [f"ps {quoted(made.path)}", f"-b {begin}" if begin else ""]
        parts += [f"-m {made.limit}" if made.limit != FileView.limit else ""]
        parts += ["-t" if made.tensors else "", "--fold" if made.is_folded else ""]
        if made.is_folded and made.open:
            parts.append(f"--open {','.join(map(str, sorted(made.open)))}")
        return " ".join(filter(None, parts))


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


class SourceListing(Document):
    """The lines of a file, each with the ops or tensors that it made.

    How bad those are is looked at when a line is, as far as a few milliseconds reach, and then in
    the background; syntax colours, too.

    Args:
        dump: whose nodes.
        shown: what is to be seen of which file.
        entry: what it made; ``None``: nothing.
        text: line number -> text.
        syntax: colours of the lines; ``None``: these aren't all lines of the file.
    """

    def __init__(
        self,
        dump: Dump,
        shown: FileView,
        entry: SourceFile | None,
        text: Mapping[int, str],
        syntax: Syntax | None,
    ) -> None:
        self._dump = dump
        self._shown = shown
        self._text = text
        self._syntax = syntax
        self._lines = entry.lines if entry is not None else {}
        self._tensors = TensorHealth(TensorFacts(dump))
        self._health = LineHealth(dump, self._lines)
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
            if shown.is_folded and number not in shown.open:
                continue
            for at, group in enumerate(self._groups.get(number, ())):
                count = min(len(group.names), shown.limit + 1)  # one more: that some are left out
                self._rows += [_Row(number, at, index) for index in range(count)]

    @property
    def line_count(self) -> int:
        return len(self._rows)

    def place(self, number: int) -> int:
        """The row of a source line; the first one where there is no such line."""
        return self._places.get(number, 0)

    def legend(self) -> list[Line]:
        """What the marks mean."""
        if self._present:
            marks = "; ".join(f"{phase.mark}: {phase.summary}" for phase in self._present)
        else:
            marks = "*: this run computed nodes of the line; -: it only created nodes"
        colors = Line([Span("(a mark like ", "dim"), Span("this", "nan"), Span(" or ", "dim")])
        rest = (Span("this", "inf"), Span(": an op of the line made a nan, or an infinity)", "dim"))
        return [Line([*colors.spans, *rest]), line((f"({marks})", "dim"))]

    def lines(self, start: int, stop: int) -> list[Line]:
        """The lines ``start`` to ``stop - 1``."""
        rows = self._rows[max(start, 0) : max(stop, 0)]
        if self._syntax is not None and rows:
            self._syntax.want(rows[-1].number, in_time())
        is_in_time = in_time()
        worst = {row.number: self._health.of_line(row.number, is_in_time) for row in rows}
        return [self._row(row, worst[row.number]) for row in rows]

    @property
    def pending(self) -> bool:
        """Whether some line has its colours not yet."""
        return self._health.pending or (self._syntax is not None and self._syntax.pending)

    def settle(self, start: int, stop: int) -> None:
        """Wait until all is known of some lines."""
        rows = self._rows[max(start, 0) : max(stop, 0)]
        if self._syntax is not None and rows:
            self._syntax.settle(rows[-1].number)
        for number in {row.number for row in rows}:
            self._health.settle(number)

    def locate(self, indices: Sequence[int]) -> int:
        """The row of a source line: ``@12``."""
        if len(indices) != 1 or indices[0] not in self._places:
            named = ",".join(map(str, indices))
            raise UserError(f"There is no line {named} here.", "Write the number of one: @12")
        return self._places[indices[0]]

    def element(self, indices: Sequence[int]) -> Document | None:
        """The source line alone."""
        if len(indices) != 1 or indices[0] not in self._places:
            return None
        at = self._places[indices[0]]
        self.settle(at, at + 1)
        return TextDocument(self.lines(at, at + 1))

    def step(self, indices: Sequence[int] | None, direction: int = 1) -> ElementStep:
        """The next of the lines of which an op made something bad.

        Raises:
            UserError: there is none.
        """
        bad = [number for number in self._health.bad_lines() if number in self._places]
        if not bad:
            raise UserError("No line of this file made a nan or an infinity in this run.")
        here = indices[0] if indices else (0 if direction > 0 else bad[-1] + 1)
        beyond = [number for number in bad if (number - here) * direction > 0]
        number = (beyond or bad)[0 if direction > 0 else -1]
        return ElementStep(
            self._places[number], (number,), bad.index(number) + 1, len(bad), not beyond
        )

    def _row(self, row: _Row, worst: Worst) -> Line:
        if row.group < 0:
            made = self._source_line(row.number, worst)
            made.indices = ((row.number,), (row.number,))
            return made
        group = self._groups[row.number][row.group]
        head: list[Span | str] = [" " * (self._width + 5)]
        if group.phase is not None:
            head += [Span(group.phase.mark, group.phase.role), " "]
        if row.at == self._shown.limit:
            return line(*head, *self._omission(row.number, group))
        name = group.names[row.at]
        if self._shown.tensors:
            bad = self._health.of_node(name.rpartition(":")[0]) if worst.role else ""
            return line(*head, (name, bad or "link", f"pt {quoted(name)}"))
        role = "link" if self._dump.by_node(name) else "info"
        bad = self._health.of_node(name) if worst.role else ""
        return line(*head, (name, bad or role, f"ni -a -d -t {quoted(name)}"))

    def _grouped(self, names: Iterable[str]) -> Iterator[_Group]:
        by_phase: dict[Phase | None, list[str]] = {}
        for name in names:
            shown = self._tensors_of(name) if self._shown.tensors else [name]
            if shown:
                by_phase.setdefault(self._phases.get(name), []).extend(shown)
        for phase in (*self._present, None):
            if phase in by_phase:
                yield _Group(phase, by_phase[phase])

    def _tensors_of(self, node: str) -> list[str]:
        data = (datum.tensor_name for datum in self._dump.by_node(node) if not datum.is_view)
        return list(dict.fromkeys(data))

    def _source_line(self, number: int, worst: Worst) -> Line:
        """The text with its marks, and what is bad behind it."""
        names = self._lines.get(number, ())
        spans = [*self._label(number, worst), *self._marks(number, worst), Span(" ")]
        if self._shown.is_folded:
            spans += self._fold(number)
        role = "source" if names else ""
        if self._syntax is None:
            spans.append(Span(self._text[number], role))
        else:
            spans += self._syntax.spans(number, role)
        if self._shown.is_folded and (count := self._count(number)):
            spans.append(Span(f"  {count} {self._what(count)}", "dim"))
        if worst.first is not None and worst.health is not None:
            several = Span(f" (1 of {worst.total})", "dim") if worst.total > 1 else Span("")
            spans += [Span("  "), self._bad(worst.first, worst.health, worst.role), several]
        return line(*spans)

    def _label(self, number: int, worst: Worst) -> list[Span]:
        """The number of a line: a link, too, to what is bad there, as it is always in sight."""
        label, blanks = f"L{number}", " " * (self._width - len(f"L{number}") + 1)
        link = None if worst.first is None else self._tensors.link(worst.first, bad=True)
        return [Span(label, worst.role or "dim", link), Span(blanks)]

    def _marks(self, number: int, worst: Worst) -> list[Span]:
        """``*`` it ran, ``-`` it only made nodes; or its phases: in the colour of what is bad."""
        names = self._lines.get(number, ())
        if self._present:
            found = {self._phases.get(name) for name in names}
            bad: dict[Phase | None, str] = {}
            for name in self._health.bad_nodes(number):
                phase = self._phases.get(name)
                if bad.get(phase) != "nan":
                    bad[phase] = self._health.of_node(name)
            return [
                Span(phase.mark, bad.get(phase) or phase.role) if phase in found else Span(" ")
                for phase in self._present
            ]
        if not names:
            return [Span(" ")]
        if any(map(self._dump.by_node, names)):
            return [Span("*", worst.role or ("success" if worst.is_known else "dim"))]
        return [Span("-", "dim")]

    def _bad(self, first: Datum, health: Health, role: str) -> Span:
        """The op that was the first on a line to make something bad."""
        name = first.tensor_name
        if len(name) > _LONGEST_NAME:
            name = f"…{name[1 - _LONGEST_NAME :]}"
        return Span(f"◀ {name} {health.text}", role, self._tensors.link(first, bad=True))

    def _fold(self, number: int) -> list[Span]:
        """A link that shows the names under this line instead of another, or hides them."""
        if not self._count(number):
            return [Span("  ")]
        is_open = number in self._shown.open
        lines = frozenset(() if is_open else {number})
        command = self._shown.command(number, open=lines, limit=FileView.limit)
        return [Span("▾" if is_open else "▸", "link", Link(command)), Span(" ")]

    def _count(self, number: int) -> int:
        return sum(len(group.names) for group in self._groups.get(number, ()))

    def _what(self, count: int) -> str:
        what = "tensor" if self._shown.tensors else "op"
        return what if count == 1 else f"{what}s"

    def _omission(self, number: int, group: _Group) -> list[Span]:
        limit = self._shown.limit
        more = self._shown.command(number, limit=limit + 5)
        left = len(group.names) - limit
        what = "tensor(s)" if self._shown.tensors else "op(s)"
        text = f"(... Omitted {left} of {len(group.names)} {what} ...) "
        return [Span(text, "dim"), Span("+5", "link", Link(more))]
