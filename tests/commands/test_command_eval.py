"""``eval``: expressions, references, stored results."""

import ml_dtypes
import numpy as np
import pytest
from command_kit import Shell
from hypothesis import given
from hypothesis import strategies as st

from tfdbg_cli.commands.tensors.references import parse_reference, parse_template
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.dumps.dump import InconvertibleTensorProto, RunInfo
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump

JOB = "/job:localhost/replica:0/task:0"


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


@pytest.mark.parametrize(
    ("command", "parts"),
    [
        ("eval `hidden/Matmul:0`", ["hidden/Matmul", "Did you mean hidden/MatMul:0"]),
        ("eval `a:0", ["backtick", "isn't closed"]),
        ('eval "` `"', ["nothing between two backticks", "`node:slot`"]),
        ("eval `a:b:c:d`", ["names no tensor"]),
        ("eval `ints:0[]`", ["names no tensor"]),
        ("eval `ints:x`", ["names no tensor"]),
        ("eval `uniq`", ["several output slots", "`uniq:0`"]),
        ("eval `loop/body:0[9]`", ["no dump 9", "4 dumps", "0 to 3"]),
        ("eval -n 9 `loop/body:0`", ["no dump 9", "4 dumps"]),
        ("eval `ints:0:DebugNanCount`", ["No dump of ints:0", "DebugIdentity"]),
        ("eval `/device:GPU:0:ints:0`", ["/device:GPU:0", "device:CPU:0"]),
        ('eval "`ints:0` +"', ["expression failed", "SyntaxError", "at its end"]),
        ('eval "1 +* `ints:0` + 2"', ["SyntaxError", 'at "* `ints:0` + 2"']),
        ('eval "`ints:0``text:0`"', ["SyntaxError", 'at "`text:0`"']),
        ('eval "(`ints:0` + 1"', ["never closed", 'at "(`ints:0` + 1"']),
        ('eval "x = 3"', ["SyntaxError"]),
        ("eval nothing", ["NameError", "nothing", "backticks"]),
        ("eval lenn(3)", ["NameError", "Did you mean len?"]),
        ("eval 1/0", ["ZeroDivisionError"]),
        ('eval "`ints:0` @ `big:0`"', ["ValueError"]),
        ("eval exit()", ["SystemExit"]),
        ("eval 3 -w x.npy", ["Only arrays can be saved", "int", "np.array"]),
        ("eval [1,2] -s", ["Only arrays can be measured", "list"]),
        ("eval -o np 3", ['"np" can\'t name']),
        ("eval -o class 3", ['"class" can\'t name']),
        ("eval -o 3x 3", ['"3x" is not a name']),
        ("eval -o feeds 3", ["feeds"]),
        ("eval -o _x 3", ["_x"]),
        ("eval -o a", ["no expression"]),
        ("eval -o", ["-o/--output", "expected one argument"]),
        ("eval fetches['badMul']", ["fetches have no", "Did you mean bad/Mul:0?"]),
        ("eval feeds['nope']", ["feeds have no", "input/x:0, input/words:0"]),
        ("eval feeds.x", ["AttributeError"]),
    ],
)
def test_mistakes(shell, capfd, command, parts):
    text = shell.error(command)
    for part in parts:
        assert part in text
    assert "_tensor_" not in text
    assert capfd.readouterr() == ("", "")


def test_nothing_is_written_past_the_screen(shell, capfd):
    shell.document("eval np.nanmean([])")
    shell.document('eval "1 is 1"')
    shell.document('eval "np.log(`bad/Mul:0` - 1)"')
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("expression", "last"),
    [
        ("\"'`' + str(`ints:0`[0, 0])\"", "'`1'"),
        ("\"len('it\\'s `ints:0`')\"", "13"),
        ("'\"a > b\"'", "'a > b'"),
        ("'[`numbers`.sum() for _ in range(2)]'", None),
        ("'(lambda t: t + `ints:0`)(1)[0]'", "array([ 2, 23], dtype=int32)"),
        ("'sorted(k for k in fetches if k in fetches)[0]'", "'bad/Mul:0'"),
        ("\"fetches['bad/Mul'] is fetches['bad/Mul:0']\"", None),
        ("\"fetches['loop/Exit']\"", "array(4, dtype=int32)"),
        ("\"fetches.get('nope', 3)\"", "3"),
        ("\"feeds['input/x'].shape\"", "(2, 3)"),
        ("\"'input/x' in feeds, 'y' in feeds, len(feeds)\"", "(True, False, 2)"),
        ("feeds", "<feeds: input/x:0, input/words:0>"),
        ("'np.float32(3)'", "array(3., dtype=float32)"),
        ("'[1, 2.5]'", "[1, 2.5]"),
        ("'{1: 2}'", "{1: 2}"),
        ("'list(`ints:0`[0]), `ints:0`[1].tolist()'", "([1, 22], [3, 5])"),
        ("None", "None"),
        ("' 1'", "1"),
        ("'`input/x`[0]'", "array([1., 2., 3.])"),
    ],
)
def test_strings_names_and_types(shell, expression, last):
    lines = shell.lines(f"eval {expression}")
    if last is not None:
        assert lines[-1] == last


