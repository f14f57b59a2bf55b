"""What the original's own tests covered and no other test here does: commands and values.

The numbers in the docstrings are those of the cases in the list of the original's tests; cases
that stand elsewhere are in the tests of the commands, the tensors, the sessions and the screens.
"""

import itertools
import re

import numpy as np
import pytest
from command_kit import Shell, debug_run, roles

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.dumps.dump import InconvertibleTensorProto
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.sources import Frame
from tfdbg_cli.engines import numpy as tf

CPU0, CPU1 = (f"/job:localhost/replica:0/task:0/device:CPU:{n}" for n in (0, 1))


@pytest.fixture(scope="module")
def loop():
    """A loop of ten turns, and a simple multiplication and addition."""
    with tf.Graph().as_default():
        u = tf.constant([[5.0, 3.0], [-1.0, 0.0]], name="simple/u")
        v = tf.constant([[2.0], [-1.0]], name="simple/v")
        w = tf.matmul(u, v, name="simple/matmul")
        x = tf.add(w, w, name="simple/add")
        turns = tf.while_loop(
            lambda i: tf.less(i, 10), lambda i: tf.add(i, 1, name="next"), [0], name="while"
        )
        with tf.Session() as session:
            return debug_run(session, [x, turns])


# 6.1: the commands of the analyzer.


def test_columns_are_as_wide_as_their_heads_or_their_widest_row(loop):
    """6.1/1"""
    shell = Shell(loop)
    heads = ("t (ms)", "Size (B)", "Op type", "Tensor name")
    none = next(text for text in shell.lines("lt -n nothing", 79) if text.startswith("t (ms)"))
    assert [none.index(head) for head in heads] == sorted(none.index(head) for head in heads)
    for command in ("lt -n simple", "lt -n next", "lt"):
        lines = shell.lines(command, 79)
        head = next(text for text in lines if text.startswith("t (ms)"))
        rows = lines[lines.index(head) + 1 :]
        assert len(rows) >= 4
        for row in rows:
            name = next(part for part in row.split() if re.search(r":[0-9]+$", part))
            op_type = loop.op_type(name.partition(":")[0])
            assert row[head.index("Op type") :].startswith(op_type + " ")
            assert row[head.index("Tensor name") :].startswith(name)


def test_healthy_data_pass_no_filter_for_bad_values(loop):
    """6.1/15"""
    shell = Shell(loop)
    assert shell.lines("lt -f has_inf_or_nan")[0] == (
        '0 dumped tensor(s) passing filter "has_inf_or_nan":'
    )
    assert shell.tensors("lt -f has_inf_or_nan") == []


def test_the_menu_stays_beside_an_unknown_filter(shell):
    """6.1/16"""
    assert "no_such" in shell.error("lt -f no_such")
    assert shell.document("lt").menu


def test_names_of_tensors_do_for_nodes(shell):
    """6.1/19 and 6.1/54"""
    for command in ("ni", "ni -a -d -t", "li -c -r -t", "lo -c -r"):
        assert shell.lines(f"{command} hidden/MatMul:0") == shell.lines(f"{command} hidden/MatMul")


def test_rows_of_a_tensor_know_the_indices_they_show(shell):
    """6.1/25"""
    document = shell.document("pt hidden/MatMul:0")
    rows = [row for row in document if row.indices is not None]
    assert [row.indices for row in rows] == [((0, 0), (0, 1)), ((1, 0), (1, 1))]
    for element in itertools.product(range(2), repeat=2):
        at = document.locate(element)
        assert document.lines(at, at + 1) == [rows[element[0]]]
    assert document.status(0, document.line_count) == "[0,0]-[1,1]"


def test_ranges_and_the_summary_together(shell):
    """6.1/29"""
    document = shell.document("pt hidden/MatMul:0 -r [5,10] -s")
    text = document.text
    assert "2 of 4 element(s) (50.00%)" in text
    assert "Numeric summary:" in text and "mean" in text
    assert [part.strip() for part in roles(document, "highlight")[1:]] == ["6.", "6."]


def test_the_number_of_the_only_dump(shell):
    """6.1/33"""
    assert shell.lines("pt ints:0 -n 0") == shell.lines("pt ints:0")


def test_filters_of_every_kind(shell):
    """6.1/39"""

    def outer():
        limit = 1000

        def nested(datum, tensor):
            return getattr(tensor, "size", 0) > limit

        return nested

    class Callable:
        def __call__(self, datum, tensor):
            return datum.node_name == "ints"

    shell.filters.add("lambda", lambda datum, tensor: datum.tensor_name == "empty:0")
    shell.filters.add("nested", outer())
    shell.filters.add("object", Callable())
    found = {name: shell.tensors(f"lt -f {name}") for name in ("lambda", "nested", "object")}
    assert found == {"lambda": ["empty:0"], "nested": ["big:0"], "object": ["ints:0"]}


