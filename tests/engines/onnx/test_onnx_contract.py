"""What every engine promises, of this one."""

import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

from onnx_kit import OnnxProgram

from tfdbg_cli.testing.engine_contract import EngineContract


class TestOnnx(EngineContract):
    def make(self):
        return OnnxProgram()
