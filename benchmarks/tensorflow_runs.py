"""One training run of a small classifier: plain, under `run -f`, and with the original's wrapper.

.venv/bin/python benchmarks/tensorflow_runs.py [RUNS]
"""

import os
import shutil
import statistics
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python.debug.wrappers.dumping_wrapper import DumpingDebugWrapperSession

import tfdbg_cli
from tfdbg_cli.engines.base import Watch
from tfdbg_cli.engines.tensorflow.engine import ENGINE

tf.disable_eager_execution()
tf.logging.set_verbosity(tf.logging.ERROR)


def build():
    x = tf.placeholder(tf.float32, [None, 64], name="x")
    y = tf.placeholder(tf.float32, [None, 10], name="y")
    hidden = x
    for layer in range(3):
        with tf.variable_scope(f"layer{layer}"):
            weights = tf.get_variable("weights", [hidden.shape[1], 100])
            hidden = tf.nn.relu(hidden @ weights)
    logits = hidden @ tf.get_variable("weights", [100, 10])
    loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=y, logits=logits))
    return x, y, tf.train.AdamOptimizer(1e-4).minimize(loss)


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    x, y, train = build()
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    random = np.random.default_rng(0)
    feed = {
        x: random.random((100, 64), dtype=np.float32),
        y: np.eye(10, dtype=np.float32)[random.integers(0, 10, 100)],
    }
    root = tempfile.mkdtemp(prefix="tfdbg_benchmark_")
    original = DumpingDebugWrapperSession(session, os.path.join(root, "dumps"))
    adapter = ENGINE.adapt(session)

    def until_filter():
        dump = adapter.debug_run(train, feed, None, None, Watch()).dump
        assert not dump.find(tfdbg_cli.has_inf_or_nan, first_n=1)

    peers = {
        "plain Session.run": lambda: session.run(train, feed),
        "run -f has_inf_or_nan": until_filter,
        "original's dumping wrapper": lambda: original.run(train, feed),
    }
    times = {name: [] for name in peers}
    for number in range(runs + 3):
        for name, run in peers.items():
            start = time.perf_counter()
            run()
            if number >= 3:  # the first runs build executors and plans
                times[name].append(1e3 * (time.perf_counter() - start))
    shutil.rmtree(root, ignore_errors=True)
    plain = statistics.median(times["plain Session.run"])
    for name, measured in times.items():
        median = statistics.median(measured)
        print(f"{name:<28} {median:8.2f} ms   x{median / plain:.1f}")


if __name__ == "__main__":
    main()
