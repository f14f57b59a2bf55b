"""``pt``, ``pf`` and ``eval``: values."""

import ml_dtypes
import numpy as np
import pytest
from command_kit import FED, Shell, link_of, roles

from tfdbg_cli.dumps.dump import InconvertibleTensorProto, RunInfo
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump


def test_a_tensor_with_its_dtype_and_shape(shell):
    lines = shell.lines("pt hidden/MatMul:0")
    assert lines[:4] == [
        'Tensor "hidden/MatMul:0:DebugIdentity":',
        "  dtype: float32",
        "  shape: (2, 2)",
        "",
    ]
    assert lines[4:] == ["array([[ 6.,  6.],", "       [-6., -6.]], dtype=float32)"]
    assert lines == shell.lines("print_tensor hidden/MatMul:0")
    assert roles(shell.document("pt hidden/MatMul:0"), "bold")[0].startswith('"hidden/MatMul:0')


def test_a_node_name_or_a_watch_key_will_do(shell):
    full = shell.lines("pt hidden/MatMul:0")
    assert shell.lines("pt hidden/MatMul") == full
    assert shell.lines("pt hidden/MatMul:0:DebugIdentity") == full


def test_several_slots_are_offered(shell):
    document = shell.document("pt uniq")
    assert "2 output slots" in document.text
    assert shell.lines(link_of(document, "uniq:1"))[-1] == "array([0, 0, 1], dtype=int32)"


def test_several_dumps_are_offered_with_every_option(shell):
    document = shell.document("pt loop/body:0 -s -a -r [2,3]")
    lines = [line.text for line in document]
    assert lines[0] == 'Tensor "loop/body:0" generated 4 dumps:'
    assert [text.split()[0] for text in lines[1:5]] == ["#0", "#1", "#2", "#3"]
    command = next(s.link.command for line in document for s in line.spans if s.link)
    assert command == "print_tensor loop/body:0 -n 0 -a -s -r [2,3]"
    text = shell.text(command)
    assert "Highlighted" in text
    assert "min" in text


def test_one_of_several_dumps_with_the_summary(shell):
    lines = shell.lines("pt loop/body:0 -n 2 -s")
    assert lines[-1] == "array(3, dtype=int32)"
    assert any("min" in text and "mean" in text for text in lines)
    assert shell.lines("pt loop/body:0 -n -1")[-1] == "array(4, dtype=int32)"


def test_a_slice_is_kept_when_a_dump_is_to_be_chosen():
    dump = MemoryDump(Graph([Node("a", "A")]))
    for number in range(2):
        dump.add("a", 0, np.arange(4) + 10 * number, timestamp=number)
    shell = Shell(dump)
    document = shell.document("pt a:0[1:, ]")
    command = next(s.link.command for line in document for s in line.spans if s.link)
    assert shell.lines(command)[-1] == "array([1, 2, 3])"


@pytest.mark.parametrize(
    ("slicing", "shape", "last"),
    [
        ("[0, :]", "(30,)", None),
        ("[0:2, 3:5]", "(2, 2)", "       [33., 34.]])"),
        ("[-1, -1]", "()", "array(2999.)"),
        ("[..., 0]", "(100,)", None),
        ("[::-50, 0]", "(2,)", "array([2970., 1470.])"),
    ],
)
def test_slices_as_in_numpy(shell, slicing, shape, last):
    lines = shell.lines(f"pt big:0{slicing}")
    assert lines[0] == f'Tensor "big:0:DebugIdentity{slicing}":'
    assert lines[1:3] == ["  dtype: float64", f"  shape: {shape}"]
    if last is not None:
        assert lines[-1] == last
    assert shell.lines(f'pt "big:0{slicing}"') == lines


def test_large_tensors_have_ellipses_unless_all_is_asked_for(shell):
    short = shell.lines("pt big:0")
    assert any("..." in text for text in short)
    assert "-a shows all" in short[-1]
    full = shell.lines("pt big:0 -a")
    assert not any("..." in text for text in full)
    assert "2.999e+03]])" in full[-1]
    shell.settings.override("max_elements", 10_000)
    assert shell.lines("pt big:0") == full


def test_ranges_are_highlighted_down_to_single_digits(shell):
    document = shell.document("pt ints:0 -r [3,100]")
    assert document.lines(0, 1)[0].text == (
        'Tensor "ints:0:DebugIdentity": Highlighted([3, 100]): 3 of 4 element(s) (75.00%)'
    )
    assert [text.strip() for text in roles(document, "highlight")[1:]] == ["22", "3", "5"]


