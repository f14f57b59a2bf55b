"""What every stepper promises, of this engine's. A model has no variables."""

import numpy as np
import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

import onnxruntime
from onnx_kit import FAIL, RUN, session_of

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.engines.onnx.engine import ENGINE
from tfdbg_cli.testing.stepper_contract import FailingProgram, SteppedProgram, StepperContract

GIVEN = {"given": np.array([1, 2], np.float32), "variable": np.array([3, 4], np.float32)}
WRONG = {**GIVEN, "shape": np.array([3])}


def failing_session():
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return session_of(FAIL, sess_options=options)


class OnnxSteps(SteppedProgram):
    product, noise, total, result = "product:0", "noise:0", "total:0", "result:0"

    def __init__(self):
        self.session = session_of(RUN)

    def plain(self):
        return self.session.run(None, GIVEN)

    def stepper(self):
        return ENGINE.adapt(self.session).stepper(None, GIVEN, None, None)

    def value(self):
        return GIVEN["variable"]

    def draw(self):
        return self.session.run(["y"], GIVEN)[0]

    def fail(self):
        stepper = ENGINE.adapt(failing_session()).stepper(None, WRONG, None, None)
        return FailingProgram(stepper, "bad", "shape:0", np.array([2]), [[3.0, 8.0]])

    def fail_plainly(self):
        return failing_session().run(None, WRONG)

    def outcome(self, value):
        return value[0]


class TestOnnxSteps(StepperContract):
    def make(self):
        return OnnxSteps()

    def test_an_update_is_undone_and_done_again(self):
        pytest.skip("a model has no variables")

    def test_what_steps_have_changed_is_told_and_restored(self, program):
        stepper = program.stepper()
        assert not stepper.restore()

    def test_a_run_that_was_stopped_is_over(self, program):
        stepper = program.stepper()
        stepper.reach(program.product)
        stepper.stop()
        with pytest.raises(UserError, match="over"):
            stepper.advance()
        assert stepper.finish().dump.by_tensor(program.product)
        assert not stepper.finish().dump.by_tensor(program.total)
