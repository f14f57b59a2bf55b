"""What every benchmark here is measured and shown with.

A way is a function that does the work once. The ways of a table are gone in one process, in rounds,
each round in another order; a ratio is the median of the ratios within single rounds, because the
speed of a machine drifts between them.
"""

import cProfile
import gc
import io
import json
import math
import pstats
import random
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field

Way = Callable[[], object]


@dataclass
class Row:
    """One line of a table.

    Attributes:
        name: what was done.
        ours: how much it took, in the table's unit.
        size: of what, where a table grows.
        peer: how much the peer took; ``None``: there is none.
        floor: how much the least took that it could take; ``None``: not known.
        ratio: what the goal is about; ``None``: nothing.
        goal: the most that the ratio should be (the least, in a table where more is better).
        profile: the functions in which the time went, if the goal was missed.
    """

    name: str
    ours: float
    size: str = ""
    peer: float | None = None
    floor: float | None = None
    ratio: float | None = None
    goal: float | None = None
    profile: list[str] = field(default_factory=list)


@dataclass
class Table:
    """Rows that belong together.

    Attributes:
        title: one line.
        rows: them.
        unit: of ``ours``, ``peer`` and ``floor``.
        peer: what that is.
        floor: what that is.
        ratio: what is divided by what.
        note: what a reader has to know, in a sentence or two.
        more_is_better: of ratios.
    """

    title: str
    rows: list[Row]
    unit: str = "ms"
    peer: str = "peer"
    floor: str = "floor"
    ratio: str = "ratio"
    note: str = ""
    more_is_better: bool = False

    def misses(self, row: Row) -> bool:
        """Whether a row has a goal, and isn't there."""
        if row.goal is None or row.ratio is None:
            return False
        return row.ratio < row.goal if self.more_is_better else row.ratio > row.goal

    def markdown(self) -> str:
        """It, as a section of a document."""
        rows = self.rows
        columns: list[tuple[str, list[str]]] = [("", [row.name for row in rows])]
        if any(row.size for row in rows):
            columns.append(("size", [row.size for row in rows]))
        columns.append((f"ours ({self.unit})", [_number(row.ours) for row in rows]))
        for head, name in ((self.peer, "peer"), (self.floor, "floor")):
            cells = [_number(getattr(row, name)) for row in rows]
            if any(cells):
                columns.append((head, cells))
        if any(row.ratio is not None for row in rows):
            columns.append((self.ratio, [_number(row.ratio) for row in rows]))
        if any(row.goal is not None for row in rows):
            sign = "≥" if self.more_is_better else "≤"
            columns.append(
                (
                    "goal",
                    [
                        ""
                        if row.goal is None
                        else f"{sign} {row.goal:g}{' **missed**' if self.misses(row) else ''}"
                        for row in rows
                    ],
                )
            )
        lines = [f"### {self.title}", ""]
        if self.note:
            lines += [self.note, ""]
        lines.append("| " + " | ".join(head for head, _ in columns) + " |")
        lines.append("| --- " + "| ---: " * (len(columns) - 1) + "|")
        lines += [
            "| " + " | ".join(cells[i] for _, cells in columns) + " |" for i in range(len(rows))
        ]
        for row in rows:
            if row.profile:
                size = f" ({row.size})" if row.size else ""
                lines += ["", f"Where the time of *{row.name}*{size} goes:", "", "```"]
                lines += [*row.profile, "```"]
        return "\n".join(lines) + "\n"


def _number(value: float | None) -> str:
    if value is None:
        return ""
    if math.isnan(value):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


