"""What several modules on the steps of the NumPy engine share."""

from __future__ import annotations

import numpy as np

from tfdbg_cli.engines import numpy as tf
from tfdbg_cli.engines.numpy.debugging import ENGINE


def stepper_of(session, fetches, feed_dict=None):
    return ENGINE.adapt(session).stepper(fetches, feed_dict, None, None)


def go(stepper, node):
    """Do the steps up to a node, itself not included."""
    while stepper.next is not None and stepper.next.node != node:
        stepper.advance()
    return stepper


def exact(value):
    """A nest of values as something that is equal only bit for bit."""
    if isinstance(value, dict):
        return {key: exact(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(exact(item) for item in value)
    if isinstance(value, np.ndarray | np.generic):
        return type(value), value.dtype, value.shape, value.tobytes()
    return value


def entries(dump):
    return [
        (datum.node_name, datum.output_slot, datum.device_name, exact(dump.value(datum)))
        for datum in dump.data()
    ]


class Twin:
    """Two sessions on one program that start alike."""

    def __init__(self, program):
        self.program = program()
        self.variables = tf.global_variables()
        self.draw = [tf.truncated_normal([3]), tf.random_uniform([2])]
        initializer = tf.global_variables_initializer()
        self.plain, self.other = tf.Session(seed=11), tf.Session(seed=11)
        for session in (self.plain, self.other):
            session.run(initializer)

    def stepper(self, run=0):
        return stepper_of(self.other, self.program.fetches, self.program.feed(run))

    def run(self, run=0):
        return self.plain.run_directly(self.program.fetches, self.program.feed(run))

    def assert_alike(self):
        """Variables are the same, and so are the next random numbers and runs."""
        names = self.variables
        assert exact(self.plain.run(names)) == exact(self.other.run(names))
        assert exact(self.plain.run(self.draw)) == exact(self.other.run(self.draw))
        wanted = self.plain.run(self.program.fetches, self.program.feed(9))
        assert exact(wanted) == exact(self.other.run(self.program.fetches, self.program.feed(9)))
