"""`tfdbg scan`: which of many dumps have tensors that pass a filter, by many workers."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from samples import night

from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.run_folder.writer import write_run_folder
from tfdbg_cli.dumps.run_info import RunInfo

ROOT = Path(__file__).parents[2]
RANKS, STEPS = 3, 12
#: rank and step of the dumps with something bad in them.
BAD = [(0, 9), (0, 10), (2, 2)]

Scan = Callable[..., "subprocess.CompletedProcess[str]"]


def write(path: Path, *, is_bad: bool) -> None:
    dump = MemoryDump()
    dump.add("x", 0, np.ones(5, np.float32))
    dump.add("y", 0, np.float32([1, np.nan if is_bad else 2]))
    write_run_folder(dump, path)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for rank in range(RANKS):
        for step in range(1, STEPS + 1):
            path = tmp_path / "tree" / f"rank_{rank}" / f"step{step}"
            path.parent.mkdir(parents=True, exist_ok=True)
            write(path, is_bad=(rank, step) in BAD)
    return tmp_path / "tree"


@pytest.fixture
def scan(tree: Path, tmp_path: Path) -> Scan:
    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "tfdbg_cli", "scan", tree, *arguments],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"},
        )

    return run


def findings(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def counted(tree: Path) -> dict[str, int]:
    """How often the index has each dump."""
    counts: dict[str, int] = {}
    for line in (tree / "tfdbg-scan.jsonl").read_text().split("\n")[1:]:
        if line:
            folder = json.loads(line)["folder"]
            counts[folder] = counts.get(folder, 0) + 1
    return counts


@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_the_dumps_with_something_bad_are_found(scan: Scan, tree: Path, executor: str) -> None:
    done = scan("--executor", executor)
    assert done.returncode == 3, done.stderr
    assert re.findall(r"^(\S+) +1 of 2  first y:0$", done.stdout, re.MULTILINE) == [
        f"rank_{rank}/step{step}" for rank, step in BAD
    ]
    assert "3 of 36 dumps have tensors that pass has_inf_or_nan." in done.stdout
    assert not done.stderr
    assert counted(tree) == {f"rank_{r}/step{s + 1}": 1 for r in range(RANKS) for s in range(STEPS)}


def test_what_is_in_the_index_is_not_done_again(scan: Scan, tree: Path) -> None:
    before = scan("--json").stdout
    first = counted(tree)
    assert scan("--json").stdout == before
    assert counted(tree) == first
    changed = tree / "rank_1" / "step3"
    for path in changed.iterdir():
        path.unlink()
    write(changed, is_bad=True)
    gone = tree / "rank_0" / "step9"
    gone.rename(tree / "rank_0" / "step99")
    found = {each["folder"]: each["passed"] for each in findings(scan("--json").stdout)}
    assert {name for name, passed in found.items() if passed} == {
        *("rank_0/step10", "rank_0/step99", "rank_1/step3", "rank_2/step2"),
    }
    assert counted(tree) == first | {"rank_1/step3": 2, "rank_0/step99": 1}


def test_a_dump_may_be_the_tree(scan: Scan, tree: Path) -> None:
    dump = tree.rename(tree.parent / "all") / "rank_2" / "step2"
    dump.rename(tree)
    for _ in range(3):
        assert "1 of 1 dumps" in scan().stdout
    assert counted(tree) == {".": 1}


def test_a_scan_that_was_cut_off_is_gone_on_with(scan: Scan, tree: Path) -> None:
    scan()
    index = tree / "tfdbg-scan.jsonl"
    lines = index.read_text().splitlines(keepends=True)
    index.write_text("".join(lines[:8]) + lines[8][:20])  # killed amid a line
    done = scan()
    assert done.returncode == 3
    assert "3 of 36 dumps" in done.stdout
    names = [json.loads(line)["folder"] for line in lines[1:]]
    text = index.read_text()
    assert all(text.count(f'"{name}", "state"') == 1 for name in names[7:])
    assert text.startswith("".join(lines[:8]))


def test_the_index_of_another_filter_is_put_aside(scan: Scan, tree: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    own.write_text("def has_five(datum, tensor):\n    return tensor.size == 5\n")
    scan()
    done = scan("--filters", own, "-f", "has_five")
    assert "36 of 36 dumps have tensors that pass has_five." in done.stdout
    assert "has_inf_or_nan" in (tree / "tfdbg-scan.jsonl.before").read_text()
    own.write_text("def has_five(datum, tensor):\n    return tensor.size == 2\n")
    done = scan("--filters", own, "-f", "has_five", "--json")  # it was changed
    assert {each["first"][0]["tensor"] for each in findings(done.stdout)} == {"y:0"}


@night
def test_a_dump_that_kills_its_worker_is_named(scan: Scan, tree: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    own.write_text(
        "import os, signal\n"
        "def kills(datum, tensor):\n"
        "    kills_now = not os.path.exists('mended')\n"
        "    if kills_now and tensor.size == 2 and tensor[1] != tensor[1]:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return tensor.size == 5\n"
    )
    done = scan("--filters", own, "-f", "kills", "--jobs", "2")
    assert "33 of 36 dumps" in done.stdout
    assert re.findall(r"^tfdbg: (\S+): its worker was killed$", done.stderr, re.MULTILINE) == [
        f"rank_{rank}/step{step}" for rank, step in BAD
    ]
    assert set(counted(tree).values()) == {1}
    (tmp_path / "mended").touch()
    done = scan("--filters", own, "-f", "kills")  # those alone are tried again
    assert "36 of 36 dumps" in done.stdout
    assert sum(counted(tree).values()) == 39


def test_damaged_dumps_are_rows_that_say_so(scan: Scan, tree: Path) -> None:
    for rank, step in BAD:
        for path in (tree / f"rank_{rank}" / f"step{step}").glob("*.safetensors"):
            path.write_bytes(path.read_bytes()[:60])
    done = scan()
    assert done.returncode == 1, done.stdout
    assert "0 of 36 dumps" in done.stdout
    assert done.stderr.count("tfdbg: rank_") == 3


@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_several_workers_do_the_parts_of_a_large_dump(
    scan: Scan, tree: Path, tmp_path: Path, executor: str
) -> None:
    dump = MemoryDump()
    for number in range(40):
        value = np.full(1 << 20, number, np.float32)
        value[number] = np.nan if number % 5 == 3 else number
        dump.add(f"n{number}", 0, value)
    write_run_folder(dump, tree / "rank_0" / "large")  # 160 MB: two parts
    own = tmp_path / "own.py"
    own.write_text(
        "import os, threading\n"
        "def is_bad(datum, tensor):\n"
        "    who = f'{os.getpid()} {threading.get_ident()}'\n"
        "    with open('seen', 'a') as file:\n"
        "        file.write(f'{datum.node_name} {who}\\n')\n"
        "    return bool((tensor != tensor).any())\n"
    )
    done = scan("--filters", own, "-f", "is_bad", "--executor", executor, "--json")
    (large,) = [each for each in findings(done.stdout) if each["folder"] == "rank_0/large"]
    assert (large["tensors"], large["passed"]) == (40, 8)
    assert [each["tensor"] for each in large["first"]] == [f"n{n}:0" for n in range(3, 40, 5)]
    seen = [line.split(" ", 1) for line in (tmp_path / "seen").read_text().splitlines()]
    who = {name: who for name, who in seen if name.startswith("n")}
    assert sorted(who) == sorted(f"n{number}" for number in range(40))
    assert len([name for name, _ in seen if name in who]) == 40  # nothing twice
    assert counted(tree)["rank_0/large"] == 2
    # What one part has lost is all that is done again.
    index = tree / "tfdbg-scan.jsonl"
    lines = [line for line in index.read_text().splitlines() if '"part": [1, 2]' not in line]
    index.write_text("\n".join(lines) + "\n")
    (tmp_path / "seen").unlink()
    again = scan("--filters", own, "-f", "is_bad", "--executor", executor, "--json")
    assert again.stdout == done.stdout
    seen_again = (tmp_path / "seen").read_text().splitlines()
    assert [line.split()[0] for line in seen_again] == [f"n{n}" for n in range(20, 40)]


def test_the_prompt_answers_from_the_index(scan: Scan, tree: Path, tmp_path: Path) -> None:
    def shown(*commands: str) -> str:
        words = [word for command in commands for word in ("-c", command)]
        return subprocess.run(
            [
                *(sys.executable, "-m", "tfdbg_cli", "--batch", *words),
                *("--dump-dir", tree / "rank_0"),
            ],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        ).stdout

    asked = ("runs -f origin_of_nonfinite", "use -f origin_of_nonfinite")
    before = shown(*asked)
    assert "2 of 12 run(s)" in before
    assert "1 nan    y:0" in before
    scan("-f", "origin_of_nonfinite")
    # Nobody reads what isn't readable any more.
    for path in tree.glob("rank_0/*/tensors-*.safetensors"):
        times = path.stat()
        path.write_bytes(bytes(times.st_size))
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert shown(*asked) == before
    assert shown("runs -f origin_of_nonfinite -fenn x") != before
    for path in tree.glob("rank_0/*/tensors-*.safetensors"):
        os.utime(path)
    assert "couldn't be searched in full" in shown(*asked)


@pytest.fixture
def compare(tree: Path, tmp_path: Path) -> Scan:
    """Compares the tree with a copy of it."""
    shutil.copytree(tree, tmp_path / "other")

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "tfdbg_cli", "compare", tree, "other", *arguments],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )

    return run


def test_trees_that_are_equal(compare: Scan, tree: Path) -> None:
    for _ in range(2):
        done = compare()
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == "0 of 36 dumps part from those in other.\n"
    assert len((tree / "tfdbg-compare.jsonl").read_text().split()) > 36
    assert compare("--executor", "threads", "--bar", "cosine").returncode == 0
    assert "cosine=0.999" in (tree / "tfdbg-compare.jsonl").read_text()


def test_where_the_dumps_of_two_trees_part(compare: Scan, tree: Path, tmp_path: Path) -> None:
    compare()
    other = tmp_path / "other"
    changed = other / "rank_1" / "step3"
    shutil.rmtree(changed)
    write(changed, is_bad=True)
    shutil.rmtree(other / "rank_0" / "step2")
    write(other / "rank_7" / "step1", is_bad=False)
    done = compare()
    assert done.returncode == 1
    assert re.fullmatch(
        r"rank_1/step3  given          y:0  ok \| 1 bad\n"
        r"1 of 36 dumps part from those in other\.\n"
        r"tfdbg --dump-dir A --against B, with two dumps, shows where\.\n",
        done.stdout,
    )
    assert re.fullmatch(
        r"tfdbg: rank_0/step2: There is no dump at \S+: the folder doesn't exist\.\n"
        r"tfdbg: 1 dump\(s\) are only in other: rank_7/step1\n",
        done.stderr,
    )
    lines = (tree / "tfdbg-compare.jsonl").read_text().split("\n")
    assert sum('"folder"' in line for line in lines) == 38  # only what has changed was done again
    (row,) = [each for each in findings(compare("--json").stdout) if each.get("passed")]
    assert (row["folder"], row["said"], row["first"][0]["tensor"]) == (
        *("rank_1/step3", "given", "y:0"),
    )


def test_a_bar_for_all_dumps_of_two_trees(compare: Scan, tree: Path, tmp_path: Path) -> None:
    place = tmp_path / "other" / "rank_2" / "step1"
    shutil.rmtree(place)
    dump = MemoryDump()
    dump.add("x", 0, np.full(5, 1.01, np.float32))
    dump.add("y", 0, np.float32([1, 2]))
    write_run_folder(dump, place)
    done = compare()
    assert done.returncode == 1
    assert "rank_2/step1  given          x:0  max abs 0.01\n" in done.stdout
    assert compare("--rtol", "0.02").returncode == 0
    assert compare("--bar", "sine").returncode == 2


def test_names_that_differ_in_two_trees(compare: Scan, tmp_path: Path) -> None:
    place = tmp_path / "other" / "rank_2" / "step1"
    shutil.rmtree(place)
    dump = MemoryDump()
    dump.add("z", 0, np.float32([1, 2]))
    dump.add("new/x", 0, np.full(5, 2, np.float32))
    write_run_folder(dump, place)
    names = tmp_path / "names"
    names.write_text("y -> z\nx -> new/x\n")
    done = compare("--map", names)
    assert "rank_2/step1  given          x:0  max abs 1\n" in done.stdout
    index = tmp_path / "tree" / "tfdbg-compare.jsonl"
    assert "new/x" in index.read_text().splitlines()[0]  # of another map is another index


def test_the_ranks_of_one_tree_are_joined_beside_one_process(tmp_path: Path) -> None:
    value = np.arange(12, dtype=np.float32).reshape(4, 3)

    def keep(place: str, weight: np.ndarray[Any, Any]) -> None:
        dump = MemoryDump(Graph([Node("w", "Parameter", [])]))
        dump.add("w", 0, weight)
        dump.set_run_info(RunInfo(engine="torch"))
        path = tmp_path / place
        path.parent.mkdir(parents=True, exist_ok=True)
        write_run_folder(dump, path)

    for step in ("step1", "step2", "step3"):
        keep(f"alone/{step}", value)
        for rank, rows in enumerate((value[:2], value[2:])):
            keep(f"ranks/rank_{rank}/{step}", rows + (step == "step2" and rank == 1))
    (tmp_path / "alone" / "step3").rename(tmp_path / "alone" / "step4")

    def compared(*trees: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "tfdbg_cli", "compare", *trees, "--executor", "threads"],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )

    done = compared("ranks", "alone")
    assert done.returncode == 1
    row = "step2  at the start   w:0 (Parameter)  max abs 1  (2 ranks joined)\n"
    assert done.stdout.startswith(f"{row}1 of 4 dumps part")
    assert "rank_0/step3: There is no dump at " in done.stderr
    assert "1 dump(s) are only in alone: step4" in done.stderr
    done = compared("alone", "ranks")
    assert done.stdout.startswith(f"{row}1 of 3 dumps part")
    assert "2 dump(s) are only in ranks: rank_0/step3, rank_1/step3" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["-f", "has_inf"], "Did you mean has_inf_or_nan?"),
        (["--executor", "thread"], 'no executor "thread"'),
        (["--executor", "nowhere:make"], '"nowhere" can\'t be imported'),
        (["--executor", "os:getcwd"], "gives a str"),
        (["--executor", "os:nothing"], 'no "nothing" to call'),
        (["--jobs", "0"], "--jobs takes a number from 1 on"),
        (["--index", "own.py"], "own.py is not an index of a scan"),
        (["--index", "no/where"], "no/where"),
        (["--unknown"], "tfdbg scan"),
    ],
)
def test_mistakes_are_one_line(scan: Scan, tmp_path: Path, arguments: list[str], says: str) -> None:
    (tmp_path / "own.py").write_text("a = 1\n")
    done = scan(*arguments)
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert (tmp_path / "own.py").read_text() == "a = 1\n"


def gone() -> int:
    """A pipe that nobody reads, as that to a `head` that has seen enough."""
    reader, writer = os.pipe()
    os.close(reader)
    return writer


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize(
    ("where", "says"),
    [
        (gone, ""),
        (
            lambda: os.open("/dev/full", os.O_WRONLY),
            "tfdbg: stdout can't be written: No space left on device.\n",
        ),
    ],
)
def test_nobody_takes_what_is_printed(tree: Path, where: Callable[[], int], says: str) -> None:
    stdout = where()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "tfdbg_cli", "scan", tree, "--executor", "threads"],
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
    finally:
        os.close(stdout)
    assert (done.stderr, done.returncode) == (says, 1)


@pytest.mark.parametrize("tree_name", ["none", "empty", "nosuch://bucket/runs"])
def test_there_is_nothing_to_scan(tmp_path: Path, tree_name: str) -> None:
    (tmp_path / "empty").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "tfdbg_cli", "scan", tree_name],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


CLUSTER = """
import sys
from distributed import LocalCluster

