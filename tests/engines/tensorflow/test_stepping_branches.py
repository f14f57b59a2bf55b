"""Overrides that lead a run of TensorFlow into the other branch of a condition."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from samples import sample
from tf_stepping_kit import KINDS, stepper_of, tf1, until

from tfdbg_cli import NodeStepper


def assignments_in_both(v, w, is_positive):
    return tf.cond(
        is_positive, lambda: tf1.assign_add(v, 1.0) + 0.0, lambda: tf1.assign_sub(v, 1.0) + 0.0
    )


def a_read_after(v, w, is_positive):
    picked = tf.cond(is_positive, lambda: tf1.assign_add(v, 1.0) + 0.0, lambda: tf.constant(3.0))
    with tf.control_dependencies([picked]):
        return tf.add(v.read_value(), 0.0, name="Add")


def an_update_that_only_goes_before(v, w, is_positive):
    def yes():
        with tf.control_dependencies([tf1.assign_add(v, 1.0)]):
            return tf.identity(w.read_value())

    picked = tf.cond(is_positive, yes, lambda: tf.constant(3.0))
    with tf.control_dependencies([picked]):
        seen = tf.identity(v.read_value())
    with tf.control_dependencies([seen]):
        return tf1.assign_add(v, 10.0) + seen


def reads_inside_and_updates_after(v, w, is_positive):
    picked = tf.cond(is_positive, lambda: v.read_value() + 1.0, lambda: w.read_value() + 1.0)
    with tf.control_dependencies([picked]):
        return tf1.assign_add(v, 10.0) + tf1.assign_add(w, 20.0) + picked


def conditions_inside_of_conditions(v, w, is_positive):
    is_large = tf.greater(w.read_value(), 3.0)

    def yes():
        return tf.cond(
            is_large, lambda: tf1.assign_add(v, 1.0) + 0.0, lambda: tf1.assign_add(v, 2.0) + 0.0
        )

    def no():
        return tf.cond(
            is_large, lambda: tf1.assign_add(v, 4.0) + 0.0, lambda: tf1.assign_add(w, 8.0) + 0.0
        )

    picked = tf.cond(is_positive, yes, no)
    with tf.control_dependencies([picked]):
        return picked * tf1.assign_sub(v, 100.0) + w.read_value()


def one_condition_after_the_other(v, w, is_positive):
    first = assignments_in_both(v, w, is_positive)
    with tf.control_dependencies([first]):
        second = tf.cond(
            tf.logical_not(is_positive),
            lambda: tf1.assign(v, v.read_value() * 3.0) + 0.0,
            lambda: tf1.assign(v, v.read_value() * 5.0) + 0.0,
        )
    with tf.control_dependencies([second]):
        return first + second + v.read_value()


@KINDS
@pytest.mark.parametrize("start", [1.0, -1.0], ids=["positive", "negative"])
@pytest.mark.parametrize(
    "build",
    [
        *sample(
            [
                assignments_in_both,
                a_read_after,
                an_update_that_only_goes_before,
                reads_inside_and_updates_after,
                conditions_inside_of_conditions,
                one_condition_after_the_other,
            ],
            2,
        )
    ],
    ids=lambda build: build.__name__,
)
def test_the_other_branch_is_the_run_with_the_other_predicate(
    old_control_flow, build, start, resource
):
    found = []
    for is_stepped in (False, True):
        with tf.Graph().as_default(), tf1.Session() as session:
            x = tf1.placeholder(tf.float32, [], name="x")
            v = tf1.get_variable("v", initializer=0.5, use_resource=resource)
            w = tf1.get_variable("w", initializer=2.5, use_resource=resource)
            is_positive = tf.greater(x, 0.0, name="is_positive")
            result = build(v, w, is_positive)
            session.run(tf1.global_variables_initializer())
            if is_stepped:
                stepper = NodeStepper(session, result, {x: start})
                assert stepper.cont(is_positive) == (start > 0)
                stepper.override_tensor("is_positive:0", np.bool_(start < 0))
                value = stepper.finalize()
            else:
                value = session.run(result, {is_positive: start < 0})
            found.append([value, *session.run([v, w])])
    assert found[0] == found[1]


def test_a_fetch_of_the_side_that_is_not_taken(graph):
    x = tf1.placeholder(tf.float32, [], name="x")
    is_positive = tf.greater(x, 0.0, name="is_positive")
    no, yes = tf.raw_ops.Switch(data=x, pred=is_positive)
    doubled = tf.multiply(yes, 2.0, name="doubled")
    merged = tf.raw_ops.Merge(inputs=[doubled, no * 3.0]).output
    with tf1.Session() as session:
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run([doubled, merged], {x: 1.0, is_positive: False})
        stepper = stepper_of(session, [doubled, merged], {x: 1.0})
        until(stepper, "is_positive:0")
        stepper.override("is_positive:0", np.bool_(False))
        error = stepper.finish().error
        assert isinstance(error, tf.errors.InvalidArgumentError) and error.op is doubled.op
        assert "doubled:0 does not have value" in str(error)
        assert stepper.discard().value == [2.0, 2.0]
