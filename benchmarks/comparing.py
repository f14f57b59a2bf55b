"""How fast two runs are compared, beside reading their values once."""

import numpy as np

from benchmarks.harness import Row, Table, interleaved, main
from tfdbg_cli.comparing.alignment import align
from tfdbg_cli.comparing.comparison import Comparison
from tfdbg_cli.dumps.memory import MemoryDump

_MB = 1 << 20


def _dumps(count, factor):
    """Two runs with so many tensors of 1 MB; those of the second are so many times as large."""
    draw = np.random.default_rng(0)
    first, second = MemoryDump(), MemoryDump()
    for number in range(count):
        value = draw.standard_normal(_MB // 4, np.float32)
        other = value * np.float32(factor)
        first.add(f"node_{number}", 0, value, timestamp=number + 1)
        second.add(f"node_{number}", 0, other, timestamp=number + 1)
    return first, second


def _rows(count, rounds):
    for name, factor in (
        ("equal in every bit", 1),
        ("another last bit everywhere, within the bar", 1.0000002),
        ("another last digit everywhere, beyond the bar", 1.00001),
    ):
        first, second = _dumps(count, factor)
        values = [datum.get_tensor() for dump in (first, second) for datum in dump.data()]

        def compare(first=first, second=second):
            return list(Comparison(first, second, align(first, second)).rows())

        def read(values=values):
            for value in values:
                value.max()

        sample = interleaved({"ours": compare, "read": read}, rounds)
        yield Row(
            name,
            1e3 * sample.seconds("ours"),
            f"{count} pairs of 1 MB",
            1e3 * sample.seconds("read"),
            ratio=1 / sample.ratio("ours", "read"),
            goal=0.6,
        )


def tables(quick: bool) -> list[Table]:
    count, rounds = (200, 3) if quick else (1000, 7)
    note = (
        "The goal is a share of the memory's bandwidth, as NumPy's max has it over the same values."
    )
    title = "Comparing the tensors of two runs"
    rows = list(_rows(count, rounds))
    return [Table(title, rows, peer="read once", ratio="share", note=note, more_is_better=True)]


if __name__ == "__main__":
    main(tables)
