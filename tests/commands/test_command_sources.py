"""``ni -t``, ``ls`` and ``ps``: the lines that made nodes, as they ran, online and offline."""

import json
import linecache
import os
import time

import numpy as np
import pytest
from command_kit import Shell, debug_run, link_of, roles, tf

from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.run_folder.dump import RunFolderDump, write_run_folder
from tfdbg_cli.dumps.sources import Frame, Sources
from tfdbg_cli.dumps.tfdbg_dir.runtime_names import fused_types, user_names

LIBRARY = "/x/site-packages/tf/ops.py"


def made_by(source, path, mode="exec", **names):
    """The dump of a program that is compiled from a text and makes a node ``c``."""
    with tf.Graph().as_default():
        scope = {"tf": tf, **names}
        exec(compile(source, path, mode), scope)
        with tf.Session() as session:
            return debug_run(session, scope["c"])


def test_the_users_frames_come_first_and_libraries_are_folded():
    frames = [
        Frame(LIBRARY, 1, "run"),
        Frame("/me/train.py", 2, "<module>"),
        Frame(LIBRARY, 7, "call"),
        Frame("/me/model.py", 3, "layer", "return k.f()"),
        Frame(LIBRARY, 9, "make"),
    ]
    sources = Sources({"/me/train.py": "import model\nmodel.layer()\n"}, live=False)
    shell = Shell(MemoryDump(Graph([Node("a b", "A", frames=frames)]), sources))
    lines = shell.lines('ni -t "a b"')
    at = lines.index("Traceback of node construction:")
    assert lines[at + 1 :] == [
        "1: /me/train.py",
        "  Line:     2",
        "  Function: <module>",
        "  Text:     model.layer()",
        "3: /me/model.py",
        "  Line:     3",
        "  Function: layer",
        "  Text:     return k.f()",
        "(3 frame(s) inside libraries: ni -t -a shows them)",
    ]
    document = shell.document('ni -t "a b"')
    command = link_of(document, "(3 frame(s) inside libraries: ni -t -a shows them)")
    assert command == 'ni -t -a "a b"'
    # Only a file whose text is known can be opened.
    assert link_of(document, "2") == "ps /me/train.py -b 2"
    assert [s.text for line in document for s in line.spans if s.link and s.text == "3"] == []
    lines = shell.lines(command)
    assert "Node attributes:" in lines
    own = lines.index("3: /me/model.py")
    library = lines.index("Frames inside libraries:")
    assert own < library
    assert [text for text in lines[library:] if text.endswith("ops.py")] == [
        f"{depth}: {LIBRARY}" for depth in (0, 2, 4)
    ]
    assert "  Text:     (unknown)" in lines[library:]
    assert not any("None" in text for text in lines[own:])


def test_a_node_that_only_libraries_made():
    dump = MemoryDump(Graph([Node("a", "A", frames=[Frame(LIBRARY, 1, "f")])]))
    lines = Shell(dump).lines("ni -t a")
    assert lines[-2:] == [
        "  (All frames are inside libraries)",
        "(1 frame(s) inside libraries: ni -t -a shows them)",
    ]


def test_links_to_dumps_of_several_devices_and_debug_ops():
    dump = MemoryDump(Graph([Node("a", "A")]))
    dump.add("a", 0, np.zeros(1), timestamp=1, device_name="/device:CPU:0")
    dump.add("a", 0, np.ones(2), timestamp=2, device_name="/device:CPU:1")
    dump.add("a", 0, np.ones(14), timestamp=3, debug_op="DebugNumericSummary")
    dump.add("a", 1, np.ones(4), timestamp=4)
    shell = Shell(dump)
    commands = [command for command in shell.links("ni -d a") if command.startswith("pt a:")]
    assert commands == ["pt a:0 -n 0", "pt a:0 -n 1", "pt a:0 -n 2", "pt a:1"]
    for command, shape in zip(commands, ["(1,)", "(2,)", "(14,)", "(4,)"], strict=True):
        assert f"  shape: {shape}" in shell.lines(command)
    assert sum("@ /device:CPU:" in text for text in shell.lines("ni -d a")) == 2


def test_code_compiled_from_a_string_leads_to_the_line_that_ran_it():
    dump = made_by("def make():\n    return tf.constant(1.0, name='c')\nc = make()\n", "<string>")
    lines = Shell(dump).lines("ni -t c")
    at = lines.index("  Text:     exec(compile(source, path, mode), scope)")
    assert lines[at - 3].endswith("test_command_sources.py")
    assert lines[at + 1] == "2: <string>" or lines[at + 1].endswith(": <string>")
    assert "  Text:     (unknown: compiled from a string)" in lines[at:]


