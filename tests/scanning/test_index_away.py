"""The index of a scan at an address: fetched, gone on with, written back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.scanning import index as indexes
from tfdbg_cli.scanning.index import Index, read_index

fsspec = pytest.importorskip("fsspec")

ADDRESS = "memory://index-away/tree/index.jsonl"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """An object store in memory, with nothing in it."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    files = fsspec.filesystem("memory")
    files.makedirs("/index-away/tree", exist_ok=True)
    yield files
    files.rm("/index-away", recursive=True)


def finding(name: str, **more: Any) -> dict[str, Any]:
    state = {"folder": name, "state": "1", "bytes": 1, "tensors": 1, "passed": 0, "first": []}
    return state | more


def left_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.name.startswith("index")]


def test_an_index_at_an_address_is_gone_on_with(store: Any, tmp_path: Path) -> None:
    for name in "ab":
        index = Index(ADDRESS, {"filter": "f"})
        index.add([finding(name)])
        if name == "a":
            assert not store.exists(ADDRESS)  # it is written from time to time, and at the end
        index.close()
        assert not left_in(tmp_path)
    found = read_index(ADDRESS)
    assert found is not None
    assert (found[0]["filter"], [*found[1]]) == ("f", ["a", "b"])
    # About something else it is begun anew, and the one before is kept.
    index = Index(ADDRESS, {"filter": "g"})
    index.add([finding("c")])
    index.close()
    found, before = read_index(ADDRESS), read_index(f"{ADDRESS}.before")
    assert found is not None and [*found[1]] == ["c"]
    assert before is not None and [*before[1]] == ["a", "b"]
    assert not left_in(tmp_path)


def test_it_is_written_from_time_to_time(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexes, "_SAVED_EVERY", 0.0)
    index = Index(ADDRESS, {"filter": "f"})
    for name in "ab":
        index.add([finding(name)])
        found = read_index(ADDRESS)
        assert found is not None and name in found[1]
    index.close()


def test_what_cannot_be_read_or_written(store: Any, tmp_path: Path) -> None:
    assert read_index("memory://index-away/none") is None
    with store.open(ADDRESS, "wb") as file:
        file.write(b"text\n")
    assert read_index(ADDRESS) is None
    with pytest.raises(UserError, match="is not an index of a scan"):
        Index(ADDRESS, {"filter": "f"})
    store.rm(ADDRESS)
    index = Index(ADDRESS, {"filter": "f"})
    index.add([finding("a")])
    store.rm("/index-away", recursive=True)
    with store.open("/index-away", "wb") as file:
        file.write(b"a file where the folder was")
    with pytest.raises(UserError, match="can't be written"):
        index.close()


def test_a_line_of_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "index"
    index = Index(str(path), {"filter": "f"})
    index.add([finding("\xe4"), finding("b")])
    index.close()
    with path.open("ab") as file:
        file.write(b"\xff\xfe\n" + json.dumps(finding("c")).encode())
    found = read_index(str(path))
    assert found is not None and [*found[1]] == ["\xe4", "b", "c"]
