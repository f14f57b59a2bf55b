"""What programs are made of: ops of each engine as lines of source, and what is around those.

An op is a text with ``{out}``, ``{a}`` and ``{b}`` for its result and what it reads: arrays, 4 x 6.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["DIALECTS", "Dialect"]


@dataclass(frozen=True)
class Dialect:
    """How programs of an engine are written.

    Attributes:
        head: what a file of them begins with: ``inputs(seed, dtype)`` and ``told(n, out)``.
        ops: name -> text; with a line break they are statements, else expressions.
        makers: those of them that may make something bad.
        swallowers: those that may hide it.
        dtypes: of the arrays.
        shapes: name -> what is around the lines, with ``{n}``, ``{lines}``, ``{out}``, ``{seed}``
            and ``{dtype}``.
        levels: those that are compared with everything -> whether they promise all ops.
        drops_unused: what leads to no result isn't computed.
    """

    head: str
    ops: Mapping[str, str]
    makers: tuple[str, ...]
    swallowers: tuple[str, ...]
    dtypes: tuple[str, ...]
    shapes: Mapping[str, str]
    levels: Mapping[str, bool]
    drops_unused: bool = False


_INPUTS = """
import sys
import numpy as np

TOPS = {"float16": 65504.0, "bfloat16": 3.38e38, "float32": 3.4028234e38, "float64": 1.797e308}
TINY = {"float16": 6e-8, "bfloat16": 1.2e-38, "float32": 1.2e-38, "float64": 2.3e-308}


def numbers(seed, dtype):
    \"\"\"Three arrays: ordinary numbers, and a few from the ends of the dtype or bad.\"\"\"
    rng = np.random.default_rng(seed)
    top, tiny = TOPS[dtype], TINY[dtype]
    ends = np.array([top, -top, tiny, -tiny, 0.0, -0.0, 1.0, -1.0, top / 2, 1e3, 80.0, -80.0])
    for _ in range(3):
        found = rng.uniform(0.5, 2, (4, 6)) if rng.random() < 0.7 else rng.normal(size=(4, 6))
        count = int(rng.integers(0, 3))
        found.reshape(-1)[rng.integers(0, 24, count)] = rng.choice(ends, count)
        if rng.random() < 0.05:  # bad before the run
            found.reshape(-1)[rng.integers(0, 24)] = rng.choice([np.nan, np.inf, -np.inf])
        yield found


def say(n, arrays):
    bad = any(a.dtype.kind in "fcV" and not np.isfinite(a).all() for a in arrays)
    print(f"@@ {n} {'bad' if bad else 'clean'}", flush=True)
"""

# One function that is compiled.
_COMPILED = """
def program_{n}():
    DECORATOR
    def p(v0, v1, v2):
{lines}
        return {out}

    x, y, z = inputs({seed}, "{dtype}")
    print("@@ {n}", flush=True)
    told({n}, p(x, y, z))
"""

# PyTorch.

_TORCH_HEAD = (
    _INPUTS
    + """
import math
import pathlib
import threading
import torch
from torch import nn

sys.path.insert(0, str(pathlib.Path(r"{tests}") / "engines" / "torch"))
from test_torch_op_facts import CALLS, LINE, X, Operand, of

torch.set_num_threads(1)
INDEX = torch.tensor([0, 3, 1, 1])
PLANTED = [torch.full((), each, dtype=torch.float64) for each in (0.5, float("nan"), float("inf"))]


def inputs(seed, dtype):
    return [torch.tensor(each).to(getattr(torch, dtype)) for each in numbers(seed, dtype)]


MEMORY = {}
for each in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
    MEMORY[each] = [torch.full((8, 6), math.nan, dtype=each) for _ in range(200)]


def memory(like, rows=4):
    return MEMORY[like.dtype].pop()[:rows]


