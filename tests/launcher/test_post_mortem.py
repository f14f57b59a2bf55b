"""``--post-mortem``: after an uncaught error the last run's tensors, and pdb at its line."""

from __future__ import annotations

import json

import pytest

NUMPY = """
import sys
import numpy as np
from tfdbg_cli.engines import numpy as tf

x = tf.placeholder(tf.float32, name="x")
y = tf.log(x, name="y")
z = tf.matmul(x, x, name="z")


def read(batches, step):
    wanted = "batch %d" % step
    return batches[wanted]


with tf.Session() as session:
    for step in range(3):
        session.run(y, {x: np.float32([1.0, step])})
        print("step", step)
    how = sys.argv[1]
    if how == "caught":
        try:
            session.run(z, {x: np.ones((2, 3), np.float32)})
        except Exception as error:
            print("caught", type(error).__name__)
    if how == "op":
        session.run(z, {x: np.ones((2, 3), np.float32)})
    if how == "after":
        read({}, 7)
    if how == "exit":
        sys.exit(3)
    if how == "interrupt":
        raise KeyboardInterrupt
"""
TORCH = """
import sys
import torch

torch.manual_seed(0)
net = torch.nn.Linear(4, 3)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    loss = net(torch.ones(2, 4)).square().mean()
    if step == 2 and sys.argv[1] == "inside":
        rows = {}["batch"]
    opt.zero_grad()
    loss.backward()
    opt.step()
net.weight.data.zero_()
raise ValueError("after it")
"""


@pytest.fixture
def program(runner):
    return runner.write("train.py", NUMPY)


def asked(runner, program, how, *typed, options=("--post-mortem",)):
    lines = "".join(f"{each}\n" for each in typed)
    return runner.tfdbg("--ui", "plain", *options, program, how, stdin=lines)


@pytest.mark.parametrize("how", ["fine", "caught", "exit", "interrupt"])
def test_without_an_uncaught_error_it_is_python(runner, program, how):
    plain = runner.python(program, how)
    done = asked(runner, program, how, "lt")
    assert done == plain


def test_an_error_after_the_last_run(runner, program):
    plain = runner.python(program, "after")
    done = asked(
        runner,
        program,
        "after",
        "lt",
        "pt y:0",
        "run",
        "pdb",
        "p wanted",
        "up",
        "p step",
        "q",
        "tb",
    )
    assert done.status == plain.status == 1
    expected = "ERROR: run is not available after the program's end. The program has ended.\n"
    assert done.stderr == plain.stderr + expected
    printed, _, screens = done.stdout.partition("--- post-mortem: KeyError; last run: run #3")
    assert printed == plain.stdout
    first, _, asked_python = screens.partition("> ")
    assert plain.stderr in first  # the traceback
    assert "y:0" in first and "-inf" not in first.partition("--- pt")[0]
    assert "array([0.       , 0.6931472]" in first
    # Python's own debugger, and back again.
    line = NUMPY.splitlines().index("    return batches[wanted]") + 1
    assert asked_python.startswith(f"{program.resolve()}({line})read()")
    assert "(Pdb) 'batch 7'" in asked_python
    assert "(Pdb) 2\n(Pdb) --- The program has ended: KeyError ---" in asked_python


def test_an_error_of_an_op(runner, program):
    done = asked(runner, program, "op", "error", "pt x:0", "pdb", "p how", "q", "exit")
    assert done.status == 1
    assert "last run: run #4" in done.stdout
    assert "Op name:    z" in done.stdout
    assert "raised in the program when you leave" not in done.stdout
    assert "shape: (2, 3)" in done.stdout
    assert "(Pdb) 'op'" in done.stdout  # its own line, not the framework's


def test_an_error_before_any_run(runner):
    script = runner.write("early.py", "value = 3\nraise ValueError('early')\n")
    done = asked(runner, script, "", "lt", "pdb", "p value", "q", options=("pm",))
    assert done.status == 1
    assert "No run was recorded before that." in done.stdout
    assert "(Pdb) 3" in done.stdout
    assert "There are no tensors" in done.stderr


def test_in_batch_nobody_is_asked(runner, program):
    done = runner.tfdbg("--post-mortem", "--batch", "-c", "pdb", "-c", "lt", program, "after")
    assert done.status == 1
    assert "ERROR: pdb needs somebody at a prompt. Leave --batch out." in done.stderr
    assert "y:0" in done.stdout
    fine = runner.tfdbg("--post-mortem", "--batch", "-c", "lt", program, "fine")
    assert (fine.status, fine.own_stderr) == (0, "")


def test_a_script_of_that_name(runner):
    runner.write("pm", "print('mine')\n")
    assert runner.tfdbg("--batch", "pm").stdout == "mine\n"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--check", "has_inf_or_nan"), "leave out --check and --listen"),
        (("--listen", "0"), "leave out --check and --listen"),
    ],
)
def test_what_does_not_go_with_it(runner, program, options, why):
    done = runner.tfdbg("--post-mortem", *options, program, "fine")
    assert done.status == 2
    assert why in done.stderr


def test_the_torch_step_that_was_under_way(runner):
    script = runner.write("train.py", TORCH)
    commands = "-c", "lt", "-c", "ri", "-c", "pt mean:0"
    done = runner.forked(
        ("torch",), "-m", "tfdbg_cli", "--post-mortem", "--batch", *commands, script, "inside"
    )
    assert done.status == 1
    assert "--- post-mortem: KeyError; last run: training run #3" in done.stdout
    assert "mean:0" in done.stdout and "gradients/" not in done.stdout
    assert "Unfinished: the program ends with KeyError: 'batch'" in done.stdout


def test_what_the_program_writes_after_a_torch_step_is_not_shown(runner):
    script = runner.write("train.py", TORCH)
    name = "optimizer/SGD/weight/add_:0"
    done = runner.forked(
        ("torch",), "-m", "tfdbg_cli", "--post-mortem", "--batch", "-c", f"pt {name}", script, ""
    )
    shown = done.stdout.partition("array(")[2]
    assert "shape: (3, 4)" in done.stdout
    assert shown and "[0., 0." not in shown


def test_the_log_tells_of_it(runner, program, tmp_path):
    log = tmp_path / "stops.jsonl"
    done = asked(runner, program, "after", options=("--post-mortem", "--log", log, "--keep-dumps"))
    assert done.status == 1
    (found,) = map(json.loads, log.read_text().splitlines())
    assert (found["stop"], found["error"]["type"], found["error"]["message"]) == (
        "uncaught",
        "KeyError",
        "'batch 7'",
    )
    assert found["run"]["name"].startswith("run #3")
    assert (found["line"]["file"], found["line"]["line"]) == (
        str(program),
        NUMPY.splitlines().index("    return batches[wanted]") + 1,
    )
    assert (tmp_path / found["dump"]).is_dir()
