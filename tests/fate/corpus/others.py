import sys

#%% jax_jit_and_grad
import jax
import jax.numpy as jnp
f = jax.jit(lambda x: jnp.log(x).sum())
print(f(jnp.ones(3)), jax.grad(f)(jnp.arange(3.0)).tolist())
print(jax.random.normal(jax.random.key(1), (2,)).tolist())

#%% jax_error
import jax
import jax.numpy as jnp
@jax.jit
def f(x):
    if x > 0:
        return x
    return -x
f(jnp.ones(()))

#%% jax_callbacks
import jax
import jax.numpy as jnp
def seen(x):
    print("seen", x.tolist())
@jax.jit
def f(x):
    jax.debug.callback(seen, x)
    return jax.lax.scan(lambda c, v: (c + v, c), 0.0, x)
print(f(jnp.arange(3.0))[1].tolist())

#%% jax_transforms
import jax
import jax.numpy as jnp
from jax import lax
f = lambda w, x: jnp.tanh(x @ w).sum()
w, x = jnp.arange(6.0).reshape(3, 2), jnp.ones((4, 3))
print(jax.vmap(jax.grad(f), (None, 0))(w, x)[0].tolist())
print(jax.jvp(jnp.sin, (1.0,), (2.0,)), jax.hessian(lambda v: (v**3).sum())(jnp.ones(2)).tolist())
print(jax.make_jaxpr(jax.checkpoint(f))(w, x))
print(lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] * 1.5), (0, jnp.ones(2))))
print(lax.cond(x.sum() > 3, lambda v: v + 1, lambda v: v * 2, w).tolist())
print(jax.jit(f).lower(w, x).as_text()[:200])

#%% jax_arrays_are_let_go
import gc
import weakref
import jax
import jax.numpy as jnp
gc.disable()
f = jax.jit(lambda x: jnp.log(x) * 2)
for n in range(3):
    gone = weakref.ref(f(jnp.full(3, float(n))))
    print(gone() is None)

#%% jax_not_compiled
import jax
import jax.numpy as jnp
@jax.jit
def f(x):
    print("in f")
    return jnp.log(x) if x.sum() > 0 else -x
with jax.disable_jit():
    print(f(jnp.ones(2)), f(jnp.zeros(2)))
try:
    f(jnp.ones(2))
except jax.errors.TracerBoolConversionError as error:
    print(type(error).__name__)

#%% jax_training
import jax
import jax.numpy as jnp
import numpy as np
@jax.custom_vjp
def clipped(x):
    return x
clipped.defvjp(lambda x: (x, None), lambda _, g: (jnp.clip(g, -0.1, 0.1),))
def loss(parameters, x):
    return (clipped(jnp.tanh(x @ parameters["w"])) @ parameters["v"]).mean()
key = jax.random.key(0)
parameters = {"w": jax.random.normal(key, (3, 4)), "v": jnp.ones(4)}
@jax.jit
def step(parameters, key):
    value, grads = jax.value_and_grad(loss)(parameters, jax.random.normal(key, (5, 3)))
    return value, jax.tree.map(lambda p, g: p - 0.1 * g, parameters, grads)
for n in range(4):
    key, part = jax.random.split(key)
    value, parameters = step(parameters, part)
    print(n, value, np.random.RandomState(n).rand())
print(jax.tree.map(lambda p: p.tolist(), parameters))
np.savez("last.npz", **parameters)

#%% jax_debug_nans
import jax
import jax.numpy as jnp
jax.config.update("jax_debug_nans", True)
try:
    jnp.log(jnp.asarray(-1.0))
except FloatingPointError as error:
    print(error)
print(jnp.log(jnp.zeros(2)).tolist())
jax.jit(lambda x: jnp.sqrt(x) * 2)(jnp.asarray(-1.0))

#%% jax_callback_fails
import jax
import jax.numpy as jnp
import numpy as np
calls = []
def called(x):
    calls.append(x.tolist())
    if len(calls) == 2:
        raise ValueError("called")
    return np.asarray(x) * 2
