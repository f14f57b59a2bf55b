"""Tensors have the names that the user has given: of layers, of variables, of scopes."""

from __future__ import annotations

import pytest
from program_server import Programs, environment
from samples import night
from tf2_kit import Both, both, listed, needs_keras_3, server

__all__ = ["both", "server"]

_LAYERS = """
import keras
from keras import layers

class Block(layers.Layer):
    def __init__(self, name):
        super().__init__(name=name)
        self.inner = layers.Dense(3, name="inner")

    def call(self, x):
        return keras.ops.relu(self.inner(x))

# A layer whose name is what TensorFlow would call the second scope of another.
model = keras.Sequential([layers.Input((3,)), Block("dense"), Block("dense_1")], name="net")
model.compile(keras.optimizers.SGD(0.1), "mse", {options})
model.fit(np.ones((2, 3), "float32"), np.ones((2, 3), "float32"), verbose=0)
"""
_COMPILED = "", "jit_compile=True", "run_eagerly=True"


@pytest.mark.parametrize("options", _COMPILED)
def test_layers_and_their_variables(both: Both, options):
    needs_keras_3("keras")
    path = both.write(_LAYERS.format(options=options))
    names = listed(both.debugged(path, "run", "lt").out)
    for block in ("net/dense", "net/dense_1"):
        for name in ("kernel/read", "MatMul", "bias/read"):
            assert f"{block}/inner/{name}" in names
    assert "sgd/learning_rate/read" in names
    assert not [name for name in names if "dense_2" in name or "inner_" in name]


def test_a_layer_that_is_used_twice(both: Both):
    needs_keras_3("keras")
    path = both.write(
        """
import keras
layer = keras.layers.Dense(3, name="shared")
layer.build((2, 3))

@tf.function
def both(x):
    return layer(layer(x))

both(tf.ones((2, 3)))
""",
    )
    names = listed(both.debugged(path, "run", "lt").out)
    assert {"shared/MatMul", "shared/MatMul_1", "shared/kernel/read"} <= {*names}


def test_variables_of_modules(both: Both):
    path = both.write(
        """
class Net(tf.Module):
    def __init__(self):
        super().__init__(name="net")
        with self.name_scope:
            self.bias = tf.Variable(3.0, name="bias")

net, w = Net(), tf.Variable([1.0, 2.0], name="w")

@tf.function
def step(x):
    w.assign_add(x)
    return tf.reduce_sum(w * x) + net.bias

step(tf.ones(2))
""",
    )
    names = listed(both.debugged(path, "run", "lt").out)
    assert {"w/read", "net/bias/read"} <= {*names}


def test_variables_of_ops_that_python_executes_and_of_a_model_that_nobody_holds(both: Both):
    path = both.write(
        """
class Net(tf.Module):
    def __init__(self):
        super().__init__(name="net")
        self.bias = tf.Variable(3.0, name="bias")
        self.steps = tf.Variable(0.0)

    @tf.function(input_signature=[tf.TensorSpec([], tf.float32)])
    def __call__(self, x):
        return x + self.bias

net = Net()
for _ in range(2):
    with tf.GradientTape() as tape:
        loss = net.bias * net.steps
    net.bias.assign_sub(tape.gradient(loss, net.bias))
    net.steps.assign_add(1.0)
import tempfile
folder = tempfile.mkdtemp()
tf.saved_model.save(net, folder, signatures=net.__call__)
serve = tf.saved_model.load(folder).signatures["serving_default"]
serve(x=tf.constant(1.0))
""",
    )
    shown = both.debugged(path, "run -n", "run", "lt", "run -t 9").out
    assert {"bias/read", "Variable/read"} <= {*listed(shown)}
    done = both.debugged(path, "run -n", "run -n", "run", "lt", "run -t 9")
    assert "bias/read" in listed(done.out), done.out


def test_what_an_op_is_given_has_the_name_of_its_argument(both: Both):
    path = both.write(
        """
import tfdbg_cli
with tfdbg_cli.run("by hand"):
    x = tf.constant([1.0, 2.0])
    tf.strided_slice(tf.reduce_sum(x * x, axis=[0], keepdims=True), [0], [1])
""",
    )
    names = listed(both.debugged(path, "run", "lt").out)
    assert {"Mul", "Sum/reduction_indices", "StridedSlice/begin"} <= {*names}


@night
def test_keras_on_pytorch_goes_to_pytorch(tmp_path):
    needs_keras_3("keras")
    pytest.importorskip("torch")
    home = environment(tmp_path / "home")
    programs = Programs({**home, "KERAS_BACKEND": "torch", "TF_CPP_MIN_LOG_LEVEL": "3"}, ())
    both = Both(programs, tmp_path)
    done = both.debugged(both.write(_LAYERS.format(options="")), "run", "lt")
    assert "training run #1: Sequential.train_step" in done.out
    assert {"dense.inner/mm", "net/dense/inner/kernel"} <= {*listed(done.out)}
