"""What is followed over the runs of sessions, while they are debugged and while they aren't."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from program_server import shared

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import numpy as np
from tfdbg_cli.engines import numpy as tf

x = tf.placeholder(tf.float32, [None, 3], name="x")
w = tf.Variable(np.ones((3, 1), np.float32), name="w")
y = tf.matmul(x, w, name="y")
LOSS
with tf.control_dependencies([loss]):
    train = tf.assign(w, w * 0.9, name="train").op
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for step in range(20):
        fed = np.full((4, 3), np.nan if step == 15 else step, np.float32)
        out = session.run(FETCHES, {x: fed})
print("program:", out[0])
"""
TF1 = PROGRAM.replace(
    "from tfdbg_cli.engines import numpy as tf",
    "import tensorflow.compat.v1 as tf; tf.disable_v2_behavior()",
)
NAMED = 'loss = tf.reduce_mean(tf.square(y), name="loss")'
OTHER = 'loss = tf.reduce_mean(tf.square(y), name="size")'


@pytest.fixture(params=["numpy", pytest.param("tensorflow", marks=pytest.mark.tensorflow)])
def write(request, tmp_path):
    if request.param == "tensorflow":
        pytest.importorskip("tensorflow")

    def write(loss=NAMED, fetches="[loss, train]"):
        path = tmp_path / "program.py"
        text = TF1 if request.param == "tensorflow" else PROGRAM
        path.write_text(text.replace("LOSS", loss).replace("FETCHES", fetches))
        return path

    return write


def run(*arguments):
    """``python ARGUMENTS``; whoever needs TensorFlow starts in a process that has it."""
    words = [str(each) for each in arguments]
    if any(word.endswith(".py") and "tensorflow" in Path(word).read_text() for word in words):
        server = shared("tensorflow")
        done = server.debugged(*words[2:]) if words[0] == "-m" else server.plain(*words)
        return done.out, done.err
    found = subprocess.run(
        [sys.executable, *words],
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=300,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"},
    )
    return found.stdout, found.stderr


def debugged(*arguments):
    return run("-m", "tfdbg_cli", "--batch", *arguments)[0]


def ask(path, *commands):
    alone, errors = run(path)
    told = [line for line in alone.splitlines() if line.startswith("program:")]
    assert told, errors
    done = debugged(*(f"-c{each}" for each in commands), path)
    assert [line for line in done.splitlines() if line.startswith("program:")] == told
    return done


def test_the_loss_up_to_a_stop_is_told_without_being_asked_for(write):
    told = ask(write(), "run -t 3", "run -f has_inf_or_nan", "plot loss")
    assert re.search(r"Loss:  \S*×  nan at run 17, 92\.\d+ at run 16  plot", told)
    assert "lowest 0 at 2" in told
    assert told.count("Loss: ") == 1


def test_runs_that_are_not_debugged_tell_it_too(write):
    told = ask(write(), "run -t 12", "lt")
    assert re.search(r"Loss:  \S+  \S+ at run 12  plot", told)


def test_a_number_is_followed_in_debugged_runs_and_others(write, tmp_path):
    told = ask(
        write(),
        'track "`y:0`.max()" --as top',
        'track "np.linalg.norm(`w/read:0`)"',
        "track `y:0`",
        "track `nothing:0`",
        "run -t 10",
        "run -f has_inf_or_nan",
        f"plot top --save {tmp_path}/top.csv",
        "track",
    )
    rows = (tmp_path / "top.csv").read_text().splitlines()[1:]
    assert [row.split(",")[1] for row in rows] == [str(run) for run in range(2, 18)]
    assert float(rows[3].split(",")[3]) == pytest.approx(3 * 3 * 0.9**3)
    assert rows[-1].endswith(",nan")
    assert "4 elements of shape (4, 1), not one number" in told
    assert "np.linalg.norm(w/read:0)  █" in told


def test_only_what_is_named_is_watched_for_it(write):
    told = ask(write(), "track `y:0`.max()", "run -t 10", "lt", "track -d y:0.max()")
    assert "dumped tensor(s)" in told
    assert "no longer followed" in told


def test_the_only_number_beside_a_training_operation_is_the_loss(write):
    told = ask(write(OTHER), "run -t 5", "track")
    assert re.search(r"loss  \S+ +\S+ at run 5", told)


def test_the_loss_of_an_evaluation_is_not_that_of_training(write, tmp_path):
    path, train = write(), "out = session.run([loss, train], {x: fed})"
    other = "session.run(loss, {x: 0 * fed + 100})"
    path.write_text(path.read_text().replace(train, f"{other}; {train}; {other}"))
    ask(path, "run -t 2", "run -t 8", f"plot loss --save {tmp_path}/loss.csv")
    rows = [row.split(",") for row in (tmp_path / "loss.csv").read_text().splitlines()[1:]]
    assert [row[1] for row in rows] == ["3", "6", "9"]
    assert [float(row[3]) for row in rows] == pytest.approx(
        [(3 * n * 0.9**n) ** 2 for n in range(3)]
    )


def test_a_number_that_is_nothing_of_a_training_step_is_no_loss(write):
    assert "No number is followed" in ask(write(OTHER, "[loss]"), "run -t 5", "track")


def test_a_folder_of_the_run_has_the_numbers(write, tmp_path):
    root = tmp_path / "kept"
    path = write()
    debugged("--keep-dumps", f"--dump-root={root}", "-crun -f has_inf_or_nan", path)
    told = debugged("-cplot loss", "-ctrack", f"--dump-dir={root}")
    assert "nan at run 17, lowest 0 at 2" in told
