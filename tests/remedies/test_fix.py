"""``fix``: what it foretells is what the program gives once its line is changed."""

from __future__ import annotations

import json
import re
import subprocess
import textwrap
from pathlib import Path

import numpy as np
import pytest
from examples_kit import needs
from program_server import debugger_in, python_in
from samples import night

# Each prints a loss a step; step 2 is the bad one. The loss and the gradient's norm are printed.
PROGRAMS = {
    "numpy": """
        import numpy as np
        from tfdbg_cli.engines import numpy as tf
        x = tf.placeholder(tf.float32, [3], name="x")
        p = tf.multiply(x, x, name="p")
        loss = tf.reduce_mean(tf.log(p), name="loss")
        with tf.Session() as session:
            for step in range(4):
                given = np.array([1, 2, 0 if step == 2 else 3], np.float32)
                print(step, float(session.run(loss, {x: given})))
    """,
    "torch": """
        import torch
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 4)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for step in range(4):
            x = torch.rand(8, 3)
            optimizer.zero_grad()
            p = torch.softmax(model(torch.dropout(x, 0.2, True)) * (300 if step == 2 else 1), -1)
            loss = -torch.log(p)[:, 0].mean()
            loss.backward()
            print(step, loss.item(), sum(float(w.grad.norm()) for w in model.parameters()))
            optimizer.step()
    """,
    "tensorflow": """
        import tensorflow as tf
        w = tf.Variable(tf.ones((3, 4)) * tf.range(4.0))
        @tf.function
        def train(x):
            with tf.GradientTape() as tape:
                p = tf.nn.softmax(x @ w)
                loss = -tf.reduce_mean(tf.math.log(p + 0.0)[:, 0])
            gradient = tape.gradient(loss, w)
            w.assign_sub(0.1 * gradient)
            return loss, tf.norm(gradient)
        for step in range(4):
            print(step, *map(float, train(tf.ones((8, 3)) * (100.0 if step == 2 else 1.0))))
    """,
    "sessions": """
        import numpy as np
        import tensorflow.compat.v1 as tf
        tf.disable_v2_behavior()
        x = tf.placeholder(tf.float32, [4, 3], name="x")
        w = tf.get_variable("w", initializer=tf.ones(3))
        root = tf.sqrt(tf.reduce_sum(tf.square(x * w), -1))
        loss = tf.reduce_mean(root)
        optimizer = tf.train.GradientDescentOptimizer(0.1)
        [(gradient, _)] = optimizer.compute_gradients(loss, [w])
        train = optimizer.apply_gradients([(gradient, w)])
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for step in range(4):
                given = np.ones((4, 3), np.float32)
                given[1] = 0 if step == 2 else 1
                _, value, norm = session.run([train, loss, tf.norm(gradient)], {x: given})
                print(step, float(value), float(norm))
    """,
    "jax": """
        import jax
        import jax.numpy as jnp
        train = jax.jit(jax.value_and_grad(lambda w, x: jnp.sqrt(((x * w) ** 2).sum(-1)).mean()))
        w = jnp.ones(3)
        for step in range(4):
            x = jnp.ones((4, 3)).at[1].set(0.0 if step == 2 else 1.0)
            loss, gradient = train(w, x)
            w = w - 0.1 * gradient
            print(step, float(loss), float(jnp.linalg.norm(gradient)))
    """,
}

_NUMBERS = (1, 2, 3)


