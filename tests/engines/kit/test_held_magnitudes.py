"""What grew before a stop, where a run's end is all that is measured: see `Capture.held`."""

from __future__ import annotations

import json
import re

import pytest
from examples_kit import needs
from program_server import Programs, environment
from samples import night, sample

JAX = """
import jax, jax.numpy as jnp, numpy as np
params = {"w": jnp.ones((4, 8)) * 0.3, "v": jnp.ones((8, 1)) * 0.3}
def loss(params, x):
    return ((jnp.exp(x @ params["w"]) @ params["v"]) ** 2).mean()
@jax.jit
def step(params, x):
    value, grads = jax.value_and_grad(loss)(params, x)
    return jax.tree.map(lambda p, g: p + RATE * g, params, grads), value
told = []
for run in range(12):
    told.append(float(abs(params["w"]).max()))
    params, value = step(params, np.full((16, 4), SIZE, np.float32))
print("TOLD", told)
"""
TF1 = """
import numpy as np
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
BODY
"""
NUMPY = """
import numpy as np
from tfdbg_cli.engines import numpy as tf
BODY
"""
SESSION = """
x = tf.placeholder(tf.float32, (16, 4), name="x")
w = tf.Variable(np.full((4, 8), 0.3, np.float32), name="w")
h = tf.square(tf.matmul(x, w), name="h")
loss = tf.reduce_mean(tf.square(h), name="loss")
train = tf.assign_add(w, RATE * tf.gradients(loss, [w])[0])
told = []
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for run in range(12):
        value, made, _ = session.run([loss, h, train], {x: np.full((16, 4), SIZE, np.float32)})
        told.append(float(abs(made).max()))
print("TOLD", told)
"""
TF2 = """
import tensorflow as tf
w = tf.Variable(tf.fill((4, 8), 0.3), name="w")
def step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(tf.square(x @ w)))
    w.assign_add(RATE * tape.gradient(loss, w))
    return loss
DECORATE
told = []
for run in range(12):
    step(tf.fill((16, 4), SIZE))
    told.append(float(tf.reduce_max(abs(w))))
print("TOLD", told)
"""
ONNX = """
import numpy as np, onnx, onnxruntime
from onnx import TensorProto, helper, numpy_helper
weight = numpy_helper.from_array(np.full((4, 8), 0.3, "float32"), "w")
made = helper.make_node
nodes = [made("MatMul", ["x", "w"], ["h"]), made("Exp", ["h"], ["e"]), made("Log", ["e"], ["y"])]
given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 4])
result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 8])
graph = helper.make_graph(nodes, "g", [given], [result], [weight])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
session = onnxruntime.InferenceSession(model.SerializeToString())
told = []
for run in range(12):
    told.append(SIZE + RATE * run)
    session.run(None, {"x": np.full((3, 4), told[-1], "float32")})
print("TOLD", told)
"""

