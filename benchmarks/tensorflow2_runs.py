"""A training step of Keras on TensorFlow: plain, at each level of `run -f`, with its tools."""

import contextlib
import os
import tempfile
import time
from random import Random

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf

from benchmarks.harness import Row, Sample, Table, main, profile
from benchmarks.waiting import waiting
from tfdbg_cli.engines.tensorflow.functions.engine import ENGINE


def cnn(jit_compile=False):
    layers = [keras.layers.Input((28, 28, 1))]
    for width in (16, 32, 64):
        layers += [
            keras.layers.Conv2D(width, 3, padding="same"),
            keras.layers.BatchNormalization(),
            keras.layers.ReLU(),
            keras.layers.MaxPooling2D(),
        ]
    model = keras.Sequential([*layers, keras.layers.Flatten(), keras.layers.Dense(10)])
    return compiled(model, (64, 28, 28, 1), jit_compile)


def transformer(jit_compile=False):
    x = given = keras.layers.Input((64, 128))
    for _ in range(3):
        attended = keras.layers.MultiHeadAttention(4, 32)(x, x)
        x = keras.layers.LayerNormalization()(x + attended)
        wide = keras.layers.Dense(512, activation="gelu")(x)
        x = keras.layers.LayerNormalization()(x + keras.layers.Dense(128)(wide))
    model = keras.Model(given, keras.layers.Dense(10)(keras.layers.Flatten()(x)))
    return compiled(model, (16, 64, 128), jit_compile)


def compiled(model, shape, jit_compile):
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, jit_compile=jit_compile)
    random = np.random.default_rng(0)
    x, y = random.normal(size=shape).astype("f4"), random.integers(0, 10, shape[0])
    return lambda: model.train_on_batch(x, y)


def cnn_xla():
    return cnn(jit_compile=True)


def debugged(is_debugging=True, **settings):
    """Under the debugger with these settings."""
    return waiting(ENGINE, is_debugging, **settings)


LEVELS = {
    "plain": contextlib.nullcontext,
    "under the debugger, no run watched": lambda: debugged(is_debugging=False),
    "run -f: op records": lambda: debugged(level="ops"),
    "run -f: everything": lambda: debugged(level="values"),
}
MODELS = (cnn, transformer, cnn_xla)
GOALS = {
    "run -f: op records": {"cnn": 1.2, "transformer": 1.2, "cnn_xla": 1.3},
    "run -f: everything": {"cnn": 1.7, "transformer": 1.7, "cnn_xla": 1.7},
}


@contextlib.contextmanager
def checking():
    """TensorFlow's own check of each op."""
    tf.debugging.enable_check_numerics()
    try:
        yield
    finally:
        tf.debugging.disable_check_numerics()


@contextlib.contextmanager
def dumping():
    """TensorFlow's own dumps of each op's health."""
    with tempfile.TemporaryDirectory() as folder:
        tf.debugging.experimental.enable_dump_debug_info(folder, "FULL_HEALTH")
        try:
            yield
        finally:
            tf.debugging.experimental.disable_dump_debug_info()


PEERS = {"enable_check_numerics": checking, "enable_dump_debug_info, FULL_HEALTH": dumping}


def measure(step, peers, rounds):
    """What steps take at all levels, and with TensorFlow's tools.

    Args:
        step: a plain step.
        peers: by name, a step that was traced with a tool.
        rounds: how many.
    """
    ways = {name: (context, step) for name, context in LEVELS.items()}
    ways |= {name: (PEERS[name], step) for name, step in peers.items()}
    order, random = list(ways), Random(0)
    sample = Sample(order)
    for turn in range(rounds + 1):
        random.shuffle(order)
        for name in order:
            context, way = ways[name]
            with context():
                way()
                cpu, wall = time.process_time(), time.perf_counter()
                for _ in range(4):
                    way()
                wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            if turn:  # the first round traces functions and allocates memory
                sample.wall[name].append(wall / 4)
                sample.cpu[name].append(cpu / 4)
    return sample


def traced_with(tool, make):
    """A step that was traced with a tool; ``None``: it can't be."""
    with tool():
        step = make()
        try:
            step()
        except tf.errors.OpError:
            return None
    return step


def tables(quick):
    """A table for each model, with a row for each level."""
    with contextlib.suppress(RuntimeError):  # it has begun to compute
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
    made = []
    for make in MODELS:
        step = make()
        peers = {name: traced_with(tool, make) for name, tool in PEERS.items()}
        dead = [name for name, peer in peers.items() if peer is None]
        sample = measure(
            step, {name: peer for name, peer in peers.items() if peer}, 3 if quick else 15
        )
        plain = sample.seconds("plain")
        table = Table(
            f"A training step of Keras on TensorFlow: {make.__name__}",
            [],
            floor="plain (ms)",
            ratio="multiple of plain",
            note="In traced functions both levels do the same: values are computed when "
            "somebody looks."
            + (f" The program dies with {' and with '.join(dead)}." if dead else ""),
        )
        for name in [name for name in (*LEVELS, *peers) if name not in ("plain", *dead)]:
            goal = GOALS.get(name, {}).get(make.__name__)
            ratio = sample.ratio(name, "plain")
            row = Row(name, 1e3 * sample.seconds(name), floor=1e3 * plain, ratio=ratio, goal=goal)
            if table.misses(row):
                with LEVELS[name]():
                    step()
                    row.profile = profile(step, 4)
            table.rows.append(row)
        made.append(table)
    return made


if __name__ == "__main__":
    main(tables)
