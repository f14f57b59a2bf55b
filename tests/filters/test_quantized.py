"""What the codes of quantized tensors stand for, by ``pt`` and the filter ``clipped``."""

import numpy as np
import pytest
from examples_kit import needs
from program_server import debugger_in

TORCH = """
import torch
import tfdbg_cli
import torch.ao.quantization.fx._decomposed
x = torch.linspace(-3, 3, 12).reshape(3, 4)
with tfdbg_cli.run():
    narrow = torch.quantize_per_tensor(x, 0.01, 3, torch.qint8)
    wide = torch.quantize_per_tensor(x, 0.1, 3, torch.qint8)
    scales, zeros = torch.tensor([0.01, 0.1, 0.1]), torch.tensor([1, 2, 3])
    rows = torch.quantize_per_channel(x, scales, zeros, 0, torch.qint8)
    codes = torch.ops.quantized_decomposed.quantize_per_channel(
        x, scales, zeros, 0, -8, 7, torch.int8
    )
    # One element of each of the last 100 channels is clipped.
    many = torch.tensor([1.0] * 100 + [0.01] * 100), torch.arange(200) % 5 + 1
    wide = torch.stack([torch.arange(4.0)] * 200)
    channels = torch.quantize_per_channel(wide, *many, 0, torch.quint8)
"""


def debugged(folder, *arguments):
    done = debugger_in(folder, "--batch", "-c", "run", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def model_of(folder):
    """Two tensors of codes: one clips eight of twelve elements, one none; and one along an axis."""
    import onnx
    from onnx import helper, numpy_helper

    given = {
        "small": np.float32(0.01),
        "zero": np.int8(3),
        "large": np.float32(0.1),
        "scales": np.float32([0.1, 0.2, 0.3]),
        "zeros": np.uint8([100, 90, 80]),
    }
    graph = helper.make_graph(
        [
            helper.make_node("QuantizeLinear", ["x", "small", "zero"], ["a"], name="narrow"),
            helper.make_node("QuantizeLinear", ["x", "large", "zero"], ["b"], name="wide"),
            helper.make_node(
                "QuantizeLinear", ["x", "scales", "zeros"], ["c"], name="rows", axis=0
            ),
        ],
        "codes",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [3, 4])],
        [
            helper.make_tensor_value_info(name, kind, [3, 4])
            for name, kind in (
                ("a", onnx.TensorProto.INT8),
                ("b", onnx.TensorProto.INT8),
                ("c", onnx.TensorProto.UINT8),
            )
        ],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in given.items()],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), folder / "model.onnx")
    np.savez(folder / "x.npz", x=np.linspace(-3, 3, 12, dtype=np.float32).reshape(3, 4))
    return "--model", "model.onnx", "--inputs", "x.npz"


class TestOnnx:
    pytestmark = needs("onnx", "onnxruntime")

    def test_codes(self, tmp_path):
        program = model_of(tmp_path)
        shown = debugged(
            tmp_path, *("-c", "pt narrow:0", "-c", "pt wide:0", "-c", "pt rows:0"), *program
        )
        assert (
            "(codes for -1.31 to 1.24, scale 0.01, zero point 3; 66.7 % of them at the ends)"
            in shown
        )
        assert "scale 0.1, zero point 3; none of them at the ends)" in shown
        assert "scales 0.1 to 0.3, zero points 80 to 100; none of them at the ends)" in shown

    @pytest.mark.parametrize(("name", "listed"), [("clipped", 1), ("clipped:0.7", 0)])
    def test_filter(self, name, listed, tmp_path):
        shown = debugged(tmp_path, "-c", f"lt -f {name}", *model_of(tmp_path))
        assert f"{listed} dumped tensor(s) passing" in shown
        assert ("narrow:0" in shown) == bool(listed)


class TestTorch:
    pytestmark = needs("torch")

    def test_codes(self, tmp_path):
        (tmp_path / "program.py").write_text(TORCH)
        pages = [
            "pt quantize_per_tensor:0",
            "pt quantize_per_channel:0",
            "pt quantized_decomposed.quantize_per_channel:0",
            "pt quantize_per_channel_1:0",
            "lt -f clipped",
        ]
        commands = [part for each in pages for part in ("-c", each)]
        shown = debugged(tmp_path, *commands, "program.py")
        assert (
            "(codes for -1.31 to 1.24, scale 0.01, zero point 3; 66.7 % of them at the ends)"
            in shown
        )
        # In steps of 0.01 codes begin at -1.29: the first row lies below. With four bits, steps of
        # 0.1 end at 0.5 and 0.4: one element of the second row lies above, and the whole third.
        assert "scales 0.01, 0.1, 0.1, zero points 1, 2, 3, along dimension 0)" in shown
        assert "scales 0.01 to 0.1, zero points 1 to 3; 33.3 % of them at the ends)" in shown
        assert "scales 0.01 to 0.1, zero points 1 to 3; 75.0 % of them at the ends)" in shown
        assert "(dequantized quint8, scales 1, 1, 1, 1, 1, 1, 1, 1, …, " in shown
        assert "scales 0.01 to 1, zero points 1 to 5; 12.5 % of them at the ends)" in shown
        assert "4 dumped tensor(s) passing" in shown
