"""The program of the steppers' contract, in the words of TensorFlow 1."""

from __future__ import annotations

import numpy as np

from tfdbg_cli.testing.stepper_contract import FailingProgram, SteppedProgram


class GraphProgram(SteppedProgram):
    """The program in a graph and a session of its own.

    Args:
        tf: TensorFlow 1, or what has its names.
        variable: makes the variable of an initial value.
        session: makes the session of a graph.
        adapt: gives the engine's adapter of it.
    """

    product, total, result, variable = "product:0", "total:0", "result:0", "v"

    def __init__(self, tf, variable, session, adapt):
        with tf.Graph().as_default() as graph:
            tf.set_random_seed(5)
            self.x = tf.placeholder(tf.float32, [2], name="x")
            self.held = variable([3.0, 4.0])
            product = tf.multiply(self.x, self.held, name="product")
            with tf.control_dependencies([product]):
                noise = tf.random_uniform([2], name="noise")
            self.noise = noise.name
            total = tf.add(product, noise, name="total")
            self.fetch = tf.multiply(total, 2.0, name="result")
            with tf.control_dependencies([self.fetch]):
                self.update = self.held.assign_add([1.0, 1.0])
            self.drawn = tf.random_uniform([3])
            log = tf.log(self.x, name="log")
            self.failing = tf.multiply(tf.check_numerics(log, "bad", name="checked"), 2.0)
            self.session = session(graph)
            self.session.run(self.held.initializer)
            self.adapter = adapt(self.session)

    def arguments(self):
        return [self.fetch, self.update], {self.x: np.float32([1, 2])}

    def plain(self):
        return self.session.run(*self.arguments())

    def outcome(self, value):
        return value[0]

    def stepper(self):
        return self.adapter.stepper(*self.arguments(), None, None)

    def value(self):
        return self.session.run(self.held)

    def draw(self):
        return self.session.run(self.drawn)

    def fail(self):
        stepper = self.adapter.stepper(self.failing, {self.x: np.float32([0, 1])}, None, None)
        return FailingProgram(stepper, "checked", "log:0", [5, 6], [10, 12])

    def fail_plainly(self):
        self.session.run(self.failing, {self.x: np.float32([0, 1])})
