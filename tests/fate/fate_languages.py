"""What programs that are made up consist of, for engines that call functions and sessions."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["COMMON", "LANGUAGES", "ONNX_NODES", "Language"]


class Language(NamedTuple):
    """The parts of programs.

    Attributes:
        head: what is in front.
        lines: statements; of ``abc`` they have two as ``{n}`` and ``{m}``, and a number ``{k}``.
        blocks: heads of statements with others inside.
    """

    head: str
    lines: tuple[str, ...]
    blocks: tuple[str, ...]


#: In front of all programs.
COMMON = """\
import atexit, gc, os, random, signal, sys, threading, weakref
import numpy as np
random.seed(1); np.random.seed(2)
class Own(Exception):
    pass
def handle(number, frame):
    if raises:
        raise Own("from a handler")
    print("handled", number)
raises = False
signal.signal(signal.SIGUSR1, handle)
def hit():  # elsewhere, nobody knows when it is handled
    if threading.current_thread() is threading.main_thread():
        os.kill(os.getpid(), signal.SIGUSR1)
def show(*values):
    print(*[v.tolist() if hasattr(v, "tolist") else v for v in values])
"""
# The texts of their errors have the stack, or an address, in them.
_TYPES_ONLY = """\
sys.excepthook = lambda kind, *_: print(kind.__name__, file=sys.stderr)
threading.excepthook = lambda args: print(args.exc_type.__name__, file=sys.stderr)
"""
_CALLED = """\
calls, traces, bad_calls = [], [], ()
def called(value):
    value = np.asarray(value)
    calls.append(value.tolist())
    if len(calls) in bad_calls:
        raise Own("called")
    return value * np.float32(2)
"""
_JAX = f"""\
{COMMON}{_TYPES_ONLY}{_CALLED}
import jax
import jax.numpy as jnp
from jax import lax
a, b, c = jnp.arange(3.0), jnp.ones(3), jnp.array([-1.0, 0.0, 2.0])
w, key = jnp.linspace(0.1, 0.9, 9).reshape(3, 3), jax.random.key(3)
like = jax.ShapeDtypeStruct((3,), jnp.float32)
@jax.jit
def model(w, x):
    traces.append(x.shape)
    return jnp.tanh(x @ w)
@jax.jit
def step(w, x):
    value, grad = jax.value_and_grad(lambda w: jnp.log(jnp.square(model(w, x))).mean())(w)
    return value, w - 0.1 * grad
@jax.jit
def noisy(key, x):
    key, part = jax.random.split(key)
    return key, x + jax.random.normal(part, (3,))
@jax.jit
def odd(tree):
    return {{"sum": sum(tree), "all": tree, "none": None}}
@atexit.register
def end():
    print("end", np.random.rand(), random.random(), calls, len(traces))
    show(a, b, c, w, jax.random.key_data(key))
