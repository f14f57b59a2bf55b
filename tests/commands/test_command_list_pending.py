"""``lt``: what is still computed while its rows are shown."""

import re
import threading
import time

import numpy as np
import pytest
from command_kit import Shell

from tfdbg_cli.commands.tensors.facts import TensorFacts
from tfdbg_cli.dumps.dump import Datum
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.tensors.measurements import Background, halt

# -- what is still computed


class Slow:
    """Loads a large value when it is let."""

    def __init__(self, fill):
        self.fill, self.may_load, self.loads = fill, threading.Event(), 0

    def __call__(self):
        assert self.may_load.wait(20)
        self.loads += 1
        return np.full(1_000_000, self.fill, np.float32)


@pytest.fixture
def slow():
    """A dump with large tensors around a small one."""
    dump = MemoryDump()
    loads = [Slow(np.nan), Slow(2.5)]
    kind = {"dtype": "float32", "shape": (1_000_000,), "nbytes": 4_000_000}
    dump.add_datum(Datum("first", 0, loads[0], timestamp=1, **kind))
    dump.add("small", 0, np.ones(3), timestamp=2)
    dump.add_datum(Datum("last", 0, loads[1], timestamp=3, **kind))
    yield dump, loads
    for load in loads:
        load.may_load.set()
    halt()


def soon(what):
    end = time.monotonic() + 20
    while not what():
        if time.monotonic() > end:
            return False
        threading.Event().wait(0.002)
    return True


def test_a_screen_shows_placeholders_until_the_values_are_known(slow):
    dump, loads = slow
    document = Shell(dump).document("lt -o health,mean")
    assert not document.pending
    document.lines(3, 6)
    document.settle(4, 5)  # a busy machine may take longer than a screen waits
    rows = [line.text.split() for line in document.lines(3, 6)]
    assert rows == [["…", "…", "first:0"], ["ok", "1", "small:0"], ["…", "…", "last:0"]]
    assert document.pending
    for load in loads:
        load.may_load.set()
    assert soon(lambda: not document.pending)
    rows = [line.text.split() for line in document.lines(3, 6)]
    assert rows == [
        ["1000000", "nan", "-", "first:0"],
        ["ok", "1", "small:0"],
        ["ok", "2.5", "last:0"],
    ]
    assert not document.pending
    assert [load.loads for load in loads] == [1, 1]
    again = Shell(dump).document("lt -s mean -r")
    assert [line.text.split()[-1] for line in again.lines(3, 6)] == ["last:0", "small:0", "first:0"]
    assert [load.loads for load in loads] == [1, 1]


def test_lines_taken_for_good_are_settled(slow, tmp_path):
    dump, loads = slow
    for load in loads:
        load.may_load.set()
    shell = Shell(dump)
    assert "…" not in shell.text("lt")
    document = shell.document("lt")
    assert document.find(re.compile("1000000 nan"), 0) == 3
    assert not document.pending
    assert not shell.reply(f"lt > {tmp_path / 'out'}").failed
    assert "1000000 nan" in (tmp_path / "out").read_text()


def test_a_search_for_a_name_reads_no_value(slow):
    dump, loads = slow
    document = Shell(dump).document("lt")
    count = document.line_count
    for pattern, rows in (("first:0", [3]), ("small", [4]), ("absent", []), (r"^\[.*last:0", [5])):
        regex = re.compile(pattern)
        if rows and pattern != "small":  # the row that matches is made as a whole
            loads[rows[0] == 5].may_load.set()
        assert document.find(regex, 0) == (rows[0] if rows else None)
    assert [load.loads for load in loads] == [1, 1]
    dump, loads = MemoryDump(), []
    kind = {"dtype": "float32", "shape": (3,), "nbytes": 12}

    def load():
        loads.append(1)
        return np.zeros(3, np.float32)

    for number in range(3000):
        dump.add_datum(Datum(f"op_{number}", 0, load, timestamp=number, **kind))
    document = Shell(dump).document("lt")
    assert document.find(re.compile("op_2000"), 0) == 2003
    assert document.matches(re.compile("^.*op_29.0:0"), 0, count + 3000) == [
        3 + number for number in range(2900, 3000, 10)
    ]
    assert len(loads) < 20