f = jax.jit(lambda x: jax.pure_callback(called, jax.ShapeDtypeStruct((), "float32"), x) + 1)
for n in range(3):
    try:
        print(f(jnp.float32(n)).item())
    except Exception as error:
        print(type(error).__name__)
print(calls)

#%% jax_caught_errors
import jax
import jax.numpy as jnp
kept = []
@jax.jit
def leaks(x):
    kept.append(x)
    return x
leaks(1.0)
x = jax.device_put(jnp.ones(2))
donated = jax.jit(lambda v: v + 1, donate_argnums=0)(x)
for wrong in (
    lambda: kept[0] + 1,
    lambda: x + 1,
    lambda: jnp.dot(jnp.ones(2), jnp.ones(3)),
    lambda: jnp.ones(3).at[0].set(1)[[0, "a"]],
    lambda: jax.jit(lambda v: int(v))(1.0),
    lambda: jax.grad(lambda v: v)(jnp.ones(2)),
):
    try:
        print(wrong())
    except Exception as error:
        print(type(error).__name__, str(error).splitlines()[0], error.__cause__ is None)

#%% jax_uncaught_in_grad
import jax
import jax.numpy as jnp
def f(x):
    return jnp.ones((2, 3)) @ x
jax.grad(lambda x: f(x).sum())(jnp.ones(2))

#%% jax_unfiltered_error
import os
os.environ["JAX_TRACEBACK_FILTERING"] = "off"
import jax
jax.jit(lambda x: [][x.ndim])(1.0)

#%% jax_first_call_fails
import jax
import numpy as np
try:
    jax.lax.add(np.ones(2), np.ones(3))
except TypeError as error:
    print(error)
jax.lax.add(np.ones(2), np.ones(3))

#%% jax_several_devices
import os
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec
mesh = jax.make_mesh((2,), ("data",))
x = jax.device_put(jnp.arange(8.0).reshape(4, 2), NamedSharding(mesh, PartitionSpec("data")))
y = jax.jit(lambda v: jnp.log(v).sum(0))(x)
print(len(jax.devices()), y.tolist(), [s.data.tolist() for s in x.addressable_shards])
print(jax.jit(jax.shard_map(lambda v: jax.lax.psum(v, "data"), mesh=mesh, in_specs=PartitionSpec("data"), out_specs=PartitionSpec()))(x).tolist())

#%% jax_threads_and_interrupts
import os
import signal
import threading
import jax
import jax.numpy as jnp
f = jax.jit(lambda x: jnp.sin(x) * 2)
got = {}
def work(n):
    got[n] = f(jnp.float32(n)).item()
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(sorted(got.items()), threading.active_count())
try:
    jax.jit(lambda x: os.kill(os.getpid(), signal.SIGINT) or x + 1)(1.0)
except KeyboardInterrupt:
    print("interrupted")
print(f(1.0))
os.kill(os.getpid(), signal.SIGINT)
f(2.0)

#%% jax_exit_while_tracing
import jax
import sys
@jax.jit
def f(x):
    print("traced", x.shape)
    sys.exit(6)
f(1.0)

#%% jax_warnings
import os
import sys
import warnings
import jax
import jax.numpy as jnp
jnp.ones(2).block_until_ready()
warnings.simplefilter("always")
print(jnp.arange(3, dtype="int64").dtype)
print(jnp.asarray(2.0**40, "float64").dtype)
sys.stdout.flush()
child = os.fork()
if not child:
    os._exit(4)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

#%% jax_with_numpy_engine
import jax
import jax.numpy as jnp
import numpy as np
from tfdbg_cli.engines import numpy as tf
x = tf.placeholder(tf.float32, [2], name="x")
y = tf.log(x, name="y")
with tf.Session() as session:
    for n in range(3):
        out = session.run(y, {x: np.float32([n, 1])})
        print(out.tolist(), jax.jit(jnp.exp)(out).tolist(), jax.random.key_data(jax.random.key(n)).tolist())
jnp.ones(2) + jnp.ones(3)

