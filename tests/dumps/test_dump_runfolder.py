import dataclasses
import errno
import json
import math
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from dump_samples import ROOT, START, make_dump, same
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import load_file

from tfdbg_cli.common.errors import DumpError, UserError
from tfdbg_cli.dumps.dtypes import DTYPES, decode
from tfdbg_cli.dumps.dump import Datum, InconvertibleTensorProto
from tfdbg_cli.dumps.feeds import as_tensor, is_text
from tfdbg_cli.dumps.files import write_error
from tfdbg_cli.dumps.graph import Node
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.open import open_dump
from tfdbg_cli.dumps.remote.systems import is_remote, remote_files
from tfdbg_cli.dumps.run_folder import writer as runfolder_writer
from tfdbg_cli.dumps.run_folder.dump import RunFolderDump, RunFolderWriter, write_run_folder
from tfdbg_cli.dumps.run_info import late_error

NUMERIC = [dtype for dtype in DTYPES if dtype.raw]


@pytest.fixture
def folder(dump, tmp_path):
    write_run_folder(dump, tmp_path / "run")
    return tmp_path / "run"


def test_a_dump_is_the_same_again(dump, folder):
    found = RunFolderDump(folder)
    assert found.warnings == []
    for new, old in zip(found.data(), dump.data(), strict=True):
        assert new.watch_key == old.watch_key
        assert (new.timestamp, new.device_name) == (old.timestamp, old.device_name)
        assert (new.execution, new.shape) == (old.execution, old.shape)
        assert same(new.get_tensor(), old.get_tensor())
    for name, node in dump.graph().nodes.items():
        other = found.graph().node(name)
        for field in (each for each in Node.__slots__ if not each.startswith("_")):
            assert getattr(other, field) == getattr(node, field), field
        assert dict(other.attributes) == dict(node.attributes)
    assert any(node.returns for node in found.graph().nodes.values())
    assert found.op_type("h/Relu") == "Relu"
    info, expected = found.run_info(), dump.run_info()
    assert (info.call_count, info.fetches) == (expected.call_count, expected.fetches)
    assert (info.engine, info.kind, info.error) == ("numpy", "run", expected.error)
    assert list(info.feeds) == ["x:0", "flag:0", "odd:0"]
    assert info.feeds["x:0"].tolist() == [[1.0, 2.0]]
    assert info.feeds["flag:0"].tolist() is True
    assert isinstance(info.feeds["odd:0"], InconvertibleTensorProto)


def test_frames_and_sources_are_kept(dump, folder):
    found = RunFolderDump(folder)
    frames = found.graph().node("h/Relu").frames
    assert [(f.file, f.line, f.text) for f in frames] == [
        ("/home/user/train.py", 3, "y = x.relu()"),
        ("<string>", 1, "a = b"),
    ]
    assert found.graph().node("x").frames is None
    assert found.sources().lines("/home/user/train.py") == ["import x", "", "y = x.relu()"]
    assert found.sources().lines(__file__) is None


def test_health_is_known_without_the_values(folder):
    for part in folder.glob("tensors-*.safetensors"):
        part.unlink()
    found = RunFolderDump(folder)
    (datum,) = found.by_tensor("h/MatMul:0")
    assert datum.health == (1, 1, 1)
    assert (datum.dtype, datum.shape, datum.nbytes) == ("float64", (2, 2), 32)


