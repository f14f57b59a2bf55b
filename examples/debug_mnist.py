"""A classifier of handwritten digits with a bug: its loss becomes NaN early in the training.

    python examples/debug_mnist.py                          # see that something is wrong
    python -m tfdbg_cli examples/debug_mnist.py             # find out what
    python examples/debug_mnist.py --stable                 # the same program without the bug

The same code builds the model with TensorFlow (--engine tensorflow) or with the small NumPy
engine that comes with tfdbg_cli (--engine numpy); --engine torch is in debug_mnist_torch.py.
"""

import argparse
import os
import pathlib

import numpy as np

DATA = pathlib.Path(__file__).resolve().parent / "data" / "digits.npz"
CLASSES = 10


def load_framework(engine):
    """The module that the model is built with: TensorFlow 1's names, whichever it is."""
    if engine == "numpy":
        from tfdbg_cli.engines import numpy as tf

        return tf
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import tensorflow.compat.v1 as tf

    tf.logging.set_verbosity(tf.logging.ERROR)
    tf.disable_v2_behavior()
    return tf


def load_digits():
    """Pixels scaled to 0..1 and one-hot labels; every fourth digit is kept for the test."""
    with np.load(DATA) as file:
        images = file["images"].reshape(-1, 64).astype(np.float32) / 16
        labels = np.eye(CLASSES, dtype=np.float32)[file["labels"]]
    is_test = np.arange(len(images)) % 4 == 3
    return (images[~is_test], labels[~is_test]), (images[is_test], labels[is_test])


def dense_layer(tf, inputs, input_size, size, name, activation):
    """``activation(inputs x weights + biases)`` in a name scope."""
    with tf.name_scope(name):
        with tf.name_scope("weights"):
            weights = tf.Variable(tf.truncated_normal([input_size, size], stddev=0.1))
        with tf.name_scope("biases"):
            biases = tf.Variable(tf.constant(0.1, shape=[size]))
        with tf.name_scope("Wx_plus_b"):
            preactivate = tf.matmul(inputs, weights) + biases
        return activation(preactivate)


def build_model(tf, options):
    """Placeholders, the training step and the accuracy."""
    with tf.name_scope("input"):
        x = tf.placeholder(tf.float32, [None, 64], name="x-input")
        y_ = tf.placeholder(tf.float32, [None, CLASSES], name="y-input")

    hidden = dense_layer(tf, x, 64, options.hidden_units, "hidden", tf.nn.relu)
    logits = dense_layer(tf, hidden, options.hidden_units, CLASSES, "logits", tf.identity)
    y = tf.nn.softmax(logits)

    with tf.name_scope("cross_entropy"):
        if options.stable:
            diff = tf.nn.softmax_cross_entropy_with_logits_v2(labels=y_, logits=logits)
        else:
            # The bug: where the softmax underflows to 0, its logarithm is -inf.
            diff = -(y_ * tf.log(y))
        cross_entropy = tf.reduce_mean(diff)

    with tf.name_scope("train"):
        train_step = tf.train.AdamOptimizer(options.learning_rate).minimize(cross_entropy)

    with tf.name_scope("accuracy"):
        with tf.name_scope("correct_prediction"):
            correct = tf.equal(tf.argmax(y, 1), tf.argmax(y_, 1))
        accuracy = tf.reduce_mean(tf.cast(correct, tf.float32))
    return x, y_, train_step, accuracy


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--engine", choices=["numpy", "tensorflow", "torch"], default="numpy")
    parser.add_argument(
        "--stable", action="store_true", help="compute the cross entropy from the logits: no bug"
    )
    parser.add_argument("--max-steps", type=int, default=60, metavar="N")
    parser.add_argument(
        "--learning-rate", type=float, default=0.1, metavar="R", help="much too high by default"
    )
    parser.add_argument("--hidden-units", type=int, default=1000, metavar="N")
    parser.add_argument("--batch-size", type=int, default=100, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def train(options, training_set, test_set):
    """Steps of Adam, and the accuracy before each of them."""
    tf = load_framework(options.engine)
    tf.set_random_seed(options.seed)
    (images, labels), (test_images, test_labels) = training_set, test_set
    x, y_, train_step, accuracy = build_model(tf, options)
    shuffle = np.random.RandomState(options.seed)

    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for step in range(options.max_steps):
            reached = sess.run(accuracy, feed_dict={x: test_images, y_: test_labels})
            print(f"Accuracy at step {step}: {reached:.4f}")
            batch = shuffle.randint(len(images), size=options.batch_size)
            sess.run(train_step, feed_dict={x: images[batch], y_: labels[batch]})


def main():
    options = parse_options()
    if options.engine == "torch":
        from debug_mnist_torch import train as train_with_torch

        train_with_torch(options, *load_digits())
    else:
        train(options, *load_digits())


if __name__ == "__main__":
    main()
