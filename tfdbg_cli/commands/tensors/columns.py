"""The columns of ``lt``: what each shows of a tensor, how wide it is, and how it sorts."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from tfdbg_cli.commands.context import Context
from tfdbg_cli.commands.list_command import ColumnChoice, read_shown
from tfdbg_cli.commands.reply import Candidate
from tfdbg_cli.commands.shell.parsing import quoted
from tfdbg_cli.commands.spans import bad_spans
from tfdbg_cli.commands.tensors.facts import Facts, TensorFacts
from tfdbg_cli.commands.units import bytes_text
from tfdbg_cli.common.documents import Link, Span
from tfdbg_cli.common.errors import UserError, did_you_mean
from tfdbg_cli.common.interpreter.program_signals import contained
from tfdbg_cli.common.node_words import MODULE, PHASE
from tfdbg_cli.dumps.dump import Datum
from tfdbg_cli.tensors.histogram import bars
from tfdbg_cli.tensors.statistics import Statistics

__all__ = [
    "COLUMNS",
    "STATISTICS",
    "WIDE",
    "Column",
    "column",
    "columns",
    "complete_column",
    "complete_columns",
    "default_columns",
]

# How the names of all devices of a program begin that runs in one process.
_HERE = "/job:localhost/replica:0/task:0/"

#: Stands for what is still computed.
PLACEHOLDER = "…"

# How elements can be bad, in the order in which they are counted, and their roles.
_BAD = (("nan", "nan"), ("-inf", "inf"), ("+inf", "inf"))

_BARS = 16  # of a histogram

#: From so many columns on, a screen has room for the numbers too.
WIDE = 120


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        name: for ``-o`` and ``-s``.
        head: above it.
        width: the narrowest that fits most of what it shows; longer cells push the next ones.
        cell: makes the spans of a row.
        key: what rows are sorted by, read from the facts of a tensor; rows for which it is ``None``
            come last.
        summary: for the help.
        alias: the name of the same sort key in the original.
        wide: its width on wide screens, where it has more room there.
        is_name: whether its key is the text that it shows, or has that text in it.
    """

    name: str
    head: str
    width: int
    cell: Callable[[Facts], tuple[Span, ...]]
    key: Callable[[TensorFacts, Datum], Any]
    summary: str
    alias: str = ""
    wide: int = 0
    is_name: bool = False


def _size(row: Facts) -> tuple[Span, ...]:
    if row.nbytes is None or row.is_damaged:
        return (Span("?", "error"),)
    return (Span(bytes_text(row.nbytes)),)


def _dtype(row: Facts) -> tuple[Span, ...]:
    if row.is_damaged:
        return (Span("(damaged)", "error"),)
    return (Span(row.dtype or "-"),)


def _shape(row: Facts) -> tuple[Span, ...]:
    if row.shape is None:
        return (Span("?"),)
    comma = "," if len(row.shape) == 1 else ""
    return (Span(f"({', '.join(map(str, row.shape))}{comma})"),)


def _health(row: Facts) -> tuple[Span, ...]:
    found = row.statistics
    if found is None:
        return (Span(PLACEHOLDER, "dim"),)
    if found.health is None:
        return (Span("?", "error") if found.error else Span("-", "dim"),)
    if not found.health.bad:
        return (Span("ok", "dim"),)
    return tuple(bad_spans(found.health, " "))


def _number(read: Callable[[Statistics], float | None]) -> Callable[[Facts], tuple[Span, ...]]:
    """The cell of a minimum, maximum or mean."""

    def cell(row: Facts) -> tuple[Span, ...]:
        found = row.statistics
        if found is None:
            return (Span(PLACEHOLDER, "dim"),)
        value = read(found)
        if value is None:
            return (Span("?", "error") if found.error else Span("-", "dim"),)
        # Integers are exact where there is room for them; True and False are integers too.
        if isinstance(value, int) and len(str(value)) <= 11:
            return (Span(str(value)),)
        # Adding zero makes -0 a plain 0.
        return (Span(f"{value + 0.0:.4g}", "" if math.isfinite(value) else "inf"),)

    return cell


