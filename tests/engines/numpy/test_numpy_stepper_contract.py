"""The NumPy engine keeps what every stepper promises."""

from __future__ import annotations

import numpy as np
from numpy_stepping_kit import stepper_of

from tfdbg_cli.engines import numpy as tf
from tfdbg_cli.testing.stepper_contract import FailingProgram, SteppedProgram, StepperContract


class NumpyProgram(SteppedProgram):
    product, noise, total, result, variable = "product:0", "noise:0", "total:0", "result:0", "v"

    def __init__(self):
        with tf.Graph().as_default():
            self.x = tf.placeholder(tf.float32, [2], name="x")
            self.v = tf.Variable([3.0, 4.0], name="v")
            product = tf.multiply(self.x, self.v, name="product")
            with tf.control_dependencies([product]):
                noise = tf.random_uniform([2], name="noise")
            self.fetch = tf.multiply(tf.add(product, noise, name="total"), 2.0, name="result")
            with tf.control_dependencies([self.fetch]):
                self.update = self.v.assign_add([1.0, 1.0])
            self.drawn = tf.random_uniform([3])
            log = tf.log(self.x, name="log")
            self.failing = tf.multiply(tf.check_numerics(log, "bad", name="checked"), 2.0)
            self.session = tf.Session(seed=5)
            self.session.run(self.v.initializer)

    def arguments(self):
        return [self.fetch, self.update], {self.x: np.float32([1, 2])}

    def plain(self):
        return self.session.run_directly(*self.arguments())

    def outcome(self, value):
        return value[0]

    def stepper(self):
        return stepper_of(self.session, *self.arguments())

    def value(self):
        return self.session.run_directly(self.v)

    def draw(self):
        return self.session.run_directly(self.drawn)

    def fail(self):
        stepper = stepper_of(self.session, self.failing, {self.x: np.float32([0, 1])})
        return FailingProgram(stepper, "checked", "log:0", [5, 6], [10, 12])

    def fail_plainly(self):
        self.session.run_directly(self.failing, {self.x: np.float32([0, 1])})


class TestNumpySteps(StepperContract):
    def make(self):
        return NumpyProgram()
