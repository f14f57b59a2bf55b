"""Filters for numbers that are wrong and yet finite, on programs of every engine.

Each case is computed by a real program, once for each filter. It has to stop the filter that it
names, with these words, and no other filter.
"""

from __future__ import annotations

import importlib.util
import json
import re

import pytest
from program_server import shared
from samples import sample

FILTERS = ("constant", "broadcast", "stuck")
_TIMES = f"""
def times(name):
    for wanted in {FILTERS}:
        print("case:", name, wanted, flush=True)
        yield
"""
_NUMPY = """
import numpy as np
from tfdbg_cli.engines import numpy as tf

made = np.random.RandomState(0)
feeds = {}
def fed(name, *shape):
    node = tf.placeholder(tf.float32, shape, name=name)
    feeds[node] = made.rand(*shape).astype("f")
    return node
one, row, few, wide = fed("one", 16, 1), fed("row", 16), fed("few", 2, 1), fed("wide", 16, 8)
square = fed("square", 16, 16)
def case(name, node):
    node = node()
    with tf.Session() as session:
        for _ in times(name):
            session.run(node, feeds)
"""
_TORCH = """
import warnings
import torch
from torch import nn
from torch.nn import functional as F

warnings.simplefilter("ignore")
torch.manual_seed(0)
x, row = torch.randn(16, 8), torch.randn(16)
head = nn.Linear(8, 1)
class Zero(nn.LayerNorm):
    def reset_parameters(self):
        nn.init.zeros_(self.weight)
        nn.init.zeros_(self.bias)
class Scaled(torch.optim.Adam):
    # It is told what a scaler of 1000 tells.
    def step(self):
        gradients = [each.grad for group in self.param_groups for each in group["params"]]
        found = torch.stack([each.isfinite().all().logical_not() for each in gradients]).any()
        self.grad_scale, self.found_inf = torch.tensor(1000.0), found.float()
        super().step()
def case(name, function):
    for _ in times(name):
        net = nn.Sequential(nn.Linear(8, 8), nn.Tanh())
        optimizer = torch.optim.Adam(net.parameters(), 1e-3)
        loss = function(net(x))
        loss.backward()
        optimizer.step()
def trained(name, make, dtype=torch.float32, scale=1.0):
    for _ in times(name):
        net = nn.Linear(8, 1).to(dtype)
        optimizer = make(net.parameters())
        (net(x.to(dtype)).square().mean() * scale).backward()
        optimizer.step()
"""
_TENSORFLOW = """
import tensorflow as tf

tf.random.set_seed(0)
x, row, square = tf.random.normal((16, 8)), tf.random.normal((16,)), tf.random.normal((16, 16))
w, v = tf.Variable(tf.random.normal((8, 8))), tf.Variable(tf.random.normal((8, 1)))
norm = tf.keras.layers.LayerNormalization()
norm.build((16, 1))
def case(name, function):
    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = function(x @ w)
        return loss, tape.gradient(loss, w)
    for _ in times(name):
        step()
def trained(name, rate, by_hand):
    weight = tf.Variable(tf.ones((8, 1)))
    optimizer = rate() if callable(rate) else tf.keras.optimizers.SGD(rate)
    optimizer.build([weight])
    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x @ weight) ** 2)
        gradient = tape.gradient(loss, weight)
        if by_hand:
            weight.assign_add(-rate * gradient)
        else:
            optimizer.apply_gradients([(gradient, weight)])
        return loss
    for _ in times(name):
        step()
"""
_JAX = """
import jax
import jax.numpy as jnp

made = jax.random.split(jax.random.key(0), 5)
x, w, v = (jax.random.normal(key, shape) for key, shape in zip(made, ((16, 8), (8, 8), (8, 1))))
row, square = jax.random.normal(made[3], (16,)), jax.random.normal(made[4], (16, 16))
def case(name, function):
    step = jax.jit(jax.value_and_grad(lambda w, x, v, row, square: function(x @ w, v, row, square)))
    for _ in times(name):
        jax.block_until_ready(step(w, x, v, row, square))
def trained(name, rate, dtype="float32"):
    @jax.jit
    def step(w, x):
        loss, gradient = jax.value_and_grad(lambda w: ((x @ w) ** 2).mean())(w)
        return w - rate * gradient, loss
    given = w.astype(dtype), x.astype(dtype)
    for _ in times(name):
        jax.block_until_ready(step(*given))
"""
_ONNX = """
import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

made = np.random.RandomState(0)
SHAPES = {"one": (16, 1), "row": (16,), "wide": (16, 8), "square": (16, 16)}
FEEDS = {name: made.randn(*shape).astype("f") for name, shape in SHAPES.items()}
HELD = {"scale": np.ones(1, "f"), "nought": np.zeros(1, "f"), "last": np.int64([1])}
HELD |= {"zeros": np.zeros((8, 8), "f"), "high": np.float32(-1e6)}
def case(name, text):
    nodes = [onnx.parser.parse_node(each.strip()) for each in text.split(";")]
    read = {each for node in nodes for each in node.input}
    kinds = [helper.make_tensor_value_info(n, 1, s) for n, s in SHAPES.items() if n in read]
    held = [numpy_helper.from_array(HELD[n], n) for n in HELD if n in read]
    graph = helper.make_graph(nodes, "g", kinds, [helper.make_empty_tensor_value_info("y")], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    model = onnx.shape_inference.infer_shapes(model)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for _ in times(name):
        session.run(None, {n: FEEDS[n] for n in SHAPES if n in read})
"""
_HEADS = {
    "numpy": _NUMPY,
    "torch": _TORCH,
    "tensorflow": _TENSORFLOW,
    "jax": _JAX,
    "onnx": _ONNX,
}

