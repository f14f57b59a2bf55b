"""``select``, and the commands that take what it has chosen; ``preview``."""

import numpy as np
import pytest
from command_kit import Shell
from test_command_profile import profiled_dump

from tfdbg_cli.commands.preview import KINDS, preview_command
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.common.tables import VERBS
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump


def names(shell, command="lt --selected"):
    return [line.split()[-1] for line in shell.lines(command)[3:]]


def test_it_adds_drops_and_lists(shell):
    assert "No tensor is selected" in shell.text("select")
    assert "2 tensor(s) selected" in shell.reply("select bad/Log:0 hidden/Relu").message.text
    assert "3 tensor(s)" in shell.reply("select -n ^after$").message.text
    assert set(names(shell)) == {"hidden/Relu:0", "bad/Log:0", "after:0"}
    assert "2 tensor(s)" in shell.reply("select -d hidden/Relu:0").message.text
    shell.reply("select -f has_inf_or_nan -n ^bad/")
    assert set(names(shell)) == {"bad/Log:0", "bad/Mul:0", "after:0"}
    assert "bad/Mul:0" in shell.text("select")
    assert "No tensor" in shell.reply("select --clear").message.text
    assert names(shell) == []


@pytest.mark.parametrize(
    ("command", "parts"),
    [
        ("select nosuch", ["nosuch"]),
        ("select -n (", ["not a regular expression"]),
        ("pt --selected", ["No tensor is selected", "select NAME"]),
        ("pt bad/Log:0 --selected", ["takes a tensor, or --selected"]),
        ("eval \"selected['after:0']\"", ['selected have no "after:0"']),
    ],
)
def test_mistakes_are_one_line(shell, command, parts):
    text = shell.error(command)
    for part in parts:
        assert part in text


def test_a_list_marks_them_and_they_can_be_saved_and_computed_with(shell, tmp_path):
    document = shell.document("lt")
    shell.reply("select bad/Log:0 uniq:0 text")
    assert "● bad/Log:0" in document.text  # also in a list that was there before
    shell.reply("select -d bad/Log:0")
    assert "●" not in next(line.text for line in document if "bad/Log:0" in line.text)
    path = tmp_path / "some.npz"
    assert "Saved 2 value(s)" in shell.text(f"pt --selected -w {path}")
    with np.load(path) as saved:
        assert saved["text:0"].tolist() == [b"abc", b"\xff"]
        assert saved["uniq:0"].tolist() == [3, 5]
    assert ".npz" in shell.error(f"pt --selected -w {tmp_path / 'x.npy'}")
    assert list(tmp_path.iterdir()) == [path]
    shown = shell.text("pt --selected")
    assert 'Tensor "uniq:0"' in shown
    assert 'Tensor "text:0"' in shown
    assert "{'uniq:0': 8}" in shell.text(
        "eval \"{n: int(v.sum()) for n, v in selected.items() if v.dtype.kind == 'i'}\""
    )


def test_values_are_shown_up_to_a_number():
    many = MemoryDump(Graph([Node(f"op_{n}", "A") for n in range(40)]))
    for number in range(40):
        many.add(f"op_{number}", 0, np.zeros(2), timestamp=number)
    shell = Shell(many)
    shell.reply("select -n .")
    text = shell.text("pt --selected")
    assert text.count("Tensor ") == 20
    assert "and 20 more" in text


# Columns and orders of the other lists.


@pytest.fixture
def timed():
    return Shell(profiled_dump(), "profile")


def test_columns_of_a_profile(timed):
    text = timed.lines("lp --columns exec_time,node!:6 -d CPU -s exec_time -r")
    head = next(line for line in text if "Exec Time" in line)
    assert head.split()[0] == "Node"
    assert "Exec Time (us)↓" in head
    assert text[text.index(head) + 1].startswith("hid/M…  ")
    assert "Op Type" not in head
    assert 'no column "nod". Did you mean node' in timed.error("lp --columns nod")


def test_keys_of_a_profile_write_commands(timed):
    document = timed.document("lp -t Mul")
    table = document.tables[0]
    row = table.first + 1
    columns = [field.column for field in document.fields(row)]
    assert columns == ["node", "op_type", "start_time", "op_time", "exec_time", "line"]
    made = dict.fromkeys(VERBS, "")
    for verb in VERBS:
        try:
            made[verb] = document.table_command(row, "op_type", verb)
        except UserError:
            continue
    assert made["sort-down"] == "lp -t Mul -s op_type -r"
    assert made["hide"] == "lp -t Mul --columns node,start_time,op_time,exec_time,line"
    assert made["filter"] == "lp -t ^MatMul$"
    assert made["select"] == ""
    for text in made.values():
        if text.startswith("lp"):
            assert not timed.reply(text).failed, text


def test_order_of_source_files(timed):
    def paths(command):
        return [line.split("  ")[0] for line in timed.lines(command) if ".py" in line]

    both = paths("ls")
    assert sorted(paths("ls -s nodes -r")) == sorted(both)
    assert paths("ls -s path -r") == sorted(both, reverse=True)
    document = timed.document("ls -s nodes")
    row = document.tables[0].first + 1
    assert document.table_command(row, "nodes", "turn") == "ls -s nodes -r"
    text = timed.text("ls --columns nodes:3,path!")
    assert text.splitlines()[3].startswith("Source file path")
    assert "#(tensors)" not in text


# What a pane shows.


def test_a_row_tells_what_to_show(shell):
    document = shell.document("lt")
    for number in range(document.tables[0].first + 1, document.line_count):
        row = document.lines(number, number + 1)[0]
        for kind in KINDS:
            command = preview_command(kind, row)
            assert command.startswith("preview ")
            reply = shell.reply(command)
            assert not reply.failed or "Error in the debugger" not in reply.message.text
            if kind == "value":
                assert reply.document.menu[0].command.startswith("pt ")
    heads = document.lines(document.tables[0].first, document.tables[0].first + 1)[0]
    assert preview_command("value", heads) == ""


def test_the_repeated_dump_of_a_row_is_the_one_that_is_shown(shell):
    document = shell.document("lt -n loop/body")
    row = next(line for line in document if "(#2)" in line.text)
    assert preview_command("value", row).endswith("--kind value -n 2")
    text = shell.text(preview_command("value", row))
    assert "dump #2" in text
