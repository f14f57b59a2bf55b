"""Hashes and statistics in run folders, and runs that are compared by these alone."""

import json
import math
import os
import subprocess
import tracemalloc
import zlib
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from planted_kit import launched

from tfdbg_cli.common.commits import commit_at, is_dirty
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.run_folder.digests import digest_of
from tfdbg_cli.dumps.run_folder.dump import RunFolderDump, write_run_folder

_PROGRAM = """
import sys
import numpy as np
from tfdbg_cli.engines import numpy as tf

bad = int(sys.argv[1])
x = tf.placeholder(tf.float32, (64, 4), name="x")
scale = tf.placeholder(tf.float32, (), name="scale")
w = tf.Variable(np.random.RandomState(1).randn(4, 3).astype("float32"), name="w")
h = tf.nn.relu(tf.matmul(x, w, name="product"), name="h")
loss = tf.reduce_mean(tf.square(tf.multiply(h, scale, name="scaled")), name="loss")
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for number in range(2, 7):
        fed = np.random.RandomState(number).randn(64, 4).astype("float32")
        print(number, session.run(loss, {x: fed, scale: 1.01 if number == bad else 1.0}))
"""
VALUES = {
    "float32": np.float32([[1, -2], [np.nan, 4], [np.inf, -np.inf]]),
    "float64": np.random.default_rng(0).standard_normal((300, 301)) + 1e6,
    "bfloat16": np.float32([1, 2, 3]).astype(ml_dtypes.bfloat16),
    "int64": np.array([[-5, 7]]),
    "bool": np.array([True, False, False]),
    "complex64": np.complex64([1 + 2j, 3]),
    "string": np.array([b"a", b"bc"], object),
    "empty": np.zeros((0, 3), np.float32),
    "scalar": np.float16(2.5),
}


def folder_of(path, tensors, **options):
    dump = MemoryDump()
    for name, value in tensors.items():
        dump.add(name, 0, value)
    write_run_folder(dump, path, **options)
    return RunFolderDump(path)


@pytest.mark.parametrize("values", [True, False])
def test_each_tensor_has_its_digest(tmp_path, values):
    dump = folder_of(tmp_path / "run", VALUES, values=values)
    assert not dump.warnings
    for datum in dump.data():
        value = VALUES[datum.node_name]
        digest = dump.digest(datum)
        assert dump.is_kept(datum) == values
        assert (datum.dtype or "string", datum.shape) == (
            value.dtype.name.replace("object", "string"),
            value.shape,
        )
        if datum.node_name in ("string", "complex64", "empty"):
            assert math.isnan(digest.mean)
            continue
        finite = value.astype(np.float64)
        finite = finite[np.isfinite(finite)]
        wanted = finite.min(), finite.max(), finite.mean(), finite.std()
        assert digest[2:] == pytest.approx(wanted, rel=1e-12)
        assert sum(digest.bad) == value.size - finite.size
    assert len({dump.digest(datum).hash for datum in dump.data()}) == len(VALUES)
    assert any(Path(tmp_path, "run").glob("tensors*.safetensors")) == values


def test_standard_deviations_of_numbers_that_are_far_from_zero():
    value = np.random.default_rng(1).standard_normal(1 << 18) * 1e-3 + 1e5
    assert digest_of(value, b"").std == pytest.approx(value.std(), rel=1e-9)


@pytest.mark.parametrize("at", [0, 17, 100, -1])
def test_a_damaged_file_is_told_of_and_not_used(tmp_path, at):
    folder_of(tmp_path / "run", VALUES)
    path = tmp_path / "run" / "digests.bin"
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    dump = RunFolderDump(tmp_path / "run")
    assert [dump.digest(datum) for datum in dump.data()] == [None] * len(VALUES)
    assert any("digests.bin is damaged" in line for line in dump.warnings)


