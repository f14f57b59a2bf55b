"""Two trainings that should be equal and aren't: in one of them an epsilon has changed.

Keep the runs of both, then ask where they part; docs/compare.md has the story.
"""

import argparse

import numpy as np

from tfdbg_cli.engines import numpy as tf


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--eps", type=float, default=1e-7, help="keeps the logarithm finite")
    eps = parser.parse_args().eps

    random = np.random.RandomState(0)
    x = tf.placeholder(tf.float32, (16, 8), name="x")
    labels = tf.placeholder(tf.float32, (16, 3), name="labels")
    weights = tf.Variable(random.randn(8, 3).astype("float32"), name="weights")
    chances = tf.nn.softmax(tf.matmul(x, weights, name="logits"), name="chances")
    with tf.name_scope("loss"):
        safe = tf.add(chances, eps, name="safe")
        loss = tf.reduce_mean(-(labels * tf.log(safe, name="log")), name="mean")
    train = tf.train.AdamOptimizer(0.1).minimize(loss)

    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for step in range(3):
            batch = random.randn(16, 8).astype("float32")
            classes = np.eye(3, dtype="float32")[random.randint(3, size=16)]
            value, _ = session.run([loss, train], {x: batch, labels: classes})
            print(f"step {step}: loss {value:.4f}")


if __name__ == "__main__":
    main()
