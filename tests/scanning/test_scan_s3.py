"""Trees of dumps in an object store: an S3 server on loopback, and who asks it for what."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from samples import night

from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.run_folder.writer import write_run_folder

pytest.importorskip("moto")
pytest.importorskip("flask_cors")
pytest.importorskip("s3fs")

ROOT = Path(__file__).parents[2]
SERVER = """
import sys
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

app = DomainDispatcherApplication(create_backend_app)
log = open("asked", "a", buffering=1)

def told(environ, start):
    asked = environ["REQUEST_METHOD"], environ["PATH_INFO"], environ.get("HTTP_RANGE", "")
    print(*asked, file=log)
    return app(environ, start)

server = make_server("127.0.0.1", 0, told, threaded=True)
print(server.port, flush=True)
server.serve_forever()
"""
#: Bytes of each tensor's elements.
SIZE = 4096


class Asked(NamedTuple):
    """What the server was asked for."""

    method: str
    path: str
    range: str


class Store:
    """The server, and programs that know of it."""

    def __init__(self, folder: Path, port: str) -> None:
        self.folder = folder
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    def tfdbg(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return self._run("-m", "tfdbg_cli", *arguments)

    def fs(self, code: str) -> None:
        """Do something with a file system of s3fs."""
        done = self._run("-c", f"import s3fs\nfs = s3fs.S3FileSystem()\n{code}")
        assert done.returncode == 0, done.stderr

    def bodies(self) -> list[Asked]:
        """Of that, the values of tensors."""
        return [each for each in self.asked() if "/tensors-" in each.path]

    def asked(self) -> list[Asked]:
        """What it was asked for since somebody has looked."""
        log = self.folder / "asked"
        lines = log.read_text().splitlines()
        log.write_text("")
        return [Asked(*line.split(" ", 2)) for line in lines]

    def _run(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments],
            capture_output=True,
            text=True,
            check=False,
            cwd=self.folder,
            env=self.environment,
        )


def write(path: Path, *, is_bad: bool) -> None:
    dump = MemoryDump()
    for name in ("x", "y", "z"):
        value = np.ones(SIZE // 4, np.float32)
        if is_bad and name == "y":
            value[3] = np.inf
        dump.add(name, 0, value)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_run_folder(dump, path)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    server = tmp_path / "server.py"
    server.write_text(SERVER)
    running = subprocess.Popen(
        [sys.executable, server],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=tmp_path,
    )
    assert running.stdout is not None
    found = Store(tmp_path, running.stdout.readline().strip())
    for rank in range(2):
        for step in range(1, 4):
            write(tmp_path / "tree" / f"rank_{rank}" / f"step{step}", is_bad=step == 2 + rank)
    found.fs("fs.mkdir('job')\nfs.put('tree', 'job/tree', recursive=True)")
    found.asked()
    yield found
    running.terminate()
    running.wait()
    running.stdout.close()


def test_a_tree_in_an_object_store_is_scanned_by_its_indexes(store: Store) -> None:
    done = store.tfdbg("scan", "s3://job/tree", "--executor", "threads")
    assert done.returncode == 3, done.stderr
    assert re.findall(r"^(\S+) +1 of 3  first y:0$", done.stdout, re.MULTILINE) == [
        *("rank_0/step2", "rank_1/step3"),
    ]
    asked = store.asked()
    # Of all values the two of which the indexes say that something is bad in them.
    bodies = [each for each in asked if "/tensors-" in each.path]
    assert sorted(each.path.split("/")[4] for each in bodies) == ["step2", "step3"]
    assert [each.path for each in asked if each.method == "PUT"] == ["/job/tree/tfdbg-scan.jsonl"]
    # The index knows it all.
    again = store.tfdbg("scan", "s3://job/tree/")
    assert again.stdout == done.stdout
    assert {each.path for each in store.asked() if each.method == "GET"} <= {
        *("/job", "/job/", "/job/tree/tfdbg-scan.jsonl"),
    }
    # One dump is written anew.
    write(store.folder / "new", is_bad=True)
    place = "job/tree/rank_0/step1"
    store.fs(f"fs.rm('{place}', recursive=True)\nfs.put('new', '{place}', recursive=True)")
    store.asked()
    done = store.tfdbg("scan", "s3://job/tree", "--json")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert {row["folder"] for row in rows if row["passed"]} == {
        *("rank_0/step1", "rank_0/step2", "rank_1/step3"),
    }
    opened = {each.path.split("/")[3:5][-1] for each in store.asked() if "/rank_" in each.path}
    assert opened == {"step1"}


@night
def test_the_prompt_answers_from_the_index_in_the_store(store: Store) -> None:
    asked = ("-c", "runs -f origin_of_nonfinite", "-c", "use -f origin_of_nonfinite")
    look = ("--batch", "--dump-dir", "s3://job/tree/rank_0", *asked)
    done = store.tfdbg(*look)
    assert "1 of 3 run(s)" in done.stdout, done.stderr
    assert "1 +inf   y:0" in done.stdout
    store.tfdbg("scan", "s3://job/tree", "-f", "origin_of_nonfinite", "--executor", "threads")
    store.asked()
    again = store.tfdbg(*look)
    assert again.stdout == done.stdout
    assert "s3://job/tree/rank_0/step2 - " in done.stdout
    assert not store.bodies()
    # What was written since is looked at.
    write(store.folder / "new", is_bad=False)
    place = "job/tree/rank_0/step2"
    store.fs(f"fs.rm('{place}', recursive=True)\nfs.put('new', '{place}', recursive=True)")
    assert "0 of 3 run(s)" in store.tfdbg(*look[:5]).stdout


def test_a_filter_reads_the_values_by_range(store: Store) -> None:
    own = store.folder / "own.py"
    own.write_text(
        "def is_second(datum, tensor):\n"
        "    return datum.node_name == 'y' and tensor.shape == (1024,) and tensor[0] == 1\n"
    )
    index = store.folder / "index.jsonl"
    done = store.tfdbg(
        *("scan", "s3://job/tree", "--filters", own, "-f", "is_second", "--index", index),
    )
    assert "6 of 6 dumps have tensors that pass is_second." in done.stdout, done.stderr
    ranges = [each.range for each in store.bodies()]
    assert len(ranges) == 18
    for each in ranges:
        start, end = map(int, each.removeprefix("bytes=").split("-"))
        assert end + 1 - start == SIZE
    assert index.exists()
    assert not list(store.folder.glob("tree/*.jsonl"))


@night
@pytest.mark.parametrize("trees", [("tree", "s3://job/tree"), ("s3://job/tree", "tree")])
def test_a_tree_is_compared_with_one_in_an_object_store(
    store: Store, trees: tuple[str, str]
) -> None:
    place = store.folder / "tree" / "rank_1" / "step1"
    shutil.rmtree(place)
    write(place, is_bad=True)
    done = store.tfdbg("compare", *trees, "--executor", "threads")
    assert done.returncode == 1
    found = r"rank_1/step1  given          y:0  (1 \| ok|ok \| 1) bad\n"
    assert re.search(found, done.stdout)
    pair = [f"{tree}/rank_1/step1" for tree in trees]
    shown = store.tfdbg("--batch", "--dump-dir", pair[0], "--against", pair[1])
    assert f"B is {pair[1]}: 3 pair(s)" in shown.stdout, shown.stderr
    assert f"1 of 6 dumps part from those in {trees[1]}.\n" in done.stdout
    assert not done.stderr


@night
def test_a_dump_in_an_object_store_is_opened_without_its_values(store: Store) -> None:
    def shown(*commands: str) -> str:
        words = [word for command in commands for word in ("-c", command)]
        address = "s3://job/tree/rank_0/step2"
        done = store.tfdbg("--batch", *words, "--dump-dir", address)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "1 +inf   y:0" in shown("lt")
    assert not store.bodies()
    assert "inf" in shown("pt y -s", "pt y[:5]", "pt y[3]")
    assert len(store.bodies()) == 1  # it is kept here
    done = store.tfdbg("--batch", "-c", "lt", "--dump-dir", "s3://job/nothing")
    assert done.returncode == 2
    assert "There is no dump at s3://job/nothing" in done.stderr


@night
@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("fs.rm('job/tree', recursive=True)", "there is no dump in s3://job/tree"),
        ("fs.rm('job', recursive=True)", "s3://job/tree"),
        ("fs.pipe('job/tree/tfdbg-scan.jsonl', b'text')", "is not an index of a scan"),
    ],
)
def test_what_is_wrong_with_an_address_is_one_line(store: Store, code: str, says: str) -> None:
    store.fs(code)
    done = store.tfdbg("scan", "s3://job/tree")
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
