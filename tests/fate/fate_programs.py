"""Programs that are made up: ops, control flow, errors, threads, signals, exits, random numbers."""

from __future__ import annotations

import sys
import tempfile
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path

import hypothesis
from fate_kit import APART, Fate, Script
from fate_languages import COMMON, LANGUAGES, ONNX_NODES, Language
from hypothesis import strategies as st
from long_run import INTERRUPTED, Progress

__all__ = ["ENGINES", "WAYS_OF_PROGRAMS", "generate", "programs", "search"]

ENGINES = "numpy", "tensorflow", "torch", *LANGUAGES
WAYS_OF_PROGRAMS = "batch", "never", "nonfinite", "detach", "keep"

_TORCH = f"""\
{COMMON}
import torch, copy, pickle
from torch import nn
import torch.nn.functional as F
import torch.autograd.forward_ad as forward
from torch.utils.checkpoint import checkpoint
torch.manual_seed(3); torch.set_num_threads(1)
class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.count = nn.Linear(3, 3), 0
        self.register_buffer("seen", torch.zeros(3))
    def forward(self, x):
        self.count += 1
        self.seen.add_(x.detach().nan_to_num(0, 0, 0).reshape(-1, 3)[0])
        if self.count == fails_at:
            raise Own("in forward")
        return torch.tanh(self.inner(x))
class Odd(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x
    @staticmethod
    def backward(ctx, g):
        if backward_fails:
            raise Own("in backward")
        return g * 2 * ctx.saved_tensors[0]
fails_at, backward_fails = 0, False
model = nn.Sequential(nn.Linear(3, 3), Part(), nn.Dropout(0.2))
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
a, b, c = torch.rand(3), torch.ones(3, requires_grad=True), torch.arange(3.0)
@atexit.register
def end():
    print("end", torch.rand(1).item(), np.random.rand(), random.random())
    show(a, b, c, *model.state_dict().values())
def step(x):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss
"""
_GRAPH = f"""\
{COMMON}
{{imports}}
tf.set_random_seed(3)
calls = []
def called(value):
    calls.append(value.tolist())
    if len(calls) in bad_calls:
        raise ValueError("called")
    return value * np.float32(2)
bad_calls = ()
x = tf.placeholder(tf.float32, [3])
{{variables}}
nodes, last = [x], x
def add(make):
    global last
    with tf.control_dependencies([last]):
        last = tf.identity(make())
    nodes.append(last)
def end():
    print("end", np.random.rand(), random.random(), calls)
    try:
        show(*session.run([v, w, tf_end]))
    except Exception as error:
        print(type(error).__name__)
atexit.register(end)
def tried(f):
    try:
        show(*f())
    except tf.errors.OpError as error:
        print(type(error).__name__)
"""
_IMPORTS = {
    "numpy": (
        "from tfdbg_cli.engines import numpy as tf\n"
        "from tfdbg_cli.engines.numpy.ops.math_ops import unary\n"
        "def py_func(f, given, dtype):\n"
        "    return unary('Called', f, '')(*given)"
    ),
    # The optimizer would compute the last bit in another way where more is fetched.
    "tensorflow": (
        "import tensorflow.compat.v1 as tf\n"
        "py_func = tf.py_func\n"
        "tf.disable_eager_execution()\n"
        "from tensorflow.core.protobuf import rewriter_config_pb2\n"
        "config = tf.ConfigProto()\n"
        # Its errors' texts have the stack that made the node, from the launcher on.
        "sys.excepthook = lambda kind, *_: print(kind.__name__, file=sys.stderr)\n"
        "threading.excepthook = lambda args: print(args.exc_type.__name__, file=sys.stderr)\n"
        "config.graph_options.rewrite_options.disable_meta_optimizer = True\n"
        "config.graph_options.optimizer_options.opt_level = -1"
    ),
}
_VARIABLES = {
    "numpy": "v, w = tf.Variable([1.0, 2.0, 3.0]), tf.Variable(tf.ones([3]))",
    "tensorflow": (
        "v = tf.Variable([1.0, 2.0, 3.0], use_resource=False)\n"
        "w = tf.Variable(tf.ones([3]), use_resource=True)"
    ),
}
_SESSIONS = {"numpy": "session = tf.Session()", "tensorflow": "session = tf.Session(config=config)"}