#%% jax_exported
import jax
import jax.numpy as jnp
from jax import export
exported = export.export(jax.jit(lambda x: jnp.cos(x).sum()))(jax.ShapeDtypeStruct((3,), "float32"))
print(exported.in_avals, export.deserialize(exported.serialize()).call(jnp.ones(3)).item())

#%% jax_exported_to_a_file # differs in batch never nonfinite detach keep digest check precision mortem pty listen: JAX writes the stack into it, from the launcher on
import jax
from jax import export
with open("model.bin", "wb") as file:
    file.write(export.export(jax.jit(lambda x: x * 2))(jax.ShapeDtypeStruct((3,), "float32")).serialize())

#%% jax_spawns
import multiprocessing
def work(n):
    import jax
    return jax.jit(lambda x: x * 2)(float(n)).item()
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(work, range(3)))

#%% jax_at_exit # differs in never nonfinite detach digest: the status is taken before functions of atexit make the only run
import atexit
import threading
import jax
import jax.numpy as jnp
atexit.register(lambda: print("at exit", jax.jit(lambda x: x + 1)(1.0).item()))
threading.Timer(0.1, lambda: print("later", jnp.ones(2).sum().item())).start()
print("main ends")

#%% onnx_session
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper
ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
graph = helper.make_graph([helper.make_node("Log", ["x"], ["y"])], "g", ends[:1], ends[1:])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
session = onnxruntime.InferenceSession(model.SerializeToString())
print(session.run(None, {"x": np.zeros(2, "f4")}))
session.run(None, {"z": np.zeros(2, "f4")})

#%% onnx_models
import numpy as np
import onnx
import onnxruntime as ort
def session(text, **options):
    model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 17]>\n' + text)
    onnx.checker.check_model(model)
    made = ort.SessionOptions()
    made.log_severity_level = 4
    for name, value in options.items():
        setattr(made, name, value)
    return ort.InferenceSession(model.SerializeToString(), made)
x = np.float32([-1, 0, 2])
for level in (ort.GraphOptimizationLevel.ORT_DISABLE_ALL, ort.GraphOptimizationLevel.ORT_ENABLE_ALL):
    s = session("g (float[3] x) => (float[3] y, float[3] z) { t = Log(x) y = Add(t, x) z = Relu(t) }", graph_optimization_level=level)
    print([each.tolist() for each in s.run(None, {"x": x})], s.run(["z"], {"x": x}), s.get_providers())
s = session("g (bool c, float[3] x) => (float[3] y) { y = If(c) <then_branch = a () => (float[3] o) { o = Exp(x) }, else_branch = b () => (float[3] p) { p = Neg(x) }> }")
print([s.run(None, {"c": np.array(c), "x": x})[0].tolist() for c in (True, False)])
s = session("g (float[3] x) => (seq(float[3]) y) { y = SequenceConstruct(x, x) }")
print(s.run(None, {"x": x}))

#%% onnx_errors
import numpy as np
import onnx
import onnxruntime as ort
options = ort.SessionOptions()
options.log_severity_level = 4
model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 17]> g (float[N] x, int64[2] s) => (float[A,B] y) { y = Reshape(x, s) }')
session = ort.InferenceSession(model.SerializeToString(), options)
good = {"x": np.ones(4, "f4"), "s": np.int64([2, 2])}
for feed in (good, good | {"s": np.int64([3, 2])}, {"x": good["x"]}, good | {"x": np.ones(4)}, good | {"x": np.ones((2, 2), "f4")}, good | {"t": 1}):
    try:
        print(session.run(None, feed)[0].tolist())
    except Exception as error:
        print(type(error).__name__, str(error)[:80])
try:
    ort.InferenceSession(b"no model", options)
except Exception as error:
    print(type(error).__name__)
ort.InferenceSession("missing.onnx", options)

#%% onnx_first_call_fails
import numpy as np
import onnx
import onnxruntime as ort
model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Exp(x) }')
ort.InferenceSession(model.SerializeToString()).run(None, {"x": np.ones(2)})

