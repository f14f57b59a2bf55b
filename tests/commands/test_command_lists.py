"""``lt``: rows, order, filters, links."""

import json
import re
import threading
import time

import ml_dtypes
import numpy as np
import pytest
from command_kit import Shell, link_of, roles

from tfdbg_cli.commands.parsing import split_words
from tfdbg_cli.commands.tensor_columns import COLUMNS
from tfdbg_cli.documents import Line
from tfdbg_cli.dumps.dump import Datum, InconvertibleTensorProto
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.errors import DumpError
from tfdbg_cli.tensors.measurements import halt


def names(shell, command):
    """The tensors that `lt` lists, in its order."""
    return [c.split()[1] for c in shell.links(command) if c.startswith("pt ")]


def test_it_lists_every_dump_in_time_order(shell, dump):
    lines = shell.lines("lt", 100)
    assert lines[0] == f"{len(dump.data())} dumped tensor(s):"
    assert re.split(" {1,}(?=[A-Z])", lines[2]) == [
        *("t (ms)", "Size (B)", "Op type", "Dtype", "Shape", "Health", "Tensor name")
    ]
    assert names(shell, "lt") == [datum.tensor_name for datum in dump.data()]
    assert lines[3].startswith("[0.000]")
    row = next(text for text in lines if text.endswith("hidden/MatMul:0"))
    assert row.split()[1:] == ["16", "MatMul", "float32", "(2,", "2)", "ok", "hidden/MatMul:0"]
    big = next(text for text in lines if text.endswith("big:0"))
    assert " 23.44k " in big


def test_alias_and_long_name_are_the_same(shell):
    assert shell.lines("lt") == shell.lines("list_tensors")


def test_repeated_dumps_say_which_and_open_each(shell):
    rows = [text for text in shell.lines("lt -n loop/body$") if "loop/body:0" in text]
    assert [text.split()[-2:] for text in rows] == [["loop/body:0", f"(#{n})"] for n in range(4)]
    document = shell.document("lt")
    values = [shell.lines(link_of(document, f"loop/body:0 (#{number})"))[-1] for number in range(4)]
    assert values == [f"array({number}, dtype=int32)" for number in range(1, 5)]


KEYS = {
    "time": lambda dump, d: 0,
    "size": lambda dump, d: d.nbytes,
    "op_type": lambda dump, d: dump.op_type(d.node_name),
    "dtype": lambda dump, d: d.dtype,
    "shape": lambda dump, d: (int(np.prod(d.shape)), d.shape),
    "device": lambda dump, d: d.device_name,
    "name": lambda dump, d: d.tensor_name,
    "health": lambda dump, d: bad_count(d),
    "min": lambda dump, d: finite(d, np.min),
    "max": lambda dump, d: finite(d, np.max),
    "mean": lambda dump, d: finite(d, np.mean),
}
ALIASES = {"timestamp": "time", "dump_size": "size", "tensor_name": "name"}


def bad_count(datum):
    value = datum.get_tensor()
    return int((~np.isfinite(value)).sum()) if value.dtype.kind in "fc" else None


def finite(datum, reduce):
    value = datum.get_tensor()
    if value.dtype.kind == "O":
        return None
    value = np.abs(value) if value.dtype.kind == "c" else value
    value = value[np.isfinite(value)].astype(np.float64)
    return reduce(value) if value.size else None


@pytest.mark.parametrize("name", [*KEYS, *ALIASES])
def test_sorting_by_every_column_and_back(shell, dump, name):
    key = KEYS[ALIASES.get(name, name)]
    known = [d for d in dump.data() if key(dump, d) is not None]
    unknown = [d.tensor_name for d in dump.data() if key(dump, d) is None]
    expected = sorted(known, key=lambda d: key(dump, d))
    assert names(shell, f"lt -s {name}") == [d.tensor_name for d in expected] + unknown
    reverse = names(shell, f"lt --sort_by {name} -r")
    if key is KEYS["time"]:
        assert reverse == [d.tensor_name for d in reversed(dump.data())]
    else:
        expected = sorted(known, key=lambda d: key(dump, d), reverse=True)
        assert reverse == [d.tensor_name for d in expected] + unknown