model(w, a)  # not only at the end
"""
_JAX_LINES = (
    "{n} = {n} * {m}",
    "{n} = jnp.log({m})",
    "{n} = model(w, {m})",
    "{n} = model(w[:, :{k}], {m})",
    "value, w = step(w, {n}); show(value)",
    "key, {n} = noisy(key, {m})",
    "{n} = odd([{n}, {m}])['sum']",
    "{n} = jax.jit(lambda q: jnp.sin(q) + {k})({m})",
    "{n} = jax.jit(jax.grad(lambda q: (q * {m}).sum()))({n})",
    "{n} = jax.vmap(jax.jit(lambda q: q * {k}.5))({m})",
    "{n} = jax.jit(lambda q: lax.scan(lambda s, v: (s + v, s * v), 0.0, q)[1])({m})",
    "{n} = jax.jit(lambda q: lax.cond(q.sum() > {k}, jnp.sin, jnp.cos, q))({m})",
    "{n} = jax.jit(lambda q: lax.fori_loop(0, {k}, lambda i, r: r * 1.5, q))({m})",
    "{n} = jax.jit(lambda q: lax.while_loop(lambda r: r.sum() < {k}, lambda r: r + 1, q))({m})",
    "{n} = jax.jit(lambda q: jax.pure_callback(called, like, q))({m})",
    "jax.jit(lambda q: jax.debug.callback(lambda v: print('seen', v.tolist()), q))({n});"
    " jax.effects_barrier()",
    "{n} = jax.jit(lambda q: q.at[{k}].set(7.0))({m})",
    "{n} = jax.jit(lambda q: q if q.sum() > 0 else -q)({m})",
    "{n} = jax.jit(lambda q: q + 1, donate_argnums=0)({m} + 0)",
    "{n} = jax.jit(lambda q, k: q * k, static_argnums=1)({m}, {k})",
    "{n} = jax.jit(jax.checkpoint(lambda q: jnp.sin(q) / q))({m})",
    "{n} = {n} + jnp.ones({k} + 1)",
    "bad_calls = range(len(calls), len(calls) + {k})",
    "show({n}, {m}.dtype, {n}.weak_type, len(traces))",
    "gone = weakref.ref(model(w, {m})); print(gone() is None)",
    "jax.block_until_ready({n})",
)
_JAX_BLOCKS = (
    "with jax.disable_jit():",
    "with jax.debug_nans(True):",
    "with jax.default_matmul_precision('float32'):",
    "if {n}.sum() > {k}:",
)

_TENSORFLOW2 = f"""\
{COMMON}{_TYPES_ONLY}{_CALLED}
import tensorflow as tf
tf.random.set_seed(3)
def show(*values):
    values = [v.numpy() if hasattr(v, "numpy") else v for v in values]
    print(*[v.tolist() if hasattr(v, "tolist") else v for v in values])
# It would compute the last bit in another way where more is fetched.
tf.config.optimizer.set_experimental_options({{"disable_meta_optimizer": True}})
a, b, c = tf.range(3.0), tf.ones(3), tf.constant([-1.0, 0.0, 2.0])
v, w = tf.Variable([1.0, 2.0, 3.0]), tf.Variable(tf.ones([3, 3]) * 0.3)
generator = tf.random.Generator.from_seed(5)
@tf.function
def model(x):
    traces.append(x.shape)
    return tf.tanh(tf.linalg.matvec(w, x))
@tf.function
def step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.math.log(tf.square(model(x) * v)))
    first, second = tape.gradient(loss, [v, w])
    v.assign_sub(0.1 * first)
    w.assign_sub(0.1 * second)
    return loss
@tf.function
def looped(x, count):
    for _ in tf.range(count):
        if tf.reduce_sum(x) > 2.0:
            x = x * 0.5
        else:
            x = x + 1.0
    return x
@tf.function
def checked(x):
    v.assign_add(x)
    return tf.debugging.check_numerics(x, "bad") * 2.0
@tf.function
def python(x):
    return tf.numpy_function(called, [x], tf.float32) + 1.0
@tf.function
def drawn(x):
    return x + generator.normal([3])
def eager(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.square(x * v))
    v.assign_sub(0.01 * tape.gradient(loss, v))
    return loss
@atexit.register
def end():
    print("end", np.random.rand(), random.random(), calls, len(traces))
    show(a, b, c, v, w, tf.random.uniform([2]), generator.normal([2]))