class Fixed:
    """A program, what was foretold of it, and what it gives before and after the change."""

    def __init__(self, engine: str, folder: Path) -> None:
        self._folder = folder
        lines = PROGRAMS[engine].strip("\n").splitlines()
        self._write("train.py", "\n".join(each[8:] for each in lines))
        self.plain = self._run("train.py").stdout
        options = ["--batch", "-c", "config set level values", "-c", "run -f has_inf_or_nan"]
        for command in ("fix --json", "fix 1", *(f"fix {n} --apply {n}.patch" for n in _NUMBERS)):
            options += ["-c", command]
        self.debugged = self._run("-m", "tfdbg_cli", *options, "train.py")
        self.tried = [
            json.loads(each)
            for each in self.debugged.stdout.splitlines()
            if each.startswith('{"change"')
        ]

    def after(self, number: int) -> list[list[float]]:
        """The numbers that the program prints with one of the changes."""
        for option in ((), ("--reverse",)):
            command = ["git", "apply", "-p1", *option, f"{number}.patch"]
            if option:
                numbers = self.numbers(self._run("train.py").stdout)
            subprocess.run(command, cwd=self._folder, check=True, capture_output=True)
        return numbers

    @staticmethod
    def numbers(out: str) -> list[list[float]]:
        """Those of each step."""
        rows = re.findall(r"^\d(?: (?:[-.e\d]+|-?inf|nan))+$", out, re.MULTILINE)
        return [[float(x) for x in row.split()] for row in rows]

    def _write(self, name: str, text: str) -> None:
        (self._folder / name).write_text(text + "\n")

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        done = python_in(self._folder, *arguments)
        # A remedy that can't be written is an error of its command.
        assert done.returncode == 0 or "-m" in arguments, done.stderr
        assert "Traceback" not in done.stderr, done.stderr
        return done


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("numpy"),
        pytest.param("torch", marks=needs("torch")),
        pytest.param("tensorflow", marks=needs("tensorflow")),
        pytest.param("sessions", marks=[*needs("tensorflow"), pytest.mark.tensorflow]),
        pytest.param("jax", marks=[*needs("jax"), night]),
    ],
)
def fixed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Fixed:
    return Fixed(request.param, tmp_path_factory.mktemp("fix"))


def test_what_is_foretold_comes_true(fixed: Fixed) -> None:
    assert fixed.tried[0]["clean"], fixed.debugged.stdout
    assert not np.isfinite(fixed.numbers(fixed.plain)[2]).all()
    written = [(n, each) for n, each in zip(_NUMBERS, fixed.tried, strict=False) if each["file"]]
    assert written
    for number, each in written:
        after = fixed.after(number)[2]
        assert np.isfinite(after[1]) == each["clean"], each
        np.testing.assert_allclose(each["loss"], after[1], rtol=1e-5)
        if len(after) > 2:
            assert np.isfinite(after[2]) == ("gradients too" in each["then"]), each


def test_trying_changes_nothing(fixed: Fixed) -> None:
    np.testing.assert_array_equal(fixed.numbers(fixed.debugged.stdout), fixed.numbers(fixed.plain))


def test_the_screen_of_a_stop_names_the_first(fixed: Fixed) -> None:
    assert f"Tried: {fixed.tried[0]['change']}: clean" in fixed.debugged.stdout


def test_a_remedy_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from tfdbg_cli.remedies.candidates import remedy\n"
        "import numpy as np\n"
        "@remedy('log', 'tf.softplus({x})')\n"
        "def softplus(x): return np.logaddexp(x, 0)\n"
    )
    lines = PROGRAMS["numpy"].strip("\n").splitlines()
    (tmp_path / "train.py").write_text("\n".join(each[8:] for each in lines))
    commands = ("-c", "run -f", "-c", "fix 1")
    done = debugger_in(tmp_path, "--batch", "--filters", "mine.py", *commands, "train.py")
    assert "Then:   clean" in done.stdout, done.stderr
    assert '+loss = tf.reduce_mean(tf.log(tf.softplus(p)), name="loss")' in done.stdout


# A batch whose row 3 is bad, in row 2 of what is printed.
BATCHES = {
    "torch": """
        import numpy as np
        import torch
        model = torch.nn.Linear(3, 1)
        for step in range(4):
            x = np.ones((8, 3), np.float32)
            x[3, 1] = np.nan if step == 2 else 1
            loss = model(torch.from_numpy(x)).mean()
            loss.backward()
            print(step, loss.item())
    """,
    "tensorflow": """
        import numpy as np
        import tensorflow as tf
        w = tf.Variable(tf.ones((3, 1)))
        @tf.function
        def train(x):
            return tf.reduce_mean(x @ w)
        for step in range(4):
            x = np.ones((8, 3), np.float32)
            x[3, 1] = np.nan if step == 2 else 1
            print(step, float(train(tf.constant(x))))
    """,
    "jax": """
        import jax
        import jax.numpy as jnp
        train = jax.jit(lambda w, x: (x @ w).mean())
        for step in range(4):
            x = jnp.ones((8, 3)).at[3, 1].set(jnp.nan if step == 2 else 1)
            print(step, float(train(jnp.ones(3), x)))
    """,
}


