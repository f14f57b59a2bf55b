"""What is lost of a run folder, part by part: one line says so, and the rest is there."""

import json
import re

import numpy as np
import pytest
from dump_samples import START, make_dump

from tfdbg_cli.common.errors import DumpError, UserError
from tfdbg_cli.dumps.dump import InconvertibleTensorProto
from tfdbg_cli.dumps.joined import JoinedDump
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.run_folder import dump as run_folder
from tfdbg_cli.dumps.run_folder import writer as run_folder_writer
from tfdbg_cli.dumps.run_folder.columns import COLUMNS_FILE
from tfdbg_cli.dumps.run_folder.dump import RunFolderDump, RunFolderWriter, write_run_folder
from tfdbg_cli.dumps.run_folder.json_fields import sealed


@pytest.fixture
def folder(tmp_path):
    write_run_folder(make_dump(), tmp_path / "run")
    return tmp_path / "run"


def unchecked(folder, *names):
    """Take the checksums of files away."""
    path = folder / "run.json"
    run = json.loads(path.read_text())
    run.pop("crc32")
    for name in names:
        run["checksums"].pop(name)
    path.write_bytes(sealed(json.dumps(run)))


def test_no_folder_is_no_dump(tmp_path):
    with pytest.raises(UserError, match="There is no folder"):
        RunFolderDump(tmp_path / "none")


def test_files_outside_of_the_folder_are_not_looked_for(folder):
    path = folder / "run.json"
    run = json.loads(path.read_text())
    run.pop("crc32")
    run["files"] |= {"../outside": 5, "sources/../../outside": 5, "inside": 5}
    path.write_bytes(sealed(json.dumps(run)))
    assert RunFolderDump(folder).warnings == [f"{folder}/inside is gone."]


def test_a_graph_that_is_damaged_is_none(folder):
    (folder / "graph.pb").write_bytes(b"\x0a\xff\x7f")
    found = RunFolderDump(folder)
    assert found.graph() is None and found.graph() is None
    told = [line for line in found.warnings if "graph.pb is damaged" in line]
    assert len(told) == 3 and "bytes are missing at its end" in told[0]
    assert "its bytes were changed since they were written" in told[1]
    assert "Field 1 needs 16383 bytes" in told[2]
    assert found.by_tensor("w:0")[0].get_tensor().tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize(
    "frame",
    [
        ["/home/user/train.py", -3, "<module>", "y"],
        ["/home/user/train.py", 3, 5, "y"],
        [5, 3, "<module>", "y"],
        ["/home/user/train.py", 3, "<module>", None],
        ["/home/user/train.py", 3, "<module>"],
        "nonsense",
    ],
    ids=str,
)
def test_frames_that_are_damaged_are_left_out(frame, folder):
    frames = json.loads((folder / "frames.json").read_text())
    frames.pop("crc32", None)
    frames["frames"][0] = frame
    frames["nodes"]["x"] = 99
    (folder / "frames.json").write_text(json.dumps(frames))
    found = RunFolderDump(folder)
    assert [frame.file for frame in found.graph().node("h/Relu").frames] == ["<string>"]
    assert found.graph().node("x").frames is None
    assert f"{folder}/frames.json is damaged: some frames are left out." in found.warnings
    (folder / "frames.json").unlink()
    assert RunFolderDump(folder).graph().node("h/Relu").frames is None


def test_a_source_that_nobody_has_is_not_read(folder, monkeypatch):
    (source,) = (folder / "sources").glob("*.py*")
    source.write_text(source.read_text().replace("relu", "selu"))
    found = RunFolderDump(folder)
    assert found.sources().lines("/home/user/train.py") == ["import x", "", "y = x.selu()"]
    assert (
        f"{source} is damaged: its bytes were changed since they were written" in found.warnings[-1]
    )
    monkeypatch.setattr(run_folder, "_LARGEST_SOURCE", 8)
    found = RunFolderDump(folder)
    assert found.sources().lines("/home/user/train.py") is None
    assert any("is too large for a source" in line for line in found.warnings)


def test_parts_whose_headers_are_damaged_leave_the_others(tmp_path, monkeypatch):
    monkeypatch.setattr(run_folder_writer, "_PART_BYTES", 1)
    write_run_folder(make_dump(), tmp_path / "run")
    (tmp_path / "run" / "tensors.jsonl").unlink()
    parts = sorted((tmp_path / "run").glob("tensors-*.safetensors"))
    kept = len(RunFolderDump(tmp_path / "run").data())
    parts[0].write_bytes(parts[0].read_bytes()[:5])
    parts[1].write_bytes((1 << 40).to_bytes(8, "little") + parts[1].read_bytes()[8:])
    found = RunFolderDump(tmp_path / "run")
    assert len(found.data()) == kept - 2
    told = [line for line in found.warnings if "the header is cut short" in line]
    assert [line.partition(" is damaged")[0] for line in told] == [*map(str, parts[:2])]


