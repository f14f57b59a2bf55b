"""Functions that are traced one within another, as deep as they can be, go as deep as alone."""

import pytest
from examples_kit import python
from samples import sample

COMMANDS = ("run", "run -t 100000", "exit --detach")

PROGRAM = """
import sys
import jax
import jax.numpy as jnp

sys.setrecursionlimit(400)

def traced(depth):
    @jax.jit
    def f(x):
        return traced(depth - 1)(x) * 0.5 + 1.0 if depth else x
    return f

add = jax.jit(lambda x: x + 1)

def called(depth, x):
    return called(depth - 1, add(x)) if depth else x

def deepest(work, most):
    # In steps of seven, then of one from the last that was deep enough.
    best = None
    for step in (7, 1):
        for depth in range(step + (best or 0), most, step):
            try:
                work(depth)
            except RecursionError:
                break
            best = depth
    return best

called(3, jnp.ones(2))
print("program: traced", deepest(lambda depth: traced(depth)(jnp.ones(2)), 80))
print("program: called", min(deepest(lambda depth: called(depth, jnp.ones(2)), 500), 380))
print("program: limit", sys.getrecursionlimit())
"""


@pytest.mark.parametrize("command", [*sample(COMMANDS, 2)])
def test_calls_go_as_deep_as_alone(tmp_path, command):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    plain = python(path, cwd=tmp_path)
    done = python("-m", "tfdbg_cli", "--batch", "-c", command, path, cwd=tmp_path)
    own = [line for line in done.out.splitlines() if line.startswith("program:")]
    for line, wanted in zip(own, plain.out.splitlines(), strict=True):
        (name, deep), (of, most) = line.rsplit(" ", 1), wanted.rsplit(" ", 1)
        # At the limit itself some frames of ours have room, which the program hasn't.
        assert name == of
        assert int(most) <= int(deep) <= int(most) + (4 if "traced" in of else 0), done.err
