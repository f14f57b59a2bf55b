"""``ni``, ``li``, ``lo``, ``ls``, ``ps``: nodes and the lines that made them."""

import json
import os
import re
import time
from pathlib import Path

import numpy as np
import pytest
from command_kit import Shell, link_of

from tfdbg_cli.dumps.graph import Graph, Node, node_name_of
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.sources import Frame, Sources

KIT = str(Path(__file__).with_name("command_kit.py"))
KIT_LINES = Path(KIT).read_text(encoding="utf-8").splitlines()


def line_with(text):
    return next(number for number, source in enumerate(KIT_LINES, 1) if text in source)


def test_a_node_with_its_neighbours(shell):
    lines = shell.lines("ni hidden/MatMul")
    assert lines[:4] == [
        "Node hidden/MatMul",
        "",
        "  Op: MatMul",
        "  Device: /job:localhost/replica:0/task:0/device:CPU:0",
    ]
    assert "  2 input(s) + 0 control input(s):" in lines
    assert "      [Placeholder] input/x" in lines
    assert "  1 recipient(s) + 1 control recipient(s):" in lines
    assert "      [Identity] after" in lines[lines.index("    1 control recipient(s):") :]
    assert shell.lines("node_info hidden/MatMul:0") == lines
    assert link_of(shell.document("ni hidden/MatMul"), "input/x") == "ni -a -d -t input/x"


def test_attributes_dumps_and_the_line_that_made_it(shell):
    lines = shell.lines("ni -a -d -t hidden/MatMul")
    assert "Node attributes:" in lines
    assert any("float32" in text for text in lines)
    assert "1 dumped tensor(s):" in lines
    where = line_with('name="MatMul")')
    at = lines.index(f"  Line:     {where}")
    assert lines[at - 1].endswith("command_kit.py")
    assert lines[at + 1 : at + 3] == [
        "  Function: make_dump",
        f"  Text:     {KIT_LINES[where - 1].strip()}",
    ]
    document = shell.document("ni --traceback hidden/MatMul")
    assert link_of(document, str(where)) == f"ps {KIT} -b {where}"
    assert not any("engines/numpy" in text for text in lines)


def test_the_users_own_line_is_in_the_head(shell):
    where = line_with('name="MatMul")')
    lines = shell.lines("ni -t hidden/MatMul")
    assert lines[4:6] == [
        f"  Made at: command_kit.py:{where} in make_dump",
        f"    {KIT_LINES[where - 1].strip()}",
    ]
    document = shell.document("ni -t hidden/MatMul")
    assert link_of(document, f"command_kit.py:{where}") == f"ps {KIT} -b {where}"
    assert not any("Made at" in text for text in shell.lines("ni hidden/MatMul"))


def test_the_innermost_frame_first_if_a_setting_says_so(shell):
    def depths():
        found = [re.match(r"(\d+): /", text) for text in shell.lines("ni -t hidden/MatMul")]
        return [int(match[1]) for match in found if match]

    outermost_first = depths()
    assert outermost_first == sorted(outermost_first)
    shell.reply("config set innermost_first on")
    assert depths() == outermost_first[::-1]


def test_the_links_to_dumps_of_every_slot_work(shell):
    commands = [c for c in shell.links("ni -d uniq") if c.startswith("pt uniq:")]
    assert commands == ["pt uniq:0", "pt uniq:1"]
    commands = [c for c in shell.links("ni -d loop/Merge") if c.startswith("pt loop/Merge:")]
    assert len(commands) == 10
    assert commands[0] == "pt loop/Merge:0 -n 0"
    for command in commands:
        shell.document(command)


def test_what_nobody_recorded_is_said_to_be_unknown():
    shell = Shell(MemoryDump(Graph([Node("a", "A")])))
    text = shell.text("ni -a -d -t a")
    assert "no stack was recorded" in text
    assert "(None)" in text
    assert "0 dumped tensor(s):" in text
    assert "(unknown)" in text