def test_heads_sort_and_keep_every_option(shell):
    command = (
        'lt -f has_inf_or_nan -fenn "Mul$" -n "a|b c" -t "Log|M u" --dtype "x y|f" '
        "-o time,size,health,mean"
    )
    document = shell.document(command)
    by_size = link_of(document, "Size (B)")
    assert split_words(by_size) == [*split_words(command), "-s", "size"]
    again = shell.document(by_size)
    assert link_of(again, "Size (B)") == by_size + " -r"
    assert link_of(shell.document(by_size + " -r"), "Size (B)") == by_size
    assert link_of(document, "t (ms)").endswith("-s time -r")
    assert [line.text for line in again][:4] == [line.text for line in document][:4]
    assert sorted(names(shell, by_size)) == sorted(names(shell, command)) == ["bad/Log:0"]
    heads = shell.document(f"lt -o {','.join(column.name for column in COLUMNS)}")
    for column in COLUMNS:
        head = link_of(heads, column.head)
        assert f"-s {column.name}" in head
        shell.document(head)


def test_regexes_match_anywhere(shell):
    assert names(shell, "lt -n Mul") == ["hidden/MatMul:0", "bad/Mul:0"]
    assert names(shell, "lt --node_name_filter ^Mul") == []
    assert names(shell, "lt -t atMu") == ["hidden/MatMul:0"]
    assert names(shell, "lt -t ^Mul$ -n bad") == ["bad/Mul:0"]
    lines = shell.lines("lt -t atMu -n hid")
    assert 'Op type regex filter: "atMu"' in lines
    assert 'Node name regex filter: "hid"' in lines
    assert shell.lines("lt -n nothing_at_all")[0] == "0 dumped tensor(s):"


def test_defect_33_a_regex_finds_the_op_inside_its_renamed_type():
    dump = MemoryDump(Graph([Node("train/Adam/x", "_MklMatMul"), Node("b", "Add")]))
    dump.add("train/Adam/x", 0, np.ones(2), timestamp=1)
    dump.add("b", 0, np.ones(2), timestamp=2)
    shell = Shell(dump)
    assert names(shell, "lt -t MatMul") == names(shell, "lt -n Adam") == ["train/Adam/x:0"]
    assert names(shell, "lt -t ^MatMul") == names(shell, "lt -n ^Adam") == []


def test_the_built_in_filter_finds_nan_and_infinity(shell):
    found = names(shell, "lt -f has_inf_or_nan")
    assert found == ["bad/Log:0", "bad/Mul:0", "cplx:0"]
    assert shell.lines("lt -f has_inf_or_nan")[0] == (
        '3 dumped tensor(s) passing filter "has_inf_or_nan":'
    )
    assert names(shell, "lt -f has_inf_or_nan -fenn bad") == ["cplx:0"]
    assert names(shell, "lt --tensor_filter has_inf_or_nan -t Log") == ["bad/Log:0"]


@pytest.mark.parametrize(
    "dtype", ["bfloat16", "float8_e5m2", "float8_e4m3fn", "float16", "complex64"]
)
def test_the_built_in_filter_knows_every_floating_dtype(dtype):
    kind = getattr(ml_dtypes, dtype, None) or dtype
    dump = MemoryDump(Graph([Node("good", "A"), Node("bad", "B")]))
    dump.add("good", 0, np.array([1, 2]).astype(kind), timestamp=1)
    dump.add("bad", 0, np.array([1, np.nan]).astype(kind), timestamp=2)
    assert names(Shell(dump), "lt -f has_inf_or_nan") == ["bad:0"]


def test_a_filter_of_the_users_own(shell):
    shell.filters.add("large", lambda datum, tensor: getattr(tensor, "size", 0) > 100)
    assert names(shell, "lt -f large") == ["big:0"]


def test_a_filter_that_raises_is_reported_once_and_the_list_goes_on(shell):
    def fussy(datum, tensor):
        if datum.node_name == "text":
            raise ValueError("no text\nplease")
        return datum.node_name == "ints"

    shell.filters.add("fussy", fussy)
    lines = shell.lines("lt -f fussy")
    assert names(shell, "lt -f fussy") == ["ints:0"]
    warning = [text for text in lines if text.startswith("Warning")]
    assert warning == [
        "Warning: the filter raised for 1 tensor(s): text:0: ValueError: no text please"
    ]
    assert warning == roles(shell.document("lt -f fussy"), "warning")


