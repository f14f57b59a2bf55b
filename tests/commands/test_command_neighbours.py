"""``li`` and ``lo`` as tables: columns, order, selections, and the keys that write them."""

import re
import threading

import numpy as np
import pytest
from command_kit import Shell, link_of, roles

from tfdbg_cli.common.errors import DumpError, UserError
from tfdbg_cli.dumps.dump import Datum
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump


def make_dump(count=30):
    """A node with many inputs: one of them is bad, one not dumped, one made of another one."""
    made_of = {1: ["in_0:0"], 9: ["in_1:0"]}
    nodes = [
        Node(f"in_{n}", "Relu" if n % 3 else "MatMul", made_of.get(n, ())) for n in range(count)
    ]
    inputs = [f"in_{n}:0" for n in range(count)]
    nodes.append(Node("all", "AddN", inputs, control_inputs=["in_2"]))
    nodes.append(Node("next", "Log", ["all:0"]))
    dump = MemoryDump(Graph(nodes))
    for n in range(count):
        value = np.full((n + 1, 2), n, np.float32)
        if n == 7:
            value[:2, 0] = np.nan
        if n != 5:
            dump.add(f"in_{n}", 0, value, timestamp=n)
    dump.add("all", 0, np.float32(1), timestamp=count)
    return dump


@pytest.fixture(scope="module")
def inputs():
    return Shell(make_dump())


def table(shell, command, width=80):
    """The heads, and node -> the other cells."""
    _, heads, *rows = shell.lines(command, width)
    split = [re.split(r"\s{1,}(?![^(]*\))", row.strip()) for row in rows if row]
    return heads, {cells[-1]: cells[:-1] for cells in split}


def test_the_list_is_as_it_was_without_columns(inputs):
    lines = inputs.lines("li all")
    assert lines[:2] == ['Inputs to node "all":', "|- (1) in_0"]
    assert lines[-2:] == ["Legend:", "  (d): recursion depth = d."]


def test_a_table_says_how_each_input_is(inputs):
    heads, rows = table(inputs, "li all -o op_type,shape,health")
    assert heads.split("  ")[0] == "Op type Shape"
    assert heads.endswith("Node")
    assert rows["in_0"] == ["MatMul", "(1, 2)", "ok"]
    assert rows["in_7"] == ["Relu", "(8, 2)", "2", "nan"]
    assert rows["in_5"] == ["Relu", "-", "-"]
    assert len(rows) == 30
    document = inputs.document("li all -o health")
    assert roles(document, "nan") == ["2 nan"]
    assert link_of(document, "in_7") == "li -c -r in_7"
    assert not any("Legend" in text for text in inputs.lines("li all -o health"))


def test_recipients_show_what_they_made(inputs):
    _, rows = table(inputs, "lo in_2 -c -s edge --reverse")
    assert rows == {"all": ["AddN", "data", "float32", "()", "ok"]}
    lines = inputs.lines("lo in_2 -c -s edge --reverse")
    assert [text.split()[1] for text in lines[2:4]] == ["control", "data"]
    assert inputs.lines("lo all -o health")[2].split() == ["-", "next"]


@pytest.mark.parametrize(
    ("order", "first", "last"),
    [
        ("-s health --reverse", "in_7", "in_5"),
        ("-s size --reverse", "in_29", "in_5"),
        ("-s name", "in_0", "in_9"),
        ("--reverse", "in_9", "in_0"),
        ("-s op_type", "in_0", "in_29"),
    ],
)
def test_orders(inputs, order, first, last):
    lines = [text for text in inputs.lines(f"li all {order}")[2:] if text]
    assert (lines[0].split()[-1], lines[-1].split()[-1]) == (first, last)


def test_a_tree_has_columns_and_keeps_its_order(inputs):
    lines = inputs.lines("li -r next -o op_type,health")
    assert lines[1].split() == ["Op", "type", "Health", "Node"]
    assert re.fullmatch(r"AddN +ok +\|- \(1\) all", lines[2])
    assert re.fullmatch(r"Relu +2 nan +\|  \|- \(2\) in_7", lines[11])
    place = re.search(r"see line (\d+)", "\n".join(lines))
    assert lines[int(place[1]) - 1].endswith("(2) in_1")
    assert "Leave out -r" in inputs.error("li -r next -s name")
    assert "-d" in inputs.error("lo -d 3 in_0 --reverse")


def test_a_run_that_kept_no_tensors_has_no_columns_of_them():
    shell = Shell(MemoryDump(make_dump().graph()))
    assert shell.lines("li next -s name")[1:3] == ["Op type Node↑", "AddN    all"]


