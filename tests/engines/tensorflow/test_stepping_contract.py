"""TensorFlow's stepper keeps what every stepper promises."""

from __future__ import annotations

import pytest
from graph_program_kit import GraphProgram
from tf_stepping_kit import KINDS, tf1

from tfdbg_cli.engines.tensorflow.sessions.engine import ENGINE
from tfdbg_cli.testing.stepper_contract import StepperContract


@KINDS
class TestTensorFlowSteps(StepperContract):
    @pytest.fixture(autouse=True)
    def _kind(self, resource):
        self.resource = resource

    def make(self):
        return GraphProgram(
            tf1,
            variable=lambda value: tf1.get_variable(
                "v", initializer=value, use_resource=self.resource
            ),
            session=lambda graph: tf1.Session(graph=graph),
            adapt=ENGINE.adapt,
        )