@pytest.mark.parametrize(
    "pattern",
    [
        *("ok", "nan", "MatMul", "float32", r"\(2, 3\)", "24", "Tensor name", "Mul:0", "ok +a"),
        *("hidden/Mat.* *", "^.*Relu:0$", "DebugNanCount", "#1", r"\[0\.000\]", "x:0", "-inf"),
        *("(?i)matmul", "damaged"),
    ],
)
def test_matches_of_a_list_are_those_of_its_text(shell, pattern):
    for options in ("", "-o name,op_type,health", "-o device,phase,module,min"):
        document = shell.document(f"lt {options}")
        regex = re.compile(pattern)
        hits = [number for number, line in enumerate(document) if regex.search(line.text)]
        assert document.matches(regex, 0, document.line_count) == hits


def test_only_what_is_settled_is_computed(slow):
    dump, loads = slow
    loads[0].may_load.set()
    document = Shell(dump).document("lt")
    document.settle(0, 5)
    assert [line.text.split()[-2] for line in document.lines(3, 5)] == ["nan", "ok"]
    assert [load.loads for load in loads] == [1, 0]


def test_columns_without_statistics_read_no_value(slow):
    dump, loads = slow
    text = Shell(dump).text("lt -o time,size,op_type,dtype,shape,device")
    assert "(1000000,)" in text
    assert Shell(dump).document("lt -s size -r -o size").lines(3, 4)[0].text.endswith("first:0")
    assert [load.loads for load in loads] == [0, 0]


def test_sorting_by_a_statistic_can_be_interrupted():
    def interrupted():
        raise KeyboardInterrupt

    dump = MemoryDump()
    kind = {"dtype": "float32", "shape": (3,), "nbytes": 12}
    dump.add_datum(Datum("a", 0, interrupted, timestamp=1, **kind))
    with pytest.raises(KeyboardInterrupt):
        Shell(dump).reply("lt -s mean")


@pytest.mark.slow
def test_many_small_tensors_do_not_hold_up_the_screen():
    dump = MemoryDump()
    value = np.zeros((100, 100), np.float32)
    for number in range(20_000):
        dump.add(f"n{number}", 0, value, timestamp=number)
    document = Shell(dump).document("lt")
    made = document.lines(0, 20_003)
    assert made[-1].text.split()[-2] == "…"  # only what a moment is enough for is known at once
    document.settle(3, 4)
    assert document.lines(3, 4)[0].text.split()[-2] == "ok"
    document.settle(20_000, 20_003)
    assert [line.text.split()[-2] for line in document.lines(20_000, 20_003)] == ["ok"] * 3
    halt()


def test_a_page_that_is_drawn_again_is_not_made_again(monkeypatch):
    dump = MemoryDump()
    for number in range(1000):
        dump.add(f"n{number}", 0, np.full(3, number, np.float32), timestamp=number)
    document = Shell(dump).document("lt")
    document.settle(3, 1003)
    made = []
    facts = TensorFacts.facts
    monkeypatch.setattr(
        TensorFacts,
        "facts",
        lambda self, datum, *rest: made.append(datum) or facts(self, datum, *rest),
    )
    first = document.lines(300, 350)
    assert len(made) == 50
    assert document.lines(300, 350) == first and len(made) == 50
    assert document.lines(301, 351)[:-1] == first[1:] and len(made) == 51
    for start in range(3, 1003, 20):
        document.lines(start, start + 20)
    assert document.lines(300, 350) == first


def test_rows_that_wait_are_not_measured_when_they_are_drawn_again(monkeypatch):
    dump = MemoryDump()
    for number in range(30):
        dump.add(f"n{number}", 0, np.ones(3), timestamp=number)
    document = Shell(dump).document("lt")
    monkeypatch.setattr("tfdbg_cli.commands.tensors.table._BUDGET_SECONDS", -1.0)
    monkeypatch.setattr(Background, "_renew", lambda self: None)  # nobody measures meanwhile
    assert all(line.text.split()[-2] == "…" for line in document.lines(3, 33))
    monkeypatch.setattr("tfdbg_cli.commands.tensors.table._BUDGET_SECONDS", 60.0)
    assert all(line.text.split()[-2] == "…" for line in document.lines(3, 33))
    document.settle(3, 33)
    assert all(line.text.split()[-2] == "ok" for line in document.lines(3, 33))


def test_rows_grow_with_the_columns():
    dump = MemoryDump()
    for number in range(200):
        value = np.full(3, np.nan if number == 150 else 1, np.float32)
        dump.add(f"n{number}", 0, value, timestamp=number)
    document = Shell(dump).document("lt")
    document.settle(3, 203)
    narrow = document.lines(100, 120)
    assert document.lines(153, 154)[0].text.split()[-3:-1] == ["3", "nan"]
    many = Shell(dump).document("lt")
    assert document.lines(100, 154) == many.lines(100, 154)
    assert [line.text.split() for line in narrow] == [
        line.text.split() for line in document.lines(100, 120)
    ]