@pytest.mark.parametrize(
    ("command", "share"),
    [
        ("pt hidden/Relu:0 -r 0,1", "2 of 4 element(s) (50.00%)"),
        ('pt hidden/MatMul:0 -r "[[-inf, -1], [6, inf]]"', "4 of 4"),
        ("pt hidden/MatMul:0 -r [[-inf,-1],[60,inf]]", "2 of 4"),
        ("pt empty:0 -r 0,1", "0 of 0 element(s) (0.00%)"),
        ("pt cplx:0 --ranges 0,5", "1 of 2"),
    ],
)
def test_ranges_of_all_kinds(shell, command, share):
    assert share in shell.lines(command)[0]


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("bad/Log:0", ["-inf", "total"]),
        ("bad/Mul:0", ["nan", "total"]),
        ("cplx:0", ["nan", "total"]),
        ("flags:0", ["False", "True", "total"]),
        ("empty:0", []),
        ("text:0", []),
        ("ints:0", ["min", "max", "mean", "std"]),
    ],
)
def test_the_summary_works_for_every_dtype(shell, name, parts):
    text = shell.text(f"pt -s {name}")
    assert "Numeric summary:" in text
    for part in parts:
        assert part in text


def test_a_saved_value_can_be_loaded(shell, tmp_path):
    path = tmp_path / "a b.npy"
    text = shell.text(f'pt big:0[1] -w "{path}"')
    assert f"Saved value to: {path}" in text
    np.testing.assert_array_equal(np.load(path), np.arange(30.0, 60.0))
    assert [entry.name for entry in tmp_path.iterdir() if entry.suffix == ".npy"] == ["a b.npy"]
    shell.document(f"pt text:0 -w {tmp_path}/text.npy")
    assert np.load(tmp_path / "text.npy", allow_pickle=True).tolist() == [b"abc", b"\xff"]


def test_bfloat16_is_shown_by_its_name():
    dump = MemoryDump(Graph([Node("a", "A")]))
    dump.add("a", 0, np.array([1, np.inf], ml_dtypes.bfloat16), timestamp=1)
    text = Shell(dump).text("pt -s a:0")
    assert "dtype: bfloat16" in text
    assert "+inf" in text
    assert "inf]" in text


def test_what_is_no_array_is_said_to_be_none():
    dump = MemoryDump(Graph([Node("v", "VariableV2"), Node("q", "Queue")]))
    dump.add("v", 0, InconvertibleTensorProto("variable v", initialized=False), timestamp=1)
    dump.add("q", 0, InconvertibleTensorProto("a queue"), timestamp=2)
    shell = Shell(dump)
    assert "Uninitialized tensor:" in shell.text("pt v:0")
    assert "a queue" in shell.text("pt q:0")
    assert "no array" in shell.error("eval `v:0`")
    for command in ("pt v:0 -s", "pt q:0 -r 0,1", "lt", "ni -d v", "lt -f has_inf_or_nan"):
        shell.document(command)
    assert "a queue" in shell.text("pt q:0[0]")
    assert "no array" in shell.error("pt q:0 -w /dev/null")


@pytest.mark.parametrize(
    ("command", "parts"),
    [
        ("pt", ["required", "TENSOR[SLICE]"]),
        ("pt a:0 b:0", ['"b:0" is one word too many']),
        ("pt hidden/Matmul", ['"hidden/Matmul"', "Did you mean hidden/MatMul:0"]),
        ("pt hidden/MatMull:0", ["hidden/MatMull", "Did you mean hidden/MatMul:0"]),
        ("pt hidden/MatMul:3", ["did not generate any dumps", "hidden/MatMul:0"]),
        ("pt init", ["did not generate any dumps", "did not compute"]),
        ("pt init:0", ["did not generate any dumps", "did not compute"]),
        ("pt big:0[", ["not closed"]),
        ("pt big:0[]", ["slice is empty"]),
        ("pt big:0[a]", ['"a" is no index']),
        ("pt big:0[0,0,0]", ["3 indices", "2 dimension(s)"]),
        ("pt big:0[200]", ["does not fit", "(100, 30)"]),
        ("pt big:0[::0]", ["step"]),
        ("pt ints:0 -n 1", ["Invalid number (1)", "one dump"]),
        ("pt loop/body:0 -n 9", ["Specified number (9) exceeds", "(4)", "Use 0 to 3."]),
        ("pt ints:0 -n x", ["-n/--number", "invalid int value: 'x'"]),
        ("pt ints:0 -r 1", ["no range", "low,high"]),
        ("pt ints:0 -r 2,1", ["is empty"]),
        ("pt text:0 -r 0,1", ["numbers"]),
        ("pt ints:0 -w /no/such/place/x.npy", ["/no/such/place/x.npy", "can't be written"]),
        ("pt ints:0 -q", ["no option -q"]),
        ("pf a", ["does not contain", "input/x:0"]),
        ("pf input/y:0", ["does not contain", "Did you mean input/x:0"]),
        ("pf input/x:0 -n 1", ["no option -n"]),
        ("eval", ["required", "EXPRESSION"]),
        ("eval `hidden/Matmul:0`", ["hidden/Matmul", "Did you mean hidden/MatMul:0"]),
        ("eval `a:0", ["backtick", "partner"]),
        ("eval `a:b:c:d`", ["names no tensor"]),
        ("eval `uniq`", ["several output slots", "`uniq:0`"]),
        ("eval `loop/body:0[9]`", ["4 dump(s)"]),
        ("eval `ints:0:DebugNanCount`", ["No dump of ints:0"]),
        ('eval "`ints:0` +"', ["expression failed", "SyntaxError"]),
        ("eval nothing", ["NameError", "nothing"]),
        ("eval 1/0", ["ZeroDivisionError"]),
        ('eval "`ints:0` @ `big:0`"', ["ValueError"]),
        ("eval 3 -w x.npy", ["Only arrays"]),
    ],
)
def test_mistakes_are_one_line_with_cause_and_fix(shell, capfd, command, parts):
    text = shell.error(command)
    for part in parts:
        assert part in text
    assert capfd.readouterr() == ("", "")


