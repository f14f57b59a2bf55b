"""The dumps of a tree, those of two trees side by side, and what of them is a piece of work."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from scan_kit import MB, floats, write

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.dumps.remote.systems import RemoteFile
from tfdbg_cli.scanning.tree import (
    Folder,
    batches,
    find_folders,
    joined,
    listed,
    pairs_of,
    state_of,
)


def test_the_dumps_of_a_tree_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    paths = ["a/step2", "a/step10", "a/b/x", "run1", "run1a", "run01b", "run9/deep/er", "z"]
    for path in reversed(paths):
        write(tmp_path / path, x=floats(1))
    (tmp_path / "empty").mkdir()
    (tmp_path / "z" / "inner").mkdir()
    (tmp_path / "a" / "notes").write_text("nothing")
    found = list(find_folders(str(tmp_path)))
    assert [each.path for each in found] == [
        *("a/b/x", "a/step2", "a/step10", "run1", "run1a", "run01b", "run9/deep/er", "z"),
    ]
    assert [each.path for each in find_folders(str(tmp_path / "z"))] == ["."]
    for each in found:
        size, state = state_of(str(tmp_path / each.path))
        assert each == (each.path, size, state, (0, 1), ((), ()))
        files = [path for path in (tmp_path / each.path).iterdir() if path.is_file()]
        assert size == sum(path.stat().st_size for path in files)
    with pytest.raises(UserError, match="there is no folder"):
        list(find_folders(str(tmp_path / "none")))


def test_the_state_of_a_dump_is_that_of_its_files(tmp_path: Path) -> None:
    folder = tmp_path / "dump"
    (folder / "inner").mkdir(parents=True)
    for name, size, time in (("a", 10, 5), ("inner/b", 20, 9), ("c", 0, 7)):
        (folder / name).write_bytes(bytes(size))
        os.utime(folder / name, ns=(1, time))
    (folder / "lost").symlink_to(folder / "nowhere")
    for name in ("tfdbg-scan.jsonl", "tfdbg-compare.jsonl.before"):
        (folder / name).write_text("an index beside it")
    assert state_of(str(folder)) == (30, "3-30-9")


def test_the_folder_of_a_path() -> None:
    assert joined("/t", "a/b") == "/t/a/b"
    assert joined("/t", ".") == "/t"
    assert joined("s3://b/t", "a/b") == "s3://b/t/a/b"
    assert joined("s3://b/t", ".") == "s3://b/t"


def test_a_listing_is_a_tree() -> None:
    def file(name: str, size: int = 1, stamp: str = "s") -> RemoteFile:
        return RemoteFile(name, size, stamp)

    dump = [file("run.json"), file("deep/er/x", 5), file("deep/y", 7)]
    under = [each._replace(name=f"a/step{n}/{each.name}") for n in (10, 2) for each in dump]
    found = list(listed([*under, file("a/notes"), file("b/tensors.jsonl")]))
    assert [(each.path, each.size) for each in found] == [
        ("a/step2", 13),
        ("a/step10", 13),
        ("b", 1),
    ]
    assert [each.state.rpartition("-")[0] for each in found] == ["3-13", "3-13", "1-1"]
    (one,) = listed(dump)
    assert one.path == "."
    # An index in it is none of its files; a file that was written again changes it.
    (same,) = listed([*dump, file("tfdbg-scan.jsonl", 99)])
    (other,) = listed([*dump[:-1], file("deep/y", 7, "t")])
    assert same == one != other
    assert (other.path, other.size) == (one.path, one.size)


def paths(folders: Sequence[Folder]) -> list[Any]:
    return [(each.path, each.size, each.state, each.ranks) for each in folders]


def folders_of(*names: str, size: int = 1) -> list[Folder]:
    return [Folder(name, size, f"<{name}>") for name in names]


NONE: tuple[Any, Any] = ((), ())


def test_the_dumps_of_two_trees_are_paired_by_their_paths() -> None:
    mine, others = folders_of("a", "b", "rank_0/c"), folders_of("b", "d", "rank_0/c", size=9)
    pairs, left = pairs_of(mine, others)
    assert paths(pairs) == [
        ("a", 1, "<a> ", NONE),
        ("b", 1, "<b> <b>", NONE),
        ("rank_0/c", 1, "<rank_0/c> <rank_0/c>", NONE),
    ]
    assert [each.path for each in left] == ["d"]


def test_the_ranks_of_either_tree_are_joined_beside_one_dump() -> None:
    ranks = folders_of("x/rank_0/s", "x/rank_1/s", "y/rank_0", "y/rank_1", "rank_7/z", "rank_1/q")
    alone = folders_of("x/s", "y", "other")
    pairs, left = pairs_of(ranks, alone)
    assert paths(pairs) == [
        (
            *("x/s", 2, "<x/rank_0/s> <x/rank_1/s> <x/s>"),
            (("x/rank_0/s", "x/rank_1/s"), ()),
        ),
        ("y", 2, "<y/rank_0> <y/rank_1> <y>", (("y/rank_0", "y/rank_1"), ())),
        ("rank_7/z", 1, "<rank_7/z> ", NONE),
        ("rank_1/q", 1, "<rank_1/q> ", NONE),
    ]
    assert [each.path for each in left] == ["other"]
    pairs, left = pairs_of(alone, ranks)
    assert paths(pairs) == [
        (
            *("x/s", 1, "<x/s> <x/rank_0/s> <x/rank_1/s>"),
            ((), ("x/rank_0/s", "x/rank_1/s")),
        ),
        ("y", 1, "<y> <y/rank_0> <y/rank_1>", ((), ("y/rank_0", "y/rank_1"))),
        ("other", 1, "<other> ", NONE),
    ]
    assert [each.path for each in left] == ["rank_7/z", "rank_1/q"]
    # One of its own path goes before: the ranks belong to nothing then.
    pairs, left = pairs_of(folders_of("s", "rank_0/s"), folders_of("s"))
    assert paths(pairs) == [("s", 1, "<s> <s>", NONE), ("rank_0/s", 1, "<rank_0/s> ", NONE)]
    # Of ranks in ranks the inner ones.
    pairs, left = pairs_of(folders_of("rank_0/rank_1/s"), folders_of("rank_0/s"))
    assert paths(pairs)[0][3] == (("rank_0/rank_1/s",), ())


def test_pieces_of_work() -> None:
    def made(sizes: Sequence[int], has_parts: bool = True) -> list[list[Any]]:
        found = batches([Folder("", size, "") for size in sizes], has_parts=has_parts)
        return [[(each.size, each.part) for each in batch] for batch in found]

    whole = (0, 1)
    assert made([]) == []
    assert made([60 * MB, 4 * MB, 1]) == [[(60 * MB, whole), (4 * MB, whole)], [(1, whole)]]
    assert [len(batch) for batch in made([1] * 130)] == [64, 64, 2]
    assert made([128 * MB - 1]) == [[(128 * MB - 1, whole)]]
    assert made([1, 128 * MB, 1]) == [
        [(64 * MB, (0, 2))],
        [(64 * MB, (1, 2))],
        [(1, whole), (1, whole)],
    ]
    assert made([128 * MB], has_parts=False) == [[(128 * MB, whole)]]
    many = made([65 * 64 * MB])
    assert [batch[0][1] for batch in many] == [(at, 64) for at in range(64)]
