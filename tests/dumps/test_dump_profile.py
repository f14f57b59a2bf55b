"""The timings of a run in a run folder, whole and damaged."""

import json

import pytest

from tfdbg_cli.dumps.dump import RunInfo
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.open import open_dump
from tfdbg_cli.dumps.profile import CodeLine, Profile, ProfileEntry, is_profile_only, place_of
from tfdbg_cli.dumps.run_folder.dump import RunFolderDump, write_run_folder
from tfdbg_cli.dumps.run_folder.profile_file import read_profile
from tfdbg_cli.dumps.sources import Frame

FRAMES = (Frame("/home/me/train.py", 7, "main"), Frame("/x/site-packages/lib.py", 3, "add"))


def make_dump():
    graph = Graph([Node("a", "Add", frames=FRAMES), Node("b", "MatMul", ["a:0"])])
    locate = place_of(graph)
    cpu = [
        ProfileEntry("b", "MatMul", 5.25, 10.5, 11.125, "fused/b", "_FusedMatMul", locate),
        ProfileEntry("a", "Add", 0.0, 1.0, 2.0, place=locate),
    ]
    profile = Profile([("CPU:0", cpu), ("GPU:0", ())])
    return MemoryDump(graph, None, RunInfo(4, ["b:0"], {"x:0": [1.0]}, "numpy"), profile)


@pytest.fixture
def folder(tmp_path):
    write_run_folder(make_dump(), tmp_path / "run")
    return tmp_path / "run"


def told(profile):
    return [
        (e.node, e.op_type, e.start, e.op_time, e.exec_time, e.runtime_name, e.kernel, e.place)
        for e in profile
    ]


def test_the_line_of_a_node_is_the_innermost_outside_libraries():
    locate = place_of(make_dump().graph)
    assert locate("a") == CodeLine("/home/me/train.py", 7, "main")
    assert str(locate("a")) == "train.py:7(main)"
    assert locate("b") is None
    assert locate("nothing") is None
    assert place_of(None)("a") is None


def test_a_profile_is_the_same_again(folder):
    dump = open_dump(folder)
    assert isinstance(dump, RunFolderDump)
    found = dump.profile()
    assert dump.warnings == []
    assert [device.name for device in found.devices] == ["CPU:0", "GPU:0"]
    assert told(found) == told(make_dump().profile())
    assert len(found) == 2
    assert [entry.node for entry in found] == ["a", "b"]
    head = json.loads((folder / "profile.jsonl").read_text().splitlines()[0])
    assert (head["format"], head["version"]) == ("tfdbg_cli profile", 1)
    same = ProfileEntry("a", "Mul", 0.0, 1.0, 2.0, runtime_name="a", kernel="Mul")
    plain = ProfileEntry("a", "Mul", 0.0, 1.0, 2.0)
    for entry in (same, plain):  # what says nothing more
        assert (entry.runtime_name, entry.kernel, entry.place) == ("", "", None)
    assert repr(plain) == "ProfileEntry('a', 'Mul', 2us)"
    assert is_profile_only(dump)
    assert dump.run_info().call_count == 4
    assert dump.run_info().feeds["x:0"].tolist() == [1.0]


def test_a_dump_of_tensors_has_none(tmp_path):
    dump = MemoryDump(Graph([]))
    assert dump.profile() is None
    assert not is_profile_only(dump)
    write_run_folder(dump, tmp_path / "run")
    assert not (tmp_path / "run" / "profile.jsonl").exists()
    assert RunFolderDump(tmp_path / "run").profile() is None


def test_a_profile_is_made_when_somebody_asks_and_once():
    made = []

    def make():
        made.append(1)
        return Profile()

    dump = MemoryDump(Graph([]), profile=make)
    assert made == []
    assert dump.profile() is dump.profile()
    assert made == [1]


def test_an_empty_profile_is_kept_as_one(tmp_path):
    write_run_folder(MemoryDump(Graph([]), profile=Profile()), tmp_path / "run")
    found = RunFolderDump(tmp_path / "run")
    assert found.profile().devices == ()
    assert found.warnings == []


def test_a_missing_file_is_told(folder):
    (folder / "profile.jsonl").unlink()
    dump = RunFolderDump(folder)
    assert dump.warnings == [f"{folder / 'profile.jsonl'} is gone."]
    assert len(dump.profile()) == 0
    assert is_profile_only(dump)


def test_a_file_that_is_cut_short_is_read_as_far_as_it_goes(folder):
    path = folder / "profile.jsonl"
    data = path.read_bytes()
    path.write_bytes(data[:-20])
    dump = RunFolderDump(folder)
    assert [entry.node for entry in dump.profile()] == ["a"]
    assert any("20 bytes are missing" in text for text in dump.warnings)
    assert any("line 3 is left out" in text for text in dump.warnings)
    path.write_bytes(b"".join(data.splitlines(True)[:2]))
    dump = RunFolderDump(folder)
    assert [entry.node for entry in dump.profile()] == ["a"]
    assert any("1 timings are missing" in text for text in dump.warnings)


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "3",
        "[]",
        "null",
        "{}",
        '{"device": 0, "node": "c", "op_type": "Add", "start": "x", "op_time": 1, "exec_time": 1}',
        '{"device": 0, "node": "c", "op_type": "Add", "start": NaN, "op_time": 1, "exec_time": 1}',
        '{"device": "0x", "node": "c", "op_type": "", "start": 0, "op_time": 1, "exec_time": 1}',
        '{"device": 0, "node": "c", "op_type": "", "start": 0, "op_time": 1, "exec_time": 1, '
        '"file": "f", "line": Infinity, "function": "g"}',
    ],
)
def test_a_damaged_line_costs_only_itself(folder, line):
    path = folder / "profile.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], line, *lines[1:]]))
    dump = RunFolderDump(folder)
    assert [entry.node for entry in dump.profile()] == ["a", "b"]
    assert f"{path} is damaged: line 2 is left out." in dump.warnings


def test_many_damaged_lines_are_one_warning(folder):
    path = folder / "profile.jsonl"
    path.write_text("\n".join(["?", "?", *path.read_text().splitlines()[1:], "?"]))
    dump = RunFolderDump(folder)
    assert [entry.node for entry in dump.profile()] == ["a", "b"]
    assert [device.name for device in dump.profile().devices] == [""]
    about_lines = [text for text in dump.warnings if "left out" in text]
    assert about_lines == [f"{path} is damaged: line 1 and 2 more are left out."]


def test_a_later_version_is_read_as_far_as_possible(folder):
    path = folder / "profile.jsonl"
    header, *rest = path.read_text().splitlines()
    changed = {**json.loads(header), "version": 2}
    path.write_text("\n".join([json.dumps(changed), *rest]))
    dump = RunFolderDump(folder)
    assert len(dump.profile()) == 2
    assert any("version 2; this tfdbg_cli knows version 1" in text for text in dump.warnings)


def test_an_empty_file_promises_nothing(tmp_path):
    told = []
    (tmp_path / "profile").touch()
    assert len(read_profile(tmp_path / "profile", told.append)) == 0 and told == []
    assert len(read_profile(tmp_path / "none", told.append)) == 0
    assert told == [f"{tmp_path}/none is gone."]