# The same ops in turns, of one variable and of the other.
TWO = """
import tensorflow as tf
both = [tf.Variable(3.0, name="low"), tf.Variable(70.0, name="high")]
for run in range(10):
    w = both[run % 2]
    with tf.GradientTape() as tape:
        loss = w * (1.0 if run < 8 else float("inf"))
    w.assign_add(0 * tape.gradient(loss, w))
print("TOLD", [])
"""
# Two functions with an argument of the same name.
NAMESAKES = """
import jax, jax.numpy as jnp, numpy as np
import tfdbg_cli
half, double = jax.jit(lambda x: x / 2), jax.jit(lambda x: jnp.log(x * 2))
for run in range(8):
    with tfdbg_cli.run():
        half(np.full(3, 5.0, "f"))
        double(np.full(3, 9.0 if run < 7 else -9.0, "f"))
print("TOLD", [])
"""
# The same in runs of their own.
FUNCTIONS = """
import jax, jax.numpy as jnp, numpy as np
half = jax.jit(lambda x: x / 2)
logarithm = jax.jit(lambda x: jnp.log(x))
for run in range(8):
    half(np.full(3, 9.0, "f"))
    logarithm(np.full(3, 5.0 if run < 7 else -5.0, "f"))
print("TOLD", [])
"""
TF_FUNCTIONS = """
import tensorflow as tf
@tf.function
def half(x):
    return x / 2
@tf.function
def logarithm(x):
    return tf.math.log(x)
for run in range(8):
    half(tf.fill(3, 9.0))
    logarithm(tf.fill(3, 5.0 if run < 7 else -5.0))
print("TOLD", [])
"""
# Sessions with tensors of the same names.
SESSIONS = """
sessions = []
for made in (lambda x: x / 2, tf.log):
    with tf.Graph().as_default() as graph:
        made(tf.placeholder(tf.float32, (3,), name="x"))
        sessions.append(tf.Session(graph=graph))
half, logarithm = sessions
ends = [each.graph.get_operations()[-1].outputs[0] for each in sessions]
for run in range(8):
    half.run(ends[0], {"x:0": np.full(3, 9.0, "f")})
    logarithm.run(ends[1], {"x:0": np.full(3, 5.0 if run < 7 else -5.0, "f")})
print("TOLD", [])
"""
MODELS = """
import numpy as np, onnx, onnxruntime
from onnx import TensorProto, helper
def model(op):
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])
    graph = helper.make_graph([helper.make_node(op, ["x"], ["y"])], "g", [given], [result])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return onnxruntime.InferenceSession(made.SerializeToString())
negative, logarithm = model("Neg"), model("Log")
for run in range(8):
    negative.run(None, {"x": np.full(3, 9.0, "float32")})
    logarithm.run(None, {"x": np.full(3, 5.0 if run < 7 else -5.0, "float32")})
print("TOLD", [])
"""

#: Program, the rate at which it grows, and the tensor that it tells about.
PROGRAMS = [
    pytest.param(JAX, "0.001", "params/w:0", marks=needs("jax", "flax"), id="jax"),
    pytest.param(
        TF1.replace("BODY", SESSION), "0.3", "h:0", marks=needs("tensorflow"), id="sessions"
    ),
    pytest.param(NUMPY.replace("BODY", SESSION), "0.3", "h:0", id="numpy"),
    pytest.param(TF2.replace("DECORATE", ""), "0.3", "w:0", marks=needs("tensorflow"), id="tape"),
    pytest.param(
        TF2.replace("DECORATE", "step = tf.function(step)"),
        "0.3",
        "w:0",
        marks=needs("tensorflow"),
        id="function",
    ),
    pytest.param(ONNX, "9", "x:0", marks=needs("onnxruntime", "onnx"), id="onnx"),
]
#: What the program is fed: always the same, or too much in one run.
SAME, TOO_MUCH = "1.0", "(1e20 if run == 8 else 1.0)"


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    return Programs(environment(tmp_path_factory.mktemp("programs")), ("numpy",))


@pytest.fixture
def ask(programs, tmp_path):
    def ask(text, *commands):
        path = tmp_path / "program.py"
        path.write_text(text)
        alone = programs.plain(path)
        kept = ("--dump-root", tmp_path / "dumps", "--keep-dumps")
        done = programs.debugged("--batch", *kept, *(f"-c{each}" for each in commands), path)
        before, after = (re.findall(r"TOLD (.*)", each.out) for each in (alone, done))
        assert before and before == after, alone.err + done.err
        return done.out, json.loads(before[0].replace("inf", "Infinity").replace("nan", "NaN"))

    return ask


def _grown(out):
    items = [json.loads(line) for line in out.splitlines() if line.startswith('{"name"')]
    return {each["name"]: each for each in items}


