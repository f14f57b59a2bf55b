"""`why`: the verdict, and when none is given."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from causes_kit import reason_of
from command_kit import Shell
from examples_kit import needs
from samples import sample

from tfdbg_cli.common.errors import DumpError
from tfdbg_cli.dumps.dump import Datum
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.run_folder.dump import RunFolderDump
from tfdbg_cli.dumps.run_folder.writer import write_run_folder
from tfdbg_cli.dumps.run_info import RunInfo
from tfdbg_cli.dumps.sources import Frame, Sources

_PROGRAM = """
import numpy as np
from tfdbg_cli.engines import numpy as tf

w = tf.placeholder(tf.float32, (2, 3), name="w")
one_zero = tf.constant(np.array([[1, 1, 1], [1, 1, 0]], "float32"))
zero = w * one_zero
made = {expression}
loss = tf.reduce_sum(made, name="loss")
with tf.Session() as session:
    session.run(loss, {{w: np.array([[1, 4, 2], [3, 0.5, 2]], "float32")}})
"""


def debugged(tmp_path, text, *commands):
    path = tmp_path / "program.py"
    path.write_text(text)
    options = [part for command in commands for part in ("-c", command)]
    return subprocess.run(
        [sys.executable, "-m", "tfdbg_cli", "--batch", *options, str(path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    ).stdout


def test_a_stop_opens_with_the_verdict_and_the_list_follows(tmp_path):
    text = _PROGRAM.format(expression="tf.log(zero)")
    out = debugged(tmp_path, text, "run -f has_inf_or_nan")
    parts = re.split(r"^--- (.*) ---$", out, flags=re.MULTILINE)
    (at,) = (at for at, part in enumerate(parts) if part == "why -f has_inf_or_nan")
    lines = [line for line in parts[at + 1].splitlines() if line]
    assert lines[0].startswith("It began in [Log] Log:0  float32 [2, 3]  1 -inf of 6")
    assert "  >  8  made = tf.log(zero)" in lines
    assert any(re.match(r"From:  \[Mul\] mul:0 .* clean  min 0, max 4", line) for line in lines)
    assert any(re.match(r"Then:  spread to loss:0", line) for line in lines)
    assert '2 dumped tensor(s) passing filter "has_inf_or_nan":' in lines


def test_the_line_of_a_library_that_the_program_only_calls(tmp_path):
    library = tmp_path / "lib" / "site-packages" / "losses" / "entropy.py"
    library.parent.mkdir(parents=True)
    library.write_text(
        "from tfdbg_cli.engines import numpy as tf\n\ndef loss(p):\n    return tf.log(p)\n"
    )
    text = _PROGRAM.format(expression="losses.loss(zero)")
    text = f"import sys\nsys.path.insert(0, {str(library.parents[1])!r})\n" + text.replace(
        "import numpy as np", "import numpy as np\nimport losses.entropy as losses"
    )
    out = debugged(tmp_path, text, "run -f has_inf_or_nan", "why --json")
    assert "  > 11  made = losses.loss(zero)" in out.splitlines()
    assert "In:    losses/entropy.py:4  return tf.log(p)" in out.splitlines()
    (found,) = (json.loads(each) for each in out.splitlines() if each.startswith("{"))
    own, inner = found["line"], found["library_line"]
    assert (own["line"], own["function"]) == (11, "<module>")
    assert (inner["file"], inner["line"], inner["text"]) == (str(library), 4, "return tf.log(p)")
    plain = debugged(tmp_path, _PROGRAM.format(expression="tf.log(zero)"), "run -f has_inf_or_nan")
    assert "In: " not in plain


def test_nothing_is_bad(tmp_path):
    out = debugged(tmp_path, _PROGRAM.format(expression="zero + w"), "run", "why")
    assert "No tensor of this run holds a nan or an infinity." in out


def test_a_mask_is_no_verdict(tmp_path):
    text = _PROGRAM.format(expression="w + tf.constant(np.full((2, 3), -np.inf, 'float32'))")
    out = debugged(tmp_path, text, "run", "why")
    assert "No op made a bad value from clean inputs" in out


def test_an_error_screen_ends_with_the_verdict(tmp_path):
    text = _PROGRAM.format(expression='tf.check_numerics(tf.log(zero), "bad")')
    out = debugged(tmp_path, text, "run")
    assert "!!! An error occurred during the run !!!" in out
    details = out.partition("Details:")[2]
    assert "It began in [Log] Log:0" in details
    assert reason_of(details).startswith("the logarithm of 0 at [1, 2]")


def test_what_came_in_with_the_batch(tmp_path):
    text = _PROGRAM.format(expression="zero + w").replace("[1, 4, 2]", "[1, np.nan, 2]")
    out = debugged(tmp_path, text, "run -f has_inf_or_nan", "why")
    assert reason_of(out) == "it came in from outside (w:0, row 0)"


def test_what_came_in_with_the_weights(tmp_path):
    text = _PROGRAM.format(expression="zero + b").replace(
        "made =", "b = tf.Variable(np.array([1, np.nan, 2], 'float32'), name='b')\nmade ="
    )
    text = text.replace(
        "    session.run(loss", "    session.run(b.initializer)\n    session.run(loss"
    )
    out = debugged(tmp_path, text, "run", "run -f has_inf_or_nan", "why")
    assert re.match(r"it came in with the weights \(b.*:0\)", reason_of(out))


# where() hides the -inf of a logarithm from the loss, and not its gradient from the weights.
_HIDDEN = {
    "torch": """
        import torch
        w = torch.ones(3, 4, requires_grad=True)
        x = torch.tensor([[0.5, 1, 1], [0.1, 1, 1]])
        optimizer = torch.optim.SGD([w], 0.01)
        h = (x @ w) ** 2 * (x[:, :1] > 0.3)
        torch.where(h > 0, torch.log(h), torch.zeros_like(h)).mean().backward()
        optimizer.step()
        """,
    "jax": """
        import jax, jax.numpy as jnp
        def loss(w, x):
            h = (x @ w) ** 2 * (x[:, :1] > 0.3)
            return jnp.where(h > 0, jnp.log(h), 0).mean()
        x = jnp.array([[0.5, 1, 1], [0.1, 1, 1]])
        jax.jit(jax.value_and_grad(loss))(jnp.ones((3, 4)), x)
        """,
    "tensorflow": """
        import tensorflow as tf
        @tf.function
        def step(w, x):
            with tf.GradientTape() as tape:
                tape.watch(w)
                h = tf.matmul(x, w) ** 2 * tf.cast(x[:, :1] > 0.3, tf.float32)
                loss = tf.reduce_mean(tf.where(h > 0, tf.math.log(h), tf.zeros_like(h)))
            return loss, tape.gradient(loss, w)
        step(tf.ones((3, 4)), tf.constant([[0.5, 1, 1], [0.1, 1, 1]]))
        """,
}


@pytest.mark.parametrize(
    "framework", [pytest.param(e, marks=needs(e)) for e in sample(_HIDDEN, ("torch", "jax"))]
)
def test_the_gradient_of_a_hidden_logarithm_is_told_with_it(framework, tmp_path):
    out = debugged(tmp_path, textwrap.dedent(_HIDDEN[framework]), "run -f")
    assert reason_of(out).startswith("the logarithm of 0 at 4 elements")
    [then] = re.findall(r"^Then:  (.*)$", out, flags=re.MULTILINE)
    told = r"a gradient computed from the same input is bad too, gradients/\S+; that spread to \w+"
    assert re.match(told, then), then


def test_what_is_left_out_is_not_told(tmp_path):
    text = _PROGRAM.format(expression="tf.log(zero) + w / zero")
    out = debugged(tmp_path, text, "run -f has_inf_or_nan -fenn ^Log$")
    assert reason_of(out).startswith("a division by 0 at [1, 2]")


def test_what_came_to_nothing_is_named(tmp_path):
    text = """
