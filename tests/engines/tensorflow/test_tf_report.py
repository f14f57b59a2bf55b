"""Reports of a session's run and of a function's call."""

import json

import pytest
from report_kit import report_of
from samples import night

SESSION = """
import tensorflow as tf
tf = tf.compat.v1
tf.disable_eager_execution()
tf.set_random_seed(5)
x = tf.placeholder(tf.float32, (2, 3), name="x")
loss = tf.reduce_mean(tf.math.log(x, name="bad"), name="loss")
with tf.Session() as session:
    print(session.run(loss, {x: [[1.0, 2, 0], [1, 1, 1]]}))
"""
GRADIENT = """
import tensorflow as tf
tf = tf.compat.v1
tf.disable_eager_execution()
w = tf.get_variable("w", initializer=[0.0, 0.0])
norm = tf.sqrt(tf.reduce_sum(w * w))
train = tf.train.GradientDescentOptimizer(0.1).minimize(norm * 2.0)
with tf.Session() as session:
    session.run(w.initializer)
    session.run(train)
"""
FUNCTION = """
import tensorflow as tf

@tf.function
def loss(x):
    return tf.reduce_mean(tf.math.log(x, name="bad"))

print(loss(tf.constant([[1.0, 2, 0], [1, 1, 1]])))
"""


@pytest.mark.parametrize(
    "program",
    [pytest.param(SESSION, id="session"), pytest.param(FUNCTION, id="function", marks=night)],
)
def test_it_tells_of_a_run(program, tmp_path):
    out, page = report_of(tmp_path, program, "has_inf_or_nan")
    assert "inf" in out.splitlines()[-1]
    assert "the logarithm of 0 at [0, 2]" in page.text
    assert "1 -inf of 6" in page.text
    assert "TensorFlow2" in page.text
    if program is SESSION:
        assert "Seed5 (tf.set_random_seed)" in page.text
        assert "✗ loss = tf.reduce_mean(" in page.text
    assert any(title.startswith("Log ") for title in page.titles)


def test_the_line_of_a_gradient_is_that_of_its_forward_op(tmp_path):
    out, page = report_of(tmp_path, GRADIENT, "origin_of_nonfinite", "why --json")
    assert "Line of the forward op: program.py:6" in out
    [finding] = [json.loads(each) for each in out.splitlines() if each.startswith('{"version"')]
    assert finding["line"]["line"] == 6
    assert ":6 in <module>, the line of its forward op" in page.text
