"""ONNX models of which two variants make a pair: ``onnx_pairs.py MODEL VARIANT`` runs one."""

import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

MODEL, VARIANT = sys.argv[1:]
RANDOM = np.random.default_rng(0)


def array(name, *shape):
    return numpy_helper.from_array(np.float32(RANDOM.normal(size=shape) / shape[0] ** 0.5), name)


def constant(name, value, dtype=np.float32):
    return numpy_helper.from_array(np.array(value, dtype), name)


def model_of(nodes, weights, given, made):
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in given.items()]
    outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in made.items()]
    graph = helper.make_graph(nodes, "graph", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def node(kind, inputs, output, **options):
    return helper.make_node(kind, inputs.split(), [output], name=f"{kind}_{output}", **options)


def perceptron():
    weights = [array("w0", 16, 32), array("b0", 32), array("w1", 32, 4), array("g", 32)]
    weights += [constant("half", 0.5), constant("one", 1.0), constant("root", 2**0.5)]
    weights += [constant("n", 32.0), constant("e", 1e-5), constant("zero32", np.zeros(32))]
    if VARIANT == "gemm":
        nodes = [node("Gemm", "x w0 b0", "h")]
    else:
        nodes = [node("MatMul", "x w0", "h0"), node("Add", "h0 b0", "h")]
    if VARIANT == "gelu_by_hand":
        nodes += [node("Div", "h root", "a0"), node("Erf", "a0", "a1"), node("Add", "a1 one", "a2")]
        nodes += [node("Mul", "h a2", "a3"), node("Mul", "a3 half", "a")]
    elif VARIANT == "cast":
        nodes += [node("Cast", "h", "c0", to=TensorProto.FLOAT16), node("Gelu", "c0", "c1")]
        nodes += [node("Cast", "c1", "a", to=TensorProto.FLOAT)]
    else:
        nodes += [node("Gelu", "h", "a", approximate="tanh" if VARIANT == "gelu" else "none")]
    if VARIANT == "norm_by_hand":
        nodes += [
            node("ReduceMean", "a axis", "m"),
            node("Sub", "a m", "d"),
            node("Mul", "d d", "dd"),
            node("ReduceMean", "dd axis", "v"),
            node("Add", "v e", "ve"),
            node("Sqrt", "ve", "s"),
            node("Div", "d s", "ds"),
            node("Mul", "ds g", "l"),
        ]
        weights.append(constant("axis", [-1], np.int64))
    else:
        eps = 1e-1 if VARIANT == "eps" else 1e-5
        nodes.append(node("LayerNormalization", "a g zero32", "l", epsilon=eps))
    nodes.append(node("LeakyRelu", "l", "r", alpha=0.2 if VARIANT == "alpha" else 0.1))
    nodes.append(node("MatMul", "r w1", "z"))
    nodes.append(node("Softmax", "z", "y", axis=0 if VARIANT == "axis" else -1))
    if VARIANT == "weight":
        weights[2] = constant("w1", numpy_helper.to_array(weights[2]) * 1.01)
    return model_of(nodes, weights, {"x": [8, 16]}, {"y": [8, 4]})


def convolutions():
    w, b = array("w", 8, 3, 3, 3), array("b", 8)
    scale, shift, mean = (numpy_helper.to_array(array(name, 8)) for name in "pqr")
    var = np.float32(RANDOM.uniform(0.5, 2, 8))
    if VARIANT in ("folded", "folded_wrong"):
        factor = scale / np.sqrt(var + 1e-5)
        if VARIANT == "folded_wrong":
            factor = scale / np.sqrt(var + 1e-1)
        weights = [
            numpy_helper.from_array(numpy_helper.to_array(w) * factor[:, None, None, None], "w"),
            numpy_helper.from_array((numpy_helper.to_array(b) - mean) * factor + shift, "b"),
        ]
        nodes = [node("Conv", "x w b", "n", pads=[1] * 4)]
    else:
        arrays = {"p": scale, "q": shift, "r": mean, "s": var}
        weights = [w, b, *(numpy_helper.from_array(each, name) for name, each in arrays.items())]
        nodes = [node("Conv", "x w b", "c", pads=[1] * 4)]
        nodes.append(node("BatchNormalization", "c p q r s", "n"))
    nodes += [node("Relu", "n", "a"), node("GlobalAveragePool", "a", "y")]
    return model_of(nodes, weights, {"x": [4, 3, 8, 8]}, {"y": [4, 8, 1, 1]})


def quantized(model, shape):
    from onnxruntime.quantization import (
        CalibrationDataReader,
        QuantFormat,
        QuantType,
        quantize_dynamic,
        quantize_static,
    )

    class Reader(CalibrationDataReader):
        def __init__(self):
            factor = 0.1 if VARIANT == "qdq_range" else 1
            self.left = [np.float32(RANDOM.normal(size=shape) * factor) for _ in range(16)]

        def get_next(self):
            return {"x": self.left.pop()} if self.left else None

    onnx.save(model, "float.onnx")
    if VARIANT == "dynamic":
        quantize_dynamic("float.onnx", "codes.onnx", weight_type=QuantType.QInt8)
    else:
        quantize_static(
            "float.onnx",
            "codes.onnx",
            Reader(),
            quant_format=QuantFormat.QDQ,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
        )
    return onnx.load("codes.onnx")


made = {"perceptron": perceptron, "convolutions": convolutions}[MODEL]()
SHAPE = {"perceptron": (8, 16), "convolutions": (4, 3, 8, 8)}[MODEL]
x = np.float32(np.random.default_rng(5).normal(size=SHAPE))
if VARIANT in ("qdq", "qdq_range", "dynamic"):
    made = quantized(made, SHAPE)
options = ort.SessionOptions()
if VARIANT == "threads":
    options.intra_op_num_threads = 1
ort.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(
    None, {"x": x}
)
