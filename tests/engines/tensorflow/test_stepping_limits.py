"""Steps of a TensorFlow run: effects, errors, functions, and the early end."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from tf_stepping_kit import KINDS, stepper_of, tf1, to_the_end, until

from tfdbg_cli.common.errors import UserError


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
            ("x:0", "text", "x:0 can't have this value: it is float32, not str"),
            (
                "x:0",
                np.ones([2, 3], complex),
                "complex128, which would lose",
            ),
            ("whole:0", np.ones([2, 3], np.float32), "astype"),
            ("whole:0", np.full([2, 3], 2**40), "int32 can't hold"),
            (
                "flag:0",
                np.ones([2, 3], np.int32),
                "flag:0 is bool; the value is int32,",
            ),
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
        assert any("drawn again" in caveat for caveat in stepper.caveats)
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
        assert any("drawn again" in caveat for caveat in stepper.caveats)
        stepper.override("seed:0", 3.0)
        slope_value, out_value = stepper.finish().value
        assert slope_value.tolist() == (6 * out_value).tolist()
        stepper = stepper_of(session, [slope, out], {x: np.ones(6)})
        stepper.override("h:0", np.full(6, 3.0))
        slope_value, out_value = stepper.finish().value
        assert set(out_value) <= {0, 18}
        assert slope_value.tolist() == (out_value * 2 / 3).tolist()