def test_folders_without_the_file_open_as_before(tmp_path):
    folder_of(tmp_path / "run", VALUES)
    (tmp_path / "run" / "digests.bin").unlink()
    run = tmp_path / "run" / "run.json"
    document = json.loads(run.read_text())
    del document["files"]["digests.bin"], document["checksums"]["digests.bin"], document["crc32"]
    run.write_text(json.dumps(document))
    dump = RunFolderDump(tmp_path / "run")
    assert not dump.warnings
    assert dump.digest(dump.data()[0]) is None


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """The folder of all runs of the program, by what is kept."""
    folder = tmp_path_factory.mktemp("kept")
    program = folder / "program.py"
    program.write_text(_PROGRAM)

    def keep(name, bad, *options):
        root = folder / name
        command = ("--batch", "--keep-dumps", *options, "--dump-root", root, "-c", "run -k")
        status, out, err = launched(*map(str, (*command, program, bad)))
        assert (status, out.count("\n")) == (0, 5), err
        assert f"the dumps of 6 run(s) are kept in {root}" in err
        return root

    found = {
        "program": program,
        "reference": keep("reference", 0, "--digest"),
        "good": keep("good", 0),
        "bad": keep("bad", 4),
    }
    assert sorted(path.name for path in found["good"].iterdir()) == [
        f"run_{number:06d}" for number in range(1, 7)
    ]
    return found


def compared(*arguments):
    status, out, err = launched("--batch", *map(str, arguments))
    return status, out + err


def test_a_reference_without_values_says_where_runs_part(kept):
    status, text = compared("--dump-dir", kept["reference"], "--against", kept["bad"])
    assert status == 1
    assert "The 3 run(s) before it are within the bar" in text
    assert "They part at scale:0" in text
    assert ">=0.01" in text


def test_equal_runs_are_not_read(kept, tmp_path):
    for name in ("one", "other"):
        subprocess.run(["cp", "-r", kept["good"], tmp_path / name], check=True)
        for path in (tmp_path / name).glob("*/tensors-*.safetensors"):
            size = path.stat().st_size
            path.write_bytes(b"")
            os.truncate(path, size)
    status, text = compared("--dump-dir", tmp_path / "one", "--against", tmp_path / "other")
    assert status == 0, text
    assert "None of 6 runs is beyond the bar" in text
    assert "All pairs are equal in every bit" in text


def test_a_living_program_stops_at_the_first_run_that_differs(kept):
    reference, program = kept["reference"], kept["program"]
    look = f"compare {reference} scaled"
    status, text = compared("-c", f"run -d {reference}", "-c", look, program, 4)
    assert status == 1
    assert "run-end: run #4" in text
    assert "They part at scale:0" in text
    assert "Only hashes and statistics of this run were kept" in text
    assert "max abs at least" in text
    status, text = compared("-c", f"run -d {reference}", program, 0)
    assert "run-end" not in text


def test_the_reference_is_small(kept):
    sizes = {
        name: sum(path.stat().st_size for path in kept[name].rglob("*") if path.is_file())
        for name in ("reference", "good")
    }
    assert not list(kept["reference"].rglob("tensors-*"))
    assert sizes["reference"] < sizes["good"]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--digest", "-c", "run"), "--digest is about the run folders of --keep-dumps"),
        (("-c", "run -k"), "-k is for programs started with --keep-dumps"),
        (("--keep-dumps", "-c", "run -k -n"), "-k keeps every run: leave -n, -f and -d out"),
    ],
)
def test_what_does_not_go_together(kept, tmp_path, monkeypatch, options, why):
    monkeypatch.chdir(tmp_path)
    status, text = compared(*options, kept["program"], 0)
    assert status != 0 and why in text


def test_keeping_up_to_a_run_stops_there(kept, tmp_path):
    command = ("--keep-dumps", "--dump-root", tmp_path / "some", "-c", "run -t 3 -k", "-c", "lt")
    _, text = compared(*command, kept["program"], 0)
    assert "run-end: run #3" in text
    assert len(list((tmp_path / "some").iterdir())) == 3


