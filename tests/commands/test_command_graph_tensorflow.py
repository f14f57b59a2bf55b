"""``ni``, ``li``, ``lo`` and tracebacks beside TensorFlow's own analyzer, on the same dump."""

import importlib.util
import os
import re

import pytest
from command_kit import Shell

from tfdbg_cli.dumps.proto.graph_def import NodeDef, graph_chunks, parse_graph_def
from tfdbg_cli.dumps.tfdbg_dir.debug_dump_dir import DebugDumpDir
from tfdbg_cli.dumps.tfdbg_dir.events import graph_event
from tfdbg_cli.dumps.tfdbg_dir.names import device_name_to_device_path

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.skipif(
        importlib.util.find_spec("tensorflow") is None, reason="TensorFlow is not installed"
    ),
]

CPU0, CPU1 = (f"/job:localhost/replica:0/task:0/device:CPU:{n}" for n in (0, 1))
_RUNTIME = re.compile(r"_arg_(.+)_\d+_\d+|(.+)/_\d+")


def user_name(name):
    match = _RUNTIME.fullmatch(name.replace("/ctrl/_", "/_"))
    return name if match is None else user_name(match[1] or match[2])


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """A run over two devices under TensorFlow's own dumping wrapper: its folder and its graph."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf
    from tensorflow.python.debug.wrappers.dumping_wrapper import DumpingDebugWrapperSession

    v1 = tf.compat.v1
    v1.disable_control_flow_v2()
    try:
        with tf.Graph().as_default() as graph:
            x = v1.placeholder(tf.float32, [None, 2], name="input/x")
            with tf.device("/device:CPU:0"):
                relu = tf.nn.relu(x, name="hidden/Relu")
                parts = tf.split(relu, 2, axis=1, name="parts")
            with tf.device("/device:CPU:1"):
                there = tf.exp(relu, name="there")
                log = tf.math.log(there - 1.0, name="log")
            with tf.device("/device:CPU:0"), tf.control_dependencies([there]):
                back = tf.add(log, parts[1], name="back")
                after = tf.identity(x, name="after")
            loop = v1.while_loop(
                lambda i: tf.less(i, 3), lambda i: tf.add(i, 1, name="body"), [tf.constant(0)]
            )
        root = tmp_path_factory.mktemp("tf") / "root"
        config = v1.ConfigProto(device_count={"CPU": 2})
        with v1.Session(graph=graph, config=config) as session:
            wrapped = DumpingDebugWrapperSession(session, str(root))
            wrapped.run([back, after, loop, *parts], {x: [[0.0, 2.0], [3.0, -4.0]]})
    finally:
        v1.enable_control_flow_v2()
    (folder,) = root.iterdir()
    return folder, graph


@pytest.fixture(scope="module")
def theirs(program):
    from tensorflow.python.debug.lib import debug_data

    folder, graph = program
    dump = debug_data.DebugDumpDir(str(folder), validate=False)
    dump.set_python_graph(graph)
    return dump


@pytest.fixture(scope="module")
def shell(program):
    folder, graph = program
    dump = DebugDumpDir(folder)
    dump.set_python_graph(graph)
    return Shell(dump, "offline")


def compared(shell, theirs):
    """The nodes of the user's that both know."""
    names = [name for name in theirs.nodes() if name in shell.dump.graph()]
    # What a device has received is no node of the user's.
    found = [name for name in names if user_name(name) == name]
    assert len(found) > 20
    return found


def their_sources(theirs, name, control):
    """The user's names of a node's inputs: what was received comes from whoever sent it."""
    return [user_name(source.partition(":")[0]) for source in theirs.node_inputs(name, control)]


def test_op_types_and_devices(shell, theirs):
    for name in compared(shell, theirs):
        lines = shell.lines(f"ni {name}")
        assert lines[2] == f"  Op: {theirs.node_op_type(name)}"
        assert lines[3] == f"  Device: {theirs.node_device(name)}"


def test_inputs_and_control_inputs(shell, theirs):
    graph = shell.dump.graph()
    for name in compared(shell, theirs):
        edges = graph.inputs(name)
        data = [edge.node for edge in edges if not edge.is_control]
        assert data == their_sources(theirs, name, False), name
        control = {edge.node for edge in edges if edge.is_control}
        assert control == set(their_sources(theirs, name, True)) - {name}, name


def test_recipients_are_the_inputs_turned_round(shell, theirs):
    names = compared(shell, theirs)
    expected = {name: set() for name in names}
    for name in names:
        for source in their_sources(theirs, name, False):
            expected.setdefault(source, set()).add(name)
    for name in names:
        lines = shell.lines(f"lo {name}")[1:]
        shown = [text.split()[2] for text in lines[: lines.index("")] if "[None]" not in text]
        # A copy that another device received stands beside whoever uses it there.
        shown = {item for item in shown if user_name(item) == item}
        assert shown == expected[name], name


def test_the_tree_is_theirs_without_the_repetitions(shell, theirs):
    from tensorflow.python.debug.cli import analyzer_cli, cli_config

    config = cli_config.CLIConfig(config_file_path=os.devnull)
    analyzer = analyzer_cli.DebugAnalyzer(theirs, config)

    def listed(lines):
        found = {re.search(r"\) (?:\(Ctrl\) )?([^ ()]+)", line) for line in lines if "|- (" in line}
        return {user_name(match[1].partition(":")[0]) for match in found if match}

    # On one device: theirs ends where an edge leads to another one.
    output = analyzer.list_inputs(["-c", "-r", "-d", "6", "parts"]).lines
    assert listed(shell.lines("li -c -r -d 6 parts")) == listed(output)
    assert listed(output) == {"hidden/Relu", "input/x", "parts/split_dim"}
    for name in ("while/Exit", "while/Switch", "while/body"):
        mine = shell.lines(f"li -c -r -d 30 {name}")
        output = analyzer.list_inputs(["-c", "-r", "-d", "8", name]).lines
        assert listed(mine) == listed(output)
        assert len(mine) < len(output)


