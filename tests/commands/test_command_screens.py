"""Whole screens of a small dump, word by word: times, sizes, numbers, which dump of several."""

import textwrap
import warnings

import numpy as np
import pytest
from command_kit import Shell, link_of

from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.run_info import RunInfo

START = 1_000_000


@pytest.fixture
def shell():
    """Six dumps of four nodes: one of them twice, one of two slots, one a long time after."""
    nodes = [
        Node("x", "Placeholder"),
        Node("long/scope/of/a/matmul", "MatMul", ["x:0"]),
        Node("two", "Unique", ["x:0"]),
        Node("q", "Quantize", ["x:0"]),
        Node("handle", "VarHandleOp"),
        Node("read", "ReadVariableOp", ["handle:0"]),
    ]
    info = RunInfo(1, ["two:0"], {"x:0": np.ones(3, np.float32)}, "numpy")
    dump = MemoryDump(Graph(nodes), run_info=info)
    dump.add("x", 0, np.array([1.5, -2, np.nan, np.inf], np.float32), timestamp=START)
    matrix = np.arange(6, dtype=np.int64).reshape(2, 3)
    dump.add("long/scope/of/a/matmul", 0, matrix, timestamp=START + 1500)
    dump.add("x", 0, np.array([1.5, -2, 0, -np.inf], np.float32), timestamp=START + 2250)
    dump.add("two", 0, np.array([b"a", b"bc"], object), timestamp=START + 3000)
    dump.add("two", 1, np.array([True, False]), timestamp=START + 3000)
    dump.add("q", 0, np.float64(0.25), timestamp=START + 1_234_567)
    return Shell(dump)


def check(shell, command, expected, width=80):
    shell.document(command, width).settle(0, 100)
    lines = [line.rstrip() for line in shell.lines(command, width)]
    assert lines == textwrap.dedent(expected).strip("\n").splitlines()


def test_a_list_on_a_narrow_screen(shell):
    check(
        shell,
        "lt",
        """
        6 dumped tensor(s):

        t (ms)     Size (B) Op type     Health       Tensor name
        [0.000]    16       Placeholder 1 nan 1 +inf x:0 (#0)
        [1.500]    48       MatMul      -            long/scope/of/a/matmul:0
        [2.250]    16       Placeholder 1 -inf       x:0 (#1)
        [3.000]    3        Unique      -            two:0
        [3.000]    2        Unique      -            two:1
        [1234.567] 8        Quantize    ok           q:0
        """,
    )


def test_a_list_on_a_wide_screen(shell):
    check(
        shell,
        "lt -n ^x|^long|^q",
        """
        4 dumped tensor(s):
        Node name regex filter: "^x|^long|^q"

        t (ms)     Size (B) Op type     Dtype    Shape            Health        Min        Max        Mean       Tensor name
        [0.000]    16       Placeholder float32  (4,)             1 nan 1 +inf  -2         1.5        -0.25      x:0 (#0)
        [1.500]    48       MatMul      int64    (2, 3)           -             0          5          2.5        long/scope/of/a/matmul:0
        [2.250]    16       Placeholder float32  (4,)             1 -inf        -2         1.5        -0.1667    x:0 (#1)
        [1234.567] 8        Quantize    float64  ()               ok            0.25       0.25       0.25       q:0
        """,  # noqa: E501
        130,
    )


def test_columns_are_those_that_are_asked_for_and_the_head_shows_the_order(shell):
    check(
        shell,
        "lt -o name,time,size",
        """
        6 dumped tensor(s):

        Tensor name              t (ms)     Size (B)
        x:0 (#0)                 [0.000]    16
        long/scope/of/a/matmul:0 [1.500]    48
        x:0 (#1)                 [2.250]    16
        two:0                    [3.000]    3
        two:1                    [3.000]    2
        q:0                      [1234.567] 8
        """,
    )
    check(
        shell,
        "lt -s size -r -n ^x|^long",
        """
        3 dumped tensor(s):
        Node name regex filter: "^x|^long"

        t (ms)     Size (B)↓ Op type     Health       Tensor name
        [1.500]    48        MatMul      -            long/scope/of/a/matmul:0
        [0.000]    16        Placeholder 1 nan 1 +inf x:0 (#0)
        [2.250]    16        Placeholder 1 -inf       x:0 (#1)
        """,
    )
    assert "-fenn is valid only together with -f" in shell.error("lt -fenn x")
    assert shell.tensors("lt -f has_inf_or_nan -fenn ^q") == ["x:0", "x:0"]
    assert shell.tensors("lt -f has_inf_or_nan -fenn ^x") == []


