"""What every engine promises, of programs of TensorFlow 2."""

import pytest

tf = pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")

from tfdbg_cli.engines.tensorflow.functions.engine import ENGINE  # noqa: E402
from tfdbg_cli.testing.engine_contract import EngineContract, EngineProgram  # noqa: E402


def raise_interrupt():
    raise KeyboardInterrupt


class FunctionProgram(EngineProgram):
    """A traced function, with random numbers whose stream is the op's own."""

    engine = ENGINE
    product, noise, total, result = "mul:0", "noise/RandomUniform:0", "add:0", "mul_1:0"
    given = "input/x:0"
    error, failing = tf.errors.InvalidArgumentError, "GatherV2"

    def __init__(self):
        self.v = tf.Variable([3.0, 4.0])

        @tf.function
        def run(x):
            product = x * self.v
            noise = tf.random.uniform([2], seed=7, name="noise")
            total = product + noise
            result = total * 2.0
            self.v.assign_add([1.0, 1.0])
            return result

        @tf.function
        def fail(x):
            product = x * self.v
            return tf.gather(product, 5)

        self._run, self._fail = run, fail
        tf.random.set_seed(3)

    def run(self, given):
        # TensorFlow 2.12's own tensor changes with an aligned array that it was made of.
        return self._run(tf.constant(given.copy()))

    def fail(self, given):
        self._fail(tf.constant(given))

    def interrupt(self, given):
        with tf.GradientTape():
            self._run(tf.constant(given))
            raise_interrupt()

    def value(self):
        return self.v.numpy()


class EagerProgram(FunctionProgram):
    """A training step, op by op."""

    noise = "AddV2:0"
    product, total, result = "Mul:0", "AddV2_1:0", "Mul_2:0"
    given = ""

    def __init__(self):
        super().__init__()
        self.count = 0
        self.optimizer = keras.optimizers.SGD(0.0)

    def run(self, given):
        self.count += 1
        with tf.GradientTape() as tape:
            product = tf.constant(given) * self.v
            total = product + tf.random.stateless_uniform([2], [self.count, 1])
            result = total * 2.0
        gradient = tape.gradient(result, self.v)
        self.v.assign_add([1.0, 1.0])
        self.optimizer.apply_gradients([(gradient, self.v)])
        return result

    def fail(self, given):
        with tf.GradientTape():
            tf.gather(tf.constant(given) * self.v, 5)


class TestFunctions(EngineContract):
    def make(self):
        return FunctionProgram()


class TestEager(EngineContract):
    def make(self):
        return EagerProgram()