def _hist(row: Facts) -> tuple[Span, ...]:
    """Bars between the smallest and the largest number, and which kinds of bad ones there are."""
    found = row.histogram
    if found is None:
        return (Span(PLACEHOLDER, "dim"),)
    if row.statistics is not None and row.statistics.error:
        return (Span("?", "error"),)
    if not found.counts and not any(found.bad):
        return (Span("-", "dim"),)
    text = bars(found.counts)
    if len(found.counts) == 1:  # all numbers are equal: which says more than a bar
        value = row.statistics.minimum if row.statistics is not None else found.edges[0]
        text = f"= {value + 0.0:.4g}" if isinstance(value, float) else f"= {value}"
    spans = [Span(text.ljust(_BARS) if any(found.bad) else text, "number")]
    for count, (label, role) in zip(found.bad, _BAD, strict=True):
        spans += [Span(" "), Span(label, role)] if count else []
    return tuple(spans)


def _name(row: Facts) -> tuple[Span, ...]:
    datum = row.datum
    label, command = datum.tensor_name, f"pt {quoted(datum.tensor_name)}"
    if datum.debug_op != "DebugIdentity":  # what a debug op made of the tensor
        label = datum.watch_key
    if row.number is not None:
        label += f" (#{row.number})"
        command += f" -n {row.number}"
    return (Span(label, "link", Link(command)),)


def _readable(read: Callable[[Datum], Any]) -> Callable[[TensorFacts, Datum], Any]:
    """A key from what the datum itself says; ``None`` where that can't be read."""

    def key(facts: TensorFacts, datum: Datum) -> Any:
        with contained:
            return read(datum)
        return None

    return key


def _shape_key(datum: Datum) -> tuple[int, tuple[int, ...]] | None:
    shape = datum.shape
    return (math.prod(shape), shape) if shape is not None else None


def _health_key(facts: TensorFacts, datum: Datum) -> int | None:
    health = facts.measured(datum, numbers=False).health
    return health.bad if health is not None else None


def _spread_key(facts: TensorFacts, datum: Datum) -> float | None:
    found = facts.measured(datum)
    if found.minimum is None or found.maximum is None:
        return None
    return found.maximum - found.minimum


#: All columns, in the order in which they are offered.
COLUMNS = (
    Column(
        "time",
        "t (ms)",
        9,
        lambda row: (Span(f"[{row.milliseconds:.3f}]", "dim"),),
        lambda facts, datum: 0,  # they come in time order, and sorting keeps it
        "when it was dumped, milliseconds after the first dump",
        "timestamp",
    ),
    Column(
        "size",
        "Size (B)",
        8,
        _size,
        _readable(lambda datum: datum.nbytes),
        "bytes of its elements",
        "dump_size",
    ),
    Column(
        "op_type",
        "Op type",
        7,
        lambda row: (Span(row.op_type, "op_type"),),
        lambda facts, datum: facts.op_type(datum),
        "type of the op that made it",
        is_name=True,
    ),
    Column(
        "dtype",
        "Dtype",
        8,
        _dtype,
        _readable(lambda datum: datum.dtype or None),
        "type of its elements",
        is_name=True,
    ),
    Column(
        "shape",
        "Shape",
        11,
        _shape,
        _readable(_shape_key),
        "its shape; sorts by the number of elements",
        wide=16,
    ),
    Column(
        "health",
        "Health",
        8,
        _health,
        _health_key,
        "how many nan, -inf and +inf it has",
        wide=13,
    ),
    Column(
        "min",
        "Min",
        10,
        _number(lambda found: found.minimum),
        lambda facts, datum: facts.measured(datum).minimum,
        "the smallest finite element (complex: absolute value)",
    ),
    Column(
        "max",
        "Max",
        10,
        _number(lambda found: found.maximum),
        lambda facts, datum: facts.measured(datum).maximum,
        "the largest finite element (complex: absolute value)",
    ),
    Column(
        "mean",
        "Mean",
        10,
        _number(lambda found: found.mean),
        lambda facts, datum: facts.measured(datum).mean,
        "mean of the finite elements (complex: absolute values)",
    ),
    Column(
        "hist",
        "Histogram",
        _BARS,
        _hist,
        _spread_key,
        "bars from min to max, and nan or inf; sorts by max - min",
    ),
    Column(
        "device",
        "Device",
        12,
        lambda row: (Span(row.datum.device_name.removeprefix(_HERE) or "-"),),
        lambda facts, datum: datum.device_name,
        "where it was computed",
        is_name=True,
    ),
    Column(
        "phase",
        "Phase",
        9,
        lambda row: (Span(row.attribute(PHASE) or "-"),),
        lambda facts, datum: facts.attribute(datum, PHASE) or None,
        "PyTorch, JAX: forward, backward, optimizer or recompute",
        is_name=True,
    ),
    Column(
        "module",
        "Module",
        20,
        lambda row: (Span(row.attribute(MODULE) or "-"),),
        lambda facts, datum: facts.attribute(datum, MODULE) or None,
        "PyTorch: path and class of the module that called the op",
        is_name=True,
    ),
    Column(
        "name",
        "Tensor name",
        11,
        _name,
        lambda facts, datum: datum.tensor_name,
        "node:slot, and which of several dumps",
        "tensor_name",
        is_name=True,
    ),
)

