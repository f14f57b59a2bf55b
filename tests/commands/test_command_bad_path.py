"""``li --path`` and ``li --to-first-bad``: from a bad tensor back to where it began."""

import json
import tracemalloc

import numpy as np
import pytest
from command_kit import Shell, debug_run, link_of, tf

from tfdbg_cli.common.node_words import FORWARD_FRAMES, FORWARD_NODE, OWN_BACKWARD, PHASE
from tfdbg_cli.dumps.dump import Datum
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.run_info import RunError, RunInfo
from tfdbg_cli.dumps.sources import Frame

NAN, INF = np.float32(np.nan), np.float32(np.inf)


def dump_of(nodes, values):
    """A dump of nodes ``{name: (op type, inputs)}`` and values in time order.

    Returns:
        The dump, and the tensors that were read so far.
    """
    graph = Graph(Node(name, kind, inputs) for name, (kind, inputs) in nodes.items())
    dump, read = MemoryDump(graph), []
    for time, (name, value) in enumerate(values, 1):

        def load(name=name, value=value):
            read.append(name)
            return np.asarray(value)

        node, _, slot = name.partition(":")
        dtype = np.asarray(value).dtype.name
        datum = Datum(node, int(slot or 0), load, timestamp=time, dtype=dtype, shape=(), nbytes=4)
        dump.add_datum(datum)
    return dump, read


CHAIN = {
    "x": ("Placeholder", []),
    "far": ("Neg", ["x:0"]),
    "log": ("Log", ["x:0"]),
    "folded": ("Mul", ["log:0", "x:0"]),
    "sum": ("Sum", ["folded:0"]),
    "out": ("Identity", ["sum:0"]),
}
HEALTHY = np.float32(1)
CHAIN_VALUES = [("x", HEALTHY), ("far", NAN), ("log", NAN), ("sum", NAN), ("out", NAN)]


def test_a_path_names_nodes_tensors_and_their_health(shell):
    lines = shell.lines("li --path input/x bad/Mul")
    assert lines == [
        'Path from "input/x" to "bad/Mul": 4 step(s)',
        "  [Placeholder] input/x",
        "    |  input/x:0  float32 [2, 3]  clean",
        "  [MatMul] hidden/MatMul",
        "    |  hidden/MatMul:0  float32 [2, 2]  clean",
        "  [Relu] hidden/Relu",
        "    |  hidden/Relu:0  float32 [2, 2]  clean",
        "  [Log] bad/Log",
        "    |  bad/Log:0  float32 [2, 2]  2 -inf of 4",
        "  [Mul] bad/Mul",
        "       bad/Mul:0  float32 [2, 2]  2 nan of 4",
    ]
    assert shell.lines("lo --path input/x bad/Mul") == lines
    assert shell.lines("li --path input/x:0 bad/Mul:0") == lines
    document = shell.document("li --path input/x bad/Mul")
    assert link_of(document, "bad/Log:0") == "pt bad/Log:0"
    assert link_of(document, "bad/Log") == "ni -a -d -t bad/Log"


def test_a_path_the_other_way_and_over_control_edges(shell):
    lines = shell.lines("li --path bad/Mul input/x")
    assert lines[0] == 'Path from "input/x" to "bad/Mul": 4 step(s)'
    assert lines[1].startswith("(against the order asked")
    lines = shell.lines("li --path hidden/MatMul after")
    assert "(through control edges: no data flows all the way)" in lines
    assert "    |  (Ctrl) waits for it" in lines
    # Data come first where both lead there; with -c the shorter way does.
    assert "Ctrl" not in shell.text("li --path hidden/MatMul last")
    assert shell.lines("li -c --path hidden/MatMul last")[0].endswith(": 2 step(s)")
    assert shell.lines("li --path text loop/Exit") == [
        'No path leads from "text" to "loop/Exit", nor the other way.'
    ]
    assert shell.lines("li --path uniq uniq")[0] == 'Path from "uniq" to "uniq": 0 step(s)'


