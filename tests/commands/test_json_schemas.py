"""What ``--json`` writes is what the schemas in the package say, on every engine."""

import copy
import json
import subprocess
import sys
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from program_server import debugger_in, environment
from samples import sample

from tfdbg_cli.commands.builtin import make_registry
from tfdbg_cli.commands.schemas import schema_of, schemas

NUMPY = """\
from tfdbg_cli.engines import numpy as tf

x = tf.placeholder(tf.float32, [None], name="x")
weight = tf.Variable([1.0, 2.0], name="weight")
y = tf.log(tf.multiply(x, weight, name="scaled"), name="y")
loss = tf.reduce_mean(y, name="loss")
train = tf.train.AdamOptimizer(0.1).minimize(loss)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for step in range(3):
        session.run([loss, train], {x: [1.0, float(step != 1)]})
"""
TORCH = """\
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Softmax(-1))
optimizer = torch.optim.SGD(model.parameters(), lr=100.0)
for step in range(8):
    loss = -torch.log(model(torch.randn(5, 4) * 10.0 * (step + 1))).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
JAX = """\
import jax
import jax.numpy as jnp

@jax.jit
def f(x):
    return jnp.log(x * jnp.arange(3.0)).sum()

f(2.0)
"""
ONNX = """\
import numpy as np
import onnx
import onnxruntime

MODEL = '''<ir_version: 8, opset_import: ["" : 17]>
m (float[N,4] x) => (float[N,4] y) { [log] a = Log(x) [soft] y = Softmax(a) }'''
session = onnxruntime.InferenceSession(onnx.parser.parse_model(MODEL).SerializeToString())
session.run(None, {"x": np.array([[1, 2, 3, -4]], "float32")})
"""
TENSORFLOW = """\
import tensorflow as tf

weight = tf.Variable([1.0, 2.0], name="weight")
optimizer = tf.keras.optimizers.SGD(0.1)

@tf.function
def step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.math.log(x * weight))
    optimizer.apply_gradients([(tape.gradient(loss, weight), weight)])
    return loss

step(tf.constant([1.0, 0.0]))
"""
SESSIONS = """\
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()
x = tf.placeholder(tf.float32, [2], name="x")
y = tf.math.log(tf.multiply(x, 2.0, name="scaled"), name="y")
with tf.Session() as session:
    for step in range(2):
        session.run(y, {x: [1.0, 0.0]})
