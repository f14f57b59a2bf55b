"""The examples run as their texts say: plain, under the debugger, and with the drop-in API."""

import re

import pytest
from examples_kit import EXAMPLES, debug, needs, python


def only(*modules):
    """Marks a test that needs modules."""

    def mark(function):
        for each in needs(*modules):
            function = each(function)
        return function

    return mark


def plain(name, *arguments):
    return python(EXAMPLES / name, *arguments)


def launched(name, *arguments, commands):
    """Under the debugger, unmodified."""
    return debug(commands, name, *arguments)


def wrapped(name, *arguments, commands):
    """With the wrapper session or the hook of the example; commands come through a pipe."""
    options = ["--debug", "--ui_type", "plain"]
    stdin = "".join(f"{command}\n" for command in commands)
    return python(EXAMPLES / name, *options, *arguments, stdin=stdin)


WAYS = pytest.mark.parametrize("debug", [launched, wrapped])
# TensorFlow takes seconds to start: one way for each example, both with the NumPy engine.
ENGINES_AND_WAYS = pytest.mark.parametrize(
    ("engine", "debug"),
    [
        ("numpy", launched),
        ("numpy", wrapped),
        pytest.param("tensorflow", launched, marks=needs("tensorflow")),
    ],
)


def test_fibonacci_loses_its_ratio():
    assert plain("debug_fibonacci.py").out == "The golden ratio is about nan\n"
    short = plain("debug_fibonacci.py", "--length", "20")
    assert short.out.startswith("The golden ratio is about 1.61")


@ENGINES_AND_WAYS
def test_fibonacci_names_the_pass_that_overflowed(engine, debug):
    commands = ["run -f has_inf_or_nan", "pt fibonacci/while/following:0 -n 22"]
    done = debug("debug_fibonacci.py", "--engine", engine, commands=commands)
    assert done.status == 0
    assert "The golden ratio is about nan" in done.out
    # The 25th number is 1 and 1 and the results of 23 passes, counted from 0.
    assert done.tensors[0].endswith("following:0 (#22)")
    assert "array(inf" in done.out


OPS = {"shape_mismatch": "w", "uninitialized_variable": "v/read"}


@pytest.mark.parametrize(
    ("engine", "error", "debug"),
    [
        ("numpy", "shape_mismatch", launched),
        ("numpy", "shape_mismatch", wrapped),
        ("numpy", "uninitialized_variable", launched),
        pytest.param("tensorflow", "shape_mismatch", launched, marks=needs("tensorflow")),
        pytest.param("tensorflow", "uninitialized_variable", wrapped, marks=needs("tensorflow")),
    ],
)
def test_errors_are_shown_and_then_raised(engine, error, debug):
    arguments = ["--engine", engine, "--error", error]
    kind = {"w": "InvalidArgumentError", "v/read": "FailedPreconditionError"}[OPS[error]]
    op, count = OPS[error], 2 if error == "shape_mismatch" else 1
    commands = [f"run -t {count}", f"ni -t {op}", "li w", "lt"]
    found = debug("debug_errors.py", *arguments, commands=commands)
    assert found.status == 3
    assert f"The run failed with {kind}." in found.err
    assert f"Op name:    {op}" in found.out
    assert f"Error type: {kind}" in found.out
    assert f"ni -a -d -t {op}" in found.out
    assert f"ps {EXAMPLES / 'debug_errors.py'} -b " in found.out
    assert ("w = tf.matmul(x, v" if op == "w" else "v = tf.Variable(np.ones") in found.out
    assert "(1) ph_float" in found.out
    assert "ph_float:0" in found.tensors


@pytest.mark.parametrize("error", OPS)
def test_errors_end_the_plain_program_too(error):
    done = plain("debug_errors.py", "--error", error)
    assert (done.status, done.out) == (3, "")


@WAYS
def test_without_an_error_nothing_fails(debug):
    assert plain("debug_errors.py", "--error", "no_error").out == "Result: 6.0\n"
    done = debug("debug_errors.py", "--error", "no_error", commands=["run", "pt m:0"])
    assert "Result: 6.0" in done.out
    assert 'Tensor "m:0' in done.out