def test_one_of_several_dumps_has_to_be_chosen(shell):
    check(
        shell,
        "pt x:0",
        """
        Tensor "x:0" generated 2 dumps:
        #0 [0.000 ms] x:0:DebugIdentity
        #1 [2.250 ms] x:0:DebugIdentity

        You can use the -n (--number) flag to specify which dump to print.
        For example: print_tensor x:0 -n 0
        """,
    )
    check(
        shell,
        "pt x:0 -n 1",
        """
        Tensor "x:0:DebugIdentity" (dump #1 of 2):
          dtype: float32
          shape: (4,)

        array([ 1.5, -2. ,  0. , -inf], dtype=float32)
        """,
    )
    assert shell.lines("pt x:0 -n -1") == shell.lines("pt x:0 -n 1")
    assert link_of(shell.document("pt two"), "two:1") == "pt two:1"
    assert shell.lines("pt two:1")[0] == 'Tensor "two:1:DebugIdentity":'


def test_a_node_tells_of_its_dumps(shell):
    text = shell.text("ni -d x")
    assert "  3 recipient(s) + 0 control recipient(s):" in text
    assert "2 dumped tensor(s):\n  Slot 0 @ DebugIdentity @ 0.000 ms\n  Slot 0 @ " in text
    assert text.endswith("Slot 0 @ DebugIdentity @ 2.250 ms")


def test_an_expression_that_divides_by_zero_warns_nobody(shell):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lines = shell.lines("eval 1/np.zeros(2) + `q:0`[newaxis] -s")
    assert lines[-1] == "array([inf, inf])"
    assert "|    2 |     2 |" in lines


def test_a_result_that_is_stored_is_printed_until_a_tensor_has_its_name(shell):
    shell.reply("eval -o mine `q:0` + 1")
    assert shell.lines("pt mine")[-1] == "array(1.25)"
    shell.reply("eval -o q:0 5")
    assert shell.lines("pt q:0")[-1] == "array(0.25)"


def test_a_filter_finds_as_many_as_are_wanted(shell):
    dump = shell.dump
    passes = {
        number: [datum.tensor_name for datum in dump.find(lambda datum, value: True, number)]
        for number in (0, 1, 2, 5)
    }
    assert {number: len(found) for number, found in passes.items()} == {0: 6, 1: 1, 2: 2, 5: 5}
    assert passes[2] == ["x:0", "long/scope/of/a/matmul:0"]


def test_why_a_node_has_no_tensors(shell):
    said = shell.dump.why_absent("handle")
    assert said.startswith("It holds the handle of a resource")
    assert shell.dump.why_absent("nowhere") != said


def test_the_dump_s_names_go_before_the_program_s_own():
    nodes = [Node("loss", "Mean"), Node("nll", "NllLoss"), Node("unseen", "Mean")]
    outputs = {"loss": "nll:0", "best": "nll:0", "unseen": "nll:0", "nll:0": "loss:0"}
    info = RunInfo(1, outputs=outputs, unit="program")
    dump = MemoryDump(Graph(nodes), run_info=info)
    dump.add("loss", 0, np.float32(1.5), timestamp=START)
    dump.add("nll", 0, np.float32(2.5), timestamp=START)
    shell = Shell(dump)
    assert shell.lines("pt loss")[0] == 'Tensor "loss:0:DebugIdentity":'
    assert shell.lines("pt best")[0] == 'Tensor "nll:0:DebugIdentity":'
    assert shell.lines("pt nll:0")[0] == 'Tensor "nll:0:DebugIdentity":'
    # A node of the graph is meant by its name, though it has no tensor.
    assert "unseen" in shell.error("pt unseen")
    without = MemoryDump(run_info=info)
    without.add("loss", 0, np.float32(1.5), timestamp=START)
    assert Shell(without).lines("pt loss")[0] == 'Tensor "loss:0:DebugIdentity":'


def test_a_note_stands_beside_the_value():
    dump = MemoryDump(run_info=RunInfo(1))
    dump.add("a", 0, np.float32(1.5), timestamp=START)
    assert "quantized" not in Shell(dump).text("pt a:0")
    dump.data()[0]._note = "It was quantized."
    assert "It was quantized." in Shell(dump).text("pt a:0")