def test_a_path_as_json(shell):
    rows = [json.loads(text) for text in shell.lines("li --json --path hidden/Relu bad/Mul")]
    assert rows == [
        {
            "node": "hidden/Relu",
            "op_type": "Relu",
            "tensor": "hidden/Relu:0",
            "control": False,
            "dumped": True,
            "bad": False,
        },
        {
            "node": "bad/Log",
            "op_type": "Log",
            "tensor": "bad/Log:0",
            "control": False,
            "dumped": True,
            "bad": True,
        },
        {
            "node": "bad/Mul",
            "op_type": "Mul",
            "tensor": None,
            "control": False,
            "dumped": True,
            "bad": True,
        },
    ]
    assert shell.lines("li --json --path text loop/Exit") == []


def test_only_the_tensors_on_the_path_are_read():
    dump, read = dump_of(CHAIN, CHAIN_VALUES)
    shell = Shell(dump)
    assert "    |  folded:0  (not dumped)" in shell.lines("li --path x out")
    assert sorted(read) == ["out", "sum", "x"]


def test_from_a_bad_tensor_back_to_where_it_began(shell):
    lines = shell.lines("li --to-first-bad bad/Mul:0")
    assert lines[:4] == [
        'From "bad/Mul:0" back to the bad tensor it began with, "bad/Log:0": 1 step(s)',
        "  [Mul] bad/Mul:0  float32 [2, 2]  2 nan of 4",
        "  <- [Log] bad/Log:0  float32 [2, 2]  2 -inf of 4   here it began",
        "",
    ]
    assert lines[4:6] == [
        "Its inputs were clean:",
        "  [Relu] hidden/Relu:0  float32 [2, 2]  clean  min 0, max 6",
    ]
    assert "command_kit.py:" in lines[6] and lines[6].endswith('log = tf.log(relu, name="bad/Log")')
    document = shell.document("li --to-first-bad bad/Mul")
    assert link_of(document, "ni -t") == "ni -t bad/Log"
    assert link_of(document, "pt --bad") == "pt bad/Log:0 --bad"
    for command in [s.link.command for line in document for s in line.spans if s.link]:
        assert not shell.reply(command).failed, command


def test_without_a_node_it_starts_at_the_first_bad_tensor(shell):
    lines = shell.lines("li --to-first-bad")
    assert lines[0] == '"bad/Log:0" is bad, and nothing bad leads to it:'
    assert lines[1].endswith("here it began")
    dump, _ = dump_of({"a": ("A", [])}, [("a", HEALTHY)])
    assert Shell(dump).lines("li --to-first-bad") == [
        "No tensor of this run holds a nan or an infinity."
    ]


def test_what_is_not_there_is_not_called_clean():
    dump, _ = dump_of({"a": ("A", [])}, [("a", HEALTHY)])
    dump.warnings.append("Tensors are missing.")
    for command in ("li --to-first-bad", "why"):
        told = " ".join(Shell(dump).lines(command))
        assert told.startswith("None of the tensors that are here holds"), told
    dump.set_run_info(RunInfo(error=RunError("InvalidArgumentError", "bad", "check")))
    for command in ("li --to-first-bad", "why"):
        told = " ".join(Shell(dump).lines(command))
        assert told.startswith("The run failed at check; of the tensors before, none"), told


def test_a_tensor_that_is_not_bad_is_said_so_in_one_line(shell):
    assert shell.lines("li --to-first-bad hidden/Relu") == [
        '"hidden/Relu" is not bad: its dumped tensor holds no nan and no infinity.'
    ]
    assert shell.lines("li --to-first-bad loop/Merge") == [
        '"loop/Merge" is not bad: none of its 10 dumped tensors holds nan or inf.'
    ]


def test_what_was_not_dumped_is_passed_through():
    dump, read = dump_of(CHAIN, CHAIN_VALUES)
    lines = Shell(dump).lines("li --to-first-bad out")
    assert [text.strip() for text in lines[1:5]] == [
        "[Identity] out:0  float32 []  1 nan of 1",
        "<- [Sum] sum:0  float32 []  1 nan of 1",
        "<- [Mul] folded  (not dumped)",
        "<- [Log] log:0  float32 []  1 nan of 1   here it began",
    ]
    # A bad tensor that is no ancestor isn't even read.
    assert "far" not in read
    del CHAIN_VALUES[3:4]
    try:
        dump, _ = dump_of(CHAIN, CHAIN_VALUES)
        assert '"log:0"' in Shell(dump).lines("li --to-first-bad sum")[0]
    finally:
        CHAIN_VALUES.insert(3, ("sum", NAN))


