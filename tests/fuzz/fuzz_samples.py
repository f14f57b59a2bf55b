"""A run with something of every kind, and the folders and messages that the writers make of it."""

from __future__ import annotations

import functools
import math
from pathlib import Path

import ml_dtypes
import numpy as np

from tfdbg_cli.dumps.dump import InconvertibleTensorProto, RunError, RunInfo
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.profile import CodeLine, Profile, ProfileEntry
from tfdbg_cli.dumps.run_folder.dump import RunFolderWriter
from tfdbg_cli.dumps.series.history import MeasuredTensor
from tfdbg_cli.dumps.series.points import Series
from tfdbg_cli.dumps.series.tracks import Mark, Tracks
from tfdbg_cli.dumps.sources import Frame, Sources
from tfdbg_cli.dumps.tfdbg_dir.writer import write_dump_directory

START = 1795188947307651
CPU = "/job:localhost/replica:0/task:0/device:CPU:0"
SOURCE = "/home/user/train.py"


def small_dump() -> MemoryDump:
    """Several dtypes, objects, text, an empty tensor, a loop, frames, sources and an error."""
    frames = [Frame(SOURCE, 2, "<module>", "h = f(x)"), Frame("<string>", 1, "f", "return x")]
    graph = Graph(
        [
            Node("x", "Placeholder", device=CPU, attributes={"dtype": "float32", "shape": "(2,)"}),
            Node("h/Log", "Log", ["x:0"], ["x"], CPU, {"T": "float32", "name": "a b"}, frames),
            Node("loop", "While", ["h/Log:0"], (), CPU),
            Node("words", "Const", (), (), CPU, {"value": "[1, 2]"}),
        ]
    )
    info = RunInfo(
        call_count=3,
        fetches=["h/Log:0", "train"],
        feeds={"x:0": np.array([1, 2], np.float32), "names:0": np.array([b"\xff"], object)},
        engine="numpy",
        runner="Session",
        filter_name="has_inf_or_nan",
        error=RunError("ValueError", "no", "h/Log", SOURCE, 2),
        details=[("step", "3")],
        outputs={"loss": "h/Log:0"},
        results={"h/Log:0": True},
        program=[("Program", "train.py --lr 1"), ("Commit", "1f" * 20)],
        tracks=small_tracks(),
    )
    sources = Sources({SOURCE: "x = 1\nh = f(x)\n"}, live=False)
    dump = MemoryDump(graph, sources, info)
    values = [
        ("x", 0, np.array([1, 2], np.float32)),
        ("h/Log", 0, np.array([[np.nan, -np.inf], [np.inf, 1]])),
        ("loop", 0, np.array(1)),
        ("loop", 0, np.array(2)),
        ("loop", 1, np.array([True, False])),
        ("words", 0, np.array([b"ab", b"", b"\xff"], object)),
        ("words", 1, np.array(["text", "caf\u00e9"], object)),
        ("words", 2, InconvertibleTensorProto("a queue")),
        ("words", 3, np.array([1 + 2j], np.complex64)),
        ("words", 4, np.array([0.5, 2], ml_dtypes.bfloat16)),
        ("words", 5, np.zeros((0, 3), np.int8)),
    ]
    for turn, (name, slot, value) in enumerate(values):
        dump.add(name, slot, value, timestamp=START + turn, device_name=CPU)
    return dump


def small_tracks() -> Tracks:
    """A loss and an expression, and a stop."""
    loss, asked = Series("loss"), Series("`a`.max()", "`a`.max()")
    for run, value in enumerate((0.5, 0.25, math.inf), 1):
        loss.add(run, value, 1795188947.5 + run)
    asked.add(3, math.nan, 1795188949.25)
    tracks = Tracks([loss, asked], [Mark(3, True)])
    tensors = (
        MeasuredTensor("output of a", "a", "output"),
        MeasuredTensor("gradient of w", "", "gradient"),
    )
    for run in range(1, 4):
        tracks.history.add("training run", run, tensors, (2.0**run, float("inf")), run + 0.5)
    return tracks


def small_profile() -> Profile:
    """Two timings."""
    place = CodeLine(SOURCE, 2, "f")
    entries = [
        ProfileEntry("x", "Neg", 1.0, 2.0, 3.0),
        ProfileEntry("h/Log", "Log", 4.0, 5.5, 6.0, "Log_1", "LogKernel", place),
    ]
    return Profile([(CPU, entries)])


def write_small_folder(path: str | Path) -> None:
    """The run folder of `small_dump`, with a profile and numbers over runs."""
    dump = small_dump()
    writer = RunFolderWriter(path)
    writer.begin(dump.run_info())
    writer.add_graph(dump.graph(), dump.sources())
    for datum in dump.data():
        writer.add(datum, op_type=dump.op_type(datum.node_name))
    writer.add_profile(small_profile())
    writer.add_tracks(small_tracks())
    writer.finish(dump.run_info(), ["a warning"])


def write_small_directory(path: str | Path) -> None:
    """The dump directory of `small_dump` in the original's format."""
    write_dump_directory(small_dump(), path)


@functools.cache
def files_of(folder: str) -> tuple[str, ...]:
    """The files of a folder, as they were when this was first asked."""
    root = Path(folder)
    return tuple(sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()))
