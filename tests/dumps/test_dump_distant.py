"""Dumps at addresses: what is fetched, what stays here, and what a listing may say."""

import os
from pathlib import Path

import numpy as np
import pytest
from directory_kit import Maker
from dump_samples import make_dump

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.dumps.files import read_file, read_part
from tfdbg_cli.dumps.open import open_dump
from tfdbg_cli.dumps.remote.shadow import Shadow, fetched, origin_of, place_of, shadowed
from tfdbg_cli.dumps.remote.systems import RemoteFile, deliver, inside, remote_files
from tfdbg_cli.dumps.run_folder.writer import write_run_folder
from tfdbg_cli.dumps.tfdbg_dir.debug_dump_dir import DebugDumpDir
from tfdbg_cli.filters.builtin import has_inf_or_nan

fsspec = pytest.importorskip("fsspec")

ADDRESS = "memory://distant/runs/run_1"


@pytest.fixture
def store(tmp_path):
    """An object store in memory that has a run."""
    write_run_folder(make_dump(), tmp_path / "here")
    made = [path for path in (tmp_path / "here").rglob("*") if path.is_file()]
    sizes = {str(path.relative_to(tmp_path / "here")): path.stat().st_size for path in made}
    deliver(str(tmp_path / "here"), ADDRESS)
    yield fsspec.filesystem("memory"), sizes
    fsspec.filesystem("memory").rm("/distant", recursive=True)


@pytest.fixture
def reads(store, monkeypatch):
    """What is read of which file."""
    system, found = store[0], []
    read = type(system).cat_file

    def cat_file(self, path, start=None, end=None, **options):
        found.append((os.path.basename(path), start, end))
        return read(self, path, start=start, end=end, **options)

    monkeypatch.setattr(type(system), "cat_file", cat_file)
    return found


def test_a_file_system_tells_names_sizes_and_bytes(store, tmp_path):
    system, sizes = store
    system.makedirs("/distant/runs/empty", exist_ok=True)
    system.pipe_file("/distant/runs/run_1/sub/x.bin", bytes(range(9)))
    system.pipe_file("/distant/runs/run_1/X.bin", b"")
    files = remote_files(ADDRESS)
    listed = {each.name: each.size for each in files.files(ADDRESS + "/")}
    assert listed == {**sizes, "sub/x.bin": 9, "X.bin": 0} and "sources/index.json" in sizes
    system.pipe_file("/distant/other/aX/f.bin", b"1")
    assert [each.name for each in files.files("memory://distant/other/aX")] == ["f.bin"]
    assert sorted(files.names("memory://distant/runs")) == ["empty", "run_1"]
    assert (files.is_folder(ADDRESS), files.is_folder(f"{ADDRESS}/run.json")) == (True, False)
    assert (files.exists(f"{ADDRESS}/run.json"), files.exists(f"{ADDRESS}/no")) == (True, False)
    assert files.read(f"{ADDRESS}/sub/x.bin", 2, 5) == bytes([2, 3, 4])
    files.get(f"{ADDRESS}/sub/x.bin", str(tmp_path / "x.bin"))
    assert (tmp_path / "x.bin").read_bytes() == bytes(range(9))
    stamps = {each.name: each.stamp for each in files.files(ADDRESS)}
    system.pipe_file("/distant/runs/run_1/sub/x.bin", b"other")
    again = {each.name: each.stamp for each in files.files(ADDRESS)}
    assert [name for name in stamps if stamps[name] != again[name]] == ["sub/x.bin"]


