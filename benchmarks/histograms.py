"""How long histograms and the colours of source take: the first lines, and all of it."""

import inspect
import statistics
import time

import numpy as np

from benchmarks.harness import Row, Table, main
from benchmarks.screens import first_screen
from tfdbg_cli.commands.source.line_health import in_time
from tfdbg_cli.commands.source.syntax import Syntax
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.tensors.measurements import Measurements, halt
from tfdbg_cli.tensors.summary import summarize


def milliseconds(do, times):
    """The median, wall time."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        do()
        found.append(1e3 * (time.perf_counter() - start))
    return statistics.median(found)


def summaries(sizes, times):
    """``pt -s``: the first lines on a screen, and all elements; NumPy's minimum as a peer."""
    rows = []
    for size in sizes:
        value = np.random.default_rng(0).standard_normal(size, dtype=np.float32)
        dump = MemoryDump()
        dump.add("big", 0, value, timestamp=1)
        text = f"{size:,} elements"

        def look(dump=dump):
            first_screen(dump, "pt big:0 -s")
            halt(5)

        rows.append(Row("pt -s, the first lines", milliseconds(look, times), text))
        rows.append(
            Row(
                "pt -s, all elements",
                milliseconds(lambda value=value: summarize(value), times),
                text,
                peer=milliseconds(lambda value=value: np.histogram(value, 60), min(times, 3)),
                floor=milliseconds(value.min, times),
            )
        )

        def bars(dump=dump):
            Measurements._all.pop(dump, None)
            Measurements.of(dump).histogram(dump.data()[0])

        rows.append(Row("lt -o hist, one row", milliseconds(bars, times), text))
    return rows


def pages(copies, times):
    """A source file: its first page, a page in its midst, and all of it."""
    lines = inspect.getsource(np.ma.core).splitlines() * copies
    text = f"{len(lines):,} lines"

    def page(number):
        syntax = Syntax(lines)
        syntax.want(number + 60, in_time())
        for each in range(number + 1, number + 60):
            syntax.spans(each, "source")
        halt(5)

    def whole():
        Syntax(lines).settle(len(lines))

    def pygments():
        from pygments.lexers.python import PythonLexer

        for _ in PythonLexer().get_tokens_unprocessed("\n".join(lines)):
            pass

    return [
        Row("ps, the first page", milliseconds(lambda: page(0), times), text),
        Row("ps, a page in the midst", milliseconds(lambda: page(len(lines) // 2), times), text),
        Row("colours of all lines", milliseconds(whole, 3), text, peer=milliseconds(pygments, 3)),
    ]


def tables(quick):
    """What a person waits for, and what a thread does meanwhile."""
    sizes = (10**5, 10**7) if quick else (10**5, 10**7, 10**8)
    times = 5 if quick else 9
    note = "More than 2 million elements are read in the background after the first lines are there"
    return [
        Table(
            "Summaries and histograms",
            summaries(sizes, times),
            peer="numpy.histogram",
            floor="its minimum",
            note=f"{note}.",
        ),
        Table("Colours of source", pages(1 if quick else 4, times), peer="Pygments alone"),
    ]


if __name__ == "__main__":
    main(tables)