@pytest.mark.parametrize("engine", [pytest.param(e, marks=needs(e)) for e in BATCHES])
def test_a_bad_row_of_the_batch_is_left_out(tmp_path: Path, engine: str) -> None:
    (tmp_path / "train.py").write_text(textwrap.dedent(BATCHES[engine]))
    options = ["--batch", "-c", "config set level values", "-c", "run -f"]
    done = debugger_in(tmp_path, *options, "-c", "fix", "-c", "fix 1 --go", "train.py")
    text = r"without row 3 of \S+ \(tried with row 0 in place\)"
    assert re.search(rf"^1  {text} +clean to the", done.stdout, re.MULTILINE), done.stdout
    assert re.search(r"^pt \S+ --map shows which rows", done.stdout, re.MULTILINE)
    assert "the program's data isn't changed" in done.stderr
    assert np.isnan(Fixed.numbers(done.stdout)[2][1])


# Numbers that are other ones with a remedy, and aren't the loss.
NO_LOSS = {
    "what a metric has added up": (
        "tensorflow",
        """
        import numpy as np
        import tensorflow as tf
        def nll(y, p):
            return -tf.reduce_sum(y * tf.math.log(p), -1)
        tf.keras.utils.set_random_seed(0)
        layers = [tf.keras.layers.Input((3,)), tf.keras.layers.Dense(3, activation="softmax")]
        model = tf.keras.Sequential(layers)
        model.compile("sgd", nll, run_eagerly=True)
        x = np.random.RandomState(0).rand(12, 3).astype("f")
        x[9] *= 500
        y = np.eye(3, dtype="f")[np.arange(12) % 3]
        model.fit(x, y, batch_size=4, shuffle=False, verbose=0)
        """,
    ),
    "an update": (
        "tensorflow",
        """
        import tensorflow as tf
        w, total = tf.Variable([[1.0], [2.0]]), tf.Variable(0.0)
        @tf.function
        def train(x, step):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((x @ w) ** 2)
            rate = 0.01 / (1.0 - step / 3.0)
            w.assign_sub(rate * tape.gradient(loss, w))
            total.assign_add(loss * 4.0)
        for step in range(4):
            train(tf.ones((4, 2)), tf.constant(float(step)))
        """,
    ),
    "a number that was what the loss is": (
        "tensorflow",
        """
        import tensorflow as tf
        w = tf.Variable([1.0, -1.0])
        @tf.custom_gradient
        def unit(x):
            norm = tf.norm(x)
            return tf.math.divide_no_nan(x, norm), lambda given: given / norm
        @tf.function
        def train(x):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(unit(w * x))
            w.assign_sub(0.1 * tape.gradient(loss, w))
            return loss
        for x in ([1.0, 2.0], [2.0, 1.0], [0.0, 0.0]):
            train(tf.constant(x))
        """,
    ),
    "results without gradients": (
        "jax",
        """
        import jax
        import jax.numpy as jnp
        jax.jit(lambda x: (x.max(), jnp.log(x).sum()))(jnp.zeros(3))
        """,
    ),
    "one of several results": (
        "jax",
        """
        import jax
        import jax.numpy as jnp
        def loss_of(w):
            y = jnp.log(w)
            return y.mean(), y.max()
        jax.jit(jax.value_and_grad(loss_of, has_aux=True))(jnp.zeros(3))
        """,
    ),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=needs(engine)) for name, (engine, _) in NO_LOSS.items()]
)
def test_another_number_isn_t_called_the_loss(tmp_path: Path, name: str) -> None:
    (tmp_path / "train.py").write_text(textwrap.dedent(NO_LOSS[name][1]))
    done = debugger_in(tmp_path, "--batch", "-c", "run -f", "-c", "fix --json", "train.py")
    tried = [json.loads(each) for each in done.stdout.splitlines() if each.startswith('{"change"')]
    assert tried and tried[0]["then"].startswith("clean"), done.stdout
    assert {each["loss"] for each in tried} == {None}, tried
    assert not any("the loss" in each["then"] for each in tried), tried