_ONE_ELEMENT = "constant", "it normalizes over one element"
_MEAN = "constant", "it subtracts the mean of one element"
_CLASS = "constant", "a softmax over one class is 1"
_END = "constant", "is at its end for all of them, all are 0"
_STUCK = "stuck", r"no element of \S+ changes: the update is \S+ where half an ulp of \w+ is"
_STUCK_FUSED = "stuck", r"no element of \S+ changes: _fused_\w+_ rounds the update away in \w+, at"
_MEAN_OF_PAIRS = "broadcast", r"\[16, 1\] and \S+ \[16\] give \[16, 16\], and \S+ is the mean"
_SUM_OF_PAIRS = "broadcast", r"\[16, 1\] and \S+ \[16\] give \[16, 16\], and \S+ is the sum"
_LOSS_OF_PAIRS = "broadcast", r"\[16, 1\] and \S+ \[16\] give .*, and mse_loss is the loss"

#: Engine -> what it computes -> what is to be said; ``None``: nothing, it is meant.
CASES: dict[str, dict[str, tuple[str, str] | None]] = {
    "numpy": {
        "lambda: one - tf.reduce_mean(one, 1, keepdims=True)": _MEAN,
        "lambda: tf.nn.softmax(one)": _CLASS,
        "lambda: few - tf.reduce_mean(few, 1, keepdims=True)": None,
        "lambda: wide - tf.reduce_mean(wide, 1, keepdims=True)": None,
        "lambda: tf.nn.softmax(wide)": None,
        "lambda: wide * 0.0": None,
        "lambda: tf.reduce_mean(tf.square(one - row))": _MEAN_OF_PAIRS,
        "lambda: tf.reduce_mean(tf.reduce_sum(row * one, 1))": _MEAN_OF_PAIRS,
        "lambda: tf.reduce_mean(tf.nn.softmax(one - row))": None,
        "lambda: tf.reduce_mean(tf.square(one - row - square))": None,
        "lambda: tf.matmul(one - row, square)": None,
        "lambda: tf.reduce_mean(tf.square(few - tf.reshape(one, [16])))": None,
        "lambda: tf.reduce_mean(tf.square(tf.reshape(row, [16, 1]) - row))": None,
    },
    "torch": {
        "lambda h: (nn.LayerNorm(1)(head(h))[:, 0] * row).sum()": _ONE_ELEMENT,
        "lambda h: (F.layer_norm(h[:, :1].round() * 2 - 1, [1])[:, 0] * row).sum()": _ONE_ELEMENT,
        "lambda h: (lambda p: (p - p.mean(-1, keepdim=True))[:, 0] * row)(head(h)).sum()": _MEAN,
        "lambda h: (head(h).softmax(-1)[:, 0] * row).sum()": _CLASS,
        "lambda h: head(F.relu(h - 5)).sum()": _END,
        "lambda h: head(torch.sigmoid(h * 1e-3 + 200)).sum()": (
            "constant",
            "sigmoid is at its end for all of them, all are 1",
        ),
        "lambda h: head(torch.sigmoid(h + 15.5)).sum()": (
            "constant",
            "sigmoid is at its end for all of them",
        ),
        "lambda h: head(torch.sigmoid(h + 9)).sum()": None,
        "lambda h: (Zero(8)(h) + h).sum()": None,
        "lambda h: head(nn.LayerNorm(8)(h)).sum()": None,
        "lambda h: F.linear(h, torch.zeros(3, 8, requires_grad=True)).sum()": None,
        "lambda h: F.relu(head(h) - 99).sum()": None,
        "lambda h: (h - h.detach()).exp().mul(row[:, None]).sum()": None,
        "lambda h: h.reshape(16, 2, 4).softmax(1)[:, :, :1].softmax(-1).sum()": None,
        "lambda h: F.dropout(h, 1.0).sum()": None,
        "lambda h: (head(h) - row).square().mean()": _MEAN_OF_PAIRS,
        "lambda h: (row * head(h).sigmoid().log()).mean(1).mean()": _MEAN_OF_PAIRS,
        "lambda h: F.mse_loss(head(h), row)": _LOSS_OF_PAIRS,
        "lambda h: (h[:, :1] - row).abs().sum()": _SUM_OF_PAIRS,
        "lambda h: (head(h).squeeze(-1) - row).square().mean()": None,
        "lambda h: F.mse_loss(head(h), row[:, None])": None,
        "lambda h: (head(h)[:, 0][:, None] - row).square().mean()": None,
        "lambda h: (lambda p: p - p[:, 0])(head(h)).square().mean()": None,
        "lambda h: (head(h) - head(h).T).square().mean()": None,
        "lambda h: (head(h).expand(16, 16) - row).square().mean()": None,
        "lambda h: (-(head(h) - row).square()).exp().mean()": None,
        "lambda h: ((head(h) - row) - torch.eye(16)).square().mean()": None,
        "lambda h: ((head(h) + row).softmax(-1) @ h).mean()": None,
        "trained: lambda p: torch.optim.SGD(p, 1e-9, foreach=False)": _STUCK,
        "trained: lambda p: torch.optim.SGD(p, 1e-9, momentum=0.9, foreach=True)": _STUCK,
        "trained: lambda p: torch.optim.Adam(p, 1e-5, foreach=False), torch.bfloat16": _STUCK,
        "trained: lambda p: torch.optim.AdamW(p, 1e-9, foreach=True)": _STUCK,
        "trained: lambda p: torch.optim.SGD(p, 1e-9, fused=True)": _STUCK_FUSED,
        "trained: lambda p: torch.optim.Adam(p, 1e-9, fused=True)": _STUCK_FUSED,
        "trained: lambda p: torch.optim.AdamW(p, 1e-5, fused=True), torch.bfloat16": _STUCK_FUSED,
        "trained: lambda p: torch.optim.Adagrad(p, 1e-9, fused=True)": _STUCK_FUSED,
        "trained: lambda p: torch.optim.Adam(p, 1e-3, fused=True)": None,
        "trained: lambda p: torch.optim.Adam(p, 0.0, fused=True)": None,
        "trained: lambda p: Scaled(p, 1e-9, fused=True), torch.float32, 1e3": _STUCK_FUSED,
        "trained: lambda p: Scaled(p, 1e-9, fused=True), torch.float32, 1e-6": None,
        "trained: lambda p: Scaled(p, 1e-9, fused=True), torch.float32, float('inf')": None,
        "trained: lambda p: torch.optim.SGD(p, 1e-3)": None,
        "trained: lambda p: torch.optim.SGD(p, 0.0, foreach=False)": None,
        "trained: lambda p: torch.optim.SGD(p, 0.0, foreach=True)": None,
        "trained: lambda p: torch.optim.Adam(p, 0.0, foreach=False)": None,
        "trained: lambda p: torch.optim.Adam(p, 0.0, foreach=True)": None,
        "trained: lambda p: torch.optim.SGD(p, 1e-3), torch.float32, 1e-6": None,
        "trained: lambda p: torch.optim.Adam(p, 1e-2), torch.bfloat16": None,
        "lambda h: h.add(1e-12).sum()": None,
    },
    "tensorflow": {
        "lambda h: tf.reduce_sum(norm(h @ v)[:, 0] * row)": _MEAN,
        "lambda h: tf.reduce_sum(tf.nn.softmax(h @ v)[:, 0] * row)": _CLASS,
        "lambda h: tf.reduce_sum(tf.nn.relu(h - 99.0))": _END,
        "lambda h: tf.reduce_sum(tf.nn.softmax(h))": None,
        "lambda h: tf.reduce_sum(h @ tf.zeros((8, 4)))": None,
        "lambda h: tf.reduce_mean((h @ v - row) ** 2)": _MEAN_OF_PAIRS,
        "lambda h: tf.reduce_mean(tf.math.squared_difference(h @ v, row))": _MEAN_OF_PAIRS,
        "lambda h: tf.reduce_mean((h @ v - row[:, None]) ** 2)": None,
        "lambda h: tf.reduce_mean(((h @ v)[:, 0][:, None] - row) ** 2)": None,
        "lambda h: tf.reduce_mean((tf.expand_dims(h[:, 0], 1) - row) ** 2)": None,
        "lambda h: tf.reduce_mean((h @ v + row - square) ** 2)": None,
        "trained: 1e-12, False": _STUCK,
        "trained: 1e-12, True": _STUCK,
        "trained: lambda: tf.keras.optimizers.SGD(1e-12, momentum=0.9), False": _STUCK,
        "trained: lambda: tf.keras.optimizers.Adam(1e-12), False": _STUCK,
        "trained: lambda: tf.keras.optimizers.AdamW(1e-2), False": None,
        "trained: lambda: tf.keras.optimizers.AdamW(1e-2, 1e-9), False": None,
        "trained: lambda: tf.keras.optimizers.Adam(0.0), False": None,
        "trained: 1e-3, False": None,
        "trained: 0.0, False": None,
        "trained: 0.0, True": None,
    },
    "jax": {
        "lambda h, v, row, _: (jax.nn.standardize(h @ v)[:, 0] * row).sum()": _MEAN,
        "lambda h, v, row, _: (jax.nn.softmax(h @ v)[:, 0] * row).sum()": (
            "constant",
            "it subtracts the maximum of one element",
        ),
        "lambda h, v, row, _: jax.nn.sigmoid(h + 999.0).sum()": (
            "constant",
            "logistic is at its end for all of them, all are 1",
        ),
        "lambda h, v, row, _: jax.nn.standardize(h).sum()": None,
        "lambda h, v, row, _: (h - jax.lax.stop_gradient(h)).sum()": None,
        "lambda h, v, row, _: jax.nn.softmax(h.reshape(16, 8, 1)).sum()": None,
        "lambda h, v, row, _: ((h @ v - row) ** 2).mean()": _SUM_OF_PAIRS,
        "lambda h, v, row, _: ((h @ v - row[:, None]) ** 2).mean()": None,
        "lambda h, v, row, _: ((h[:, 0][:, None] - row[None, :]) ** 2).mean()": None,
        "lambda h, v, row, _: ((h @ v + row - _) ** 2).mean()": None,
        "trained: 1e-12": _STUCK,
        "trained: 1e-6, 'bfloat16'": _STUCK,
        "trained: 1e-3": None,
        "trained: 0.0": None,
    },
    "onnx": {
        "'y = LayerNormalization(one, scale, nought)'": _ONE_ELEMENT,
        "'m = ReduceMean<axes = [1]>(one); y = Sub(one, m)'": _MEAN,
        "'y = Softmax<axis = 1>(one)'": _CLASS,
        "'low = Add(wide, high); y = Relu(low)'": _END,
        "'y = LayerNormalization(one, nought, nought)'": None,
        "'y = Softmax<axis = 1>(wide)'": None,
        "'y = MatMul(wide, zeros)'": None,
        "'d = Sub(one, row); e = Mul(d, d); y = ReduceMean<keepdims = 0>(e)'": _MEAN_OF_PAIRS,
        "'c = Unsqueeze(row, last); d = Sub(c, row); y = ReduceMean<keepdims = 0>(d)'": None,
        "'d = Sub(one, row); e = Sub(d, square); y = ReduceMean<keepdims = 0>(e)'": None,
        "'y = Sub(one, row)'": None,
    },
}


