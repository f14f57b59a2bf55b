"""A dump of every kind of thing, and how to compare values."""

from pathlib import Path

import numpy as np

from tfdbg_cli.dumps.dump import InconvertibleTensorProto, RunError, RunInfo
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.sources import Frame, Sources

START = 1795188947307651
ROOT = Path(__file__).parents[2]


def same(left, right):
    """Whether two values of a dump are equal to the bit."""
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        # By name: TensorFlow 2.12 has a bfloat16 of its own.
        if left.shape != right.shape or str(left.dtype) != str(right.dtype):
            return False
        if left.dtype == object:
            return left.tolist() == right.tolist()
        return left.tobytes() == right.tobytes()
    return type(left) is type(right) and str(left) == str(right)


def make_dump():
    """A run with a graph, two devices, repeated dumps, strings, frames and an error."""
    frames = [Frame("/home/user/train.py", 3, "<module>"), Frame("<string>", 1, "f", "a = b")]
    graph = Graph(
        [
            Node("x", "Placeholder", device="/job:localhost/replica:0/task:0/device:CPU:0"),
            Node("w", "Variable", attributes={"shape": "(2, 2)", "dtype": "float32"}),
            Node("h/MatMul", "MatMul", ["x:0", "w:0"], attributes={"a": "SAME"}, frames=frames),
            Node("h/Relu", "Relu", ["h/MatMul:0"], ["w"], frames=frames),
            Node("loop", "While", ["h/Relu:0"], returns=[["h/Relu:0", ""], ["loop/body/x:1"]]),
            Node("words", "Const"),
        ]
    )
    info = RunInfo(
        call_count=3,
        fetches=["h/Relu:0", "train"],
        feeds={"x:0": [[1.0, 2.0]], "flag:0": np.array(True), "odd:0": object()},
        engine="numpy",
        error=RunError("ValueError", "no", "h/Relu"),
    )
    sources = Sources({"/home/user/train.py": "import x\n\ny = x.relu()\n"}, live=False)
    dump = MemoryDump(graph, sources, info)
    cpu0, cpu1 = (f"/job:localhost/replica:0/task:0/device:CPU:{n}" for n in (0, 1))
    dump.add("x", 0, np.array([[1, 2]], np.float32), timestamp=START, device_name=cpu0)
    dump.add("w", 0, np.eye(2, dtype=np.float32), timestamp=START + 1, device_name=cpu0)
    bad = np.array([[np.nan, -np.inf], [np.inf, 1]])
    dump.add("h/MatMul", 0, bad, timestamp=START + 2, device_name=cpu0)
    dump.add("h/Relu", 0, np.zeros((0, 3), np.int64), timestamp=START + 3, device_name=cpu1)
    for turn in range(12):
        dump.add("loop", 0, np.array(turn), timestamp=START + 4, device_name=cpu0)
    words = np.array([b"a", b"", b"\xff"], object)
    dump.add("words", 0, words, timestamp=START + 5, device_name=cpu0)
    lost = InconvertibleTensorProto("a queue")
    dump.add("words", 1, lost, timestamp=START + 6, device_name=cpu0)
    return dump
