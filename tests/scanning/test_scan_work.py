"""What workers find in dumps, what an index keeps of it, and who does the work, in this process."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scan_kit import MB, floats, write

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.comparing.bars import Bars
from tfdbg_cli.dumps.datum import InconvertibleTensorProto
from tfdbg_cli.dumps.open import open_dump
from tfdbg_cli.scanning.executors import give_up, make_executor
from tfdbg_cli.scanning.index import Index, read_index
from tfdbg_cli.scanning.scan import Progress, scan
from tfdbg_cli.scanning.tree import Folder, find_folders, opened, opened_pair, pairs_of
from tfdbg_cli.scanning.work import NAMED, Finding, compare_folders, merged, scan_folders


def test_what_is_found_in_a_dump(tmp_path: Path) -> None:
    nan = float("nan")
    write(tmp_path / "t/d", x=[floats(1), floats(nan), floats(nan)], y=floats(1, nan), z=floats(2))
    write(tmp_path / "t/fine", z=floats(2))
    folders = list(find_folders(str(tmp_path / "t")))
    one, fine = scan_folders(str(tmp_path / "t"), "has_inf_or_nan", [], folders)
    x = {"tensor": "x:0", "op": "Opx", "dtype": "float32", "shape": [1]}
    assert one == {
        "folder": "d",
        "state": folders[0].state,
        "bytes": folders[0].size,
        "tensors": 5,
        "passed": 3,
        "first": [
            x | {"number": 1},
            x | {"number": 2},
            x | {"tensor": "y:0", "op": "Opy", "shape": [2]},
        ],
    }
    assert fine == {
        **{"folder": "fine", "state": folders[1].state, "bytes": folders[1].size},
        **{"tensors": 1, "passed": 0, "first": []},
    }
    parts = [folders[0]._replace(part=(at, 2)) for at in range(2)]
    found = scan_folders(str(tmp_path / "t"), "has_inf_or_nan", [], parts)
    assert [(each["part"], each["passed"], each["tensors"]) for each in found] == [
        *(([0, 2], 1, 5), ([1, 2], 2, 5)),
    ]
    write(tmp_path / "t/twice", x=[floats(1), floats(nan)])
    folders = [each for each in find_folders(str(tmp_path / "t")) if each.path == "twice"]
    (twice,) = scan_folders(str(tmp_path / "t"), "has_inf_or_nan", [], folders)
    assert twice["first"] == [x | {"number": 1}]
    with pytest.raises(UserError, match="has_inf"):
        scan_folders(str(tmp_path / "t"), "has_inf", [], [])


def test_filters_of_files_that_fail(tmp_path: Path) -> None:
    write(tmp_path / "t/d", **{f"n{number:02}": floats(number) for number in range(30)})
    own = tmp_path / "own.py"
    own.write_text(
        "def is_small(datum, tensor):\n"
        "    if tensor[0] >= 25:\n"
        "        raise ValueError('too\\nlarge')\n"
        "    return tensor[0] < 24\n"
    )
    (found,) = scan_folders(
        str(tmp_path / "t"), "is_small", [str(own)], [*find_folders(str(tmp_path / "t"))]
    )
    assert (found["tensors"], found["passed"], len(found["first"])) == (30, 24, NAMED)
    assert found["problems"] == [f"n{number}:0: ValueError: too large" for number in range(25, 30)]
    own.write_text("def fails(datum, tensor):\n    raise ValueError\n")
    (found,) = scan_folders(
        str(tmp_path / "t"), "fails", [str(own)], [*find_folders(str(tmp_path / "t"))]
    )
    assert len(found["problems"]) == NAMED == 20


def test_dumps_that_cannot_be_opened_or_are_damaged(tmp_path: Path) -> None:
    write(tmp_path / "t/d", x=floats(1))
    write(tmp_path / "t/e", x=floats(1))
    folders = [*find_folders(str(tmp_path / "t")), Folder("gone", 3, "state")]
    (values,) = (tmp_path / "t/d").glob("tensors-*.safetensors")
    values.write_bytes(values.read_bytes()[:-2])
    damaged, whole, gone = scan_folders(str(tmp_path / "t"), "has_inf_or_nan", [], folders)
    assert len(damaged["problems"]) >= 1
    assert "problems" not in whole
    assert gone == {
        **{"folder": "gone", "state": "state", "bytes": 3},
        "problems": [f"There is no dump at {tmp_path}/t/gone: the folder doesn't exist."],
    }


def test_a_tensor_that_has_no_shape(tmp_path: Path) -> None:
    write(tmp_path / "t/d", x=InconvertibleTensorProto("a handle"))
    own = tmp_path / "own.py"
    own.write_text("def any(datum, tensor):\n    return True\n")
    folders = [*find_folders(str(tmp_path / "t"))]
    (found,) = scan_folders(str(tmp_path / "t"), "any", [str(own)], folders)
    assert found["first"][0]["shape"] is None


def test_findings_of_parts_are_merged() -> None:
    def part(number: int, passed: int, *first: str, **more: Any) -> Finding:
        named = [{"tensor": name} for name in first]
        base = {"folder": "d", "state": "s", "bytes": 10, "part": [number, 3], "tensors": 7}
        return base | {"passed": passed, "first": named} | more

    whole = merged(
        [part(0, 2, "a", "b"), part(1, 0, problems=["p"]), part(2, 1, "c", problems=["p", "q"])]
    )
    assert whole == {
        **{"folder": "d", "state": "s", "bytes": 30, "tensors": 7, "passed": 3},
        "first": [{"tensor": "a"}, {"tensor": "b"}, {"tensor": "c"}],
        "problems": ["p", "q"],
    }
    names = [f"n{number}" for number in range(15)]
    more = merged([part(0, 15, *names), part(1, 15, *(f"m{name}" for name in names))])
    assert [each["tensor"] for each in more["first"]] == [*names, *(f"mn{at}" for at in range(5))]
    assert merged([part(0, 1, "a")]) == {k: v for k, v in part(0, 1, "a").items() if k != "part"}
    failed: Finding = {"folder": "d", "state": "", "bytes": 1, "problems": ["died"]}
    assert merged([failed, failed])["passed"] == 0


def compared(tmp_path: Path, bars: Bars | None = None) -> list[Finding]:
    trees = str(tmp_path / "one"), str(tmp_path / "two")
    pairs, _ = pairs_of(find_folders(trees[0]), find_folders(trees[1]))
    return compare_folders(*trees, bars or Bars(), (), pairs)


def test_what_is_found_in_two_dumps(tmp_path: Path) -> None:
    write(tmp_path / "one/a", x=floats(1, 2), y=floats(1), z=floats(1))
    write(tmp_path / "two/a", x=floats(1, 2), y=floats(1.5))
    write(tmp_path / "one/b", x=floats(1, 2))
    write(tmp_path / "two/b", x=floats(1, 2))
    write(tmp_path / "one/c", x=floats(1, 2))
    write(tmp_path / "two/c", y=np.array([1]))
    write(tmp_path / "one/d", x=floats(1))
    a, b, c, d = compared(tmp_path)
    states = [each.state for each in find_folders(str(tmp_path / "one"))]
    assert a["state"].startswith(f"{states[0]} ")
    assert {name: a[name] for name in a if name not in ("state", "bytes")} == {
        **{"folder": "a", "tensors": 2, "passed": 1, "said": "given", "max_abs": 0.5},
        "first": [{"tensor": "y:0", "op": "Opy", "dtype": "float32", "shape": [1]}],
    }
    assert (b["tensors"], b["passed"], "problems" in b, "said" in b) == (1, 0, False, False)
    assert (c["tensors"], c["passed"]) == (0, 0)
    assert c["problems"] == ["no tensor of one is one of the other."]
    assert "There is no dump at" in d["problems"][0]
    assert [each["passed"] for each in compared(tmp_path, Bars(1.0))[:3]] == [0, 0, 0]


def test_ranks_beside_one_process(tmp_path: Path) -> None:
    value = np.arange(12, dtype=np.float32).reshape(4, 3)
    write(tmp_path / "one/s", w=value)
    for rank, rows in ((10, value[3:]), (2, value[:3])):
        write(tmp_path / f"two/rank_{rank}/s", w=rows)
    (found,) = compared(tmp_path)
    assert (found["ranks"], found["tensors"], found["passed"]) == (2, 1, 0)
    (pair,), _ = pairs_of(find_folders(str(tmp_path / "one")), find_folders(str(tmp_path / "two")))
    with opened_pair((str(tmp_path / "one"), str(tmp_path / "two")), pair) as (one, two):
        assert [each.node_name for each in one.data()] == ["w"]
        assert [each.node_name for each in two.data()] == ["rank_2/w", "rank_10/w"]
    with opened(str(tmp_path / "one"), "s") as dump:
        assert len(dump.data()) == 1


# An index, and who does the work.


def finding(folder: Folder, **more: Any) -> Finding:
    return {
        **{"folder": folder.path, "state": folder.state, "bytes": folder.size},
        **({"part": list(folder.part)} if folder.part != (0, 1) else {}),
        **{"tensors": 1, "passed": 0, "first": []},
        **more,
    }


def done(folders: Sequence[Folder]) -> list[Finding]:
    return [finding(each) for each in folders]


def threads() -> Executor:
    return ThreadPoolExecutor(1)


def test_a_scan_does_what_is_not_done(tmp_path: Path) -> None:
    path, asked = str(tmp_path / "index"), list[str]()

    def do(folders: Sequence[Folder]) -> list[Finding]:
        asked.extend(each.path for each in folders)
        return done(folders)

    told: list[Progress] = []
    folders = [Folder("a", 10, "1"), Folder("b", 20, "1"), Folder("c", 64 * MB, "1")]
    look = partial(scan, do=do, make=threads, tell=told.append, has_parts=True)
    index = Index(path, {"filter": "f"})
    assert look(folders, index) == done(folders)
    assert told[-1] == (3, 3, 64 * MB + 30, 64 * MB + 30)
    assert all(index.is_done(each) for each in folders)
    index.close()
    assert sorted(asked) == ["a", "b", "c"]
    # What has changed, and what is new; what is gone is forgotten.
    asked.clear()
    folders = [folders[0], folders[1]._replace(state="2"), Folder("d", 5, "1")]
    index = Index(path, {"filter": "f"})
    assert [index.is_done(each) for each in folders] == [True, False, False]
    assert look(folders, index) == done(folders)
    assert sorted(asked) == ["b", "d"]
    assert told[-1] == (2, 2, 25, 25)
    assert sorted(index.findings) == ["a", "b", "d"]
    index.close()
    found = read_index(path)
    assert found is not None
    assert found[0] == {"format": "tfdbg-scan", "version": 1, "filter": "f"}
    assert {name: each["state"] for name, each in found[1].items()} == {
        **{"a": "1", "b": "2", "c": "1", "d": "1"},
    }
    told.clear()
    index = Index(path, {"filter": "f"})
    assert look(folders, index) == done(folders)
    assert told == []
    index.close()


def test_pieces_of_a_large_dump(tmp_path: Path) -> None:
    large = Folder("large", 160 * MB, "1")
    asked: list[tuple[int, int]] = []

    def do(folders: Sequence[Folder]) -> list[Finding]:
        asked.extend(each.part for each in folders)
        return [
            finding(each, passed=1, first=[{"tensor": f"n{each.part[0]}", "op": ""}])
            for each in folders
        ]

    told: list[Progress] = []
    look = partial(scan, do=do, make=threads, tell=told.append, has_parts=True)
    index = Index(str(tmp_path / "index"), {"filter": "f"})
    (found,) = look([large], index)
    assert (found["passed"], found["bytes"]) == (2, 160 * MB)
    assert [each["tensor"] for each in found["first"]] == ["n0", "n1"]
    assert asked == [(0, 2), (1, 2)]
    assert told == [(0.5, 1, 80 * MB, 160 * MB), (1, 1, 160 * MB, 160 * MB)]
    index.close()
    # One of the parts is lost, and is all that is done again.
    lines = (tmp_path / "index").read_text().splitlines()
    kept = [line for line in lines if '"part": [0, 2]' not in line]
    (tmp_path / "index").write_text("\n".join(kept) + "\n")
    asked.clear()
    index = Index(str(tmp_path / "index"), {"filter": "f"})
    assert not index.is_done(large)
    assert look([large], index) == [found]
    assert asked == [(0, 2)]
    # Of another state none of them holds, and of other parts neither.
    for changed, wanted in (
        (large._replace(state="2"), [(0, 2), (1, 2)]),
        (Folder("large", 192 * MB, "3"), [(0, 3), (1, 3), (2, 3)]),
    ):
        asked.clear()
        look([changed], index)
        assert asked == wanted
    index.close()


class Dying(Executor):
    """Works in this thread; whoever gets a folder that kills is dead, and so are all that follow.

    Args:
        killers: paths of such folders.
        error: what they end with.
    """

    def __init__(self, killers: set[str], error: Exception) -> None:
        self._killers, self._error, self._is_dead = killers, error, False

    def submit(self, do: Callable[..., Any], /, *arguments: Any, **_: Any) -> Future[Any]:
        future: Future[Any] = Future()
        (folders,) = arguments
        if self._is_dead and isinstance(self._error, BrokenProcessPool):
            raise self._error
        if self._killers & {each.path for each in folders}:
            self._is_dead = True
            future.set_exception(self._error)
        else:
            future.set_result(do(folders))
        return future


@pytest.mark.parametrize("size", [1, 64 * MB])
def test_a_folder_that_kills_its_worker_is_found(tmp_path: Path, size: int) -> None:
    folders = [Folder(name, size, "1") for name in "abcdef"]
    killers = {"b", "e"}
    told: list[Progress] = []
    index = Index(str(tmp_path / "index"), {"filter": "f"})
    make = partial(Dying, killers, BrokenProcessPool("dead"))
    found = scan(folders, index, done, make, told.append, has_parts=True)
    assert found == [
        {"folder": each.path, "state": "", "bytes": size, "problems": ["its worker was killed"]}
        if each.path in killers
        else finding(each)
        for each in folders
    ]
    assert told[-1] == (6, 6, 6 * size, 6 * size)
    assert not index.is_done(folders[1])
    index.close()
    index = Index(str(tmp_path / "index"), {"filter": "f"})
    asked = list[str]()

    def mended(some: Sequence[Folder]) -> list[Finding]:
        asked.extend(each.path for each in some)
        return done(some)

    again = scan(folders, index, mended, threads, told.append, has_parts=True)
    assert again == done(folders)
    assert asked == ["b", "e"]
    index.close()


def test_a_part_that_kills_its_worker(tmp_path: Path) -> None:
    large = Folder("large", 128 * MB, "1")
    index = Index(str(tmp_path / "index"), {"filter": "f"})
    make = partial(Dying, {"large"}, BrokenProcessPool("dead"))
    (found,) = scan([large], index, done, make, lambda _: None, has_parts=True)
    assert found == {
        **{"folder": "large", "state": "", "bytes": 128 * MB, "passed": 0, "first": []},
        "problems": ["its worker was killed"],
    }
    index.close()


def test_what_a_cluster_says_is_of_all_folders_of_a_piece(tmp_path: Path) -> None:
    index = Index(str(tmp_path / "index"), {"filter": "f"})
    make = partial(Dying, {"a"}, RuntimeError("lost\nit"))
    # As long as nobody knows how long one takes, each is a piece of its own.
    first = [Folder(f"x{number}", 1, "1") for number in range(16)]
    folders = [Folder("a", 1, "1"), Folder("b", 2, "1")]
    found = scan([*first, *folders], index, done, make, lambda _: None, has_parts=True)
    assert found[: len(first)] == done(first)
    assert found[len(first) :] == [
        {
            "folder": each.path,
            "state": "",
            "bytes": each.size,
            "problems": ["RuntimeError: lost it"],
        }
        for each in folders
    ]
    index.close()


def test_a_mistake_of_the_person_ends_a_scan(tmp_path: Path) -> None:
    index = Index(str(tmp_path / "index"), {"filter": "f"})
    make = partial(Dying, {"a"}, UserError("there is no filter."))
    with pytest.raises(UserError, match="no filter"):
        scan([Folder("a", 1, "1")], index, done, make, lambda _: None, has_parts=True)
    index.close()


def test_an_interrupted_scan_waits_for_nobody(tmp_path: Path) -> None:
    is_over, begun = threading.Event(), list[str]()

    def do(folders: Sequence[Folder]) -> list[Finding]:
        begun.append(folders[0].path)
        if folders[0].path == "b":
            is_over.wait(60)
        return done(folders)

    def interrupt(_: Progress) -> None:
        raise KeyboardInterrupt

    index = Index(str(tmp_path / "index"), {"filter": "f"})
    pool = ThreadPoolExecutor(1)
    folders = [Folder(name, 64 * MB, "1") for name in "abc"]
    try:
        with pytest.raises(KeyboardInterrupt):
            scan(folders, index, do, lambda: pool, interrupt, has_parts=True)
        with pytest.raises(RuntimeError):
            pool.submit(print)
    finally:
        is_over.set()
        pool.shutdown()
    assert list(index.findings) == ["a"]
    assert "c" not in begun
    index.close()


def test_who_does_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "workers_of_ours.py").write_text(
        "from concurrent.futures import ThreadPoolExecutor\n"
        "def make():\n    return ThreadPoolExecutor(7)\n"
        "def fails():\n    raise OSError('no\\nway')\n"
        "def text():\n    return ''\n"
        "number = 3\n"
    )
    for name, kind in (("threads", ThreadPoolExecutor), ("processes", ProcessPoolExecutor)):
        for jobs in (3, None):
            executor = make_executor(name, jobs)
            assert isinstance(executor, kind)
            assert executor._max_workers == (jobs or os.cpu_count())
            give_up(executor, [])
    before = sys.path[:]
    made = make_executor("workers_of_ours:make", None)
    assert isinstance(made, ThreadPoolExecutor) and made._max_workers == 7
    for name, says in (
        ("nobody", 'there is no executor "nobody".'),
        ("workers_of_ours:fails", "the executor can't be made: OSError: no way"),
        ("workers_of_ours:text", "workers_of_ours:text gives a str, no"),
        ("workers_of_ours:number", 'module "workers_of_ours" has no "number" to call.'),
        ("workers_of_ours:none", 'module "workers_of_ours" has no "none" to call.'),
        ("nothing_like_it:make", '"nothing_like_it" can\'t be imported'),
    ):
        with pytest.raises(UserError) as raised:
            make_executor(name, 1)
        assert says in raised.value.message
    assert sys.path == before


def test_an_index_is_gone_on_with_or_put_aside(tmp_path: Path) -> None:
    path = tmp_path / "index"
    one, other = Folder("a", 1, "1"), Folder("b", 1, "1")
    for about, folder in (({"filter": "f"}, one), ({"filter": "f"}, other), ({"filter": "g"}, one)):
        index = Index(str(path), about)
        index.add([finding(folder)])
        index.close()
    assert [*json.loads(path.read_text().splitlines()[0]).items()][:3] == [
        *(("format", "tfdbg-scan"), ("version", 1), ("filter", "g")),
    ]
    found, before = read_index(str(path)), read_index(f"{path}.before")
    assert found is not None and list(found[1]) == ["a"]
    assert before is not None and list(before[1]) == ["a", "b"]
    # What was cut amid its first line is begun again.
    path.write_text('{"format": "tfdbg-sc')
    index = Index(str(path), {"filter": "f"})
    index.add([finding(one)])
    index.close()
    again = read_index(str(path))
    assert again is not None and list(again[1]) == ["a"]
    for text in ("{}\n", '{"format": "tfdbg-scan", "version": 2}\n'):
        path.write_text(text)
        assert read_index(str(path)) is None
    assert read_index(str(tmp_path / "none")) is None
    # The last line about a dump holds, and a later one without a state is to be done again.
    path.unlink()
    index = Index(str(path), {"filter": "f"})
    index.add([finding(one), finding(one, state="2", tensors=5)])
    assert index.findings["a"]["tensors"] == 5
    index.keep_only(["b"])
    assert index.findings == {}
    index.close()


def test_a_scan_of_a_tree_is_read_back(tmp_path: Path) -> None:
    write(tmp_path / "t/d", x=floats(np.inf))
    folders = [*find_folders(str(tmp_path / "t"))]
    index = Index(str(tmp_path / "t/tfdbg-scan.jsonl"), {"filter": "has_inf_or_nan"})
    do = partial(scan_folders, str(tmp_path / "t"), "has_inf_or_nan", [])
    found = scan(folders, index, do, threads, lambda _: None, has_parts=True)
    index.close()
    read = read_index(str(tmp_path / "t/tfdbg-scan.jsonl"))
    assert read is not None and [*read[1].values()] == found
    assert len(open_dump(tmp_path / "t/d").data()) == 1


def test_what_was_found_is_written_down_by_the_second(tmp_path: Path) -> None:
    path = str(tmp_path / "index")
    index = Index(path, {"filter": "f"})
    sizes: list[int] = []

    def slow(folders: Sequence[Folder]) -> list[Finding]:
        sizes.append(len(folders))
        time.sleep(0.3 * len(folders))
        return done(folders)

    folders = [Folder(f"f{number:02}", 1, "1") for number in range(24)]
    make = partial(ThreadPoolExecutor, 16)
    scan(folders, index, slow, make, lambda _: None, has_parts=False)
    index.close()
    assert max(sizes) * 0.3 <= 1.0
    assert sizes[:16] == [1] * 16
