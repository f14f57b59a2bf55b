"""Private names of a framework: in one module per engine, and nothing is patched without them."""

import ast
import functools
import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tfdbg_cli

ENGINES = Path(tfdbg_cli.__file__).parent / "engines"
FRAMEWORKS = {"tensorflow": ("tensorflow", "keras"), "torch": ("torch", "keras")}
#: Python's own, and those of its named tuples, which are documented.
PYTHON = {
    "_asdict",
    "_current_frames",
    "_exit",
    "_fields",
    "_getframe",
    "_initializing",
    "_replace",
}
MODULES = [path for engine in FRAMEWORKS for path in sorted((ENGINES / engine).rglob("*.py"))]


@functools.cache
def tree_of(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def private_parts(dotted):
    return [part for part in dotted.split(".") if part.startswith("_") and part[1:2] != "_"]


def asked_by_name(node):
    """The names in ``getattr(x, "_name")`` and the like, and in ``x.get("_name")``."""
    if isinstance(node, ast.Call):
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        if name in {
            "getattr",
            "hasattr",
            "setattr",
            "delattr",
            "attrgetter",
            "methodcaller",
            "get",
        }:
            for given in node.args:
                if isinstance(given, ast.Constant) and isinstance(given.value, str):
                    yield from private_parts(given.value)


def uses(tree):
    """The private names that a module uses of anything, its own objects included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield from private_parts(node.attr)
        yield from asked_by_name(node)


def defines(tree):
    """The private names of our own: methods, functions and what ``self`` gets."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if getattr(node.value, "id", "") in {"self", "cls"}:
                yield node.attr
        elif isinstance(node, ast.AnnAssign | ast.Assign):
            for target in [node.target] if isinstance(node, ast.AnnAssign) else node.targets:
                yield getattr(target, "id", "")


@functools.cache
def our_names():
    modules = (path for path in MODULES if path.name != "private.py")
    return {name for path in modules for name in defines(tree_of(path))}


def framework_paths(tree, frameworks):
    """Module paths of a framework, in imports and in texts."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and str(node.value).split(".")[0] in frameworks:
            yield str(node.value)


def name_of(path):
    return str(path.relative_to(ENGINES))


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_private_names_of_a_framework_stand_in_one_module(path):
    """A private name is Python's, of our own making, or begins with ``_tfdbg``.

    What the engine's ``private`` (or that of a room with an engine of its own) uses is the
    framework's even where we have the same name, unless it is asked of ``self``.
    """
    engine = path.relative_to(ENGINES).parts[0]
    if path.name == "private.py":
        return
    tree = tree_of(path)
    ours = our_names()
    homes = [ENGINES / HOMES[engine] / "private.py", path.parent / "private.py"]
    theirs = {name for home in homes if home.exists() for name in uses(tree_of(home))} - PYTHON
    asked_of_us = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") in {"self", "cls"}
    }
    found = set(uses(tree)) - PYTHON - asked_of_us
    found = {name for name in found if not name.startswith("_tfdbg")}
    assert not found & theirs, "use what the private module offers"
    assert found <= ours, "this belongs into the private module"
    for dotted in framework_paths(tree, FRAMEWORKS[engine]):
        assert dotted.split(".")[0] not in FRAMEWORKS[engine] or not private_parts(dotted), dotted


#: Engine -> where its private names stand. Programs of TensorFlow 2 have an engine of their own.
HOMES = {"tensorflow": "tensorflow/shared", "tensorflow2": "tensorflow/functions", "torch": "torch"}


def required(engine):
    """The names that an engine can't do without, and some public ones that it patches."""
    for node in ast.walk(tree_of(ENGINES / HOMES[engine] / "private.py")):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "require":
            (path,) = node.args
            if isinstance(path, ast.Constant):
                yield path.value


def for_steps():
    """The names that only stepping through PyTorch needs."""
    for node in ast.walk(tree_of(ENGINES / "torch" / "private.py")):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "_step":
            yield f"torch._C:{ast.literal_eval(node.args[0])}"


STEPPED = list(for_steps())
MONITORED = "tensorflow.python.training.monitored_session:_MonitoredSession.run_step_fn"
FUNCTIONS = "tensorflow.python.eager.polymorphic_function"
IS_2_12 = any(
    each.version.startswith("2.12.")
    for name in ("tensorflow-cpu", "tensorflow")
    for each in importlib.metadata.distributions(name=name)
)
DOOR = (
    "monomorphic_function:_EagerDefinedFunction.call"
    if IS_2_12
    else "atomic_function:AtomicFunction.call_flat"
)
PATCHED = {
    "torch": [
        *("torch.autograd:backward", "torch.autograd:grad", "torch.amp:GradScaler.step"),
        "torch.optim:Optimizer.profile_hook_step",
    ],
    "tensorflow": ["tensorflow.python.client.session:BaseSession.make_callable"],
    "tensorflow2": [
        "tensorflow.python.eager.backprop:GradientTape.gradient",
        f"{FUNCTIONS}.{DOOR}",
    ],
}
NEEDED = [(engine, path) for engine in HOMES for path in [*required(engine), *PATCHED[engine]]]

# Each case has a process of its own, forked when the framework has been imported.
PROGRAM = """
import importlib, json, os, sys, tempfile

import tfdbg_cli
import tfdbg_cli.front.control

engine, *cases = sys.argv[1:]
if engine == "torch":
    import torch
    import torch._dynamo  # as the first optimizer does

    OWNERS = [
        torch, torch.Tensor, torch.UntypedStorage, torch.amp.GradScaler, torch.autograd,
        torch.nn.Module, torch.no_grad, torch.optim.Optimizer, torch.optim.SGD,
    ]
    VERSION = torch

    def program():
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 2)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.randn(4, 3)).square().mean().backward()
            optimizer.step()
        return [parameter.tolist() for parameter in model.parameters()]
else:
    import tensorflow as tf
    from tensorflow.python.client import session
    from tensorflow.python.framework import versions
    from tensorflow.python.training import monitored_session

    from tensorflow.python.eager import backprop
    try:
        from tensorflow.python.eager.polymorphic_function.atomic_function import AtomicFunction
    except ImportError:  # 2.12
        from tensorflow.python.eager.polymorphic_function import monomorphic_function
        AtomicFunction = monomorphic_function._EagerDefinedFunction

    SESSIONS = [session, session.BaseSession, monitored_session._MonitoredSession]
    FUNCTIONS = [backprop.GradientTape, AtomicFunction]
    OWNERS = FUNCTIONS if engine == "tensorflow2" else SESSIONS
    VERSION = versions
    tf1 = tf.compat.v1

    def functions():
        v = tf.Variable([1.0, 2.0])

        @tf.function
        def loss_of(x):
            return tf.reduce_sum(x * v)

        with tf.GradientTape() as tape:
            loss = loss_of(tf.constant([3.0, 4.0]))
        return [tape.gradient(loss, v).numpy().tolist(), float(loss)]

    def program():
        if engine == "tensorflow2":
            return functions()
        with tf.Graph().as_default(), tf1.Session() as session:
            x = tf1.placeholder(tf.float32, [2], name="x")
            y = tf.square(x) + 1.0
            found = session.run(y, {x: [1, 2]}), session.make_callable(y, [x])([3, 4])
            return [value.tolist() for value in found]


class Gone:
    def __get__(self, instance, owner=None):
        raise AttributeError("gone")


def remove(path):
    module, _, attributes = path.partition(":")
    owner = importlib.import_module(module)
    *outer, name = attributes.split(".")
    for each in outer:
        owner = getattr(owner, each)
    if name in vars(owner):
        delattr(owner, name)
    else:  # a class of C has it, which can't be changed
        setattr(owner, name, Gone())


def fate():
    try:
        return program()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def patched(before=None):
    now = [dict(vars(owner)) for owner in OWNERS]
    if before is None:
        return now
    return [
        f"{owner.__name__}.{name}"
        for owner, old, new in zip(OWNERS, before, now)
        for name in old.keys() | new.keys()
        if old.get(name) is not new.get(name)
    ]


def case(name):
    if name.startswith("version="):
        VERSION.__version__ = name.partition("=")[2]
    elif name and not name.startswith("stepped "):
        remove(name.removeprefix("plain "))
    if name.startswith("plain "):
        return {"fate": fate()}
    if name.startswith("stepped "):
        from tfdbg_cli.engines.registry import load

        remove(name.removeprefix("stepped "))
        before = patched()
        tfdbg_cli.enable()
        found = {"on": patched(before)}
        try:
            load("torch").call_stepper(torch.nn.Linear(3, 2), [torch.ones(3)], {})
        except tfdbg_cli.front.control.UserError as error:
            found["error"] = str(error)
        tfdbg_cli.disable()
        return found
    before = patched()
    tfdbg_cli.enable()
    found = {"on": patched(before)}
    if not found["on"]:
        with tfdbg_cli.run("block"):
            found["fate"] = fate()
        before = patched()  # the framework hooks and imports things of its own
    for _ in range(2):
        tfdbg_cli.disable()
        found["off"] = patched(before)
        tfdbg_cli.enable()
    tfdbg_cli.disable()
    return found


for name in cases:
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        with tempfile.TemporaryFile("w+") as answer:
            child = os.fork()
            if not child:
                os.dup2(out.fileno(), 1)
                os.dup2(err.fileno(), 2)
                try:
                    json.dump(case(name), answer)
                    answer.flush()
                finally:
                    sys.stdout.flush()
                    os._exit(0)
            os.waitpid(child, 0)
            texts = []
            for file in (out, err, answer):
                file.seek(0)
                texts.append(file.read())
    print(json.dumps([name, *texts]), flush=True)
"""


class Case:
    def __init__(self, stdout, stderr, answer):
        self.stdout = stdout
        self.lines = [line for line in stderr.splitlines() if line.startswith("tfdbg: ")]
        self._stderr, self._answer = stderr, answer

    @property
    def found(self):
        assert self._answer, self._stderr
        return json.loads(self._answer)


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    """The cases of an engine: a name that is removed, with the debugger and (plain) without."""
    folder, done = tmp_path_factory.mktemp("private"), {}
    (folder / "program.py").write_text(PROGRAM)
    environment = {
        **os.environ,
        **{f"XDG_{each}_HOME": str(folder / each) for each in ("CONFIG", "DATA", "STATE")},
        "PYTHONPATH": str(ENGINES.parent.parent),
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "CUDA_VISIBLE_DEVICES": "",
    }

    def of(engine):
        if importlib.util.find_spec(FRAMEWORKS[engine.rstrip("2")][0]) is None:
            pytest.skip(f"{engine} isn't installed")
        if engine not in done:
            names = [path for each, path in NEEDED if each == engine]
            asked = ["", *names, *(f"plain {name}" for name in names)]
            asked += ["version=1.99.0", "version=99.0.0"]
            asked += [MONITORED] if engine == "tensorflow" else []
            asked += [f"stepped {path}" for path in STEPPED if engine == "torch"]
            ran = subprocess.run(
                [sys.executable, folder / "program.py", engine, *asked],
                capture_output=True,
                text=True,
                env=environment,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                timeout=600,
                check=False,
            )
            assert not ran.returncode, ran.stderr
            rows = [json.loads(line) for line in ran.stdout.splitlines()]
            done[engine] = {name: Case(*texts) for name, *texts in rows}
        return done[engine]

    return of


@pytest.mark.parametrize(("engine", "path"), NEEDED)
def test_without_a_name_nothing_is_patched_and_one_line_says_so(cases, engine, path):
    case = cases(engine)[path]
    assert case.found["on"] == case.found["off"] == []
    assert case.found["fate"] == cases(engine)[f"plain {path}"].found["fate"]
    lines = {line.partition(" engine can't be used")[0]: line for line in case.lines}
    line = lines.pop(f"tfdbg: the {engine}")
    # The two engines of TensorFlow share names; each says so for itself.
    assert lines.keys() <= {"tfdbg: the tensorflow", "tfdbg: the tensorflow2"}, case.lines
    assert len(case.lines) == len(lines) + 1
    last = path.rpartition(":")[2].rpartition(".")[2]
    for each in (line, *lines.values()):
        assert " engine can't be used, its runs go undebugged: " in each
        assert " has no " in each
        assert last in each
    assert case.stdout == ""


@pytest.mark.parametrize("engine", HOMES)
def test_disable_undoes_all_that_was_patched(cases, engine):
    case = cases(engine)[""]
    assert len(case.found["on"]) >= (4 if engine == "tensorflow2" else 5)
    assert case.found["off"] == []
    assert case.lines == []


@pytest.mark.parametrize("engine", FRAMEWORKS)
@pytest.mark.parametrize("version", ["1.99.0", "99.0.0"])
def test_a_version_that_was_not_tested_is_named_once(cases, engine, version):
    case = cases(engine)[f"version={version}"]
    (line,) = case.lines
    assert f" {version} was not tested with this debugger. The debugger was tested with " in line
    assert case.found["on"]
    assert case.stdout == ""


@pytest.mark.parametrize("path", STEPPED)
def test_without_what_only_steps_need_all_else_is_debugged(cases, path):
    case = cases("torch")[f"stepped {path}"]
    assert case.found["on"]
    assert case.found["error"].startswith("Its runs can't be stepped through: PyTorch ")
    assert case.found["error"].endswith(f" has no {path.replace(':', '.')}.")
    assert case.lines == []


def test_other_monitored_sessions_are_left_alone_as_a_whole(cases):
    case = cases("tensorflow")[MONITORED]
    assert "BaseSession.run" in case.found["on"]
    assert not [name for name in case.found["on"] if "Monitored" in name]
    assert case.found["off"] == []
    (line,) = case.lines
    assert "runs of monitored sessions go undebugged: TensorFlow " in line
    assert line.endswith("_MonitoredSession.run_step_fn.")
