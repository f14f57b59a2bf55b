"""Steps of the NumPy engine: changed values, errors, and what has effects."""

from __future__ import annotations

import numpy as np
import pytest
from floats_kit import assert_close
from numpy_stepping_kit import Twin, entries, exact, go, stepper_of
from stepping_programs import mnist

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.engines import numpy as tf
from tfdbg_cli.engines.base import Watch
from tfdbg_cli.engines.numpy.debugging import ENGINE
from tfdbg_cli.engines.numpy.registry import define


@pytest.fixture(autouse=True)
def _fresh_graph():
    with tf.Graph().as_default():
        yield


def regression():
    x = tf.placeholder(tf.float32, [None, 2], name="x")
    w = tf.Variable([[1.0], [2.0]], name="w")
    y = tf.matmul(x, w, name="y")
    loss = tf.reduce_mean(tf.square(y), name="loss")
    step = w.assign_sub(0.5 * tf.gradients(loss, w)[0], name="step").op
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    return session, x, w, loss, step


DATA = np.float32([[1, 2], [3, 4], [5, 6]])


@pytest.mark.parametrize("is_early", [True, False])
def test_an_override_is_what_the_rest_of_the_run_sees(is_early):
    session, x, w, loss, step = regression()
    stepper = stepper_of(session, [loss, step], {x: DATA})
    y = np.float32([[1], [0], [-1]])
    if is_early:
        stepper.override("y:0", y)
        assert stepper.has("y:0")
    go(stepper, "y").advance()
    if not is_early:
        stepper.override("y:0", y)
    assert exact(stepper.value("y:0")) == exact(y)
    assert exact(stepper.original("y:0")) == exact(DATA @ np.float32([[1], [2]]))
    assert list(stepper.overrides) == ["y:0"]
    (datum,) = stepper.dump().by_tensor("y:0")
    assert exact(stepper.dump().value(datum)) == exact(y)
    value, _ = stepper.finish().value
    assert exact(value) == exact(np.mean(y * y, dtype=np.float32))
    # d(mean(y^2))/dw = x^T (2 y / n)
    gradient = DATA.T @ (2 * y / 3)
    assert_close(session.run(w), [[1], [2]] - 0.5 * gradient, terms=3)


def test_a_feed_can_be_overridden():
    session, x, _w, loss, *_ = regression()
    stepper = stepper_of(session, loss, {x: DATA})
    stepper.override("x:0", DATA[:1])
    assert float(stepper.finish().value) == 25
    assert exact(stepper.original("x:0")) == exact(DATA)
    assert float(stepper.original("loss:0")) == pytest.approx((25 + 121 + 289) / 3)


def test_what_it_would_have_been_is_what_the_plain_run_gives():
    session, x, _w, loss, step = regression()
    names = [op.outputs[0] for op in session.graph.get_operations() if op.outputs]
    stepper = stepper_of(session, [loss, step], {x: DATA})
    go(stepper, "y").advance()
    stepper.override("y:0", np.zeros((3, 1)))
    while stepper.next is not None:
        stepper.advance()
    originals = {
        tensor.name: stepper.original(tensor.name)
        for tensor in names
        if stepper.has(tensor.name) and not tensor.name.startswith("w:")
    }
    overridden = {name: stepper.value(name) for name in originals}
    stepper.discard()
    plain = session.run(
        [tensor for tensor in names if tensor.name in originals] + [step], {x: DATA}
    )
    assert exact(list(originals.values())) == exact([np.asarray(item) for item in plain[:-1]])
    # The loss, what its gradient needs, and the updated weights.
    differing = {name for name in originals if exact(originals[name]) != exact(overridden[name])}
    assert {"y:0", "loss:0", "step:0"} <= differing
    assert "w/read:0" not in differing


def test_an_override_inside_what_a_loop_reads_changes_the_loop_and_its_twin():
    start = tf.placeholder(tf.float32, [], name="start")
    out = tf.while_loop(lambda a: a < 100.0, lambda a: a * 2.0, [start], name="grow")
    y = out + 1.0
    stepper = stepper_of(tf.Session(), y, {start: 3.0})
    stepper.override("grow/Enter:0", 5.0)
    assert float(stepper.finish().value) == 161
    assert float(stepper.original("add:0")) == 193
    assert float(stepper.original("grow/Switch:0")) == 192