def test_edges_between_devices(shell, theirs):
    # The original's list is empty or ends in a copy.
    assert set(their_sources(theirs, "there", False)) == {"hidden/Relu"}
    assert shell.lines("li there")[1] == "|- (1) hidden/Relu"
    assert "|- (1) there" in shell.lines("lo hidden/Relu")
    assert "|- (1) (Ctrl) after" in shell.lines("lo -c there")
    lines = shell.lines("li -c -r back")
    assert any(text.endswith(" input/x") for text in lines)
    copies = [name for name in theirs.nodes(CPU1) if theirs.node_op_type(name) == "_Recv"]
    assert copies
    for copy in copies:
        lines = shell.lines(f"lo {copy}")
        assert "  [None]" not in lines, copy


def test_a_path_and_the_origin_over_devices(shell):
    lines = shell.lines("li --path hidden/Relu log")
    assert lines[0] == 'Path from "hidden/Relu" to "log": 3 step(s)'
    lines = shell.lines("li --path log back")
    assert any("log:0" in text and "-inf of 4" in text for text in lines)
    lines = shell.lines("li --to-first-bad back")
    assert '"log:0"' in lines[0]
    assert any("Made at" in text and "test_command_graph_tensorflow.py" in text for text in lines)


def test_tracebacks_are_theirs(shell, theirs):
    for name in ("log", "back", "hidden/Relu", "parts"):
        frames = [tuple(frame)[:3] for frame in theirs.node_traceback(name)]
        expected = [frame for frame in frames if not frame[0].startswith("<frozen ")]
        lines = shell.lines(f"ni -t -a {name}")
        shown = {}
        for at, text in enumerate(lines):
            match = re.fullmatch(r"(\d+): (.+)", text)
            if match:
                number = int(lines[at + 1].removeprefix("  Line:     "))
                path = match[2]  # as it is seen from here
                shown[int(match[1])] = (
                    path if path.startswith("<") else os.path.abspath(path),
                    number,
                    lines[at + 2].removeprefix("  Function: "),
                )
                assert lines[at + 3].removeprefix("  Text:     ") not in ("", "None")
        assert [shown[depth] for depth in sorted(shown)] == expected
    # A feed leads back to the placeholder.
    assert "Function: program" in shell.text("ni -t input/x")
    assert "Function: program" in shell.text("ni -t _arg_input/x_0_0")


def test_source_lines_of_a_dump_directory(shell):
    lines = shell.lines("ps test_command_graph_tensorflow.py")
    at = next(n for n, text in enumerate(lines) if 'name="log")' in text)
    assert re.match(r"L\d+ +\* ", lines[at])
    assert "log" in [text.strip() for text in lines[at + 1 : at + 4]]


def test_a_hand_made_dump_of_two_devices(tmp_path):
    text = """
        name: "{name}" op: "{op}" device: "{device}" {inputs}
        attr {{ key: "tensor_name" value {{ s: "edge_1_a" }} }}
        attr {{ key: "send_device" value {{ s: "CPU0" }} }}
        attr {{ key: "recv_device" value {{ s: "CPU1" }} }}
    """
    from google.protobuf import text_format
    from tensorflow.core.framework.graph_pb2 import GraphDef
    from tensorflow.core.framework.node_def_pb2 import NodeDef as TfNodeDef
    from tensorflow.python.debug.lib import debug_data

    def pair(name, op, device, inputs=""):
        made = text_format.Parse(
            text.format(name=name, op=op, device=device, inputs=inputs), TfNodeDef()
        )
        return parse_graph_def(GraphDef(node=[made]).SerializeToString()).node[0]

    for kind in ("", "Host"):
        root = tmp_path / f"run{kind}"
        send = pair("a/_0", f"_{kind}Send", CPU0, 'input: "a"')
        recv = pair("a/_1", f"_{kind}Recv", CPU1)
        graphs = {
            CPU0: [NodeDef("a", "Const", device=CPU0), send],
            CPU1: [recv, NodeDef("b", "Neg", ["a/_1"], device=CPU1)],
        }
        for device, nodes in graphs.items():
            folder = root / device_name_to_device_path(device)
            folder.mkdir(parents=True)
            data = b"".join(graph_event(graph_chunks(nodes), 1))
            (folder / "_tfdbg_graph_hash1_1").write_bytes(data)
        shell = Shell(DebugDumpDir(root), "offline")
        assert shell.lines("lo a")[1] == "|- (1) b"
        assert shell.lines("li b")[1] == "|- (1) a"
        # Nobody dumped the copy, so it is only another name.
        assert shell.lines("lo a/_1")[:2] == ['Recipients of node "a":', "|- (1) b"]
        assert shell.lines("li --path a b")[0] == 'Path from "a" to "b": 1 step(s)'

        other = debug_data.DebugDumpDir(str(root), validate=False)
        assert other.node_op_type("a/_1") == f"_{kind}Recv"
        assert other.node_inputs("b") == ["a/_1"]
        assert other.node_recipients("a") == ["a/_0"]
        assert other.node_recipients("a/_0") == []
