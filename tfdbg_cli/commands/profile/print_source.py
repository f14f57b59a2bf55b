"""``ps`` after a timed run: a source file with what the ops of each line cost."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tfdbg_cli.commands.context import PROFILE_MODES, Context
from tfdbg_cli.commands.profile.filters import (
    DEVICE_ARGUMENT,
    NODE_ARGUMENT,
    OP_TYPE_ARGUMENT,
    TIME_UNIT_ARGUMENT,
    DeviceSelection,
    filters_of,
    options_text,
    select,
)
from tfdbg_cli.commands.registry import Argument, Command, Result
from tfdbg_cli.commands.shell import completers
from tfdbg_cli.commands.shell.parsing import quoted
from tfdbg_cli.commands.source.index import SourceFile, resolve_source, source_files
from tfdbg_cli.commands.source.line_health import in_time
from tfdbg_cli.commands.source.syntax import Syntax, syntax_of
from tfdbg_cli.commands.tensors.intervals import time_text
from tfdbg_cli.common.documents import ChainDocument, LazyDocument, Line, TextDocument, line
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.dumps.dump import Dump
from tfdbg_cli.dumps.profile import Profile

__all__ = ["COMMANDS"]

_COST_TYPES = ("exec_time", "op_time")
_BAR = 10


@dataclass
class _Cost:
    """What the ops of one line cost.

    Attributes:
        time: microseconds in all.
        nodes: which nodes, by device and name.
        executions: how many in all.
    """

    time: float = 0.0
    nodes: set[tuple[str, str]] = field(default_factory=set)
    executions: int = 0

    @property
    def counts(self) -> str:
        """``#nodes(#execs)``."""
        return f"{len(self.nodes)}({self.executions})"


def _costs(chosen: Iterable[DeviceSelection], cost_type: str) -> dict[str, dict[int, _Cost]]:
    """Path -> line number -> cost."""
    found: dict[str, dict[int, _Cost]] = {}
    for one in chosen:
        for entry in one.entries:
            if entry.place is None:
                continue
            cost = found.setdefault(entry.place.file, {}).setdefault(entry.place.line, _Cost())
            cost.time += entry.op_time if cost_type == "op_time" else entry.exec_time
            cost.nodes.add((one.device, entry.node))
            cost.executions += 1
    return found


def _resolve(dump: Dump, costs: dict[str, dict[int, _Cost]], path: str) -> str:
    """The file that is meant: one with costs if possible, else any that made nodes."""
    timed = {name: SourceFile(name, min(lines)) for name, lines in costs.items()}
    try:
        return resolve_source(dump, timed, path)
    except UserError:
        if dump.graph() is None:
            raise
        return resolve_source(dump, source_files(dump), path)


def _bar(cost: float, most: float) -> str:
    """``[||||      ]``: a cost in proportion to the highest; at least one tick."""
    ticks = max(math.ceil(cost / most * _BAR), 1) if most > 0 else 1
    return f"[{'|' * ticks:<{_BAR}}]"


class _Costs(LazyDocument):
    """The lines of a file with their costs and colours."""

    def __init__(self, count: int, make: Callable[[int], Line], syntax: Syntax) -> None:
        super().__init__(count, make)
        self._syntax = syntax

    def lines(self, start: int, stop: int) -> list[Line]:
        """The lines ``start`` to ``stop - 1``, as coloured as they can be at once."""
        if start < stop:
            self._syntax.want(min(stop, self.line_count), in_time())
        return super().lines(start, stop)

    @property
    def pending(self) -> bool:
        """Whether some line has its colours not yet."""
        return self._syntax.pending

    def settle(self, start: int, stop: int) -> None:
        """Find out the colours of some lines."""
        self._syntax.settle(min(stop, self.line_count))


def _print_source(context: Context, arguments: argparse.Namespace) -> Result:
    dump = context.need_dump()
    costs_of = _costs(select(dump.profile() or Profile(), arguments), arguments.cost_type)
    path = _resolve(dump, costs_of, arguments.source_file_path)
    text = dump.sources().lines(path)
    if text is None:
        raise UserError(f"The text of {path} isn't known here.", "lp -f lists what it made.")
    costs = costs_of.get(path, {})
    most = max((cost.time for cost in costs.values()), default=0.0)
    unit = arguments.time_unit
    time_width = max(len(arguments.cost_type), len(time_text(most, unit)))
    count_width = max(len("(#execs)"), *(len(cost.counts) for cost in costs.values()), 0)
    number_width = max(len(f"L{len(text)}"), len("lineno"))
    syntax = syntax_of(dump.sources(), path)
    again = f"lp -f {quoted(f'^{re.escape(path)}$')}"
    options = options_text(arguments)

    def row(at: int) -> Line:
        number = at + 1
        cost = costs.get(number)
        label = (f"{f'L{number}':<{number_width}} ", "dim")
        source = syntax.spans(number, "" if cost is None else "source")
        if cost is None:
            return line(" " * (_BAR + 2 + time_width + count_width + 6), label, *source)
        lines = f" --min_lineno {number} --max_lineno {number + 1}"
        return line(
            (_bar(cost.time, most), "highlight" if cost.time == most else ""),
            "  ",
            (f"{time_text(cost.time, unit):>{time_width}}  ", "number"),
            (cost.counts, "link", again + lines + options),
            " " * (count_width - len(cost.counts) + 2),
            label,
            *source,
        )

    blank = " " * (_BAR + 4)
    heads = [
        f"{blank}{arguments.cost_type:>{time_width}}  {'#nodes':<{count_width}}  lineno",
        f"{blank}{'':<{time_width}}  {'(#execs)':<{count_width}}  {'':<{number_width}} source",
    ]
    note = dump.sources().note(path)
    notes = [line((f"({note})", "warning"))] if note else []
    notes += [line(f'{caption}: "{value}"') for _, value, caption in filters_of(arguments)]
    if not costs:
        notes.append(line(("No op that was timed was made in this file.", "dim")))
    notes += [line((head, "heading")) for head in heads]
    last = min(arguments.init_line, len(text))
    return ChainDocument(
        [TextDocument(notes), _Costs(len(text), row, syntax)],
        title=f"profile of {path}",
        initial_line=len(notes) + last - 1 if last > 1 else 0,
    )


PRINT_SOURCE = Command(
    "print_source",
    ("ps",),
    "profile",
    "Show a source file with the time of each line's ops.",
    _print_source,
    (
        Argument(
            ("source_file_path",),
            "path, or its last part",
            "FILE",
            complete=completers.source_files,
        ),
        Argument(
            ("--cost_type",),
            "which time to show",
            "TYPE",
            default="exec_time",
            choices=_COST_TYPES,
        ),
        TIME_UNIT_ARGUMENT,
        DEVICE_ARGUMENT,
        NODE_ARGUMENT,
        OP_TYPE_ARGUMENT,
        Argument(
            ("--init_line", "-b", "--line_begin"), "scroll to this line", "N", default=1, kind=int
        ),
    ),
    modes=PROFILE_MODES,
    examples=(
        ("ps train.py", "the time of each line"),
        ("ps train.py --cost_type op_time --time_unit ms", "kernel time only, in milliseconds"),
        ("ps train.py -t MatMul --init_line 40", "only matrix products, line 40 on top"),
    ),
    details="The time of an op counts for the innermost line outside libraries that made its node. "
    "The bar compares it with the most expensive line. The numbers of nodes and of their "
    "executions are a link to the ops of the line.",
)

COMMANDS = (PRINT_SOURCE,)