def test_other_tools_open_the_parts(folder):
    loaded = load_file(folder / "tensors-00000.safetensors")
    assert loaded["w:0"].tolist() == [[1, 0], [0, 1]]
    assert loaded["loop:0#11"] == 11
    assert loaded["feed/x:0"].tolist() == [[1, 2]]
    line = json.loads((folder / "strings-00000.jsonl").read_text())
    assert line == {"key": "words:0", "shape": [3], "values": ["a", "", {"base64": "/w=="}]}
    for line in (folder / "tensors.jsonl").read_text().splitlines():
        json.loads(line)
    assert json.loads((folder / "run.json").read_text())["tensors"] == 18


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60
)
@given(st.data())
def test_every_type_round_trips(tmp_path_factory, data):
    dump = MemoryDump()
    shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5)
    for number in range(data.draw(st.integers(1, 6))):
        dtype = data.draw(st.sampled_from(NUMERIC))
        shape = data.draw(shapes)
        size = math.prod(shape) * dtype.itemsize
        content = data.draw(st.binary(min_size=size, max_size=size))
        raw = np.frombuffer(content, dtype.raw).reshape(shape)
        if dtype.name == "bool":
            raw = np.asarray(raw.view(np.uint8) & np.uint8(1)).view(bool)
        value = decode(raw, dtype)
        dump.add_datum(
            Datum(f"n{number}", 0, lambda v=value: v, timestamp=number, dtype=dtype.name)
        )
    path = tmp_path_factory.mktemp("any") / "run"
    write_run_folder(dump, path)
    found = RunFolderDump(path)
    assert found.warnings == []
    for new, old in zip(found.data(), dump.data(), strict=True):
        assert new.dtype == old.dtype
        assert same(new.get_tensor(), old.get_tensor())
        assert new.get_tensor().flags.aligned
    for part in path.glob("tensors-0*.safetensors"):
        load_file(part)


def test_large_values_are_aligned_and_mapped(tmp_path):
    dump = MemoryDump()
    dump.add("odd", 0, np.zeros(3, np.uint8), timestamp=1)
    dump.add("big", 0, np.arange(100_000, dtype=np.float32), timestamp=2)
    dump.add("half", 0, np.ones(70, ml_dtypes.bfloat16), timestamp=3)
    write_run_folder(dump, tmp_path / "run")
    found = RunFolderDump(tmp_path / "run")
    value = found.by_tensor("big:0")[0].get_tensor()
    assert value.ctypes.data % 64 == 0
    value[0] = 7
    assert found.by_tensor("big:0")[0].get_tensor()[0] == 0
    assert found.by_tensor("half:0")[0].get_tensor().dtype == ml_dtypes.bfloat16


def test_text_stays_text(tmp_path):
    dump = MemoryDump()
    dump.add("u", 0, np.array(["é", "b\udcff"]), timestamp=1)
    dump.add("s", 0, np.array([[b"x"]]), timestamp=2)
    write_run_folder(dump, tmp_path / "run")
    first, second = RunFolderDump(tmp_path / "run").data()
    assert first.get_tensor().tolist() == ["é", "b\udcff"]
    assert second.get_tensor().tolist() == [[b"x"]]


def test_what_cannot_be_stored_is_named(tmp_path):
    def gone():
        raise DumpError("It is gone.")

    dump = MemoryDump()
    dump.add_datum(Datum("lost", 0, gone, timestamp=1))
    dump.add("objects", 0, np.array([object()]), timestamp=2)
    dump.add("good", 0, np.array(1), timestamp=3)
    write_run_folder(dump, tmp_path / "run")
    found = RunFolderDump(tmp_path / "run")
    assert len(found.data()) == 3
    assert any("lost:0" in line for line in found.warnings)
    assert any("objects:0" in line for line in found.warnings)
    assert found.data()[2].get_tensor() == 1
    with pytest.raises(DumpError, match="gone"):
        found.data()[0].get_tensor()


def test_nothing_is_overwritten(dump, folder):
    with pytest.raises(UserError, match="not empty"):
        write_run_folder(dump, folder)


def test_an_unfinished_folder_shows_what_was_flushed(tmp_path):
    writer = RunFolderWriter(tmp_path / "run")
    data = make_dump().data()
    for datum in data[:2]:
        writer.add(datum)
    writer.flush()
    for datum in data[2:]:
        writer.add(datum)
    found = RunFolderDump(tmp_path / "run")
    assert [datum.node_name for datum in found.data()] == ["x", "w"]
    assert same(found.data()[1].get_tensor(), np.eye(2, dtype=np.float32))
    assert any("run.json is missing" in line for line in found.warnings)


def test_the_writer_is_a_context(tmp_path):
    with RunFolderWriter(tmp_path / "run") as writer:
        writer.add(make_dump().data()[0])
    assert RunFolderDump(tmp_path / "run").warnings == []