def test_python_values_have_their_type(shell):
    assert shell.lines("eval [1,2]") == [
        "Result from eval of expression '[1,2]':",
        "  type: list",
        "",
        "[1, 2]",
    ]
    long = shell.lines("eval '\"x\"*50_000'")
    assert "-a shows all" in long[-1]
    assert len(shell.lines("eval -a '\"x\"*50_000'")[-1]) == 50_002


def test_the_options_of_pt(shell, tmp_path):
    assert "1 of 4 element(s)" in shell.lines("eval -r 5,9 `ints:0`")[0]
    assert "(2 NaN)" in shell.text("eval --bad `bad/Mul:0`")
    assert shell.lines("eval --sort-by-magnitude `ints:0`")[-4] == "[0,1]  22"
    assert shell.lines("eval -n 2 `loop/body:0`")[-1] == "array(3, dtype=int32)"
    assert shell.lines("eval -n 2 `loop/body:0[0]`+`loop/body:0`")[-1] == "array(4, dtype=int32)"
    assert any("..." in text for text in shell.lines("eval `big:0`"))
    assert not any("..." in text for text in shell.lines("eval -a `big:0`"))
    shell.document(f"eval -o total -w {tmp_path}/x.npz np.sum(`ints:0`)")
    with np.load(tmp_path / "x.npz") as archive:
        assert archive["total"] == 31


def devices():
    dump = MemoryDump(Graph([Node("a", "A"), Node("a/b", "B")]))
    for at, device in enumerate([f"{JOB}/device:CPU:0", f"{JOB}/device:GPU:1", ""]):
        dump.add("a/b", 0, np.array(10 * at), timestamp=10 * at, device_name=device)
        dump.add("a/b", 0, np.array(10 * at + 1), timestamp=10 * at + 1, device_name=device)
    dump.add("a/b", 0, np.array(7), timestamp=99, debug_op="DebugNanCount")
    return Shell(dump)


@pytest.mark.parametrize(
    ("reference", "value"),
    [
        ("a/b", 0),
        ("a/b:0", 0),
        ("a/b:0[1]", 1),
        ("a/b[1]", 1),
        ("a/b:0[-1]", 21),
        ("a/b:0:DebugNanCount[-1]", 7),
        ("a/b:0:DebugIdentity[-1]", 21),
        ("a/b:0:DebugNanCount", 7),
        (f"{JOB}/device:CPU:0:a/b:0[1]", 1),
        (f"{JOB}/device:GPU:1:a/b:0", 10),
        ("/device:GPU:1:a/b:0:DebugIdentity[1]", 11),
        ("/gpu:1:a/b", 10),
        ("/job:localhost/gpu:1:a/b:0[1]", 11),
        ("/task:0/device:cpu:0:a/b:0", 0),
        (" a/b:0 ", 0),
    ],
)
def test_the_grammar_of_references(reference, value):
    assert devices().lines(f"eval `{reference}`")[-1] == f"array({value})"


def test_no_such_device():
    shell = devices()
    assert "is on /gpu:0" in shell.error("eval `/gpu:0:a/b:0`")
    assert "no dump 2" in shell.error("eval `/gpu:1:a/b:0[2]`")


names = st.from_regex(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]{0,20}", fullmatch=True)


@given(
    st.sampled_from(
        ["", "/device:CPU:0", f"{JOB}/device:GPU:12", "/cpu:0", "/job:my_worker/task:3"]
    ),
    names,
    st.none() | st.integers(0, 99),
    st.sampled_from(["", "DebugIdentity", "DebugNumericSummary(mute_if_healthy=True)"]),
    st.none() | st.integers(-99, 99),
)
def test_a_reference_reads_as_it_is_written(device, node, slot, op, execution):
    text = f"{device}:{node}" if device else node
    if slot is not None:
        text += f":{slot}" + (f":{op}" if op else "")
    if execution is not None:
        text += f"[{execution}]"
    found = parse_reference(text)
    assert (found.device, found.node, found.slot, found.execution) == (
        device,
        node,
        slot,
        execution,
    )
    assert found.debug_op == (op if slot is not None else "")