_BY_NAME = {column.name: column for column in COLUMNS}
_BY_NAME |= {column.alias: column for column in COLUMNS if column.alias}

#: The columns that need statistics, and whether they need more than the health.
STATISTICS = {"health": False, "min": True, "max": True, "mean": True, "hist": True}

_NARROW = (("time", "size", "op_type", "health"), ("op_type", "health"), ("health",))
# By so much the health of bad tensors is wider than the column's width.
_HEALTH_GROWS = 5
# What the longest names get of the screen before columns are left out for them.
_NAME_ROOM = 45
_ALWAYS = ("time", "size", "op_type", "dtype", "shape", "health")


def column(name: str) -> Column:
    """A column by its name or the original's.

    Raises:
        UserError: there is none.
    """
    found = _BY_NAME.get(name)
    if found is None:
        raise UserError(
            f'There is no column "{name}".',
            did_you_mean(name, _BY_NAME) or f"There are {', '.join(c.name for c in COLUMNS)}.",
        )
    return found


def columns(text: str) -> tuple[ColumnChoice, ...]:
    """The columns of ``-o``: names with commas between. The tensor's name comes last if not named.

    Raises:
        UserError: there is no such column, or none at all.
    """
    found = read_shown(text, lambda name: column(name).name)
    if not found:
        raise UserError("-o: no column is named.", "Write for example: lt -o time,health,mean")
    has_name = any(each.name == "name" for each in found)
    return found if has_name else (*found, ColumnChoice("name"))


def default_columns(
    width: int, longest: int = 0, sort_by: str = "time", *, has_times: bool = True
) -> tuple[ColumnChoice, ...]:
    """As many columns as fit beside the names.

    Args:
        width: of the screen.
        longest: characters of the longest name.
        sort_by: a column that is shown in any case, unless it is the default.
        has_times: whether the tensors came at more than one time.
    """
    numbers = ("min", "max", "mean") if width >= WIDE else ()
    # What must not be pushed off the screen is the name.
    for names_of in ((*_ALWAYS, *numbers), _ALWAYS, *_NARROW):
        few = tuple(name for name in names_of if has_times or name != "time")
        names = few if sort_by in ("time", "name", *few) else (*few, sort_by)
        taken = sum(_BY_NAME[name].width + 1 for name in names) + _HEALTH_GROWS
        if taken + min(longest, _NAME_ROOM) <= width:
            break
    return tuple(map(ColumnChoice, (*names, "name")))


def complete_column(context: Context, typed: str) -> Iterable[Candidate]:
    """Columns; the original's names for them only when they are typed."""
    found = [Candidate(c.name, c.summary) for c in COLUMNS if c.name.startswith(typed)]
    for item in COLUMNS if typed else ():
        if item.alias.startswith(typed):
            found.append(Candidate(item.alias, f"the same as {item.name}"))
    return found


def complete_columns(context: Context, typed: str) -> Iterable[Candidate]:
    """The last of several columns with commas between; those that are there aren't offered."""
    head, comma, last = typed.rpartition(",")
    names = (re.split("[:!]", name)[0] for name in head.split(","))
    given = {_BY_NAME[name] for name in names if name in _BY_NAME}
    return [
        Candidate(f"{head}{comma}{c.name}", c.summary)
        for c in COLUMNS
        if c.name.startswith(last) and c not in given
    ]
