"""Reports of a session's run and of a function's call."""

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
