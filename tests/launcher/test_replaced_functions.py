"""What is put in place of a framework's functions is taken for them by whoever looks."""

import pytest
from program_server import framework_of

#: What looks over all that is replaced at the moment, in a program that is debugged.
LOOK = """
import inspect
import os
import types

from tfdbg_cli.engines.kit.patching.patches import replaced

NAMES = ("__name__", "__qualname__", "__module__", "__doc__")
count = 0
for title, before, now in replaced():
    # What has no source has none, whatever stands for it.
    if not isinstance(before, types.FunctionType):
        continue
    count += 1
    before_file, now_file = inspect.getsourcefile(before), inspect.getsourcefile(now)
    if not os.path.samefile(before_file, now_file):
        print("file:", title, now_file)
    if inspect.signature(before) != inspect.signature(now):
        print("signature:", title, inspect.signature(now))
    if inspect.getsource(before) != inspect.getsource(now):
        print("source:", title)
    for name in NAMES:
        if getattr(before, name, None) != getattr(now, name, None):
            print(name, title, getattr(now, name, None))
print("looked at", count > 0)
"""

PROGRAMS = {
    "torch": """
import torch
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
class Own(torch.optim.Optimizer):
    def step(self, closure=None):
        return closure
other = Own(model.parameters(), {})
for _ in range(2):
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
""",
    "tensorflow": """
import tensorflow as tf
f = tf.function(lambda x: x + 1)
for _ in range(2):
    f(tf.ones(2))
with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    session.run(tf.constant(1.0) + 1)
""",
    "jax": """
import jax
f = jax.jit(lambda x: x + 1)
for _ in range(2):
    f(1.0)
""",
    "onnx": """
import onnxruntime
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_they_have_its_file_signature_and_names(runner, name):
    pytest.importorskip({"onnx": "onnxruntime"}.get(name, name))
    program = runner.write("program.py", PROGRAMS[name] + LOOK)
    for commands in (("run -t 1000",), ("run -f has_inf_or_nan",)):
        options = [part for command in commands for part in ("-c", command)]
        modules = framework_of(program) or ("numpy",)
        done = runner.forked(modules, "-m", "tfdbg_cli", "--batch", *options, program)
        assert done.stdout.splitlines() == ["looked at True"], done.stderr