def _call(name: str, text: str) -> str:
    """A case as a line of the program: an expression, or the arguments of another function."""
    function, _, arguments = text.partition(": ") if text[0] != "l" else ("case", "", text)
    return f"{function if arguments else 'case'}({name!r}, {arguments or text})\n"


@pytest.mark.slow
@pytest.mark.parametrize("engine", [*sample(CASES, ("numpy", "torch"))])
def test_wrong_numbers_stop_their_filter_and_no_others(engine, tmp_path):
    module = {"onnx": "onnxruntime"}.get(engine, engine)
    if engine != "numpy" and importlib.util.find_spec(module) is None:
        pytest.skip(f"needs {module}")
    cases = list(CASES[engine].items())
    program = tmp_path / "program.py"
    calls = [_call(str(number), text) for number, (text, _) in enumerate(cases)]
    program.write_text(_TIMES + _HEADS[engine] + "".join(calls))
    commands = [word for name in FILTERS for word in ("-c", f"run -f {name} --most 1")] * len(cases)
    done = shared(module).debugged("--batch", *commands, program)
    assert done.status == 0, done.err
    assert "the filter raised" not in done.out + done.err
    _, *parts = re.split(r"^case: (\d+) (\w+)$", done.out, flags=re.MULTILINE)
    assert len(parts) == 3 * len(FILTERS) * len(cases), done.out
    wrong = []
    for number, wanted, said in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        text, expected = cases[int(number)]
        found = re.search(r"^Why: +(.*)$", said, re.MULTILINE)
        told = found[1] if found else ""
        is_due = expected is not None and expected[0] == wanted
        if not (re.search(expected[1], told) if is_due and expected else not told):
            wrong.append(f"{text} {wanted}\n{told}\n{said}")
    assert not wrong, "\n\n".join(wrong)


