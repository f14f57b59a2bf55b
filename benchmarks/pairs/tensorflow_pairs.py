"""TensorFlow programs of which two variants make a pair: ``tensorflow_pairs.py MODEL VARIANT``."""

import sys

import numpy as np
import tensorflow as tf

MODEL, VARIANT = sys.argv[1:]
RANDOM = np.random.default_rng(1)


def keras() -> None:
    tf.keras.utils.set_random_seed(0)
    if VARIANT == "calm_bf16":
        tf.keras.mixed_precision.set_global_policy("mixed_bfloat16")
    x = RANDOM.normal(size=(32, 6)).astype("float32")
    y = (x.sum(1) > 0).astype("int32")
    given = tf.keras.Input((6,))
    rate = {"dropout": 0.4, "calm": 0, "calm_bf16": 0}.get(VARIANT, 0.3)
    h = tf.keras.layers.Dense(8, activation="relu", name="one")(given)
    h = tf.keras.layers.LayerNormalization(epsilon=0.1 if VARIANT == "eps" else 1e-3, name="norm")(
        h
    )
    h = tf.keras.layers.Dropout(rate, seed=3, name="drop")(h)
    out = tf.keras.layers.Dense(2, name="two", dtype="float32")(h)
    model = tf.keras.Model(given, out)
    options = {"beta_1": 0.8} if VARIANT == "beta" else {}
    optimizer = tf.keras.optimizers.Adam(2e-2 if VARIANT == "lr" else 1e-2, **options)
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=VARIANT != "logits")
    model.compile(optimizer, loss)
    model.fit(x, y, batch_size=16, epochs=2, shuffle=False, verbose=0)


def function() -> None:
    weights = tf.Variable(np.float32(RANDOM.normal(size=(6, 8))), name="w")
    more = tf.Variable(np.float32(RANDOM.normal(size=(8, 1))), name="v")

    def norm(h):
        if VARIANT == "norm_by_hand":
            middle = tf.reduce_sum(h, -1, keepdims=True) / 8.0
            spread = tf.reduce_sum(tf.square(h - middle), -1, keepdims=True) / 8.0
        else:
            middle, spread = tf.nn.moments(h, [-1], keepdims=True)
        return (h - middle) * tf.math.rsqrt(spread + (1e-1 if VARIANT == "eps" else 1e-5))

    @tf.function(jit_compile=False)
    def step(x):
        with tf.GradientTape() as tape:
            h = tf.einsum("bi,ij->bj", x, weights) if VARIANT == "einsum" else tf.matmul(x, weights)
            h = norm(h)
            if VARIANT == "sigmoid_by_hand":
                h = h * (1.0 / (1.0 + tf.exp(-h)))
            elif VARIANT == "sigmoid":
                h = h * tf.sigmoid(1.1 * h)
            else:
                h = h * tf.sigmoid(h)
            y = tf.matmul(h, more)
            loss = tf.reduce_mean(tf.square(y))
            if VARIANT == "mean_by_sum":
                loss = tf.reduce_sum(tf.square(y)) / 16.0
        gradients = tape.gradient(loss, [weights, more])
        for variable, gradient in zip([weights, more], gradients, strict=True):
            if VARIANT == "sign" and variable is more:
                variable.assign_add(0.1 * gradient)
            elif VARIANT == "overwritten" and variable is more:
                variable.assign(0.1 * gradient)
            elif VARIANT == "assign":
                variable.assign(variable - 0.1 * gradient)
            else:
                variable.assign_sub(0.1 * gradient)
        return loss + tf.reduce_sum(more * 2.0)

    for _ in range(3):
        step(tf.constant(RANDOM.normal(size=(16, 6)), tf.float32))


def session() -> None:
    tf1 = tf.compat.v1
    tf1.disable_eager_execution()
    x = tf1.placeholder(tf.float32, (16, 6), name="x")
    is_resource = VARIANT.startswith("resource")
    start = np.float32(RANDOM.normal(size=(6, 2)))
    w = tf1.get_variable("w", initializer=tf.constant(start), use_resource=is_resource)
    logits = tf.matmul(x, w)
    loss = tf.reduce_mean(tf.square(tf.tanh(logits)), name="loss")
    gradient = tf.gradients(loss, w)[0]
    update = tf1.assign_add if VARIANT.endswith("sign") else tf1.assign_sub
    rate = 0.2 if VARIANT.endswith("rate") else 0.1
    updated = update(w, rate * gradient, name="update")
    with tf.control_dependencies([updated]):
        after = tf.reduce_sum(w.read_value() if is_resource else tf.identity(w), name="after")
    with tf1.Session() as running:
        running.run(tf1.global_variables_initializer())
        for _ in range(2):
            running.run([loss, after], {x: RANDOM.normal(size=(16, 6))})


{"keras": keras, "function": function, "session": session}[MODEL]()
