"""What is debugged while calls fail: programs, what is asked of the debugger, and what fails."""

from __future__ import annotations

__all__ = [
    "END",
    "FAIL",
    "LIMITS",
    "MODES",
    "OPS",
    "PROGRAMS",
    "RANKS",
    "SIGNALS",
    "SITUATIONS",
    "STRUCK",
    "is_sensible",
]

MODES = "once", "on", "other"
#: What comes in before one.
SIGNALS = "SIGKILL", "SIGTERM", "SIGHUP", "SIGINT"
#: What the system may be short of: descriptors, bytes of a file, kilobytes of memory and of a disk.
LIMITS = {
    "NOFILE": (*range(4, 40), *range(40, 160, 10)),
    "FSIZE": tuple(64 << step for step in range(16)),
    "AS": (*range(2048, 49152, 1024), *(65536 << step for step in range(4))),
    "DISK": tuple(4 << step for step in range(11)),
}

#: What is behind each program, and what ends that of ``mortem``.
FAIL = "raise ValueError('nobody catches it')\n"
END = """
for number in range(3):
    print(number, step(number))
    open("results", "a").write(f"{number}\\n")
print("done")
"""
_SESSION = """
x = tf.placeholder(tf.float32, [None], name="x")
w = tf.Variable(np.ones(40000, np.float32), name="w")
y = tf.log(x * 1.0, name="y")
z = tf.reduce_sum(w * 2.0, name="z")
session = tf.Session()
session.run(tf.global_variables_initializer())
def step(number):
    return session.run([y, z], {x: [1.0 - number]})
"""
#: A program for each engine; its second step makes the first nan.
PROGRAMS = {
    "numpy": """
import numpy as np
from tfdbg_cli.engines import numpy as tf
"""
    + _SESSION,
    "tensorflow": """
import numpy as np
import tensorflow
tf = tensorflow.compat.v1
tf.disable_eager_execution()
"""
    + _SESSION,
    "jax": """
import jax
import jax.numpy as jnp
import numpy as np
w = jnp.ones(40000)
@jax.jit
def f(w, x):
    y = jnp.log(x * 1.0)
    return jnp.sum(w * 2.0) + y[0], y
def step(number):
    z, y = f(w, np.float32([1.0 - number]))
    return z.item(), y.tolist()
""",
    "onnx": """
import numpy as np
import onnxruntime
from onnx import parser
model = parser.parse_model('''<ir_version: 8, opset_import: ["" : 17]>
g (float[N] x, float[40000] w) => (float[N] y, float z) <float one = {1}> {
    [p] p = Mul(x, one)
    [y] y = Log(p)
    [q] q = Add(w, one)
    [z] z = ReduceSum <keepdims = 0> (q)
}''')
session = onnxruntime.InferenceSession(model.SerializeToString())
w = np.ones(40000, np.float32)
def step(number):
    y, z = session.run(None, {"x": np.float32([1.0 - number]), "w": w})
    return y.tolist(), z.item()
""",
    "torch": """
import torch
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(200, 200), torch.nn.ReLU(), torch.nn.Linear(200, 1))
optimizer = torch.optim.SGD(net.parameters(), 0.01)
def step(number):
    optimizer.zero_grad()
    loss = torch.log(net(torch.ones(4, 200)).square() * (1.0 - number)).mean()
    loss.backward()
    optimizer.step()
    return loss.item()
""",
}
#: The node of each that makes something bad.
OPS = {"numpy": "y", "tensorflow": "y", "jax": "log", "onnx": "y", "torch": "log"}
#: Two ranks that exchange their gradients; rank 1 makes the first nan.
RANKS = """
import os
import torch
import torch.distributed as dist
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(200, 200), torch.nn.ReLU(), torch.nn.Linear(200, 1))
optimizer = torch.optim.SGD(net.parameters(), 0.01)
rank = int(os.environ["RANK"])
meeting = "file://" + os.environ["FATE_MEETING"]
dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=2)
def step(number):
    optimizer.zero_grad()
    loss = torch.log(net(torch.ones(4, 200)).square() * (1.0 - rank * number)).mean()
    loss.backward()
    for parameter in net.parameters():
        dist.all_reduce(parameter.grad)
    optimizer.step()
    return loss.item()
"""
_LOOK = (
    *("lt", "lt -f has_inf_or_nan", "ni -t {op}", "li -r {op}", "ps script.py", "pt {op}:0"),
    *("ri", "li --to-first-bad {op}"),
)
_COMMANDS = tuple(word for line in _LOOK for word in ("-c", line))
_RUNS = ("-c", "run") * 3
_FILES = (
    *("-c", "pt {op}:0 > {dumps}.txt", "-c", "pt {op}:0 -w {dumps}.npy", "-c", "ni {op} | cat"),
    *("-c", "config set --keep graph_recursion_depth 3"),
)
_TOGETHER = (
    *("--batch", "--keep-dumps", "--dump-root", "{dumps}"),
    *("-c", "run", "-c", "run -f has_inf_or_nan", *_COMMANDS, "-c", "run"),
)
#: Those of two ranks, and which of them is struck.
STRUCK = {"leader": 0, "follower": 1}
#: Options of the debugger, and what somebody types.
SITUATIONS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "stop": (("--batch", "-c", "run -f has_inf_or_nan", *_COMMANDS, "-c", "run"), ()),
    "spill": (("--batch", "--dump-limit", "1", *_RUNS, *_COMMANDS, *_RUNS * 3), ()),
    "keep": (
        ("--batch", "--keep-dumps", "--dump-root", "{dumps}", *_RUNS, *_COMMANDS, *_RUNS * 3),
        (),
    ),
    "files": (
        ("--batch", *_RUNS, *_FILES, *_RUNS * 3),
        (),
    ),
    "digest": (
        ("--batch", "--keep-dumps", "--digest", "--dump-root", "{dumps}", "-c", "run -k"),
        (),
    ),
    "check": (
        (
            *("--check", "has_inf_or_nan", "--check-only", "--check-output", "{dumps}.txt"),
            *("--log", "{dumps}.jsonl", "--report", "{dumps}.html", "--dump-root", "{dumps}"),
        ),
        (),
    ),
    "mortem": (("--post-mortem", "--batch", "--log", "{dumps}.jsonl", *_COMMANDS), ()),
    "line": (
        ("--ui", "line"),
        ("run", "run", "run", "lt", "pt {op}:0", "run -f has_inf_or_nan", "exit --detach"),
    ),
    "listen": (("--listen", "unix:{address}"), ()),
    "client": (("--listen", "unix:{address}"), ()),  # of which calls fail
    **dict.fromkeys(STRUCK, (_TOGETHER, ())),
}


def is_sensible(engine: str, situation: str, mode: str = "once") -> bool:
    """Whether there is such a thing to try."""
    if situation in STRUCK and engine != "torch":
        return False
    # Ctrl-C is a key of the prompt's; where no socket can be had nobody ever comes.
    return (situation, mode) not in (("line", "SIGINT"), ("listen", "SIGINT"), ("listen", "on"))