@WAYS
@only("tensorflow")
def test_a_monitored_session_and_its_exploding_loss(debug):
    expected = plain("debug_monitored.py").out
    losses = expected.split()[1::2]
    assert len(losses) == 8
    assert losses[-1] == "nan"
    commands = ["run -f has_inf_or_nan", "pt loss:0"]
    done = debug("debug_monitored.py", commands=commands)
    assert done.status == 0
    assert [line for line in done.out.splitlines() if line.startswith("loss ")] == (
        expected.splitlines()
    )
    assert "run-end: run #3: 2 fetches; 1 feed (x:0)" in done.out
    assert done.tensors[0] == "SquaredDifference:0"


@only("tensorflow")
def test_a_filter_of_the_hook():
    done = wrapped("debug_monitored.py", commands=["run -f large_weights"])
    assert "run-end: run #2:" in done.out
    assert done.tensors[0] == "weights:0"


@only("tensorflow")
def test_the_dumping_hook(tmp_path):
    root = tmp_path / "root"
    done = plain("debug_monitored.py", "--dump_root", root)
    assert done.status == 0
    runs = sorted(root.iterdir(), key=lambda path: int(path.name.rpartition("_")[2]))
    assert len(runs) == 8
    found = python(
        *("-m", "tfdbg_cli", "--batch", "-c", "lt -f has_inf_or_nan", "--dump-dir", runs[2])
    )
    assert found.tensors[0] == "SquaredDifference:0"


@WAYS
@only("tensorflow", "tf_keras")
def test_keras_in_a_session(debug):
    commands = ["run -f has_inf_or_nan", "ni -t loss/given_loss/log_of_given"]
    done = debug("debug_keras_session.py", commands=commands)
    assert done.status == 0
    assert done.out.endswith("Epoch 0: loss nan\nEpoch 1: loss nan\n")
    assert done.tensors[0] == "loss/given_loss/log_of_given:0"
    assert "return -tf.reduce_mean(wanted * tf.log(given" in done.out


@only("tensorflow", "tf_slim")
def test_slim_trains_and_evaluates_under_the_debugger_as_without():
    expected = plain("debug_slim.py").out
    assert re.fullmatch(
        r"Training ended with a loss of \S+\nThe mean squared error is \S+\n", expected
    )
    done = launched("debug_slim.py", commands=["run -f has_inf_or_nan"])
    assert done.status == 0
    assert done.out.endswith(expected)


@only("tensorflow", "tf_slim")
def test_slim_stops_in_training_and_in_evaluation():
    done = wrapped("debug_slim.py", commands=["run", *["lt -n linear", "run"] * 60])
    stops = re.findall(r"run-end: run #(\d+): (\d+) fetch", done.out)
    assert len(stops) > 10
    assert stops[-2:] == [("1", "2"), ("2", "2")]  # the hook counts the runs of the evaluation
    assert any(name.startswith("linear/") for name in done.tensors)


@only("tensorflow", "tf_slim")
def test_slim_dumps_training_and_evaluation(tmp_path):
    assert plain("debug_slim.py", "--dump_root", tmp_path).status == 0
    assert len(list((tmp_path / "train").iterdir())) >= 4
    assert len(list((tmp_path / "evaluate").iterdir())) == 2


def test_two_runs_part_at_the_constant_that_has_changed(tmp_path):
    kept = ["--batch", "--keep-dumps", *["-c", "run"] * 4, "--dump-root"]
    for name, options in (("good", []), ("odd", ["--eps", "1e-3"])):
        program = [EXAMPLES / "compare_runs.py", *options]
        done = python("-m", "tfdbg_cli", *kept, tmp_path / name, *program)
        assert done.status == 0, done.err
    folders = ["--dump-dir", tmp_path / "good", "--against", tmp_path / "odd"]
    done = python("-m", "tfdbg_cli", "--batch", *folders)
    assert done.status == 1
    assert "They part at loss/safe/y:0: it was given differently" in done.out
