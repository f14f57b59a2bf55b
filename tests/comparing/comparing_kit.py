"""Runs to compare, and what a comparison says of them."""

from __future__ import annotations

import numpy as np

from tfdbg_cli.comparing.alignment import align
from tfdbg_cli.comparing.bars import Bars
from tfdbg_cli.comparing.comparison import Comparison
from tfdbg_cli.dumps.datum import Datum
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.open import open_dump
from tfdbg_cli.dumps.run_folder.writer import write_run_folder
from tfdbg_cli.dumps.run_info import RunInfo

__all__ = ["EPSILON", "ONE", "compared", "floats", "kept", "run", "said", "viewed"]

EPSILON = 2.0**-23


def run(*steps, engine="numpy", number=1):
    """A run from (name, op type, inputs, value, whether it is a view); `None`: not dumped."""
    nodes = {step[0]: Node(*step[:3]) for step in steps}
    dump = MemoryDump(Graph(nodes.values()), run_info=RunInfo(number, engine=engine))
    for at, (name, _, _, value, *is_view) in enumerate(steps):
        if value is not None:
            load = value if callable(value) else lambda value=value: value
            dump.add_datum(Datum(name, 0, load, timestamp=at, is_view=bool(is_view)))
    return dump


def compared(first, second, **bars):
    return Comparison(first, second, align(first, second), Bars(**bars))


def said(comparison):
    return {row.datum.node_name: row.said for row in comparison.rows() if row.is_beyond}


def floats(*values):
    return np.float32(values)


def viewed(*values, inputs=("x:0",), **options):
    """Two views, one of the other, and what was computed with the second."""
    x, one, two, y = values
    return run(
        ("x", "In", (), x),
        ("one", "View", inputs, one, True),
        ("two", "View", ["one:0"], two, True),
        ("y", "Add", ["two:0"], y),
        **options,
    )


ONE = floats(1, 2), floats(1, 2), floats(1, 2), floats(1, 2)


def kept(path, values=True, **tensors):
    dump = MemoryDump(run_info=RunInfo(engine="numpy"))
    for at, (name, value) in enumerate(tensors.items()):
        dump.add(name, 0, value, timestamp=at)
    write_run_folder(dump, path, values=values)
    return open_dump(path)