"""
#: Engine -> a program in which a logarithm is bad, and one of its inputs for ``pf``.
PROGRAMS = {
    "numpy": (NUMPY, "x:0"),
    "torch": (TORCH, "input"),
    "jax": (JAX, "x"),
    "onnx": (ONNX, "x"),
    "tensorflow": (SESSIONS, "x:0"),
    "tensorflow2": (TENSORFLOW, "x"),
}
#: Where something bad began is the current place.
COMMANDS = (
    "why --json",
    "fix --json",
    "run_info --json",
    "list_tensors --json",
    "list_tensors --json -o hist",
    "print_tensor --json",
    "print_tensor --json --bad",
    "eval --json np.arange(100.0).reshape(2,50)",
    "eval --json 'dict(a=1)'",
    "node_info --json",
    "list_inputs --json",
    "list_inputs --json -r -c",
    "list_inputs --json --to-first-bad",
    "list_outputs --json",
    "graph --json -c",
    "list_source --json",
    "print_source --json",
    "track --json",
    "growth --json",
    "precision --json --to float16",
)
LIVE = ("print_feed {feed} --json", "plot --json", "compare kept --json -a")
OFFLINE = ("runs --json", "runs -f --json", "compare kept --json -a", "print_feed {feed} --json")
#: What some program has nothing of; some other has.
MAY_BE_EMPTY = {"fix", "track", "growth", "plot", "list_outputs", "list_source", "print_source"}


def _engines():
    # Others are known by their names.
    return [
        pytest.param(e, marks=pytest.mark.tensorflow) if e == "tensorflow2" else e for e in PROGRAMS
    ]


def strict(schema):
    """The same, and no field besides those that are described."""
    schema = copy.deepcopy(schema)

    def close(part):
        if isinstance(part, dict):
            if "properties" in part:
                part.setdefault("additionalProperties", False)
            for each in part.values():
                close(each)
        elif isinstance(part, list):
            for each in part:
                close(each)

    close(schema["$defs"])
    return Draft202012Validator(schema)


def tfdbg(folder, *arguments):
    done = debugger_in(folder, "--batch", *arguments)
    return done.stdout + done.stderr


def check(folder, commands, feed, *arguments, first=()):
    """Each command writes what its schema says; returns how many objects there were of each."""
    texts = [text.format(feed=feed) for text in commands]
    words = [part for text in first for part in ("-c", text)]
    for at, text in enumerate(texts):
        words += ["-c", f"{text} > {at}.out"]
    said = tfdbg(folder, *words, *arguments)
    counts = {}
    for at, text in enumerate(texts):
        name, path = text.split()[0], folder / f"{at}.out"
        assert path.exists() or "ERROR" in said, said
        if not path.exists():
            assert name in MAY_BE_EMPTY, f"{text}\n{said}"
            continue
        validator = strict(schema_of(name))
        for line in path.read_text().splitlines():
            value = json.loads(line)
            errors = [f"{each.json_path}: {each.message}" for each in validator.iter_errors(value)]
            assert not errors, f"{text}\n{errors}\n{line}"
            counts[name] = counts.get(name, 0) + 1
        path.unlink()
    missing = {text.split()[0] for text in texts} - {*counts} - MAY_BE_EMPTY
    assert not missing, f"{missing}\n{said}"
    return counts


@pytest.mark.slow
@pytest.mark.parametrize("engine", [*sample(_engines(), 2)])
def test_live_and_offline_write_what_the_schemas_say(engine, tmp_path):
    program, feed = PROGRAMS[engine]
    (tmp_path / "p.py").write_text(program)
    said = tfdbg(tmp_path, "--keep-dumps", "--dump-root", "kept", "-c", "run -f", "p.py")
    assert (tmp_path / "kept").is_dir(), said
    commands = (*COMMANDS, *LIVE)
    live = check(tmp_path, commands, feed, "p.py", first=("config set level values", "run -f"))
    offline = (*(each for each in COMMANDS if not each.startswith("fix")), *OFFLINE)
    check(tmp_path, offline, feed, "--dump-dir", "kept", first=("why",))
    assert live["why"] == 1 and live["list_tensors"] > 2


def test_the_others(tmp_path):
    """A run that fails, times of ops, and what a check writes."""
    failing = NUMPY.replace("[1.0, float(step != 1)]", "[1.0, 2.0, 3.0]")
    (tmp_path / "p.py").write_text(failing)
    assert check(tmp_path, ("error --json",), "", "p.py", first=("run -n", "run"))["error"] == 1
    (tmp_path / "p.py").write_text(NUMPY)
    found = check(tmp_path, ("list_profile --json",), "", "p.py", first=("run -n", "run -p"))
    assert found["list_profile"] > 2
    check_options = ("--check", "has_inf_or_nan", "--check-format", "json")
    debugger_in(tmp_path, *check_options, "--check-output", "c.json", "p.py")
    value = json.loads(Path(tmp_path, "c.json").read_text())
    assert value["failed"] == 1
    assert not [*strict(schema_of("check")).iter_errors(value)]


def test_each_command_with_json_has_a_schema_and_the_schemas_are_schemas():
    Draft202012Validator.check_schema(schemas())
    told = {
        c.name for c in make_registry().commands if any("--json" in a.flags for a in c.arguments)
    }
    for name in (*told, "runs", "check"):
        assert schema_of(name) is not None, name
    assert schema_of("help") is None
    # A schema that anything fits would be none.
    assert [*strict(schema_of("why")).iter_errors({"version": 2})]


def test_other_programs_are_told_of_all_of_it(tmp_path):
    told = json.loads(tfdbg_help(tmp_path))
    commands = {each["name"]: each for each in told["commands"]}
    assert {*commands} == {command.name for command in make_registry().commands}
    for name, command in commands.items():
        has_json = any("--json" in each["flags"] for each in command["arguments"])
        assert (command["json"] is not None) == has_json, name
    flags = [flag for each in told["options"] for flag in each["flags"]]
    assert {"--batch", "-c", "--help-json"} <= {*flags}
    assert told["$defs"] == schemas()["$defs"]


def tfdbg_help(folder):
    command = [sys.executable, "-m", "tfdbg_cli", "--help-json"]
    return subprocess.run(
        command, cwd=folder, env=environment(folder), stdout=subprocess.PIPE, check=True
    ).stdout
