"""What is the same for every kind of dump: parts, absent tensors, and what is known of the run."""

import dataclasses
import json
import signal

import numpy as np
import pytest
from dump_samples import START, make_dump

from tfdbg_cli.common.errors import DumpError, UserError
from tfdbg_cli.dumps.dump import Datum, InconvertibleTensorProto, RunError, RunInfo
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.run_folder.dump import RunFolderDump, RunFolderWriter, write_run_folder

#: Of every field something that is no default.
INFO = RunInfo(
    call_count=7,
    fetches=["loss:0", "train"],
    engine="torch",
    runner="made by a callable",
    error=RunError("ValueError", "no", "h/Relu", "/home/me/train.py", 12, is_late=True),
    kind="step",
    unit="session",
    filter_name="has_inf_or_nan",
    details=[("Step", "3")],
    outputs={"loss": "loss:0"},
    number=4,
    results={"loss:0": True, "w:0": False},
    program=[("Script", "train.py")],
    written={"w:0": (2, 5)},
    roles={"aten::log": ["=log"], "aten::where": ["choosing"]},
)


def test_all_that_is_known_of_a_run_is_kept(tmp_path):
    nodes = [Node("log", "aten::log"), Node("where", "aten::where"), Node("x", "Unknown")]
    write_run_folder(MemoryDump(lambda: Graph(nodes), run_info=INFO), tmp_path / "run")
    found = RunFolderDump(tmp_path / "run")
    told = dataclasses.replace(found.run_info(), feeds={})
    assert told == INFO
    assert found.warnings == []
    other = dataclasses.replace(INFO, kind="run", unit="program", error=None, results=None)
    write_run_folder(MemoryDump(run_info=other), tmp_path / "other")
    told = dataclasses.replace(RunFolderDump(tmp_path / "other").run_info(), feeds={})
    assert told == other


def test_a_run_of_which_nothing_is_told_is_as_one_that_was_told_nothing(tmp_path):
    for run, error in (({}, None), ({"error": {}}, RunError("", ""))):
        (tmp_path / "run.json").write_text(json.dumps({"run": run}))
        info = RunFolderDump(tmp_path).run_info()
        assert dataclasses.replace(info, feeds={}, fetches=(), details=(), program=()) == RunInfo(
            error=error
        )
        assert [*info.feeds, *info.fetches, *info.details, *info.program] == []


def test_a_tensor_of_which_little_is_told():
    queue = Datum("q", 0, lambda: InconvertibleTensorProto("a queue"), dtype="resource")
    assert (queue.nbytes, queue.dtype, queue.shape) == (0, "resource", None)
    assert (queue.timestamp, queue.device_name) == (0, "")
    assert (str(InconvertibleTensorProto()), InconvertibleTensorProto().initialized) == ("", True)
    datum = MemoryDump().add("x", 0, np.array([1, 2], np.int16), timestamp=7)
    assert repr(datum) == str(datum) == "{DebugTensorDatum x:0:DebugIdentity @ 7}"
    told = datum.device_name, datum.file_path, datum.note, datum.is_view, datum.dump_size_bytes
    assert told == ("", "", "", False, 4)
    assert (datum.debug_op, datum.extended_timestamp) == ("DebugIdentity", "7")


def test_what_is_known_before_the_run_ends_is_there_before(tmp_path):
    writer = RunFolderWriter(tmp_path / "run")
    writer.begin(dataclasses.replace(INFO, feeds={"x:0": 1.0}))
    for number in range(4):
        data = MemoryDump().add("x", 0, np.array(number), timestamp=START + number)
        assert writer.add(data) is True
        writer.flush()
    writer.add(MemoryDump().add("y", 0, np.array([b"text"], object), timestamp=START + 5))
    writer.flush()
    found = RunFolderDump(tmp_path / "run")
    assert dataclasses.replace(found.run_info(), feeds={}) == INFO
    values = [datum.get_tensor().tolist() for datum in found.data()]
    assert values == [0, 1, 2, 3, [b"text"]]
    assert [datum.execution for datum in found.data()] == [0, 1, 2, 3, 0]
    (warning,) = found.warnings
    assert warning.endswith("is unfinished: the run ended before its dump was complete.")
    assert len([*(tmp_path / "run").glob("tensors-*.safetensors")]) == 4


