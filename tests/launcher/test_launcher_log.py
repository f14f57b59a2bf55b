"""``--log FILE``: a line of JSON for each stop that something has led to."""

import json
import os

import pytest

PROGRAM = """
import numpy as np
from tfdbg_cli.engines import numpy as tf

x = tf.placeholder(tf.float32, name="x")
y = tf.log(x, name="y")
z = tf.matmul(x, x, name="z")
with tf.Session() as session:
    for step in range(6):
        session.run(y, {x: np.float32([1.0, 0.0 if step >= 4 else 2.0])})
    try:
        session.run(z, {x: np.ones((2, 3), np.float32)})
    except Exception as error:
        print(type(error).__name__)
"""
PICKY = """
def picky(datum, value):
    if datum.node_name == "x":
        raise LookupError("there is no x")
    return bool((value == -float("inf")).any())
"""
WAITING = ("--batch", "-c", "run -f has_inf_or_nan", "-c", "run", "-c", "run -f has_inf_or_nan")


@pytest.fixture
def program(runner):
    return runner.write("train.py", PROGRAM)


def test_stops_are_told(runner, program, tmp_path):
    log = tmp_path / "stops.jsonl"
    log.write_text('{"of": "another program"}\n')
    done = runner.tfdbg("--log", log, "--keep-dumps", *WAITING, program)
    assert done.status == 0, done.stderr
    other, found, failed = map(json.loads, log.read_text().splitlines())
    assert other == {"of": "another program"}
    assert (found["version"], found["stop"]) == (1, "filter")
    assert (found["filter"], found["tensor"]["name"]) == ("has_inf_or_nan", "y:0")
    assert found["reason"]["text"].startswith("the logarithm of 0")
    assert found["line"]["file"] == os.path.realpath(program)
    number = PROGRAM.splitlines().index('y = tf.log(x, name="y")') + 1
    assert found["line"]["line"] == number
    (given,) = found["inputs"]
    assert given == {
        **{"name": "x:0", "op": "Placeholder", "dtype": "float32", "shape": [2], "size": 2},
        **dict.fromkeys(("nan", "neg_inf", "pos_inf"), 0),
    }
    assert os.path.isdir(found["dump"])
    assert (failed["stop"], failed["error"]["op"]) == ("error", "z")
    assert failed["error"]["type"] == done.stdout.splitlines()[-1]
    assert found["time"] <= failed["time"]


def test_a_full_disk_is_told_once_and_harms_nobody(runner, program):
    done = runner.tfdbg("--log", "/dev/full", *WAITING, program)
    assert done.status == 0
    assert [note for note in done.notes if "--log" in note] == [
        "tfdbg: --log /dev/full: OSError: [Errno 28] No space left on device"
    ]
    assert done.stdout.splitlines()[-1] == runner.python(program).stdout.strip()


def test_a_line_that_a_full_disk_has_cut_ends_before_the_next(runner, tmp_path):
    limit = "        setrlimit(RLIMIT_FSIZE, (100 if step == 4 else -1, -1))\n"
    text = PROGRAM.replace("        session.run(y,", f"{limit}        session.run(y,")
    script = runner.write("full.py", f"from resource import RLIMIT_FSIZE, setrlimit\n{text}")
    log = tmp_path / "stops.jsonl"
    done = runner.tfdbg("--log", log, *WAITING, script)
    assert done.status == 0
    assert [note for note in done.notes if "--log" in note] == [
        f"tfdbg: --log {log}: OSError: [Errno 27] File too large"
    ]
    cut, *whole = log.read_text().splitlines()
    assert len(cut) == 100
    assert [json.loads(line)["stop"] for line in whole] == ["error"]


def test_a_file_that_cannot_be_written(runner, program, tmp_path):
    done = runner.tfdbg("--log", tmp_path / "no" / "such.jsonl", "--batch", program)
    assert (done.status, done.stdout) == (2, "")
    assert "No such file or directory" in done.stderr


def test_a_filter_that_fails_is_in_the_line_of_the_stop(runner, program, tmp_path):
    log = tmp_path / "stops.jsonl"
    filters = runner.write("filters.py", PICKY)
    commands = ("-c", "run -f picky", "-c", "errors")
    done = runner.tfdbg("--log", log, "--filters", filters, "--batch", *commands, program)
    assert done.status == 0, done.stderr
    assert "LookupError: there is no x" in done.stdout
    stop = json.loads(log.read_text().splitlines()[0])
    (found,) = [each for each in stop["caught"] if each["error"] == "LookupError: there is no x"]
    assert found["raised_at"].endswith("filters.py:4 in picky")