# What the debugger can't try, or can't write into a line: (program, what fix and fix 1 say).
SAID = {
    "an op in a loop": (
        """
        import jax
        import jax.numpy as jnp
        def body(c, x):
            return c * 0.5, jnp.exp(x)
        print(jax.jit(lambda x: jax.lax.scan(body, 1.0, x)[1])(jnp.array([1.0, 100.0])))
        """,
        [
            r"Remedies for .*scan/exp:0 \(execution 1\); none could be tried:",
            r"1  jnp.exp\(x.clip\(None, 88\)\)  not tried: it was computed several times\s*$",
            r"^Then:   not tried: it was computed several times\n\n--- ",
        ],
    ),
    "an op that goes round in a loop": (
        """
        import jax
        import jax.numpy as jnp
        def body(c, x):
            return jnp.exp(c), x
        print(jax.jit(lambda x: jax.lax.scan(body, 10.0, x)[0])(jnp.ones(3)))
        """,
        [r"1  jnp.exp\(c.clip\(None, 88\)\)  not tried: it is part of a loop\s*$"],
    ),
    "an op in a shard_map": (
        """
        import jax
        import jax.numpy as jnp
        try:
            from jax import shard_map
        except ImportError:
            from jax.experimental.shard_map import shard_map
        place = jax.sharding.PartitionSpec("d")
        mesh = jax.sharding.Mesh(jax.devices()[:1], ("d",))
        f = shard_map(lambda x: jnp.exp(x), mesh=mesh, in_specs=place, out_specs=place)
        print(jax.jit(f)(jnp.array([1.0, 100.0])))
        """,
        [r"not tried: it is a loop, a branch or a shard_map, or inside of one\s*$"],
    ),
    "a mask of another line": (
        """
        import jax
        import jax.numpy as jnp
        @jax.jit
        def f(x):
            masked = jnp.where(x > 0, x, -jnp.inf)
            return jax.nn.softmax(masked)
        f(jnp.zeros(3))
        """,
        [
            "^Why:   the one row of softmax is -inf as a whole$",
            r"^The line at train.py:5 has to be changed by hand: -1e9 in place of -inf$",
        ],
    ),
    "a branch that was taken": (
        """
        import jax
        import jax.numpy as jnp
        @jax.jit
        def f(x):
            y = jax.lax.cond(x.sum() > 0, lambda x: x * 2, lambda x: x * 3, jnp.log(x).sum())
            return y
        f(jnp.array([0.0, 1.0]))
        """,
        [r"^1  jnp.log\(x.clip\(1e-12\)\) +clean to the end of the run "],
    ),
    "an op in a branch": (
        """
        import jax
        import jax.numpy as jnp
        @jax.jit
        def f(x):
            return jax.lax.cond(x[0] > 0, lambda x: x / x[1], lambda x: x * 3, x) * 2
        f(jnp.array([1e-3, 0.0]))
        """,
        [r"^\d  x / \(x\[1\] \+ 1e-12\) +clean to the end of the run, but returns up to 2e\+09 "],
    ),
    "an op inside of a function, on a line with another one": (
        """
        import jax
        import jax.numpy as jnp
        @jax.jit
        def f(x):
            return (x - x.mean(0)) / (x.std(0, ddof=1) + 1e-6)
        f(jnp.ones((1, 2)))
        """,
        [
            r"^\d  the divisor of div kept at 1 or above  +nan at std/var/where/select_n:0, line 5",
            r"^The line at train.py:5 has to be changed by hand: the divisor of div ",
        ],
    ),
    "another name of the function": (
        """
        import jax
        import jax.numpy as jnp
        print(jax.jit(lambda x: jnp.arccos(x))(jnp.array([1.5])))
        """,
        [r"^\+print\(jax.jit\(lambda x: jnp.arccos\(x.clip\(-0.999999, 0.999999\)\)\)"],
    ),
}