def test_feeds_are_there_though_the_run_is_lost(tmp_path):
    write_run_folder(make_dump(), tmp_path / "run")
    (tmp_path / "run" / "run.json").unlink()
    info = RunFolderDump(tmp_path / "run").run_info()
    assert info.feeds["x:0"].tolist() == [[1.0, 2.0]]
    assert repr(info.feeds) == "LazyFeeds(['x:0', 'flag:0', 'odd:0'])"
    write_run_folder(MemoryDump(), tmp_path / "none")
    (tmp_path / "none" / "run.json").unlink()
    assert RunFolderDump(tmp_path / "none").run_info() is None


def test_what_an_inconvertible_value_says_is_kept(tmp_path):
    dump = MemoryDump()
    dump.add("queue", 0, InconvertibleTensorProto("a queue"), timestamp=START)
    dump.add("unset", 0, InconvertibleTensorProto("?", False), timestamp=START + 1)
    dump.add("odd", 0, np.array([object()]), timestamp=START + 2)
    dump.add("day", 0, np.array(["2026-01-01"], "M8[D]"), timestamp=START + 3)
    assert [datum.dtype for datum in dump.data()[:2]] == ["", ""]
    writer = RunFolderWriter(tmp_path / "run")
    stored = [writer.add(datum) for datum in dump.data()]
    writer.finish(None)
    assert stored == [True, True, False, False]
    queue, unset, odd, day = RunFolderDump(tmp_path / "run").data()
    assert (str(queue.get_tensor()), queue.nbytes) == ("a queue", 0)
    assert str(unset.get_tensor()) == "Uninitialized tensor"
    assert (unset.get_tensor().initialized, unset.get_tensor().description) == (False, "?")
    assert (odd.shape, odd.nbytes, day.shape, day.nbytes) == ((1,), 0, (1,), 0)
    with pytest.raises(DumpError, match=r"Values of type datetime64\[D\] can't be stored"):
        day.get_tensor()


def test_tensors_of_several_devices_or_debug_ops_are_numbered_over_all():
    for field, values in (("device_name", ["cpu", "gpu"]), ("debug_op", ["A", "B"])):
        dump = MemoryDump()
        for value in values:
            dump.add("x", 0, np.array(1), timestamp=1, **{field: value})
        assert [datum.execution for datum in dump.data()] == [0, 0]
        assert dump.tables().repeated() is None
    dump = MemoryDump()
    for name in "xxy":
        dump.add(name, 0, np.array(1), timestamp=1)
    assert dump.tables().repeated() == {("x", 0)}


class _Interrupted(Exception):
    pass


def _interrupt(*_):
    raise _Interrupted


def test_what_a_signal_handler_of_the_program_raises_goes_on(monkeypatch):
    before = signal.signal(signal.SIGUSR1, _interrupt)
    try:
        dump = MemoryDump(make=lambda: signal.raise_signal(signal.SIGUSR1))
        with pytest.raises(_Interrupted):
            dump.data()
    finally:
        signal.signal(signal.SIGUSR1, before)
    dump = MemoryDump(make=lambda: 1 / 0)
    assert (dump.data(), dump.warnings) == (
        [],
        ["Tensors are missing: ZeroDivisionError: division by zero"],
    )


