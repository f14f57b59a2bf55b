"""What every engine promises, of programs that use JAX."""

import jax
import jax.numpy as jnp
import numpy as np

from tfdbg_cli.engines.jax.engine import ENGINE
from tfdbg_cli.testing.engine_contract import EngineContract, EngineProgram


def _check(x):
    if np.isfinite(x).all():
        raise ValueError("refused")
    return x


def step(variable, given, key):
    product = given * variable
    noise = jax.random.normal(key, (2,))
    total = product + noise
    return variable + 1, total * 2


def failing(variable, given):
    product = given * variable
    checked = jax.pure_callback(_check, jax.ShapeDtypeStruct((2,), jnp.float32), product)
    return checked + 1


def interrupted(variable, given):
    given * variable
    raise KeyboardInterrupt


class JaxProgram(EngineProgram):
    engine = ENGINE
    product, noise = "mul:0", "normal/normal_real/mul:0"
    total, result = "add:0", "mul_1:0"
    given = "given:0"
    error, failing = jax.errors.JaxRuntimeError, "pure_callback"

    def __init__(self):
        self.variable = jnp.array([3, 4], jnp.float32)
        self.key = jax.random.key(7)
        self.step = jax.jit(step)

    def run(self, given):
        self.key, part = jax.random.split(self.key)
        self.variable, result = self.step(self.variable, jnp.array(given), part)
        return result

    def fail(self, given):
        jax.jit(failing)(self.variable, jnp.array(given))

    def interrupt(self, given):
        jax.jit(interrupted)(self.variable, jnp.array(given))

    def value(self):
        return np.array(self.variable)


class TestJaxEngine(EngineContract):
    def make(self):
        return JaxProgram()