_ERRORS = "ValueError", "Own", "RuntimeError", "KeyboardInterrupt"
_LEAVING = (
    "sys.exit(3)",
    "sys.exit('enough')",
    "sys.stdout.flush(); os._exit(5)",
    "sys.stdout.flush(); os.kill(os.getpid(), signal.SIGTERM)",
    "raise Own('uncaught')",
    "raise KeyboardInterrupt",
)
_ANYWHERE = (
    "raises = not raises",
    "hit()",
    "gc.collect()",
    "show(np.random.rand(), random.random())",
    "1 / 0",
    "print(threading.active_count())",
)
_TORCH_LINES = (
    "{n} = {n} * {m}",
    "{n} = torch.sin({n}) + {m}",
    "{n} = {n}.clone(); {n}[1:] = {k}",
    "{n} = ({n} + 0).mul_({m}.detach()).relu_()",
    "{n} = {n}.detach().log()",
    "{n} = {n}.view(3, 1).t()[0]",
    "{n} = model({m})",
    "{n} = model({m}).detach()",
    "{n} = F.dropout({m}, 0.5) + torch.rand(3)",
    "{n} = checkpoint(model, {m}, use_reentrant=False)",
    "{n} = Odd.apply({m} + 0)",
    "{n} = torch.func.grad(lambda q: (q * {m}.detach()).sin().sum())({n}.detach())",
    "{n} = torch.func.jvp(model, ({n}.detach(),), ({m}.detach(),))[{k} % 2]",
    "{n} = torch.func.jacfwd(lambda q: model(q).sum())({n}.detach())",
    "{n} = torch.func.vmap(model, randomness='different')({n}.detach().expand(2, 3))[0]",
    "{n} = forward.unpack_dual(model(forward.make_dual({n}.detach(), {m}.detach())))[{k} % 2]",
    "{n} = torch.rand({k} + 1)",
    "show(step({n}.detach()))",
    "show(step({n}))",
    "({n} * {m}).sum().backward()",
    "model({n}).sum().backward(); optimizer.step()",
    "show({n}.grad if {n}.is_leaf and {n}.grad is not None else {n}.shape)",
    "b = {n}.detach().requires_grad_()",
    "b.data += {k}",
    "fails_at = model[1].count + {k}",
    "backward_fails = not backward_fails",
    "model.train({k} > 1)",
    "handle_of = model[0].register_forward_hook(lambda m, i, o: o * {k})",
    "model[1].register_forward_pre_hook(lambda m, i: hit())",
    "model[0].weight.register_hook(lambda g: g * {k})",
    "model[0].weight.register_hook(lambda g: 1 / 0)",
    "optimizer.register_step_post_hook(lambda *q: print('stepped'))",
    "optimizer = torch.optim.SGD(model.parameters(), lr=0.{k}1, momentum=0.9)",
    "model = copy.deepcopy(model); optimizer = torch.optim.SGD(model.parameters(), lr=0.1)",
    # Not its length: a storage is pickled with its address.
    "show(*pickle.loads(pickle.dumps(model)).state_dict().values())",
    "torch.manual_seed({k})",
    "gone = weakref.ref({n} * 2); print(gone() is None)",
    "show({n}, {m}.requires_grad, {n}._version)",
    # PyTorch warns of what is dropped, and such a warning points at who called it.
    "{n} = torch.real({m}.to(torch.{dtype})).to(torch.float32)",
    "print(sorted(vars(model)), sorted(vars(model[1])))",
)
_TORCH_BLOCKS = (
    "with torch.no_grad():",
    "with forward.dual_level():",
    "with torch.autocast('cpu', torch.bfloat16):",
    "with torch.random.fork_rng():",
    "if {n}.detach().sum() > {k}:",
)
_TORCH_LANGUAGE = Language(_TORCH, _TORCH_LINES, _TORCH_BLOCKS)
_NODES = (
    "{n} + {m}",
    "{n} * {m} - {k}.0",
    "tf.{log}({n})",
    "tf.random_uniform([3])",
    "{v} * {n}",
    "tf.assign_add({v}, {n}) + 0.0",
    "tf.assign({v}, {n}) + 0.0",
    "tf.check_numerics({n}, 'bad')",
    "py_func(called, [{n}], tf.float32)",
    "tf.where(tf.greater({n}, {k}.0), {n}, {m})",
    "tf.truncated_normal([3])",
    "tf.while_loop(lambda i, q: i < {k}, lambda i, q: (i + 1, q * 1.5), [0, {n}])[1]",
)
# Those that the NumPy engine hasn't got.
_TENSORFLOW_NODES = (
    "tf.random_normal([3], seed={k})",
    "tf.cond(tf.reduce_sum({n}) > {k}.0, lambda: {n} + 1.0, lambda: {m} * 2.0)",
)
_GRAPH_LINES = (
    *_ANYWHERE,
    "tried(lambda: session.run([nodes[{i} % len(nodes)]], {{x: {fed}}}))",
    "tried(lambda: session.run([last, nodes[{i} % len(nodes)]], {{x: {fed}}}))",
    "show(*session.run([last], {{x: {fed}}}))",
    "show(session.run(nodes[{i} % len(nodes)], {{x: np.float32({fed})}}))",
    "tried(lambda: session.run([last]))",
    "tried(lambda: [session.make_callable(last, [x])(np.float32({fed}))])",
    "tried(lambda: session.run([v, w]))",
    "session.run(v.initializer)",
    "bad_calls = range(len(calls), len(calls) + {k})",
    "session = tf.Session(graph=session.graph); session.run([v.initializer, w.initializer])",
)


