"""The plug-in for pytest, in runs of pytest of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import entry_points

import pytest

MODULE = "tfdbg_cli.front.pytest_plugin"
# Installed it is there already.
PLUGIN = [] if entry_points(group="pytest11", name="tfdbg") else ["-p", MODULE]
TESTS = """
import numpy as np
import pytest
from tfdbg_cli.engines import numpy as tf


def train(bad):
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [2], name="x")
        y = tf.log(x, name="y")
        z = tf.add(y, y, name="z")
        with tf.Session() as session:
            for step in range(3):
                session.run(z, {x: np.float32([1.0, 0.0 if bad and step == 1 else 2.0])})
            print("trained")


@pytest.fixture
def trained():
    train(True)


def test_clean():
    train(False)


def test_bad():
    train(True)


@pytest.mark.parametrize("bad", [False, True])
def test_either(bad):
    train(bad)


def test_fixture(trained):
    pass


def test_swallows():
    try:
        train(True)
    except BaseException:
        pass


@pytest.mark.tfdbg(allow="^y$|^z$")
def test_allowed():
    train(True)


@pytest.mark.tfdbg(allow="^y$")
def test_allowed_in_part():
    train(True)


@pytest.mark.tfdbg(check="")
def test_left_out():
    train(True)


@pytest.mark.tfdbg(check="exploding,has_inf_or_nan")
def test_asks_itself():
    train(True)
"""


@pytest.fixture
def ask(runner):
    """Runs pytest on a file of tests."""

    def ask(*options, text=TESTS):
        runner.write("test_them.py", text)
        return runner.python("-m", "pytest", *PLUGIN, "-rA", "-q", *options, "test_them.py")

    return ask


def outcomes(done):
    lines = [line for line in done.stdout.splitlines() if "test_them.py::" in line]
    return {
        line.split("::")[1].split(" ")[0]: line.split(" ")[0]
        for line in lines
        if line.startswith(("PASSED", "FAILED", "ERROR"))
    }


def test_tests_fail_at_the_first_bad_op(ask):
    done = ask("--tfdbg-check", "has_inf_or_nan")
    assert outcomes(done) == {
        "test_clean": "PASSED",
        "test_bad": "FAILED",
        "test_either[False]": "PASSED",
        "test_either[True]": "FAILED",
        "test_fixture": "ERROR",
        "test_swallows": "FAILED",
        "test_allowed": "PASSED",
        "test_allowed_in_part": "FAILED",
        "test_left_out": "PASSED",
        "test_asks_itself": "FAILED",
    }
    # What is told is the first tensor that may not be bad.
    told = done.stdout.partition("_ test_allowed_in_part _")[2].splitlines()[1]
    assert told.startswith("tfdbg: has_inf_or_nan: z:0 in ")
    line = TESTS.splitlines().index('        y = tf.log(x, name="y")') + 1
    section = re.split(r"^___+ (.+) ___+$", done.stdout, flags=re.M)
    section = section[section.index("test_bad") + 1]
    assert "has_inf_or_nan: y:0 in session 2: run #2: 1 fetch (z:0)" in section
    assert f"at test_them.py:{line}" in section
    assert "the logarithm of 0" in section
    assert "[Placeholder] x:0" in section
    assert "trained" not in section  # it has ended there


def test_only_tests_with_a_marker_are_looked_at(ask):
    # By the recommended filter, which follows what is allowed: z is bad because y is.
    found = outcomes(ask())
    assert {name for name, how in found.items() if how != "PASSED"} == {"test_asks_itself"}


@pytest.mark.parametrize(
    ("options", "text", "told"),
    [
        (["--tfdbg-check", "has_inf"], TESTS, "Did you mean has_inf_or_nan?"),
        ([], TESTS.replace('allow="^y$|^z$"', "'y'"), "tfdbg takes check=FILTERS and allow=REGEX"),
        ([], TESTS.replace('allow="^y$|^z$"', "allow='('"), "allow"),
    ],
)
def test_a_wrong_use_is_told(ask, options, text, told):
    done = ask(*options, text=text)
    assert done.status != 0
    assert told in done.stdout + done.stderr


def test_several_processes(ask):
    done = ask("--tfdbg-check", "has_inf_or_nan", "-n", "2")
    assert outcomes(done)["test_bad"] == "FAILED"
    assert outcomes(done)["test_allowed"] == "PASSED"


def test_it_costs_nothing_where_nobody_asks():
    text = f"import sys, pytest, {MODULE}; print('numpy' in sys.modules, 'urwid' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"


def test_processes_have_no_prompt(ask):
    done = ask("--tfdbg", "-n", "2")
    assert done.status != 0
    assert "--tfdbg opens a prompt" in done.stdout + done.stderr


def test_the_prompt_opens_before_a_test_fails(runner):
    runner.write("test_them.py", TESTS)
    pexpect = pytest.importorskip("pexpect")
    child = pexpect.spawn(
        sys.executable,
        ["-m", "pytest", *PLUGIN, "-q", "--tfdbg", "test_them.py"],
        env={**runner.environment, "TERM": "dumb"},
        cwd=str(runner.folder),
        encoding="utf-8",
        dimensions=(40, 120),
        timeout=60,
    )
    child.expect_exact("It began in [Log] y:0")
    child.expect_exact("y:0 › ")
    child.sendline("pt x:0")
    child.expect_exact("array([1., 0.]")
    child.expect_exact("x:0 › ")
    child.sendline("run")  # the test fails, and the others go on
    child.expect_exact("It began in [Log] y:0")
    child.expect_exact("y:0 › ")
    child.sendline("exit --end")
    child.expect_exact("the debugger was left")
    shown = child.read()
    child.close()
    assert child.exitstatus == pytest.ExitCode.INTERRUPTED
    assert "1 failed, 2 passed" in shown


def test_filters_take_arguments(ask):
    found = outcomes(ask("--tfdbg-check", "exploding:1.9,underflows:float16", "-k", "test_clean"))
    assert found == {"test_clean": "FAILED"}
    found = outcomes(ask("--tfdbg-check", "exploding:2.1", "-k", "test_clean"))
    assert found == {"test_clean": "PASSED"}
    done = ask("--tfdbg-check", "exploding:x", "-k", "test_clean")
    assert 'The filter "exploding" can\'t take' in done.stdout + done.stderr