@pytest.mark.parametrize(("program", "rate", "name"), [*sample(PROGRAMS, 5)])
def test_a_stop_shows_how_a_tensor_near_the_bad_one_grew(
    ask, programs, tmp_path, program, rate, name
):
    out, told = ask(program.replace("RATE", rate).replace("SIZE", SAME), "run -f", "growth --json")
    item = _grown(out)[name]
    assert item["runs"] >= 3
    assert item["factor"] > 1.5
    assert any(item["lowest"] == pytest.approx(each, rel=1e-6) for each in told[:3])
    line = r"Grew:  \S+  .*, max \|x\| \S+ → \S+ at\s+run \d+, in \d+\s+run"
    assert re.search(line, out), out
    again = programs.debugged(
        "--batch", "--dump-dir", tmp_path / "dumps", "-cwhy", "-cgrowth --json"
    )
    assert _grown(again.out) == _grown(out)
    assert re.findall(line, again.out)[0] in out


def test_each_run_is_measured_if_somebody_asks(ask):
    slow = NUMPY.replace("BODY", SESSION).replace("RATE", "1e-9")
    slow = slow.replace("SIZE", "(1e20 if run == 30 else 1.0)").replace("range(12)", "range(40)")
    out, _ = ask(slow, "track --ranges", "run -f", "growth --json")
    assert _grown(out)["h:0"]["runs"] == 31


@pytest.mark.parametrize(("program", "rate", "name"), [*sample(PROGRAMS[:-1], 4)])
def test_what_grows_no_more_than_runs_differ_has_not_grown(ask, program, rate, name):
    slow = program.replace("RATE", "1e-9").replace("SIZE", TOO_MUCH)
    out, told = ask(slow, "run -f", "growth --json")
    item = _grown(out)[name]
    assert item["runs"] >= 3
    assert item["factor"] == pytest.approx(1, rel=1e-3)
    assert item["lowest"] == pytest.approx(told[0], rel=1e-3)


@pytest.mark.parametrize(
    ("program", "names"),
    [
        *sample(
            [
                pytest.param(
                    TWO, {"low:0": 3, "high:0": 70}, marks=needs("tensorflow"), id="tensorflow"
                ),
                pytest.param(
                    NAMESAKES, {"x:0": 5, "x_1:0": 9}, marks=needs("jax", "flax"), id="jax"
                ),
                pytest.param(FUNCTIONS, {"x:0": 5}, marks=needs("jax", "flax"), id="functions"),
                pytest.param(
                    TF_FUNCTIONS,
                    {"Fill:0": 5},
                    marks=needs("tensorflow"),
                    id="tensorflow-functions",
                ),
                pytest.param(NUMPY.replace("BODY", SESSIONS), {"x:0": 5}, id="sessions"),
                pytest.param(
                    TF1.replace("BODY", SESSIONS), {"x:0": 5}, marks=needs("tensorflow"), id="tf1"
                ),
                pytest.param(MODELS, {"x:0": 5}, marks=needs("onnxruntime", "onnx"), id="models"),
            ],
            2,
        )
    ],
)
def test_magnitudes_are_not_those_of_a_namesake(ask, program, names):
    out, _ = ask(program, "track --ranges", "run -f", "growth --json")
    grown = _grown(out)
    for name, size in names.items():
        assert grown[name]["lowest"] == size, out
        assert grown[name]["factor"] == 1, out


# The loss overflows in float16, and the gradient doesn't: the weights are huge after the run.
UPDATED = """
import tensorflow as tf
w = tf.Variable([1.0, 2.0])
@tf.function
def step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.cast(tf.square(w * x), tf.float16))
    w.assign_sub(1e-3 * tape.gradient(loss, w))
    return loss
for run in range(5):
    step(tf.constant(1e4 if run == 3 else 1.0))
print("TOLD [1]")
"""


@night
@needs("tensorflow")[0]
def test_what_the_run_has_written_is_no_growth_before_it(ask):
    out, _ = ask(UPDATED, "run -f", "growth --json")
    assert _grown(out)["Variable:0"]["factor"] > 1000, out
    assert re.search(r"Before: \S+  Variable:0, max .* at\s+run 3, it hadn't grown", out), out