#%% onnx_bindings_and_files
import numpy as np
import onnx
import onnxruntime as ort
model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) <float[2] w = {2, 3}> { t = Mul(x, w) y = Sqrt(t) }')
onnx.save(model, "model.onnx")
options = ort.SessionOptions()
options.optimized_model_filepath = "optimized.onnx"
options.log_severity_level = 4
session = ort.InferenceSession("model.onnx", options)
binding = session.io_binding()
binding.bind_cpu_input("x", np.float32([1, -1]))
binding.bind_output("y")
session.run_with_iobinding(binding)
print(binding.copy_outputs_to_cpu()[0].tolist())
value = ort.OrtValue.ortvalue_from_numpy(np.float32([4, 5]))
print(session.run_with_ort_values(None, {"x": value})[0].numpy().tolist())
from onnx.reference import ReferenceEvaluator
print(ReferenceEvaluator(model).run(None, {"x": np.float32([1, -1])})[0].tolist())

#%% onnx_random_and_threads
import threading
import numpy as np
import onnx
import onnxruntime as ort
ort.set_seed(5)
model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { r = RandomUniformLike <seed = 3.0> (x) y = Add(x, r) }')
session = ort.InferenceSession(model.SerializeToString())
print([session.run(None, {"x": np.zeros(2, "f4")})[0].tolist() for _ in range(3)], np.random.RandomState(0).rand())
plain = onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Exp(x) }')
session, got = ort.InferenceSession(plain.SerializeToString()), {}
def work(n):
    got[n] = session.run(None, {"x": np.full(2, n, "f4")})[0].tolist()
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(sorted(got.items()), threading.active_count())
done = threading.Event()
session.run_async(None, {"x": np.zeros(2, "f4")}, lambda out, user, error: (print(out[0].tolist(), user, repr(error)), done.set()), 7)
done.wait(30)

#%% onnx_interrupted
import os
import signal
import numpy as np
import onnx
import onnxruntime as ort
model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Exp(x) }')
session = ort.InferenceSession(model.SerializeToString())
class Told(Exception):
    pass
def handle(number, frame):
    raise Told(number)
signal.signal(signal.SIGUSR1, handle)
try:
    os.kill(os.getpid(), signal.SIGUSR1)
    session.run(None, {"x": np.zeros(2, "f4")})
except Told as told:
    print("told", told)
options = ort.RunOptions()
options.terminate = True
options.log_severity_level = 4
try:
    session.run(None, {"x": np.zeros(2, "f4")}, options)
except Exception as error:
    print(type(error).__name__)
print("flushed", flush=True)
os.kill(os.getpid(), signal.SIGTERM)

#%% onnx_of_torch
import numpy as np
import torch
import onnx
import onnxruntime as ort
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh())
with torch.no_grad():
    w, b = (p.numpy() for p in model[0].parameters())
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Gemm", ["x", "w", "b"], ["h"], transB=1), onnx.helper.make_node("Tanh", ["h"], ["y"])],
        "g",
        [onnx.helper.make_tensor_value_info("x", 1, [1, 2])],
        [onnx.helper.make_tensor_value_info("y", 1, [1, 3])],
        [onnx.numpy_helper.from_array(w, "w"), onnx.numpy_helper.from_array(b, "b")],
    )
    session = ort.InferenceSession(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8).SerializeToString())
    for n in range(3):
        x = torch.rand(1, 2)
        print(model(x).tolist(), session.run(None, {"x": x.numpy()})[0].tolist())
model(torch.ones(1, 3))

#%% jax_warnings_by_action
import jax
import jax.numpy as jnp
import numpy as np
from by_filters import by_filters, user
by_filters(
    {
        "traced": lambda: jax.jit(lambda x: user(x))(jnp.ones(2)),
        "float64": lambda: jnp.zeros(2, dtype="float64"),
        "in it": lambda: jax.jit(lambda x: user(x) + jnp.asarray(x, "float64"))(jnp.ones(3)),
        "gradient": lambda: jax.grad(lambda x: user(x).sum())(jnp.ones(2)),
        "donated": lambda: jax.jit(lambda x: x.sum(), donate_argnums=0)(jnp.ones(5)),
        "numpy": lambda: np.log(np.zeros(2)),
    },
    "jax",
)
