"""Trees and indexes that come from anybody: an object store that lies, damaged lines, links."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.open import open_dump
from tfdbg_cli.dumps.remote.shadow import Shadow
from tfdbg_cli.dumps.run_folder.writer import write_run_folder
from tfdbg_cli.front.trees import compare_main, scan_main
from tfdbg_cli.scanning.index import Index, read_index
from tfdbg_cli.scanning.tree import find_folders

ABOUT = {"filter": "has_inf_or_nan"}


def write(path: Path) -> None:
    dump = MemoryDump()
    dump.add("x", 0, np.ones(5, np.float32))
    dump.add("y", 0, np.float32([1, np.nan]))
    write_run_folder(dump, path)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "tree" / "d")
    return tmp_path / "tree"


def scanned(tree: Path | str, *arguments: str) -> int:
    return scan_main([str(tree), "--executor", "threads", "--jobs", "1", *arguments])


# An object store that lies.


class Lies:
    """What a store says that it has: (name, size), and what comes instead of a file."""

    names: list[tuple[str, int]]
    content = b"{}"
    error: Exception | None = None


@pytest.fixture
def lies(monkeypatch: pytest.MonkeyPatch) -> type[Lies]:
    fsspec = pytest.importorskip("fsspec")

    class Lying(fsspec.spec.AbstractFileSystem):  # type: ignore[misc, name-defined]
        protocol = "lies"
        cachable = False

        def find(self, path: str, **_: Any) -> dict[str, Any]:
            if Lies.error is not None:
                raise Lies.error
            root = self._strip_protocol(path)
            return {f"{root}/{name}": {"size": size} for name, size in Lies.names}

        def isdir(self, path: str) -> bool:
            return True

        def exists(self, path: str, **_: Any) -> bool:
            return False

        def cat_file(self, path: str, **_: Any) -> bytes:
            return Lies.content

        def put_file(self, here: str, there: str, **_: Any) -> None:
            assert there.endswith("/tfdbg-scan.jsonl")

    fsspec.register_implementation("lies", Lying, clobber=True)
    for name, value in (("names", []), ("content", b"{}"), ("error", None)):
        monkeypatch.setattr(Lies, name, value, raising=False)
    return Lies


OUTSIDE = (
    *("../evil", "a/../../evil", "/etc/evil", "//evil", "a//evil", "a/./evil", "..", ".", ""),
    *("x" * 256, "nul\0", "\ud800", "d/" * 3000 + "evil"),
)


@pytest.mark.parametrize("address", ["lies://b/tree", "lies://b/..", "lies://b/.", "lies://"])
def test_nothing_is_written_outside_of_a_shadow(lies: type[Lies], tree: Path, address: str) -> None:
    lies.names = [(name, 1) for name in (*OUTSIDE, "f", "f/inside", "deep/f")]
    before = sorted(tree.parent.rglob("*"))
    with Shadow(address, keeps=True) as folder:
        place = Path(folder).parents[1]  # of all shadows
        names = {os.path.relpath(each, folder) for each in place.rglob("*") if each.is_file()}
        # What begins with a slash is below the address.
        assert names == {"f", "deep/f", "evil", "etc/evil"}
    assert not [*place.iterdir()]
    assert {each.name for each in place.parent.iterdir()} == {".owner", "files"}
    assert [path for path in sorted(tree.parent.rglob("*")) if path not in before] in (
        [],
        sorted([place.parent, place, place.parent / ".owner"]),  # the first shadow has made it
    )


@pytest.mark.parametrize("name", [*OUTSIDE, "d/" * 500 + "d"])
def test_names_that_lead_elsewhere_are_no_dumps_of_a_tree(
    lies: type[Lies], tree: Path, name: str
) -> None:
    lies.names = [(f"{name}/run.json", 2), (f"{name}/tensors.jsonl", 0), ("own/run.json", 2)]
    paths = [each.path for each in find_folders("lies://b/tree")]
    assert "own" in paths or (paths == ["."] and not name)
    assert all(".." not in path.split("/") and len(path) < 1 << 14 for path in paths)


@pytest.mark.parametrize(
    ("names", "content"),
    [
        ([("a\x1b[2J\u202e/run.json", 2)], b"{}"),
        ([("a/run.json", 1 << 62)], b"{}"),
        ([("a/run.json", -1)], b"{}"),
        ([("a/tensors.jsonl", 40), ("a/tensors-00000.safetensors", 1 << 40)], b"\x1b[2J" * 10),
    ],
)
def test_what_a_store_says_reaches_no_terminal(
    lies: type[Lies],
    tree: Path,
    capsys: pytest.CaptureFixture[str],
    names: list[tuple[str, int]],
    content: bytes,
) -> None:
    lies.names, lies.content = names, content
    assert scanned("lies://b/tree") == 1
    shown = "".join(capsys.readouterr())
    assert "a" in shown
    assert shown.replace("\n", "").isprintable()


def test_what_a_store_fails_with_reaches_no_terminal(
    lies: type[Lies], tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lies.error = RuntimeError("no\x1b[2J\nway\u202e")
    assert scanned("lies://b/tree") == 2
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1 and shown[:-1].isprintable(), shown
    with pytest.raises(UserError, match="can't be read"):
        Shadow("lies://b/tree", keeps=False)


# Indexes that come with a tree.


def lines_of(tree: Path) -> list[bytes]:
    return (tree / "tfdbg-scan.jsonl").read_bytes().splitlines(keepends=True)


def test_a_damaged_index_is_never_believed(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Cut at each byte, and with each byte changed."""
    assert scanned(tree) == 3
    shown = capsys.readouterr().out
    head, line = lines_of(tree)
    truth = read_index(str(tree / "tfdbg-scan.jsonl"))
    assert truth is not None and truth[1]["d"]["passed"] == 1
    damaged = [line[:at] for at in range(len(line))]
    damaged += [line[:at] + bytes([line[at] ^ 1]) + line[at + 1 :] for at in range(len(line))]
    damaged += [line[:at] + b"\xff" + line[at + 1 :] for at in range(len(line))]
    path = tree.parent / "damaged"
    believed = 0
    for each in damaged:
        path.write_bytes(head + each)
        found = read_index(str(path))
        assert found is not None
        for folder, finding in found[1].items():
            assert finding.items() >= truth[1][folder].items(), each
        believed += bool(found[1])
    assert believed <= 15  # of the checksum's own name, and the end of the line
    (tree / "tfdbg-scan.jsonl").write_bytes(head + damaged[-10])
    assert scanned(tree) == 3
    assert capsys.readouterr().out == shown


