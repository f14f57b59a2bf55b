"""``growth``: which tensors grew most over the runs before a stop."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tfdbg_cli.commands.context import Context, compile_regex
from tfdbg_cli.commands.json_lines import JSON_ARGUMENT, json_document
from tfdbg_cli.commands.list_command import (
    ListCommand,
    order_arguments,
)
from tfdbg_cli.commands.registry import Argument, Command, Result
from tfdbg_cli.commands.series.loss_line import number_role, number_text, spark_spans
from tfdbg_cli.commands.series.magnitudes import doubling_text, factor_text, growth_curve
from tfdbg_cli.commands.shell.parsing import quoted
from tfdbg_cli.commands.table import LazyTable, fitted
from tfdbg_cli.common.documents import ChainDocument, Link, MenuItem, Span, TextDocument, line
from tfdbg_cli.dumps.series.history import KEPT_RUNS, Growth, MeasuredTensor

__all__ = ["COMMANDS"]

_SPARK = 24
# Of what was measured less often nobody knows whether it grew.
_FEWEST = 3
_LONG_NAME = 40


class _GrowthRow(NamedTuple):
    """A row."""

    tensor: MeasuredTensor
    growth: Growth
    last: float
    runs: int
    curve: str


_KEYS: Mapping[str, Callable[[_GrowthRow], Any]] = {
    "name": lambda row: row.tensor.name,
    "module": lambda row: row.tensor.module,
    "factor": lambda row: row.growth.factor,
    "doubling": lambda row: row.growth.doubling or math.inf,
    "lowest": lambda row: row.growth.first,
    "last": lambda row: math.inf if math.isnan(row.last) else row.last,
    "runs": lambda row: row.runs,
    "curve": lambda row: row.growth.factor,
}
# Column -> its head, and whether it is numbers.
_HEADS = {
    "name": ("Tensor", False),
    "module": ("Module", False),
    "factor": ("Grown", True),
    "doubling": ("Doubling", True),
    "lowest": ("Lowest", True),
    "last": ("Last", True),
    "runs": ("Runs", True),
    "curve": ("Curve", False),
}


def _cells(row: _GrowthRow, room: int) -> Mapping[str, Sequence[Span]]:
    name = row.tensor.name
    return {
        "name": fitted([Span(name, "link", Link(f"plot {quoted(name)} --log"))], room),
        "module": [Span(row.tensor.module or "-")],
        "factor": [Span(factor_text(row.growth), "number")],
        "doubling": [Span(doubling_text(row.growth))],
        "lowest": [Span(number_text(row.growth.first), "number")],
        "last": [Span(number_text(row.last), number_role(row.last) or "number")],
        "runs": [Span(str(row.runs))],
        "curve": spark_spans(row.curve),
    }


def _rows(context: Context, pattern: str) -> tuple[list[_GrowthRow], str, str]:
    """All that were measured, the kind of runs, and whose these are."""
    tracks, whose = context.numbers()
    kind = context.run_info.measured_as
    history = tracks.history if tracks is not None else None
    if history is not None and kind not in history.kinds and history.kinds:
        kind = history.kinds[-1]
    wanted = compile_regex(pattern, "-n")
    rows = []
    for tensor, series in (history.series(kind) if history is not None else {}).items():
        points = series.points()
        growth = Growth.of(points)
        if growth is not None and len(series) >= _FEWEST and wanted.search(tensor.name):
            curve = growth_curve(points.values, _SPARK)
            rows.append(_GrowthRow(tensor, growth, float(points.values[-1]), len(series), curve))
    return rows, kind, whose


def _growth(context: Context, arguments: argparse.Namespace) -> Result:
    rows, kind, whose = _rows(context, arguments.name_filter)
    unsorted = "" if arguments.sort_by else "factor"
    if unsorted:  # what grew most comes first
        arguments.sort_by, arguments.reverse = unsorted, not arguments.reverse
    rows.sort(key=_KEYS[arguments.sort_by], reverse=arguments.reverse)
    if arguments.json:
        return json_document(len(rows), lambda number: _item(rows[number]))
    if not rows:
        return TextDocument(
            [
                line("No magnitudes were measured."),
                line(("They are while run -f waits: growth -h says which, and when.", "dim")),
            ]
        )
    options, filters = {"-n": arguments.name_filter}, {"name": "-n"}
    written = ListCommand.of(
        "growth", options, arguments, _KEYS, unsorted, sorts=tuple(_KEYS), filters=filters
    )
    table = _table(rows, written)
    runs = max(row.runs for row in rows)
    kind, _, whom = kind.partition(" of ")
    head = f"The largest magnitudes of {len(rows)} tensor(s) in {runs} measured {kind}s"
    menu = (MenuItem("track", "track"), MenuItem("plot", "plot"))
    lines = [line((f"{head}{whose and f' {whose}'}:", "bold"))]
    if whom:
        lines.append(line((f"of {whom}", "dim")))
    parts = (TextDocument([*lines, line()]), table)
    return ChainDocument(parts, title="What grew", menu=menu)


def _table(rows: Sequence[_GrowthRow], written: ListCommand) -> LazyTable:
    room = next((each.width for each in written.shown if each.name == "name"), 0) or _LONG_NAME
    cells = [_cells(row, room) for row in rows]
    columns = {}
    for name, (head, is_number) in _HEADS.items():
        width = max(len(head), *(sum(len(span.text) for span in row[name]) for row in cells))
        columns[name] = head, -width if is_number else width
    return LazyTable(len(rows), written, columns, cells.__getitem__)


def _item(row: _GrowthRow) -> dict[str, Any]:
    growth = row.growth
    return {
        "name": row.tensor.name,
        "module": row.tensor.module,
        "what": row.tensor.what,
        "lowest": growth.first,
        "last": row.last,
        "factor": growth.factor,
        "grown_in_runs": growth.runs,
        "doubling": growth.doubling,
        "runs": row.runs,
    }


GROWTH = Command(
    "growth",
    (),
    "numbers over runs",
    "List what grew most: the largest magnitudes of modules' outputs and of gradients.",
    _growth,
    (
        Argument(("-n", "--name_filter"), "only tensors whose name matches", "REGEX", default=""),
        *order_arguments(tuple(_KEYS), ""),
        JSON_ARGUMENT,
    ),
    examples=(
        ("growth", "what grew most comes first"),
        ("growth -s module", "module by module"),
        ("growth -n gradient", "gradients only"),
    ),
    details=(
        "While run -f waits, the largest magnitudes of tensors are kept for the last "
        f"{KEPT_RUNS} measured runs.\n\n"
        "PyTorch, waiting for a nan or an infinity: what modules return, and gradients, those of "
        "parameters before clipping and with the factor of a gradient scaler. On a CPU one run "
        "in four is measured (at the levels ops and values one in eight), and the next one if an "
        "output has grown by half; on a GPU each run at the level modules, and none at the levels "
        "ops and values. At the level modules gradients of outputs are measured, too, but no "
        "tensor that the check of another one covers.\n\n"
        "Other frameworks: what a run has in memory at its end. In sessions (TensorFlow 1, the "
        "NumPy engine) and of TensorFlow 2's eager ops that is every tensor; of a compiled "
        "function (tf.function, JAX) what it gets and returns, and its variables; of an ONNX "
        "model its inputs and outputs; of MLX every tensor at the level values. The first four "
        "runs are measured, then one in sixteen, the next one if something is larger by half than "
        "ever before, and the run of the stop; fewer where that would take more than 1 % of the "
        "time. track --ranges measures each run, on all frameworks.\n\n"
        "Grown is the last finite magnitude as a multiple of the lowest one before it, and "
        "doubling the number of runs in which it has doubled since, on average. The curve is "
        "logarithmic; plot with a name of this list draws it."
    ),
)

COMMANDS = (GROWTH,)
