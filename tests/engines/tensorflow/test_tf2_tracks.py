"""The loss of TensorFlow 2's runs, and numbers of them that somebody follows."""

from __future__ import annotations

import re

import pytest
from samples import sample
from tf2_kit import needs_keras_3

STEP = """
    w = tf.Variable([1.0, 2.0])

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((w * x) ** 2, name="total")
        grad = tape.gradient(loss, w)
        w.assign_sub(0.1 * grad)
        return RESULT

    for number in range(12):
        out = step(tf.constant([0.5, 0.2]))
    tell(w.numpy().tolist())
"""
TAPE = """
    import keras

    w = tf.Variable([1.0, 2.0])
    optimizer = keras.optimizers.SGD(0.1)
    for number in range(12):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((w * tf.constant([0.5, 0.2])) ** 2)
        optimizer.apply_gradients([(tape.gradient(loss, w), w)])
    tell(w.numpy().tolist())
"""
FIT = """
    import keras, numpy as np

    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.layers.Dense(3)])
    model.compile("sgd", "mse", metrics=["mae"], jit_compile=False, run_eagerly=EAGERLY)
    data = np.random.rand(400, 2).astype("float32"), np.ones((400, 3), "float32")
    told = model.fit(*data, verbose=0, batch_size=4, shuffle=False)
    tell(told.history["loss"])
"""
LOSS = re.compile(r"Loss:  \S+  (\S+) at run 9  plot")


@pytest.mark.parametrize(
    "result", ["loss", "grad, loss", "{'zoo': loss * 3, 'loss': loss}", "x[0], loss, loss * 3"]
)
def test_what_a_training_step_returns(both, result):
    done = both.same(both.write(STEP.replace("RESULT", result)), "run -t 9", "lt")
    assert LOSS.search(done.out)[1] == "0.25074"


@pytest.mark.parametrize(
    "result", ["grad", "None", "tf.cast(loss, tf.int32)", "tf.reduce_mean(grad)"]
)
def test_a_step_that_returns_no_number_tells_none(both, result):
    done = both.same(both.write(STEP.replace("RESULT", result)), "run -t 9", "lt")
    assert "Loss:" not in done.out


def test_what_a_tape_computes_gradients_of(both):
    done = both.same(both.write(TAPE), "run -t 9", "lt")
    assert LOSS.search(done.out)[1] == "0.25074"


@pytest.mark.parametrize("eagerly", [*sample(["False", "True"], 2)])
def test_steps_of_fit(both, eagerly):
    commands = ("run -t 90", "lt", "run -f has_inf_or_nan")
    done = both.same(both.write(FIT.replace("EAGERLY", eagerly)), *commands)
    assert re.search(r"Loss:  \S+  \S+ at run 90  plot", done.out)


def test_numbers_of_expressions_in_runs_that_are_debugged_and_others(both, tmp_path):
    done = both.same(
        both.write(STEP.replace("RESULT", "loss")),
        "track `total:0`",
        "track `nothing:0`",
        "run -t 6",
        "run",
        "run",
        f"plot total:0 loss --save {tmp_path}/all.csv",
        "track",
    )
    rows = [line.split(",") for line in (tmp_path / "all.csv").read_text().splitlines()[1:]]
    found = {
        name: [(row[1], row[3]) for row in rows if row[0] == name] for name in ("total:0", "loss")
    }
    assert [int(run) for run, _ in found["total:0"]] == [*range(1, 9)]
    assert found["total:0"] == found["loss"]
    assert "nothing: This run had no such node." in done.out


SCALED = """
    import keras, numpy as np

    keras.utils.set_random_seed(0)
    keras.mixed_precision.set_global_policy("mixed_float16")
    layers = [keras.layers.Dense(8), keras.layers.Dense(1, dtype="float32")]
    model = keras.Sequential([keras.layers.Input((4,)), *layers])
    model.compile("sgd", "mse", steps_per_execution=STEPS)
    x, y = np.random.default_rng(0).normal(size=(32, 4)), np.ones((32, 1), "f")
    y[16:24] = 1e6
    model.fit(x, y, batch_size=8, epochs=2, shuffle=False, verbose=0)
    tell(float(model.optimizer.dynamic_scale), model.optimizer.iterations.numpy())
"""


@pytest.mark.parametrize("steps", [*sample([1, 2], 2)])
def test_a_step_that_keras_leaves_out_for_its_gradients(both, steps):
    needs_keras_3(SCALED)
    text = SCALED.replace("STEPS", str(steps))
    path, name = both.write(text), "has_inf_or_nan" if steps == 1 else ""
    done = both.same(path, f"run -f {name}", "run_info", "run", "run_info")
    first, second = re.findall(r"^Scale: (.*)$", done.out, re.MULTILINE)[:: 2 if steps == 1 else 1]
    if steps == 1:
        told, _, hint = first.partition("; ")
        assert told.strip() == "32768, 1 of 3 steps left out: a gradient was infinite or nan"
        assert "normal as long as the scale is too large" in hint
        assert second.strip() == "16384, halved once in 4 runs, 1 of 4 steps left out"
        done = both.same(path, "run -f")
        assert "run-end" not in done.out
        assert "passed over 2 run(s): gradients overflowed" in done.err
    else:  # which of them isn't known
        assert first.strip() == "32768"
        assert second.strip() == "16384, halved once in 3 runs"


SCALED_BY_HAND = """
    import keras, numpy as np

    keras.utils.set_random_seed(1)
    keras.mixed_precision.set_global_policy("mixed_float16")
    model = keras.Sequential([keras.layers.Dense(8), keras.layers.Dense(1, dtype="float32")])
    model.build((None, 4))
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.01), 2.0**24)
    optimizer.build(model.trainable_variables)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
            scaled = optimizer.scale_loss(loss)
        gradients = tape.gradient(scaled, model.trainable_variables)
        optimizer.APPLY
        return loss

    for run in range(4):
        x = np.random.default_rng(run).normal(size=(8, 4)).astype("float32")
        tell(float(step(x, x.sum(1, keepdims=True))), float(optimizer.dynamic_scale))
"""


@pytest.mark.parametrize(
    "apply",
    [
        "apply(gradients, model.trainable_variables)",
        "apply_gradients(zip(gradients, model.trainable_variables))",
    ],
)
def test_a_step_of_the_program_own_that_the_optimizer_leaves_out(both, apply):
    needs_keras_3(SCALED_BY_HAND)
    done = both.same(both.write(SCALED_BY_HAND.replace("APPLY", apply)), "run -f")
    assert "run-end" not in done.out
    assert "passed over 4 run(s): gradients overflowed" in done.err
