"""Programs that are run step by step and plainly: each makes its graph and says what to run."""

from __future__ import annotations

import argparse
import importlib.util
import pathlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tfdbg_cli.engines import numpy as tf

EXAMPLES = pathlib.Path(__file__).parents[3] / "examples"


class Program(NamedTuple):
    """A built program.

    Attributes:
        fetches: of its runs.
        feed: the feeds of the run of a number.
    """

    fetches: Any
    feed: Callable[[int], dict[Any, Any] | None]


def numbers(run: int, *shape: int) -> np.ndarray:
    """The data of a run."""
    return np.random.default_rng(100 + run).normal(size=shape).astype(np.float32)


def mnist() -> Program:
    """The example with the bug, at the same much too high rate."""
    spec = importlib.util.spec_from_file_location("debug_mnist", EXAMPLES / "debug_mnist.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    (images, labels), _ = example.load_digits()
    options = argparse.Namespace(hidden_units=20, stable=False, learning_rate=0.1)
    x, y_, train_step, accuracy = example.build_model(tf, options)

    def feed(run: int) -> dict[Any, Any]:
        batch = slice(50 * run, 50 * (run + 1))
        return {x: images[batch], y_: labels[batch]}

    return Program([train_step, accuracy], feed)


def loop() -> Program:
    """Nested loops and a variable that the loop changes."""
    count = tf.Variable(0, name="count")

    def body(i: Any, total: Any) -> Any:
        with tf.control_dependencies([count.assign_add(1)]):
            inner = tf.while_loop(
                lambda j, a: j < i, lambda j, a: (j + 1, a * 1.5 + 0.1), [tf.constant(0), total]
            )[1]
        return i + 1, inner + tf.truncated_normal([], stddev=0.1)

    start = tf.placeholder(tf.float32, [], name="start")
    end = tf.while_loop(lambda i, a: i < 4, body, [tf.constant(0), start], name="outer")[1]
    return Program({"end": end, "twice": end * 2.0}, lambda run: {start: 0.5 * run})


def dropout() -> Program:
    """Random masks."""
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    w = tf.Variable(tf.truncated_normal([3, 2]), name="w")

    def dropped(value: Any) -> Any:
        keep = tf.cast(tf.random_uniform([4, 3]) < 0.5, tf.float32)
        return value * keep / 0.5

    y = tf.matmul(dropped(dropped(x)), w)
    step = w.assign_sub(0.1 * tf.gradients(tf.reduce_mean(y * y), w)[0])
    return Program((y, step.op), lambda run: {x: numbers(run, 4, 3)})


def batch_norm() -> Program:
    """Moving averages that are updated before the result, by control dependencies."""
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    mean = tf.Variable(tf.zeros([3]), trainable=False, name="mean")
    variance = tf.Variable(tf.ones([3]), trainable=False, name="variance")
    batch_mean = tf.reduce_mean(x, 0)
    batch_variance = tf.reduce_mean(tf.square(x - batch_mean), 0)
    updates = [
        mean.assign_sub(0.1 * (mean - batch_mean)),
        variance.assign(variance * 0.9 + batch_variance * 0.1),
    ]
    with tf.control_dependencies(updates):
        y = (x - mean.read_value()) / (variance.read_value() + 1e-3)
    return Program({"y": y, "mean": mean}, lambda run: {x: numbers(run, 6, 3)})


def rnn() -> Program:
    """A recurrent network over a sequence, in a loop."""
    x = tf.placeholder(tf.float32, [10, 3], name="x")
    w = tf.Variable(tf.truncated_normal([3, 4], stddev=0.5), name="w")
    u = tf.Variable(tf.truncated_normal([4, 4], stddev=0.5), name="u")

    def cell(t: Any, h: Any) -> Any:
        # The two rows at the time t, by a product with ones and zeros.
        rows = tf.constant(np.arange(10) // 2, tf.int32)
        is_now = tf.reshape(tf.cast(tf.equal(rows, t), tf.float32), [10, 1])
        now = tf.reduce_sum(tf.reshape(x * is_now, [5, 2, 3]), 0)
        return t + 1, tf.nn.softmax(tf.matmul(now, w) + tf.matmul(h, u))

    h = tf.while_loop(lambda t, h: t < 5, cell, [tf.constant(0), tf.zeros([2, 4])])[1]
    with tf.control_dependencies([h]):
        decay = w.assign(w * 0.9)
    return Program([h, decay], lambda run: {x: numbers(run, 10, 3)})


def transformer() -> Program:
    """Self-attention with a residual, trained, and a choice by the loss."""
    x = tf.placeholder(tf.float32, [4, 6], name="x")
    q, k, v = (
        tf.matmul(x, tf.Variable(tf.truncated_normal([6, 6], stddev=0.3), name=name))
        for name in ("q", "k", "v")
    )
    weights = tf.nn.softmax(tf.matmul(q, tf.transpose(k)) / 6**0.5)
    y = x + tf.matmul(weights, v)
    loss = tf.reduce_mean(tf.square(y), name="loss")
    step = tf.train.AdamOptimizer(0.01).minimize(loss)
    shown = tf.where(loss > 1.2, loss + tf.random_uniform([]), loss * 2.0)
    return Program([step, [shown], loss], lambda run: {x: numbers(run, 4, 6) * (0.5 + run)})


PROGRAMS = [mnist, loop, dropout, batch_norm, rnn, transformer]