@pytest.mark.parametrize("name", SAID)
@needs("jax")[0]
def test_what_is_said_of_a_remedy_is_so(tmp_path: Path, name: str) -> None:
    text, said = SAID[name]
    (tmp_path / "train.py").write_text(textwrap.dedent(text).lstrip())
    commands = ("-c", "run -f has_inf_or_nan", "-c", "fix", "-c", "fix 1", "-c", "version")
    done = debugger_in(tmp_path, "--batch", *commands, "train.py")
    for each in said:
        assert re.search(each, done.stdout, re.MULTILINE), done.stdout


# An op of the branch that was taken, whose result the program multiplies by 2.
BRANCHES = {
    "tensorflow": """
        import tensorflow as tf
        @tf.function
        def f(x):
            if x[0] > 0:
                y = tf.sqrt(x)
            else:
                y = x * 3
            return y * 2
        print(f(tf.constant([1.0, -1.0])).numpy())
    """,
    "sessions": """
        import tensorflow.compat.v1 as tf
        tf.disable_v2_behavior()
        tf.enable_control_flow_v2()
        x = tf.placeholder(tf.float32, [2])
        y = tf.cond(x[0] > 0, lambda: tf.sqrt(x), lambda: x * 3) * 2
        with tf.Session() as session:
            print(session.run(y, {x: [1.0, -1.0]}))
    """,
    "jax": """
        import jax
        import jax.numpy as jnp
        f = jax.jit(lambda x: jax.lax.cond(x[0] > 0, jnp.sqrt, lambda x: x * 3, x) * 2)
        print(f(jnp.array([1.0, -1.0])))
    """,
    "onnx": """
        import numpy as np
        import onnx.parser
        import onnxruntime
        text = "<ir_version: 8, opset_import: ['' : 17]> g (bool c, float[2] x) => (float[2] z) {"
        text += "y = If (c) <then_branch = t () => (float[2] a) { a = Sqrt(x) },"
        text += "else_branch = e () => (float[2] b) { b = Neg(x) }> z = Add(y, y) }"
        model = onnx.parser.parse_model(text.replace("'", '"'))
        session = onnxruntime.InferenceSession(model.SerializeToString())
        print(session.run(None, {"c": np.array(True), "x": np.array([1.0, -1.0], "f")})[0])
    """,
}


@pytest.mark.parametrize(
    "engine",
    [
        pytest.param(
            each, marks=needs({"sessions": "tensorflow", "onnx": "onnxruntime"}.get(each, each))
        )
        for each in BRANCHES
    ],
)
def test_an_op_of_a_branch_is_changed_there(tmp_path: Path, engine: str) -> None:
    (tmp_path / "train.py").write_text(textwrap.dedent(BRANCHES[engine]))
    commands = ("-c", "run -f", "-c", "fix --json", "-c", "fix 1 --go")
    done = debugger_in(tmp_path, "--batch", *commands, "train.py")
    found = [json.loads(each) for each in done.stdout.splitlines() if each.startswith('{"change"')]
    assert [each["then"] for each in found] == ["clean to the end of the run"] * 2, done.stdout
    assert re.search(r"^\[2\. +0\. *\]$", done.stdout, re.MULTILINE), done.stdout + done.stderr


# A model's node isn't in the line that runs it.
MODEL = """
    import numpy as np
    import onnx.parser
    import onnxruntime
    text = "<ir_version: 8, opset_import: ['' : 17]> g (float[N] x) => (float[N] y) { y = Log(x) }"
    model = onnx.parser.parse_model(text.replace("'", '"'))
    session = onnxruntime.InferenceSession(model.SerializeToString())
    session.run(None, {"x": np.zeros(2, "f")})
"""


