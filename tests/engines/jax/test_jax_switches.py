"""What a program has switched on in JAX stays, and isn't for what the debugger computes."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from samples import sample

ROOT = Path(__file__).parents[3]
PROGRAM = """\
import logging, os, sys
import jax, jax.numpy as jnp, numpy as np

logging.getLogger("jax").propagate = False
class Told(logging.Handler):
    def emit(self, record):
        said = record.getMessage().splitlines()[0]
        print("LEFT", said.partition(" in 0.")[0].partition(" costing")[0])
logging.getLogger("jax").addHandler(Told())

jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
switch, value = {switch!r}, {value!r}
late = sys.argv[1] == "late"
if not late:
    jax.config.update(switch, value)

@jax.jit
def step(w, x):
    def loss_of(w):
        return jnp.mean(jnp.sqrt(jnp.sum((x @ w) ** 2, axis=1)))  # bad
    loss, gradient = jax.value_and_grad(loss_of)(w)
    return w - jnp.float32(0.1) * gradient, loss

moved = jax.jit(lambda x: x * 2, donate_argnums=0)
w, kept = jax.device_put(np.ones((3, 2), "f")), jax.device_put(np.ones(2, "f"))
for at in range(7):
    x = np.random.RandomState(at).randn(4, 3).astype("f")
    if at in (2, 5):
        x[0] = 0
    if late and at == 4:
        jax.config.update(switch, value)
        w = jax.device_put(np.ones((3, 2), "f"))
    kept = moved(kept)
    try:
        w, loss = step(w, jax.device_put(x))
        print("LEFT", at, jax.device_get(loss), jax.device_get(kept))
    except Exception as error:
        print("LEFT", at, type(error).__name__)
if os.path.isdir("cache") and os.listdir("cache"):  # old versions of JAX make it in any case
    print("LEFT", sorted(name.split("-")[0] for name in os.listdir("cache")))
if switch.startswith("jax_debug"):
    jnp.log(-kept)  # its traceback is the program's end
"""
SWITCHES = {
    "jax_debug_nans": True,
    "jax_debug_infs": True,
    "jax_transfer_guard": "disallow",
    "jax_numpy_rank_promotion": "raise",
    "jax_numpy_dtype_promotion": "strict",
    "jax_check_tracer_leaks": True,
    "jax_enable_x64": True,
    "jax_log_compiles": True,
    "jax_explain_cache_misses": True,
    "jax_compilation_cache_dir": "cache",
}
# What these do is seen in what the program tells.
_TOLD = {"jax_log_compiles", "jax_explain_cache_misses", "jax_compilation_cache_dir"}


@pytest.mark.parametrize("when", ["first", "late"])
@pytest.mark.parametrize("level", [*sample(("auto", "ops", "values"), ("auto", "ops"))])
@pytest.mark.parametrize(
    "switch", [*sample(SWITCHES, ("jax_debug_nans", "jax_debug_infs", "jax_compilation_cache_dir"))]
)
def test_a_switch_of_the_program(switch, level, when, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM.format(switch=switch, value=SWITCHES[switch]))
    environment = os.environ | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}

    def run(*options):
        shutil.rmtree(tmp_path / "cache", ignore_errors=True)
        return subprocess.run(
            [sys.executable, *options, path.name, when],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    alone = run()
    found = run(
        *("-m", "tfdbg_cli", "--batch", "-c", f"config set level {level}"),
        *("-c", "run -f", "-c", "why", "-c", "run -f", "-c", "run"),
    )
    assert found.returncode == alone.returncode, found.stderr
    assert _left(found) == _left(alone)
    assert len(_left(alone)) > 7 if switch in _TOLD and when == "first" else _left(alone)
    line = PROGRAM[: PROGRAM.index("# bad")].count("\n") + 1
    assert f"Line of the forward op: program.py:{line}\n" in found.stdout, found.stdout
    assert "the gradient of a square root at 0" in found.stdout
    assert "debugger" not in found.stderr.replace("without the debugger", "")


def _left(done):
    return [line for line in done.stdout.splitlines() if line.startswith("LEFT")]
