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
