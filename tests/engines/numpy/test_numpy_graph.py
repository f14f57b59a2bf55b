"""Building graphs: names, scopes, control dependencies, stacks, size."""

import threading
import time

import numpy as np
import pytest
from samples import night

from tfdbg_cli.engines import numpy as tf
from tfdbg_cli.engines.numpy.registry import define


@pytest.fixture
def graph():
    with tf.Graph().as_default() as made:
        yield made


def names(graph):
    return [op.name for op in graph.get_operations()]


def test_names_are_unique_and_scopes_nest(graph):
    with tf.name_scope("a"):
        tf.constant(1.0, name="x")
        with tf.name_scope("b") as scope:
            tf.constant(1.0, name="x")
    with tf.name_scope("a"):
        tf.constant(1.0, name="x")
    with tf.name_scope(scope):
        tf.constant(1.0, name="x")
    with tf.name_scope("a"), tf.name_scope(None):
        tf.constant(1.0, name="top")
    assert names(graph) == ["a/x", "a/b/x", "a_1/x", "a/b/x_1", "top"]


def test_names_that_differ_by_case_are_told_apart(graph):
    tf.constant(1.0, name="Same")
    tf.constant(1.0, name="same")
    assert names(graph) == ["Same", "same_1"]


def test_operators_name_their_nodes_as_tensorflow_does(graph):
    x = tf.placeholder(tf.float32, [None, 2], name="x")
    y = (x + 1.0) * 2.0 - x
    tf.reduce_mean(y)
    tf.reduce_sum(y, axis=1)
    assert names(graph) == [
        "x",
        "add/y",
        "add",
        "mul/y",
        "mul",
        "sub",
        "Const",
        "Mean",
        "Sum/reduction_indices",
        "Sum",
    ]
    assert graph.get_operation_by_name("add").type == "AddV2"


def test_lookups_and_what_they_say_when_they_fail(graph):
    x = tf.constant(1.0, name="hidden/x")
    assert graph.get_tensor_by_name("hidden/x:0") is x
    assert graph.get_operation_by_name("hidden/x") is x.op
    with pytest.raises(KeyError, match="Did you mean hidden/x"):
        graph.get_operation_by_name("hiden/x")
    with pytest.raises(KeyError, match="1 output"):
        graph.get_tensor_by_name("hidden/x:1")
    with pytest.raises(ValueError, match="hidden/x:0"):
        graph.get_tensor_by_name("hidden/x")


def test_the_version_grows_with_each_node(graph):
    before = graph.version
    tf.constant(1.0)
    assert graph.version == before + 1


def test_tensors_of_two_graphs_do_not_mix(graph):
    x = tf.constant(1.0)
    with tf.Graph().as_default(), pytest.raises(ValueError, match="not an element of this graph"):
        tf.identity(x)


def test_static_shapes(graph):
    x = tf.placeholder(tf.float32, [None, 3])
    assert tf.matmul(x, np.ones((3, 4), np.float32)).shape == (None, 4)
    assert (x + np.ones((5, 1), np.float32)).shape == (5, 3)
    assert tf.transpose(x).shape == (3, None)
    assert tf.reshape(x, [-1]).shape == (None,)
    assert tf.placeholder(tf.float32).shape is None


def test_a_tensor_has_no_truth_value_and_no_elements(graph):
    x = tf.constant([1.0, 2.0])
    with pytest.raises(TypeError, match="truth value"):
        bool(x > 0)
    with pytest.raises(TypeError, match="iterable"):
        list(x)


def test_control_dependencies(graph):
    order = []
    define("Note", lambda step, op, inputs: order.append(op.name) or np.float32(0))

    def note(word):
        return graph.create_op("Note", [], [tf.float32], name=word).outputs[0]

    first = note("first")
    with tf.control_dependencies([first]):
        second = note("second")
        third = tf.identity(second, name="third")
        with tf.control_dependencies(None):
            free = tf.constant(1.0)
    assert [op.name for op in second.op.control_inputs] == [first.op.name]
    # It waits through its input already.
    assert third.op.control_inputs == ()
    assert free.op.control_inputs == ()
    with tf.Session() as session:
        session.run(third)
    assert order == ["first", "second"]


def test_the_traceback_ends_where_the_user_made_the_node(graph):
    def build():
        return tf.reduce_mean(tf.constant([1.0]) + 1.0)

    made = build()
    frame = made.op.traceback[-1]
    assert frame.file == __file__
    assert frame.function == "build"
    assert frame.line == build.__code__.co_firstlineno + 1
    assert made.op.traceback[-2].function == (
        "test_the_traceback_ends_where_the_user_made_the_node"
    )


@night
@pytest.mark.slow
def test_a_hundred_thousand_nodes(graph):
    start = time.process_time()
    x = tf.placeholder(tf.float32, [], name="x")
    y = x
    for _ in range(100_000):
        y = y + x
    grad = tf.gradients(y, x)[0]
    assert graph.version > 100_000
    with tf.Session() as session:
        assert session.run([y, grad], {x: 1.0}) == [100_001, 100_001]
    assert time.process_time() - start < 60


def test_default_graphs():
    with tf.Graph().as_default() as outer:
        assert tf.get_default_graph() is outer
        with tf.Graph().as_default() as inner:
            assert tf.get_default_graph() is inner
        with pytest.raises(RuntimeError):
            tf.reset_default_graph()
    with outer.as_default(), inner.as_default():
        with outer.as_default():
            assert tf.get_default_graph() is outer
        assert tf.get_default_graph() is inner
    before = tf.get_default_graph()
    tf.reset_default_graph()
    assert tf.get_default_graph() is not before


def test_another_thread_builds_at_the_top(graph):
    made = []

    def build():
        with graph.as_default():
            made.append(tf.constant(1.0, name="x").op)

    with tf.name_scope("scope"):
        thread = threading.Thread(target=build)
        thread.start()
        thread.join()
    assert made[0].name == "x"
