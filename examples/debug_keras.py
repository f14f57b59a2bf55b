"""A Keras model that learns to read digits with a bug: in some epoch its loss becomes NaN.

    python examples/debug_keras.py                          # see that something is wrong
    python -m tfdbg_cli examples/debug_keras.py             # find out what
    python examples/debug_keras.py --stable                 # the same model without the bug

Needs TensorFlow 2.16 or later, whose Keras is Keras 3; with KERAS_BACKEND=torch, PyTorch as well.
"""

import argparse
import os
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")  # or torch

import keras
import numpy as np
from keras import ops

DATA = Path(__file__).parent / "data" / "digits.npz"
CLASSES = 10


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--stable", action="store_true", help="compute the loss from the logits: no bug")
    add("--epochs", type=int, default=4, metavar="N")
    add("--learning-rate", type=float, default=0.2, metavar="R")
    add("--hidden-units", type=int, default=32, metavar="N")
    add("--batch-size", type=int, default=32, metavar="N")
    add("--jit-compile", action="store_true", help="let XLA compile the training step")
    add("--run-eagerly", action="store_true", help="no tf.function around the training step")
    add("--seed", type=int, default=2)
    return parser.parse_args()


def load_digits():
    """Images (count, 8, 8) between 0 and 1, and what is written on each, as (count, 10)."""
    with np.load(DATA) as file:
        images, labels = file["images"], file["labels"]
    return images.astype(np.float32) / 16, np.eye(CLASSES, dtype=np.float32)[labels]


def cross_entropy(wanted, given):
    """The bug: a probability may be 0, and log(0) is -inf."""
    return -ops.mean(ops.sum(wanted * ops.log(given), axis=-1))


def build(options):
    stable = keras.losses.CategoricalCrossentropy(from_logits=True)
    model = keras.Sequential(
        [
            keras.Input((8, 8), name="image"),
            keras.layers.Flatten(name="pixels"),
            keras.layers.Dense(options.hidden_units, activation="relu", name="hidden"),
            keras.layers.Dense(CLASSES, None if options.stable else "softmax", name="digit"),
        ],
        name="reader",
    )
    model.compile(
        optimizer=keras.optimizers.Adam(options.learning_rate),
        loss=stable if options.stable else cross_entropy,
        metrics=["accuracy"],
        jit_compile=options.jit_compile,
        run_eagerly=options.run_eagerly,
    )
    return model


def main():
    options = parse_options()
    keras.utils.set_random_seed(options.seed)
    images, labels = load_digits()
    told = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: print(
            f"Epoch {epoch + 1}: loss {logs['loss']:.4f}, accuracy {logs['accuracy']:.3f}"
        )
    )
    build(options).fit(
        *(images, labels),
        batch_size=options.batch_size,
        epochs=options.epochs,
        callbacks=[told],
        verbose=0,
    )


if __name__ == "__main__":
    main()
