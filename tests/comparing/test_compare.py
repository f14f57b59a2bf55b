"""``compare`` and ``--against`` on kept runs of the NumPy engine."""

import re
import shutil

import ml_dtypes
import numpy as np
import pytest
from planted_kit import Planted, launched

from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.run_folder.writer import write_run_folder

_PROGRAM = """
import sys
import numpy as np
from tfdbg_cli.engines import numpy as tf

variant = sys.argv[1]
rng = np.random.RandomState(1 if variant == "seed" else 0)

def weights(*shape):
    return rng.randn(*shape).astype("float32")

x = tf.placeholder(tf.float32, (8, 4), name="x")
first, second = weights(4, 16), weights(16, 3)
if variant == "transposed":
    second[:3] = second[:3].T.copy()
w1 = tf.Variable(first, name="w1")
w2 = tf.Variable(second, name="w2")
with tf.name_scope("tower" if variant == "renamed" else "net"):
    hidden = tf.nn.relu(tf.matmul(x, w1, name="first"), name="hidden")
    if variant == "factor":
        hidden = tf.multiply(hidden, 1.001, name="scaled")
    elif variant == "inserted":
        hidden = tf.identity(tf.multiply(hidden, 1.0, name="scaled"), name="more")
    else:
        hidden = tf.multiply(hidden, 1.0, name="scaled")
    logits = tf.matmul(hidden, w2, name="logits")
    loss = tf.reduce_mean(tf.square(logits), name="loss")
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for number in range(2):
        fed = np.random.RandomState(number).randn(8, 4).astype("float32")
        if variant == "nan" and number == 1:
            fed[0, 0] = np.nan
        session.run(loss, {x: fed})
"""


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("planted")
    program = folder / "program.py"
    program.write_text(_PROGRAM)

    return Planted(launched, program, folder)


@pytest.mark.parametrize(
    ("variant", "where"),
    [
        # The first run makes the variables.
        ("seed", "it was given differently: nothing in the run computes it."),
        ("transposed", "it was given differently: nothing in the run computes it."),
        ("factor", "it was given differently: nothing in the run computes it."),
        ("nan", "it was given differently: nothing in the run computes it."),
        ("renamed", ""),
        ("inserted", ""),
    ],
)
def test_runs_part_where_they_were_made_to(planted, variant, where):
    name, _, said = planted.parted(variant).partition(": ")
    assert said == where
    names = {"seed": "w1/initial_value:0", "transposed": "w2/initial_value:0"}
    names |= {"factor": "net/scaled/y:0", "nan": "x:0"}
    assert name == names.get(variant, "")


def test_variables_of_an_earlier_run(planted):
    first = planted.compared("seed")[0]
    assert first["said"] == "it was different at the start of this run"
    _, out, _ = planted.run(
        *("--batch", "--dump-dir", str(planted.kept("none"))),
        *("-c", f"compare {planted.kept('seed')}", "-c", f"compare {planted.kept('seed')} w1"),
    )
    assert out.count("It was written before run 2 in A, before run 2 in B.") == 2


def test_a_folder_is_equal_to_itself(planted):
    assert planted.compared("none") == []
    _, out, _ = planted.run(
        *("--batch", "--dump-dir", str(planted.kept("none"))),
        *("-c", f"compare {planted.kept('none')} -a"),
    )
    assert "All pairs are equal in every bit." in out
    assert "Program: " not in out


def test_renamed_tensors_are_matched_by_what_they_are_computed_from(planted):
    status, out, _ = planted.run(
        *("--batch", "--dump-dir", str(planted.kept("none"))),
        *("-c", f"compare {planted.kept('renamed')} -a --json"),
    )
    assert status == 0
    assert '"tensor": "net/logits:0", "counterpart": "tower/logits:0"' in out
    assert '"matched_by": "neighbours"' in out


def test_a_map_says_what_is_called_how(planted, tmp_path):
    names = tmp_path / "names"
    names.write_text("# the tower was a net\nnet/(.*) -> tower/\\1\n")
    _, out, _ = planted.run(
        *("--batch", "--dump-dir", str(planted.kept("none"))),
        *("-c", f"compare {planted.kept('renamed')} -a --json --map {names}"),
    )
    assert '"matched_by": "map"' in out
    assert '"matched_by": "neighbours"' not in out


def test_a_wider_bar_lets_more_pass(planted, tmp_path):
    assert planted.compared("factor")
    assert planted.compared("factor", "--rtol", "0.01") == []
    assert planted.compared("factor", "--bar", "cosine:0.9") == []
    rules = tmp_path / "rules"
    rules.write_text(".* float32 rtol=0.01  # everything\n")
    assert planted.compared("factor", "--rules", str(rules)) == []


