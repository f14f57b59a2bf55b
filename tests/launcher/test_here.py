"""``tfdbg_cli.here()``: the tensors so far of the run that goes on."""

from __future__ import annotations

import pytest

TORCH = """
import sys
import torch
import tfdbg_cli

torch.manual_seed(0)
looks = "look" in sys.argv


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 3)
        self.second = torch.nn.Linear(3, 1)

    def forward(self, x):
        hidden = torch.tanh(self.first(x))
        if looks:
            tfdbg_cli.here()
        return self.second(hidden)


net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(2):
    loss = net(torch.ones(2, 4)).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print("step", step, loss.item())
if looks:
    tfdbg_cli.here()
"""
TF2 = """
import tensorflow as tf
import tfdbg_cli

v = tf.Variable([1.0, 2.0])
opt = tf.keras.optimizers.SGD(0.1)


@tf.function
def f(x):
    return tf.reduce_sum(tf.square(x * v))


with tf.GradientTape() as tape:
    z = tf.sqrt(f(tf.constant([1.0, 3.0])))
    tfdbg_cli.here()
opt.apply_gradients(zip(tape.gradient(z, [v]), [v]))
"""
JAX = """
import jax
import jax.numpy as jnp
import tfdbg_cli

f = jax.jit(lambda x: jnp.sin(x) * 2)
with tfdbg_cli.run("two"):
    a = f(jnp.ones(3))
    tfdbg_cli.here()
    f(f(a))
"""
NOTHING = "no run that the debugger can look into is in progress"


def listed(text):
    """The names of the last list in a piece of output."""
    rows = text.rpartition("t (ms)")[2].splitlines()[1:]
    return [row.split()[-1] for row in rows if row.startswith("[")]


def test_the_middle_of_a_step(runner):
    script = runner.write("train.py", TORCH)
    commands = "run", "lt", "pt first/addmm:0", "pf x", "run", "exit", "lt", "exit"
    options = [word for command in commands for word in ("-c", command)]
    done = runner.forked(("torch",), "-m", "tfdbg_cli", "--batch", *options, script, "look")
    assert done.status == 1  # run is not a command there
    assert "run is not available in the middle of a run" in done.stderr
    before, _, after = done.stdout.partition("--- run-end: training run #1")
    assert before.startswith("--- here, in the middle of training run #1: Net(x: float32[2, 4])")
    assert listed(before.partition("--- pt")[0])[-2:] == ["first/addmm:0", "tanh:0"]
    assert "array([[1., 1., 1., 1.]" in before.partition("--- pf x ---")[2]
    # The run goes on as if nobody had looked.
    lines = TORCH.replace("if looks:", "if False:")
    other = runner.write("other.py", lines)
    plain = runner.forked(
        ("torch",), "-m", "tfdbg_cli", "--batch", "-c", "run", "-c", "lt", "-c", "exit", other
    )
    assert listed(after.partition("step 0")[0]) == listed(plain.stdout.partition("step 0")[0])
    assert plain.stdout.endswith(after[after.index("step 0") :])
    assert all("here: the debugger was left by exit" in note for note in done.notes[-2:])


def test_a_run_that_nobody_records(runner):
    script = runner.write("train.py", TORCH)
    done = runner.forked(
        ("torch",), "-m", "tfdbg_cli", "--batch", "-c", "run -n", "-c", "exit", script, "look"
    )
    assert "here: this run isn't recorded" in done.notes[0]
    plain = runner.forked(("torch",), script)
    assert [line for line in done.stdout.splitlines() if line.startswith("step")] == (
        plain.stdout.splitlines()
    )


def test_without_the_debugger_a_line_says_so(runner):
    script = runner.write("plain.py", "import tfdbg_cli\ntfdbg_cli.here()\nprint('done')\n")
    done = runner.python(script)
    assert (done.status, done.stdout) == (0, "done\n")
    assert done.stderr.startswith("tfdbg: here: the debugger isn't on;")
    assert done.stderr.count("\n") == 1


def test_from_pdb(runner):
    text = TORCH.replace("tfdbg_cli.here()", "breakpoint()", 1)
    script = runner.write("train.py", text)
    typed = "import tfdbg_cli; tfdbg_cli.here()\npt tanh:0\nexit\np hidden.shape\nq\n"
    done = runner.tfdbg("--ui", "plain", "-c", "run", "-c", "-", script, "look", stdin=typed)
    assert "(Pdb) --- here, in the middle of training run #1" in done.stdout
    assert 'Tensor "tanh:0' in done.stdout
    assert "(Pdb) torch.Size([2, 3])" in done.stdout


@pytest.mark.parametrize(
    ("modules", "program", "here", "later"),
    [
        pytest.param(
            ("tensorflow", "keras"), TF2, "Sqrt:0", "sgd/Mul:0", marks=pytest.mark.tensorflow
        ),
        pytest.param(("jax",), JAX, "mul:0", "mul_1:0", marks=pytest.mark.jax),
    ],
    ids=["tensorflow", "jax"],
)
def test_other_frameworks(runner, modules, program, here, later):
    script = runner.write("program.py", program)
    options = "-c", "run", "-c", "lt", "-c", "exit", "-c", "lt"
    done = runner.forked(modules, "-m", "tfdbg_cli", "--batch", *options, script)
    first, _, second = done.stdout.partition("--- run-end")
    assert first.startswith("--- here, in the middle of "), done.stderr
    assert here in listed(first) and later not in listed(first)
    assert later in listed(second) and set(listed(first)) <= set(listed(second))


def test_sessions_have_no_middle(runner):
    program = (
        "import tfdbg_cli\nfrom tfdbg_cli.engines import numpy as tf\n"
        "a = tf.constant(1.0)\nwith tf.Session() as s:\n    s.run(a)\n    tfdbg_cli.here()\n"
    )
    done = runner.tfdbg("--batch", "-c", "run", "-c", "run", runner.write("s.py", program))
    assert f"here: {NOTHING}" in done.stderr
