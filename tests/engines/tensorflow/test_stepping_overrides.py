"""What an override does to the rest of a run of TensorFlow, and to its variables."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfdbg_cli.engines.tensorflow.engine import ENGINE
from tfdbg_cli.errors import UserError

tf1 = tf.compat.v1

KINDS = pytest.mark.parametrize("resource", [True, False], ids=["resource", "reference"])
X = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
W = np.linspace(-0.5, 0.7, 12, dtype=np.float32).reshape(4, 3)


def stepper_of(session, fetches, feed_dict=None):
    return ENGINE.adapt(session).stepper(fetches, feed_dict, None, None)


def until(stepper, tensor):
    while not stepper.has(tensor):
        stepper.advance()


def to_the_end(stepper):
    while stepper.next is not None:
        stepper.advance()


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
        np.testing.assert_allclose(stepper.original("h:0"), X @ W, rtol=1e-6)
        to_the_end(stepper)
        assert stepper.value("loss:0") == 24
        assert stepper.original("loss:0") == pytest.approx(np.square(X @ W).sum())
        assert stepper.updated == ["w"]
        shown = {datum.tensor_name: datum.get_tensor() for datum in stepper.dump().data()}
        assert shown["h:0"].tolist() == other.tolist() and shown["loss:0"] == 24
        capture = stepper.finish()
        assert capture.value == [24, None]
        assert capture.dump.by_tensor("loss:0")[0].get_tensor() == 24
        np.testing.assert_allclose(session.run(w), W - 0.1 * X.T @ (2 * other), rtol=1e-5)
        stepper.discard()
        np.testing.assert_allclose(session.run(w), W - 0.1 * X.T @ (2 * (X @ W)), rtol=1e-5)
        assert (version, count) == (graph.version, len(graph.get_operations()))
        with pytest.raises(UserError, match="over"):
            stepper.advance()


@KINDS
@pytest.mark.parametrize(
    "optimizer",
    [
        lambda: tf1.train.AdamOptimizer(0.1),
        lambda: tf1.train.MomentumOptimizer(0.1, 0.9),
        lambda: tf1.train.RMSPropOptimizer(0.1),
    ],
    ids=["adam", "momentum", "rmsprop"],
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
        np.testing.assert_allclose(picked_value, 2 * mask * h_value**2, rtol=1e-6)
        np.testing.assert_allclose(loss_value, (picked_value**3).sum(), rtol=1e-6)
        np.testing.assert_allclose(
            slope_value, 3 * picked_value**2 * 2 * mask * 2 * h_value, rtol=1e-5
        )
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


def test_what_is_not_done_again(graph, capfd):
    x = tf1.placeholder(tf.string, [2], name="x")
    upper = tf.strings.upper(x, name="upper")
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer([b"A", b"B"], [1.0, 2.0]), -1.0
    )
    found = tf.identity(table.lookup(upper), name="found")
    printed = tf1.Print(found, [found], "printed ", name="shown")
    out = tf.add(printed, 1.0, name="out")
    with tf1.Session() as session:
        session.run(tf1.tables_initializer())
        stepper = stepper_of(session, out, {x: ["a", "b"]})
        assert any("Lookup" in caveat for caveat in stepper.caveats)
        until(stepper, "upper:0")
        assert stepper.value("upper:0").tolist() == [b"A", b"B"]
        stepper.override("upper:0", ["B", "C"])
        until(stepper, "found:0")
        assert stepper.value("found:0").tolist() == [1, 2]  # as said before the first step
        stepper.override("found:0", [5.0, 6.0])
        assert stepper.finish().value.tolist() == [6, 7]
    assert capfd.readouterr().err.count("printed ") == 1


def test_what_can_not_be_overridden(graph):
    x = tf1.placeholder(tf.float32, [2, 3], name="x")
    v = tf1.get_variable("v", initializer=1.0, use_resource=False)
    r = tf1.get_variable("r", initializer=1.0, use_resource=True)
    whole = tf.cast(x, tf.int32, name="whole")
    flag = tf.greater(x, 0.0, name="flag")
    body = tf.while_loop(lambda a: a < 9.0, lambda a: a * 2.0, [v + r + x[0, 0]], name="wl")
    out = [tf.reduce_sum(x) + v, r + 1.0, whole, flag, body, tf.group(x, name="nothing")]
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        stepper = stepper_of(session, out, {x: np.ones([2, 3])})
        unfit = {step.node: step.unfit for step in stepper.steps if step.unfit}
        assert {"v", "r", "nothing"} <= set(unfit)
        for name, value, words in [
            ("v:0", 1.0, "variable itself"),
            ("r:0", 1.0, "handle"),
            ("no/such:0", 1.0, "no tensor no/such:0"),
            ("whol:0", 1.0, "Did you mean whole:0"),
            ("x:0", np.ones([3, 2]), "shape"),
            ("x:0", 1.0, "shape"),
            ("x:0", "text", "can't be a value"),
            ("x:0", np.ones([2, 3], complex), "complex128 would lose"),
            ("whole:0", np.ones([2, 3], np.float32), "astype"),
            ("whole:0", np.full([2, 3], 2**40), "int32 can't hold"),
            ("flag:0", np.ones([2, 3], np.int32), "int32 would lose"),
            ("x:0", x, "itself a tensor"),
        ]:
            with pytest.raises(UserError, match=words):
                stepper.override(name, value)
        assert not stepper.overrides
        stepper.override("x:0", [[1, 2, 3], [4, 5, 6]])  # Python's whole numbers are numbers
        stepper.override("whole:0", np.ones([2, 3], np.int64))
        assert stepper.finish().value[0] == 22


def test_an_error_is_mended(graph):
    x = tf1.placeholder(tf.float32, None, name="x")
    v = tf1.get_variable("v", initializer=1.0)
    before = tf.add(x, 1.0, name="before")
    wrong = tf.matmul(before, tf.ones([3, 2]), name="mm")
    up = tf1.assign_add(v, tf.reduce_sum(wrong, name="total"), name="up")
    with tf1.Session() as session:
        session.run(v.initializer)
        with pytest.raises(tf.errors.InvalidArgumentError) as plain:
            session.run(up, {x: np.ones([4, 5])})
        stepper = stepper_of(session, up, {x: np.ones([4, 5])})
        while stepper.next.node != "mm":
            stepper.advance()
        for _ in range(2):
            with pytest.raises(tf.errors.InvalidArgumentError) as caught:
                stepper.advance()
            assert str(caught.value) == str(plain.value)
        assert stepper.value("before:0").shape == (4, 5) and stepper.next.node == "mm"
        stepper.override("before:0", np.ones([4, 2], np.float32))
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            stepper.advance()
        assert caught.value.op is wrong.op
        stepper.override("before:0", np.ones([4, 3], np.float32))
        stepper.advance()
        assert stepper.value("mm:0").tolist() == [[3, 3]] * 4
        capture = stepper.finish()
        assert capture.error is None and capture.value == 25
        assert session.run(v) == 25
        # Nobody mends it: the run has failed as the plain one does.
        capture = stepper_of(session, up, {x: np.ones([4, 5])}).finish()
        assert str(capture.error) == str(plain.value) and capture.value is None
        assert capture.dump.by_tensor("before:0") and not capture.dump.by_tensor("mm:0")
        assert session.run(v) == 25


def test_an_override_that_makes_the_run_fail(graph):
    x = tf1.placeholder(tf.float32, None, name="x")
    v = tf1.get_variable("v", initializer=1.0)
    h = tf.add(x, 1.0, name="h")
    out = tf.matmul(h, tf.ones([3, 2]), name="mm")
    up = tf1.assign(v, tf.reduce_sum(out), name="up")
    with tf1.Session() as session:
        session.run(v.initializer)
        stepper = stepper_of(session, {"up": up}, {x: np.ones([4, 3])})
        until(stepper, "h:0")
        stepper.override("h:0", np.ones([4, 5]))
        capture = stepper.finish()
        assert isinstance(capture.error, tf.errors.InvalidArgumentError)
        assert capture.error.op is out.op
        assert capture.dump.by_tensor("h:0") and not capture.dump.by_tensor("mm:0")
        assert session.run(v) == 1
        assert stepper.discard().value == {"up": 48}
        assert session.run(v) == 48


def test_the_body_of_a_function(graph):
    w = tf1.get_variable("w", initializer=3.0, use_resource=True)

    @tf.function
    def scaled(a):
        return tf.multiply(a, w, name="inner") + tf.sin(a)

    x = tf1.placeholder(tf.float32, [], name="x")
    y = tf.identity(scaled(tf.identity(x * 1.0, name="h")), name="y")
    train = tf1.train.GradientDescentOptimizer(0.5).minimize(y)
    with tf1.Session() as session:
        session.run(w.initializer)
        stepper = stepper_of(session, [y, train], {x: 2.0})
        until(stepper, "h:0")
        stepper.override("h:0", 5.0)
        to_the_end(stepper)
        (inner,) = [datum for datum in stepper.dump().data() if datum.node_name.endswith("/inner")]
        assert inner.get_tensor() == 15
        with pytest.raises(UserError, match="inside of a function"):
            stepper.override(inner.tensor_name, 1.0)
        assert stepper.finish().value[0] == pytest.approx(15 + np.sin(5))
        assert session.run(w) == pytest.approx(3 - 0.5 * 5)


def test_feeds_in_the_middle_and_composite_fetches(graph):
    x = tf1.placeholder(tf.float32, [2], name="x")
    h = tf.add(x, 1.0, name="h")
    sparse = tf1.sparse_placeholder(tf.float32, [4], name="sparse")
    out = {"sparse": sparse.with_values(sparse.values * 2.0), "y": (tf.multiply(h, 2.0, name="y"),)}
    given = tf1.SparseTensorValue([[0], [2]], [1.0, 2.0], [4])
    with tf1.Session() as session:
        feeds = {h: [1.0, 2.0], sparse: given}
        stepper = stepper_of(session, out, feeds)
        fed = [step.node for step in stepper.steps if step.is_feed]
        assert "h" in fed and stepper.has("h:0") and len(fed) == 4
        stepper.override("h:0", [5.0, 6.0])
        stepper.override("sparse/values:0", [7.0, 8.0])
        value = stepper.finish().value
        assert isinstance(value["sparse"], tf1.SparseTensorValue)
        assert value["sparse"].values.tolist() == [14, 16]
        assert value["y"][0].tolist() == [10, 12]
        assert stepper.discard().value["y"][0].tolist() == [2, 4]


def test_the_dump_of_a_run_that_is_long_over(graph):
    x = tf1.placeholder(tf.float32, [], name="x")
    v = tf1.get_variable("v", initializer=2.0, use_resource=True)
    table = tf1.get_variable("table", initializer=[1.0, 5.0], use_resource=True)
    picked = tf.gather(table, tf.cast(x, tf.int32), name="picked")
    loop = tf.while_loop(lambda i, _: i < 2, lambda i, a: (i + 1, a * v), (0, x))[1]
    out = tf.add(loop, picked, name="out")
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        dump = stepper_of(session, out + 1.0, {x: 1.0}).finish().dump
        session.run([v.assign(100.0), table.assign([0.0, 0.0])])
    assert dump.by_tensor("out:0")[0].get_tensor() == 9
    assert dump.by_tensor("picked:0")[0].get_tensor() == 5
    assert dump.warnings == []


@pytest.mark.parametrize("v2", [True, False], ids=["function", "frames"])
def test_random_numbers_inside_of_a_loop(graph, v2):
    (tf1.enable_control_flow_v2 if v2 else tf1.disable_control_flow_v2)()
    try:
        x = tf1.placeholder(tf.float32, [], name="x")
        h = tf.identity(x * 1.0, name="h")

        def body(i, a):
            return i + 1, tf.sin(a) * tf.random.uniform([])

        out = tf1.while_loop(lambda i, _: i < 3, body, (0, h), name="wl")[1]
        scaled = tf.multiply(out, 2.0, name="scaled")
        slope = tf.gradients(scaled, h, grad_ys=tf.constant(1.0, name="seed"))[0]
        total = tf.add(slope, scaled, name="total")
    finally:
        tf1.enable_control_flow_v2()
    with tf1.Session() as session:
        stepper = stepper_of(session, total, {x: 1.0})
        assert any("drawn anew" in caveat for caveat in stepper.caveats)
        # The gradient needs the iterations once more, and these would be others.
        with pytest.raises(UserError, match="other random numbers"):
            stepper.override("seed:0", 3.0)
        assert not stepper.overrides
        stepper.override("h:0", 0.0)
        to_the_end(stepper)
        assert stepper.value("scaled:0") == 0
        assert 0 < stepper.value("total:0") < 2
        plain = stepper.original("total:0")
        assert stepper.discard().value == plain


@KINDS
def test_a_run_that_is_ended_early(graph, resource):
    v = tf1.get_variable("v", initializer=1.0, use_resource=resource)
    w = tf1.get_variable("w", initializer=5.0, use_resource=resource)
    first = tf1.assign_add(v, 10.0, name="first")
    with tf.control_dependencies([first]):
        second = tf1.assign_add(v, tf.constant(100.0, name="c"), name="second")
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        stepper = stepper_of(session, [second, w.assign(v.read_value() * 2.0)])
        while "v" not in stepper.advance().updated:
            pass
        assert stepper.next.node != "second"
        stepper.stop()
        assert session.run([v, w]) == [11, 5]
        assert stepper.finish().value is None
        with pytest.raises(UserError, match="over"):
            stepper.back()


def test_a_dump_does_not_change_under_its_reader(graph):
    x = tf1.placeholder(tf.float32, [], name="x")
    y = tf.multiply(x, 2.0, name="y")
    with tf1.Session() as session:
        stepper = stepper_of(session, tf.add(y, 1.0, name="z"), {x: 1.0})
        stepper.override("y:0", 7.0)
        dump = stepper.finish().dump
        assert stepper.discard().value == 3
        assert dump.by_tensor("z:0")[0].get_tensor() == 8


def test_a_queue_gives_each_element_once(graph):
    queue = tf1.FIFOQueue(10, [tf.float32], shapes=[[]])
    fill = queue.enqueue_many([[1.0, 2.0, 3.0]])
    taken = tf.identity(queue.dequeue(), name="taken")
    out = tf.multiply(taken, 10.0, name="out")
    with tf1.Session() as session:
        session.run(fill)
        stepper = stepper_of(session, out)
        until(stepper, "taken:0")
        stepper.override("taken:0", 7.0)
        assert stepper.finish().value == 70 and stepper.original("out:0") == 10
        stepper = stepper_of(session, out)
        to_the_end(stepper)
        assert stepper.finish().value == 20
        assert session.run([out, queue.size()])[0] == 30


def test_a_function_that_draws_random_numbers(graph):
    x = tf1.placeholder(tf.float32, [6], name="x")
    h = tf.identity(x * 1.0, name="h")
    out = tf.function(lambda a: tf.nn.dropout(tf.square(a), rate=0.5))(h)
    loss = tf.reduce_sum(out, name="loss")
    seed = tf.constant(1.0, name="seed")
    slope = tf.gradients(loss, h, grad_ys=seed)[0]
    with tf1.Session() as session:
        stepper = stepper_of(session, [slope, out], {x: np.ones(6)})
        assert any("drawn anew" in caveat for caveat in stepper.caveats)
        stepper.override("seed:0", 3.0)
        slope_value, out_value = stepper.finish().value
        assert slope_value.tolist() == (6 * out_value).tolist()
        stepper = stepper_of(session, [slope, out], {x: np.ones(6)})
        stepper.override("h:0", np.full(6, 3.0))
        slope_value, out_value = stepper.finish().value
        assert set(out_value) <= {0, 18}
        assert slope_value.tolist() == (out_value * 2 / 3).tolist()