def test_compiled_files_have_no_link(tmp_path):
    """6.1/48"""
    path = str(tmp_path / "module.pyc")
    dump = MemoryDump(Graph([Node("a", "A", frames=[Frame(path, 3, "f")])]))
    dump.add("a", 0, np.zeros(1), timestamp=1)
    shell = Shell(dump)
    assert path in shell.text("ls")
    for command in ("ls", "ni -t a"):
        assert not any(c.startswith("ps ") and path in c for c in shell.links(command))


def test_inputs_with_types_control_and_depth(shell):
    """6.1/53, 6.1/55, 6.1/56, 6.1/57 and 6.1/60"""
    assert shell.lines("li -t hidden/Relu")[1] == "|- (1) [MatMul] hidden/MatMul"
    rows = [text for text in shell.lines("li -c -t last") if text.startswith("|-")]
    assert rows == ["|- (1) [Relu] hidden/Relu", "|- (1) (Ctrl) [Identity] after"]
    lines = shell.lines("li -r -c -t -d 2 last")
    assert any("(2) (Ctrl) [MatMul] hidden/MatMul" in text for text in lines)
    assert not any("(3)" in text for text in lines)
    assert any("..." in text for text in lines)
    lines = shell.lines("lo -r -c -d 2 input/x")
    assert "control" in lines[0]
    assert any("(2) (Ctrl) after" in text for text in lines)
    assert not any("(3)" in text for text in lines)


def test_a_node_without_neighbours(shell):
    """6.1/58"""
    assert "[None]" in shell.text("li input/x")
    assert "[None]" in shell.text("lo big")
    assert "[None]" in shell.text("li -c -r input/words")


def test_a_tensor_of_a_loop(loop):
    """6.1/61, 6.1/62 and 6.1/63"""
    shell = Shell(loop)
    lines = shell.lines("pt while/next:0")
    assert lines[0] == 'Tensor "while/next:0" generated 10 dumps:'
    for number in range(10):
        value = shell.lines(f"pt while/next:0 -n {number}")[-1]
        assert value == f"array({number + 1}, dtype=int32)"
    assert "(10)" in shell.error("pt while/next:0 -n 10")


# 6.4: how tensors are written.


@pytest.mark.parametrize("shape", [(7,), (3, 4), (2, 3, 4), (2, 2, 2, 3)])
@pytest.mark.parametrize("dtype", [np.int8, np.float32, np.complex64, bool])
def test_every_element_has_its_row(shape, dtype):
    """6.4: annotations of 1-d, 2-d, 3-d tensors; small numbers"""
    values = (np.arange(np.prod(shape)) % 3).reshape(shape).astype(dtype)
    dump = MemoryDump(Graph([Node("a", "A")]))
    dump.add("a", 0, values, timestamp=1)
    document = Shell(dump).document("pt a:0", 60)
    for element in np.ndindex(shape):
        at = document.locate(element)
        row = document.lines(at, at + 1)[0]
        assert row.indices is not None
        assert row.indices[0] <= element <= row.indices[1]


def test_a_row_may_need_several_lines(shell):
    """6.4: rows broken over several lines"""
    document = shell.document("pt big:0[3]", 50)
    rows = [row for row in document if row.indices is not None]
    assert len(rows) > 2
    assert rows[0].indices[0] == (0,) and rows[-1].indices[1] == (29,)
    for before, after in itertools.pairwise(rows):
        assert after.indices[0][0] == before.indices[1][0] + 1


def test_hidden_elements_are_said_to_be_hidden(shell):
    """6.4: with ellipses, a hidden element; wrong numbers of indices"""
    document = shell.document("pt big:0")
    assert document.locate((0, 0)) < document.locate((99, 29))
    for element, part in (
        ((50, 15), "hidden"),
        ((0,), "requested: 1; actual: 2"),
        ((0, 0, 0), "requested: 3; actual: 2"),
        ((100, 0), "out of range"),
        ((-1, 0), "negative"),
    ):
        with pytest.raises(UserError, match=part):
            document.locate(element)
    assert shell.document("pt -a big:0").locate((50, 15)) > 0


def test_a_scalar_has_no_elements_to_scroll_to(shell):
    """6.4: 0-d"""
    document = shell.document("pt bad/zero:0")
    assert document.lines(4, 5)[0].text == "array(0., dtype=float32)"
    with pytest.raises(UserError, match="scalar"):
        document.locate((0,))