def test_feeds_as_they_were_given(shell, start):
    for at in (shell, start):
        lines = at.lines("pf input/x:0")
        assert lines[0] == 'Tensor "input/x:0 (feed)":'
        assert lines[1:3] == ["  dtype: float64", "  shape: (2, 3)"]
        assert at.lines("print_feed input/x:0") == lines
        assert at.lines("pf input/x") == lines
    assert start.lines("pf input/x:0[1, 0]")[-1] == "array(-1.)"
    assert "mean" in start.text("pf -s input/x:0")
    assert "Highlighted" in start.text("pf input/x:0 -r 0,9")


def test_a_feed_can_be_saved(start, tmp_path):
    start.document(f"pf input/x:0[0] -w {tmp_path}/x.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), FED[0])


def test_odd_feeds():
    feeds = {'Sparse("a", b)': [[1], [2, 3]], "it's": "text", "none": None}
    shell = Shell(None, info=RunInfo(1, [], feeds))
    for command in shell.links("run_info"):
        if command.startswith("pf"):
            shell.document(command)
    assert "[2, 3]" in shell.text("pf 'Sparse(\"a\", b)'")
    assert "no feeds" not in shell.error("pf nothing")
    assert "is empty" in Shell(None).error("pf x")


@pytest.mark.parametrize(
    ("expression", "last"),
    [
        ("np.sum(`ints:0`)", "array(31)"),
        ('"`ints:0` > 3"', "       [False,  True]])"),
        ("`ints:0`+`ints:0`", "       [ 6, 10]], dtype=int32)"),
        ("`loop/body:0[2]`", "array(3, dtype=int32)"),
        ("`loop/body:0:DebugIdentity[-1]`", "array(4, dtype=int32)"),
        ("`numbers`", "array([3, 3, 5], dtype=int32)"),
        ("`/job:localhost/replica:0/task:0/device:CPU:0:numbers:0`", None),
        ('"[int(v) for v in `numbers:0` if v in `ints:0`]"', None),
        ("2**10", "1024"),
        ("`input/x:0`.shape", None),
        ("`ints:0`[1,0]", "array(3, dtype=int32)"),
        ("`ints:0`[1, 0]", "array(3, dtype=int32)"),
        ("np.sum( `ints:0` )", "array(31)"),
        ('"-`ints:0`"', "       [ -3,  -5]], dtype=int32)"),
        ("-1", "-1"),
        ("'{}'.format(3)", "'3'"),
    ],
)
def test_expressions(shell, expression, last, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = shell.lines(f"eval {expression}")
    assert lines == shell.lines(f"ev {expression}")
    assert "from eval of expression" in lines[0]
    if last is not None:
        assert lines[-1] == last
    assert list(tmp_path.iterdir()) == []


def test_eval_shows_the_summary_and_saves(shell, tmp_path):
    text = shell.text(f"eval -w {tmp_path}/e.npy -a `ints:0`*2")
    assert "Numeric summary:" in text
    assert "dtype: int32" in text
    assert np.load(tmp_path / "e.npy").tolist() == [[2, 44], [6, 10]]


def test_eval_of_feeds_before_the_run(start):
    assert "6." in start.text("eval np.sum(np.abs(`input/x:0`),axis=1)")
    assert "Only feeds are there before the run." in start.error("eval `hidden/Relu:0`")


def test_the_traceback_of_an_expression_is_kept_for_who_wants_it(shell):
    reply = shell.reply("eval 1/0")
    assert any("ZeroDivisionError" in text for text in reply.details)
    assert "Traceback" not in reply.message.text


def test_the_screen_width_is_obeyed(shell):
    for width in (30, 60, 200):
        lines = shell.lines("pt big:0[0]", width)[4:]
        assert max(len(text) for text in lines) <= width
        if width < 200:
            assert len(lines) > 1