def test_a_wider_bar_for_all_runs_of_a_folder(planted, tmp_path):
    good, other = (str(planted.kept(name)) for name in ("none", "factor"))
    look = ("--batch", "--dump-dir", good, "--against", other)
    status, out, err = planted.run(*look, "--rtol", "0.01")
    assert (status, err) == (0, "")
    assert "None of 3 runs is beyond the bar." in out
    names = tmp_path / "na mes"
    names.write_text("x -> labels\n")
    status, out, err = planted.run(*look, "--map", str(names), "--bar", "cosine:0.9")
    program = f"{planted.program} "
    assert f"\nProgram: A {program}none  B {program}factor\n" in out
    assert "1 by content" in out  # the screen is on the same terms
    assert "Only rounding" not in out  # an angle is no error of rounding
    for options in (("--bar", "sine"), ("--map", "/no/such"), ("--rules", "/no/such")):
        status, out, err = planted.run(*look, *options)
        assert (status, out, err.count("\n")) == (2, "", 1)
    status, _, err = planted.run("--rtol", "1", str(planted.program), "none")
    assert (status, err) == (2, "tfdbg: --rtol is about --against.\n")


def test_one_tensor_in_both_runs(planted):
    _, out, _ = planted.run(
        *("--batch", "--dump-dir", str(planted.kept("none"))),
        *("-c", f"compare {planted.kept('factor')} net/scaled"),
    )
    assert "its inputs differ already\nmatched by name\n" in out
    assert "The elements that are farthest apart:" in out
    assert "Line in A: " in out
    assert 'hidden = tf.multiply(hidden, 1.001, name="scaled")' in out
    assert "The elements that are farthest apart:   heat map of B - A" in out
    _, out, err = planted.run(
        *("--batch", "--dump-dir", str(planted.kept("none"))),
        *("-c", f"compare {planted.kept('factor')} net/scaled --delta"),
        *("-c", f"compare {planted.kept('factor')} net/loss --delta"),
        *("-c", f"compare {planted.kept('factor')} --delta"),
    )
    assert "B - A of net/scaled:0\n" in out
    assert "symmetric about 0" in out
    assert "A single element makes no picture.\n" in err
    assert "--delta draws one tensor." in err


def test_only_what_is_selected(planted):
    good, other = planted.kept("none"), planted.kept("factor")
    select = ["-c", "select net/logits net/loss", "-c", f"compare {other} --selected --json"]
    _, out, _ = planted.run("--batch", "--dump-dir", str(good), *select)
    names = re.findall(r'"tensor": "([^"]+)"', out)
    assert names == ["net/logits:0", "net/loss:0"]


