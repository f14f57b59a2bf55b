"""The example for JAX, plain and under the debugger, and what a user types."""

import re

from examples_kit import ROOT, debug, line_of, python, screens


def test_the_example_is_stopped_at_the_logarithm_stepped_back_and_mended():
    plain = python("examples/debug_jax.py", "--max-steps", "8", cwd=ROOT)
    done = debug(
        [
            *("run -f has_inf_or_nan", "lt -f has_inf_or_nan -n ^log", "ni -t log"),
            *("invoke_stepper", "cont log", "step -b", "step", "lt", "exit"),
        ],
        "debug_jax.py",
        "--max-steps",
        "8",
    )
    assert done.status == 0, done.err
    assert done.err.count("\n") == 1 and "only the outputs are checked" in done.err
    shown = screens(done.out)
    said = "\n".join(shown["why -f has_inf_or_nan"])
    assert "It began in [log] log:0" in said
    line = line_of("debug_jax.py", "jnp.log(jax.nn.softmax")
    assert f"debug_jax.py:{line}" in said
    # Which step it is depends on the random numbers, which aren't those of older releases.
    bad = 1 + [line.endswith("nan") for line in plain.out.splitlines()].index(True)
    assert f"run-end: training run #{bad}: train_step" in done.out
    assert f"{line}" in "\n".join(shown["ni -t log"])
    assert f"stepper: training run #{bad + 1}: train_step" in done.out
    assert re.findall(r"^step.*", done.out, re.M) == re.findall(r"^step.*", plain.out, re.M)


NO_TWIN = """\
import jax, jax.numpy as jnp
from jax.experimental import io_callback

@jax.jit
def step(x):
    io_callback(lambda v: None, None, x)
    return jnp.tanh(1 / x)

step(jnp.zeros(3))
"""


def test_who_asked_for_all_ops_is_told_why_only_outputs_are_checked(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(NO_TWIN)
    done = debug(["config set level ops", "run -f has_inf_or_nan"], script)
    assert done.status == 0, done.err
    why = "(step: it calls io_callback, which is not called twice)"
    assert f"only the outputs are checked {why}: a bad value that doesn't reach them" in done.err
    assert f"in 1 run(s) only the outputs were looked at {why}" in done.err
    assert "config set level ops" not in done.err


EAGER = """\
import jax.numpy as jnp
print(jnp.log(jnp.zeros(3)))
"""


def test_a_program_that_compiles_nothing_is_told_what_a_run_is(tmp_path):
    script = tmp_path / "eager.py"
    script.write_text(EAGER)
    done = debug([], script)
    assert done.status == 0, done.err
    assert done.err.splitlines() == [
        "tfdbg: the program ended without a run to stop at (JAX: a run is a call of a function "
        "that the program made by jax.jit or jax.grad). with tfdbg_cli.run(): makes its block a "
        "run."
    ]


OWN_GRADIENT = """\
import jax, jax.numpy as jnp

@jax.custom_vjp
def norm(x):
    return jnp.sqrt((x * x).sum())

def forward(x):
    n = norm(x)
    return n, (x, n)

def backward(kept, g):
    x, n = kept
    return (g / n * x,)

norm.defvjp(forward, backward)
print(jax.jit(jax.grad(lambda x: norm(x)))(jnp.zeros(3)))
"""


def test_the_line_of_a_gradient_is_called_that_of_its_forward_op(tmp_path):
    """JAX has no other for the ops of a backward function of the program's own."""
    script = tmp_path / "train.py"
    script.write_text(OWN_GRADIENT)
    done = debug(["run -f has_inf_or_nan"], script)
    assert re.search(r"^Line of the forward op: \S*train.py:16$", done.out, re.MULTILINE), done.out