def test_mistakes_are_one_line(inputs):
    assert "Did you mean health?" in inputs.error("li all -o healt")
    assert "-s" in inputs.error("li all -s nothing")
    assert inputs.complete("li all -o op_type,he") == ["li all -o op_type,health"]
    assert inputs.complete("li all -s ed") == ["li all -s edge"]


def command(shell, text, row, column, verb, width=80):
    document = shell.document(text, width)
    at = next(n for n in range(document.line_count) if document.lines(n, n + 1)[0].text == row)
    return document.table_command(at, column, verb)


_ROW = "|- (1) in_3"


@pytest.mark.parametrize(
    ("verb", "written"),
    [
        ("sort", "li all -s name"),
        ("sort-down", "li all -s name --reverse"),
        ("turn", "li all -s name --reverse"),
        ("freeze", "li all -o name!,op_type,dtype,shape,health"),
        ("width", "li all -o op_type,dtype,shape,health,name"),
        ("select", "select in_3"),
    ],
)
def test_keys_on_the_plain_list_lead_to_the_table(inputs, verb, written):
    assert command(inputs, "li all", _ROW, "name", verb) == written
    assert not inputs.reply(written).failed


def test_keys_on_the_table_write_what_can_be_scripted(inputs):
    text = "li all -o op_type,shape,health"
    document = inputs.document(text)
    at = next(n for n in range(document.line_count) if "in_7" in document.lines(n, n + 1)[0].text)

    def written(column, verb):
        return document.table_command(at, column, verb)

    assert [field.column for field in document.fields(at)] == [
        *("op_type", "shape", "health", "name"),
    ]
    assert written("shape", "sort-down") == f"{text} -s shape --reverse"
    assert written("shape", "hide") == "li all -o op_type,health,name"
    assert written("op_type", "width") == "li all -o op_type:7,shape,health,name"
    assert written("health", "select") == "select in_7:0"
    assert written("health", "select-like") == "select in_7:0"
    assert written("op_type", "select-like").startswith("select in_1:0 in_2:0 in_4:0 in_7:0")
    assert "in_5:0" not in written("op_type", "select-like")
    with pytest.raises(UserError, match="node column can't be hidden"):
        written("name", "hide")
    assert inputs.lines(written("name", "freeze"))[1].startswith("Node")
    tree = inputs.document("li -r next -o health")
    with pytest.raises(UserError, match="can't be sorted"):
        tree.table_command(3, "health", "sort")


def test_what_is_selected_is_marked():
    shell = Shell(make_dump())
    shell.reply("select in_3:0")
    document = shell.document("li all -o health")
    (at,) = (n for n in range(document.line_count) if "● in_3" in document.lines(n, n + 1)[0].text)
    assert document.table_command(at, "name", "select") == "select -d in_3:0"


def test_values_are_read_for_the_rows_on_the_screen_only():
    graph = make_dump(3000).graph()
    dump = MemoryDump(graph)
    read = []

    def load(n):
        read.append(n)
        if n == 4:
            raise DumpError("it ends early")
        return np.float32(n)

    for n in range(3000):
        size = {"dtype": "float32", "shape": (), "nbytes": 4}
        dump.add_datum(Datum(f"in_{n}", 0, lambda n=n: load(n), timestamp=n, **size))
    shell = Shell(dump)
    document = shell.document("li all -o op_type")
    assert "in_2000" in document.lines(2002, 2003)[0].text
    assert not read
    document = shell.document("li all -o health")
    document.settle(2, 40)
    rows = [line.text.split() for line in document.lines(2, 40)]
    assert rows[4] == ["?", "in_4"]
    assert {row[0] for at, row in enumerate(rows) if at != 4} == {"ok"}
    assert max(read) < 40


def test_a_large_tensor_is_measured_in_the_background():
    dump = MemoryDump(Graph([Node("a", "Const"), Node("b", "Log", ["a:0"])]))
    may_go_on = threading.Event()

    def load():
        may_go_on.wait(60)
        return np.full(1 << 16, np.inf, np.float32)

    size = {"dtype": "float32", "shape": (1 << 16,), "nbytes": 1 << 18}
    dump.add_datum(Datum("a", 0, load, timestamp=0, **size))
    document = Shell(dump).document("li b -o health")
    assert document.lines(2, 3)[0].text.split() == ["…", "a"]
    assert document.pending
    may_go_on.set()
    while document.pending:
        pass
    assert document.lines(2, 3)[0].text.split() == ["65536", "+inf", "a"]


def test_a_wider_screen_shows_more(inputs):
    document = inputs.document("li all -s name", 80)
    assert "Mean" not in document.lines(1, 2)[0].text
    assert "Mean" in document.resized(150).lines(1, 2)[0].text
    assert document.resized(80).lines(1, 2)[0].text == document.lines(1, 2)[0].text
