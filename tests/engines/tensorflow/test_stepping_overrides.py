"""What an override does to the rest of a run of TensorFlow, and to its variables."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from floats_kit import assert_close
from samples import sample
from tf_stepping_kit import KINDS, W, X, stepper_of, tf1, to_the_end, until

from tfdbg_cli.common.errors import UserError


@KINDS
def test_gradient_descent_by_hand(graph, resource):
    x = tf1.placeholder(tf.float32, [None, 4], name="x")
    w = tf1.get_variable("w", initializer=W, use_resource=resource)
    h = tf.matmul(x, w, name="h")
    loss = tf.reduce_sum(tf.square(h), name="loss")
    train = tf1.train.GradientDescentOptimizer(0.1).minimize(loss)
    other = np.full([2, 3], 2.0, np.float32)
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        graph.finalize()
        version, count = graph.version, len(graph.get_operations())
        stepper = stepper_of(session, [loss, train], {x: X})
        until(stepper, "h:0")
        stepper.override("h:0", other)
        assert stepper.overrides["h:0"].tolist() == other.tolist()
        assert_close(stepper.original("h:0"), X @ W, terms=4)
        to_the_end(stepper)
        assert stepper.value("loss:0") == 24
        assert_close(stepper.original("loss:0"), np.square(X @ W).sum(), terms=6)
        assert stepper.updated == ["w"]
        shown = {datum.tensor_name: datum.get_tensor() for datum in stepper.dump().data()}
        assert shown["h:0"].tolist() == other.tolist() and shown["loss:0"] == 24
        capture = stepper.finish()
        assert capture.value == [24, None]
        assert capture.dump.by_tensor("loss:0")[0].get_tensor() == 24
        assert_close(session.run(w), W - 0.1 * X.T @ (2 * other), terms=3)
        stepper.discard()
        assert_close(session.run(w), W - 0.1 * X.T @ (2 * (X @ W)), terms=6)
        assert (version, count) == (graph.version, len(graph.get_operations()))
        with pytest.raises(UserError, match="over"):
            stepper.advance()


@KINDS
@pytest.mark.parametrize(
    "optimizer",
    [
        *sample(
            [
                pytest.param(lambda: tf1.train.AdamOptimizer(0.1), id="adam"),
                pytest.param(lambda: tf1.train.MomentumOptimizer(0.1, 0.9), id="momentum"),
                pytest.param(lambda: tf1.train.RMSPropOptimizer(0.1), id="rmsprop"),
            ],
            2,
        )
    ],
)
def test_an_override_is_the_run_with_the_tensor_replaced(resource, optimizer):
    def build(replaced):
        x = tf1.placeholder(tf.float32, [None, 4], name="x")
        w = tf1.get_variable("w", initializer=W, use_resource=resource)
        hidden = tf.matmul(x, w, name="h")
        if replaced:
            hidden = tf1.placeholder_with_default(hidden, hidden.shape, name="other")
        loss = tf.reduce_sum(tf.square(tf.nn.softmax(hidden * tf.reduce_sum(w))), name="loss")
        step = tf1.train.get_or_create_global_step()
        return loss, optimizer().minimize(loss, global_step=step), x

    other = np.array([[1, 2, 3], [0, -1, 1]], np.float32)
    outcomes = []
    for replaced in (True, False):
        with tf.Graph().as_default():
            loss, train, x = build(replaced)
            with tf1.Session() as session:
                session.run(tf1.global_variables_initializer())
                session.run(train, {x: X})
                if replaced:
                    value = session.run([loss, train], {x: X, "other:0": other})
                else:
                    stepper = stepper_of(session, [loss, train], {x: X})
                    stepper.override("h:0", other)  # before it is computed
                    assert stepper.value("h:0").tolist() == other.tolist()
                    value = stepper.finish().value
                session.run(train, {x: X})
                outcomes.append([value[0], *session.run(tf1.global_variables())])
    for expected, found in zip(*outcomes, strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-6)


@KINDS
def test_an_override_that_changes_nothing(classifier, resource):
    feeds = {classifier.x: np.ones([2, 8]), classifier.y: np.eye(3)[:2]}
    found = []
    for overridden in (False, True):
        with tf1.Session(graph=classifier.graph) as session:
            session.run(classifier.init)
            stepper = stepper_of(session, [classifier.loss, classifier.train], feeds)
            if overridden:
                until(stepper, "Softmax:0")
                stepper.override("Softmax:0", stepper.value("Softmax:0"))
            value = stepper.finish().value[0]
            weights = session.run(classifier.graph.get_collection("variables"))
            found.append([value, *weights])
    for plain, again in zip(*found, strict=True):
        np.testing.assert_allclose(again, plain, rtol=1e-5, atol=1e-7)


def test_dropout_keeps_its_mask_and_the_random_stream_its_place():
    def run(override):
        with tf.Graph().as_default():
            tf1.set_random_seed(3)
            x = tf1.placeholder(tf.float32, [None], name="x")
            y = tf.identity(tf.nn.dropout(x * 1.0, rate=0.5, name="drop"), name="y")
            with tf1.Session() as session:
                stepper = stepper_of(session, y, {x: np.ones(8)})
                if override:
                    stepper.override("x:0", np.full(8, 3.0))
                return stepper.finish().value, session.run(y, {x: np.ones(8)})

    plain, after = run(False)
    tripled, after_that = run(True)
    assert 0 < (plain == 0).sum() < 8
    assert (tripled == 3 * plain).all() and (after_that == after).all()


def test_taking_back_and_going_back(graph):
    x = tf1.placeholder(tf.float32, [], name="x")
    y = tf.multiply(x, 2.0, name="y")
    a = tf.add(y, 1.0, name="a")
    b = tf.add(y, a, name="b")
    with tf1.Session() as session:
        stepper = stepper_of(session, b, {x: 5.0})
        until(stepper, "y:0")
        stepper.override("y:0", 100.0)
        with pytest.raises(UserError, match="not overridden"):
            stepper.take_back("a:0")
        until(stepper, "a:0")
        assert stepper.value("a:0") == 101
        with pytest.raises(UserError, match="a has used y:0 already"):
            stepper.override("y:0", 1.0)
        stepper.take_back("y:0")  # for what comes from now on
        assert stepper.value("y:0") == 10 and stepper.value("a:0") == 101
        until(stepper, "b:0")
        assert stepper.value("b:0") == 111
        while stepper.has("a:0"):
            stepper.back()
        until(stepper, "b:0")
        assert stepper.value("b:0") == 21
        while stepper.has("a:0"):
            stepper.back()
        stepper.override("y:0", 1.0)
        stepper.override("a:0", 3.0)
        assert stepper.finish().value == 4


@KINDS
def test_updates_by_control_inputs_happen_once(graph, resource):
    x = tf1.placeholder(tf.float32, [], name="x")
    count = tf1.get_variable("count", initializer=10.0, use_resource=resource)
    total = tf1.get_variable("total", initializer=0.0, use_resource=resource)
    calls = []
    with tf.control_dependencies([tf1.py_func(lambda: calls.append(1), [], [], name="call")]):
        up = tf1.assign_add(count, 1.0)
    with tf.control_dependencies([up]):
        y = tf.multiply(x, 2.0, name="y")
    add = tf1.assign_add(total, y, name="add")
    with tf.control_dependencies([add]):
        seen = tf.identity(total.read_value(), name="seen")
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        stepper = stepper_of(session, [seen, add], {x: 5.0})
        until(stepper, "y:0")
        stepper.override("y:0", 7.0)
        to_the_end(stepper)
        assert set(stepper.updated) == {"count", "total"}
        assert stepper.value("seen:0") == 7 and stepper.original("seen:0") == 10
        assert session.run([count, total]) == [11, 10]  # not finished yet
        assert stepper.finish().value == [7, 7]
        assert session.run([count, total]) == [11, 7]
        assert len(calls) == 1


@KINDS
def test_restored_variables(graph, resource):
    v = tf1.get_variable("v", initializer=1.0, use_resource=resource)
    first = tf1.assign_add(v, 10.0, name="first")
    with tf.control_dependencies([first]):
        second = tf1.assign_add(v, 100.0, name="second")
    with tf.control_dependencies([second]):
        seen = tf.identity(v.read_value(), name="seen")
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        stepper = stepper_of(session, seen)
        with pytest.raises(UserError, match="No step has changed"):
            stepper.restore(["v"])
        while "v" not in stepper.advance().updated:
            pass
        assert stepper.updated == ["v"]
        assert list(stepper.restore()) == ["v"]
        assert not stepper.updated
        while "v" not in stepper.advance().updated:
            pass
        to_the_end(stepper)
        assert stepper.value("seen:0") == 101 and stepper.original("seen:0") == 111
        assert stepper.finish().value == 101
        assert session.run(v) == 101
        assert stepper.discard().value == 111
        assert session.run(v) == 111


def test_old_conds_and_loops(old_control_flow, graph):
    x = tf1.placeholder(tf.float32, [2], name="x")
    w = tf1.get_variable("w", initializer=[1.0, 2.0], use_resource=False)
    h = tf.multiply(x, w, name="h")

    def yes():
        return tf.nn.dropout(tf.square(h, name="squared"), rate=0.5)

    picked = tf1.cond(tf.reduce_sum(h) > 0, yes, lambda: tf.constant([7.0, 7.0]), name="pick")
    loop = tf1.while_loop(
        lambda i, _: i < 3, lambda i, a: (i + 1, a * picked), (0, tf.ones([2])), name="wl"
    )[1]
    loss = tf.reduce_sum(loop, name="loss")
    slope = tf.gradients(loss, h)[0]
    with tf1.Session() as session:
        session.run(w.initializer)
        stepper = stepper_of(session, [loss, slope, picked], {x: [1, 1]})
        until(stepper, "h:0")
        stepper.override("h:0", [2.0, 3.0])
        to_the_end(stepper)
        loss_value, slope_value, picked_value = stepper.finish().value
        mask = (stepper.original("pick/Merge:0") != 0).astype(float)
        h_value = np.array([2.0, 3.0])
        assert_close(picked_value, 2 * mask * h_value**2)
        assert_close(loss_value, (picked_value**3).sum(), terms=4)
        assert_close(slope_value, 3 * picked_value**2 * 2 * mask * 2 * h_value, terms=4)
        # The other side of the condition.
        stepper = stepper_of(session, [loss, picked], {x: [1, 1]})
        stepper.override("h:0", [-2.0, 1.0])
        assert stepper.finish().value[1].tolist() == [7, 7]
        # Inside of the branch.
        stepper = stepper_of(session, [loss, picked], {x: [1, 1]})
        until(stepper, "pick/squared:0")
        stepper.override("pick/squared:0", [5.0, 5.0])
        assert set(stepper.finish().value[1]) <= {0, 10}


def test_new_conds_and_loops(graph):
    x = tf1.placeholder(tf.float32, [], name="x")
    w = tf1.get_variable("w", initializer=2.0, use_resource=True)
    h = tf.identity(x * 1.0, name="h")
    loop = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * h * w), (0, 1.0), name="wl")[
        1
    ]
    picked = tf.cond(loop > 10, lambda: loop * w, lambda: -loop)
    loss = tf.identity(picked, name="loss")
    train = tf1.train.GradientDescentOptimizer(0.01).minimize(loss)
    with tf1.Session() as session:
        session.run(w.initializer)
        stepper = stepper_of(session, [loss, train], {x: 3.0})
        until(stepper, "h:0")
        assert stepper.override("h:0", 1.5) is None
        to_the_end(stepper)
        # (1.5 w)^3 w, and its derivative 4 * 1.5^3 w^3
        assert stepper.value("loss:0") == pytest.approx(54)
        assert stepper.original("loss:0") == pytest.approx(432)
        stepper.finish()
        assert session.run(w) == pytest.approx(2 - 0.01 * 4 * 1.5**3 * 8)


def test_a_tensor_array_is_written_again(old_control_flow, graph):
    x = tf1.placeholder(tf.float32, [3], name="x")
    y = tf.identity(x * 1.0, name="y")
    array = tf.TensorArray(tf.float32, 3).unstack(y)
    out = tf1.while_loop(
        lambda i, _: i < 3,
        lambda i, found: (i + 1, found.write(i, array.read(i) ** 2)),
        (0, tf.TensorArray(tf.float32, 3)),
    )[1].stack()
    slope = tf.gradients(out, y)[0]
    with tf1.Session() as session:
        stepper = stepper_of(session, [out, slope], {x: [1, 2, 3]})
        until(stepper, "y:0")
        stepper.override("y:0", [4.0, 5.0, 6.0])
        value = stepper.finish().value
        assert value[0].tolist() == [16, 25, 36] and value[1].tolist() == [8, 10, 12]


@KINDS
def test_what_reads_a_variable_after_its_update_sees_the_override(graph, resource):
    x = tf1.placeholder(tf.float32, [], name="x")
    v = tf1.get_variable("v", initializer=0.0, use_resource=resource)
    up = tf1.assign_add(v, tf.multiply(x, 1.0, name="h"))
    seen = tf.reshape(v if resource else v.value(), [1], name="seen")  # the buffer itself
    with tf.control_dependencies([up]):
        after = tf.add(v, 0.0, name="after")
        far = tf.add(v if resource else seen, 0.0, name="far")
    with tf1.Session() as session:
        session.run(v.initializer)
        stepper = stepper_of(session, [up, after, far], {x: 1.0})
        until(stepper, "h:0")
        stepper.override("h:0", 5.0)
        to_the_end(stepper)
        assert stepper.value("after:0") == 5 and stepper.original("after:0") == 1
        assert stepper.finish().value == [5, 5, 5]
        assert session.run(v) == 5
        assert stepper.discard().value == [1, 1, 1]
        assert session.run(v) == 1


@KINDS
def test_a_variable_that_is_fetched_is_what_it_is_in_the_end(graph, resource):
    x = tf1.placeholder(tf.float32, [], name="x")
    v = tf1.get_variable("v", initializer=0.0, use_resource=resource)
    seen = tf.identity(v.read_value(), name="seen")
    doubled = tf.multiply(seen, 2.0, name="doubled")
    with tf.control_dependencies([doubled]):
        up = tf1.assign_add(v, tf.multiply(x, 1.0, name="h"))
    with tf.control_dependencies([up]):
        late = tf.add(seen, 0.0, name="late")
    fetches = [seen, up, doubled, late]
    with tf1.Session() as session:
        session.run(v.initializer)
        plain = session.run(fetches, {x: 5.0})
        assert plain == ([0, 5, 0, 0] if resource else [5, 5, 0, 5])  # the buffer itself
        session.run(v.initializer)
        stepper = stepper_of(session, fetches, {x: 1.0})
        stepper.override("h:0", 5.0)
        assert stepper.finish().value == plain
        assert session.run(v) == 5


def test_variables_that_are_assigned_sums(graph):
    x = tf1.placeholder(tf.float32, [], name="x")
    h = tf.multiply(x, 1.0, name="h")
    made = [tf1.get_variable(f"v{at}", initializer=1.0, use_resource=True) for at in range(8)]
    updates = [tf1.assign(v, h + h) for v in made]
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        stepper = stepper_of(session, updates, {x: 2.0})
        stepper.withhold()
        assert session.run(made) == [1] * 8
        stepper.override("h:0", 3.0)
        assert stepper.finish().value == [6] * 8
        assert session.run(made) == [6] * 8
