"""``fix N --go``: the program gets what the run would have given with the remedy, and goes on."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent

import pytest
from examples_kit import needs
from program_server import debugger_in, python_in

# Each prints rows of numbers; row 2 is bad without the remedy.
PROGRAMS = {
    "numpy": """
        import numpy as np
        from tfdbg_cli.engines import numpy as tf
        x = tf.placeholder(tf.float32, [3], name="x")
        y = tf.log(tf.multiply(x, x))
        loss = tf.reduce_mean(y, name="loss")
        with tf.Session() as session:
            for step in range(4):
                given = np.array([1, 2, 0 if step == 2 else 3], np.float32)
                found = session.run({"loss": loss, "both": (x, [y])}, {x: given})
                assert isinstance(found["loss"], np.float32)
                assert (found["both"][0] == given).all()
                print(step, float(found["loss"]), float(found["both"][1][0].mean()))
    """,
    "sessions": """
        import numpy as np
        import tensorflow.compat.v1 as tf
        tf.disable_v2_behavior()
        x = tf.placeholder(tf.float32, [3], name="x")
        y = tf.log(x * x)
        loss = tf.reduce_mean(y)
        with tf.Session() as session:
            for step in range(4):
                given = np.array([1, 2, 0 if step == 2 else 3], np.float32)
                fetches = {"loss": loss, "both": (x, ["Log:0"]), "done": tf.no_op()}
                found = session.run(fetches, {x: given})
                assert isinstance(found["loss"], np.float32) and found["done"] is None
                assert (found["both"][0] == given).all()
                print(step, float(found["loss"]), float(found["both"][1][0].mean()))
    """,
    "onnx": """
        import numpy as np
        import onnxruntime
        from onnx import TensorProto, helper
        nodes = [
            helper.make_node("Log", ["x"], ["y"]),
            helper.make_node("ReduceMean", ["y"], ["loss"], keepdims=0),
        ]
        kind = TensorProto.FLOAT
        values = {name: helper.make_tensor_value_info(name, kind, [3]) for name in "xy"}
        loss = helper.make_tensor_value_info("loss", kind, [])
        graph = helper.make_graph(nodes, "g", [values["x"]], [loss, values["y"], values["x"]])
        opsets = [helper.make_opsetid("", 13)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        session = onnxruntime.InferenceSession(model.SerializeToString())
        for step in range(4):
            given = np.array([1, 2, 0 if step == 2 else 3], np.float32)
            loss, y = session.run(["loss", "y"], {"x": given})
            print(step, float(loss), float(y.mean()))
    """,
    "jax": """
        import jax
        import jax.numpy as jnp
        traced = []
        @jax.jit
        def train(state, x):
            traced.append(x)
            def loss_of(w):
                return jnp.sqrt(((x * w) ** 2).sum(-1)).mean()
            loss, gradient = jax.value_and_grad(loss_of)(state["w"])
            return {"w": state["w"] - 0.1 * gradient, "n": state["n"] + 1}, loss
        state = {"w": jnp.ones(3), "n": jnp.asarray(0)}
        for step in range(4):
            x = jnp.ones((4, 3)).at[1].set(0.0 if step == 2 else 1.0)
            state, loss = train(state, x)
            assert state["n"] == step + 1 and len(traced) == 1
            print(step, float(loss), float(state["w"].sum()))
    """,
    "tensorflow": """
        import keras
        import tensorflow as tf
        w = tf.Variable([1.0, 2.0, 3.0])
        optimizer = keras.optimizers.Adam(0.01)
        optimizer.build([w])
        @tf.function
        def train(x):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.math.log(w * w * x))
            gradient = tape.gradient(loss, w)
            optimizer.apply_gradients([(gradient, w)])
            return loss, {"norm": tf.norm(gradient), "x": x}
        for step in range(4):
            x = tf.constant([1.0, 1.0, 0.0 if step == 2 else 1.0])
            loss, more = train(x)
            assert (more["x"].numpy() == x.numpy()).all()
            print(step, float(loss), float(more["norm"]), float(tf.reduce_sum(w)))
    """,
    "torch": """
        import torch
        w = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        optimizer = torch.optim.SGD([w], lr=0.01, momentum=0.9)
        for step in range(4):
            optimizer.zero_grad()
            loss = torch.log(w * w * (torch.arange(3) < 2 if step == 2 else 1)).mean()
            loss.backward()
            optimizer.step()
            print(step, float(loss.detach()), float(w.detach().sum()), float(w.grad.sum()))
    """,
}

# What follows is the same as if the line were another one in step 2.
STEP = """
    import torch
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 4)
    optimizer = torch.optim.{optimizer}
    for step in range(5):
        x = torch.rand(8, 3)
        optimizer.zero_grad()
        p = torch.softmax(model(x) * (300 if step == 2 else 1), -1)
        y = torch.log(p)
        loss = -y[:, 0].mean()
        {backward}
        optimizer.step()
        state = [value for each in optimizer.state.values() for value in each.values()]
        weights = [*model.parameters()]
        tensors = [loss, y, {more} *weights, *(each.grad for each in weights), *state]
        print(step, *(float(each.detach().sum()) for each in tensors if each is not None))
