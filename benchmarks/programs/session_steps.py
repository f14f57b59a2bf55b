"""Runs of a TensorFlow 1 session: a training step of ``mnist``, or ``deep``, a chain of ops."""

import statistics
import sys
import time

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.logging.set_verbosity(tf.logging.ERROR)
name, steps = sys.argv[1], int(sys.argv[2])
random = np.random.default_rng(0)
if name == "mnist":
    x, y = tf.placeholder(tf.float32, [None, 784]), tf.placeholder(tf.float32, [None, 10])
    hidden = x
    for before, width in ((784, 500), (500, 500), (500, 10)):
        weights = tf.Variable(tf.truncated_normal([before, width], stddev=0.05, seed=1))
        logits = tf.matmul(hidden, weights)
        hidden = tf.nn.relu(logits)
    losses = tf.nn.softmax_cross_entropy_with_logits_v2(labels=y, logits=logits)
    loss = tf.reduce_mean(losses)
    fetches = [tf.train.AdamOptimizer(1e-4).minimize(loss), loss]
    labels = np.eye(10, dtype="f")[random.integers(0, 10, 100)]
    feeds = {x: random.random((100, 784), dtype="f"), y: labels}
else:
    x = hidden = tf.placeholder(tf.float32, [8, 16])
    for _ in range(350):
        hidden = tf.tanh(hidden * 1.01 + 0.001) + 0.001
    fetches, feeds = [tf.no_op(), tf.reduce_sum(hidden)], {x: np.ones((8, 16), "f")}
config = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
session = tf.Session(config=config)
session.run(tf.global_variables_initializer())
times = []
for _ in range(steps):
    began = time.perf_counter()
    _, loss = session.run(fetches, feeds)
    times.append(time.perf_counter() - began)
print(f"MS {1e3 * statistics.median(times[steps // 4 :]):.4f} loss {loss:.6g}")