def test_highlighting_some_or_none(shell):
    """6.4"""
    for ranges, elements in (("[100,200]", []), ("[[1,1],[5,5]]", ["1", "5"])):
        document = shell.document(f"pt ints:0 -r {ranges}")
        assert f"{len(elements)} of 4 element(s)" in document.lines(0, 1)[0].text
        shown = [part.strip() for part in roles(document, "highlight")]
        assert [part for part in shown if part.isdigit()] == elements


def test_a_summary_of_what_has_none(shell):
    """6.4: strings and objects fall back to words"""
    lines = shell.lines("pt -s text:0")
    assert "Numeric summary:" in lines
    assert "abc" in lines[-1]
    assert not any("nan" in text or "inf" in text for text in lines)


def test_only_the_categories_that_occur_are_shown():
    """6.4: numeric_summary"""
    dump = MemoryDump(Graph([Node("a", "A"), Node("b", "B")]))
    dump.add("a", 0, np.array([np.nan, -np.inf, -1, 0, 1, np.inf]), timestamp=1)
    dump.add("b", 0, np.array([1.0, 2.0]), timestamp=2)
    shell = Shell(dump)
    heads = next(text for text in shell.lines("pt -s a:0") if "total" in text)
    assert heads.replace("|", " ").split() == ["nan", "-inf", "-", "0", "+", "+inf", "total"]
    heads = next(text for text in shell.lines("pt -s b:0") if "total" in text)
    assert heads.replace("|", " ").split() == ["+", "total"]


def test_what_was_never_initialized():
    """6.4: uninitialized, resource"""
    dump = MemoryDump(Graph([Node("v", "VariableV2"), Node("r", "VarHandleOp")]))
    dump.add("v", 0, InconvertibleTensorProto("v", initialized=False), timestamp=1)
    dump.add("r", 0, InconvertibleTensorProto("resource handle of r"), timestamp=2)
    shell = Shell(dump)
    assert "Uninitialized tensor" in shell.text("pt v:0")
    assert "resource handle of r" in shell.text("pt r:0")


# 6.6: expressions.


@pytest.fixture
def twins():
    """One name on two devices, a second debug op, and a tensor that was dumped three times."""
    dump = MemoryDump(Graph([Node("a", "A"), Node("b/c", "B")]))
    dump.add("a", 0, np.array([1.0, 2.0]), timestamp=1, device_name=CPU0)
    dump.add("a", 0, np.array([10.0, 20.0]), timestamp=2, device_name=CPU1)
    for number in range(3):
        dump.add("b/c", 0, np.array([number]), timestamp=3 + number, device_name=CPU0)
    dump.add("b/c", 0, np.array([7]), timestamp=9, device_name=CPU0, debug_op="DebugNanCount")
    return Shell(dump)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        (f"`{CPU0}:a:0`", "array([1., 2.])"),
        (f"`{CPU1}:a:0`", "array([10., 20.])"),
        ("`/device:CPU:1:a:0`", "array([10., 20.])"),
        (f"`{CPU0}:a:0`+`{CPU1}:a:0`", "array([11., 22.])"),
        (f"`{CPU1}:a:0:DebugIdentity`", "array([10., 20.])"),
        ("`b/c:0:DebugNanCount`", "array([7])"),
        ("`b/c:0[0]`", "array([0])"),
        ("`b/c:0[2]`", "array([2])"),
        ("`b/c:0[-1]`", "array([2])"),
        ("`b/c:0:DebugIdentity[1]`", "array([1])"),
        (f"`{CPU0}:b/c:0:DebugIdentity[1]`", "array([1])"),
        ("`b/c:0[2]`*`b/c:0:DebugNanCount`", "array([14])"),
    ],
)
def test_references_to_one_of_several_dumps(twins, expression, value):
    """6.6: device, debug op, execution index, and all of them"""
    assert twins.lines(f"eval {expression}")[-1] == value


@pytest.mark.parametrize(
    ("command", "part"),
    [
        ("eval `a:0:b:c:d`", "names no tensor"),
        ("eval `b/c:x`", "b/c:x"),
        ("eval `b/c:0[]`", "b/c:0[]"),
        ("eval `b/c:0[3]`", "3"),
        ("eval `nowhere:0`", "nowhere"),
        ("eval `b/c:0", "backtick"),
        ("eval nowhere+1", "nowhere"),
        ("eval `/device:GPU:0:a:0`", "GPU"),
        ("eval `b/c:0:NoSuchOp`", "b/c:0"),
    ],
)
def test_references_that_name_nothing(twins, command, part):
    """6.6: malformed names, unavailable tensors, unmatched backticks, undefined names"""
    assert part in twins.error(command)
