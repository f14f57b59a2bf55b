"""Running graphs: fetches, feeds, variables, random streams, errors."""

import collections
import sys
import threading
import warnings

import numpy as np
import pytest

from tfdbg_cli.engines import numpy as tf


@pytest.fixture(autouse=True)
def _fresh_graph():
    with tf.Graph().as_default():
        yield


def test_fetches_come_back_in_their_nest():
    x, y = tf.constant(1.0, name="x"), tf.constant([2, 3], name="y")
    pair = collections.namedtuple("pair", ["one", "other"])
    ordered = collections.OrderedDict(b=x, a=y)
    with tf.Session() as session:
        assert session.run(x) == 1.0
        assert session.run("x:0") == 1.0
        assert session.run(x.op) is None
        assert session.run("y") is None
        assert session.run([]) == []
        found = session.run({"list": [x, (y, x.op)], "pair": pair(x, x), "od": ordered})
    assert found["list"][0] == 1.0
    assert isinstance(found["list"][1], tuple)
    np.testing.assert_array_equal(found["list"][1][0], [2, 3])
    assert found["list"][1][1] is None
    assert found["pair"] == pair(1.0, 1.0)
    assert type(found["od"]) is collections.OrderedDict
    assert list(found["od"]) == ["b", "a"]
    assert isinstance(found["list"][0], np.float32)


@pytest.mark.parametrize(
    ("fetch", "error", "message"),
    [
        ("nope:0", ValueError, "no operation named 'nope'"),
        ("x:3", ValueError, "1 output"),
        (None, TypeError, "not a tensor, operation or name"),
        (3.5, TypeError, "not a tensor, operation or name"),
    ],
)
def test_wrong_fetches(fetch, error, message):
    tf.constant(1.0, name="x")
    with tf.Session() as session, pytest.raises(error, match=message):
        session.run(fetch)


def test_any_tensor_can_be_fed_by_itself_or_by_name():
    x = tf.placeholder(tf.float32, [None], name="x")
    square = tf.square(x, name="square")
    plus = square + 1.0
    distinct, places = tf.unique(tf.constant([3.0, 2.0]))
    with tf.Session() as session:
        np.testing.assert_array_equal(session.run(plus, {"x:0": [1, 2]}), [2, 5])
        # What only the fed tensor needs is not computed.
        np.testing.assert_array_equal(session.run(plus, {square: [7]}), [8])
        np.testing.assert_array_equal(session.run(square, {square: [7]}), [7])
        made = session.run([distinct, places], {distinct: [9.0]})
    assert [value.tolist() for value in made] == [[9.0], [0, 1]]


def test_wrong_feeds():
    x = tf.placeholder(tf.float32, [None, 2], name="x")
    y = x + 1.0
    with tf.Session() as session:
        with pytest.raises(ValueError, match=r"shape \(3,\) for x:0.*\(None, 2\)"):
            session.run(y, {x: [1, 2, 3]})
        with pytest.raises(TypeError, match="can't be made a tensor of float32"):
            session.run(y, {x: [["a", "b"]]})
        with pytest.raises(TypeError, match="itself a tensor"):
            session.run(y, {x: y})
        with pytest.raises(TypeError, match="can't be made a tensor of float32"):
            session.run(y, {x: [[y, y]]})
        with pytest.raises(TypeError, match="feed its output"):
            session.run(y, {y.op: 1.0})
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"x:0.*not fed") as caught:
            session.run(y)
    assert caught.value.op is x.op
    assert caught.value.node_name == "x"


def test_a_placeholder_that_is_fed_may_be_waited_for():
    x = tf.placeholder(tf.float32, name="x")
    with tf.control_dependencies([x]):
        y = tf.constant(1.0)
    with tf.Session() as session:
        assert session.run(y, {x: 0.0}) == 1.0


def test_variables_live_in_their_session():
    v = tf.Variable([1.0, 2.0], name="v")
    add = v.assign_add([1.0, 1.0])
    sub = v.assign_sub([0.5, 0.5])
    with tf.Session() as one, tf.Session() as other:
        one.run(tf.global_variables_initializer())
        np.testing.assert_array_equal(one.run(add), [2, 3])
        np.testing.assert_array_equal(one.run(sub), [1.5, 2.5])
        np.testing.assert_array_equal(one.run(v), [1.5, 2.5])
        with pytest.raises(tf.errors.FailedPreconditionError, match="v has no value") as caught:
            other.run(v * 2.0)
        assert caught.value.node_name == "v/read"
        with pytest.raises(tf.errors.FailedPreconditionError):
            other.run(v)
        np.testing.assert_array_equal(other.run([v, v.initializer])[0], [1, 2])
    assert v.name == "v:0"
    assert tf.trainable_variables() == [v]


def test_a_read_can_wait_for_an_assignment():
    v = tf.Variable(1.0)
    with tf.control_dependencies([v.assign(5.0)]):
        after = v.read_value()
    with tf.Session() as session:
        session.run(v.initializer)
        assert session.run(after) == 5.0


def test_variables_take_operators_and_initializers():
    v = tf.Variable(lambda: tf.ones([2]) * 3.0, trainable=False)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        np.testing.assert_array_equal(session.run(1.0 - v * v), [-8, -8])
    assert tf.trainable_variables() == []
    with pytest.raises(TypeError, match="use cast"):
        v.assign(tf.constant(1))
    with pytest.raises(ValueError, match="inside a loop"):
        tf.while_loop(lambda i: i < 1, lambda i: i + tf.Variable(1), [tf.constant(0)])