@needs("onnxruntime")[0]
def test_a_remedy_for_a_model_isn_t_one_for_the_program_s_line(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(textwrap.dedent(MODEL))
    done = debugger_in(tmp_path, "--batch", "-c", "run -f", "-c", "fix 1", "train.py")
    text = r"^y has to be changed in the model by hand: "
    assert re.search(text, done.stdout, re.MULTILINE), done.stdout + done.stderr
    assert "The line at" not in done.stdout


# A derivative of the program's own reads what the changed op reads; it stays as it is.
OWN_DERIVATIVE = """
    import jax
    import jax.numpy as jnp
    @jax.custom_jvp
    def safe(x):
        return jnp.where(x > 0, jnp.log(jnp.where(x > 0, x, 1.0)), -100.0)
    @safe.defjvp
    def _(given, tangents):
        (x,), (dx,) = given, tangents
        return safe(x), dx / x
    @jax.jit
    def step(w):
        return jax.value_and_grad(lambda p: jnp.log(p).sum() + safe(p).sum())(w)
    print(*step(jnp.array([1.0, 0.0])))
"""


@needs("jax")[0]
def test_a_derivative_of_the_program_s_own_isn_t_changed(tmp_path: Path) -> None:
    text = textwrap.dedent(OWN_DERIVATIVE)
    (tmp_path / "train.py").write_text(text)
    done = debugger_in(tmp_path, "--batch", "-c", "run -f", "-c", "fix --json", "train.py")
    tried = [json.loads(each) for each in done.stdout.splitlines() if each.startswith('{"change"')]
    assert [each["clean"] for each in tried] == [False] * len(tried) != [], tried
    (tmp_path / "train.py").write_text(text.replace("jnp.log(p)", "jnp.log(p.clip(1e-12))"))
    assert "inf" in python_in(tmp_path, "train.py").stdout


# JAX computes 1 / x^2, and rsqrt(x) / x, for the gradient in the forward pass.
FACTORS = {
    "jnp.sin(x) / x": "jnp.sin(x) / (x + 1e-12)",
    "jax.lax.rsqrt(x)": "jax.lax.rsqrt(x + 1e-12)",
}
FACTOR = """
    import jax
    import jax.numpy as jnp
    @jax.jit
    def step(x):
        return jax.grad(lambda x: jnp.where(x == 0, 1.0, EXPRESSION).sum())(x)
    print(*step(jnp.array([0.5, 0.0])).tolist())
"""


@pytest.mark.parametrize("text", FACTORS)
@needs("jax")[0]
def test_what_the_forward_pass_computes_for_a_gradient_is_changed_along(
    tmp_path: Path, text: str
) -> None:
    (tmp_path / "train.py").write_text(textwrap.dedent(FACTOR).replace("EXPRESSION", text))
    options = ["--batch", "-c", "run -f", "-c", "fix --json", "-c", "fix 1 --apply 1.patch"]
    done = debugger_in(tmp_path, *options, "train.py")
    tried = [json.loads(each) for each in done.stdout.splitlines() if each.startswith('{"change"')]
    assert tried[0]["change"] == FACTORS[text]
    assert tried[0]["clean"], tried
    subprocess.run(["git", "apply", "-p1", "1.patch"], cwd=tmp_path, check=True)
    assert "nan" not in python_in(tmp_path, "train.py").stdout


@needs("tensorflow")[0]
def test_no_level_is_named_where_each_keeps_all(tmp_path: Path) -> None:
    """What a branch that wasn't taken reads is in no dump of TensorFlow 2."""
    text = """
        import keras, numpy as np
        keras.utils.set_random_seed(0)
        keras.mixed_precision.set_global_policy("mixed_float16")
        layers = [keras.layers.Dense(4), keras.layers.Activation("softmax", dtype="float32")]
        model = keras.Sequential([keras.layers.Input((4,)), *layers])
        model.compile("sgd", "sparse_categorical_crossentropy")
        x = 30 * np.random.default_rng(0).normal(size=(8, 4))
        model.fit(x, np.arange(8) % 4, batch_size=8, verbose=0)
    """
    (tmp_path / "train.py").write_text(textwrap.dedent(text))
    done = debugger_in(tmp_path, "--batch", "-c", "run -f has_inf_or_nan", "-c", "fix", "train.py")
    assert "isn't in the dump" in done.stdout, done.stdout
    assert "config set level" not in done.stdout


@needs("tensorflow")[0]
def test_a_remedy_that_writes_huge_numbers_comes_later_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(textwrap.dedent(NO_LOSS["an update"][1]))
    done = debugger_in(tmp_path, "--batch", "-c", "run -f", "-c", "fix --json", "train.py")
    tried = [json.loads(each) for each in done.stdout.splitlines() if each.startswith('{"change"')]
    assert not any("writes" in each["then"] for each in tried[:1]), tried
    assert re.search("clean to the .*, but writes up to [1-9.]+e", tried[-1]["then"]), tried


@pytest.mark.parametrize(
    ("program", "change"),
    [
        pytest.param(
            """
            layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(3, 2))
            with torch.no_grad():
                layer.parametrizations.weight.original1.zero_()
            layer(torch.ones(1, 3)).sum().backward()
            """,
            "1e-6 added to the vectors of _weight_norm_interface",
            id="weight_norm",
        ),
        pytest.param(
            """
            x = torch.zeros(3, requires_grad=True)
            (x.sum() / (x > 0).sum()).backward()
            """,
            "x.sum() / ((x > 0).sum() + 1e-12)",
            id="a count",
        ),
        pytest.param(
            """
            x = torch.zeros(3, requires_grad=True)
            normal = torch.distributions.Normal(0.0, torch.ones(3))
            (normal.log_prob(x) - torch.log(x)).sum().backward()
            """,
            "torch.log(x.clamp(min=1e-12))",
            id="beside a library's",
        ),
        pytest.param(
            """
            layer = torch.nn.Linear(3, 1, bias=False)
            layer(torch.full((1, 3), 2.0)).sum().backward()
            with torch.no_grad():
                layer.weight.add_(layer.weight.grad, alpha=-3e38)
            layer(torch.zeros(1, 3))
            """,
            "a rate of 1e38 in place of 3e38",
            id="rate",
        ),
        pytest.param(
            """
            matrix = torch.eye(3, requires_grad=True)
            u, s, v = torch.linalg.svd(matrix)
            (u[0, 0] + v[0, 1]).backward()
            """,
            "0.0001 of the largest element, rising, added to the diagonal of the input",
            id="svd",
        ),
        pytest.param(
            """
            layer = torch.nn.Linear(2, 1, bias=False)
            optimizer = torch.optim.RMSprop(layer.parameters(), lr=0.1)
            (layer(torch.full((1, 2), 3.0)) * 1e25).sum().backward()
            optimizer.step()
            """,
            "the gradients clipped at norm 1 (it is 4.24e+25 here)",
            id="clipped",
        ),
    ],
)
@needs("torch")[0]
def test_remedies_of_pytorch(tmp_path: Path, program: str, change: str) -> None:
    path = tmp_path / "train.py"
    text = textwrap.indent(textwrap.dedent(program), "    ")
    path.write_text(f"import torch\nimport tfdbg_cli\nwith tfdbg_cli.run():\n{text}\n")
    commands = ["config set level values", "run -f has_inf_or_nan", "fix --json"]
    options = [part for each in commands for part in ("-c", each)]
    done = debugger_in(tmp_path, "--batch", *options, str(path))
    tried = [json.loads(each) for each in done.stdout.splitlines() if each.startswith('{"change"')]
    found = next((each for each in tried if each["change"] == change), None)
    assert found is not None, done.stdout + done.stderr
    assert not any("ops of the line" in each["change"] for each in tried), tried
    assert found["then"].startswith("clean"), found


@needs("tensorflow")[0]
def test_what_a_run_hands_over_in_a_handle_is_its_end(tmp_path: Path) -> None:
    """A step of Keras gives an optional; metrics write to variables in the forward pass."""
    text = """
    import keras
    import numpy as np
    layers = [keras.Input((3,)), keras.layers.Dense(1, "sigmoid")]
    model = keras.Sequential(layers)
    model.compile("sgd", lambda y, p: -keras.ops.mean(y * keras.ops.log(p)))
    x = np.array([[1.0, 0.0, 0.0]] * 4, "f")
    model.layers[0].set_weights([np.full((3, 1), -200.0, "f"), np.zeros(1, "f")])
    model.fit(x, np.ones((4, 1), "f"), verbose=0)
    """
    (tmp_path / "train.py").write_text(textwrap.dedent(text))
    done = debugger_in(tmp_path, "--batch", "-c", "run -f", "-c", "fix --json", "train.py")
    tried = [json.loads(each) for each in done.stdout.splitlines() if each.startswith('{"change"')]
    assert tried and tried[0]["clean"], done.stdout
    assert not any(each["then"].startswith("clean up to") for each in tried), tried


@needs("jax")[0]
def test_a_remedy_that_returns_huge_numbers_says_so(tmp_path: Path) -> None:
    """The rate is infinite; what a function returns are the weights of the next step."""
    text = """
    import jax
    import jax.numpy as jnp
    @jax.jit
    def train(w, step):
        return w - 0.1 / (3.0 - step) * jax.grad(lambda w: (w**2).sum())(w)
    w = jnp.ones(3)
    for step in range(5):
        w = train(w, float(step))
    """
    (tmp_path / "train.py").write_text(textwrap.dedent(text))
    done = debugger_in(tmp_path, "--batch", "-c", "run -f", "-c", "fix --json", "train.py")
    tried = [json.loads(each) for each in done.stdout.splitlines() if each.startswith('{"change"')]
    assert re.search("clean to the .*, but returns up to [1-9.]+e", tried[-1]["then"]), done.stdout


@needs("torch")[0]
def test_what_is_tried_warns_nobody(tmp_path: Path) -> None:
    text = """
    import torch
    w = torch.ones(4, 4, requires_grad=True)
    optimizer = torch.optim.SGD([w], 0.1)
    for step in range(4):
        x = torch.arange(4.0 * (1 if step == 2 else 3)).reshape(-1, 4) @ w
        loss = (x / (x.std(0) + 1e-5)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """
    (tmp_path / "train.py").write_text(textwrap.dedent(text))
    level = ("-c", "config set level values")
    done = debugger_in(tmp_path, "--batch", *level, "-c", "run -f", "-c", "fix", "train.py")
    assert "divides by n - 1" in done.stdout and "Remedies for std:0" in done.stdout, done.stdout
    assert done.stderr.count("degrees of freedom") == 1, done.stderr  # the program's own


# Runs before the one with bad weights are earlier runs, of whichever kind they are.
WEIGHTS = """
    import jax
    import jax.numpy as jnp
    evaluate = jax.jit(lambda w: w.sum() * 2)
    for _ in range(EARLIER):
        evaluate(jnp.ones(3))
    jax.jit(jax.grad(lambda p: (p["w"] ** 2).sum()))({"w": jnp.array([1.0, jnp.nan])})
"""


@pytest.mark.parametrize(
    ("earlier", "said"),
    [
        (0, ["No earlier run was seen: look at", "they were so before the first run of the"]),
        (2, ["start run -f earlier, or see", "finds the run that wrote them, if one did."]),
    ],
)
@needs("jax")[0]
def test_an_earlier_run_is_blamed_for_weights_only_if_there_was_one(
    tmp_path: Path, earlier: int, said: list[str]
) -> None:
    text = textwrap.dedent(WEIGHTS).replace("EARLIER", str(earlier))
    (tmp_path / "train.py").write_text(text)
    done = debugger_in(tmp_path, "--batch", "-c", "run -f", "-c", "fix", "train.py")
    assert "training run #1" in done.stdout
    assert all(each in done.stdout for each in said), done.stdout


@needs("jax")[0]
def test_weights_that_were_finite_in_an_earlier_run_are_said_to_have_been(tmp_path: Path) -> None:
    text = """
    import jax
    import jax.numpy as jnp
    train = jax.jit(jax.grad(lambda p: (p["w"] ** 2).sum()))
    for first in (1, 1, 1, jnp.nan):
        p = {"w": jnp.array([first, 1.0, 1.0])}
        train(p)
    """
    (tmp_path / "train.py").write_text(textwrap.dedent(text))
    done = debugger_in(tmp_path, "--batch", "-c", "run -f", "-c", "why --json", "train.py")
    said = re.findall(
        r"w:0 was finite at run \d: see what has changed it since then\.", done.stdout
    )
    assert len(said) == 2, done.stdout