def _indent(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines] or ["    pass"]


@st.composite
def _statements(
    draw: st.DrawFn, lines: st.SearchStrategy[str], heads: st.SearchStrategy[str], depth: int
) -> list[str]:
    """One after the other, some with others inside."""
    made: list[str] = []
    for _ in range(draw(st.integers(1, 6 if depth else 3))):
        kind = draw(st.sampled_from(["line"] * 6 + ["for", "try", "thread", "head"]))
        if not depth or kind == "line":
            made.append(draw(lines))
            continue
        inner = _indent(draw(_statements(lines, heads, depth - 1)))
        if kind == "for":
            made += [f"for turn in range({draw(st.integers(1, 3))}):", *inner]
        elif kind == "try":
            error = draw(st.sampled_from(["Exception", "BaseException", *_ERRORS]))
            made += ["try:", *inner, f"except {error} as error:"]
            made += _indent(
                ["print('caught', type(error).__name__)", *draw(st.sampled_from(_AFTER))]
            )
        elif kind == "thread":
            made += ["def work():", "    global a, b, c, model, optimizer, session, raises, last"]
            made += ["    global w, key, value, state, v, tape"]
            made += ["    global fails_at, backward_fails, bad_calls, handle_of, gone", *inner]
            made += ["thread = threading.Thread(target=work); thread.start(); thread.join()"]
        else:
            made += [draw(heads), *inner]
    return made


_AFTER = (
    [],
    ["raise"],
    ["print(error.__context__ is None, error.__cause__)"],
    ["raise KeyError('again') from error"],
)


@st.composite
def _models(draw: st.DrawFn) -> str:
    """The model of an ONNX program."""
    names, nodes = ["x", "s"], []
    for at, text in enumerate(draw(st.lists(st.sampled_from(ONNX_NODES), min_size=1, max_size=7))):
        given = {"n": draw(st.sampled_from(names)), "m": draw(st.sampled_from(names))}
        nodes.append(f"    n{at} = {text.format(i=at, k=draw(st.integers(1, 4)), **given)}")
        names.append(f"n{at}")
    return "\n".join(
        [
            '<ir_version: 8, opset_import: ["" : 17]>',
            "g (float[3] x, float[3] s, int64[1] shape) => (float[3] last, float[3] new)",
            "<float one = {1}, float two = {2}> {",
            "    total = ReduceSum <keepdims = 0> (x)",
            "    yes = Greater(total, one)",
            *nodes,
            f"    last = Identity({names[-1]})",
            "    new = Add(s, one)",
            "}",
        ]
    )