def test_random_numbers_are_those_of_the_plain_run():
    size = tf.constant([3], name="size")
    drawn = tf.random_uniform(size, name="drawn")
    scale = tf.constant(2.0, name="scale")
    y = tf.multiply(drawn, scale, name="y")
    session = tf.Session(seed=3)
    plain = tf.Session(seed=3).run(y)
    stepper = stepper_of(session, y)
    stepper.override("scale:0", 10.0)
    assert exact(stepper.finish().value) == exact(plain / 2 * 10)
    assert exact(stepper.original("y:0")) == exact(plain)
    plain = tf.Session(seed=3)
    plain.run(y)
    stepper = stepper_of(session, y)
    stepper.override("size:0", [2])
    assert len(stepper.finish().value) == 2
    assert exact(stepper.original("y:0")) == exact(plain.run(y))


def test_the_twin_of_a_variable_follows_control_dependencies_and_restored_values():
    v = tf.Variable(1.0, name="v")
    delta = tf.constant(2.0, name="delta")
    grown = v.assign_add(delta)
    with tf.control_dependencies([grown]):
        read = v.read_value()
        y = tf.multiply(read, 10.0, name="y")
        z = tf.multiply(v.read_value(), 100.0, name="z")
    session = tf.Session()
    session.run(v.initializer)
    stepper = stepper_of(session, [y, z])
    stepper.override("delta:0", 5.0)
    go(stepper, "z/y")
    assert float(stepper.value("y:0")) == 60 and float(stepper.original("y:0")) == 30
    assert list(stepper.updated) == ["v"]
    assert float(stepper.finish().value[1]) == 600
    assert float(stepper.original("z:0")) == 300


def test_taking_an_override_back():
    session, x, _w, loss, *_ = regression()
    stepper = stepper_of(session, loss, {x: DATA})
    with pytest.raises(UserError, match="not overridden"):
        stepper.take_back("y:0")
    go(stepper, "y")
    stepper.override("y:0", np.zeros((3, 1)))
    stepper.take_back("y:0")
    stepper.advance()
    stepper.override("y:0", np.zeros((3, 1)))
    stepper.take_back("y:0")
    assert not stepper.overrides
    assert exact(stepper.finish().value) == exact(session.run(loss, {x: DATA}))
    assert entries(stepper.dump()) == entries(
        ENGINE.adapt(session).debug_run(loss, {x: DATA}, None, None, Watch()).dump
    )


def test_overrides_stay_when_going_back():
    session, x, _w, loss, *_ = regression()
    stepper = stepper_of(session, loss, {x: DATA})
    go(stepper, "y").advance()
    stepper.override("y:0", np.zeros((3, 1)))
    stepper.advance()
    while stepper.position:
        stepper.back()
    assert list(stepper.overrides) == ["y:0"] and stepper.has("y:0")
    assert float(stepper.finish().value) == 0


def test_what_cannot_be_overridden_says_why():
    session, x, _w, loss, step = regression()
    out = tf.while_loop(lambda i: i < 2, lambda i: i + 1, [tf.constant(0, name="zero")], name="l")
    label = tf.placeholder(tf.string, [], name="label")
    fetches = [loss, step, out, tf.identity(label)]
    stepper = stepper_of(session, fetches, {x: DATA, label: "a"})

    def refused(name, value, match):
        with pytest.raises(UserError, match=match):
            stepper.override(name, value)

    refused("yy:0", 1.0, r"There is no tensor yy:0.*y:0")
    refused("w:0", [[1.0], [1.0]], "variable w itself.*w/read:0")
    refused("step:0", 1, "variable w itself")
    refused("l/add:0", 1, "inside l.*Override its inputs")
    refused("y:0", [1.0, 2.0], r"the shape \[\?, 1\]; the value has \[2\]")
    refused("zero:0", 1.5, "zero:0 is int32.*float64")
    refused("zero:0", np.float32(1), r"int32.*float32.*astype")
    refused("zero:0", 2**40, "zero:0.*int32")
    refused("zero:0", np.int64(2**40), "int32 can't hold it")
    refused("y:0", None, "float32")
    refused("y:0", "text", "float32")
    refused("y:0", loss, "itself a tensor")
    refused("label:0", 1, "string")
    stepper.override("y:0", [[1], [2], [3]])
    stepper.override("y:0", np.float64([[1], [2], [3]]))
    assert stepper.overrides["y:0"].dtype == np.float32
    stepper.override("label:0", "b")
    go(stepper, "loss")
    refused("y:0", [[1], [2]], "Square has used y:0 already.*step -b")
    *_, named = stepper.finish().value
    assert named == b"b"
    refused("x:0", DATA, "over")