@pytest.mark.parametrize(
    "changes",
    [
        {"first": []},
        {"first": [3]},
        {"first": [{"tensor": "y"}]},
        {"first": [{"tensor": 3, "op": ""}]},
        {"first": [{"tensor": "y:0", "op": "", "number": -1}]},
        {"first": None},
        {"passed": "many"},
        {"passed": -1},
        {"passed": True},
        {"passed": 0},
        {"tensors": None},
        {"bytes": "\x1b"},
        {"folder": 3},
        {"state": 3},
        {"problems": "one"},
        {"problems": [3]},
        {"part": [0, 1 << 70]},
    ],
)
def test_lines_that_nobody_has_written_are_left_out(
    tree: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, Any]
) -> None:
    assert scanned(tree) == 3
    shown = capsys.readouterr().out
    head, line = lines_of(tree)
    found = json.loads(line) | changes
    found.pop("crc32")  # what has none is taken for whole
    (tree / "tfdbg-scan.jsonl").write_bytes(head + json.dumps(found).encode())
    assert scanned(tree) == 3
    assert capsys.readouterr().out == shown


def test_what_comparisons_say_is_looked_at_as_well(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tree.parent / "other" / "d")
    arguments = [str(tree), str(tree.parent / "other"), "--executor", "threads"]
    assert compare_main(arguments) == 0
    shown = capsys.readouterr().out
    head, line = (tree / "tfdbg-compare.jsonl").read_bytes().splitlines(keepends=True)
    found = json.loads(line) | {"passed": 1, "first": [{"tensor": "y:0", "op": ""}]}
    found.pop("crc32")
    good = {"said": "x", "max_abs": 1.0}
    wrong = [
        *({}, {"said": "x"}, {"said": "x", "max_abs": "1"}, {"said": 3, "max_abs": 1.0}),
        *(good | {"bad": each} for each in (3, ["x"], [-1])),
        *(good | {"lines": each} for each in ("x", [3])),
        *(good | {"arguments": each} for each in ("x", ["abc"], [["a", "b"]], [["a", "b", 3]])),
    ]
    for more in wrong:
        text = json.dumps(found | more)
        (tree / "tfdbg-compare.jsonl").write_bytes(head + text.encode())
        assert compare_main(arguments) == 0
        assert capsys.readouterr().out == shown


@pytest.mark.parametrize(
    "content", [b"\xff\xfe\0", b"\n", b"[" * 10_000, b'{"format": 1}', b"9" * 5000]
)
def test_what_is_no_index_is_refused_in_a_line(
    tree: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    (tree / "tfdbg-scan.jsonl").write_bytes(content)
    assert read_index(str(tree / "tfdbg-scan.jsonl")) is None
    assert scanned(tree) == 2
    path = f"{tree}/tfdbg-scan.jsonl"
    said = f"tfdbg: {path} is not an index of a scan. Name another file with --index.\n"
    assert capsys.readouterr().err == said
    assert (tree / "tfdbg-scan.jsonl").read_bytes() == content


def test_an_index_that_is_a_link_writes_nothing_elsewhere(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tree.parent / "elsewhere"
    (tree / "tfdbg-scan.jsonl").symlink_to(place)
    assert scanned(tree) == 2
    assert "leads out of the tree" in capsys.readouterr().err
    assert not place.exists()
    assert scanned(tree, "--index", str(place)) == 3  # named by the person
    assert read_index(str(place)) is not None
    assert read_index(str(tree / "tfdbg-scan.jsonl")) is None


def test_an_index_that_is_a_fifo_is_waited_for_by_nobody(tree: Path) -> None:
    os.mkfifo(tree / "tfdbg-scan.jsonl")
    assert read_index(str(tree / "tfdbg-scan.jsonl")) is None
    with pytest.raises(UserError, match="not a plain file"):
        Index(str(tree / "tfdbg-scan.jsonl"), ABOUT)
    assert len(open_dump(tree / "d").data()) == 2


@pytest.mark.parametrize("room", [0, 20, 60, 120])
def test_an_index_that_a_full_disk_does_not_take_is_one_line(
    tree: Path, capsys: pytest.CaptureFixture[str], room: int
) -> None:
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        status = scanned(tree)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    shown = capsys.readouterr().err
    place = tree / "tfdbg-scan.jsonl"
    assert (status, shown.count("\n")) == (2, 1)
    assert shown.startswith(f"tfdbg: Can't write {place}: File too large."), shown
    # What was cut is done again.
    assert scanned(tree) == 3
    assert read_index(str(place)) is not None
