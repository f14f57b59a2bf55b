"""`why` gives the reasons that ops of TensorFlow show, in sessions and in functions."""

from __future__ import annotations

import pytest
from causes_cases import LOCAL, Case
from causes_kit import Told, cases_of, told
from program_server import Programs
from samples import night, sample
from tf2_kit import server

__all__ = ["server"]

_BOTH = """
import numpy as np
import tensorflow as tf2

inf = float("inf")
W = np.float32([[1, 4, 2], [3, 0.5, 2]])
BAD = W.copy()
BAD[0, 1] = np.nan
MASK = np.float32([[0, 0, 0], [-np.inf] * 3])


def broken(x):
    return np.full_like(x, np.nan)


def given(name):
    return BAD if "nan of the batch" in name else W
"""
_SESSION = """
tf = tf2.compat.v1
tf.disable_eager_execution()
one, one_zero, mask = map(tf.constant, (np.ones_like(W), [[1.0, 1, 1], [1, 1, 0]], MASK))
weights = tf.Variable(BAD, name="weights")
w = tf.placeholder(tf.float32, (2, 3), name="w")
bad = tf.placeholder(tf.float32, (2, 3), name="bad")
zero = w * one_zero
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for name, compute in [
{cases}]:
        made = compute(w, bad)
        print("case:", name, flush=True)
        session.run(made, {w: W, bad: given(name)})
"""
_FUNCTION = """
tf = tf2
weights = tf.Variable(BAD, name="weights")


def step(compute, w, bad):
    global zero, one, one_zero, mask
    one, one_zero, mask = map(tf.constant, (np.ones_like(W), [[1.0, 1, 1], [1, 1, 0]], MASK))
    zero = w * one_zero
    return compute(w, bad)


for name, compute in [
{cases}]:
    print("case:", name, flush=True)
    tf.function(step)(compute, tf.constant(W), tf.constant(given(name)))
"""


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(_FUNCTION, id="function"),
        pytest.param(_SESSION, id="session", marks=night),
    ],
)
def answers(
    server: Programs, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Told:
    folder = tmp_path_factory.mktemp("causes")
    return told(server, folder, "tensorflow", _BOTH + request.param)


@pytest.mark.parametrize("case", cases_of("tensorflow"))
def test_the_reason(answers: Told, case: Case) -> None:
    answers.check(case)


@pytest.mark.parametrize("case", cases_of("tensorflow", LOCAL))
def test_nothing_began(answers: Told, case: Case) -> None:
    answers.check_local(case)


@night
def test_remedies_make_most_of_them_clean(answers: Told) -> None:
    answers.check_remedies()


_WRITTEN = """
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
state = tf.get_variable("state", initializer=np.ones(2, "f"), use_resource=True)
written = tf.assign(state, tf.constant([1.0, np.nan]))
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    print(session.run(written))
"""


def test_a_variable_that_the_run_itself_has_written_was_not_bad_before(server, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(_WRITTEN)
    done = server.debugged("--batch", "-c", "run -f", path)
    assert "It began in [ReadVariableOp]" in done.out, done.out + done.err
    assert "Why:   AssignVariableOp wrote it in this run, from Const" in done.out
    assert "before this run" not in done.out


_INSIDE = """
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()
tf.{control_flow}_control_flow_v2()
x = tf.placeholder(tf.float32, [2], name="x")
zero = x - x


def loop(step, start):
    return tf.while_loop(lambda i, h: i < 4, lambda i, h: (i + 1, step(i, h)), [0, start])[1]


y = {y}
with tf.Session() as session:
    print(session.run(y, {{x: [1.0, 2.0]}}))
"""
_BODIES = {
    "exp of what comes round": (
        "loop(lambda i, h: tf.exp(h) * x, x)",
        r"exp of 5.237e+06 at [1], and exp ends at 88.72 in float32",
    ),
    "a division of what comes round": (
        "loop(lambda i, h: h / (x - 1), x)",
        "a division by 0 at [0]",
    ),
    "0 by 0 in a cond of a loop": (
        "loop(lambda i, h: tf.cond(i > 1, lambda: h / (x - x), lambda: h), zero)",
        "0 / 0 at 2 elements, the first at [0]",
    ),
    "0 by 0 in a cond": (
        "tf.cond(x[0] > 0, lambda: zero / (x - x), lambda: x)",
        "0 / 0 at 2 elements, the first at [0]",
    ),
}


@pytest.mark.parametrize("control_flow", ["disable", "enable"])
@pytest.mark.parametrize("name", [*sample(_BODIES, 2)])
def test_the_reason_inside_of_loops_and_conds(server, tmp_path, control_flow, name):
    """What comes in isn't dumped under its own name: the runtime leaves out what hands it on."""
    y, reason = _BODIES[name]
    path = tmp_path / "program.py"
    path.write_text(_INSIDE.format(control_flow=control_flow, y=y))
    done = server.debugged("--batch", "-c", "run -f", path)
    assert f"Why:   {reason}\n" in done.out, done.out + done.err
    assert "not dumped" not in done.out
