"""What every stepper promises, of calls of compiled functions.

They have no variables: the program has assigned what a run returns.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.engines.jax.engine import ENGINE
from tfdbg_cli.testing import stepper_contract
from tfdbg_cli.testing.stepper_contract import (
    FailingProgram,
    SteppedProgram,
    StepperContract,
    through,
)


@jax.jit
def step(variable, given, key):
    product = given * variable
    noise = jax.random.uniform(key, (2,))
    total = product + noise
    result = total * 2
    return {"variable": variable + 1, "result": result}


def _check(x):
    if not np.isfinite(x).all():
        raise ValueError("refused")
    return x


@jax.jit
def failing(given):
    logarithm = jnp.log(given)
    checked = jax.pure_callback(_check, jax.ShapeDtypeStruct((2,), jnp.float32), logarithm)
    return checked * 2


class SteppedCall(SteppedProgram):
    product, noise, total, result = "mul:0", "uniform/max:0", "add:0", "mul_1:0"
    variable = "variable"

    def __init__(self):
        self.state = jnp.array([3, 4], jnp.float32)
        self.key, self.next = jax.random.split(jax.random.key(7))

    def _given(self):
        return self.state, jnp.array([1, 2], jnp.float32), self.key

    def _assigned(self, result):
        self.state = result["variable"]
        return result

    def plain(self):
        return self._assigned(step(*self._given()))

    def stepper(self):
        return Assigning(ENGINE.call_stepper(step, self._given(), {}), self._assigned)

    def outcome(self, value):
        return value["result"]

    def value(self):
        return np.array(self.state)

    def draw(self):
        return jax.random.uniform(self.next, (2,))

    def fail(self):
        stepper = ENGINE.call_stepper(failing, [jnp.array([0, 1], jnp.float32)], {})
        return FailingProgram(stepper, "pure_callback", "log:0", [5, 6], [10, 12])

    def fail_plainly(self):
        failing(jnp.array([0, 1], jnp.float32))


class Assigning:
    """A stepper of a call whose result the program assigns when it has it."""

    def __init__(self, stepper, assign):
        self._stepper, self._assign = stepper, assign

    def __getattr__(self, name):
        return getattr(self._stepper, name)

    def finish(self):
        capture = self._stepper.finish()
        self._assign(capture.value)
        return capture

    def discard(self):
        capture = self._stepper.discard()
        self._assign(capture.value)
        return capture


@pytest.fixture
def _without_stacks(monkeypatch):
    """JAX writes the stack of a callback into the message: that of the suite is another one."""

    def error_of(program):
        try:
            program.fail_plainly()
        except jax.errors.JaxRuntimeError as error:
            error.args = (error.args[0].splitlines()[-1],)
            return error

    monkeypatch.setattr(stepper_contract, "error_of", error_of)
    monkeypatch.setattr(stepper_contract, "str", lambda e: str(e).splitlines()[-1], raising=False)


@pytest.mark.usefixtures("_without_stacks")
class TestJaxSteps(StepperContract):
    def make(self):
        return SteppedCall()

    def test_an_update_is_undone_and_done_again(self, program):
        pytest.skip("nothing is updated")

    def test_what_steps_have_changed_is_told_and_restored(self, program):
        stepper = program.stepper()
        changed = [name for _, _ in through(stepper) for name in stepper.advance().updated]
        assert changed == list(stepper.updated) == []
        with pytest.raises(UserError, match="No step has changed a variable variable"):
            stepper.restore(["variable"])
        assert list(stepper.restore()) == []
