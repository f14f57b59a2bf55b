"""The examples for PyTorch: their bugs, without the debugger and found with it."""

import importlib.util
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="PyTorch is not installed"
)

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
# The loss becomes NaN at step 17 or so, depending on how the machine rounds.
STEPS = 22


def python(*arguments):
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "COLUMNS": "200",
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=180,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback (most" not in done.stderr
    return done.stdout


def debug(commands, name, *arguments):
    """The output of an example in batch mode, and command -> the lines that it printed."""
    options = [part for command in commands for part in ("-c", command)]
    output = python("-m", "tfdbg_cli", "--batch", *options, EXAMPLES / name, *arguments)
    pieces = re.split(r"^--- (.*) ---$", output, flags=re.M)
    shown = (piece.strip("\n").splitlines() for piece in pieces[2::2])
    return output, dict(zip(pieces[1::2], shown, strict=True))


def line_of(name, text):
    lines = (EXAMPLES / name).read_text(encoding="utf-8").splitlines()
    return next(number for number, found in enumerate(lines, 1) if text in found)


def losses(output):
    return [float(text) for text in re.findall(r"^step \d+: loss (\S+)$", output, re.M)]


def first_tensor(lines):
    at = next(n for n, text in enumerate(lines) if text.endswith("Tensor name"))
    return lines[at + 1].split()[-1]


@pytest.fixture(scope="module")
def digits():
    commands = ["run -f has_inf_or_nan", "ni -t log", "li -r log", "pt -s softmax:0"]
    return debug(commands, "debug_mnist.py", "--engine", "torch", "--max-steps", "6")


def test_the_digits_stop_at_the_logarithm(digits):
    output, shown = digits
    assert first_tensor(shown["lt -f has_inf_or_nan"]) == "log:0"
    before, after = output.split("--- run-end: training run #", 1)
    assert before.count("Accuracy at step") == 2
    assert after.count("Accuracy at step") == 4
    accuracies = re.findall(r"^Accuracy at step \d+: (\S+)$", output, re.M)
    assert accuracies == re.findall(
        r": (\S+)$",
        python(EXAMPLES / "debug_mnist.py", "--engine", "torch", "--max-steps", "6"),
        re.M,
    )


def test_the_logarithm_leads_to_its_line_and_to_the_softmax(digits):
    _, shown = digits
    lines = shown["ni -t log"]
    at = lines.index(f"  Line:     {line_of('debug_mnist_torch.py', 'torch.log(y)')}")
    assert lines[at - 1].endswith("examples/debug_mnist_torch.py")
    assert lines[at + 1 : at + 3] == [
        "  Function: cross_entropy",
        "  Text:     diff = -(y_ * torch.log(y))",
    ]
    assert shown["li -r log"][1:3] == ["|- (1) softmax", "|  |- (2) logits/addmm"]
    summary = shown["pt -s softmax:0"]
    counts = summary[summary.index("Numeric summary:") + 2].strip("| ").split()
    assert int(counts[0]) > 0  # the zeros


def test_in_the_stable_digits_the_breakpoint_never_fires():
    arguments = ["--engine", "torch", "--stable", "--max-steps", "10"]
    output, shown = debug(["run -f has_inf_or_nan", "lt"], "debug_mnist.py", *arguments)
    assert shown == {}
    assert output == python(EXAMPLES / "debug_mnist.py", *arguments)


def test_the_transformer_learns_and_then_has_no_loss():
    found = losses(python(EXAMPLES / "debug_transformer.py", "--steps", STEPS))
    count = next(n for n, loss in enumerate(found) if math.isnan(loss))
    assert 10 <= count < STEPS
    assert min(found[:count]) < found[0] / 2
    assert all(math.isnan(loss) for loss in found[count:])


def test_the_repaired_transformer_learns_on():
    found = losses(python(EXAMPLES / "debug_transformer.py", "--fix", "--steps", 14))
    assert len(found) == 14
    assert all(map(math.isfinite, found))
    assert found[-1] < found[0] / 2


def test_the_scores_of_the_attention_overflow():
    bmm = "layers.0.attention/bmm"
    output, shown = debug(
        ["run -t 10 -f origin_of_nonfinite", f"ni -t {bmm}", f"pt -s {bmm}:0"],
        *("debug_transformer.py", "--steps", STEPS),
    )
    assert first_tensor(shown["lt -f origin_of_nonfinite"]) == f"{bmm}:0"
    # Each step masks its scores with -inf, which stops nobody. The first score that overflows may
    # be a negative one: no harm to the softmax, and seen steps before the loss is NaN.
    before, after = output.split("--- run-end:", 1)
    assert all(map(math.isfinite, losses(before)))
    assert math.isnan(losses(after)[-1])
    lines = shown[f"ni -t {bmm}"]
    assert f"  Line:     {line_of('debug_transformer.py', 'scores = q @ k')}" in lines
    lines = shown[f"pt -s {bmm}:0"]
    assert "  dtype: float16" in lines
    assert "inf" in lines[lines.index("Numeric summary:") + 1]