def test_runs_of_the_open_folder(planted):
    status, out, _ = planted.run(
        *("--batch", "--dump-dir", str(planted.kept("none")), "-c", "compare -r prev"),
    )
    assert status == 1
    assert "They part at x:0: it was given differently" in out


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("compare", "compare: with which run?"),
        ("compare /no/such", "/no/such"),
        ("compare -r 17", "There is no run 17."),
        ("compare {none} nothing:0", 'Neither run has dumped a tensor "nothing:0".'),
        ("compare {none} --bar sine", '--bar: there is no bar "sine".'),
        ("compare {none} --rules {rules}", "rules:1: "),
        ("compare {none} --map {rules}", "there is no -> between two names"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(planted, tmp_path, command, message):
    rules = tmp_path / "rules"
    rules.write_text("MatMul\n")
    text = command.format(none=planted.kept("none"), rules=rules)
    status, _, err = planted.run("--batch", "--dump-dir", str(planted.kept("none")), "-c", text)
    assert status == 1
    assert message in err
    assert "Traceback" not in err


def test_folders_without_a_common_run(planted, tmp_path):
    good = planted.kept("none")
    (tmp_path / "empty").mkdir()
    status, _, err = planted.run("--batch", "--dump-dir", str(good), "--against", str(tmp_path))
    assert status == 2
    assert "holds no dump" in err
    status, _, err = planted.run("--against", str(good))
    assert status == 2
    assert "--dump-dir" in err


def test_runs_that_cannot_be_compared_are_told_of(planted, tmp_path):
    good = planted.kept("none")
    other = tmp_path / "other"
    shutil.copytree(good, other)
    shutil.rmtree(other / "run_000001")
    for path in (other / "run_000002").iterdir():
        if path.is_file():
            path.unlink()
    status, out, err = planted.run("--batch", "--dump-dir", str(good), "--against", str(other))
    assert status == 1, err
    assert f"{other} has no run_000001." in out
    assert "run_000002 can't be compared: " in out
    assert "All pairs are equal in every bit." in out
    (value,) = (other / "run_000003").glob("tensors-*.safetensors")
    value.write_bytes(value.read_bytes()[:-100])
    status, out, err = planted.run("--batch", "--dump-dir", str(good), "--against", str(other))
    assert status == 1
    assert "Traceback" not in out + err


def test_at_a_stop_of_a_living_program(planted):
    program = planted.kept("none").parent / "program.py"
    status, out, _ = planted.run(
        *("--batch", "-c", "run", "-c", "run", "-c", f"compare {planted.kept('nan')}/run_000002"),
        *(str(program), "none"),
    )
    assert status == 0
    assert "All pairs are equal in every bit." in out


def test_a_living_program_stops_at_the_first_run_that_differs(planted):
    good = planted.kept("none")
    program = str(good.parent / "program.py")
    command = f"run -d {good}"
    status, out, _ = planted.run("--batch", "-c", command, "-c", "lt -f differs", program, "nan")
    assert status == 1  # as for compare
    assert "They part at x:0: it was given differently" in out
    assert out.count("--- run-end: run #") == 1
    assert "--- run-end: run #3:" in out
    assert '1 dumped tensor(s) passing filter "differs":' in out
    status, out, err = planted.run("--batch", "-c", f"{command} --rtol 0.01", program, "factor")
    assert (status, out) == (0, "")
    assert "no tensor passed differs up to the program's end, run 3." in err


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("run -d /no/such/folder", "/no/such/folder"),
        ("run -d {good} -f has_inf_or_nan", "leave -n and -f out"),
        ("run -d {good} -p", "-p keeps no tensors"),
    ],
)
def test_what_run_d_cannot_do(planted, command, message):
    good = planted.kept("none")
    text = command.format(good=good)
    _, _, err = planted.run("--batch", "-c", text, str(good.parent / "program.py"), "none")
    assert message in err
    assert "Traceback" not in err


def test_elements_of_every_kind_have_numbers(planted, tmp_path):
    """What is not a number of NumPy's own has its differences told as well."""
    masked = np.float32([-np.inf, 1, 2])
    pairs = {
        "bfloat16": (np.float32([1, 2]).astype(ml_dtypes.bfloat16), None),
        "float8": (np.float32([1, 2]).astype(ml_dtypes.float8_e4m3fn), None),
        "int4": (np.array([1, 2]).astype(ml_dtypes.int4), np.array([1, 4]).astype(ml_dtypes.int4)),
        "large": (np.array([2**53, 1]), np.array([2**53 + 1, 1])),
        "strings": (np.array([b"a", b"b"], object), np.array([b"a", b"c"], object)),
        "masked": (masked, masked * np.float32(1.01)),
        "empty": (np.zeros((0, 3)), np.zeros((3, 0))),
    }
    for side, name in enumerate("AB"):
        dump = MemoryDump()
        for what, values in pairs.items():
            value, other = values[0], values[1] if values[1] is not None else values[0] * 2
            dump.add(what, 0, other if side else value)
        write_run_folder(dump, tmp_path / name)
    look = "--batch", "--dump-dir", str(tmp_path / "A"), "-c"
    _, out, _ = planted.run(*look, f"compare {tmp_path / 'B'} -a --bar cosine")
    rows = {line.split()[-1]: line.split() for line in out.splitlines() if ":0" in line}
    assert rows["bfloat16:0"][1:7] == ["2", "1", "128", "1", "all", "0"]
    assert rows["float8:0"][1:7] == ["2", "1", "8", "1", "all", "0"]
    assert rows["int4:0"][1:3] == ["2", "1"]
    assert rows["large:0"][1:2] == ["1"]
    assert rows["strings:0"][:2] == ["given", "50.0%"]
    assert rows["masked:0"][0] == "within"  # the angle of what isn't masked
    assert "empty:0  the shapes differ: [0, 3] and [3, 0]" in out
    _, out, _ = planted.run(
        *look, f"compare {tmp_path / 'B'} large", "-c", f"compare {tmp_path / 'B'} strings"
    )
    assert re.search(r"\[0\]  9007199254740992  9007199254740993 +1\n", out)
    assert "differ  50.0%  1 of 2 elements" in out
