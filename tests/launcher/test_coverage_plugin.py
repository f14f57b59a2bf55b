"""The plug-in for coverage.py: lines of functions that autograph has rewritten count as run."""

import json
import sys

import pytest
from samples import night, sample

pytest.importorskip("coverage")
pytest.importorskip("tensorflow")

PROGRAM = """
import tensorflow as tf


def helper(x):
    if x > 3.0:
        y = x * 2.0
    else:
        y = x + 1.0
    return y


def never(x):
    a = x + 1  # missed
    return a  # missed


@tf.function
def step(n):
    total = tf.constant(0.0)
    for i in tf.range(n):
        value = tf.cast(
            i,
            tf.float32,
        )
        if value > 2.0:
            total += helper(value)
    while total > 10.0:
        total /= 2.0
    return total


def plain(flag):
    if flag:
        return 1
    return 2  # missed


print(step(tf.constant(6)).numpy(), plain(True))
"""
# Each side of a branch, and what ends where.
BRANCHES = """
import tensorflow as tf


@tf.function
def step(n, flag=True):
    total = tf.constant(0.0)
    for i in tf.range(n):
        if (
            i > 2
            and i < 7
        ):
            total += 1.0
    if flag:  # not to the one after
        total += 1.0
    total += 0.0
    if total > 3.0:
        total -= 1.0
    else:
        total += 5.0
    for k in range(3):
        if k == 7:
            break  # missed
        if k == 1:
            continue
        total += 1.0
    while total > 100.0:
        total /= 2.0
    if not flag:
        return total * 2.0  # missed
    try:
        total = total + len(flag)
    except TypeError:
        total = total + 1.0
    return total


print(step(tf.constant(6)).numpy())
"""


def lines_with(text, end):
    """The numbers of the lines that end so."""
    return [at for at, line in enumerate(text.splitlines(), 1) if line.endswith(end)]


MISSED = lines_with(PROGRAM, "# missed")


@pytest.mark.parametrize("is_debugged", [*sample([False, True], (True,))])
def test_only_what_has_not_run_is_missed(runner, is_debugged):
    runner.write("program.py", PROGRAM)
    runner.write(".coveragerc", "[run]\nplugins = tfdbg_cli.coverage\n")
    runner.environment["COVERAGE_CORE"] = "ctrace"
    debugger = ("-m", "tfdbg_cli", "--batch", "-c", "run") if is_debugged else ()
    done = runner.python(*debugger, "-m", "coverage", "run", "program.py")
    assert done.status == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "5.5 1"
    told = runner.python("-m", "coverage", "json", "-o", "-")
    assert json.loads(told.stdout)["files"]["program.py"]["missing_lines"] == MISSED


@night
def test_jumps_in_a_process_of_the_program_s(runner):
    runner.write("program.py", BRANCHES)
    start = "import subprocess, sys\nsubprocess.run([sys.executable, 'program.py'], check=True)\n"
    runner.write("parent.py", start)
    options = "branch = true\nparallel = true\npatch = subprocess\nplugins = tfdbg_cli.coverage\n"
    runner.write(".coveragerc", f"[run]\n{options}")
    runner.environment["COVERAGE_CORE"] = "ctrace"
    done = runner.python("-m", "coverage", "run", "parent.py")
    assert done.status == 0, done.stderr
    runner.python("-m", "coverage", "combine", "-q")
    told = json.loads(runner.python("-m", "coverage", "json", "-o", "-").stdout)
    found = told["files"]["program.py"]
    missed = lines_with(BRANCHES, "# missed")
    (skipped,) = lines_with(BRANCHES, "# not to the one after")
    assert found["missing_lines"] == missed
    assert found["missing_branches"] == [[skipped, skipped + 2], *([at - 1, at] for at in missed)]


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="another tracer is there by default")
def test_coverage_says_so_where_plugins_are_off(runner):
    runner.write("program.py", "print(1)\n")
    runner.write(".coveragerc", "[run]\nplugins = tfdbg_cli.coverage\n")
    runner.environment["COVERAGE_CORE"] = "pytrace"
    done = runner.python("-m", "coverage", "run", "program.py")
    assert (done.status, done.stdout) == (0, "1\n")
    assert "Plugin file tracers (tfdbg_cli.coverage" in done.stderr