def test_inputs_of_which_nothing_is_known_are_named():
    nodes = {"hidden": ("Placeholder", []), "bad": ("Log", ["hidden:0", "gone:1"])}
    dump, _ = dump_of(nodes, [("bad", -INF)])
    lines = Shell(dump).lines("li --to-first-bad bad")
    assert "Not dumped, so their health is unknown:" in lines
    assert "  [Placeholder] hidden:0" in lines
    assert "  [?] gone:1" in lines
    dump.lists_only_bad = True
    lines = Shell(dump).lines("li --to-first-bad bad")
    assert "Not dumped, as only what is bad was kept:" in lines
    assert not any("unknown" in each for each in lines)
    dump, _ = dump_of({"c": ("Const", [])}, [("c", NAN)])
    assert "It has no inputs: the value comes in here." in Shell(dump).lines("li --to-first-bad")
    dump, _ = dump_of(nodes, [])
    assert Shell(dump).lines("li --to-first-bad bad") == [
        '"bad" was not dumped, and none of its inputs holds nan or inf.'
    ]


def test_an_ancestor_that_became_bad_later_does_not_count():
    nodes = {"variable": ("VariableV2", []), "read": ("Log", ["variable:0"])}
    dump, _ = dump_of(nodes, [("variable", HEALTHY), ("read", NAN), ("variable", NAN)])
    lines = Shell(dump).lines("li --to-first-bad read")
    assert lines[0] == '"read:0" is bad, and nothing bad leads to it:'
    assert any("variable:0 (dump 0)" in text and "clean" in text for text in lines)


def test_all_origins_are_named_nearest_first():
    nodes = {
        "a": ("Log", []),
        "b": ("Log", []),
        "after_b": ("Neg", ["b:0"]),
        "sum": ("Add", ["after_b:0", "a:0"]),
    }
    dump, _ = dump_of(nodes, [("b", NAN), ("a", NAN), ("after_b", NAN), ("sum", NAN)])
    shell = Shell(dump)
    lines = shell.lines("li --to-first-bad sum")
    assert '"a:0"' in lines[0]
    assert lines[-2:] == ["1 more bad tensor(s) with clean inputs:", "  [Log] b:0  2 step(s) away"]
    assert link_of(shell.document("li --to-first-bad sum"), "b:0") == "li --to-first-bad b:0"
    rows = [json.loads(text) for text in shell.lines("li --json --to-first-bad sum")]
    assert [row["chain"] for row in rows] == [["sum:0", "a:0"], ["sum:0", "after_b:0", "b:0"]]
    assert rows[0]["nan"] == 1 and rows[0]["clean_inputs"] == []


def test_a_loop_is_walked_back_iteration_by_iteration():
    with tf.Graph().as_default():

        def body(i, value):
            minus = tf.subtract(value, 1.0, name="minus")
            return tf.add(i, 1), tf.log(minus, name="log")

        start = [tf.constant(0), tf.constant([3.0, 1.0], name="x")]
        loop = tf.while_loop(lambda i, value: tf.less(i, 4), body, start, name="loop")
        total = tf.add(loop[1], 1.0, name="total")
        with tf.Session() as session:
            dump = debug_run(session, total)
    shell = Shell(dump)
    lines = shell.lines("li --to-first-bad total")
    assert '"loop/log:0"' in lines[0]
    begun = next(text for text in lines if "here it began" in text)
    assert "loop/log:0 (dump 0)" in begun and "1 -inf of 2" in begun
    assert any("loop/minus:0 (dump 0)" in text and "min 0, max 2" in text for text in lines)
    passed = [text for text in lines if "<- [Log]" in text]
    assert len(passed) == 4  # once in each iteration


@pytest.mark.slow
@pytest.mark.parametrize("count", [20_000])
def test_a_long_way_back_is_walked_without_recursion(count):
    nodes = {"n0": ("Log", [])}
    nodes |= {f"n{n}": ("Neg", [f"n{n - 1}:0"]) for n in range(1, count)}
    dump, _ = dump_of(nodes, [(f"n{n}", NAN) for n in range(count)])
    document = Shell(dump).document(f"li --to-first-bad n{count - 1}")
    assert document.line_count > count
    assert "here it began" in document.lines(count, count + 1)[0].text