def test_what_the_caller_does_with_arrays_changes_nothing_inside():
    v = tf.Variable(tf.zeros([3]))
    x = tf.placeholder(tf.float32, [3])
    store = v.assign(x)
    given = np.ones(3, np.float32)
    with tf.Session() as session:
        got = session.run(store, {x: given})
        given[:] = 7
        got[:] = 8
        np.testing.assert_array_equal(session.run(v), [1, 1, 1])
        value = np.ones(2, np.float32)
        c = tf.constant(value)
        value[:] = 9
        session.run(c)[:] = 9
        np.testing.assert_array_equal(session.run(c), [1, 1])


def test_random_streams():
    tf.set_random_seed(5)
    x = tf.truncated_normal([4], mean=3.0)
    u = tf.random_uniform([1000], 2.0, 3.0)
    t = tf.truncated_normal([1000], stddev=2.0)

    def draw(**options):
        with tf.Session(**options) as session:
            return [session.run(x) for _ in range(2)] + session.run([u, t])

    first, again, other = draw(), draw(), draw(seed=6)
    for one, two in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, two)
    assert not np.array_equal(first[0], first[1])
    assert not np.array_equal(first[0], other[0])
    assert first[0].dtype == np.float32
    assert first[2].min() >= 2
    assert first[2].max() <= 3
    assert 3 < np.abs(first[3]).max() <= 4


def test_a_failing_kernel_names_its_node_and_inputs():
    x = tf.placeholder(tf.float32, name="x")
    y = tf.matmul(x, tf.ones([2, 2], name="w"), name="product")
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError) as caught:
        session.run(y, {x: np.ones((2, 3))})
    error = caught.value
    assert error.op is y.op
    assert error.message == (
        "Matrix sizes don't fit: 3 columns times 2 rows. "
        "Inputs: x:0 float32[2, 3], w:0 float32[2, 2]."
    )
    assert str(error).endswith("[[node product (MatMul)]]")


@pytest.mark.parametrize(
    ("build", "feed", "message"),
    [
        (lambda x: x + np.ones(3, np.float32), [1, 2], "could not be broadcast"),
        (lambda x: tf.reshape(x, [4]), [1, 2], "cannot reshape"),
        (lambda x: tf.cast(x, tf.int32) // 0, [1], "Integer division by zero"),
        (lambda x: tf.check_numerics(x, "weights"), [np.nan], "weights: the tensor has NaN"),
    ],
)
def test_errors_of_kernels(build, feed, message):
    x = tf.placeholder(tf.float32, name="x")
    y = build(x)
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match=message):
        session.run(y, {x: feed})


def test_what_a_node_waits_for_may_fail():
    x = tf.placeholder(tf.float32, name="x")
    with tf.control_dependencies([tf.check_numerics(x, "no number", name="check")]):
        y = tf.constant(2.0)
    with tf.Session() as session:
        assert session.run(y, {x: 4.0}) == 2.0
        with pytest.raises(tf.errors.InvalidArgumentError, match="no number") as caught:
            session.run(y, {x: np.nan})
    assert caught.value.node_name == "check"


def test_floating_point_warnings_are_left_to_the_user():
    x = tf.constant([0.0, -1.0])
    with np.errstate(divide="raise", over="print"), warnings.catch_warnings():
        warnings.simplefilter("error")
        before = np.geterr()
        with tf.Session() as session:
            found = session.run([tf.log(x), 1.0 / x, tf.square(x * 1e30)])
        assert np.geterr() == before
    assert found[0][0] == -np.inf
    assert np.isnan(found[0][1])
    assert found[1][0] == np.inf


def test_default_sessions_and_callables():
    x = tf.placeholder(tf.float32, name="x")
    y = x * 2.0
    v = tf.Variable(3.0)
    with pytest.raises(ValueError, match="no default session"):
        y.eval({x: 1.0})
    session = tf.Session()
    with session.as_default():
        assert tf.get_default_session() is session
        assert y.eval({x: 1.0}) == 2.0
        session.run(v.initializer)
        assert v.value().eval() == 3.0
    assert tf.get_default_session() is None
    double = session.make_callable(y, [x])
    assert double(4.0) == 8.0
    assert session.make_callable([y], [x], accept_options=True)(1.0, options=None) == [2.0]
    with pytest.raises(TypeError, match=r"1 value\(s\) are needed, 2"):
        double(1.0, 2.0)
    with pytest.raises(TypeError, match="keyword argument 'options'"):
        double(1.0, options=None)
    session.close()
    with pytest.raises(RuntimeError, match="closed"):
        session.run(y, {x: 1.0})


def test_a_with_statement_closes_the_session_and_sets_the_graph():
    graph = tf.Graph()
    with tf.Session(graph) as session:
        assert tf.get_default_graph() is graph
        made = tf.constant(2.0)
        assert made.eval() == 2.0
    assert tf.get_default_graph() is not graph
    with pytest.raises(RuntimeError, match="closed"):
        session.run(made)


def test_nodes_added_after_a_run_can_be_run():
    x = tf.constant(1.0)
    with tf.Session() as session:
        session.run(x)
        assert session.run(x + 1.0) == 2.0


def test_threads_share_a_session():
    v = tf.Variable(0.0)
    x = tf.placeholder(tf.float32)
    y = tf.reduce_sum(x * x) + v
    count = tf.Variable(0.0)
    add = count.assign_add(1.0)
    results, together = {}, threading.Barrier(4)
    with tf.Session() as session:
        session.run([v.initializer, count.initializer])

        def work(number):
            together.wait()
            results[number] = [session.run([y, add], {x: [number] * 3})[0] for _ in range(200)]

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)  # between any two lines
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(interval)
        assert session.run(count) == 800.0
    assert results == {number: [3 * number**2] * 200 for number in range(4)}
