"""The screens of each framework use its own words, and none of TensorFlow's sessions."""

import re

import pytest
from examples_kit import EXAMPLES, debug, needs, screens
from samples import sample

PROGRAMS = [
    pytest.param("debug_onnx.py", (), "session.run(None", marks=needs("onnx", "onnxruntime")),
    pytest.param("debug_jax.py", (), "jnp.log(", marks=needs("jax")),
    pytest.param("debug_keras.py", (), "ops.log(given)", marks=needs("tensorflow", "keras")),
    pytest.param(
        "debug_mnist.py",
        ("--engine", "torch", "--max-steps", "4"),
        "torch.log(",
        marks=needs("torch"),
    ),
]
OF_SESSIONS = re.compile(
    r"control (input|recipient)|fetch|feed|DebugIdentity|/job:|replica|Session\.run\(\) call #"
    r"|\(unknown\)|\bFetches\b",
    re.I,
)
COMMANDS = ["run -f", "ni", "ni -d", "li", "lo", "pt -s", "here", "run_info", "ps"]


@pytest.mark.parametrize(("name", "arguments", "text"), [*sample(PROGRAMS, 3)])
def test_no_word_of_another_framework(name, arguments, text):
    done = debug(COMMANDS, name, *arguments)
    assert done.status == 0, done.err
    shown = screens(done.out)
    said = done.out.replace("InferenceSession.run() call", "")
    lines = said.splitlines()
    assert [each for each in lines if OF_SESSIONS.search(each) and "tfdbg" not in each] == []
    place = shown["here"]
    assert place[-1].startswith("  > ")
    assert text in place[-1]


def test_a_file_is_named_from_where_one_stands(monkeypatch):
    pytest.importorskip("onnxruntime")
    monkeypatch.chdir(EXAMPLES.parent)
    done = debug(["run -f", "ps"], "debug_onnx.py")
    assert "source: examples/debug_onnx.py" in screens(done.out)
