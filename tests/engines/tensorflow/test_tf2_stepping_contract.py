"""The stepper of TensorFlow 2 keeps what every stepper promises."""

import pytest

tf = pytest.importorskip("tensorflow")

from tfdbg_cli.engines.tensorflow.functions.engine import ENGINE  # noqa: E402
from tfdbg_cli.testing.stepper_contract import (  # noqa: E402
    FailingProgram,
    SteppedProgram,
    StepperContract,
)


@tf.function
def _fail(x):
    return tf.debugging.check_numerics(tf.math.log(x), "bad", name="checked") * 2.0


# The suite's own frames are in no message of a function that is traced here.
_fail.get_concrete_function(tf.TensorSpec([2]))


class SteppedFunction(SteppedProgram):
    """A traced function with random numbers whose stream is the op's own."""

    product, noise, total, result = "mul:0", "noise/RandomUniform:0", "add:0", "mul_1:0"
    variable = "v"

    def __init__(self):
        tf.random.set_seed(3)
        self.v = tf.Variable([3.0, 4.0], name="v")

        @tf.function
        def run(x):
            product = x * self.v
            noise = tf.random.uniform([2], seed=7, name="noise")
            total = product + noise
            result = total * 2.0
            self.v.assign_add([1.0, 1.0])
            return {"result": result, "more": ()}

        @tf.function
        def draw():
            return tf.random.uniform([3], seed=8)

        self._run, self._draw = run, draw

    def _given(self):
        return tf.constant([1.0, 2.0])

    def plain(self):
        return self._run(self._given())

    def stepper(self):
        return ENGINE.call_stepper(self._run, [self._given()], {})

    def outcome(self, value):
        return value["result"]

    def value(self):
        return self.v.numpy()

    def draw(self):
        return self._draw()

    def fail(self):
        stepper = ENGINE.call_stepper(_fail, [tf.constant([0.0, 1.0])], {})
        return FailingProgram(stepper, "checked", "Log:0", [5, 6], [10, 12])

    def fail_plainly(self):
        _fail(tf.constant([0.0, 1.0]))


class TestFunctionSteps(StepperContract):
    def make(self):
        return SteppedFunction()