if __name__ == "__main__":
    with LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address=None) as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """The address of a Dask scheduler with three worker processes."""
    pytest.importorskip("distributed")
    script = tmp_path / "cluster.py"
    script.write_text(CLUSTER)
    running = subprocess.Popen(
        [sys.executable, script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert running.stdin is not None
    assert running.stdout is not None
    address = running.stdout.readline().strip()
    yield address.replace("tcp://", "dask://")
    running.stdin.close()
    running.wait()
    running.stdout.close()


@night
def test_a_dask_worker_that_dies_takes_nothing_along(
    scan: Scan, tree: Path, tmp_path: Path, cluster: str
) -> None:
    once = tmp_path / "died"
    own = tmp_path / "own.py"
    own.write_text(
        "import os, signal\n"
        "def bad_once(datum, tensor):\n"
        "    if tensor.size == 2 and tensor[1] != tensor[1]:\n"
        f"        if not os.path.exists({str(once)!r}):\n"
        f"            open({str(once)!r}, 'x').close()\n"
        "            os.kill(os.getpid(), signal.SIGKILL)\n"
        "        return True\n"
        "    return False\n"
    )
    done = scan("--executor", cluster, "--filters", own, "-f", "bad_once")
    assert once.exists()
    assert "3 of 36 dumps have tensors that pass bad_once." in done.stdout, done.stderr
    assert set(counted(tree).values()) == {1}
    assert len(counted(tree)) == 36