"""
_SGD, _ADAM = "SGD(model.parameters(), 0.01, 0.9, foreach=True)", "Adam(model.parameters())"
_CLIP = "loss.backward(); torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
_PARTS = "loss.backward(); q = torch.ones(2, 3); q[0] = loss.detach(); q[1, 1:] = y[0, :2].detach()"
# What the program has done before the stop, and why it can't go on with other values.
USED = {
    "loss.backward(); loss.item()": r"the program has read neg:0 as a number already at \S+:12",
    "loss.backward(retain_graph=True)": "the program can still compute gradients through log",
    "loss.backward(); r = torch.bernoulli(torch.sigmoid(y.detach()))": "bernoulli:0 wasn't",
}

# Programs whose values can't be others any more, and what is said of that.
REFUSED = {
    "tensorflow": (
        """
        import tensorflow as tf
        w = tf.Variable(tf.zeros(3))
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.math.log(w))
        w.assign_sub(tape.gradient(loss, w))
        print(loss.numpy())
        """,
        "The program can't go on with this: TensorFlow's eager tensors can't be changed",
    ),
    "sessions": (
        """
        import tensorflow.compat.v1 as tf
        tf.disable_v2_behavior()
        w = tf.get_variable("w", initializer=tf.zeros(3))
        train = w.assign(tf.log(w), read_value=False)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            print(session.run([train, tf.log(w)]))
        """,
        "The program can't go on with this: the run has written to w already",
    ),
    "jax": (
        """
        import jax
        import jax.numpy as jnp
        @jax.jit
        def score(x):
            return jax.lax.fori_loop(0, 3, lambda at, y: y + at, jnp.log(x))
        print(score(jnp.zeros(3)))
        """,
        r"The program can't go on with this: \S+ wasn't recomputed: it is part of a loop",
    ),
}
_MARKS = {
    "numpy": [],
    "sessions": [*needs("tensorflow"), pytest.mark.tensorflow],
    "tensorflow": needs("tensorflow"),
    "torch": needs("torch"),
    "onnx": needs("onnx"),
    "jax": needs("jax"),
}


def _each(table: dict[str, object]) -> list[object]:
    return [pytest.param(engine, marks=_MARKS[engine]) for engine in table]


def _rows(out: str) -> list[list[float]]:
    rows = re.findall(r"^\d(?: (?:-?[\d.]\S*|-?inf|nan))+$", out, re.MULTILINE)
    return [[float(x) for x in row.split()] for row in rows]


@pytest.mark.parametrize("engine", _each(PROGRAMS))
def test_the_program_goes_on_with_what_was_foretold(tmp_path: Path, engine: str) -> None:
    (tmp_path / "train.py").write_text(dedent(PROGRAMS[engine]))
    options = ["--batch", "-c", "config set level values", "-c", "run -f"]
    done = debugger_in(tmp_path, *options, "-c", "fix 1 --go", "train.py")
    after = _rows(done.stdout)
    assert re.search(r"run-end: .*#?3: [\s\S]*with the change\.[^\n]*\n2 ", done.stdout), (
        done.stdout
    )
    assert [row[0] for row in after] == [0, 1, 2, 3]
    assert all(abs(x) < 1e9 for row in after for x in row)
    foretold = re.search(r"^Tried: .* loss ([-\d.e]+)", done.stdout, re.MULTILINE)
    assert foretold is not None, done.stdout
    assert after[2][1] == pytest.approx(float(foretold[1]), rel=1e-4)
    assert "no tensor passed origin_of_nonfinite up to the program's end" in done.stderr


@needs("torch")[0]
@pytest.mark.parametrize(
    ("optimizer", "backward"),
    [(_SGD, _CLIP), (_ADAM, "loss.backward()"), (_ADAM, _PARTS)],
)
def test_pytorch_goes_on_as_with_the_changed_line(
    tmp_path: Path, optimizer: str, backward: str
) -> None:
    more = "q," if backward == _PARTS else ""
    text = dedent(STEP).format(optimizer=optimizer, backward=backward, more=more)
    (tmp_path / "train.py").write_text(text)
    changed = text.replace("log(p)", "log(p.clamp(min=1e-12) if step == 2 else p)")
    (tmp_path / "changed.py").write_text(changed)
    options = ["--batch", "-c", "config set level values", "-c", "run -f"]
    done = debugger_in(tmp_path, *options, "-c", "fix 2 --go", "train.py")
    expected = _rows(python_in(tmp_path, "changed.py").stdout)
    assert len(expected) == 5
    for row, other in zip(_rows(done.stdout), expected, strict=True):
        assert row == pytest.approx(other, rel=1e-5, abs=1e-6), done.stdout + done.stderr


@needs("torch")[0]
@pytest.mark.parametrize("backward", USED)
def test_pytorch_keeps_what_the_program_has_used(tmp_path: Path, backward: str) -> None:
    text = dedent(STEP).format(optimizer=_SGD, backward=backward, more="")
    (tmp_path / "train.py").write_text(text)
    options = ["--batch", "-c", "config set level values", "-c", "run -f"]
    done = debugger_in(tmp_path, *options, "-c", "fix 2 --go", "train.py")
    assert re.search(f"ERROR: The program can't go on with this: {USED[backward]}", done.stderr)
    plain = python_in(tmp_path, "train.py")
    assert str(_rows(done.stdout)) == str(_rows(plain.stdout))  # as text: nan is nan


@needs("torch")[0]
@pytest.mark.parametrize("level", ["modules", "ops"])
def test_pytorch_keeps_what_wasn_t_recorded(tmp_path: Path, level: str) -> None:
    (tmp_path / "train.py").write_text(
        dedent(STEP).format(optimizer=_SGD, backward="loss.backward()", more="")
    )
    options = ["--batch", "-c", f"config set level {level}", "-c", "run -f"]
    done = debugger_in(tmp_path, *options, "-c", "fix 2 --go", "train.py")
    assert "keeps all tensors of a run only at the level values" in done.stderr


@pytest.mark.parametrize("engine", _each(REFUSED))
def test_what_the_program_has_already_is_told(tmp_path: Path, engine: str) -> None:
    text, reason = REFUSED[engine]
    (tmp_path / "train.py").write_text(dedent(text))
    done = debugger_in(tmp_path, "--batch", "-c", "run -f", "-c", "fix 1 --go", "train.py")
    assert re.search(rf"ERROR: {reason}", done.stdout + done.stderr), done.stdout + done.stderr
    assert "fix N --apply FILE" in done.stdout + done.stderr
    assert "with the change." not in done.stdout


def test_a_remedy_has_to_be_chosen_and_to_help(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from tfdbg_cli.remedies.candidates import remedy\n"
        "@remedy('log', '({x} * 1)')\n"
        "def same(x): return x * 1\n"
    )
    (tmp_path / "train.py").write_text(dedent(PROGRAMS["numpy"]))
    options = ["--batch", "--filters", "mine.py", "-c", "run -f", "-c", "fix"]
    listed = debugger_in(tmp_path, *options, "train.py").stdout
    number = re.search(r"^(\d)  .*  still -inf", listed, re.MULTILINE)
    assert number is not None, listed
    for command, reason in (
        ("fix --go", "Which remedy?"),
        (f"fix {number[1]} --go", "With this remedy the run isn't clean: still -inf."),
    ):
        done = debugger_in(tmp_path, *options, "-c", command, "train.py")
        assert f"ERROR: {reason}" in done.stderr
        assert "with the change." not in done.stdout


def test_what_stays_bad_is_told(tmp_path: Path) -> None:
    text = dedent(PROGRAMS["numpy"]).replace("reduce_mean(y,", "reduce_mean(tf.log(x),")
    (tmp_path / "train.py").write_text(text)
    done = debugger_in(tmp_path, "--batch", "-c", "run -f", "-c", "fix 1 --go", "train.py")
    assert re.search(r"with the change\. Still bad, from elsewhere: \S+\.", done.stdout), done