def test_several_parts_are_one_dump(dump, tmp_path, monkeypatch):
    monkeypatch.setattr(runfolder_writer, "_PART_BYTES", 1)
    write_run_folder(dump, tmp_path / "run")
    assert len(list((tmp_path / "run").glob("tensors-*.safetensors"))) > 5
    found = RunFolderDump(tmp_path / "run")
    assert found.warnings == []
    for new, old in zip(found.data(), dump.data(), strict=True):
        assert same(new.get_tensor(), old.get_tensor())


KILLED = """
    import sys
    sys.path.insert(0, sys.argv[2])
    import numpy as np
    from tfdbg_cli.dumps.run_folder import writer as runfolder_writer
    from tfdbg_cli.dumps.dump import Datum
    runfolder_writer._PART_BYTES = 1 << 16
    writer = runfolder_writer.RunFolderWriter(sys.argv[1])
    print("ready", flush=True)
    number = 0
    while True:
        value = np.full(5000, number, np.float32)
        writer.add(Datum(f"n{number}", 0, lambda: value, timestamp=number), value)
        number += 1
        if number == 200:
            print("written", flush=True)
"""


def test_a_kill_leaves_a_readable_prefix(tmp_path):
    command = [sys.executable, "-c", textwrap.dedent(KILLED), tmp_path / "run", ROOT]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        assert process.stdout.readline() == "written\n"
        os.kill(process.pid, signal.SIGKILL)
    found = RunFolderDump(tmp_path / "run")
    data = found.data()
    assert len(data) > 150
    assert [datum.node_name for datum in data] == [f"n{number}" for number in range(len(data))]
    for number, datum in enumerate(data):
        assert (datum.get_tensor() == number).all()
    assert any("run.json is missing" in line for line in found.warnings)


WRITING = """
    import sys, time
    sys.path[:0] = sys.argv[2:]
    from dump_samples import make_dump
    from tfdbg_cli.dumps.run_folder.dump import write_run_folder
    from tfdbg_cli.dumps.tfdbg_dir.writer import write_dump_directory

    dump = make_dump()
    for datum in dump.data()[10:]:
        def wait():
            print("writing", flush=True)
            time.sleep(600)
        datum._load = wait
    write = {"folder": write_run_folder, "directory": write_dump_directory}[sys.argv[1]]
    write(dump, "run")
"""


@pytest.mark.parametrize("kind", ["folder", "directory"])
def test_a_kill_leaves_what_is_known_of_the_run(kind, tmp_path):
    folders = [ROOT, Path(__file__).parent]
    command = [sys.executable, "-c", textwrap.dedent(WRITING), kind, *map(str, folders)]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "writing\n"
        os.kill(process.pid, signal.SIGKILL)
    found = open_dump(tmp_path / "run")
    info = found.run_info()
    assert (info.call_count, info.fetches) == (3, ["h/Relu:0", "train"])
    if kind == "folder":
        assert info.error.op_name == "h/Relu"
        assert any("run.json is unfinished" in line for line in found.warnings)
        assert "h/Relu" in found.graph()


