"""Runs of TensorFlow that fail behind operations that can't be done again."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from tf_stepping_kit import KINDS, stepper_of, tf1, to_the_end


def until_it_fails(stepper):
    with pytest.raises(tf.errors.InvalidArgumentError, match="bad"):
        to_the_end(stepper)


@KINDS
def test_an_update_before_the_failure(graph, resource):
    x = tf1.placeholder(tf.float32, [], name="x")
    v = tf1.get_variable("v", initializer=0.0, use_resource=resource)
    with tf.control_dependencies([tf1.assign_add(v, 1.0)]):
        log = tf.math.log(x, name="log")
        checked = tf.debugging.check_numerics(log, "bad", name="checked")
    result = tf.multiply(checked, 2.0, name="result")
    with tf1.Session() as session:
        session.run(v.initializer)
        stepper = stepper_of(session, result, {x: 0.0})
        until_it_fails(stepper)
        assert stepper.next.node == "checked"
        assert stepper.value("log:0") == -np.inf
        assert stepper.mendable() == ["log:0", "checked:0"]
        stepper.override("log:0", 1.0)
        to_the_end(stepper)
        assert stepper.finish().value == 2
        assert session.run(v) == 1
        capture = stepper_of(session, result, {x: 0.0}).finish()
        assert "bad" in str(capture.error) and capture.dump.by_tensor("log:0")
        assert session.run(v) == 2


def from_a_queue(calls):
    queue = tf1.FIFOQueue(9, [tf.float32], shapes=[[]])
    return queue.dequeue(), queue.enqueue_many([[0.0, 3.0]])


def from_a_data_set(calls):
    data = tf.data.Dataset.from_tensor_slices(np.array([0, 3], np.float32))
    iterator = tf1.data.make_initializable_iterator(data)
    return iterator.get_next(), iterator.initializer


def from_random_numbers(calls):
    return tf.random.uniform([]) * 0.0, tf.no_op()


def from_python(calls):
    def give():
        calls.append(1)
        return np.float32(0)

    given = tf1.py_func(give, [], tf.float32)
    given.set_shape([])
    return given, tf.no_op()


def from_a_table(calls):
    known = tf.lookup.KeyValueTensorInitializer([1], [0.0])
    return tf.lookup.StaticHashTable(known, -1.0).lookup(tf.constant(1)), tf1.tables_initializer()


@pytest.mark.parametrize(
    "make", [from_a_queue, from_a_data_set, from_random_numbers, from_python, from_a_table]
)
def test_what_is_there_once_before_the_failure(graph, make):
    calls = []
    given, ready = make(calls)
    source = tf.identity(given, name="source")
    log = tf.math.log(source, name="log")
    result = tf.multiply(tf.debugging.check_numerics(log, "bad", name="checked"), 2.0)
    with tf1.Session() as session:
        session.run(ready)
        stepper = stepper_of(session, result)
        until_it_fails(stepper)
        assert stepper.mendable() == ["log:0", "checked:0"]
        stepper.override("log:0", 1.0)
        to_the_end(stepper)
        assert stepper.finish().value == 2
        assert len(calls) == (make is from_python)
        with pytest.raises(tf.errors.InvalidArgumentError, match="bad"):
            session.run([log, result], {source: 0.0})
