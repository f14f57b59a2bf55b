"""``lt``: rows, order, filters, links."""

import re

import ml_dtypes
import numpy as np
import pytest
from command_kit import Shell, link_of, roles

from tfdbg_cli.commands.shell.parsing import split_words
from tfdbg_cli.commands.tensors.columns import COLUMNS
from tfdbg_cli.common.documents import Line
from tfdbg_cli.dumps.dump import Datum
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.run_info import RunInfo


def test_it_lists_every_dump_in_time_order(shell, dump):
    lines = shell.lines("lt", 100)
    assert lines[0] == f"{len(dump.data())} dumped tensor(s):"
    assert re.split(" {1,}(?=[A-Z])", lines[2]) == [
        *("t (ms)", "Size (B)", "Op type", "Dtype", "Shape", "Health", "Tensor name")
    ]
    assert shell.tensors("lt") == [datum.tensor_name for datum in dump.data()]
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
    assert shell.tensors(f"lt -s {name}") == [d.tensor_name for d in expected] + unknown
    reverse = shell.tensors(f"lt --sort_by {name} -r")
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
    assert sorted(shell.tensors(by_size)) == sorted(shell.tensors(command)) == ["bad/Log:0"]
    heads = shell.document(f"lt -o {','.join(column.name for column in COLUMNS)}")
    for column in COLUMNS:
        head = link_of(heads, column.head)
        assert f"-s {column.name}" in head
        shell.document(head)


def test_regexes_match_anywhere(shell):
    assert shell.tensors("lt -n Mul") == ["hidden/MatMul:0", "bad/Mul:0"]
    assert shell.tensors("lt --node_name_filter ^Mul") == []
    assert shell.tensors("lt -t atMu") == ["hidden/MatMul:0"]
    assert shell.tensors("lt -t ^Mul$ -n bad") == ["bad/Mul:0"]
    lines = shell.lines("lt -t atMu -n hid")
    assert 'Op type regex filter: "atMu"' in lines
    assert 'Node name regex filter: "hid"' in lines
    assert shell.lines("lt -n nothing_at_all")[0] == "0 dumped tensor(s):"


def test_defect_33_a_regex_finds_the_op_inside_its_renamed_type():
    dump = MemoryDump(Graph([Node("train/Adam/x", "_MklMatMul"), Node("b", "Add")]))
    dump.add("train/Adam/x", 0, np.ones(2), timestamp=1)
    dump.add("b", 0, np.ones(2), timestamp=2)
    shell = Shell(dump)
    assert shell.tensors("lt -t MatMul") == shell.tensors("lt -n Adam") == ["train/Adam/x:0"]
    assert shell.tensors("lt -t ^MatMul") == shell.tensors("lt -n ^Adam") == []


def test_the_built_in_filter_finds_nan_and_infinity(shell):
    found = shell.tensors("lt -f has_inf_or_nan")
    assert found == ["bad/Log:0", "bad/Mul:0", "cplx:0"]
    assert shell.lines("lt -f has_inf_or_nan")[0] == (
        '3 dumped tensor(s) passing filter "has_inf_or_nan":'
    )
    assert shell.tensors("lt -f has_inf_or_nan -fenn bad") == ["cplx:0"]
    assert shell.tensors("lt --tensor_filter has_inf_or_nan -t Log") == ["bad/Log:0"]


@pytest.mark.parametrize(
    "dtype", ["bfloat16", "float8_e5m2", "float8_e4m3fn", "float16", "complex64"]
)
def test_the_built_in_filter_knows_every_floating_dtype(dtype):
    kind = getattr(ml_dtypes, dtype, None) or dtype
    dump = MemoryDump(Graph([Node("good", "A"), Node("bad", "B")]))
    dump.add("good", 0, np.array([1, 2]).astype(kind), timestamp=1)
    dump.add("bad", 0, np.array([1, np.nan]).astype(kind), timestamp=2)
    assert Shell(dump).tensors("lt -f has_inf_or_nan") == ["bad:0"]


def test_a_filter_of_the_users_own(shell):
    shell.filters.add("large", lambda datum, tensor: getattr(tensor, "size", 0) > 100)
    assert shell.tensors("lt -f large") == ["big:0"]


