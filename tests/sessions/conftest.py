"""A counter program, once with the NumPy engine and once with TensorFlow."""

from types import SimpleNamespace

import pytest
from session_kit import ENGINES, framework


@pytest.fixture(params=ENGINES)
def program(request):
    """``add`` counts up; ``ratio`` is x / (3 - count): infinite where the count reaches 3."""
    tf = framework(request.param)
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [2], name="x")
        # Variables by reference, so that the same nodes are there with both engines.
        kind = {"use_resource": False} if request.param == "tensorflow" else {}
        # Threads may count at once, and TensorFlow locks no reference of itself.
        lock = {"use_locking": True} if request.param == "tensorflow" else {}
        count = tf.Variable(tf.constant(0.0, name="zero"), name="count", **kind)
        add = tf.assign_add(count, tf.constant(1.0, name="one"), name="add", **lock)
        with tf.name_scope("ratio"):
            left = tf.subtract(tf.constant(3.0, name="three"), add, name="left")
            ratio = tf.divide(x, left, name="div")
        checked = tf.check_numerics(ratio, "bad ratio", name="checked")
        whole = tf.cast(ratio, tf.int32, name="whole")
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            yield SimpleNamespace(
                tf=tf,
                engine=request.param,
                session=session,
                x=x,
                count=count,
                add=add,
                ratio=ratio,
                checked=checked,
                whole=whole,
                feed={x: [6.0, 3.0]},
            )