"""
_TENSORFLOW2_LINES = (
    "{n} = {n} * {m}",
    "{n} = tf.math.log({m})",
    "{n} = model({m})",
    "show(step({n}))",
    "show(eager({n}))",
    "{n} = looped({m}, {k})",
    "{n} = looped({m}, tf.constant({k}))",
    "{n} = checked({m})",
    "{n} = python({m})",
    "{n} = drawn({m})",
    "{n} = tf.random.uniform([3]) + {m}",
    "{n} = tf.function(lambda q: q / {k}.0)({m})",
    "{n} = tf.function(lambda q: q * {k}.0, jit_compile=True)({m})",
    "{n} = tf.cond(tf.reduce_sum({n}) > {k}.0, lambda: {m}, lambda: {n} + 1.0)",
    "{n} = [*tf.data.Dataset.from_tensors({m}).repeat(2).map(lambda q: q * {k}.0)][1]",
    "{n} = model.get_concrete_function(tf.TensorSpec([3]))({m})",
    "{n} = {n} + tf.ones({k} + 1)",
    "v.assign({n})",
    "tf.random.set_seed({k})",
    "bad_calls = range(len(calls), len(calls) + {k})",
    "show({n}, {m}.dtype, len(traces))",
    "gone = weakref.ref(model({m})); print(gone() is None)",
)
_TENSORFLOW2_BLOCKS = (
    "with tf.device('CPU:0'):",
    "with tf.GradientTape() as tape:",
    "with tf.name_scope('own'):",
    "if tf.reduce_sum({n}) > {k}.0:",
)

_ONNX = f"""\
{COMMON}{_TYPES_ONLY}
import onnxruntime
from onnx import parser
a, b, c = np.float32([0, 1, 2]), np.ones(3, np.float32), np.float32([-1, 0, 2])
options = onnxruntime.SessionOptions()
# It would compute the last bit in another way where more is fetched.
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
options.log_severity_level, options.intra_op_num_threads = 4, 1
content = parser.parse_model(text).SerializeToString()
def opened():
    return onnxruntime.InferenceSession(content, options)
session, state = opened(), np.zeros(3, np.float32)
def run(x, *names):
    return session.run([*names] or None, {{"x": x, "s": state, "shape": np.int64([3])}})
def bound(x):
    binding = session.io_binding()
    for name, value in ("x", x), ("s", state), ("shape", np.int64([3])):
        binding.bind_cpu_input(name, value)
    binding.bind_output("last")
    session.run_with_iobinding(binding)
    return binding.copy_outputs_to_cpu()
def valued(x):
    values = {{"x": x, "s": state, "shape": np.int64([3])}}
    values = {{name: onnxruntime.OrtValue.ortvalue_from_numpy(v) for name, v in values.items()}}
    return [each.numpy() for each in session.run_with_ort_values(["last", "new"], values)]
@atexit.register
def end():
    print("end", np.random.rand(), random.random())
    show(a, b, c, state, *run(np.ones(3, np.float32)))
run(a)  # not only at the end
"""
_ONNX_LINES = (
    "{n} = {n} * {m}",
    "{n}, state = run({m})",
    "{n} = run({m}, 'last')[0]",
    "state, {n} = run({m}, 'new', 'last')",
    "{n}, = bound({m})",
    "{n}, state = valued({m})",
    "show(*run({n}))",
    "show(*session.run(None, {{'x': {n}, 's': {m}, 'shape': np.int64([{k}])}}))",
    "run({m}, 'nothing')",
    "run({m}[:{k}])",
    "run({m}.astype(np.float64))",
    "session.run(None, {{'x': {n}}})",
    "session.run(None, None)",
    "session = opened()",
    "onnxruntime.set_seed({k})",
    "print([each.name for each in session.get_outputs()], session.get_providers())",
    "gone = weakref.ref(run({m})[0]); print(gone() is None)",
    "{n} = {m}.copy(); {n}[:{k}] = 0",
    "show({n}, state, {m}.flags.writeable)",
)
_ONNX_BLOCKS = ("if {n}.sum() > {k}:", "with np.errstate(all='ignore'):")

LANGUAGES = {
    "jax": Language(_JAX, _JAX_LINES, _JAX_BLOCKS),
    "tensorflow2": Language(_TENSORFLOW2, _TENSORFLOW2_LINES, _TENSORFLOW2_BLOCKS),
    "onnx": Language(_ONNX, _ONNX_LINES, _ONNX_BLOCKS),
}
#: Nodes of the models of ONNX programs, of tensors before them.
ONNX_NODES = (
    "Add({n}, {m})",
    "Mul({n}, {m})",
    "Div({n}, {m})",
    "Log({n})",
    "Sqrt({n})",
    "Relu({n})",
    "Softmax({n})",
    "Identity({n})",
    "Reshape({n}, shape)",
    "Pow({n}, two)",
    "RandomUniformLike <seed = {k}.0> ({n})",
    "If (yes) <then_branch = t () => (float[3] y{i}) {{ y{i} = Add({n}, {m}) }},"
    " else_branch = e () => (float[3] z{i}) {{ z{i} = Neg({n}) }}>",
)