@pytest.mark.parametrize(
    "name",
    [
        "run.json",
        "tensors.jsonl",
        "graph.pb",
        "frames.json",
        "tensors-00000.safetensors",
        "strings-00000.jsonl",
        "sources/index.json",
    ],
)
def test_a_file_cut_anywhere_hides_nothing_else(name, dump, folder):
    path = folder / name
    whole = path.read_bytes()
    step = max(1, len(whole) // 60)
    for end in [*range(0, len(whole) - 1, step), len(whole) - 2]:
        path.write_bytes(whole[:end])
        found = RunFolderDump(folder)
        graph = found.graph()
        frames = graph.node("h/Relu").frames if graph is not None and "h/Relu" in graph else None
        found.sources()
        values = 0
        for datum in found.data():
            try:
                value = datum.get_tensor()
            except DumpError:
                continue
            values += 1
            if datum.dtype == "float64":
                assert same(value, dump.by_tensor("h/MatMul:0")[0].get_tensor())
        assert any(path.name in line for line in found.warnings), (end, found.warnings)
        assert values >= 1 or name == "tensors-00000.safetensors"
        assert frames is not None or name in ("frames.json", "graph.pb")


@pytest.mark.parametrize(
    "name", ["run.json", "tensors.jsonl", "tensors-00000.safetensors", "strings-00000.jsonl"]
)
def test_a_missing_file_is_named(name, folder):
    (folder / name).unlink()
    found = RunFolderDump(folder)
    assert any(name in line for line in found.warnings)
    assert len(found.data()) >= 14


def test_a_lost_index_is_replaced_by_the_parts_own_headers(dump, folder):
    (folder / "tensors.jsonl").unlink()
    found = RunFolderDump(folder)
    assert same(found.by_tensor("w:0")[0].get_tensor(), np.eye(2, dtype=np.float32))
    assert len(found.by_tensor("loop:0")) == 12
    assert found.run_info().feeds["x:0"].tolist() == [[1.0, 2.0]]
    assert [value.get_tensor() for value in found.by_tensor("loop:0")] == list(range(12))
    assert (found.by_tensor("w:0")[0].nbytes, found.data()[0].debug_op) == (16, "DebugIdentity")
    assert found.op_type("h/Relu") == "Relu"  # as the graph has it
    assert [datum.tensor_name for datum in found.data()][:3] == ["x:0", "w:0", "h/MatMul:0"]


def test_lines_that_are_gone_are_missed(folder):
    path = folder / "tensors.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:17] + lines[19:]))
    assert any("2 tensors are missing" in line for line in RunFolderDump(folder).warnings)


def test_a_damaged_line_loses_one_tensor(folder):
    path = folder / "tensors.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    lines[2] = lines[2].replace('"node"', '"nod')
    lines[3] = json.dumps({**json.loads(lines[3]), "file": "../../etc/passwd"}) + "\n"
    path.write_text("".join(lines))
    found = RunFolderDump(folder)
    assert len(found.data()) == 16
    assert any(f"{path} is damaged: line 3 is left out" in line for line in found.warnings)
    assert any("not a place in this folder" in line for line in found.warnings)
    assert not any("are missing" in line for line in found.warnings)
    path.write_text("".join(lines[:5] + lines[6:]))
    assert any("2 tensors are missing" in line for line in RunFolderDump(folder).warnings)


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_a_changed_index_is_a_warning_or_a_dump_error(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("changed") / "run"
    writer = RunFolderWriter(folder)
    for datum in make_dump().data()[:3]:
        writer.add(datum)
    writer.finish()
    path = folder / "tensors.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    key = data.draw(st.sampled_from(sorted(lines[2])))
    junk = st.one_of(st.none(), st.integers(), st.text(max_size=3), st.lists(st.integers(-2, 9)))
    lines[2][key] = data.draw(junk)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = RunFolderDump(folder)
    for datum in found.data():
        try:
            datum.get_tensor()
        except DumpError:
            pass


def test_a_newer_version_is_said(folder):
    path = folder / "run.json"
    path.write_text(path.read_text().replace('"version": 1', '"version": 9'))
    said = "has format 'tfdbg_cli run folder' version 9; this tfdbg_cli knows version 1"
    assert any(said in line for line in RunFolderDump(folder).warnings)


def test_listing_reads_no_values(folder):
    for part in folder.glob("*-0*"):
        part.write_bytes(b"\0" * part.stat().st_size)
    found = RunFolderDump(folder)
    assert [d.dtype for d in found.data()][:3] == ["float32", "float32", "float64"]
    assert found.data()[0].timestamp == START
    assert found.warnings == []


def test_a_feed_whose_line_is_gone_is_missed(folder):
    path = folder / "tensors.jsonl"
    kept = [line for line in path.read_text().splitlines(True) if '"feed":"x:0"' not in line]
    path.write_text("".join(kept))
    found = RunFolderDump(folder)
    assert any("1 feeds are missing" in line for line in found.warnings), found.warnings
    assert found.by_tensor("w:0")


def test_a_tensor_says_in_which_file_it_is(folder):
    found = RunFolderDump(folder)
    paths = {datum.file_path for datum in found.data() if datum.file_path}
    assert paths
    assert paths <= {str(path) for path in folder.iterdir()}
    assert found.by_tensor("w:0")[0].file_path.endswith(".safetensors")


def test_a_tensor_without_a_time_was_made_now():
    dump = MemoryDump()
    before = time.time_ns() // 1000
    dump.add("a", 0, np.ones(1))
    (datum,) = dump.data()
    assert before <= datum.timestamp <= time.time_ns() // 1000
    assert datum.extended_timestamp == str(datum.timestamp)


def test_a_note_is_made_when_it_is_asked_for():
    made = []
    datum = Datum("a", 0, lambda: np.ones(1), note=lambda: made.append(1) or "quantized")
    assert not made
    assert (datum.note, datum.note) == ("quantized", "quantized")
    assert made == [1]
    assert Datum("a", 0, lambda: np.ones(1)).note == ""


def test_what_is_fed_and_made_has_bytes_and_a_description():
    (words,) = [Datum("a", 0, lambda: np.array(["é", b"ab", "\udc80"], object))]
    assert (words.nbytes, words.shape) == (7, (3,))
    long = as_tensor(["x", {"y" * 3000: 1}, object()])
    assert isinstance(long, InconvertibleTensorProto) and len(str(long)) == 2000
    assert as_tensor(long) is long
    theirs = type("InconvertibleTensorProto", (), {})
    theirs.__module__ = "tensorflow.python.debug.lib.debug_data"
    assert isinstance(theirs(), InconvertibleTensorProto)
    assert not isinstance(object(), InconvertibleTensorProto)


def test_what_is_text_and_what_is_bytes():
    for value, expected in (
        (np.array(["a"]), True),
        (np.array([b"a"]), False),
        (np.array(["a"], object), True),
        (np.array(["a", b"a"], object), False),
        (np.array([], object), False),
    ):
        assert is_text(value) is expected


def test_tensors_that_are_made_later_come_before_those_that_were_added():
    dump = MemoryDump(make=lambda: [Datum("first", 0, lambda: np.ones(1), timestamp=1)])
    dump.add("second", 0, np.ones(1), timestamp=1)
    assert [datum.node_name for datum in dump.data()] == ["first", "second"]
    assert MemoryDump().tables().first_time() == 0


def test_an_error_after_the_run_has_its_place_in_the_program():
    try:
        raise ValueError("late")
    except ValueError as error:
        found = late_error(error)
    assert (found.type_name, found.message, found.is_late) == ("ValueError", "late", True)
    assert found.file == __file__ and found.line
    assert late_error(SystemExit(1)) is None
    assert late_error(ValueError("raised nowhere")).file == __file__


def test_addresses_are_told_from_paths(tmp_path):
    assert is_remote("gs://bucket/a") and not is_remote(str(tmp_path)) and not is_remote(tmp_path)
    with pytest.raises(UserError) as caught:
        remote_files("nosuch://a/b")
    said = caught.value.message
    assert said.startswith("nosuch://a/b can't be reached: ")
    assert "fsspec: " in said and "nosuch" in said.partition("fsspec: ")[2]


def test_what_cannot_be_written_is_said_in_the_system_s_words():
    error = OSError(errno.ENOSPC, "No space left on device")
    assert write_error("a/b", error).message == "Can't write a/b: No space left on device."


def test_details_of_the_run_are_kept(tmp_path):
    details = [("Step", "3"), ("Rank", "0")]
    dump = MemoryDump(run_info=dataclasses.replace(make_dump().run_info(), details=details))
    write_run_folder(dump, tmp_path / "run")
    assert [*RunFolderDump(tmp_path / "run").run_info().details] == details
    path = tmp_path / "run" / "run.json"
    run = json.loads(path.read_text())
    run["run"]["details"] = [["a", "b"], ["c"], "de", [1, 2], {"f": 1}]
    path.write_text(json.dumps(run))
    assert [*RunFolderDump(tmp_path / "run").run_info().details] == [("a", "b")]
