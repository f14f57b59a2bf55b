"""What waiting for a NaN costs a JAX program, beside ``jax_debug_nans`` and nothing at all.

    python benchmarks/waiting_jax.py [--rounds N] [--steps N]

Each way is a process of its own, and they take turns; told is the median step of the best round,
its time and what it took of all cores (which tells more on a busy machine), and for the level of
ops what XLA took to compile the step and its twins.
Needs jax and optax.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OPS = "  at the level of ops"
TWIN = "  with results twin"
_COMPILED = re.compile(
    r"XLA compilation of jit\((step|tfdbg_cli_(?:health|twin))\) in ([\d.]+) sec"
)


def program(steps: int, is_donating: bool) -> None:
    """A convolutional network and Adam; the median time of a step."""
    import jax
    import jax.numpy as jnp
    import optax

    def model(params, x):
        for kernel in params["convolutions"]:
            x = jax.nn.relu(jax.lax.conv(x, kernel, (1, 1), "SAME"))
        return x.reshape(len(x), -1) @ params["out"]

    def loss_fn(params, x, y):
        return optax.softmax_cross_entropy_with_integer_labels(model(params, x), y).mean()

    keys = jax.random.split(jax.random.key(0), 5)
    sizes = [3, 16, 16, 16]
    params = {
        "convolutions": [
            0.1 * jax.random.normal(keys[at], (sizes[at + 1], sizes[at], 3, 3)) for at in range(3)
        ],
        "out": 0.01 * jax.random.normal(keys[3], (16 * 32 * 32, 10)),
    }
    optimizer = optax.adam(1e-3)
    state = optimizer.init(params)
    x = jax.random.normal(keys[4], (16, 3, 32, 32))
    y = jnp.arange(16) % 10

    def step(params, state, x, y):
        loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
        updates, state = optimizer.update(grads, state)
        return optax.apply_updates(params, updates), state, loss

    compiled = jax.jit(step, donate_argnums=(0, 1) if is_donating else ())
    times, worked = [], []
    for _ in range(steps):
        begin, cpu = time.perf_counter(), time.process_time()
        params, state, loss = compiled(params, state, x, y)
        loss.block_until_ready()
        times.append(time.perf_counter() - begin)
        worked.append(time.process_time() - cpu)
    print(f"step {statistics.median(times[5:])} {statistics.median(worked[5:])} {times[0]}")


def main() -> None:
    """Time all ways."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--donating", action="store_true", help="the step may reuse its arguments")
    parser.add_argument("--program", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.program:
        program(options.steps, options.donating)
        return
    debugger = ["-m", "tfdbg_cli", "--batch", "-c"]
    ways = {
        "plain": ([], {}),
        "jax_debug_nans": ([], {"JAX_DEBUG_NANS": "True"}),
        "run -f has_inf_or_nan": ([*debugger, "run -f has_inf_or_nan"], {}),
        OPS: (
            [*debugger, "config set level ops", "-c", "run -f has_inf_or_nan"],
            {"JAX_LOG_COMPILES": "True"},
        ),
        TWIN: (
            [
                *(*debugger, "config set level ops", "-c", "config set results twin"),
                *("-c", "run -f has_inf_or_nan"),
            ],
            {"JAX_LOG_COMPILES": "True"},
        ),
    }
    compiling: dict[str, float] = {}
    best: dict[str, tuple[float, ...]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.rounds):
            for name, (words, more) in ways.items():
                environment = {
                    **os.environ,
                    "PYTHONPATH": str(ROOT),
                    "XDG_CONFIG_HOME": f"{folder}/{name}",
                }
                command = [sys.executable, *words, __file__, "--program"]
                command += ["--steps", str(options.steps)]
                command += ["--donating"] if options.donating else []
                done = subprocess.run(
                    command, env=environment | more, capture_output=True, text=True, check=True
                )
                if name in (OPS, TWIN):
                    for what, seconds in _COMPILED.findall(done.stderr):
                        compiling[what] = min(compiling.get(what, 1e9), float(seconds))
                line = next(each for each in done.stdout.splitlines() if each.startswith("step "))
                told = map(float, line.split()[1:])
                best[name] = tuple(map(min, best.get(name, (1e9, 1e9, 1e9)), told))
    plain = best["plain"]
    for name, (step, worked, first) in best.items():
        ratios = f"{step / plain[0]:5.2f}x   of all cores {worked / plain[1]:5.2f}x"
        print(f"{name:24} {1000 * step:8.2f} ms  {ratios}   first {first:5.2f} s")
    print(", ".join(f"compiling {what} {took:.2f} s" for what, took in compiling.items()))


if __name__ == "__main__":
    main()
