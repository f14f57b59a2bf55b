"""The NumPy engine keeps what every stepper promises."""

from __future__ import annotations

from graph_program_kit import GraphProgram

from tfdbg_cli.engines import numpy as tf
from tfdbg_cli.engines.numpy.debugging import ENGINE
from tfdbg_cli.testing.stepper_contract import StepperContract


class TestNumpySteps(StepperContract):
    def make(self):
        return GraphProgram(
            tf,
            variable=lambda value: tf.Variable(value, name="v"),
            session=lambda graph: tf.Session(graph=graph),
            adapt=ENGINE.adapt,
        )
