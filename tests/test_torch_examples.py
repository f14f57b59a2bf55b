"""The examples for PyTorch: their bugs, without the debugger and found with it."""

import math
import re

import pytest
from examples_kit import EXAMPLES, line_of, needs, python, screens
from examples_kit import debug as debug_example

pytestmark = needs("torch")

# The transformer's loss becomes NaN between steps 11 and 21: CPUs round float16 in their own ways,
# and those with AVX512-FP16 take longest. The tests leave the number of steps to the example.


def output(name, *arguments):
    done = python(EXAMPLES / name, *arguments)
    assert done.status == 0, done.err
    return done.out


def debug(commands, name, *arguments):
    """The output of an example in batch mode, and command -> the lines that it printed."""
    done = debug_example(commands, name, *arguments)
    assert done.status == 0, done.err
    return done.out, screens(done.out)


def losses(text):
    return [float(loss) for loss in re.findall(r"^step \d+: loss (\S+)$", text, re.M)]


def first_tensor(lines):
    at = next(n for n, text in enumerate(lines) if text.endswith("Tensor name"))
    return lines[at + 1].split()[-1]


@pytest.fixture(scope="module")
def digits():
    commands = ["run -f has_inf_or_nan", "ni -t log", "li -r log", "pt -s softmax:0"]
    return debug(commands, "debug_mnist.py", "--engine", "torch", "--max-steps", "6")


def test_the_digits_stop_at_the_logarithm(digits):
    printed, shown = digits
    assert first_tensor(shown["why -f has_inf_or_nan"]) == "log:0"
    before, after = printed.split("--- run-end: training run #", 1)
    assert before.count("Accuracy at step") == 2
    assert after.count("Accuracy at step") == 4
    accuracies = re.findall(r"^Accuracy at step \d+: (\S+)$", printed, re.M)
    assert accuracies == re.findall(
        r": (\S+)$",
        output("debug_mnist.py", "--engine", "torch", "--max-steps", "6"),
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
    printed, shown = debug(["run -f has_inf_or_nan", "lt"], "debug_mnist.py", *arguments)
    assert shown == {}
    assert printed == output("debug_mnist.py", *arguments)


def test_the_transformer_learns_and_then_has_no_loss():
    found = losses(output("debug_transformer.py"))
    count = next(n for n, loss in enumerate(found) if math.isnan(loss))
    assert count >= 10
    assert min(found[:count]) < found[0] / 2
    assert all(math.isnan(loss) for loss in found[count:])


def test_the_repaired_transformer_learns_on():
    found = losses(output("debug_transformer.py", "--fix", "--steps", 14))
    assert len(found) == 14
    assert all(map(math.isfinite, found))
    assert min(found) < found[0] / 2


def test_the_scores_of_the_attention_overflow():
    bmm = "layers.0.attention/bmm"
    printed, shown = debug(
        [
            "run -t 10 -f origin_of_nonfinite",
            f"ni -t {bmm}",
            f"pt -s {bmm}:0",
            "ps debug_transformer.py --fold",
        ],
        "debug_transformer.py",
    )
    assert first_tensor(shown["why -f origin_of_nonfinite"]) == f"{bmm}:0"
    # Each step masks its scores with -inf, which stops nobody. The first score that overflows may
    # be a negative one: no harm to the softmax, and seen steps before the loss is NaN.
    before, after = printed.split("--- run-end:", 1)
    assert all(map(math.isfinite, losses(before)))
    assert math.isnan(losses(after)[-1])
    lines = shown[f"ni -t {bmm}"]
    assert f"  Line:     {line_of('debug_transformer.py', 'scores = q @ k')}" in lines
    lines = shown[f"pt -s {bmm}:0"]
    assert "  dtype: float16" in lines
    assert "inf" in lines[lines.index("Numeric summary:") + 1]
    number = line_of("debug_transformer.py", "scores = q @ k")
    found = next(rows for name, rows in shown.items() if name.startswith("source: "))
    row = next(text for text in found if text.startswith(f"L{number} "))
    assert f"◀ {bmm}:0 " in row and "▸" in row
