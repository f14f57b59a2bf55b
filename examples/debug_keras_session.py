"""A Keras model in a session: its loss takes the logarithm of what may be zero.

    python examples/debug_keras_session.py                   # the loss is nan
    python -m tfdbg_cli examples/debug_keras_session.py      # debug it as it is
    python examples/debug_keras_session.py --debug           # with set_session

Needs tf_keras, the Keras that still runs in sessions. The steps of `fit` are callables of the
session, and each of them is a run of the debugger's.
"""

import argparse
import os

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["TF_USE_LEGACY_KERAS"] = "1"

import tensorflow.compat.v1 as tf

import tfdbg_cli as tf_debug


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=2, metavar="N")
    parser.add_argument("--debug", action="store_true", help="give Keras a wrapper session")
    parser.add_argument("--ui_type", default="auto", help="of the debugger")
    return parser.parse_args()


def cross_entropy(wanted, given):
    """The bug: relu gives zeros, and log(0) is -inf."""
    return -tf.reduce_mean(wanted * tf.log(given, name="log_of_given"))


def main():
    options = parse_options()
    tf.logging.set_verbosity(tf.logging.ERROR)
    tf.disable_v2_behavior()
    tf.set_random_seed(1)

    sess = tf.Session()
    if options.debug:
        sess = tf_debug.LocalCLIDebugWrapperSession(sess, ui_type=options.ui_type)
    tf.keras.backend.set_session(sess)

    random = np.random.RandomState(0)
    inputs = random.normal(size=[24, 6]).astype(np.float32)
    labels = np.eye(3, dtype=np.float32)[random.randint(3, size=24)]
    model = tf.keras.models.Sequential(
        [
            tf.keras.layers.Dense(8, activation="relu", name="hidden", input_shape=(6,)),
            tf.keras.layers.Dense(3, activation="relu", name="given"),
        ]
    )
    model.compile(optimizer="sgd", loss=cross_entropy)
    history = model.fit(inputs, labels, batch_size=8, epochs=options.epochs, verbose=0)
    for epoch, loss in enumerate(history.history["loss"]):
        print(f"Epoch {epoch}: loss {loss:.4f}")


if __name__ == "__main__":
    main()
