"""Two workers of one TensorFlow program, which a strategy joins, and the debugger over both."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path

import pytest
from program_server import Programs, environment
from ranks_kit import own

tf = pytest.importorskip("tensorflow")
ROOT = Path(__file__).parents[3]
PROGRAM = """
import json, os
import tensorflow as tf

rank = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    w = tf.Variable([1.0, 2.0], name="w")

@tf.function
def step(x):
    def replica(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.math.log(w) * x)
        gradient = tape.gradient(loss, w)
        w.assign_sub(0.3 * tf.distribute.get_replica_context().all_reduce("sum", gradient))
        return loss
    return strategy.run(replica, args=(x,))

for number in range(4):
    print("program:", number, float(step(tf.ones(2) * (rank + 1))), flush=True)
"""


def two_free_ports():
    with socket.socket() as first, socket.socket() as second:
        for each in (first, second):
            each.bind(("127.0.0.1", 0))
        return first.getsockname()[1], second.getsockname()[1]


def ran(folder, *debugger):
    """What both workers print; they end well."""
    path = folder / "program.py"
    path.write_text(PROGRAM)
    workers = [f"127.0.0.1:{port}" for port in two_free_ports()]
    configs = [
        {"cluster": {"worker": workers}, "task": {"type": "worker", "index": rank}}
        for rank in range(2)
    ]
    programs = Programs(
        environment(folder) | {"TF_CPP_MIN_LOG_LEVEL": "3"}, ("tensorflow", "keras")
    )
    places = [{"TF_CONFIG": json.dumps(config)} for config in configs]
    done = programs.ranks(*debugger, path, places=places)
    assert [each.status for each in done] == [0, 0], done
    return [each.out for each in done]


def test_the_workers_stop_together_and_compute_what_they_do_alone(tmp_path):
    plain = ran(tmp_path)
    commands = "run -f has_inf_or_nan", "li --to-first-bad"
    batch = [part for command in commands for part in ("-c", command)]
    debugged = ran(tmp_path, "-m", "tfdbg_cli", "--batch", *batch)
    assert [own(out) for out in debugged] == [own(out) for out in plain]
    assert "training run #3: step" in debugged[0]
    if tuple(map(int, tf.__version__.split(".")[:2])) > (2, 12):
        assert "on ranks 0, 1, first on " in debugged[0]
        assert re.search(r'"rank_[01]/Log:0" is bad, and nothing bad leads to it', debugged[0])
    else:  # its service can't be asked without waiting: each worker is debugged alone
        assert '"Log:0" is bad, and nothing bad leads to it' in debugged[0]
