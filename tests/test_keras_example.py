"""The example for Keras on TensorFlow 2: its bug, without the debugger and found with it."""

import math
import re
from importlib.metadata import PackageNotFoundError, version

import pytest
from examples_kit import EXAMPLES, debug, line_of, needs, python, screens
from samples import sample

EXAMPLE = "debug_keras.py"
LOG = "compile_loss/cross_entropy/Log"


def has_keras_3():
    """Whether Keras is one that has ``keras.ops``."""
    try:
        return int(version("keras").partition(".")[0]) >= 3
    except PackageNotFoundError:
        return False


pytestmark = [
    *needs("tensorflow", "keras"),
    pytest.mark.skipif(not has_keras_3(), reason="needs Keras 3"),
]


def plain(*arguments):
    done = python(EXAMPLES / EXAMPLE, *arguments)
    assert done.status == 0, done.err
    return done.out


def losses(text):
    return [float(loss) for loss in re.findall(r"^Epoch \d+: loss (\S+),", text, re.M)]


@pytest.fixture(scope="module")
def alone():
    return plain()


def test_it_learns_and_then_has_no_loss(alone):
    found = losses(alone)
    assert len(found) == 4
    assert math.isfinite(found[0])
    assert math.isnan(found[-1])


@pytest.mark.parametrize("how", [*sample([(), ("--jit-compile",), ("--run-eagerly",)], 2)])
def test_the_stop_is_at_the_logarithm_and_leads_to_its_line(how, alone):
    commands = ["run -f has_inf_or_nan", "li --to-first-bad", f"ni -t {LOG}"]
    done = debug(commands, EXAMPLE, *how)
    assert done.status == 0, done.err
    assert done.tensors[0] == f"{LOG}:0"
    shown = screens(done.out)
    way = "\n".join(shown["li --to-first-bad"])
    assert "nothing bad leads to it" in way
    assert "digit" in way and "Softmax" in way
    line = f"  Line:     {line_of(EXAMPLE, 'ops.log(given)')}"
    assert line in shown[f"ni -t {LOG}"]
    assert done.out.count("Epoch") == 4
    assert how or losses(done.out) == pytest.approx(losses(alone), nan_ok=True)


def test_in_the_stable_model_the_breakpoint_never_fires():
    arguments = ["--stable", "--learning-rate", "0.01"]
    done = debug(["run -f has_inf_or_nan", "lt"], EXAMPLE, *arguments)
    assert done.status == 0, done.err
    assert screens(done.out) == {}
    assert done.out == plain(*arguments)
    found = losses(done.out)
    assert found[-1] < found[0] / 2
