"""What every engine promises, with MLX."""

import numpy as np
import pytest

pytest.importorskip("mlx.core")

import mlx.core as mx

from tfdbg_cli.engines.mlx.engine import ENGINE
from tfdbg_cli.testing.engine_contract import EngineContract, EngineProgram


class Training(EngineProgram):
    engine = ENGINE
    product, noise, total, result = "multiply:0", "normal:0", "add:0", "multiply_1:0"
    given = "input/given:0"
    error, failing = ValueError, "reshape"
    bad, reason = "sqrt:0", "the square root of a negative number"
    gradient = "gradients/multiply/vjp:0"

    def __init__(self):
        self.variable = mx.array([3, 4], mx.float32)
        self.key = mx.random.key(7)

    def run(self, given, is_bad=False):
        def train(given):
            product = given * self.variable
            if is_bad:
                mx.sqrt(product)
            self.key, own = mx.random.split(self.key)
            total = product + mx.random.normal((2,), key=own)
            result = total * 2
            return mx.sum(result), result

        (_, result), gradient = mx.value_and_grad(train)(mx.array(given))
        self.variable += mx.ones(2)
        mx.eval(result, gradient, self.variable, self.key)
        return result

    def swallow(self, given):
        return self.run(given, is_bad=True)

    def fail(self, given):
        mx.grad(lambda given: mx.sum(mx.reshape(given * self.variable, (3,))))(mx.array(given))

    def interrupt(self, given):
        def stopped(given):
            given * self.variable
            raise KeyboardInterrupt

        mx.grad(stopped)(mx.array(given))

    def value(self):
        return np.array(self.variable)

    def array(self, result):
        return np.array(result)


class TestTraining(EngineContract):
    def make(self):
        return Training()