MASKED = {
    "x": ("Input", []),
    "mask": ("masked_fill", ["x:0"]),
    "softmax": ("_softmax", ["mask:0"]),
    "out": ("Sum", ["softmax:0"]),
    "log": ("log", ["x:0"]),
    "where": ("where", ["x:0", "log:0"]),
}
MASKED_VALUES = [
    ("x", HEALTHY),
    ("mask", -INF),
    ("softmax", NAN),
    ("out", NAN),
    ("log", -INF),
    ("where", HEALTHY),
]


def test_it_ends_where_the_filter_says_that_it_began():
    shell = Shell(dump_of(MASKED, MASKED_VALUES)[0])
    for command in ("li --to-first-bad out", "li --to-first-bad"):
        lines = shell.lines(command)
        begun = [text for text in lines if "here it began" in text]
        assert len(begun) == 1 and "[_softmax] softmax:0" in begun[0]
        assert "Its inputs; bad values in them are intended, or were there before the run:" in lines
    assert "  [_softmax] softmax:0  float32 []  1 nan of 1" in "\n".join(lines)
    lines = shell.lines("li --to-first-bad mask")
    assert [text for text in lines if text.startswith("No origin: the program has written it")]


def test_what_stayed_local_is_said_so():
    shell = Shell(dump_of(MASKED, MASKED_VALUES)[0])
    local = "It stayed local: it makes nothing bad that the run returns or updates."
    assert local in shell.lines("li --to-first-bad log")
    assert local not in shell.lines("li --to-first-bad out")
    rows = [json.loads(text) for text in shell.lines("li --json --to-first-bad log")]
    assert [(row["began_here"], row["stayed_local"]) for row in rows] == [(True, True)]
    lines = shell.lines("lt -f origin_of_nonfinite")
    assert lines[:2] == [
        '1 dumped tensor(s) passing filter "origin_of_nonfinite":',
        "log:0 stayed local: it makes nothing bad that the run returns or updates.",
    ]
    assert "log:0" not in shell.text("lt -f origin_of_nonfinite -n softmax")
    assert "stayed local" not in shell.text("lt -f has_inf_or_nan")


def test_a_long_way_through_tensors_that_were_not_dumped_costs_what_is_on_it():
    nodes = {"op_0": ("Const", [])}
    for number in range(1, 20_000):
        inputs = [f"op_{number - 1}:0", f"op_{max(number - 7, 0)}:0"]
        nodes[f"op_{number}"] = ("Add", inputs)
    values = [(f"op_{number}", NAN if number == 0 else 0.0) for number in range(0, 20_000, 10)]
    dump, _ = dump_of(nodes, values)
    shell = Shell(dump)
    tracemalloc.start()
    try:
        text = shell.text("li --to-first-bad op_19999")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 'back to the bad tensor it began with, "op_0:0"' in text
    # A way to each of 2,000 tensors that keeps all its nodes would be 160 MB.
    assert most < 40_000_000


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({}, "Made at"),
        ({PHASE: "forward"}, "Called at"),
        ({PHASE: "backward"}, "Called at"),
        ({PHASE: "backward", FORWARD_FRAMES: "1"}, "Forward op called at"),
        ({PHASE: "backward", FORWARD_NODE: "log"}, "Forward op called at"),
        ({PHASE: "backward", FORWARD_NODE: "log", OWN_BACKWARD: "true"}, "Called at"),
    ],
)
def test_whose_line_it_is(attributes, words):
    frames = [Frame(__file__, 7, "f")]
    graph = Graph([Node("div", "div", attributes=attributes, frames=frames)])
    dump = MemoryDump(graph)
    dump.add_datum(Datum("div", 0, lambda: NAN, timestamp=1, dtype="float32", shape=(), nbytes=4))
    shell = Shell(dump)
    lines = shell.lines("li --to-first-bad div")
    assert [text for text in lines if text.startswith(f"{words} ")], lines
    lines = shell.lines("ni -t div")
    assert [text for text in lines if text.startswith(f"  {words}: ")], lines
