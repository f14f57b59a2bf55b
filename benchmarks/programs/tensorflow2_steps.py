"""Training steps of TensorFlow 2: ``cnn`` or ``transformer`` in a function, or ``eager``."""

import statistics
import sys
import time

import numpy as np
import tensorflow as tf
from keras import Input, Model, Sequential, layers, losses, optimizers, utils

tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)
utils.set_random_seed(0)
name, steps = sys.argv[1], int(sys.argv[2])
if name == "cnn":
    convolutions = [layers.Conv2D(16, 3, activation="relu"), layers.MaxPool2D()]
    convolutions += [layers.Conv2D(32, 3, activation="relu"), layers.Flatten()]
    dense = layers.Dense(64, activation="relu"), layers.Dense(10)
    net, shape = Sequential([*convolutions, *dense]), (64, 28, 28, 1)
elif name == "transformer":
    start = hidden = Input((32, 64))
    for _ in range(3):
        attended = layers.MultiHeadAttention(4, 16)(hidden, hidden)
        hidden = layers.LayerNormalization()(hidden + attended)
        inside = layers.Dense(256, activation="gelu")(hidden)
        hidden = layers.LayerNormalization()(hidden + layers.Dense(64)(inside))
    end = layers.Dense(10)(layers.GlobalAveragePooling1D()(hidden))
    net, shape = Model(start, end), (32, 32, 64)
else:
    net = Sequential([layers.Dense(256, activation="relu"), layers.Dense(10)])
    shape = (64, 64)
optimizer = optimizers.Adam(1e-3)
loss_of = losses.SparseCategoricalCrossentropy(from_logits=True)


def step(x, y):
    """One."""
    with tf.GradientTape() as tape:
        loss = loss_of(y, net(x, training=True))
    variables = net.trainable_variables
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
    return loss


if name != "eager":
    step = tf.function(step)
x = tf.constant(np.random.rand(*shape).astype("f"))
y = tf.constant(np.random.randint(10, size=shape[0]))
times = []
for _ in range(steps):
    began = time.perf_counter()
    loss = step(x, y).numpy()
    times.append(time.perf_counter() - began)
print(f"MS {1e3 * statistics.median(times[steps // 4 :]):.4f} loss {loss:.9g}")
