"""TensorFlow's stepper keeps what every stepper promises."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from tf_stepping_kit import stepper_of, tf1

from tfdbg_cli.testing.stepper_contract import FailingProgram, SteppedProgram, StepperContract


class TensorFlowProgram(SteppedProgram):
    product, noise, total, result, variable = (
        *("product:0", "noise/RandomUniform:0", "total:0", "result:0", "v"),
    )

    def __init__(self, is_resource):
        with tf.Graph().as_default() as graph:
            tf1.set_random_seed(5)
            self.x = tf1.placeholder(tf.float32, [2], name="x")
            v = tf1.get_variable("v", initializer=[3.0, 4.0], use_resource=is_resource)
            product = tf.multiply(self.x, v, name="product")
            with tf.control_dependencies([product]):
                noise = tf1.random_uniform([2], name="noise")
            self.fetch = tf.multiply(tf.add(product, noise, name="total"), 2.0, name="result")
            with tf.control_dependencies([self.fetch]):
                self.update = tf1.assign_add(v, [1.0, 1.0])
            self.drawn = tf1.random_uniform([3])
            log = tf.math.log(self.x, name="log")
            self.failing = tf.multiply(tf.debugging.check_numerics(log, "bad", name="checked"), 2.0)
            self.session = tf1.Session(graph=graph)
            self.session.run(v.initializer)
            self.v = v

    def arguments(self):
        return [self.fetch, self.update], {self.x: np.float32([1, 2])}

    def plain(self):
        return self.session.run(*self.arguments())

    def outcome(self, value):
        return value[0]

    def stepper(self):
        return stepper_of(self.session, *self.arguments())

    def value(self):
        return self.session.run(self.v)

    def draw(self):
        return self.session.run(self.drawn)

    def fail(self):
        stepper = stepper_of(self.session, self.failing, {self.x: np.float32([0, 1])})
        return FailingProgram(stepper, "checked", "log:0", [5, 6], [10, 12])

    def fail_plainly(self):
        self.session.run(self.failing, {self.x: np.float32([0, 1])})


@pytest.mark.parametrize("is_resource", [True, False], ids=["resource", "reference"])
class TestTensorFlowSteps(StepperContract):
    @pytest.fixture(autouse=True)
    def _kind(self, is_resource):
        self.is_resource = is_resource

    def make(self):
        return TensorFlowProgram(self.is_resource)