def test_every_file_that_is_gone_is_named_and_an_index_of_nothing_is_none(tmp_path):
    write_run_folder(make_dump(), tmp_path / "run")
    gone = ["strings-00000.jsonl", "tensors-00000.safetensors"]
    for name in gone:
        (tmp_path / "run" / name).rename(tmp_path / name)
    found = RunFolderDump(tmp_path / "run")
    assert sorted(line.rpartition("/")[2] for line in found.warnings) == [
        f"{name} is gone." for name in gone
    ]
    for name in gone:
        (tmp_path / name).rename(tmp_path / "run" / name)
    (tmp_path / "run" / "tensors.jsonl").write_text("nonsense\n")
    found = RunFolderDump(tmp_path / "run")
    assert any(line.endswith("tensors.jsonl names no tensor.") for line in found.warnings)
    assert len(found.by_tensor("loop:0")) == 12 and [*found.run_info().feeds] == ["x:0", "flag:0"]


def test_tensors_are_in_their_order_whatever_that_of_the_lines(tmp_path):
    write_run_folder(make_dump(), tmp_path / "run")
    path = tmp_path / "run" / "tensors.jsonl"
    head, *lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([head, *lines[::-1]]))
    found = RunFolderDump(tmp_path / "run")
    names = [(datum.tensor_name, datum.execution) for datum in make_dump().data()]
    assert [(datum.tensor_name, datum.execution) for datum in found.data()] == names
    assert [int(datum.get_tensor()) for datum in found.by_tensor("loop:0")] == [*range(12)]


@pytest.mark.parametrize(("count", "parts"), [(7, 3), (3, 7), (8, 1), (0, 2)])
def test_parts_of_a_search_come_one_after_the_other(count, parts):
    dump = MemoryDump()
    for number in range(count):
        dump.add(f"n{number}", 0, np.array(number), timestamp=number)
    looked = []

    def passes(datum, value):
        looked[-1].append(int(value))
        return value % 2 == 0

    found = []
    for at in range(parts):
        looked.append([])
        found += dump.iter_find(passes, part=(at, parts))
    assert [each for part in looked for each in part] == [*range(count)]
    assert max(map(len, looked)) - min(map(len, looked)) <= 1
    assert [datum.node_name for datum in found] == [f"n{at}" for at in range(0, count, 2)]


def test_where_the_value_of_a_variable_is_to_be_found():
    readers = [Node(f"read{at}", "ReadVariableOp", ["var:0"]) for at in range(5)]
    nodes = [
        Node("var", "VarHandleOp"),
        Node("alone", "VarHandleOp"),
        Node("assign", "Assign", ["var:0"]),
    ]
    dump = MemoryDump(Graph([*nodes, *readers, Node("waits", "ReadVariableOp", [], ["var"])]))
    for name in ("read1", "read2", "read3", "read4", "assign", "waits"):
        dump.add(name, 0, np.array(1))
    handle = "It holds the handle of a resource, not an array."
    assert dump.why_absent("var") == f"{handle} Its value is in read1, read2, read3."
    assert dump.why_absent("alone") == handle
    assert "did not compute or watch" in dump.why_absent("read0")
    with pytest.raises(UserError, match="did not generate any dumps"):
        dump.tensor("var:0")
    assert all(map(dump.is_kept, dump.data()))


def test_what_only_waits_is_followed_where_it_is_asked_for():
    nodes = [
        Node("a", "Const"),
        Node("b", "Neg", ["a:0"], ["c"]),
        Node("c", "Const", [], ["a"]),
        Node("d", "Neg", ["b:0", "gone:0"]),
    ]
    graph = Graph(nodes)
    assert [visit.edge.node for visit in graph.walk("d", depth=9)] == ["b", "a", "gone"]

    def onwards(control):
        walk = graph.walk("a", outputs=True, control=control, depth=9)
        return [(visit.edge.node, visit.edge.is_control) for visit in walk]

    assert onwards(False) == [("b", False), ("d", False)]
    assert onwards(True) == [("b", False), ("d", False), ("c", True), ("b", True)]
    assert graph.path("c", "d", control=False) is None
    assert graph.path("c", "d") == ["c", "b", "d"]
    assert graph.ancestors("d", control=False) == ["b", "a"]