@pytest.mark.parametrize(
    ("command", "parts"),
    [
        ("lt -f has_inf", ['no tensor filter named "has_inf"', "Did you mean has_inf_or_nan?"]),
        ("lt -f zzz", ["zzz", "There are has_inf_or_nan"]),
        ("lt -fenn a", ["-fenn", "-f FILTER"]),
        ("lt -f has_inf_or_nan -fenn [", ["-fenn", "regular expression"]),
        ("lt -s sise", ['no column "sise"', "Did you mean size"]),
        ("lt -s zzz", ['no column "zzz"', "There are time, size"]),
        ("lt -o time,healht", ['no column "healht"', "Did you mean health?"]),
        ("lt -o ,", ["-o", "no column", "lt -o time"]),
        ("lt --dtype (", ["--dtype", '"("', "no regular expression"]),
        ("lt -n [a", ["-n", '"[a"', "no regular expression", "unterminated"]),
        ("lt -t (", ["-t", '"("', "no regular expression"]),
        ("lt --node_name_filtre a", ["--node_name_filtre", "--node_name_filter"]),
        ("lt -n", ["-n/--node_name_filter", "expected one argument"]),
        ("lt -z", ["no option -z", "Usage: list_tensors"]),
        ("lt extra", ['"extra" is one word too many']),
        ("lst", ['no command "lst"', "Did you mean"]),
    ],
)
def test_defect_34_mistakes_are_one_line_with_cause_and_fix(shell, capfd, command, parts):
    text = shell.error(command)
    for part in parts:
        assert part in text
    assert capfd.readouterr() == ("", "")


def test_the_warnings_of_the_dump_and_an_empty_one():
    dump = MemoryDump()
    dump.warnings.append("index.jsonl is cut short")
    lines = Shell(dump).lines("lt")
    assert lines[0] == "0 dumped tensor(s):"
    assert "Warning: index.jsonl is cut short" in lines
    assert "This run dumped nothing." in lines


def test_notes_of_the_session_are_shown(dump):
    shell = Shell(dump, notes=["The dump is kept in /somewhere."])
    assert shell.lines("lt")[0] == "The dump is kept in /somewhere."


class Lazy(Datum):
    """Counts what is asked of it."""

    __slots__ = ("asked",)

    def __init__(self, number, asked):
        super().__init__(f"scope/n{number}", 0, lambda: np.zeros(3, np.float32), timestamp=number)
        self.asked = asked

    def _describe(self):
        self.asked.append(self.node_name)
        self._dtype, self._shape, self._nbytes = "float32", (3,), 12


def test_a_hundred_thousand_rows_cost_what_is_looked_at():
    count = 100_000
    asked = []
    dump = MemoryDump(Graph(Node(f"scope/n{n}", "Op") for n in range(count)))
    for number in range(count):
        dump.add_datum(Lazy(number, asked))
    document = Shell(dump).document("lt")
    assert document.line_count == count + 3
    assert asked == []
    made = document.lines(50_000, 50_010)
    assert [line.text.split()[-1] for line in made] == [
        f"scope/n{n}:0" for n in range(49_997, 50_007)
    ]
    assert all(isinstance(line, Line) for line in made)
    assert len(set(asked)) == 10
    by_name = Shell(dump).document("lt -s name -r -o time,op_type")
    assert by_name.line_count == count + 3
    assert len(set(asked)) == 10
    by_name.lines(0, 50)
    assert len(set(asked)) <= 60


# -- columns


def cells(shell, command, width=80):
    """Tensor -> the texts of its other cells, of columns that hold no blanks."""
    lines = shell.lines(command, width)
    at = next(n for n, text in enumerate(lines) if "Tensor name" in text)
    return {text.split()[-1]: text.split()[:-1] for text in lines[at + 1 :]}