def test_the_reason_is_told_by_checks_reports_and_offline(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        _TIMES + _NUMPY + "case('pairs', lambda: tf.reduce_mean(tf.square(one - row)))\n"
    )
    found, page, dumps = tmp_path / "found.json", tmp_path / "page.html", tmp_path / "dumps"
    run = shared("numpy").debugged
    options = ("--check-format", "json", "--check-output", found, "--dump-root", dumps)
    done = run("--check", "constant,broadcast", *options, program)
    assert done.status == 3
    (finding,) = json.loads(found.read_text())["findings"]
    assert finding["filter"] == "broadcast"
    assert finding["reason"]["kind"] == "broadcast"
    assert finding["advice"].startswith("Give both one shape before")
    text = finding["reason"]["text"]
    assert text == "one:0 [16, 1] and row:0 [16] give [16, 16], and Mean:0 is the mean of all pairs"
    commands = (
        *("-c", "why -f broadcast", "-c", "why -f constant"),
        *("-c", "why -f broadcast -fenn ^sub", "-c", "why"),
    )
    done = run("--batch", *commands, "--dump-dir", dumps)
    assert done.out.count(text) == 1
    assert "No tensor of this run passes constant." in done.out
    assert "No tensor of this run passes broadcast." in done.out
    assert "No tensor of this run holds a nan or an infinity." in done.out
    assert run("--batch", "-c", "run -f broadcast", "-c", f"report {page}", program).status == 0
    assert text in page.read_text()