def test_a_view_of_what_is_lost_has_no_value(tmp_path):
    dump, whole = MemoryDump(), np.arange(6.0)
    dump.add("whole", 0, whole, timestamp=START)
    dump.add("part", 0, whole[2:], timestamp=START + 1).is_view = True
    with RunFolderWriter(tmp_path / "run") as writer:
        writer.add(dump.data()[0])
        place = {"of": 0, "offset": 16, "strides": [8]}
        assert writer.add(dump.data()[1], place=place) is True
    found = RunFolderDump(tmp_path / "run")
    assert found.by_tensor("part:0")[0].get_tensor().tolist() == [2, 3, 4, 5]
    assert [datum.is_view for datum in found.data()] == [False, True]
    path = tmp_path / "run" / "tensors.jsonl"
    lines = re.sub(',"crc32":"[0-9a-f]{8}"', "", path.read_text()).splitlines(keepends=True)
    path.write_text("".join([lines[0], lines[2]]))
    with pytest.raises(DumpError, match="no value of the tensor that this one is a view of"):
        RunFolderDump(tmp_path / "run").by_tensor("part:0")[0].get_tensor()


def test_what_is_lost_is_not_known_to_be_clean(tmp_path):
    dump = make_dump()
    dump.lists_only_bad, dump.suspects = True, frozenset({"w:0"})
    write_run_folder(dump, tmp_path / "run")
    found = RunFolderDump(tmp_path / "run")
    joined = JoinedDump({1: found, 3: dump})
    assert found.lists_only_bad and found.suspects == {"w:0"}
    assert joined.lists_only_bad and joined.suspects == {"rank_1/w:0", "rank_3/w:0"}
    assert not JoinedDump({1: found, 3: make_dump()}).lists_only_bad
    path = tmp_path / "run" / "tensors.jsonl"
    head, _, *rest = path.read_text().splitlines(keepends=True)
    path.write_text("".join([head, *rest]))
    (tmp_path / "run" / COLUMNS_FILE).unlink()
    found = RunFolderDump(tmp_path / "run")
    assert not found.lists_only_bad and found.suspects is None


def test_hashes_and_statistics_in_place_of_values(tmp_path):
    dump = MemoryDump()
    values = {"a": np.array([1.0, np.nan, 3.0, -np.inf]), "b": np.array([5, 7], np.int8)}
    for at, (name, value) in enumerate(values.items()):
        dump.add(name, 0, value, timestamp=START + at)
    dump.add("c", 0, np.array([b"text"], object), timestamp=START + 2)
    dump.add("d", 0, np.array([1e9, 1e9 + 2]), timestamp=START + 3)
    dump.add("e", 0, np.array([1 + 2j, np.nan]), timestamp=START + 4)
    dump.add("f", 0, np.array([2.0, np.inf, 2.0]), timestamp=START + 5)
    dump.add("q", 0, InconvertibleTensorProto("a queue"), timestamp=START + 6)
    with RunFolderWriter(tmp_path / "run", values=False) as writer:
        assert [writer.add(datum) for datum in dump.data()] == [*[False] * 6, True]
    found = RunFolderDump(tmp_path / "run")
    assert [found.is_kept(datum) for datum in found.data()] == [*[False] * 6, True]
    a, b, c, d, e, f, queue = map(found.digest, found.data())
    assert (a.bad, a.least, a.most, a.mean, a.std) == ((1, 1, 0), 1.0, 3.0, 2.0, 1.0)
    assert a.range == "1 to 3, mean 2, std 1"
    assert (b.bad, b.least, b.most, b.mean, b.std) == ((0, 0, 0), 5.0, 7.0, 6.0, 1.0)
    assert (d.least, d.most, d.mean, d.std) == (1e9, 1e9 + 2, 1e9 + 1, 1.0)
    assert (f.bad, f.least, f.most, f.mean, f.std) == ((0, 0, 1), 2.0, 2.0, 2.0, 0.0)
    assert queue is None
    assert e.bad == (1, 0, 0) and np.isnan(e.mean)
    assert c.bad == (0, 0, 0) and np.isnan([c.least, c.most, c.mean, c.std]).all()
    assert len({a.hash, b.hash, c.hash}) == 3 and {len(each.hash) for each in (a, b, c)} == {16}
    with pytest.raises(DumpError, match="Only hashes and statistics"):
        found.data()[0].get_tensor()
    path = tmp_path / "run" / "digests.bin"
    for data in (path.read_bytes()[:-1], path.read_bytes()[:-1] + b"\1"):
        path.write_bytes(data)
        lost = RunFolderDump(tmp_path / "run")
        assert lost.digest(lost.data()[0]) is None
        assert any("digests.bin is damaged" in line for line in lost.warnings)
    unchecked(tmp_path / "run", "digests.bin")
    lost = RunFolderDump(tmp_path / "run")
    assert lost.digest(lost.data()[0]) is None
