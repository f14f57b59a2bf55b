"""Keras on PyTorch: one run for each of its steps, its own names, and no symbolic builds."""

import re

import pytest
from samples import night, sample

pytest.importorskip("keras")

HEAD = """
import os

os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy as np
import torch
from keras import layers, ops

torch.use_deterministic_algorithms(True)  # fills torch.empty with NaN
keras.utils.set_random_seed(0)
x = np.random.randn(64, 8, 8, 1).astype("float32")
y = np.eye(3, dtype="float32")[np.random.randint(0, 3, 64)]


def loss(y, p):
    return -ops.mean(ops.sum(y * ops.log(p + SHIFT), axis=-1))


model = keras.Sequential([
    keras.Input((8, 8, 1)), layers.Conv2D(4, 3, name="edges"), layers.MaxPooling2D(2),
    layers.BatchNormalization(), layers.Flatten(), layers.Dense(3, activation="softmax"),
])
model.compile(optimizer=keras.optimizers.Adam(0.01), loss=loss, metrics=["accuracy"])
"""
FIT = """
history = model.fit(x, y, batch_size=32, epochs=2, verbose=0, validation_split=0.5)
print("loss", history.history["loss"])
print("sum", model.predict(x[:5], verbose=0).sum(), model.evaluate(x, y, verbose=0))
"""


def program(folder, shift, text=FIT):
    path = folder / "keras_program.py"
    path.write_text(f"SHIFT = {shift}\n{HEAD}{text}")
    return path


def options(*commands):
    return ["--batch", *(part for command in commands for part in ("-c", command))]


def told(done):
    """Kind and events of each run that was shown."""
    return re.findall(
        r"^(\w+ run) #\d+: Sequential\.(\w+)$.*?^Events: +(.*?)$", done.out, re.M | re.S
    )


def test_each_step_is_a_run(programs, tmp_path):
    path = program(tmp_path, 1e-7)
    plain = programs.plain(path)
    done = programs.debugged(*options("run", *["ri", "run"] * 12), path)
    assert done.status == 0, done.err
    fit = [
        ("Training run", "train_step", "forward, backward, step"),
        ("Inference run", "test_step", "forward"),
    ]
    after = [("Inference run", step, "forward") for step in ("predict_step", *["test_step"] * 2)]
    assert told(done) == [*fit, *fit, *after]
    for line in plain.out.splitlines():
        if line.startswith(("loss", "sum")):
            assert line in done.out


def test_names_are_those_of_keras(programs, tmp_path):
    done = programs.debugged(*options("run", "lt"), program(tmp_path, 1e-7))
    names = re.findall(r"^\[.* (\S+):0$", done.out, re.M)
    assert {
        "sequential/edges/kernel",
        "sequential/batch_normalization/moving_mean",
        "sequential/dense/bias",
        "edges/convolution",
        "batch_normalization/rsqrt_",
    } <= set(names)
    assert any(name.startswith("gradients/dense/") for name in names)
    assert any(name.startswith("optimizer/Adam/_foreach") for name in names)
    assert not any("torch_params" in name for name in names)


@pytest.mark.parametrize("shift", [*sample([1e-7, -2.0], (-2.0,))])
def test_only_a_real_nan_stops(programs, tmp_path, shift):
    done = programs.debugged(*options("run -f origin_of_nonfinite"), program(tmp_path, shift))
    assert done.status == 0, done.err
    names = re.findall(r"^\[.* (\S+):0$", done.out, re.M)
    assert names == (["log"] if shift < 0 else [])
    assert ("training run #1: Sequential.train_step" in done.out) == (shift < 0)


@night
def test_a_bad_batch_came_in_at_either_level(programs, tmp_path):
    """What is only read by a module, and was made before the run, belongs to it."""
    path = program(tmp_path, 1e-7, f"x[40 - 32, 3] = np.nan{FIT}")
    found = []
    for level in ("modules", "ops"):
        done = programs.debugged(
            *options(f"config set level {level}", "run -f has_inf_or_nan"), path
        )
        assert done.status == 0, done.err
        found.append(re.findall(r"^(?:It began in|Why: ).*$", done.out, re.M))
    assert found[0] == found[1]
    assert "float32 [32, 8, 8, 1]" in found[0][0]
    assert "came in from outside" in found[0][1]