def test_a_loop_that_was_begun_has_used_its_input():
    out = tf.while_loop(lambda i: i < 4, lambda i: i + 1, [tf.constant(0)], name="l")
    stepper = stepper_of(tf.Session(), out)
    go(stepper, "l").advance(iteration=True)
    with pytest.raises(UserError, match="l has used l/Enter:0"):
        stepper.override("l/Enter:0", 3)
    stepper.back()
    stepper.override("l/Enter:0", 7)
    assert stepper.finish().value == 7


def test_in_a_half_done_loop_what_is_before_it_is_known_as_it_would_be():
    start = tf.multiply(tf.placeholder(tf.float32, [], name="x"), 2.0, name="start")
    out = tf.while_loop(lambda a: a < 100.0, lambda a: a * 2.0, [start], name="l")
    stepper = go(stepper_of(tf.Session(), out, {"x:0": 3.0}), "l/Enter")
    stepper.override("start:0", 5.0)
    go(stepper, "l").advance(iteration=True)
    assert float(stepper.original("start:0")) == 6
    assert stepper.original("l/Switch:0") is None


def failing():
    x = tf.placeholder(tf.float32, [2], name="x")
    count = tf.Variable(0, name="count")
    with tf.control_dependencies([count.assign_add(1)]):
        checked = tf.check_numerics(tf.log(x, name="log"), "bad", name="checked")
    y = tf.multiply(checked, 2.0, name="y")
    session = tf.Session()
    session.run(count.initializer)
    return session, x, count, y


def test_a_step_that_raises_is_still_the_next_one_and_can_be_repaired():
    session, x, count, y = failing()
    stepper = stepper_of(session, y, {x: [0, 1]})
    go(stepper, "checked")
    for _ in range(2):
        with pytest.raises(tf.errors.InvalidArgumentError, match="bad"):
            stepper.advance()
        assert stepper.next.node == "checked" and not stepper.has("checked:0")
    stepper.override("log:0", [-5.0, 0.0])
    assert stepper.advance().step.node == "checked"
    assert stepper.finish().value.tolist() == [-10, 0]
    assert stepper.original("y:0") is None
    assert session.run(count) == 1


@pytest.mark.parametrize("tries", [0, 1])
def test_an_error_ends_the_run_as_it_ends_a_debugged_one(tries):
    session, x, count, y = failing()
    debugged = ENGINE.adapt(session).debug_run(y, {x: [0, 1]}, None, None, Watch())
    session.run(count.initializer)
    stepper = stepper_of(session, y, {x: [0, 1]})
    for _ in range(tries):
        with pytest.raises(tf.errors.InvalidArgumentError):
            go(stepper, "y")
    capture = stepper.finish()
    assert type(capture.error) is type(debugged.error)
    assert str(capture.error) == str(debugged.error)
    assert entries(capture.dump) == entries(debugged.dump)
    assert session.run(count) == 1


def test_an_error_in_a_loop_leaves_what_it_did_until_something_else_is_done():
    count = tf.Variable(0, name="count")
    limit = tf.constant(2, name="limit")

    def body(i):
        check = 1 // tf.cast(i < limit, tf.int32)
        with tf.control_dependencies([check, count.assign_add(1)]):
            return i + 1

    out = tf.while_loop(lambda i: i < 4, body, [tf.constant(0)], name="l")
    session = tf.Session()
    session.run(count.initializer)
    stepper = stepper_of(session, out)
    go(stepper, "l")
    with pytest.raises(tf.errors.InvalidArgumentError, match="division by zero"):
        stepper.advance()
    assert session.run(count) == 2
    assert len(stepper.dump().by_tensor("l/add:0")) == 2
    stepper.override("limit:0", 9)
    assert session.run(count) == 0 and not stepper.dump().by_tensor("l/add:0")
    assert stepper.finish().value == 4
    assert session.run(count) == 4


