"""A training step of a small MLP: plain, debugged, stepped to its end, and in a trace block."""

import importlib.util
import os

import numpy as np

import tfdbg_cli
from benchmarks.harness import Row, Table, interleaved, main, with_profile
from tfdbg_cli.engines.base import Watch
from tfdbg_cli.engines.registry import engine_for, load

BATCH = np.random.default_rng(0).standard_normal((64, 100), np.float32)


def session_ways(tf):
    """The ways for a session of TensorFlow or of the NumPy engine."""
    tf.set_random_seed(1)
    x = tf.placeholder(tf.float32, [64, 100])
    w1 = tf.Variable(tf.truncated_normal([100, 128], stddev=0.1))
    w2 = tf.Variable(tf.truncated_normal([128, 10], stddev=0.1))
    hidden = tf.nn.relu(tf.matmul(x, w1), name="hidden")
    loss = tf.reduce_mean(tf.square(tf.matmul(hidden, w2)))
    grads = tf.gradients(loss, [w1, w2])
    train = tf.group(w1.assign_sub(1e-4 * grads[0]), w2.assign_sub(1e-4 * grads[1]))
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    adapter = engine_for(session).adapt(session)
    fetches, feeds = [loss, train], {x: BATCH}

    def stepped():
        stepper = adapter.stepper(fetches, feeds, None, None)
        while stepper.next is not None:
            stepper.advance()
        stepper.finish()

    def traced(change):
        with tfdbg_cli.trace(session, fetches, feeds) as t:
            value = t["hidden:0"].value
            if change:
                t["hidden:0"].value = value * 0.5

    return {
        "plain": lambda: session.run(fetches, feeds),
        "debugged": lambda: adapter.debug_run(fetches, feeds, None, None, Watch()),
        "stepped": stepped,
        "trace, one value read": lambda: traced(False),
        "trace, one overridden": lambda: traced(True),
    }


def torch_ways():
    """The ways for PyTorch."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(100, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), 1e-4)
    batch = torch.from_numpy(BATCH)

    def step():
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    def stepped():
        stepper = load("torch").call_stepper(step, (), {})
        while stepper.next is not None:
            stepper.advance()
        stepper.finish()

    def traced(change):
        with tfdbg_cli.trace(step) as t:
            value = t["1/relu"].value
            if change:
                t["1/relu"].value = value * 0.5

    return {
        "plain": step,
        "stepped": stepped,
        "trace, one value read": lambda: traced(False),
        "trace, one overridden": lambda: traced(True),
    }


def engines():
    from tfdbg_cli.engines import numpy as small

    yield "NumPy engine", lambda: session_ways(small)
    try:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        import tensorflow.compat.v1 as tf
    except ImportError:
        pass
    else:
        tf.disable_v2_behavior()
        yield "TensorFlow", lambda: session_ways(tf)
    if importlib.util.find_spec("torch") is not None:
        yield "PyTorch", torch_ways


#: The most that a way may take, as a multiple of the plain one.
GOALS = {("TensorFlow", "trace, one value read"): 5.0, ("PyTorch", "trace, one value read"): 1.5}


def tables(quick):
    """A table for each engine."""
    made = []
    for name, make in engines():
        ways = make()
        sample = interleaved(ways, 3 if quick else 15, steps=3)
        plain = sample.seconds("plain")
        table = Table(
            f"A step of a small MLP: {name}",
            [],
            floor="plain (ms)",
            ratio="multiple of plain",
        )
        for way in list(ways)[1:]:
            row = Row(
                way,
                1e3 * sample.seconds(way),
                floor=1e3 * plain,
                ratio=sample.ratio(way, "plain"),
                goal=GOALS.get((name, way)),
            )
            table.rows.append(with_profile(table, row, ways[way], 3))
        made.append(table)
    return made


if __name__ == "__main__":
    main(tables)