def test_code_of_a_notebook_is_shown_with_its_text():
    name, source = "<ipython-input-1-abc>", "c = tf.constant(2.0, name='c')\n"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    try:
        shell = Shell(made_by(source, name))
        assert "  Text:     c = tf.constant(2.0, name='c')" in shell.lines("ni -t c")
        assert shell.lines(f'ps "{name}"')[:2] == [
            "L1 * c = tf.constant(2.0, name='c')",
            "       c",
        ]
        assert f'ps "{name}" -b 1' in shell.links("ls") or f"ps {name} -b 1" in shell.links("ls")
    finally:
        del linecache.cache[name]


def test_the_lines_that_ran_are_marked(tmp_path):
    path = tmp_path / "model.py"
    source = (
        "import math\nunused = tf.constant(3.0, name='unused')\nc = tf.constant(1.0, name='c')\n"
    )
    path.write_text(source)
    os.utime(path, (1e9, 1e9))
    document = Shell(made_by(source, str(path))).document("ps model.py")
    assert [line.text for line in document][:5] == [
        "L1   import math",
        "L2 - unused = tf.constant(3.0, name='unused')",
        "       unused",
        "L3 * c = tf.constant(1.0, name='c')",
        "       c",
    ]
    assert link_of(document, "c") == "ni -a -d -t c"
    assert "unused" in roles(document, "info")
    assert "(*: this run computed nodes" in document.text


def test_the_source_is_shown_as_it_ran(tmp_path):
    path = tmp_path / "edited.py"
    source = "c = tf.constant(1.0, name='c')\n"
    path.write_text(source)
    os.utime(path, (1e9, 1e9))
    shell = Shell(made_by(source, str(path)))
    assert "L1 * c = tf.constant(1.0" in shell.text("ps edited.py")
    path.write_text("# nothing\n")
    assert "L1 * c = tf.constant(1.0" in shell.text("ps edited.py")
    # A file that was edited before anybody looked at it says so.
    late = tmp_path / "late.py"
    late.write_text("\n" + source)
    os.utime(late, (time.time() + 10,) * 2)
    shell = Shell(made_by(source, str(late)))
    lines = shell.lines("ps -b 2 late.py")
    assert lines[0].startswith("(changed on disk since the program started")
    assert lines[shell.document("ps -b 2 late.py").initial_line].startswith("L2")
    assert any("late.py: changed on disk" in text for text in shell.lines("ni -t c"))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"# coding: latin-1\nc = tf.constant(1.0, name='c')  # \xe9\n", "'c')  # é"),
        (b"\xff\nc = tf.constant(1.0, name='c')\n", "L2 * c = tf.constant"),
        (b"x = 1\n\x0cc = tf.constant(1.0, name='c')\n", "L2 *  c = tf.constant"),
        (b"if True:\n\tc = tf.constant(1.0, name='c')\n", "L2 *         c = tf.constant"),
        (b"x = '" + b"x" * 100_000 + b"'\nc = tf.constant(1.0, name='c')\n", "L2 * c = tf.const"),
    ],
)
def test_odd_files_are_shown(tmp_path, data, expected):
    path = tmp_path / "odd.py"
    path.write_bytes(data)
    dump = made_by("\nc = tf.constant(1.0, name='c')\n", str(path))
    text = Shell(dump).text("ps odd.py")
    assert expected in text
    assert not any(char in text for char in "\x0c\t")


def test_a_file_that_is_gone_shows_the_lines_that_made_nodes(tmp_path):
    source = "c = tf.constant(1.0, name='c')\n" * 2
    shell = Shell(made_by(source, str(tmp_path / "gone.py")))
    lines = shell.lines("ps gone.py")
    assert "isn't known here" in lines[0]
    assert lines[1:3] == ["L1 - (unknown)", "       c"]
    assert any(text.endswith("gone.py") for text in shell.lines("ni -t c"))


def test_compiled_files_get_no_link(tmp_path):
    path = tmp_path / "model.pyc"
    path.write_bytes(b"\xa7\r\r\n\0\0\0\0")
    frames = [Frame(str(path), 1, "<module>"), Frame(LIBRARY, 1, "f")]
    shell = Shell(MemoryDump(Graph([Node("a", "A", frames=frames)])))
    assert any(text.startswith(str(path)) for text in shell.lines("ls"))
    assert not any(command.startswith("ps") for command in shell.links("ls"))


