"""``lt -o hist``: how the elements of each tensor are distributed, computed in the background."""

import json
import threading
import time

import ml_dtypes
import numpy as np
import pytest
from command_kit import Shell

from tfdbg_cli.dumps.dump import Datum
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.tensors.measurements import halt

NORMAL = np.random.default_rng(0).normal(0, 1, 5000)
BAD = NORMAL.copy()
BAD[:3], BAD[5], BAD[6] = np.nan, np.inf, -np.inf

VALUES = {
    "bad": (BAD, " nan -inf +inf"),
    "bfloat16": (NORMAL.astype(ml_dtypes.bfloat16), ""),
    "bool": (NORMAL > 1, "█▂"),
    "bool_constant": (np.zeros(4, bool), "= False"),
    "complex": (NORMAL + 1j, ""),
    "constant": (np.zeros(5), "= 0"),
    "denormal": (np.array([5e-324, 0]), "█" + 14 * " " + "█"),
    "empty": (np.zeros(0), "-"),
    "extremes": (np.array([2**63 - 1, -(2**63)]), "█" + 14 * " " + "█"),
    "float8": (NORMAL.astype(ml_dtypes.float8_e4m3fn), ""),
    "huge": (np.array([1.7e308, -1.7e308]), "█" + 14 * " " + "█"),
    "nan_only": (np.full(3, np.nan), " nan"),
    "small": (np.array([1, 2, 2, 4]), "▄█ ▄"),
    "strings": (np.array([b"a", b"bc"], object), "-"),
}


@pytest.fixture
def shell():
    dump = MemoryDump()
    for at, (name, (value, _)) in enumerate(VALUES.items()):
        dump.add(name, 0, value, timestamp=at)
    return Shell(dump)


def test_a_histogram_per_row(shell):
    rows = {row.split()[-1]: row for row in shell.lines("lt -o hist")[3:]}
    for name, (value, expected) in VALUES.items():
        cell = rows[f"{name}:0"].removesuffix(f"{name}:0").rstrip()
        if expected.startswith(" "):
            assert cell.endswith(expected)
        elif expected:
            assert cell == expected
        else:
            assert set(cell) <= set(" ▁▂▃▄▅▆▇█") and len(cell) == 16, (name, value)
    document = shell.document("lt -o hist")
    roles = {span.text: span.role for made in document for span in made.spans}
    assert (roles["nan"], roles["-inf"], roles["+inf"]) == ("nan", "inf", "inf")


def test_they_sort_by_their_width_and_go_beside_other_columns(shell):
    names = [row.split()[-1] for row in shell.lines("lt -o hist,min,max -s hist -r")[3:]]
    assert names[:2] == ["huge:0", "extremes:0"]
    assert set(names[-3:]) == {"empty:0", "nan_only:0", "strings:0"}
    assert "Histogram↓" in shell.text("lt -o hist -s hist -r")


def test_other_programs_get_edges_and_counts(shell):
    row = json.loads(shell.text("lt --json -o hist -n small"))
    assert row["histogram"] == {"edges": [1, 2, 3, 4, 5], "counts": [1, 2, 0, 1]}
    assert "histogram" not in json.loads(shell.text("lt --json -n small"))
    for text in shell.lines("lt --json -o hist"):
        json.loads(text, parse_constant=pytest.fail)


def test_a_list_waits_for_no_histogram():
    may_load, loads = threading.Event(), []

    def load():
        assert may_load.wait(20)
        loads.append(1)
        return np.arange(3_000_000, dtype=np.float32)

    dump = MemoryDump()
    kind = {"dtype": "float32", "shape": (3_000_000,), "nbytes": 12_000_000}
    dump.add_datum(Datum("large", 0, load, timestamp=1, **kind))
    dump.add("broken", 0, np.ones(3), timestamp=2)
    shell = Shell(dump)
    document = shell.document("lt -o hist,mean")
    assert [made.text.split() for made in document.lines(3, 4)] == [["…", "…", "large:0"]]
    assert document.pending
    may_load.set()
    end = time.monotonic() + 60
    while document.pending:
        assert time.monotonic() < end
        threading.Event().wait(0.005)
    row = document.lines(3, 4)[0].text
    assert "▇" in row or "█" in row
    assert row.split()[-2:] == ["1.5e+06", "large:0"]
    # Histogram and statistics are made of one reading, and kept.
    assert "1.5e+06" in shell.text("lt -o mean,hist") and len(loads) == 1
    halt()


def test_what_cannot_be_read_says_so():
    def fail():
        raise OSError("gone")

    dump = MemoryDump()
    dump.add_datum(Datum("lost", 0, fail, timestamp=1, dtype="float32", shape=(3,), nbytes=12))
    assert Shell(dump).lines("lt -o hist")[-1].split() == ["?", "lost:0"]
