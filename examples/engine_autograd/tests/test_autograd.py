"""The contract of all engines, and a program in which something goes wrong."""

import subprocess
import sys
from pathlib import Path

import autograd.numpy as np
import numpy
import pytest
from autograd import grad
from autograd.extend import primitive
from tfdbg_autograd.engine import ENGINE

from tfdbg_cli.testing.engine_contract import EngineContract, EngineProgram

FOLDER = Path(__file__).resolve().parents[1]


class Program(EngineProgram):
    engine = ENGINE
    product, noise, total, result = "multiply:0", "noise:0", "add:0", "multiply_1:0"
    given = "input/given:0"
    error, failing = ValueError, "reshape"
    bad, reason = "sqrt:0", "the square root of a negative number"
    gradient = "gradients/multiply/vjp:0"

    def __init__(self):
        self.variable = numpy.array([3, 4], numpy.float32)
        stream = numpy.random.default_rng(7)

        @primitive
        def noise(size):
            return stream.standard_normal(size, numpy.float32)

        self.noise_of = noise

    def run(self, given, is_bad=False):
        kept = []

        def train(given):
            product = given * self.variable
            if is_bad:
                with numpy.errstate(all="ignore"):
                    np.sqrt(product)
            total = product + self.noise_of(2)
            kept.append(total * numpy.float32(2))
            return np.sum(kept[-1])

        grad(train)(given)
        self.variable += 1
        return kept[-1]._value

    def swallow(self, given):
        return self.run(given, is_bad=True)

    def fail(self, given):
        grad(lambda given: np.sum(np.reshape(given * self.variable, 3)))(given)

    def interrupt(self, given):
        def stopped(given):
            given * self.variable
            raise KeyboardInterrupt

        grad(stopped)(given)

    def value(self):
        return self.variable


class TestAutograd(EngineContract):
    def make(self):
        return Program()


def debug(level):
    commands = [f"config set level {level}", "run -f", "ni -t gradients/log_1/vjp"]
    words = [word for command in commands for word in ("-c", command)]
    return subprocess.run(
        [sys.executable, "-m", "tfdbg_cli", "--batch", *words, FOLDER / "logistic.py"],
        capture_output=True,
        text=True,
        check=True,
    )


@pytest.mark.parametrize("level", ["values", "ops"])
def test_the_first_bad_tensor_has_its_reason_and_line_at_each_level(level):
    shown = debug(level).stdout
    assert "It began in [log] log_1:0" in shown
    assert "Why:   the logarithm of 0 at [0]" in shown
    assert "wrong = (1 - y) * np.log(1 - p)" in shown
    assert "Gradient of: log_1" in shown
    assert "The backward pass was called at:" in shown


def test_neither_the_results_nor_the_messages_of_the_program_change():
    plain = subprocess.run(
        [sys.executable, FOLDER / "logistic.py"], capture_output=True, text=True, check=True
    )
    debugged = debug("ops")
    assert debugged.stderr == plain.stderr
    assert debugged.stdout.endswith(plain.stdout.partition("\n")[2])