def test_inputs_direct_and_as_a_tree(shell):
    assert shell.lines("li hidden/Relu")[:2] == [
        'Inputs to node "hidden/Relu":',
        "|- (1) hidden/MatMul",
    ]
    lines = shell.lines("li -r -t hidden/Relu")
    assert lines[:5] == [
        'Inputs to node "hidden/Relu" (Depth limit = 20):',
        "|- (1) [MatMul] hidden/MatMul",
        "|  |- (2) [Placeholder] input/x",
        "|  |- (2) [Identity] hidden/weights/read",
        "|  |  |- (3) [VariableV2] hidden/weights",
    ]
    assert "  [Op]: Input node has op type Op." in lines
    assert shell.lines("list_inputs hidden/Relu:0") == shell.lines("li hidden/Relu")
    assert "  [None]" in shell.lines("li input/x")
    assert shell.lines("li uniq:1")[1] == "|- (1) numbers"


def test_an_input_that_is_not_the_first_output_has_its_slot():
    nodes = [
        Node("x", "Const"),
        Node("x_unique", "Unique", ["x:0"]),
        Node("both", "Gather", ["x_unique:0", "x_unique:1", "gone:2"]),
    ]
    shell = Shell(MemoryDump(Graph(nodes)))
    assert shell.lines("li both")[1:4] == [
        "|- (1) x_unique",
        "|- (1) x_unique:1",
        "|- (1) gone:2",
    ]
    assert shell.lines("li -r -t both")[1:4] == [
        "|- (1) [Unique] x_unique",
        "|  |- (2) [Const] x",
        "|- (1) [Unique] x_unique:1 (see line 2)",
    ]
    document = shell.document("li -r both")
    assert link_of(document, "x_unique:1") == "li -c -r x_unique"
    lines = shell.lines("ni both")
    at = lines.index("    3 input(s):")
    assert lines[at + 1 : at + 4] == [
        "      [Unique] x_unique",
        "      [Unique] x_unique:1",
        "      [?] gone:2",
    ]
    assert "      [Gather] both" in shell.lines("ni x_unique")


def test_control_inputs_only_if_asked(shell):
    assert not any("after" in text for text in shell.lines("li last"))
    lines = shell.lines("li -c last")
    assert "|- (1) (Ctrl) after" in lines
    assert "  (Ctrl): Control input." in lines
    lines = shell.lines("li -c -r last")
    assert "|  |- (2) (Ctrl) hidden/MatMul (see line 3)" in lines
    assert lines[2] == "|  |- (2) hidden/MatMul"


def test_recipients(shell):
    assert shell.lines("lo hidden/MatMul")[:2] == [
        'Recipients of node "hidden/MatMul":',
        "|- (1) hidden/Relu",
    ]
    lines = shell.lines("list_outputs -r -c -d 1 hidden/MatMul")
    assert "|- (1) (Ctrl) after" in lines
    assert "|  |- ... (deeper)" in lines


def test_the_depth_limit_is_shown(shell):
    lines = shell.lines("li -r -d 1 hidden/Relu")
    assert lines[1:3] == ["|- (1) hidden/MatMul", "|  |- ... (deeper)"]
    assert shell.lines("li -d 1 hidden/Relu") == lines
    shell.document("config set graph_recursion_depth 1")
    assert shell.lines("li -r hidden/Relu") == lines


def test_a_loop_is_walked_once(shell):
    lines = shell.lines("li -c -r -d 100 loop/Exit")
    assert len(lines) < 30
    assert any("(loop: see line " in text for text in lines)
    marked = [re.search(r"(\S+) \((?:loop: )?see line (\d+)\)", text) for text in lines]
    for match in filter(None, marked):
        # That line may be about another of its outputs.
        meant = lines[int(match[2]) - 1].rpartition(" ")[2]
        assert node_name_of(meant) == node_name_of(match[1])
    # The link searches for that line, and for no other.
    document = shell.document("li -c -r -t loop/Exit")
    links = [s.link.command for line in document for s in line.spans if s.link and "see" in s.text]
    for command in links:
        assert command.startswith("/")
        found = [text for text in lines if re.search(command[1:], text)]
        assert len(found) == 1 and "see line" not in found[0]
    assert "  (see line n): its own inputs are listed below line n." in lines


