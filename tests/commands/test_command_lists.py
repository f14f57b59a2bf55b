"""``lt``: rows, order, filters, links."""

import ml_dtypes
import numpy as np
import pytest
from command_kit import Shell, link_of, roles

from tfdbg_cli.documents import Line
from tfdbg_cli.dumps.dump import Datum
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump


def names(shell, command):
    """The tensors that `lt` lists, in its order."""
    return [c.split()[1] for c in shell.links(command) if c.startswith("pt ")]


def test_it_lists_every_dump_in_time_order(shell, dump):
    lines = shell.lines("lt")
    assert lines[0] == f"{len(dump.data())} dumped tensor(s):"
    assert lines[2].split() == [
        *("t", "(ms)", "Size", "(B)", "Op", "type", "Dtype", "Shape", "Tensor", "name")
    ]
    assert names(shell, "lt") == [datum.tensor_name for datum in dump.data()]
    assert lines[3].startswith("[0.000]")
    row = next(text for text in lines if text.endswith("hidden/MatMul:0"))
    assert row.split()[1:] == ["16", "MatMul", "float32", "(2,", "2)", "hidden/MatMul:0"]
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


@pytest.mark.parametrize("key", ["timestamp", "dump_size", "op_type", "tensor_name"])
def test_sorting_by_each_key_and_back(shell, dump, key):
    value = {
        "timestamp": lambda d: 0,
        "dump_size": lambda d: d.nbytes,
        "op_type": lambda d: dump.op_type(d.node_name),
        "tensor_name": lambda d: d.tensor_name,
    }[key]
    expected = sorted(dump.data(), key=value)
    assert names(shell, f"lt -s {key}") == [d.tensor_name for d in expected]
    reverse = names(shell, f"lt --sort_by {key} -r")
    if key == "timestamp":
        assert reverse == [d.tensor_name for d in reversed(dump.data())]
    else:
        by_name = {d.tensor_name: value(d) for d in dump.data()}
        assert [by_name[n] for n in reverse] == sorted(by_name[n] for n in reverse)[::-1]


def test_heads_sort_and_keep_every_filter(shell):
    command = 'lt -f has_inf_or_nan -fenn "Mul$" -n "a|b c" -t "Log|Mul"'
    document = shell.document(command)
    by_size = link_of(document, "Size (B)")
    assert "Mul$" in by_size and '"a|b c"' in by_size and "Log|Mul" in by_size
    assert not by_size.endswith("-r")
    assert link_of(shell.document(by_size), "Size (B)") == by_size + " -r"
    assert link_of(document, "t (ms)").endswith("-s timestamp -r")
    assert sorted(names(shell, by_size)) == sorted(names(shell, command))


def test_regexes_match_anywhere(shell):
    assert names(shell, "lt -n Mul") == ["hidden/MatMul:0", "bad/Mul:0"]
    assert names(shell, "lt --node_name_filter ^Mul") == []
    assert names(shell, "lt -t atMu") == ["hidden/MatMul:0"]
    assert names(shell, "lt -t ^Mul$ -n bad") == ["bad/Mul:0"]
    lines = shell.lines("lt -t atMu -n hid")
    assert 'Op type regex filter: "atMu"' in lines
    assert 'Node name regex filter: "hid"' in lines
    assert shell.lines("lt -n nothing_at_all")[0] == "0 dumped tensor(s):"


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
        ("lt -s size", ["size", "dump_size"]),
        ("lt -n [a", ["-n", '"[a"', "no regular expression", "unterminated"]),
        ("lt -t (", ["-t", '"("', "no regular expression"]),
        ("lt --node_name_filtre a", ["--node_name_filtre", "--node_name_filter"]),
        ("lt -n", ["-n/--node_name_filter", "expected one argument"]),
        ("lt -z", ["no option -z", "Usage: list_tensors"]),
        ("lt extra", ['"extra" is one word too many']),
        ("lst", ['no command "lst"', "Did you mean"]),
    ],
)
def test_mistakes_are_one_line_with_cause_and_fix(shell, capfd, command, parts):
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
        super().__init__(f"scope/n{number}", 0, self._never, timestamp=number)
        self.asked = asked

    def _never(self):
        raise AssertionError("a value was read")

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