def test_a_filter_that_raises_is_reported_once_and_the_list_goes_on(shell):
    def fussy(datum, tensor):
        if datum.node_name == "text":
            raise ValueError("no text\nplease")
        return datum.node_name == "ints"

    shell.filters.add("fussy", fussy)
    lines = shell.lines("lt -f fussy")
    assert shell.tensors("lt -f fussy") == ["ints:0"]
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
        ("lt --dtype (", ["--dtype", '"("', "not a regular expression"]),
        ("lt -n [a", ["-n", '"[a"', "not a regular expression", "unterminated"]),
        ("lt -t (", ["-t", '"("', "not a regular expression"]),
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


def test_constants_and_what_is_computed_from_shapes_are_left_out_on_tensorflow_2():
    whole = np.array([2], np.int32)
    made = [
        ("x", "Placeholder", [], np.ones(2, np.float32)),
        ("shape", "Shape", ["x"], whole),
        ("one", "Const", [], whole),
        ("rows", "StridedSlice", ["shape", "one"], whole),
        ("packed", "Pack", ["rows", "one"], whole),
        ("doubled", "AddV2", ["packed", "one"], whole),
        ("flat", "Reshape", ["x", "packed"], np.ones(2, np.float32)),
        ("ids", "RandomUniformInt", ["packed", "one"], whole),
        ("next", "AddV2", ["ids", "one"], whole),
        ("best", "ArgMax", ["x", "one"], whole),
        ("zeros", "Fill", ["packed", "half"], np.ones(2, np.float32)),
    ]
    graph = Graph([Node(name, op, tuple(f"{each}:0" for each in i)) for name, op, i, _ in made])
    dump = MemoryDump(graph, run_info=RunInfo(engine="tensorflow2"))
    for time, (name, _, _, value) in enumerate(made):
        dump.add(name, 0, value, timestamp=time)
    shell = Shell(dump)
    assert shell.tensors("lt") == ["x:0", "ids:0", "next:0", "best:0", "zeros:0"]
    assert shell.lines("lt")[0].endswith("(6 constants, shapes and views hidden)")
    assert shell.tensors("lt --views") == [f"{name}:0" for name, *_ in made]
    assert shell.tensors("lt -n packed") == ["packed:0"]
    # A filter finds all of them.
    shell.filters.add("any", lambda datum, tensor: True)
    assert len(shell.tensors("lt -f any")) == len(made)


def test_a_long_warning_is_broken_where_the_window_ends():
    dump = MemoryDump()
    dump.warnings.append("word " * 60)
    lines = Shell(dump).lines("lt", 80)
    assert max(map(len, lines)) <= 80
    assert sum(text.count("word") for text in lines) == 60


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


@pytest.mark.slow
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


def engine_dump(engine, **others):
    """A constant and what is computed of it, at one time, in a run of an engine."""
    dump = MemoryDump(Graph([Node("c", "Const"), Node("loop/y", "Neg", ["c:0"])]))
    dump.add("c", 0, np.float32(1), timestamp=5)
    for _ in range(2):
        dump.add("loop/y", 0, np.float32(-1), timestamp=5, **others)
    dump.set_run_info(RunInfo(engine=engine, fetches=["loop/y:0"]))
    return dump


def test_words_of_sessions_are_left_to_them():
    sessions, traced = Shell(engine_dump("tensorflow")), Shell(engine_dump("tensorflow2"))
    assert sessions.lines("pt loop/y:0 -n 1")[0].startswith('Tensor "loop/y:0:DebugIdentity" (dump')
    assert traced.lines("pt loop/y:0 -n 1")[0] == 'Tensor "loop/y:0" (execution 1 of 2):'
    assert "2 dumps" in sessions.lines("pt loop/y:0")[0]
    assert "2 executions" in traced.lines("pt loop/y:0")[0]
    assert not any("DebugIdentity" in text for text in traced.lines("ni -d loop/y"))


def test_constants_of_traced_functions_are_left_out_where_nothing_is_searched_for():
    shell = Shell(engine_dump("tensorflow2"))
    assert not any("Const" in text for text in shell.lines("lt"))
    assert "hidden" in shell.lines("lt")[0]
    for command in ("lt --views", "lt -t Const"):
        assert any("Const" in text for text in shell.lines(command))
    assert any("Const" in text for text in Shell(engine_dump("tensorflow")).lines("lt"))


def test_times_that_are_all_the_same_are_not_shown():
    assert "t (ms)" not in Shell(engine_dump("torch")).text("lt")
    dump = engine_dump("torch")
    dump.add("c", 0, np.float32(1), timestamp=9)
    assert "t (ms)" in Shell(dump).text("lt")
