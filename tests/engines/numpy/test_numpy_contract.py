"""What every engine promises, of the NumPy engine."""

import numpy as np

from tfdbg_cli.engines import numpy as tf
from tfdbg_cli.engines.numpy.debugging import ENGINE
from tfdbg_cli.engines.numpy.registry import define
from tfdbg_cli.testing.engine_contract import EngineContract, EngineProgram


class NumpyProgram(EngineProgram):
    engine = ENGINE
    product, noise, total, result, given = "product:0", "noise:0", "total:0", "result:0", "x:0"
    error, failing = tf.errors.InvalidArgumentError, "failing"
    bad, reason = "log:0", "the logarithm of a negative number"

    def __init__(self):
        with tf.Graph().as_default() as graph:
            x = tf.placeholder(tf.float32, [2], name="x")
            variable = tf.Variable(np.array([3, 4], np.float32), name="v")
            self.x, self.variable = x, variable
            product = tf.multiply(x, variable, name="product")
            self.log = tf.log(product, name="log")
            noise = tf.random_uniform([2], name="noise")
            total = tf.add(product, noise, name="total")
            self.twice = tf.multiply(total, 2.0, name="result")
            with tf.control_dependencies([self.twice]):
                self.update = tf.assign_add(variable, np.ones(2, np.float32))
            wrong = tf.reshape(product, [3], name="failing")
            self.wrong = wrong
            with tf.control_dependencies([product]):
                self.stop = graph.create_op("Interrupt", [], [])
            self.session = tf.Session(graph=graph, seed=7)
            self.session.run_directly(tf.global_variables_initializer())

    def run(self, given):
        return self.session.run([self.twice, self.update], {self.x: given})[0]

    def swallow(self, given):
        return self.session.run([self.twice, self.update, self.log], {self.x: given})[0]

    def fail(self, given):
        self.session.run(self.wrong, {self.x: given})

    def interrupt(self, given):
        self.session.run(self.stop, {self.x: given})

    def value(self):
        return self.session.run_directly(self.variable)


def interrupt(step, op, inputs):
    raise KeyboardInterrupt


define("Interrupt", interrupt)


class TestNumpyEngine(EngineContract):
    def make(self):
        return NumpyProgram()