def test_wrong_arguments_raise_what_the_plain_run_raises():
    x = tf.placeholder(tf.float32, [2], name="x")
    session = tf.Session()
    for fetches, feed in [(object(), None), ("nix:0", None), (x, {x: [1, 2, 3]}), (x, {"no": 1})]:
        with pytest.raises((TypeError, ValueError, KeyError)) as plain:
            session.run(fetches, feed)
        with pytest.raises(type(plain.value)) as stepped:
            stepper_of(session, fetches, feed)
        assert str(stepped.value) == str(plain.value)
    capture = stepper_of(session, x).finish()
    with pytest.raises(type(capture.error)):
        session.run(x)
    session.close()
    with pytest.raises(RuntimeError, match="closed"):
        stepper_of(session, x)


def test_interrupts_and_foreign_errors_go_through_and_leave_the_step():
    def interrupt(step, op, inputs):
        raise KeyboardInterrupt

    define("Interrupted", interrupt)
    y = tf.get_default_graph().create_op("Interrupted", [], [], name="call")
    stepper = stepper_of(tf.Session(), y)
    go(stepper, "call")
    with pytest.raises(KeyboardInterrupt):
        stepper.advance()
    with pytest.raises(KeyboardInterrupt):
        stepper.finish()
    assert stepper.next.node == "call"


def test_restoring_variables():
    session, x, w, _loss, step = regression()
    n = tf.Variable(0, name="n")
    session.run(n.initializer)
    stepper = stepper_of(session, [step, n.assign_add(1)], {x: DATA})
    assert list(stepper.updated) == [] and list(stepper.restore()) == []
    while stepper.next is not None:
        stepper.advance()
    assert list(stepper.updated) == ["w", "n"]
    with pytest.raises(UserError, match="variable m"):
        stepper.restore(["m"])
    assert list(stepper.restore(["w:0"])) == ["w"]
    assert session.run(w).tolist() == [[1], [2]] and session.run(n) == 1
    assert list(stepper.updated) == ["n"]
    assert list(stepper.restore()) == ["n"]
    assert session.run(n) == 0


def test_a_variable_that_had_no_value_has_none_again():
    v = tf.Variable(3.0, name="v")
    session = tf.Session()
    stepper = stepper_of(session, v.initializer)
    while stepper.next is not None:
        outcome = stepper.advance()
    assert outcome.updated == ("v",)
    stepper.back()
    with pytest.raises(tf.errors.FailedPreconditionError):
        session.run(v)
    stepper.advance()
    assert session.run(v) == 3
    stepper.restore()
    with pytest.raises(tf.errors.FailedPreconditionError):
        session.run(v)


def test_runs_in_between_see_the_variables_of_the_steps_done():
    twin = Twin(mnist)
    stepper = twin.stepper()
    before = exact(twin.other.run(twin.variables))
    while not stepper.updated:
        stepper.advance()
    assert exact(twin.other.run(twin.variables)) != before
    stepper.back()
    assert exact(twin.other.run(twin.variables)) == before


def test_the_nan_of_the_example_is_repaired_by_an_override():
    twin = Twin(mnist)
    stepper = twin.stepper()
    probabilities = np.zeros((50, 10), np.float32)
    stepper.override("Softmax:0", probabilities)
    go(stepper, "cross_entropy/Log").advance()
    assert np.isneginf(stepper.value("cross_entropy/Log:0")).all()
    while stepper.next.node != "Softmax":
        stepper.back()
    stepper.override("Softmax:0", np.clip(probabilities, 1e-8, 1))
    stepper.finish()
    assert np.isfinite(stepper.value("cross_entropy/Log:0")).all()
    assert all(np.isfinite(value).all() for value in twin.other.run(twin.variables))