@st.composite
def programs(draw: st.DrawFn, engine: str) -> Script:
    """One for an engine."""
    number = st.integers(0, 3)
    if engine not in _IMPORTS:
        head, texts, blocks = _TORCH_LANGUAGE if engine == "torch" else LANGUAGES[engine]
        name = st.sampled_from("abc")

        def filled(texts: Sequence[str]) -> st.SearchStrategy[str]:
            dtypes = st.sampled_from(["float16", "bfloat16", "float64", "int32", "complex64"])
            return st.builds(
                lambda text, n, m, k, dtype: text.format(n=n, m=m, k=k, dtype=dtype),
                *(st.sampled_from(texts), name, name, number, dtypes),
            )

        lines, heads = filled((*_ANYWHERE, *texts)), filled(blocks)
        if engine == "onnx":
            head = f"text = '''{draw(_models())}'''\n{head}"
    else:
        head = _GRAPH.format(imports=_IMPORTS[engine], variables=_VARIABLES[engine])
        node = st.builds("nodes[{} % len(nodes)]".format, st.integers(0, 7))
        log = "log" if engine == "numpy" else "math.log"
        known = _NODES if engine == "numpy" else (*_NODES, *_TENSORFLOW_NODES)
        for text in draw(st.lists(st.sampled_from(known), min_size=1, max_size=7)):
            given = {"n": draw(node), "m": draw(node), "k": draw(number), "log": log}
            made = text.format(**given, v=draw(st.sampled_from("vw")))
            head += f"add(lambda: {made})\n"
        head += f"tf_end = tf.random_uniform([2])\n{_SESSIONS[engine]}\n"
        head += "session.run([v.initializer, w.initializer])\n"
        fed = st.sampled_from(["[1.0, 2.0, 3.0]", "[0.0, 1.0, 2.0]", "[-1.0, 0.5, 1e30]"])
        lines = st.builds(
            lambda text, i, k, fed: text.format(i=i, k=k, fed=fed),
            *(st.sampled_from(_GRAPH_LINES), st.integers(0, 7), number, fed),
        )
        heads = st.sampled_from(
            ["if len(calls) > 1:", "if np.random.rand() > 0.5:", "with session:"]
        )
    body = draw(_statements(lines, heads, 2))
    body += draw(st.sampled_from([[]] * 8 + [[leaving] for leaving in _LEAVING]))
    # Where it begins, the framework is there already.
    return Script(f"{engine.rstrip('2')}/made", f"{APART}\n{head}" + "\n".join(body) + "\n")


def search(
    engine: str,
    count: int,
    folder: Path,
    ways: Sequence[str],
    seed: int | None = None,
    tried: list[str] | None = None,
) -> None:
    """Make up programs and compare them.

    Args:
        engine: one of `ENGINES`.
        count: how many.
        folder: for the programs.
        ways: how they are debugged, by chance.
        seed: makes them the same each time; ``None``: those of the tests.
        tried: gets the way of each one that was compared.

    Raises:
        AssertionError: the smallest one that differs, and how.
    """
    fate = Fate(folder, forked=True)

    @hypothesis.settings(
        max_examples=count,
        deadline=None,
        database=None,
        derandomize=seed is None,
        report_multiple_bugs=False,
        # Of the few that are the same each time, the first that differs is told as it is.
        phases=[hypothesis.Phase.generate] + ([] if seed is None else [hypothesis.Phase.shrink]),
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(programs(engine), st.sampled_from(ways))
    def compare(script: Script, way: str) -> None:
        found = fate.difference(script, way)
        fate.forget(script)
        if tried is not None:
            tried.append(way)
        hypothesis.assume("differs from itself" not in found)
        assert not found, f"\n{found}\n{textwrap.indent(script.text.strip(), '  ')}"

    try:
        (compare if seed is None else hypothesis.seed(seed)(compare))()
    finally:
        fate.close()


def generate(
    count: int, engines: Sequence[str] | None, seed: int | None, ways: Sequence[str] | None
) -> int:
    """Search and print; 1: something differed."""
    status = 0
    seed = time.time_ns() % 10**6 if seed is None else seed
    for engine in engines or ENGINES:
        begun = time.monotonic()
        tried: list[str] = []

        def how_far(engine: str = engine, tried: list[str] = tried) -> str:
            return f"{engine}: {len(tried)} of {count} programs"

        with tempfile.TemporaryDirectory(prefix="fate-") as folder, Progress(how_far):
            try:
                search(engine, count, Path(folder), ways or WAYS_OF_PROGRAMS, seed, tried)
                told = "no differences"
            except AssertionError as found:
                print(found, file=sys.stderr)
                status, told = 1, "a difference"
            except KeyboardInterrupt:
                status, told = INTERRUPTED, "no differences, ended early"
        seconds = time.monotonic() - begun
        told = f"{len(tried)} programs of seed {seed}: {told}; {seconds:.0f} s"
        print(f"{engine}: {told}", flush=True)
        if status == INTERRUPTED:
            break
    return status