def test_a_dump_is_read_where_it_lies_and_no_more_than_is_looked_at(store, reads):
    folder = shadowed(ADDRESS)
    assert shadowed("/any/path") == fetched("/any/path") == "/any/path"
    dump = open_dump(folder)
    assert dump.warnings == []
    assert [*map(str, dump.tensor_names())] == [*make_dump().tensor_names()]
    assert not [name for name, *_ in reads if name.startswith("tensors-0")]
    for _ in range(2):
        assert dump.by_tensor("w:0")[0].get_tensor().tolist() == [[1, 0], [0, 1]]
    parts = [(start, end) for name, start, end in reads if name.startswith("tensors-0")]
    assert len(parts) == len(set(parts)) and 0 < parts[0][0] < parts[0][1]
    # What was read stays here.
    path = os.path.join(folder, "run.json")
    before = len(reads)
    assert (
        bytes(read_file(path))
        == Path(path).read_bytes()
        == bytes(read_part(path, None, 0, 1 << 30))
    )
    assert bytes(read_part(path, None, 3, 9)) == bytes(read_file(path))[3:9]
    assert (
        bytes(read_part(path, None, 9, 9)) == bytes(read_part(path, None, 1 << 20, 1 << 21)) == b""
    )
    assert [end - start for name, start, end in reads[before:]] == [6]
    assert place_of(path) == f"{ADDRESS}/run.json"
    assert place_of(f"{folder}/sources/index.json") == f"{ADDRESS}/sources/index.json"
    assert place_of(folder) == ADDRESS and origin_of(path).address == ADDRESS
    assert place_of("/any/path") == "/any/path" and origin_of("/any/path") is None


def test_bad_values_are_found_in_a_dump_directory_at_an_address(tmp_path):
    maker = Maker(tmp_path / "run")
    for number in range(70):
        maker.tensor(f"n{number}", np.float32([number, np.nan if number % 30 == 7 else 1]))
    deliver(str(tmp_path / "run"), "memory://distant/directory")
    try:
        with Shadow("memory://distant/directory", keeps=True) as folder:
            for _ in range(2):
                found = DebugDumpDir(folder).find(has_inf_or_nan)
                assert {datum.node_name for datum in found} == {"n7", "n37", "n67"}
    finally:
        fsspec.filesystem("memory").rm("/distant", recursive=True)


def test_a_folder_is_forgotten_when_it_is_closed(store):
    with Shadow(ADDRESS + "/", keeps=False) as folder:
        path = os.path.join(folder, "run.json")
        assert read_file(path)[:1] == b"{"
        assert os.path.basename(folder) == "run_1"
        assert not Path(path).read_bytes().strip(b"\0")  # nothing is kept
    assert not os.path.exists(folder) and origin_of(path) is None and place_of(path) == path
    whole = fetched(ADDRESS)
    assert Path(whole, "run.json").read_bytes() == fsspec.filesystem("memory").cat_file(
        "/distant/runs/run_1/run.json"
    )
    with pytest.raises(UserError, match="There is no dump at memory://distant/none"):
        Shadow("memory://distant/none", keeps=True)


def test_what_is_not_installed_is_told(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match="fsspec is not installed") as caught:
        remote_files(ADDRESS)
    assert caught.value.message.startswith(f"{ADDRESS} can't be reached: ")


LONG = "x" * 255


@pytest.mark.parametrize(
    ("name", "is_safe"),
    [
        ("a", True),
        ("a/b.c/..d", True),
        (LONG, True),
        (f"{LONG}y", False),
        ("/".join([LONG] * 4), True),
        ("/".join(["a", *[LONG] * 3, LONG[1:]]), True),  # 1,024 bytes
        ("/".join(["ab", *[LONG] * 3, LONG[1:]]), False),
        (f"{'/'.join([LONG] * 4)}/", False),
        (f"a/{'/'.join([LONG] * 4)}", False),
        ("../a", False),
        ("a/../b", False),
        ("./a", False),
        ("/a", False),
        ("a//b", False),
        ("", False),
        ("a\0b", False),
        ("\ud800", False),
    ],
)
def test_no_listed_name_leads_elsewhere(name, is_safe):
    files = [RemoteFile(each, 1, "") for each in (name, "good")]
    assert [each.name for each in inside(files)] == [*[name] * is_safe, "good"]
