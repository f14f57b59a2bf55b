"""Sessions of TensorFlow, and steps of TensorFlow 2, that part at a known op."""

import pytest
from planted_kit import Planted, launched

_SESSION = """
import sys
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()
variant = sys.argv[1]
rng = np.random.RandomState(0)
x = tf.placeholder(tf.float32, (8, 4), name="x")
w1 = tf.Variable(rng.randn(4, 16).astype("float32"), name="w1")
w2 = tf.Variable(rng.randn(16, 3).astype("float32"), name="w2")
hidden = tf.nn.relu(tf.matmul(x, w1, name="first"), name="hidden")
logits = tf.matmul(hidden, w2, name="logits")
chances = tf.nn.softmax(logits * (1.001 if variant == "factor" else 1.0), name="chances")
loss = tf.reduce_mean(tf.square(chances), name="loss")
train = tf.train.GradientDescentOptimizer(0.1).minimize(
    loss, var_list=[w1] if variant == "stale" else [w1, w2]
)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for number in range(2):
        fed = np.random.RandomState(number).randn(8, 4).astype("float32")
        session.run([loss, train], {x: fed})
"""

_FUNCTION = """
import sys
import numpy as np
import tensorflow as tf

variant = sys.argv[1]
rng = np.random.RandomState(0)
w1 = tf.Variable(rng.randn(4, 16).astype("float32"), name="w1")
w2 = tf.Variable(rng.randn(16, 3).astype("float32"), name="w2")

@tf.function
def step(x):
    with tf.GradientTape() as tape:
        hidden = tf.nn.relu(tf.matmul(x, w1, name="first"), name="hidden")
        logits = tf.matmul(hidden, w2, name="logits")
        if variant == "factor":
            logits = tf.multiply(logits, 1.001, name="scaled")
        else:
            logits = tf.multiply(logits, 1.0, name="scaled")
        loss = tf.reduce_mean(tf.square(tf.nn.softmax(logits)), name="loss")
    for variable, gradient in zip((w1, w2), tape.gradient(loss, (w1, w2))):
        variable.assign_sub(0.1 * gradient)
    return loss

for number in range(2):
    step(tf.constant(np.random.RandomState(number).randn(8, 4).astype("float32")))
"""


def with_tensorflow(*arguments):
    return launched(*arguments, modules=("tensorflow",))


@pytest.fixture(scope="module")
def planted(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("planted")
    program = folder / "program.py"
    program.write_text(request.param)

    return Planted(with_tensorflow, program, folder)


@pytest.mark.parametrize("planted", [_SESSION], indirect=True, ids=["session"])
def test_sessions_part_where_they_were_made_to(planted):
    assert planted.parted("factor").endswith(
        ": it was given differently: nothing in the run computes it."
    )
    assert planted.parted("stale").endswith("it was different at the start of this run.")


@pytest.mark.parametrize("planted", [_FUNCTION], indirect=True, ids=["function"])
def test_steps_part_where_they_were_made_to(planted):
    assert "scaled" in planted.parted("factor").split(": ")[0]


@pytest.mark.parametrize(("variant", "where"), [("none", ""), ("factor", "scaled")])
def test_a_session_beside_a_function(tmp_path, variant, where):
    kept = {}
    for name, text, which in (("session", _SESSION, "none"), ("function", _FUNCTION, variant)):
        program = tmp_path / f"{name}.py"
        program.write_text(text)
        (tmp_path / name).mkdir()
        kept[name] = Planted(with_tensorflow, program, tmp_path / name, runs=2).kept(which)
    # The first run of the session has made the variables.
    first, second = kept["session"] / "run_000002", kept["function"] / "run_000001"
    _, out, err = launched("--batch", "--dump-dir", str(first), "-c", f"compare {second}")
    assert "by value" in out, err
    if where:
        assert f"They part at {where}" in out or "They part at mul" in out, out
    else:
        assert " 0 beyond the bar" in out, out
