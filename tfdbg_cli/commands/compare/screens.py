"""What ``compare`` shows: a list of what is beyond the bar, and two tensors side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tfdbg_cli.commands.list_command import ColumnChoice, ListCommand
from tfdbg_cli.commands.shell.parsing import quoted
from tfdbg_cli.commands.table import LazyTable
from tfdbg_cli.commands.tensors.facts import TensorFacts
from tfdbg_cli.commands.tensors.health import TensorHealth
from tfdbg_cli.common.arrays import np
from tfdbg_cli.common.documents import Line, Link, Span, TextDocument, line
from tfdbg_cli.common.errors import DumpError, UserError, one_line
from tfdbg_cli.comparing.comparison import (
    AT_START,
    GIVEN,
    INPUTS_DIFFER,
    MADE_HERE,
    ONLY_FIRST,
    ONLY_SECOND,
    OTHER_INPUTS,
    Comparison,
    Row,
)
from tfdbg_cli.comparing.gaps import Difference, Gap, delta, difference, largest
from tfdbg_cli.comparing.verdicts import Place, sentence, verdict
from tfdbg_cli.dumps.dump import Datum, Dump
from tfdbg_cli.dumps.run_folder.states import Writers
from tfdbg_cli.tensors.numeric import dtype_kind
from tfdbg_cli.tensors.pictures.document import Look, PictureDocument
from tfdbg_cli.tensors.pictures.reduction import check_drawable
from tfdbg_cli.tensors.pictures.source import Source
from tfdbg_cli.tensors.statistics import Health

__all__ = ["PairScreen", "place_lines", "record", "table", "written"]

_ROLES = {
    MADE_HERE: "error",
    AT_START: "error",
    GIVEN: "error",
    OTHER_INPUTS: "error",
    INPUTS_DIFFER: "warning",
    ONLY_FIRST: "info",
    ONLY_SECOND: "info",
}
_HEADS = (
    ("Why", 13),
    ("max abs", -9),
    ("max rel", -9),
    ("ULPs", -8),
    ("cosine", -9),
    ("differ", -7),
    ("flips", -6),
    ("Health", 14),
    ("Op type", 14),
    ("By", 10),
    ("Tensor name", 20),
)
# What narrow screens have room for.
_NARROW, _KEPT = 120, frozenset({"Why", "max abs", "differ", "By", "Tensor name"})
_MOST_ELEMENTS = 20
_MANY = 1_000_000
_HUGE = 1 << 60


def written(comparison: Comparison, row: Row) -> Iterator[Line]:
    """Which run has written a parameter, where the runs before were kept."""
    found = []
    for dump, datum in zip((comparison.first, comparison.second), row.pair[:2], strict=True):
        info = dump.run_info()
        runs = info.written.get(datum.tensor_name) if info is not None and datum else None
        found += [f"{Writers(*runs)}"] if runs is not None else []
    if len(found) == 2:
        yield line("It was written ", (found[0], "bold"), " in A, ", (found[1], "bold"), " in B.")


def _read(comparison: Comparison, row: Row) -> Difference | None:
    """The numbers of a pair; ``None`` where there are none."""
    first, second = row.pair.first, row.pair.second
    if first is None or second is None or row.gap.problem or row.gap.note:
        return None
    try:
        one, other = map(np.asarray, comparison.values(row.pair))
        kinds = {dtype_kind(each.dtype) for each in (one, other)}
        return None if kinds & {"string", "other"} else difference(one, other)
    except (DumpError, OSError, ValueError, TypeError):
        return None


def _number(value: float) -> str:
    return "0" if not value else f"{value:.3g}"


def _ulps(count: int | None) -> str:
    if count is None:
        return "-"
    if count > _HUGE:
        return "many"
    return str(count) if count < _MANY else f"{count:.2g}"


def _share(found: Difference | Gap) -> str:
    if not found.differing or not found.total:
        return "0"
    share = found.differing / found.total
    return "all" if found.differing == found.total else f"{share:.1%}" if share > 5e-4 else "<0.1%"


def _cosine(value: float | None) -> str:
    if value is None:
        return "-"
    if value < 1 - 1e-6:
        return f"{value:.6f}"
    # The last bits are those of the sums.
    return "1" if value > 1 - 1e-14 else f"1-{1 - value:.0e}"


def _health(dump: Dump, datum: Datum | None) -> Health | None:
    return TensorHealth(TensorFacts(dump)).of(datum) if datum is not None else None


def _health_words(first: Health | None, second: Health | None) -> tuple[str, str]:
    bad, other = (health.bad if health is not None else 0 for health in (first, second))
    if not bad and not other:
        return "ok", "success"
    return f"{bad or 'ok'} | {other or 'ok'} bad", "nan"


def _how(row: Row) -> str:
    return row.pair.matched_by if row.pair.matched_by != "name" else ""


def table(comparison: Comparison, rows: Sequence[Row], again: str, columns: int) -> LazyTable:
    """The rows, whose numbers are computed as they are looked at.

    Args:
        comparison: of the two runs.
        rows: what to show.
        again: the command of the comparison, to which the name of a tensor is added.
        columns: of the screen.
    """
    left_out = set() if any(map(_how, rows)) else {"By"}
    if columns < _NARROW:
        left_out |= {head for head, _ in _HEADS} - _KEPT
    shown = tuple(ColumnChoice(head) for head, _ in _HEADS if head not in left_out)

    def cells(number: int) -> Mapping[str, Sequence[Span]]:
        row = rows[number]
        found = _read(comparison, row)
        health, role = _health_words(
            _health(comparison.first, row.pair.first), _health(comparison.second, row.pair.second)
        )
        numbers = [""] * 6
        if found is not None:
            numbers = _numbers(found)
        elif row.gap.note:
            numbers[0] = f">={row.gap.max_abs:.2g}"
        elif row.gap.differing:  # of strings there is no more to tell
            numbers[4] = _share(row.gap)
        texts = [Span(text) for text in numbers]
        name = row.datum.tensor_name
        made: list[list[Span]] = [
            [Span(row.said or "within", _ROLES.get(row.said, "dim"))],
            *([span] if span.text else [] for span in texts),
            [Span(health, role)] if not row.gap.problem else [],
            [Span(comparison.op_type(row), "op_type")],
            [Span(_how(row), "dim")] if _how(row) else [],
            [Span(name, "link", Link(f"{again} {quoted(name)}")), *_problem(row)],
        ]
        return {head: cell for (head, _), cell in zip(_HEADS, made, strict=True)}

    # There is no option that says which columns there are.
    written = ListCommand("compare", shown=shown, flag="")
    heads = {head: (head, width) for head, width in _HEADS}
    return LazyTable(len(rows), written, heads, cells, gap=1)


def _problem(row: Row) -> list[Span]:
    if row.gap.problem:
        return [Span(f"  {row.gap.problem}", "warning")]
    if row.gap.note:
        return [Span(f"  {row.gap.note}", "dim")]
    first, second = row.pair.first, row.pair.second
    if first is not None and second is not None and first.tensor_name != second.tensor_name:
        return [Span(f"  = {second.tensor_name}", "dim")]
    return []


def _numbers(found: Difference) -> list[str]:
    return [
        _number(found.max_abs),
        _number(found.max_rel),
        _ulps(found.max_ulps),
        _cosine(found.cosine),
        _share(found),
        str(found.flips or 0),
    ]


def record(comparison: Comparison, row: Row) -> Mapping[str, Any]:
    """A row for ``--json``."""
    row = comparison.exact(row)
    found = _read(comparison, row)
    numbers = found._asdict() if found is not None else dict.fromkeys(Difference._fields)
    first, second = row.pair.first, row.pair.second
    told = verdict(comparison, row) if row.is_beyond else None
    healths = [
        None if health is None else health._asdict()
        for health in (_health(comparison.first, first), _health(comparison.second, second))
    ]
    return {
        "tensor": first.tensor_name if first is not None else None,
        "counterpart": second.tensor_name if second is not None else None,
        "execution": row.datum.execution,
        "matched_by": row.pair.matched_by or None,
        "beyond": row.is_beyond,
        "said": told.said if told is not None else None,
        "ops": [*told.ops] if told is not None else None,
        "arguments": [each._asdict() for each in told.arguments] if told is not None else None,
        "lines": [each and each._asdict() for each in told.places] if told is not None else None,
        "allowed": row.bar.limit,
        **numbers,
        "health": healths[0],
        "counterpart_health": healths[1],
        "problem": row.gap.problem or None,
        "statistics": row.gap.note or None,
    }


class PairScreen:
    """Two tensors that belong together, side by side.

    Args:
        comparison: of the two runs.
        row: the pair.
        names: what the runs are called.
        again: the command of the comparison, to which the name of the tensor is added.
    """

    def __init__(
        self, comparison: Comparison, row: Row, names: tuple[str, str], again: str
    ) -> None:
        self._again = f"{again} {quoted(row.datum.tensor_name)}"
        self._comparison, self._row, self._names = comparison, comparison.exact(row), names

    def document(self) -> TextDocument:
        """All of it."""
        return TextDocument([*self._sides(), *self._verdict(), *self._elements(), *self._places()])

    def picture(self, width: int) -> PictureDocument:
        """What the second one is larger by, as a heat map.

        Raises:
            UserError: no picture can be made of it.
        """
        row = self._row
        if not row.is_pair or row.gap.problem or row.gap.note:
            why = row.gap.problem or sentence(self._comparison, row)
            raise UserError(f"There is no difference to draw: {why}.")
        name = [Span(f"B - A of {row.datum.tensor_name}", "bold")]
        look = Look(scale="symmetric", how="extreme")
        return PictureDocument(
            Source(self._delta()), name, look, width, numbers=lambda at: self.document()
        )

    def _delta(self) -> np.ndarray[Any, Any]:
        one, other = map(np.asarray, self._comparison.values(self._row.pair))
        try:
            check_drawable(one)
        except UserError as error:  # its hint is about another command
            raise UserError(error.message) from None
        return delta(one, other)

    def _each(self) -> Iterator[tuple[str, str, Dump, Datum | None]]:
        dumps = self._comparison.first, self._comparison.second
        yield from zip("AB", self._names, dumps, self._row.pair[:2], strict=True)

    def _sides(self) -> Iterator[Line]:
        for letter, name, dump, datum in self._each():
            yield line((f"{letter}  ", "bold"), (name, "dim"))
            if datum is None:
                yield line("   it isn't there")
                continue
            health = TensorHealth(TensorFacts(dump))
            link = health.link(datum) if letter == "A" else None
            shown = Span(datum.tensor_name, "link" if link else "bold", link)
            op_type = dump.op_type(datum.node_name) or "?"
            yield line("   ", (f"[{op_type}] ", "op_type"), *health.described(datum, shown))
        yield line()

    def _verdict(self) -> Iterator[Line]:
        row = self._row
        role = _ROLES.get(row.said, "success") if row.is_beyond else "success"
        told = verdict(self._comparison, row)
        yield line((told.said, role))
        if told.arguments:
            yield line((told.differing(), role))
        if row.is_pair:
            yield line((f"matched by {row.pair.matched_by}", "dim"))
        yield from written(self._comparison, row)
        if row.gap.problem:
            yield line((row.gap.problem, "warning"))
            return
        if row.gap.note:
            least, limit = _number(row.gap.max_abs), _number(row.bar.limit)
            allowed = (f"  {limit} is allowed", "dim")
            yield line("  max abs ", (f"at least {least}", "number"), allowed)
            yield line(("  Known of A and B, as the values of one weren't kept:", "dim"))
            for letter, text in zip("AB", row.gap.note.split(" | "), strict=False):
                yield line(f"  {letter}  {text}")
            return
        found = _read(self._comparison, row)
        if found is None:
            gap = row.gap
            count = f"  {gap.differing} of {gap.total} elements"
            yield line("  differ  ", (_share(gap), "number"), (count, "dim"))
            return
        for name, value in zip(
            ("max abs", "max rel", "ULPs", "cosine", "differ", "flips"),
            _numbers(found),
            strict=True,
        ):
            more = ""
            if name == "max abs":
                more = f"  {_number(row.bar.limit)} is allowed"
            elif name == "differ":
                more = f"  {found.differing} of {found.total} elements"
            yield line(f"  {name:<8}", (value, "number"), (more, "dim"))

    def _elements(self) -> Iterator[Line]:
        first, second = self._row.pair.first, self._row.pair.second
        if first is None or second is None or self._row.gap.problem or self._row.gap.note:
            return
        try:
            one, other = map(np.asarray, self._comparison.values(self._row.pair))
        except (DumpError, OSError) as error:
            yield line((one_line(error), "warning"))
            return
        places = largest(one, other, _MOST_ELEMENTS)
        if not places:
            return
        yield line()
        drawn = Span("heat map", "link", Link(f"{self._again} --delta"))
        is_drawn = one.ndim and dtype_kind(one.dtype) not in ("string", "other")
        more = [Span("   "), drawn, Span(" of B - A")] if is_drawn else []
        yield line(("The elements that are farthest apart:", "heading"), *more)
        rows = [_element(one, other, place) for place in places]
        widths = [
            max(map(len, column)) for column in zip(*rows, ("", "A", "B", "B - A"), strict=True)
        ]
        yield _cells(("", "A", "B", "B - A"), widths, "heading")
        for place, texts in zip(places, rows, strict=True):
            link = Link(f"pt {quoted(first.tensor_name)}[{', '.join(map(str, place))}]")
            yield _cells(texts, widths, "", link if place else None)

    def _places(self) -> Iterator[Line]:
        for letter, place in zip("AB", verdict(self._comparison, self._row).places, strict=True):
            if place is not None:
                yield line()
                yield from place_lines(letter, place)


def place_lines(letter: str, place: Place) -> Iterator[Line]:
    """A line of one run's program, and where it is."""
    is_shown = letter == "A" and place.is_kept
    link = Link(f"ps {quoted(place.file)} -b {place.line}") if is_shown else None
    yield line(
        (f"Line in {letter}: ", "bold"),
        Span(f"{place.file}:{place.line}", "link" if link else "", link),
    )
    yield line("    ", (place.text, "source"))


def _element(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any], place: Any) -> tuple[str, ...]:
    left, right = one[place], other[place]
    apart = ""
    kinds = {dtype_kind(each.dtype) for each in (one, other)}
    if kinds <= {"int", "bool"}:
        apart = str(int(right) - int(left))
    elif not kinds & {"string", "other"}:
        with np.errstate(all="ignore"):
            wide: Callable[[Any], Any] = complex if "complex" in kinds else float
            apart = f"{wide(right) - wide(left):.6g}"
    return str(list(place)), _text(left), _text(right), apart


def _text(value: Any) -> str:
    if isinstance(value, np.generic) and value.dtype.kind not in "biuSUT":
        return f"{complex(value):.9g}" if value.dtype.kind == "c" else f"{float(value):.9g}"
    return str(value)


def _cells(
    texts: Sequence[str], widths: Sequence[int], role: str, link: Link | None = None
) -> Line:
    spans = [Span("  ")]
    for number, (text, width) in enumerate(zip(texts, widths, strict=True)):
        if number == 0:
            blanks = " " * (width - len(text))
            spans += [Span(text, "link" if link else role, link), Span(blanks)]
        else:
            spans.append(Span(f"  {text:>{width}}", role))
    return Line(spans)
