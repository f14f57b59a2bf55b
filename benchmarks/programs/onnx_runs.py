"""Runs of a transformer by ONNX Runtime."""

import statistics
import sys
import time

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

random, nodes, given = np.random.default_rng(0), [], []


def add(op, inputs, output, **attributes):
    """One node; a shape among its inputs is a matrix of that shape."""
    for at, each in enumerate(inputs):
        if isinstance(each, tuple):
            values = (0.05 * random.standard_normal(each)).astype("f")
            inputs[at] = f"weights_{len(given)}"
            given.append(numpy_helper.from_array(values, inputs[at]))
    nodes.append(helper.make_node(op, inputs, [output], **attributes))


x = "x"
for layer in range(4):
    for part in "qkv":
        add("MatMul", [x, (256, 256)], f"{part}{layer}")
    add("Transpose", [f"k{layer}"], f"t{layer}", perm=[0, 2, 1])
    add("MatMul", [f"q{layer}", f"t{layer}"], f"s{layer}")
    add("Softmax", [f"s{layer}"], f"p{layer}")
    add("MatMul", [f"p{layer}", f"v{layer}"], f"a{layer}")
    add("Add", [x, f"a{layer}"], f"r{layer}")
    add("MatMul", [f"r{layer}", (256, 1024)], f"h{layer}")
    add("Relu", [f"h{layer}"], f"g{layer}")
    add("MatMul", [f"g{layer}", (1024, 256)], f"y{layer}")
    add("Add", [f"r{layer}", f"y{layer}"], f"x{layer}")
    x = f"x{layer}"
ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 64, 256]) for name in ("x", x)]
graph = helper.make_graph(nodes, "graph", ends[:1], ends[1:], given)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(model.SerializeToString(), options)
feeds = {"x": random.standard_normal((4, 64, 256)).astype("f")}
times = []
for _ in range(int(sys.argv[2])):
    began = time.perf_counter()
    (out,) = session.run(None, feeds)
    times.append(time.perf_counter() - began)
print(f"MS {1e3 * statistics.median(times[len(times) // 4 :]):.4f} loss {out.mean():.9g}")