def test_wide_screens_show_the_numbers_too(shell):
    narrow, wide = shell.document("lt", 100), shell.document("lt", 150)
    heads = [re.split(" {1,}(?=[A-Z])", d.lines(2, 3)[0].text) for d in (narrow, wide)]
    assert heads[1] == [*heads[0][:-1], "Min", "Max", "Mean", "Tensor name"]
    again = narrow.resized(150)
    assert [line.text for line in again] == [line.text for line in wide]
    assert narrow.resized(100) is narrow
    row = next(text for text in shell.lines("lt", 150) if text.endswith(" hidden/MatMul:0"))
    assert row.split()[-4:] == ["-6", "6", "0", "hidden/MatMul:0"]


def test_names_come_before_columns_where_there_is_little_room(shell):
    heads = {
        width: next(text for text in shell.lines("lt", width) if text.endswith("Tensor name"))
        for width in (60, 100, 160)
    }
    assert heads[60].endswith("Health   Tensor name")
    assert "Shape" not in heads[60]
    assert "Shape" in heads[100]
    assert "Min" not in heads[100]
    assert "Min" in heads[160]


def test_columns_by_name_in_any_order(shell):
    found = cells(shell, "lt -n hidden|bad -o mean,op_type,health")
    assert found["hidden/Relu:0"] == ["3", "Relu", "ok"]
    assert found["bad/Log:0"] == ["1.792", "Log", "2", "-inf"]
    lines = shell.lines("lt -n hidden/ -o tensor_name,dump_size")
    assert lines[3].split() == ["Tensor", "name", "Size", "(B)"]
    assert lines[4].split() == ["hidden/weights:0", "24"]
    assert lines[3].index("Size") == lines[4].index("24") == lines[5].index("24")
    assert shell.lines("lt -o size,size,name")[2].split() == ["Size", "(B)", "Tensor", "name"]
    assert shell.lines('lt -o "size, dtype"')[2].split()[:3] == ["Size", "(B)", "Dtype"]


def test_what_a_health_cell_says():
    dump = MemoryDump()
    inf, nan = np.inf, np.nan
    values = {
        "ok": np.array([1.0, 2.0]),
        "mixed": np.array([nan, nan, nan, -inf, inf, inf, 1], ml_dtypes.bfloat16),
        "whole": np.array([1, 2]),
        "words": np.array([b"a"], object),
        "unset": InconvertibleTensorProto("not yet", initialized=False),
    }
    for number, (name, value) in enumerate(values.items()):
        dump.add(name, 0, value, timestamp=number)

    def damaged():
        raise DumpError("x.bin is damaged: it ends early.")

    dump.add_datum(Datum("lost", 0, damaged, timestamp=9))
    shell = Shell(dump)
    assert cells(shell, "lt -o health,min,max") == {
        "ok:0": ["ok", "1", "2"],
        "mixed:0": ["3", "nan", "1", "-inf", "2", "+inf", "1", "1"],
        "whole:0": ["-", "1", "2"],
        "words:0": ["-", "-", "-"],
        "unset:0": ["-", "-", "-"],
        "lost:0": ["?", "?", "?"],
    }
    document = shell.document("lt")
    assert roles(document, "nan") == ["3 nan"]
    assert roles(document, "inf") == ["1 -inf", "2 +inf"]
    assert "lost:0" in cells(shell, "lt")
    assert cells(shell, "lt -o size,dtype")["lost:0"] == ["?", "(damaged)"]


def test_numbers_are_exact_where_there_is_room():
    dump = MemoryDump()
    dump.add("small", 0, np.array([-12345678, 3]), timestamp=1)
    dump.add("huge", 0, np.array([2**63, 2**64 - 1], np.uint64), timestamp=2)
    dump.add("flags", 0, np.array([True, False, False, False]), timestamp=3)
    dump.add("floats", 0, np.array([1e-30, 123456.789]), timestamp=4)
    assert cells(Shell(dump), "lt -o min,max,mean") == {
        "small:0": ["-12345678", "3", "-6.173e+06"],
        "huge:0": ["9.223e+18", "1.845e+19", "1.384e+19"],
        "flags:0": ["False", "True", "0.25"],
        "floats:0": ["1e-30", "1.235e+05", "6.173e+04"],
    }


def test_long_cells_push_the_next_ones_and_no_further(shell):
    lines = shell.lines("lt", 100)
    place = lines[2].index("Tensor name")
    long = next(text for text in lines if text.endswith(" cplx:0"))
    assert " complex128 (2,) " in long
    assert {text.index(text.split()[-1]) for text in lines[3:] if "(#" not in text} == {place}