def fit(value, like):
    value = value[0] if isinstance(value, (tuple, list)) else value
    flat = value.to(like.dtype).reshape(-1)
    if not flat.numel():
        return torch.zeros_like(like)
    return flat.repeat(24 // flat.numel() + 1)[:24].reshape(4, 6)


def aten(name, at, a, b):
    plain, _, variant = name.partition(".")
    calls = CALLS.get(name, [of(X), of(LINE)])
    args, more = calls[at % len(calls)].more
    given = iter([a, b, a, b])

    def filled(value):
        if isinstance(value, list):
            return [*map(filled, value)]
        if not isinstance(value, Operand):
            return torch.from_numpy(value.copy()) if isinstance(value, np.ndarray) else value
        made = next(given).reshape(-1)[: math.prod(value.shape)].reshape(value.shape)
        return made.nan_to_num(0, 9, -9).long() if value.dtype else made.clone()

    operator = getattr(getattr(torch.ops.aten, plain), variant or "default")
    return fit(operator(*map(filled, args), **more), a)


def told(n, out):
    say(n, [out.detach().double().numpy()])
"""
)
_TORCH_OPS = {
    **{
        name: f"torch.{name}({{a}})"
        for name in (
            *("log", "sqrt", "exp", "reciprocal", "rsqrt", "log1p", "expm1", "square", "acos"),
            *("atanh", "tan", "sinh", "cosh", "digamma", "lgamma", "erfinv", "nan_to_num"),
            *("tanh", "sigmoid", "relu", "sign", "atan", "erf", "abs", "neg", "floor", "isfinite"),
        )
        if name != "isfinite"
    },
    "add": "{a} + {b}",
    "sub": "{a} - {b}",
    "mul": "{a} * {b}",
    "div": "{a} / {b}",
    "pow": "{a} ** {b}",
    "pow_half": "{a} ** -0.5",
    "square_root_of_difference": "torch.sqrt({a} - {b})",
    "matmul": "({a} @ {b}.mT @ {a})",
    "sum": "{a}.sum(1, keepdim=True).expand(4, 6)",
    "prod": "{a}.prod(0, keepdim=True).expand(4, 6)",
    "mean": "({b} - {a}.mean())",
    "var": "{a}.var(1, keepdim=True) * {b}",
    "cumsum": "torch.cumsum({a}, 1)",
    "softmax": "torch.softmax({a}, -1)",
    "log_softmax": "torch.log_softmax({a}, -1)",
    "layer_norm": "nn.functional.layer_norm({a}, (6,))",
    "norm": "{a} / {a}.norm(dim=1, keepdim=True)",
    "max": "torch.maximum({a}, {b})",
    "half": "{a}.half().to({a}.dtype)",
    "gather": "{a}[:, [0, 0, 1, 2, 3, 5]]",
    "compare": "({a} > {b}).to({a}.dtype)",
    "where": "torch.where({b} > 0, {a}, {b})",
    "where_finite": "torch.where(torch.isfinite({a}), {a}, 0.0)",
    "clip": "{a}.clamp(-1, 1)",
    "argmax": "{a}.argmax(1, keepdim=True).to({a}.dtype).expand(4, 6)",
    "division_by_infinity": "{b} / (1 + {a}.abs())",
    "minimum_of_all": "{a}.amin(0, keepdim=True).expand(4, 6)",
    "integer": "{a}.nan_to_num().clamp(-9, 9).int().to({a}.dtype)",
    "triangle": "torch.tril({a})",
    "mask": "torch.softmax({a}.masked_fill({b} > 1, float('-inf')), -1)",
    "loop": "{out} = {a}\nfor _ in range(3):\n    {out} = {out} * {b} + {a}",
    "branch": (
        "if bool(({a} > 1).any()):\n    {out} = torch.log({b} - 1)\nelse:\n    {out} = {a} / {b}"
    ),
    "in_place": "{out} = {a}.clone()\n{out}.log_()",
    "in_place_after": "{out} = torch.exp({a})\n{a}.clamp_(-1, 1)",
    # Memory from before the run that holds rubbish until it is written to.
    "memory_view": "{out} = memory({a})\n{out}.view(24).copy_({a}.reshape(24))",
    "memory_rows": (
        "{out} = memory({a})\nfor part, row in zip({out}.unbind(), {a}):\n    part.copy_(row * 2)"
    ),
    "memory_part": "{out} = memory({a}, 8)\n{out}[2:6] = {a}\n{out} = {out}[2:6].clone()",
    "memory_rest": "{out} = memory({a}, 8)\n{out}[2:6] = {a}\n{out} = {out}[3:7] + {b}",
    "memory_out": "{out} = memory({a})\nwith torch.no_grad():\n    torch.mul({a}, {b}, out={out})",
    "in_place_view": "{out} = {a} + 1\n{out}[1].sub_({b}[1]).reciprocal_()",
    "thread": (
        "{out} = [{a}]\n"
        "worker = threading.Thread(target=lambda a, o: o.append(torch.log(a)), args=({b}, {out}))\n"
        "worker.start()\nworker.join()\n{out} = {out}[0] + {out}[-1]"
    ),
}
_TORCH_CALL = """
    x, y, z = inputs({seed}, "{dtype}")
    print("@@ {n}", flush=True)
    {around}:
        out = P{n}()(x, y, z)
    told({n}, out)
"""
_TORCH_CLASS = """
def program_{n}():
    class P{n}(nn.Module):
        def forward(self, v0, v1, v2):
{lines}
            return {out}
"""
_TORCH_TRAINING = """
def program_{n}():
    class P{n}(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(()))
        def forward(self, v0, v1, v2):
            v0, v1 = v0 * self.weight, v1 * self.weight
{lines}
            return {out} * self.weight
    x, y, z = inputs({seed}, "{dtype}")
    print("@@ {n}", flush=True)
    model = P{n}().to(x.dtype)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    out = model(x, y, z)
    out.sum().backward()
    optimizer.step()
    told({n}, out)
"""
_TORCH_SHAPES = {
    "no_grad": _TORCH_CLASS + _TORCH_CALL.replace("{around}", "with torch.no_grad()"),
    "inference": _TORCH_CLASS + _TORCH_CALL.replace("{around}", "with torch.inference_mode()"),
    "gradient": """
def program_{n}():
    x, y, z = inputs({seed}, "{dtype}")
    print("@@ {n}", flush=True)
    weight = torch.ones((), dtype=x.dtype, requires_grad=True)
    v0, v1, v2 = x * weight, y * weight, z * weight
{lines}
    ({out} * weight).sum().backward()
    told({n}, {out})
""",
    "training": _TORCH_TRAINING,
    # A state that was loaded, and that may be bad.
    "resumed": _TORCH_TRAINING.replace("0.1)", "0.1, momentum=0.5)").replace(
        "    out = model",
        "    state = PLANTED[{seed} % 3].to(x.dtype)\n"
        "    optimizer.state[model.weight]['momentum_buffer'] = state\n"
        "    out = model",
    ),
}

# JAX.

_JAX_HEAD = (
    _INPUTS
    + """
import jax
import jax.numpy as jnp

levels = sys.modules.get("tfdbg_cli.engines.jax.runs.ops_level")
if levels is not None:  # on a busy machine as well a twin is there at the first call
    levels._PATIENCE, levels._MOST_SECONDS = 1e6, 600


def inputs(seed, dtype):
    return [jnp.asarray(each, dtype) for each in numbers(seed, dtype)]


def fit(value, like):
    value = value[0] if isinstance(value, (tuple, list)) else value
    return jnp.resize(value.astype(like.dtype), (4, 6))


def told(n, out):
    say(n, [np.asarray(out, "float64")])
"""
)
_JAX_OPS = {
    **{
        name: f"jax.lax.{name}({{a}})"
        for name in (
            *("abs", "asinh", "atan", "cbrt", "ceil", "cos", "erf", "erfc", "floor", "logistic"),
            *(
                "neg",
                "round",
                "sign",
                "sin",
                "sort",
                "tanh",
                "log",
                "sqrt",
                "exp",
                "rsqrt",
                "log1p",
            ),
            *("expm1", "square", "acos", "atanh", "tan", "sinh", "cosh", "digamma", "lgamma"),
            *("erf_inv", "reciprocal", "stop_gradient", "optimization_barrier"),
        )
    },
    "add": "{a} + {b}",
    "sub": "{a} - {b}",
    "mul": "{a} * {b}",
    "div": "{a} / {b}",
    "pow": "{a} ** {b}",
    "integer_pow": "{a} ** -2",
    "square_root_of_difference": "jnp.sqrt({a} - {b})",
    "matmul": "{a} @ {b}.T @ {a}",
    "sum": "jnp.broadcast_to({a}.sum(1, keepdims=True), (4, 6))",
    "prod": "jnp.broadcast_to({a}.prod(0, keepdims=True), (4, 6))",
    "mean": "{b} - {a}.mean()",
    "var": "{a}.var(1, keepdims=True) * {b}",
    "cumsum": "jnp.cumsum({a}, 1)",
    "cummax": "jax.lax.cummax({a})",
    "softmax": "jax.nn.softmax({a})",
    "log_softmax": "jax.nn.log_softmax({a})",
    "norm": "{a} / jnp.linalg.norm({a}, axis=1, keepdims=True)",
    "max": "jnp.maximum({a}, {b})",
    "atan2": "jnp.arctan2({a}, {b})",
    "half": "{a}.astype('float16').astype({a}.dtype)",
    "gather": "{a}[:, jnp.array([0, 0, 1, 2, 3, 5])]",
    "scatter": "{a}.at[1].set({b}[2])",
    "slice": "fit({a}[1:3, 2:], {a})",
    "pad": "jnp.pad({a}, 1)[:4, :6]",
    "concatenate": "jnp.concatenate([{a}[:2], {b}[2:]])",
    "top_k": "fit(jax.lax.top_k({a}, 2), {a})",
    "transpose": "fit({a}.T, {a})",
    "compare": "({a} > {b}).astype({a}.dtype)",
    "where": "jnp.where({b} > 0, {a}, {b})",
    "where_finite": "jnp.where(jnp.isfinite({a}), {a}, 0)",
    "clip": "jnp.clip({a}, -1, 1)",
    "argmax": "jnp.broadcast_to({a}.argmax(1, keepdims=True).astype({a}.dtype), (4, 6))",
    "division_by_infinity": "{b} / (1 + jnp.abs({a}))",
    "minimum_of_all": "jnp.broadcast_to({a}.min(0, keepdims=True), (4, 6))",
    "loop": "jax.lax.fori_loop(0, 3, lambda i, c, b={b}, a={a}: c * b + a, {a})",
    "scan": "jax.lax.scan(lambda c, x: (c * x[0], jnp.log(c)), {a}[0], {b})[1].reshape(4, 6)",
    "while": (
        "jax.lax.while_loop(lambda c: c[0] < 3, "
        "lambda c: (c[0] + 1, c[1] / 0.5 * c[1]), (0, {a}))[1]"
    ),
    "branch": (
        "jax.lax.cond(({a} > 1).any(), lambda a, b: jnp.log(b - 1), lambda a, b: a / b, {a}, {b})"
    ),
    "nested": "jax.jit(lambda a, b: jnp.log(a) * b)({a}, {b})",
    "checkpoint": "jax.checkpoint(lambda a: jnp.sqrt(a - 1))({a})",
    "gradient": "jax.grad(lambda a, b: (jnp.sqrt(a) * b).sum())({a}, {b})",
    "vmap": "jax.vmap(lambda a, b: a / b)({a}, {b})",
}
_JAX_SHAPES = {"jit": _COMPILED.replace("DECORATOR", "@jax.jit")}

# TensorFlow 2.

_TF_HEAD = (
    _INPUTS
    + """
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf


def inputs(seed, dtype):
    return [tf.constant(each, dtype) for each in numbers(seed, dtype)]


def fit(value, like):
    value = value[0] if isinstance(value, (tuple, list)) else value
    flat = tf.reshape(tf.cast(value, like.dtype), [-1])
    return tf.reshape(tf.tile(flat, [24])[:24], [4, 6])


def told(n, out):
    say(n, [out.numpy().astype("float64")])
"""
)
_TF_OPS = {
    **{
        name: f"tf.raw_ops.{name}({argument}={{a}})"
        for argument, names in {
            "x": (
                "Abs Acos Atanh Ceil Cos Cosh Digamma Erf Erfinv Exp Expm1 Floor Lgamma Log Log1p "
                "Neg OnesLike Reciprocal Rint Round Rsqrt Sigmoid Sign Sin Sinh Sqrt Square Tan "
                "Tanh ZerosLike"
            ),
            "features": "Elu LeakyRelu Relu Relu6 Selu Softplus Softsign",
            "input": "Identity Snapshot StopGradient",
            "logits": "Softmax LogSoftmax",
        }.items()
        for name in names.split()
    },
    "add": "{a} + {b}",
    "sub": "{a} - {b}",
    "mul": "{a} * {b}",
    "div": "{a} / {b}",
    "pow": "{a} ** {b}",
    "square_root_of_difference": "tf.sqrt({a} - {b})",
    "steep": "tf.nn.leaky_relu({a}, alpha=3.0)",
    "matmul": "{a} @ tf.transpose({b}) @ {a}",
    "sum": "tf.broadcast_to(tf.reduce_sum({a}, 1, keepdims=True), [4, 6])",
    "prod": "tf.broadcast_to(tf.reduce_prod({a}, 0, keepdims=True), [4, 6])",
    "mean": "{b} - tf.reduce_mean({a})",
    "cumsum": "tf.cumsum({a}, 1)",
    "exclusive": "tf.cumsum({a}, 1, exclusive=True)",
    "norm": "{a} / tf.norm({a}, axis=1, keepdims=True)",
    "max": "tf.maximum({a}, {b})",
    "half": "tf.cast(tf.cast({a}, tf.float16), {a}.dtype)",
    "gather": "tf.gather({a}, [0, 0, 1, 2, 3, 5], axis=1)",
    "slice": "fit({a}[1:3, 2:], {a})",
    "pad": "tf.pad({a}, [[1, 0], [0, 1]])[:4, :6]",
    "concat": "tf.concat([{a}[:2], {b}[2:]], 0)",
    "stack": "fit(tf.stack([{a}, {b}]), {a})",
    "top_k": "fit(tf.math.top_k({a}, 2), {a})",
    "transpose": "fit(tf.transpose({a}), {a})",
    "band": "tf.linalg.band_part({a}, -1, 0)",
    "reverse": "tf.reverse({a}, [0])",
    "roll": "tf.roll({a}, 1, 0)",
    "tile": "tf.tile({a}, [2, 1])[2:6]",
    "compare": "tf.cast({a} > {b}, {a}.dtype)",
    "where": "tf.where({b} > 0, {a}, {b})",
    "where_finite": "tf.where(tf.math.is_finite({a}), {a}, tf.zeros_like({a}))",
    "clip": "tf.clip_by_value({a}, -1, 1)",
    "argmax": "tf.broadcast_to(tf.cast(tf.argmax({a}, 1)[:, None], {a}.dtype), [4, 6])",
    "division_by_infinity": "{b} / (1 + tf.abs({a}))",
    "minimum_of_all": "tf.broadcast_to(tf.reduce_min({a}, 0, keepdims=True), [4, 6])",
    "loop": "tf.while_loop(lambda i, c: i < 3, lambda i, c, b={b}: (i + 1, c * b), (0, {a}))[1]",
    "branch": (
        "tf.cond(tf.reduce_any({a} > 1), "
        "lambda b={b}: tf.math.log(b - 1), lambda a={a}, b={b}: a / b)"
    ),
    "nested": "tf.function(lambda a, b: tf.math.log(a) * b)({a}, {b})",
}
_TF_SHAPES = {"function": _COMPILED.replace("DECORATOR", "@tf.function(autograph=False)")}

# ONNX Runtime.

_ONNX_HEAD = (
    _INPUTS
    + """
import onnx
import onnxruntime
from onnx import helper

onnxruntime.set_default_logger_severity(4)
KINDS = {{"float32": ("float", 1), "float64": ("double", 11)}}


def inputs(seed, dtype):
    return {{f"v{{n}}": each.astype(dtype) for n, each in enumerate(numbers(seed, dtype))}}


def session(lines, out, dtype, optimised):
    kind, number = KINDS[dtype]
    text = '<ir_version: 8, opset_import: ["" : 17]>\\n'
    text += f"g ({{kind}}[4, 6] v0, {{kind}}[4, 6] v1, "
    text += f"{{kind}}[4, 6] v2) => ({{kind}}[N, M] {{out}}) {{{{\\n{{lines}}}}}}"
    model = onnx.parser.parse_model(text.replace("FLOAT", str(number)).replace("KIND", kind))
    options = onnxruntime.SessionOptions()
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def told(n, out):
    say(n, out)
"""
)
_ONNX_OPS = {
    **{
        name: f"{{out}} = {name} ({{a}})"
        for name in (
            *(
                "Abs",
                "Ceil",
                "Erf",
                "Floor",
                "Identity",
                "LeakyRelu",
                "Neg",
                "Relu",
                "Round",
                "Sigmoid",
            ),
            *(
                "Sign",
                "Softsign",
                "Tanh",
                "Exp",
                "Log",
                "Sqrt",
                "Reciprocal",
                "Softplus",
                "Softmax",
            ),
            *("LogSoftmax", "Elu", "Selu", "HardSigmoid"),
        )
    },
    **{
        name: f"{{out}} = {name} ({{a}}, {{b}})"
        for name in ("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Sum", "PRelu")
    },
    "steep": "{out} = LeakyRelu <alpha = 3.0> ({a})",
    "root_of_difference": "{out}d = Sub ({a}, {b})\n{out} = Sqrt ({out}d)",
    "MatMul": (
        "{out}t = Transpose ({b})\n{out}m = MatMul ({a}, {out}t)\n{out} = MatMul ({out}m, {a})"
    ),
    "Gemm": "{out}g = Gemm <transB = 1> ({a}, {b})\n{out} = MatMul ({out}g, {b})",
    "ReduceSum": "{out}r = ReduceSum ({a})\n{out} = Mul ({out}r, {b})",
    "ReduceMean": "{out}r = ReduceMean <axes = [1]> ({a})\n{out} = Sub ({b}, {out}r)",
    "ReduceMax": "{out}r = ReduceMax <axes = [0]> ({a})\n{out} = Add ({out}r, {b})",
    "ReduceProd": "{out}r = ReduceProd <axes = [0]> ({a})\n{out} = Add ({out}r, {b})",
    "LayerNormalization": (
        "{out}s = Constant <value = KIND[6] {{1, 1, 1, 1, 1, 1}}> ()\n"
        "{out} = LayerNormalization ({a}, {out}s)"
    ),
    "Transpose": "{out}t = Transpose ({a})\n{out}u = Neg ({out}t)\n{out} = Transpose ({out}u)",
    "Concat": "{out}c = Concat <axis = 1> ({a}, {b})\n{out}m, {out} = Split <axis = 1> ({out}c)",
    "Cast": "{out}h = Cast <to = 10> ({a})\n{out} = Cast <to = FLOAT> ({out}h)",
    "compare": "{out}c = Greater ({a}, {b})\n{out} = Cast <to = FLOAT> ({out}c)",
    "Where": "{out}c = Greater ({b}, {a})\n{out} = Where ({out}c, {a}, {b})",
    "IsNaN": "{out}c = IsNaN ({a})\n{out} = Where ({out}c, {b}, {a})",
    "Clip": (
        "{out}l = Constant <value = KIND {{-1}}> ()\n{out}h = Constant <value = KIND {{1}}> ()\n"
        "{out} = Clip ({a}, {out}l, {out}h)"
    ),
    "ArgMax": (
        "{out}i = ArgMax <axis = 1> ({a})\n{out}f = Cast <to = FLOAT> ({out}i)\n"
        "{out} = Add ({out}f, {b})"
    ),
    "division_by_infinity": "{out}a = Abs ({a})\n{out} = Div ({b}, {out}a)",
    "If": (
        "{out}m = ReduceMax <keepdims = 0> ({a})\n{out}o = Constant <value = KIND {{2}}> ()\n"
        "{out}c = Greater ({out}m, {out}o)\n"
        "{out} = If ({out}c) <"
        "then_branch = yes () => (KIND[4, 6] {out}y) {{ {out}y = Log ({b}) }}, "
        "else_branch = no () => (KIND[4, 6] {out}n) {{ {out}n = Div ({a}, {b}) }}>"
    ),
}
_ONNX_CALL = """
def program_{n}():
    lines = '''
{lines}
'''
    p = session(lines, "{out}", "{dtype}", optimised)
    given = inputs({seed}, "{dtype}")
    print("@@ {n}", flush=True)
    told({n}, p.run(None, given))
"""
_ONNX_SHAPES = {
    "as_it_is": _ONNX_CALL.replace("optimised", "False"),
    "optimised": _ONNX_CALL.replace("optimised", "True"),
}

# The NumPy engine.

_NUMPY_HEAD = (
    _INPUTS
    + """
from tfdbg_cli.engines import numpy as tf

np.seterr(all="ignore")


def inputs(seed, dtype):
    return [each.astype(dtype) for each in numbers(seed, dtype)]


def told(n, out):
    say(n, [out])
"""
)
_NUMPY_OPS = {
    "log": "tf.log({a})",
    "square": "tf.square({a})",
    "negative": "tf.negative({a})",
    "identity": "tf.identity({a})",
    "relu": "tf.nn.relu({a})",
    "softmax": "tf.nn.softmax({a})",
    "add": "tf.add({a}, {b})",
    "sub": "tf.subtract({a}, {b})",
    "mul": "tf.multiply({a}, {b})",
    "div": "tf.divide({a}, {b})",
    "floordiv": "tf.floordiv({a}, {b})",
    "matmul": "tf.matmul(tf.matmul({a}, tf.transpose({b})), {a})",
    "sum": "tf.add(tf.reduce_sum({a}), {b})",
    "mean": "tf.subtract({b}, tf.reduce_mean({a}))",
    "half": 'tf.cast(tf.cast({a}, "float16"), {a}.dtype)',
    "compare": "tf.cast(tf.greater({a}, {b}), {a}.dtype)",
    "where": "tf.where(tf.greater({b}, {a}), {a}, {b})",
    "division_by_infinity": "tf.divide({b}, tf.square({a}))",
    "loop": (
        "tf.while_loop(lambda i, c: tf.less(i, 3), "
        "lambda i, c, b={b}: (tf.add(i, 1), tf.multiply(c, b)), [tf.constant(0), {a}])[1]"
    ),
}
_NUMPY_SHAPES = {
    "session": """
def program_{n}():
    graph = tf.Graph()
    with graph.as_default():
        v0, v1, v2 = given = [tf.placeholder("{dtype}", [4, 6], name=f"v{{i}}") for i in range(3)]
{lines}
        session = tf.Session(graph=graph)
    feeds = dict(zip(given, inputs({seed}, "{dtype}"), strict=True))
    print("@@ {n}", flush=True)
    told({n}, session.run({out}, feeds))
"""
}

_PYTHON_SWALLOWERS = (
    *("tanh", "compare", "where", "where_finite", "clip", "argmax", "division_by_infinity"),
    "minimum_of_all",
)
_PYTHON_MAKERS = (
    "log",
    "sqrt",
    "exp",
    "div",
    "pow",
    "mul",
    "sub",
    "square_root_of_difference",
    "matmul",
)

DIALECTS: Mapping[str, Dialect] = {
    "torch": Dialect(
        _TORCH_HEAD,
        _TORCH_OPS,
        (*_PYTHON_MAKERS, "reciprocal", "rsqrt", "in_place", "loop", "branch"),
        (*_PYTHON_SWALLOWERS, "nan_to_num", "mask", "in_place_after"),
        ("float32", "float16", "bfloat16", "float64"),
        _TORCH_SHAPES,
        {"ops": True, "modules": False},
    ),
    "jax": Dialect(
        _JAX_HEAD.replace("{{", "{").replace("}}", "}"),
        _JAX_OPS,
        (*_PYTHON_MAKERS, "rsqrt", "loop", "scan", "branch", "gradient"),
        (*_PYTHON_SWALLOWERS, "scatter"),
        ("float32", "float16", "bfloat16"),
        _JAX_SHAPES,
        {"ops": True, "modules": False},
        drops_unused=True,
    ),
    "tensorflow2": Dialect(
        _TF_HEAD,
        _TF_OPS,
        ("Log", "Sqrt", "Exp", "Rsqrt", *_PYTHON_MAKERS[3:], "loop", "branch"),
        ("Tanh", *_PYTHON_SWALLOWERS[1:], "Relu6"),
        ("float32", "float16", "float64"),
        _TF_SHAPES,
        {"auto": True},
    ),
    "onnx": Dialect(
        _ONNX_HEAD,
        _ONNX_OPS,
        ("Log", "Sqrt", "Exp", "Div", "Pow", "Mul", "Sub", "root_of_difference", "MatMul", "Gemm"),
        ("Tanh", "compare", "Where", "IsNaN", "Clip", "ArgMax", "division_by_infinity", "Relu"),
        ("float32", "float64"),
        _ONNX_SHAPES,
        {"ops": True, "modules": False},
    ),
    "numpy": Dialect(
        _NUMPY_HEAD,
        _NUMPY_OPS,
        ("log", "div", "floordiv", "mul", "square", "matmul", "half"),
        ("relu", "compare", "where", "division_by_infinity"),
        ("float32", "float16", "float64"),
        _NUMPY_SHAPES,
        {"auto": True},
    ),
}