def test_many_tensors_on_a_line(shell):
    document = shell.document("ps -t -m 1 command_kit.py")
    omitted = [line for line in document if "Omitted" in line.text]
    assert omitted and "tensor(s)" in omitted[0].text
    command = link_of(document, "+5")
    assert command.endswith(" -m 6 -t")
    assert not shell.reply(command).failed


def test_a_dump_without_creation_stacks_says_so_in_one_line():
    dump = MemoryDump(Graph([Node("a", "A")]))
    shell = Shell(dump)
    assert shell.lines("ls")[2] == "[No source file information.]"
    assert "holds no creation stacks" in shell.lines("ls")[3]
    assert "holds no creation stacks" in shell.error("ps train.py")
    assert shell.lines("ls --json") == []


def test_source_files_as_json(shell, dump):
    rows = [json.loads(text) for text in shell.lines("ls --json")]
    (own,) = [row for row in rows if row["path"].endswith("command_kit.py")]
    assert own["nodes"] == len(dump.graph())
    assert own["dumps"] == len(dump.data())
    assert own["library"] is False and own["text_known"] is True
    assert {row["library"] for row in rows} == {True, False}
    filtered = [json.loads(text) for text in shell.lines("ls --json -p mand_kit -n Relu$")]
    assert [row["nodes"] for row in filtered] == [1]


def test_offline_everything_is_as_it_was_online(dump, tmp_path):
    write_run_folder(dump, tmp_path / "run")
    loaded = RunFolderDump(tmp_path / "run")
    try:
        offline, online = Shell(loaded, "offline"), Shell(dump)
        for command in ("ps command_kit.py", "ps -t -m 2 command_kit.py", "ni -t bad/Log"):
            assert offline.lines(command) == online.lines(command)
        for command in (
            "li --to-first-bad bad/Mul",
            "li --path input/x last",
            "li -c -r loop/Exit",
        ):
            assert offline.lines(command) == online.lines(command)
        own = [text for text in offline.lines("ls") if "command_kit.py" in text]
        assert own == [text for text in online.lines("ls") if "command_kit.py" in text]
    finally:
        loaded.close()


@pytest.mark.parametrize(
    ("runtime", "user"),
    [
        ("_arg_input/x-input_0_0", "input/x-input"),
        ("_retval_inv_0_0", "inv"),
        ("on_cpu1/_3", "on_cpu1"),
        ("_arg_ph_0_0/_1", "ph"),
        ("l998/unary_ops_composition", "l998"),
        ("ConstantFolding/a/b-folded-0", "a/b"),
        ("ConstantFolding/a/b_recip", "a/b"),
        ("conv-0-TransposeNHWCToNCHW-LayoutOptimizer", "conv"),
        ("a/ArithmeticOptimizer/ReplaceMulWithSquare_b", "a/b"),
    ],
)
def test_a_runtime_name_leads_to_the_users_node(runtime, user):
    assert user in list(user_names(runtime))
    shell = Shell(MemoryDump(Graph([Node(user, "Op", frames=[Frame("/me/a.py", 1, "f")])])))
    lines = shell.lines(f"ni -t {runtime}")
    assert lines[0] == f"Node {user}"
    assert f'  ("{runtime}" stands for it in the graph that ran)' in lines
    assert "0: /me/a.py" in lines
    assert shell.lines(f"li {runtime}")[0] == f'Inputs to node "{user}":'


def test_fused_nodes_say_what_they_were_made_of():
    ops = {"op_names": "[Tanh, Tanh, Relu]"}
    graph = Graph(
        [
            Node("s/l9/unary_ops_composition", "_UnaryOpsComposition", attributes=ops),
            Node("s/Relu", "_FusedMatMul", attributes={"fused_ops": "[BiasAdd, Relu]"}),
            Node("s/plain", "Relu", attributes=ops),
        ]
    )
    shell = Shell(MemoryDump(graph))
    assert "  Fused by the runtime out of 3 operations: 2 x Tanh, Relu" in shell.lines(
        "ni s/l9/unary_ops_composition"
    )
    assert "out of 3 operations: MatMul, BiasAdd, Relu" in shell.text("ni s/Relu")
    assert fused_types(graph.nodes["s/plain"]) == {}
    text = shell.error("ni s/Wx_plus_b/MatMul")
    assert "fused or folded it: see s/l9/unary_ops_composition, s/Relu" in text
