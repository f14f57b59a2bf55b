"""Two processes of one JAX program, which `jax.distributed` joins, and the debugger over both."""

import os
import re
import socket
import sys
from pathlib import Path

from ranks_kit import own, together
from samples import night

ROOT = Path(__file__).parents[3]
# The logarithm of 0 is among what process 1 has of the inputs of one step. `scale` is each
# process' own, `train_step` that of both; process 0 evaluates alone.
PROGRAM = """
import sys
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

rank, bad = int(sys.argv[1]), int(sys.argv[3])
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(f"127.0.0.1:{sys.argv[2]}", 2, rank)
mesh = Mesh(np.array(jax.devices()), ("data",))

@jax.jit
def scale(x):
    return x * 2

@jax.jit
def train_step(w, x):
    loss, g = jax.value_and_grad(lambda w: jnp.mean((jnp.log(x) @ w) ** 2))(w)
    return w - 0.01 * g, loss

w = jax.device_put(np.ones(2, np.float32), NamedSharding(mesh, P()))
for i in range(4):
    own = np.full((2, 2), 1.5 + rank, np.float32)
    own[1, 1] = 0.0 if rank == 1 and i == bad else 1.0
    own = np.asarray(scale(own))
    x = jax.make_array_from_process_local_data(NamedSharding(mesh, P("data")), own)
    w, loss = train_step(w, x)
    if rank == 0:
        scale(own)
    print("program:", i, float(loss), np.asarray(w).tolist(), flush=True)
"""


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


def ran(folder, *debugger, debugged=(0, 1), bad=2):
    """What both processes print; they end well."""
    path = folder / "program.py"
    path.write_text(PROGRAM)
    environment = {
        **{name: value for name, value in os.environ.items() if name != "XLA_FLAGS"},
        **{name: str(folder) for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME")},
        "PYTHONPATH": str(ROOT),
        "JAX_PLATFORMS": "cpu",
    }
    port = str(free_port())
    starts = []
    for rank in range(2):
        words = (*(debugger if rank in debugged else ()), str(path), str(rank), port, str(bad))
        starts.append(([sys.executable, *words], environment))
    return together(starts)


def test_the_processes_stop_together_and_do_again_what_only_both_can_do(tmp_path):
    plain = ran(tmp_path)
    commands = "run", "run -p", "lp", "run -f has_inf_or_nan", "pt rank_1/log:0", "lt -n mul$"
    batch = [part for command in commands for part in ("-c", command)]
    debugged = ran(tmp_path, "-m", "tfdbg_cli", "--batch", *batch)
    assert [own(out) for out in debugged] == [own(out) for out in plain]
    leader, follower = debugged
    assert "--- run-end: on ranks 0, 1, first on 1: training run #3: train_step ---" in leader
    assert "It began in [log] rank_1/log:0  float32 [2, 2]  1 -inf of 4" in leader
    assert "the logarithm of 0 at [1, 1]" in leader
    # Each process has its part of what is spread over both, and all of what isn't.
    assert "([2:4, 0:2] of [4, 2]; other processes have the rest)" in leader
    assert re.search(r"8 +dot_general +float32 +\(2,\) +1 -inf 1 \+inf rank_0/", leader)
    assert "tfdbg" not in follower
    # What both have timed together.
    assert "--- run-end: profile of training run #1: train_step ---" in leader
    for rank in range(2):
        assert re.search(rf"Device \d of 2: rank_{rank}/CPU:\d+\n", leader)
        assert re.search(rf"rank_{rank}/log +log .* program\.py:17\(", leader)


@night
def test_one_process_that_is_debugged_alone_shows_what_its_calls_return(tmp_path):
    commands = "run -f has_inf_or_nan", "run_info"
    batch = [part for command in commands for part in ("-c", command)]
    out, _ = ran(tmp_path, "-m", "tfdbg_cli", "--batch", *batch, debugged=(0,), bad=0)
    assert len(own(out)) == 4
    assert "It began in [jit] rank_0/train_step:0  float32 [2]  1 -inf, 1 +inf of 2" in out
    assert "train_step is computed by several processes, which can only do it once more" in out