def test_the_tree_as_json(shell):
    rows = [json.loads(text) for text in shell.lines("li -c -r --json last")]
    assert rows[0] == {
        "depth": 1,
        "node": "hidden/Relu",
        "op_type": "Relu",
        "tensor": "hidden/Relu:0",
        "control": False,
        "see": None,
        "loop": False,
        "cut": False,
    }
    again = rows[-1]
    assert (again["node"], again["control"], again["tensor"]) == ("hidden/MatMul", True, None)
    assert rows[again["see"]]["node"] == "hidden/MatMul"
    assert [json.loads(text)["cut"] for text in shell.lines("li -d 1 --json bad/Mul")] == [
        True,
        False,
    ]
    assert shell.lines("li --json input/x") == []


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["fan", "diamond"])
def test_graphs_of_a_hundred_thousand_nodes_open_at_once(shape):
    count = 100_000
    nodes = [Node("n0", "Op")]
    if shape == "fan":
        nodes += [Node(f"n{n}", "Op", ["n0:0"]) for n in range(1, count)]
        nodes.append(Node("end", "Op", [f"n{n}:0" for n in range(1, count)]))
    else:
        for n in range(1, count):
            nodes.append(Node(f"n{n}", "Op", [f"n{max(n - step, 0)}:0" for step in (1, 2, 3)]))
        nodes.append(Node("end", "Op", [f"n{count - 1}:0"]))
    shell = Shell(MemoryDump(Graph(nodes)))
    begin = time.process_time()
    for command in ("li -r end", "lo -r n0", f"li -r -d {count} end", f"lo -r -d {count} n0"):
        document = shell.document(command)
        assert document.lines(document.line_count // 2, document.line_count // 2 + 40)
    assert shell.document("li --path n0 end").line_count > 4
    assert time.process_time() - begin < 120


@pytest.mark.slow
def test_a_chain_of_a_hundred_thousand_nodes():
    count = 100_000
    graph = Graph(
        Node(f"n{n}", "Op", [f"n{n - 1}:0"] if n else [], frames=None) for n in range(count)
    )
    shell = Shell(MemoryDump(graph))
    begin = time.process_time()
    document = shell.document(f"li -r -d {count} n{count - 1}")
    assert document.line_count > count - 1
    assert "n99998" in document.lines(1, 2)[0].text
    assert shell.document("lo -r -d 99999999 n0").line_count > count - 1
    assert shell.document("li -r n50000").line_count < 40
    assert time.process_time() - begin < 60
    # The last line is far below; it is made at once, and indented as far as somebody may look.
    (last,) = document.lines(count - 1, count)
    assert last.text.endswith("(99999) n0") or last.text.endswith("(99999) n0:0")
    assert len(last.text) < 400


def test_shared_inputs_do_not_multiply():
    nodes = [Node("n0", "Op")]
    for n in range(1, 200):
        nodes.append(Node(f"n{n}", "Op", [f"n{n - 1}:0", f"m{n}:0"]))
        nodes.append(Node(f"m{n}", "Op", [f"n{n - 1}:0"]))
    document = Shell(MemoryDump(Graph(nodes))).document("li -r -d 1000 n199")
    assert document.line_count < 1000


def test_source_files_that_made_nodes(shell, dump):
    lines = shell.lines("ls")
    assert lines[0] == "List of source files that created nodes in this run"
    own = lines[lines.index("Your file(s):") : lines.index("Library file(s):")]
    row = next(text for text in own if text.startswith(KIT))
    nodes, tensors, dumps = map(int, row.split()[-3:])
    assert nodes == len(dump.graph())
    assert tensors == len(dump.tensor_names())
    assert dumps == len(dump.data())
    library = lines[lines.index("Library file(s):") :]
    assert any("_pytest" in text or "pluggy" in text for text in library)
    assert shell.lines("list_source") == lines
    assert any(c.startswith(f"ps {KIT} -b ") for c in shell.links("ls"))


def test_source_filters_match_anywhere(shell):
    lines = shell.lines("ls -p mand_kit -n ^hidden/")
    assert 'File path regex filter: "mand_kit"' in lines
    assert 'Node name regex filter: "^hidden/"' in lines
    row = next(text for text in lines if text.startswith(KIT))
    assert int(row.split()[-3]) == 6
    assert "  [No files.]" in lines
    assert "[No source file information.]" in shell.lines("ls -n no_such_node")


def test_a_source_file_with_its_nodes(shell):
    for path in (KIT, "command_kit.py", "commands/command_kit.py", os.path.relpath(KIT)):
        document = shell.document(f"ps {path}")
        lines = [line.text for line in document]
        at = next(n for n, text in enumerate(lines) if text.endswith('name="MatMul")'))
        assert lines[at].split()[0] == "L" + str(line_with('name="MatMul")'))
        assert lines[at + 1].strip() == "hidden/MatMul"
    assert link_of(document, "hidden/MatMul") == "ni -a -d -t hidden/MatMul"
    assert shell.lines("print_source command_kit.py") == lines


def test_tensors_instead_of_nodes_and_the_first_line(shell):
    where = line_with("tf.unique(")
    document = shell.document(f"ps -t -b {where} command_kit.py")
    top = [line.text.split() for line in document.lines(document.initial_line, 10**6)]
    assert top[0][0] == f"L{where}"
    assert ["uniq:0"] in top[:5] and ["uniq:1"] in top[:5]
    assert link_of(document, "uniq:1") == "pt uniq:1"
    assert shell.document("ps -b 100000 command_kit.py").initial_line == 0


def test_many_nodes_on_a_line_are_cut_with_a_link_to_more(shell):
    document = shell.document("ps -m 1 command_kit.py")
    omitted = [line for line in document if "Omitted" in line.text]
    assert omitted
    command = next(span.link.command for span in omitted[0].spans if span.link)
    assert " -m 6" in command
    assert shell.document(command).line_count > document.line_count


def test_sources_of_another_machine():
    frames = [Frame("/home/a b/train.py", 2, "<module>"), Frame("/x/site-packages/k.py", 1, "f")]
    graph = Graph([Node("a", "A", frames=frames), Node("b", "B", frames=frames)])
    sources = Sources({"/home/a b/train.py": "import k\nk.f()\n"}, live=False)
    dump = MemoryDump(graph, sources)
    dump.add("a", 0, np.zeros(2), timestamp=1)
    shell = Shell(dump, "offline")
    assert "k.f()" in shell.text("ni -t a")
    assert "(1 frame(s) inside libraries: ni -t -a shows them)" in shell.text("ni -t a")
    for command in shell.links("ls") + shell.links("ni -t a") + shell.links("ps train.py"):
        shell.document(command)
    lines = shell.lines("ps /x/site-packages/k.py")
    assert "the text of this file isn't known here" in lines[0]
    assert lines[1:4] == ["L1 * (unknown)", "       a", "       b"]
    assert "Did you mean train.py?" in shell.error("ps trian.py")


def test_a_dump_without_a_graph_says_so():
    dump = MemoryDump()
    dump.add("a", 0, np.zeros(2), timestamp=1)
    shell = Shell(dump)
    for command in ("ni a", "li a", "lo a", "ls", "ps x.py"):
        assert "no graph" in shell.error(command)
    for command in [*shell.links("lt"), *shell.links("pt a:0")]:
        assert shell.reply(command).failed is False, command


@pytest.mark.parametrize(
    ("command", "parts"),
    [
        ("ni", ["required", "NODE"]),
        ("ni hidden/Matmul", ['"hidden/Matmul"', "Did you mean hidden/MatMul"]),
        ("li nope:0", ['"nope"']),
        ("li", ["NODE is required", "here NAME"]),
        ("lo --path input/x", ["NODE is required"]),
        ("li --path nope hidden/Relu", ['"nope"']),
        ("li --to-first-bad nope", ['"nope"']),
        ("li --to-first-bad --path input/x last", ["--path", "--to-first-bad"]),
        ("lo nope", ['"nope"']),
        ("li -d 0 hidden/Relu", ["-d/--depth", "depth (1 or more)", "'0'"]),
        ("li -d many hidden/Relu", ["-d/--depth", "'many'"]),
        ("ls -p [", ["-p", "not a regular expression"]),
        ("ls -n [", ["-n", "not a regular expression"]),
        ("ps", ["required", "FILE"]),
        ("ps comand_kit.py", ['"comand_kit.py"', "command_kit.py"]),
        ("ps -m 0 command_kit.py", ["-m", "number (1 or more)"]),
        ("ps -b x command_kit.py", ["-b", "'x'"]),
    ],
)
def test_mistakes_are_one_line_with_cause_and_fix(shell, capfd, command, parts):
    text = shell.error(command)
    for part in parts:
        assert part in text
    assert capfd.readouterr() == ("", "")
