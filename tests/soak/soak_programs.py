"""What is soaked: a program for each situation, which goes on for as many rounds as it is asked."""

from __future__ import annotations

__all__ = ["PROGRAMS"]

_NUMPY = """
import numpy as np
from soak_meter import rounds
from tfdbg_cli.engines import numpy as tf
"""
_TENSORFLOW = """
import numpy as np
import tensorflow
from soak_meter import rounds
tf = tensorflow.compat.v1
tf.disable_eager_execution()
"""
_TORCH = """
import torch
from soak_meter import rounds
torch.manual_seed(0)
"""
_JAX = """
import jax
import jax.numpy as jnp
from soak_meter import rounds
"""
_ONNX = """
import numpy as np
import onnxruntime
from onnx import TensorProto, helper
from soak_meter import rounds
x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [None])
z = helper.make_tensor_value_info("z", TensorProto.FLOAT, [None])
nodes = [
    helper.make_node("Mul", ["x", "x"], ["y"]),
    helper.make_node("Neg", ["y"], ["n"]),
    helper.make_node("Exp", ["n"], ["z"]),
]
model = helper.make_model(
    helper.make_graph(nodes, "g", [x], [z]), opset_imports=[helper.make_opsetid("", 20)],
    ir_version=9,
)
session = onnxruntime.InferenceSession(model.SerializeToString())
"""
_SESSION = """
x = tf.placeholder(tf.float32, [None], name="x")
w = tf.Variable(np.ones(100, np.float32), name="w")
more = w.assign_add(np.ones(100, np.float32) * 0.001, name="more")
y = tf.multiply(x, 2.0, name="y")
z = tf.reduce_sum(more * 2.0, name="z")
session = tf.Session()
session.run(tf.global_variables_initializer())
"""
_STEPS = """
for number in rounds():
    session.run([y, z], {x: [float(number)]})
"""
# A thread that has ended is another one the next time: all of them live as long as the program.
_THREADS = """
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
pool, barrier = ThreadPoolExecutor(16), Barrier(16)
def work(thread):
    barrier.wait()
    for number in range(10):
        session.run([y, z], {x: [float(number)]})
for number in rounds(160):
    list(pool.map(work, range(16)))
pool.shutdown()
"""
_LARGE = """
x = tf.placeholder(tf.float32, [], name="x")
y = x
one = tf.constant(1.0, name="one")
for number in range(50_011):
    y = tf.add(y, one, name=f"step_{number}")
z = tf.negative(y, name="z")
session = tf.Session()
"""
_LARGE_GRAPH = f"""{_LARGE}
for number in rounds():
    session.run(z, {{x: float(number)}})
"""
_LARGE_VALUES = """
x = tf.placeholder(tf.float32, [None], name="x")
y = tf.multiply(x, 2.0, name="y")
z = tf.reduce_sum(tf.negative(y), name="z")
session = tf.Session()
for number in rounds():
    session.run(z, {x: np.full(1_000_000, number, np.float32)})
"""
# A round is a client that has come and gone.
_ATTACH = """
import os, time
for number in rounds():
    while os.path.getsize("gone") <= number and not os.path.exists("over"):
        session.run([y, z], {x: [float(number)]})
        time.sleep(0.001)
    if os.path.getsize("gone") <= number:  # nobody comes any more
        break
"""

#: By engine and what it does.
PROGRAMS = {
    "numpy steps": _NUMPY + _SESSION + _STEPS,
    "tensorflow steps": _TENSORFLOW + _SESSION + _STEPS,
    "torch steps": _TORCH
    + """
net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(net.parameters(), 0.01)
data = torch.ones(2, 4)
for number in rounds():
    optimizer.zero_grad()
    net(data).square().mean().backward()
    optimizer.step()
""",
    "jax steps": _JAX
    + """
@jax.jit
def step(w, x):
    return jax.tree.map(
        lambda p, g: p - 0.001 * g, w, jax.grad(lambda w: jnp.sum(jnp.tanh(x @ w) ** 2))(w)
    )
w, data = jnp.ones((4, 4)), jnp.ones((2, 4))
for number in rounds():
    w = step(w, data)
""",
    "onnx steps": _ONNX
    + """
for number in rounds():
    session.run(None, {"x": np.full(10, number % 7, np.float32)})
""",
    "numpy threads": _NUMPY + _SESSION + _THREADS,
    "tensorflow threads": _TENSORFLOW + _SESSION + _THREADS,
    "numpy graph": _NUMPY + _LARGE_GRAPH,
    "tensorflow graph": _TENSORFLOW + _LARGE_GRAPH,
    # What the debugger asks of TensorFlow for the one before, asked by the program: `--plain`.
    "tensorflow fetches": _TENSORFLOW
    + _LARGE
    + """
tensors = [op.outputs[0] for op in session.graph.get_operations()]
for number in rounds():
    session.run(tensors, {x: float(number)})
""",
    "numpy attach": _NUMPY + _SESSION + _ATTACH,
    "numpy screens": _NUMPY + _SESSION + _STEPS,
    "numpy values": _NUMPY + _LARGE_VALUES,
    "tensorflow values": _TENSORFLOW + _LARGE_VALUES,
    "torch values": _TORCH
    + """
net = torch.nn.Sequential(*(torch.nn.Linear(1000, 1000) for _ in range(4)))
optimizer = torch.optim.SGD(net.parameters(), 0.01)
data = torch.ones(200, 1000)
for number in rounds():
    optimizer.zero_grad()
    net(data).square().mean().backward()
    optimizer.step()
""",
    "jax values": _JAX
    + """
@jax.jit
def step(w, x):
    return w - 0.001 * jax.grad(lambda w: jnp.sum(jnp.tanh(jnp.tanh(x @ w) @ w) ** 2))(w)
w, data = jnp.ones((500, 500)), jnp.ones((200, 500))
for number in rounds():
    w = step(w, data)
""",
    "onnx values": _ONNX
    + """
for number in rounds():
    session.run(None, {"x": np.full(1_000_000, number % 7, np.float32)})
""",
    # All values of a run together are more than fits; a few at a time fit.
    "torch model": _TORCH
    + """
layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(10))
data = torch.ones(1_000_000, 8)
for number in rounds():
    with torch.no_grad():
        value = data
        for step in range(80):
            value = torch.relu(layers[step % 10](value)) + 0.5
        print("result", value.double().sum().item())
""",
    "tensorflow model": _TENSORFLOW
    + """
x = tf.placeholder(tf.float32, [None], name="x")
y = x
for number in range(80):
    y = tf.sqrt(y + 1.0, name=f"root_{number}")
z = tf.reduce_sum(y, name="z")
one = tf.ConfigProto(inter_op_parallelism_threads=1, intra_op_parallelism_threads=1)
session = tf.Session(config=one)
for number in rounds():
    print("result", session.run(z, {x: np.full(8_000_000, number, np.float32)}))
""",
}
