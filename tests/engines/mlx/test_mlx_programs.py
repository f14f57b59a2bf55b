"""Unmodified programs that use MLX, under the launcher."""

import subprocess
import sys
from pathlib import Path

import pytest
from planted_kit import launched

pytest.importorskip("mlx.core")

PROGRAMS = Path(__file__).parent / "programs"


def run(name, *commands):
    words = [word for command in commands for word in ("-c", command)]
    return launched("--batch", *words, str(PROGRAMS / f"{name}.py"))


def plain(name):
    command = [sys.executable, str(PROGRAMS / f"{name}.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


STORIES = {
    "float16": (
        "It began in [multiply] multiply:0  float16 [4, 16]",
        "Why:   float16 overflows at 59 elements",
        "float16.py:14",
        "[addmm] addmm:0  float16 [4, 16]  clean",
    ),
    "attention": (
        "It began in [divide] divide:0  float32 [3, 3]",
        "Why:   0 / 0 at 9 elements",
        "attention.py:13",
        "[sum] sum:0  float32 [3, 1]  clean  min 0, max 0",
    ),
    "compiled": (
        "It began in [log] log:0  float32 [8, 1]",
        "Why:   the logarithm of 0 at",
        "compiled.py:16",
        "training step #3: step",
    ),
}


@pytest.mark.parametrize("level", ["ops", "values"])
@pytest.mark.parametrize("name", STORIES)
def test_the_first_bad_op_has_its_reason_and_its_line(name, level):
    _, out, err = run(name, f"config set level {level}", "run -f", "ni -t addmm")
    assert [each for each in STORIES[name] if each not in out] == []
    assert "Module: " in out or name == "compiled"
    assert "failed" not in err
    said = plain(name)[1].splitlines()
    assert [line for line in said if line not in out] == []


@pytest.mark.parametrize("commands", [["run", "lt"] * 18, ["run -f has_inf_or_nan"]])
def test_results_and_random_numbers_stay_bit_for_bit(commands):
    code, out, err = run("kinds_of_calls", "config set level ops", *commands)
    _, said, _ = plain("kinds_of_calls")
    assert [line for line in said.splitlines() if line not in out.splitlines()] == []
    assert "failed" not in err
    assert code == 0
    # Of a function with a gradient of its own, and of one that is mapped, the inside isn't seen.
    assert out.count("has given other gradients") == (2 if commands[0] == "run" else 0)


def test_gradients_lead_to_forward_ops_and_parameters_have_paths():
    _, out, _ = run("float16", "run", "lt -s name", "ni -t gradients/multiply/vjp")
    for each in ("net.up.weight:0", "net.down.bias:0", "input/x:0", "gradients/addmm_1/vjp:0"):
        assert each in out
    assert "Gradient of: multiply" in out
    assert "The backward pass was called at:" in out


def test_what_was_compiled_before_the_debugger_came_is_seen_in_mlx_itself():
    code, out, err = launched_alone("late", "run -f\nlt\nexit\n")
    assert (code, "failed" in err) == (0, False)
    assert "It began in [log] log:0" in out
    assert out.count("erf:0") >= 1
    assert "erf_1:0" not in out


def launched_alone(name, typed):
    done = subprocess.run(
        [sys.executable, str(PROGRAMS / f"{name}.py")],
        input=typed,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_an_error_while_a_function_is_traced_shows_its_op_and_what_came_before():
    code, out, err = run("refused", "run", "lt")
    assert code == 1
    assert "Op name:    addmm_1" in out
    assert "maximum:0" in out
    assert "refused.py:9" in out
    assert err.splitlines()[-1] == plain("refused")[2].splitlines()[-1]