@pytest.fixture
def repository(tmp_path):
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(tmp_path)]
    try:
        subprocess.run([*git, "init", "-q", "-b", "main"], check=True)
    except FileNotFoundError:
        pytest.skip("git is not installed")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "train.py").write_text("pass\n")
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "one"], check=True)
    return git


def test_the_commit_of_a_program(repository, tmp_path):
    done = subprocess.run(
        [*repository, "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    )
    commit = done.stdout.strip()
    assert commit_at(tmp_path / "a" / "train.py") == commit
    subprocess.run([*repository, "worktree", "add", "-q", tmp_path / "wt"], check=True)
    assert commit_at(tmp_path / "wt" / "a" / "train.py") == commit
    subprocess.run([*repository, "pack-refs", "--all"], check=True)
    assert commit_at(tmp_path / "a" / "train.py") == commit
    subprocess.run([*repository, "checkout", "-q", "--detach"], check=True)
    assert commit_at(tmp_path / "a" / "train.py") == commit
    (tmp_path / ".git" / "HEAD").write_bytes(b"\xff\xfe")
    assert commit_at(tmp_path / "a" / "train.py") == ""
    assert commit_at(Path("/train.py")) == ""


def test_a_commit_that_would_fill_the_memory(repository, tmp_path):
    commit = commit_at(tmp_path / "a" / "train.py")
    path = tmp_path / ".git" / "objects" / commit[:2] / commit[2:]
    whole = zlib.decompress(path.read_bytes())
    path.chmod(0o644)
    path.write_bytes(zlib.compress(whole + bytes(64 << 20)))
    tracemalloc.start()
    try:
        assert is_dirty(tmp_path / "a" / "train.py") is False
        assert tracemalloc.get_traced_memory()[1] < 2 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("version", ["2", "3", "4"])
@pytest.mark.parametrize("hashes", ["sha1", "sha256"])
def test_whether_there_is_more_than_the_commit(repository, tmp_path, version, hashes):
    top = tmp_path / "top"
    made = [*repository[:-1], str(top)]
    made_so = subprocess.run(
        [*repository[:-2], "init", "-q", f"--object-format={hashes}", str(top)], check=False
    )
    if made_so.returncode:
        pytest.skip("this git has no such hashes")
    script = top / "code" / "train.py"
    script.parent.mkdir()
    script.write_text("pass\n")
    (top / "code" / "train_more.py").write_text("pass\n")
    (top / "link").symlink_to("code")

    def git(*words):
        subprocess.run([*made, *words], check=True, capture_output=True)

    def clean(is_clean):
        done = subprocess.run(
            [*made, "describe", "--always", "--dirty"], check=True, capture_output=True, text=True
        )
        assert ("-dirty" not in done.stdout) is is_clean
        assert is_dirty(script) is (not is_clean)

    git("add", ".")
    git("update-index", "--index-version", version)
    git("commit", "-q", "-m", "one")
    if version == "3":
        git("update-index", "--skip-worktree", "code/train_more.py")
        (top / "code" / "train_more.py").write_text("print()\n")
    clean(True)
    (top / "unknown.py").write_text("pass\n")
    os.utime(script, (1, 1))
    clean(True)
    script.write_text("quit\n")
    clean(False)
    git("add", "code/train.py")
    clean(False)
    (top / "code.py").write_text("pass\n")
    (top / "code" / "a" / "b").mkdir(parents=True)
    (top / "code" / "a" / "b" / "ü").write_text("")
    git("add", ".")
    git("commit", "-q", "-m", "two")
    clean(True)
    script.chmod(0o755)
    clean(False)
    script.chmod(0o644)
    (top / "link").unlink()
    clean(False)
    (top / "link").symlink_to("code")
    git("gc", "-q")
    git("repack", "-adq")
    clean(True)
    (top / ".git" / "index").write_bytes(b"DIRC\0\0\0\x02\0\0\0\x09")
    assert is_dirty(script) is None
    assert is_dirty(Path("/train.py")) is None
