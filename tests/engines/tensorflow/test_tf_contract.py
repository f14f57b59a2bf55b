"""What every engine promises, of sessions of TensorFlow."""

import signal

import numpy as np
import tensorflow.compat.v1 as tf

from tfdbg_cli.engines.tensorflow.sessions.engine import ENGINE
from tfdbg_cli.testing.engine_contract import EngineContract, EngineProgram


class TensorFlowProgram(EngineProgram):
    engine = ENGINE
    product, noise, total, result, given = "product:0", "noise:0", "total:0", "result:0", "x:0"
    error, failing = tf.errors.InvalidArgumentError, "failing"

    def __init__(self, use_resource):
        with tf.Graph().as_default() as graph:
            self.x = x = tf.placeholder(tf.float32, [2], name="x")
            start = np.array([3, 4], np.float32)
            self.variable = tf.get_variable("v", initializer=start, use_resource=use_resource)
            product = tf.multiply(x, self.variable, name="product")
            # The op that draws, not one that scales what it has drawn.
            noise = tf.raw_ops.RandomStandardNormal(
                shape=[2], dtype=tf.float32, seed=7, seed2=7, name="noise"
            )
            total = tf.add(product, noise, name="total")
            self.twice = tf.multiply(total, 2.0, name="result")
            with tf.control_dependencies([self.twice]):
                self.update = tf.assign_add(self.variable, np.ones(2, np.float32))
            shape = tf.placeholder_with_default([3], [1])
            self.wrong = tf.reshape(product, shape, name="failing")
            self.stop = tf.py_func(interrupt, [product], tf.float32)
            initialize = tf.global_variables_initializer()
        self.session = tf.Session(graph=graph)
        self.session.run(initialize)

    def run(self, given):
        return self.session.run([self.twice, self.update], {self.x: given})[0]

    def fail(self, given):
        self.session.run(self.wrong, {self.x: given})

    def interrupt(self, given):
        self.session.run(self.stop, {self.x: given})

    def value(self):
        return self.session.run(self.variable)

    def close(self):
        self.session.close()


def interrupt(array):
    signal.raise_signal(signal.SIGINT)  # of Ctrl-C the program is told when the run is over
    return array


class TestVariablesByReference(EngineContract):
    def make(self):
        return TensorFlowProgram(use_resource=False)


class TestResourceVariables(EngineContract):
    def make(self):
        return TensorFlowProgram(use_resource=True)
