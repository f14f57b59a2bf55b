"""Whose stdin is: as of a shell's, -c leaves it to the program, and so does --batch."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import sys
import numpy as np
from tfdbg_cli.engines import numpy as tf

y = tf.log(tf.constant(np.float32(0), name="x"), name="y")
with tf.Session() as session:
    session.run(y)
    session.run(y)
print("read", sys.stdin.read().split() if sys.stdin is not None else None)
"""
DATA = "lt\nri\n"  # the program's, though it looks like commands
IN_BATCH = ("--batch",)
WITH_COMMANDS = ("-c", "run")
CHECKED = ("--check", "has_inf_or_nan", "--check-only")


@pytest.fixture
def script(runner):
    return runner.write("train.py", PROGRAM)


def with_stdin(runner, how, *arguments):
    """stdin is a pipe, a file, an end at once, or closed."""
    path = runner.write("stdin.txt", DATA)
    command = [sys.executable, "-m", "tfdbg_cli", *map(str, arguments)]
    if how == "closed":
        command = ["sh", "-c", '"$@" <&-', "sh", *command]
    with open(path if how == "file" else os.devnull) as file:
        given = {"input": DATA} if how == "pipe" else {"stdin": file}
        return subprocess.run(
            command,
            cwd=runner.folder,
            env=runner.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            **given,
        )


@pytest.mark.parametrize("how", ["pipe", "file", "devnull", "closed"])
@pytest.mark.parametrize(
    "options", [IN_BATCH, WITH_COMMANDS, (*IN_BATCH, *WITH_COMMANDS), CHECKED, ("-c", "exit")]
)
def test_no_input_of_the_program_is_lost(runner, script, how, options):
    done = with_stdin(runner, how, *options, script)
    expected = {"devnull": [], "closed": None}.get(how, DATA.split())
    assert done.stdout.endswith(f"read {expected}\n")
    assert "ERROR" not in done.stderr and "stdin" not in done.stderr


@pytest.mark.parametrize("how", ["pipe", "file"])
@pytest.mark.parametrize(
    "options", [("-c", "-"), ("-c-",), (*IN_BATCH, "-c", "-"), ("-c", "run", "-c", "-"), ()]
)
def test_commands_are_on_it_where_that_is_said_or_nothing_else_is(runner, script, how, options):
    done = with_stdin(runner, how, *options, script)
    assert done.returncode == int("--batch" in options and "run" not in options), done.stderr
    assert done.stdout.endswith("read []\n")
    if "run" in options:
        assert "dumped tensor(s)" in done.stdout  # lt, at the end of the run
    else:
        assert "list_tensors is not available at run-start" in done.stderr


@pytest.mark.parametrize("how", ["devnull", "closed"])
def test_there_may_be_nothing_on_it(runner, script, how):
    done = with_stdin(runner, how, "--batch", "-c", "-", script)
    assert done.returncode == 0
    assert done.stdout.startswith("read ")


def test_a_batch_says_where_commands_were_left_unread(runner, script):
    script.write_text(PROGRAM.rpartition("print(")[0])
    for how in ("pipe", "file"):
        done = with_stdin(runner, how, "--batch", script)
        assert (done.returncode, done.stdout) == (0, "")
        assert done.stderr.splitlines() == [
            "tfdbg: stdin was left to the program, which didn't read all: commands on it need -c -."
        ]
        assert "stdin" not in with_stdin(runner, how, "--batch", "-c", "run", script).stderr


def test_without_a_program_commands_may_come_from_it(runner, script):
    runner.tfdbg("--batch", "--keep-dumps", "--dump-root", "dumps", "-c", "run", script)
    (dump,) = runner.folder.glob("dumps/*")
    for options in (IN_BATCH, ("-c", "lt"), (*IN_BATCH, "-c", "lt", "-c", "-")):
        done = runner.tfdbg(*options, "--dump-dir", dump, stdin="pt y:0\n")
        assert done.status == 0
        assert 'Tensor "y:0:DebugIdentity"' in done.stdout


def test_a_person_at_a_terminal_is_asked_after_the_commands(script, tmp_path):
    pexpect = pytest.importorskip("pexpect")
    command = ["-m", "tfdbg_cli", "--ui", "plain", "-c", "run", str(script)]
    environment = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path)}
    child = pexpect.spawn(sys.executable, command, env=environment, encoding="utf-8", timeout=60)
    child.expect("dumped tensor")
    child.expect("tfdbg> ")
    child.sendline("exit --detach")
    child.sendline("one two")
    child.sendeof()
    child.expect(r"read \['one', 'two'\]")
    child.expect(pexpect.EOF)