def test_a_gradient_told_before_that_of_the_call_around_it_is_no_origin(programs, tmp_path):
    """The last layer returns what the model returns; its gradient comes from the loss."""
    text = """
def mean(y, p):
    weight = y[:, 1:]
    return ops.sum(weight * (y[:, :1] - p) ** 2) / ops.sum(weight)


net = keras.Sequential([keras.Input((4,)), layers.Dense(8), layers.ReLU(), layers.Dense(1)])
net.compile("sgd", mean)
y = np.concatenate([np.ones((64, 1)), np.arange(64)[:, None] < 32], 1).astype("float32")
net.fit(np.random.randn(64, 4).astype("float32"), y, batch_size=16, shuffle=False, verbose=0)
"""
    done = programs.debugged(
        *options("config set level modules", "run -f", "lt -f origin_of_nonfinite"),
        program(tmp_path, 0, text),
    )
    assert "Why:   0 / 0" in done.out, done.out
    listed = done.out.rpartition("Tensor name")[2].splitlines()
    names = [each.split()[-1] for each in listed if each.startswith("[")]
    assert names == ["div:0", "gradients/div_grad/DivBackward0:0"], done.out


LOG = """
class Log(layers.Layer):
    def call(self, x):
        return ops.log(ops.relu(x))


model = keras.Sequential([
    keras.Input((8, 8, 1)), layers.Flatten(), layers.BatchNormalization(), Log(), layers.Dense(3),
])
model.compile(optimizer="adam", loss="mse")
"""
LEFT = """
print("sum", history.history["loss"], [float(np.nansum(w)) for w in model.get_weights()])
"""


def test_a_model_is_done_again_though_a_norm_has_written_its_statistics(programs, tmp_path):
    """Keras keeps them in parameters without a gradient."""
    path = program(tmp_path, 1e-7, LOG + FIT.partition("print")[0] + LEFT)
    commands = options("config set level modules", "run -f has_inf_or_nan")
    plain, done = programs.plain(path), programs.debugged(*commands, path)
    assert "It began in [log] log/log:0" in done.out, done.out
    assert "replayed op by op: Sequential" in done.out
    assert "Not replayed" not in done.out
    left = [[e for e in each.out.splitlines() if e.startswith("sum")] for each in (plain, done)]
    assert left[0] == left[1] != []


SCALED = """
import os

os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy as np

keras.utils.set_random_seed(0)
keras.config.set_dtype_policy("mixed_float16")
layers = [keras.layers.Dense(8), keras.layers.Dense(1, dtype="float32")]
model = keras.Sequential([keras.Input((4,)), *layers])
model.compile("sgd", "mse")
x, y = np.random.default_rng(0).normal(size=(32, 4)), np.ones((32, 1), "f")
y[16:24] = FACTOR
model.fit(x, y, batch_size=8, epochs=1, shuffle=False, verbose=0)
print("told", float(model.optimizer.dynamic_scale), int(model.optimizer.iterations))
"""


def test_a_step_that_keras_leaves_out_for_its_gradients(programs, tmp_path):
    path = tmp_path / "keras_program.py"
    level = "config set level values"  # else it depends on the time which run is looked at how
    path.write_text(SCALED.replace("FACTOR", "1e6"))
    done = programs.debugged(*options(level, "run -f"), path)
    assert "told 8192.0 2" in done.out
    assert "run-end" not in done.out
    assert "; passed over 2 run(s): gradients overflowed" in done.err
    path.write_text(SCALED.replace("FACTOR", "np.nan"))
    done = programs.debugged(*options(level, "run -f"), path)
    assert re.findall("run-end: training run #.", done.out) == ["run-end: training run #3"]
    told = re.search(r"^Scale: (.*)$", done.out, re.MULTILINE)[1]
    assert told.startswith("16384, ")
    assert told.endswith("2 of 3 steps left out, this one, too: a gradient was infinite or nan")
