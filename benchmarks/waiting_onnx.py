"""What waiting for a NaN costs a program of ONNX Runtime, beside Polygraphy's way and nothing.

    python benchmarks/waiting_onnx.py [--rounds N] [--runs N]

Each way is a process of its own, and they take turns; told is the median run of the best round.
Needs onnx and onnxruntime; Polygraphy's way (all tensors marked as outputs, each looked at) its
package, and is left out without it.
"""

import argparse
import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LAYERS, SIZE = 24, 256


def model() -> bytes:
    """Layers of MatMul, Add and Relu."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    random, nodes, weights, name = np.random.default_rng(0), [], [], "x"
    for at in range(LAYERS):
        matrix = random.standard_normal((SIZE, SIZE)).astype(np.float32) / SIZE**0.5
        weights.append(numpy_helper.from_array(matrix, f"w{at}"))
        weights.append(numpy_helper.from_array(np.zeros(SIZE, np.float32), f"b{at}"))
        nodes.append(helper.make_node("MatMul", [name, f"w{at}"], [f"m{at}"], f"matmul_{at}"))
        nodes.append(helper.make_node("Add", [f"m{at}", f"b{at}"], [f"a{at}"], f"add_{at}"))
        name = "y" if at == LAYERS - 1 else f"r{at}"
        nodes.append(helper.make_node("Relu", [f"a{at}"], [name], f"relu_{at}"))
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [SIZE, SIZE]) for n in "xy"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.checker.check_model(made)
    data: bytes = made.SerializeToString()
    return data


def program(runs: int, way: str) -> None:
    """The median time of a run."""
    import numpy as np
    import onnxruntime

    x = np.random.default_rng(1).standard_normal((SIZE, SIZE)).astype(np.float32)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    data = model()
    if way == "polygraphy":
        import onnx
        from polygraphy import constants
        from polygraphy.backend.onnx import BytesFromOnnx, ModifyOutputs

        marked = ModifyOutputs(onnx.load_from_string(data), outputs=constants.MARK_ALL)
        data = BytesFromOnnx(marked)()
    session = onnxruntime.InferenceSession(data, options, ["CPUExecutionProvider"])
    times = []
    for _ in range(runs):
        begin = time.perf_counter()
        found = session.run(None, {"x": x})
        if way == "polygraphy":
            assert all(np.isfinite(value).all() for value in found)
        times.append(time.perf_counter() - begin)
    print(f"run {statistics.median(times[5:])}")


def main() -> None:
    """Time all ways."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--program", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.program:
        program(options.runs, options.program)
        return
    wait = ["-m", "tfdbg_cli", "--batch", "-c"]
    ways = {
        "plain": [],
        "run -f has_inf_or_nan": [*wait, "run -f has_inf_or_nan"],
        "the same, level ops": [*wait, "config set level ops", "-c", "run -f has_inf_or_nan"],
        "and results twin": [
            *(*wait, "config set level ops", "-c", "config set results twin"),
            *("-c", "run -f has_inf_or_nan"),
        ],
    }
    if importlib.util.find_spec("polygraphy") is not None:
        ways["polygraphy"] = []
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    best: dict[str, float] = {}
    for _ in range(options.rounds):
        for name, words in ways.items():
            with tempfile.TemporaryDirectory() as folder:  # a way may set something
                kind = "polygraphy" if name == "polygraphy" else "plain"
                command = [sys.executable, *words, __file__, "--program", kind]
                done = subprocess.run(
                    [*command, "--runs", str(options.runs)],
                    env={**os.environ, "PYTHONPATH": path, "XDG_CONFIG_HOME": folder},
                    capture_output=True,
                    text=True,
                    check=False,
                )
                told = [line for line in done.stdout.splitlines() if line.startswith("run ")]
                if not told:
                    raise SystemExit(f"{name}: {done.stderr}")
                found = float(told[0].split()[1])
                best[name] = min(best.get(name, found), found)
    for name, found in best.items():
        print(f"{name:24} {1000 * found:8.2f} ms  {found / best['plain']:.2f}")


if __name__ == "__main__":
    main()