import numpy as np
from tfdbg_cli.engines import numpy as tf

w = tf.Variable(np.full((2, 2), np.nan, "float32"), name="w")
x = tf.placeholder(tf.float32, (2, 2), name="x")
found = tf.argmax(tf.matmul(x, w), 1)
right = tf.equal(found, tf.constant([0, 1], dtype=tf.int64))
accuracy = tf.reduce_mean(tf.cast(right, tf.float32), name="accuracy")
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    session.run(accuracy, {x: np.ones((2, 2), "float32")})
"""
    out = debugged(tmp_path, text, "run", "run", "why")
    assert "What went bad stayed local: no bad value reached a result of the run" in out
    assert re.search(r"^The first is w:0  float32 \[2, 2\]  4 nan of 4$", out, re.MULTILINE)
    assert (
        reason_of(out.replace("What went bad", "It began in "))
        == "it came in with the weights (w:0)"
    )


def reason_in(dump):
    dump.set_run_info(RunInfo(engine="tensorflow", fetches=["made:0"]))
    return reason_of(Shell(dump).text("why"))


@pytest.mark.parametrize(
    ("op_type", "expected"),
    [("RealDiv", "a division by 0"), ("Sub", "an infinity minus an infinity at 2 elements")],
)
def test_a_graph_that_leads_in_a_circle(op_type, expected):
    nodes = [
        Node("x", "Const"),
        Node("a", "Identity", ["b:0"]),
        Node("b", "Max", ["a:0", "x:0"]),
        Node("c", "Identity", ["d:0"]),
        Node("d", "Identity", ["c:0"]),
        Node("made", op_type, ["x:0", "c:0" if op_type == "RealDiv" else "a:0"]),
        Node("end", "Exp", ["made:0"]),
    ]
    dump = MemoryDump(Graph(nodes))
    bad = np.full(2, -np.inf, np.float32)
    is_division = op_type == "RealDiv"
    dump.add("x", 0, np.float32([1, 1]) if is_division else bad, timestamp=1)
    name, value = ("c", np.zeros(2, np.float32)) if is_division else ("a", bad)
    dump.add(name, 0, value, timestamp=2)
    dump.add("made", 0, np.full(2, np.inf if is_division else np.nan, np.float32), timestamp=3)
    assert reason_in(dump).startswith(expected)


def test_an_input_that_cannot_be_read_shows_nothing():
    dump = MemoryDump(Graph([Node("x", "Placeholder"), Node("made", "Log", ["x:0"])]))

    def damaged():
        raise DumpError("x is damaged")

    dump.add_datum(Datum("x", 0, damaged, timestamp=1, dtype="float32", shape=(2,), nbytes=8))
    dump.add("made", 0, np.float32([0, -np.inf]), timestamp=2)
    assert reason_in(dump) == ""


def test_a_number_that_divides_is_no_norm():
    nodes = [
        Node("x", "Placeholder"),
        Node("norm", "linalg_vector_norm", ["x:0"]),
        Node("made", "div", ["norm:0"], attributes={"_arg_other": "0"}),
    ]
    dump = MemoryDump(Graph(nodes))
    dump.add("x", 0, np.float32([3, 4]), timestamp=1)
    dump.add("norm", 0, np.float32(5), timestamp=2)
    dump.add("made", 0, np.float32(np.inf), timestamp=3)
    dump.set_run_info(RunInfo(engine="torch", results={"made:0": True}))
    assert reason_of(Shell(dump).text("why")) == "a division by 0"


@pytest.mark.parametrize("width", [40, 60, 80])
@pytest.mark.parametrize("is_known", [True, False])
def test_a_long_line_is_cut_around_the_call_in_a_narrow_window(tmp_path, width, is_known):
    around = " + ".join(["number"] * 12)
    call = "tf.log(x)"
    long = f"made = {around} + {call} + {around}"
    columns = (long.index(call), long.index(call) + len(call)) if is_known else None
    frame = Frame("program.py", 2, "f", long, columns)
    graph = Graph([Node("x", "Placeholder"), Node("made", "Log", ("x:0",), frames=(frame,))])
    sources = Sources({"program.py": f"before = 1\n{long}\n{long}\n"}, live=False)
    dump = MemoryDump(graph, sources, RunInfo(engine="torch", fetches=["made:0"]))
    dump.add("x", 0, np.array([1.0, 0.0], np.float32), timestamp=1)
    dump.add("made", 0, np.array([0.0, -np.inf], np.float32), timestamp=2)
    shell = Shell(dump)
    (shown,) = (each for each in shell.lines("why", width) if each.startswith("  > 2  "))
    assert shown.startswith("  > 2  …") and shown.endswith("…") and len(shown) <= width
    assert shown[8:-1] in long and ("tf.log(x)" if is_known else "log") in shown
    (after,) = (each for each in shell.lines("why", width) if each.startswith("    3  "))
    assert after == f"    3  {long[: len(after) - 8]}…"
    whole = [each for each in shell.lines("why", 400) if "made = number" in each]
    assert whole == [f"  > 2  {long}", f"    3  {long}"]
    write_run_folder(dump, tmp_path / "run")
    assert Shell(RunFolderDump(tmp_path / "run")).lines("why", width) == shell.lines("why", width)