class Sample:
    """How long the ways of one table took, in each round.

    Attributes:
        wall: seconds by the clock, by the name of the way.
        cpu: seconds of CPU of the process.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.wall: dict[str, list[float]] = {name: [] for name in names}
        self.cpu: dict[str, list[float]] = {name: [] for name in names}

    def seconds(self, name: str) -> float:
        """The median of the rounds."""
        return statistics.median(self.wall[name])

    def ratio(self, name: str, to: str, cpu: bool = False) -> float:
        """The median of the ratios within rounds."""
        taken = self.cpu if cpu else self.wall
        return statistics.median(a / b for a, b in zip(taken[name], taken[to], strict=True) if b)


def interleaved(
    ways: Mapping[str, Way], rounds: int, steps: int = 1, warm_up: int = 1, seed: int = 0
) -> Sample:
    """Go all ways once in each round, in another order each time.

    Args:
        ways: functions by name.
        rounds: how many are measured.
        steps: how often a way is gone in a round.
        warm_up: rounds before them.
        seed: of the orders.
    """
    order, shuffle = list(ways), random.Random(seed).shuffle
    sample = Sample(order)
    gc.collect()
    for turn in range(rounds + warm_up):
        shuffle(order)
        for name in order:
            way = ways[name]
            cpu, wall = time.process_time(), time.perf_counter()
            for _ in range(steps):
                way()
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            if turn >= warm_up:
                sample.wall[name].append(wall / steps)
                sample.cpu[name].append(cpu / steps)
    return sample


def interleaved_in(
    ways: Mapping[str, Callable[[], AbstractContextManager[object]]],
    step: Way,
    rounds: int,
    steps: int,
) -> Sample:
    """Do the same in several surroundings, in another order each round.

    Args:
        ways: what is entered for the steps of a round, by name; the first step in it makes what
            stays, untimed.
        step: what is done.
        rounds: how many are measured, after one that isn't.
        steps: how often it is done in a round.
    """
    order, shuffle = list(ways), random.Random(0).shuffle
    sample = Sample(order)
    for turn in range(rounds + 1):
        shuffle(order)
        for name in order:
            with ways[name]():
                step()
                cpu, wall = time.process_time(), time.perf_counter()
                for _ in range(steps):
                    step()
                wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            if turn:  # the first round allocates memory
                sample.wall[name].append(wall / steps)
                sample.cpu[name].append(cpu / steps)
    return sample


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """The slope of costs over sizes, both as logarithms: 1 is linear."""
    x, y = [math.log(size) for size in sizes], [math.log(max(cost, 1e-9)) for cost in costs]
    return statistics.linear_regression(x, y).slope


def growth(rows: Sequence[Row]) -> str:
    """In words, with which power of its size each kind of row grows."""
    words = []
    for name in dict.fromkeys(row.name for row in rows):
        mine = [row for row in rows if row.name == name]
        if len(mine) > 1:
            sizes = [int(row.size.replace(",", "")) for row in mine]
            words.append(f"{name} {exponent(sizes, [row.ours for row in mine]):.2f}")
    return f"Grows with the size to the power of: {', '.join(words)}."


def profile(way: Way, steps: int = 1, lines: int = 6) -> list[str]:
    """The functions that take most of a way's time, themselves, with their share of it."""
    profiler = cProfile.Profile()
    profiler.enable()
    for _ in range(steps):
        way()
    profiler.disable()
    stats = pstats.Stats(profiler, stream=io.StringIO())
    total = stats.total_tt or 1.0
    found = sorted(stats.stats.items(), key=lambda item: -item[1][2])
    shown = []
    for (file, line, name), (_, calls, own, cumulative, _) in found[:lines]:
        where = name if file == "~" else f"{_short(file)}:{line} {name}"
        shown.append(
            f"{100 * own / total:5.1f} % (with callees {100 * cumulative / total:5.1f} %)"
            f" {calls // steps:>7,} calls  {where}"
        )
    return shown


def _short(file: str) -> str:
    for mark, kept in (("/tfdbg_cli/", "tfdbg_cli/"), ("/site-packages/", ""), ("/lib/python", "")):
        if mark in file:
            return kept + file.rpartition(mark)[-1]
    return file.rpartition("/")[-1]


def with_profile(table: Table, row: Row, way: Way, steps: int = 1) -> Row:
    """The row, with a profile of the way where it misses its goal."""
    if table.misses(row):
        row.profile = profile(way, steps)
    return row


def dumped(tables: Sequence[Table]) -> str:
    """Tables as JSON."""
    return json.dumps([asdict(table) for table in tables])


def loaded(text: str) -> list[Table]:
    """What `dumped` has made."""
    return [
        Table(**{**table, "rows": [Row(**row) for row in table["rows"]]})
        for table in json.loads(text)
    ]


def main(tables: Callable[[bool], Sequence[Table]]) -> None:
    """Run one benchmark by hand: ``python -m benchmarks.NAME [--quick]``."""
    for table in tables("--quick" in sys.argv[1:]):
        print(table.markdown())