def test_several_devices_and_debug_ops_open_what_they_name():
    dump = MemoryDump()
    for number, device in enumerate(("CPU:0", "CPU:1")):
        for step in range(2):
            dump.add(
                "a",
                0,
                np.array([number, step]),
                timestamp=2 * number + step,
                device_name=f"/job:localhost/replica:0/task:0/device:{device}",
            )
    dump.add("a", 0, np.array([7]), timestamp=4, debug_op="DebugNanCount")
    shell = Shell(dump)
    document = shell.document("lt -o device")
    shown = [(s.text, s.link.command) for line in document for s in line.spans if s.link][2:]
    assert shown == [
        *((f"a:0 (#{n})", f"pt a:0 -n {n}") for n in range(4)),
        ("a:0:DebugNanCount (#4)", "pt a:0 -n 4"),
    ]
    values = [shell.lines(command)[-1] for _, command in shown]
    assert values == [f"array([{a}, {b}])" for a in (0, 1) for b in (0, 1)] + ["array([7])"]
    assert document.lines(3, 4)[0].text.startswith("device:CPU:0 ")


def test_filters_by_element_type(shell):
    assert names(shell, "lt --dtype ^complex") == ["cplx:0"]
    assert names(shell, "lt --dtype 128 -f has_inf_or_nan") == ["cplx:0"]
    assert names(shell, "lt --dtype float32 -t Log -n bad") == ["bad/Log:0"]
    assert 'Dtype regex filter: "string"' in shell.lines("lt --dtype string")


# -- JSON lines


def test_json_has_one_object_a_tensor(shell, dump):
    found = [json.loads(text) for text in shell.lines("lt --json")]
    assert [item["tensor"] for item in found] == [d.tensor_name for d in dump.data()]
    by_name = {item["tensor"]: item for item in found}
    assert by_name["bad/Log:0"] == {
        "tensor": "bad/Log:0",
        "node": "bad/Log",
        "slot": 0,
        "debug_op": "DebugIdentity",
        "execution": 0,
        "device": "/job:localhost/replica:0/task:0/device:CPU:0",
        "time_ms": by_name["bad/Log:0"]["time_ms"],
        "op_type": "Log",
        "dtype": "float32",
        "shape": [2, 2],
        "bytes": 16,
        "health": {"nan": 0, "neg_inf": 2, "pos_inf": 0},
        "min": pytest.approx(np.log(6)),
        "max": pytest.approx(np.log(6)),
        "mean": pytest.approx(np.log(6)),
        "error": None,
    }
    assert by_name["ints:0"]["health"] is None and by_name["ints:0"]["max"] == 22
    assert by_name["flags:0"]["min"] is False
    assert by_name["text:0"]["mean"] is None
    assert [i["execution"] for i in found if i["tensor"] == "loop/body:0"] == [0, 1, 2, 3]
    assert [i["time_ms"] for i in found] == sorted(i["time_ms"] for i in found)
    some = [json.loads(text) for text in shell.lines("lt --json -n bad -s name -r")]
    assert [item["tensor"] for item in some] == ["bad/zero:0", "bad/Mul:0", "bad/Log:0"]


def test_json_of_what_cannot_be_read():
    def damaged():
        raise DumpError("x.bin is gone.")

    dump = MemoryDump()
    dump.add_datum(Datum("a", 0, damaged, timestamp=1))
    (text,) = Shell(dump).lines("lt --json")
    found = json.loads(text)
    assert (found["error"], found["shape"], found["health"]) == ("x.bin is gone.", None, None)


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


def test_many_small_tensors_do_not_hold_up_the_screen():
    dump = MemoryDump()
    value = np.zeros((100, 100), np.float32)
    for number in range(20_000):
        dump.add(f"n{number}", 0, value, timestamp=number)
    document = Shell(dump).document("lt")
    made = document.lines(0, 20_003)
    assert made[3].text.split()[-2] == "ok"
    assert made[-1].text.split()[-2] == "…"
    document.settle(20_000, 20_003)
    assert [line.text.split()[-2] for line in document.lines(20_000, 20_003)] == ["ok"] * 3
    halt()
