"""Optimizers against hand-written loops and against TensorFlow."""

import numpy as np
import pytest
from floats_kit import assert_close

from tfdbg_cli.engines import numpy as tf


@pytest.fixture(autouse=True)
def _fresh_graph():
    with tf.Graph().as_default():
        yield


def test_gradient_descent():
    v = tf.Variable(np.array([1.0, 2.0]))
    step = v.assign_sub(0.1 * tf.gradients(tf.reduce_sum(v * v), v)[0]).op
    with tf.Session() as session:
        session.run(v.initializer)
        for _ in range(3):
            assert session.run(step) is None
        assert_close(session.run(v), np.float32([1.0, 2.0]) * np.float32(0.8**3), terms=3)


def test_adam_is_the_loop_written_by_hand():
    stream = np.random.default_rng(0)
    features = stream.normal(size=(20, 3)).astype(np.float32)
    targets = features @ np.array([[1.0], [-2.0], [0.5]], np.float32)
    x = tf.placeholder(tf.float32, [None, 3])
    v = tf.Variable(np.full((3, 1), 0.3, np.float32))
    loss = tf.reduce_mean(tf.square(tf.matmul(x, v) - targets))
    step = tf.train.AdamOptimizer(0.05).minimize(loss)

    value, m, s = np.full((3, 1), 0.3), np.zeros((3, 1)), np.zeros((3, 1))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for t in range(1, 21):
            session.run(step, {x: features})
            grad = 2 * features.T @ (features @ value - targets) / len(features)
            m = 0.9 * m + 0.1 * grad
            s = 0.999 * s + 0.001 * grad**2
            rate = 0.05 * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
            value = value - rate * m / (np.sqrt(s) + 1e-8)
            np.testing.assert_allclose(session.run(v), value, rtol=2e-4, atol=5e-6)


def test_names_of_slots_and_updates():
    with tf.name_scope("hidden"), tf.name_scope("weights"):
        v = tf.Variable([1.0])
    loss = tf.reduce_sum(v * v)
    with tf.name_scope("train"):
        step = tf.train.AdamOptimizer().minimize(loss)
    names = {op.name: op.type for op in tf.get_default_graph().get_operations()}
    assert step.name == "train/Adam"
    assert step.type == "NoOp"
    assert names["train/beta1_power"] == "VariableV2"
    assert names["hidden/weights/Variable/Adam"] == "VariableV2"
    assert names["hidden/weights/Variable/Adam_1/read"] == "Identity"
    assert names["train/Adam/update_hidden/weights/Variable/ApplyAdam"] == "ApplyAdam"
    assert names["train/gradients/mul_grad/Mul"] == "Mul"
    assert [v.name for v in tf.trainable_variables()] == ["hidden/weights/Variable:0"]
    assert len(tf.global_variables()) == 5


def test_the_rate_may_be_a_tensor_and_what_is_not_trainable_stays():
    v, other = tf.Variable(1.0), tf.Variable(2.0, trainable=False)
    train = tf.train.AdamOptimizer(tf.constant(0.5)).minimize(v * v + other)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        assert session.run([v, other]) == [pytest.approx(0.5), 2.0]


def test_what_cannot_be_optimized():
    optimizer = tf.train.AdamOptimizer()
    with pytest.raises(ValueError, match="no variables"):
        optimizer.minimize(tf.constant(1.0))
    tf.Variable(1.0, name="v")
    with pytest.raises(ValueError, match=r"no gradient for any variable \(v:0\)"):
        optimizer.minimize(tf.constant(1.0))


def build(tf_like):
    """A small classifier in the part of the API that both engines have."""
    x = tf_like.placeholder(tf_like.float32, [None, 4], name="x")
    labels = tf_like.placeholder(tf_like.float32, [None, 3], name="labels")
    stream = np.random.RandomState(0)
    with tf_like.name_scope("hidden"):
        w = tf_like.Variable(stream.normal(size=(4, 5)).astype(np.float32))
        b = tf_like.Variable(np.full(5, 0.1, np.float32))
        hidden = tf_like.nn.relu(tf_like.matmul(x, w) + b)
    u = tf_like.Variable(stream.normal(size=(5, 3)).astype(np.float32), name="u")
    y = tf_like.nn.softmax(tf_like.matmul(hidden, u))
    with tf_like.name_scope("cross_entropy"):
        loss = tf_like.reduce_mean(-(labels * tf_like.log(y)))
    with tf_like.name_scope("train"):
        step = tf_like.train.AdamOptimizer(0.02).minimize(loss)
    grads = tf_like.gradients(loss, [w, b, u])
    return x, labels, [w, b, u], loss, grads, step


def train(tf_like):
    x, labels, variables, loss, grads, step = build(tf_like)
    stream = np.random.RandomState(1)
    feed = {x: stream.normal(size=(6, 4)), labels: np.eye(3)[stream.randint(3, size=6)]}
    with tf_like.Session() as session:
        session.run(tf_like.global_variables_initializer())
        history = []
        for _ in range(5):
            history.append(session.run([loss, *grads], feed))
            session.run(step, feed)
        history.append(session.run(variables))
    return history


@pytest.mark.tensorflow
def test_gradients_adam_and_names_are_those_of_tensorflow(monkeypatch):
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "2")
    tensorflow = pytest.importorskip("tensorflow")
    real = tensorflow.compat.v1
    with tensorflow.Graph().as_default() as their_graph:
        was_resource = real.resource_variables_enabled()
        real.disable_resource_variables()
        try:
            theirs = train(real)
        finally:
            if was_resource:
                real.enable_resource_variables()
        their_types = {op.name: op.type for op in their_graph.get_operations()}
    ours = train(tf)
    our_types = {op.name: op.type for op in tf.get_default_graph().get_operations()}
    for mine, yours in zip(ours, theirs, strict=True):
        for one, two in zip(mine, yours, strict=True):
            np.testing.assert_allclose(one, two, rtol=2e-4, atol=1e-6)
    made_by_user = {
        name: op_type for name, op_type in their_types.items() if "gradients" not in name
    }
    assert {name: our_types.get(name) for name in made_by_user} == made_by_user
    for name in ("Log_grad/Reciprocal", "Log_grad/mul", "mul_grad/Mul", "mul_grad/Sum"):
        full = f"train/gradients/cross_entropy/{name}"
        assert our_types[full] == their_types[full]