@given(st.text("ab`'\"\\ +:0", max_size=20))
def test_any_expression_is_a_template_or_a_mistake(text):
    try:
        template = parse_template(text)
    except UserError:
        assert "`" in text
        return
    # Each place of the code is a place of the text, in the same order.
    places = [template.place(at) for at in range(len(template.code) + 1)]
    assert places == sorted(places)
    assert (places[0], places[-1]) == (0, len(text))
    code = template.code
    for name in template.references:
        code = code.replace(name, "")
    assert "`" not in code or "'" in text or '"' in text


# Stored results.


def test_results_are_kept_from_stop_to_stop(dump, start):
    shell = Shell(dump)
    assert "No results are stored." in shell.text("eval")
    assert "Stored as before" in shell.text("eval -o before `ints:0`*2")
    shell.document("eval -o text 'str(before[0, 0])'")
    assert [line.split() for line in shell.lines("eval")] == [
        ["2", "stored", "result(s):"],
        [],
        ["before", "int32", "(2,", "2)"],
        ["text", "str"],
    ]
    assert shell.links("eval") == ["eval before", "eval text"]
    assert shell.lines("eval")[2:] == ["  before  int32 (2, 2)", "  text    str"]
    start.context.names = shell.context.names
    assert start.lines("eval before[0]+1")[-1] == "array([ 3, 45], dtype=int32)"
    assert (
        start.lines("eval '[before.sum() for _ in range(1)][0] + feeds[\"input/x\"][0, 0]'")[-1]
        == "array(63.)"
    )
    shell.document("eval -o before before+1")
    assert shell.lines("eval before")[-1] == "       [ 7, 11]], dtype=int32)"
    assert shell.lines("pt ints:0[_ > before[0, 0]]")[-1] == "array([22,  5], dtype=int32)"


def test_a_stored_result_is_no_part_of_the_dump():
    value = np.arange(4.0)
    dump = MemoryDump(Graph([Node("a", "A")]))
    dump.add("a", 0, value, timestamp=1)
    shell = Shell(dump)
    shell.document("eval -o kept `a:0`[1:]")
    assert not np.shares_memory(shell.context.names["kept"], value)


def test_what_fails_is_not_stored(shell, tmp_path):
    shell.error("eval -o x 1/0")
    shell.error(f"eval -o x -w {tmp_path}/no/such.npy `ints:0`")
    shell.error("eval -o x -r 0,1 `text:0`")
    assert shell.context.names == {}


def test_offline_and_without_tensors(dump):
    assert Shell(dump, "offline").lines("eval `numbers`[0]")[-1] == "array(3, dtype=int32)"
    empty = Shell(MemoryDump(), info=RunInfo(1, ["x:0", "train"], {"a:0": 3}))
    assert empty.lines("eval `a`+1")[-1] == "array(4)"
    assert "kept no tensors" in empty.error("eval `xyz`")
    assert "not dumped" in empty.error("eval fetches['train']")
    assert "no value yet" in Shell(None, info=RunInfo(1, ["x:0"])).error("eval fetches['x']")


def test_small_floats_and_what_is_no_array():
    dump = MemoryDump(Graph([Node("a", "A"), Node("q", "Q")]))
    dump.add("a", 0, np.array([1, np.inf], ml_dtypes.bfloat16), timestamp=1)
    dump.add("q", 0, InconvertibleTensorProto("a queue"), timestamp=2)
    shell = Shell(dump)
    assert "dtype: bfloat16" in shell.text("eval `a:0`*2")
    assert "+inf" in shell.text("eval `a:0`*2")
    assert "is not an array: a queue" in shell.error("eval `q:0`")


def test_the_program_survives_and_its_settings_too(shell):
    options = np.get_printoptions(), np.geterr()
    shell.document("eval np.log(`bad/Mul:0`)")
    assert (np.get_printoptions(), np.geterr()) == options


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("eval fet", ["eval fetches"]),
        ("eval np.sum(fe", ["eval np.sum(fetches", "eval np.sum(feeds"]),
        ("eval bef", ["eval before"]),
        ("eval -o bef", ["eval -o before"]),
        ("eval np.su", []),
        ("eval `ints:0`+`hidden/Ma", ["eval `ints:0`+`hidden/MatMul:0`"]),
        ("eval --so", ["eval --sort-by-magnitude"]),
    ],
)
def test_completion(shell, text, expected):
    shell.document("eval -o before 3")
    assert shell.complete(text) == expected
