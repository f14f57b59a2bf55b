"""Every level tells the same first bad tensor: a sample of what ``scripts/agree`` tries."""

from __future__ import annotations

import importlib.util
from dataclasses import replace

import pytest
from agree_kit import EXACT, Difference, Program, differences, draw, shrunk, told_of
from agree_ops import DIALECTS
from samples import sample

ENGINES = {"numpy": 30, "torch": 30, "onnx": 20, "tensorflow": 9, "jax": 4}
FILTER = "has_inf_or_nan"


@pytest.mark.slow
@pytest.mark.parametrize("engine", [*sample(ENGINES, ("numpy", "torch", "onnx"))])
def test_levels_agree(engine, tmp_path):
    module = {"onnx": "onnxruntime"}.get(engine, engine)
    if engine != "numpy" and importlib.util.find_spec(module) is None:
        pytest.skip(f"needs {module}")
    name = {"tensorflow": "tensorflow2"}.get(engine, engine)
    programs = [draw(name, f"0-{number}") for number in range(ENGINES[engine])]
    found, counts = differences(programs, FILTER, tmp_path)
    assert not found, "\n".join(f"{each}\n{each.program.text(0)}" for each in found)
    assert counts["bad"] > len(programs) // 4
    assert counts["failed"] <= len(programs) // 6


def test_a_step_is_left_out_with_all_that_refers_to_it():
    steps = (("log", 1, 0), ("mul", 3, 2), ("add", 4, 3))
    program = Program("torch", "no_grad", "float32", 0, steps)
    assert program.without(0).steps == (("mul", 1, 2), ("add", 3, 1))
    assert program.without(1).steps == (("log", 1, 0), ("add", 3, 3))


def test_a_difference_is_made_smaller_and_what_a_level_cannot_see_is_said(tmp_path, monkeypatch):
    if importlib.util.find_spec("onnxruntime") is None:
        pytest.skip("needs onnxruntime")
    hidden = (("Neg", 0, 0), ("Abs", 1, 1), ("Sign", 1, 1), ("Log", 3, 3), ("IsNaN", 6, 0))
    program = Program("onnx", "as_it_is", "float32", 1, hidden)
    exact, _ = told_of([program], EXACT, FILTER, tmp_path)
    told, said = told_of([program], "modules", FILTER, tmp_path)
    assert exact[0].first.endswith(" nan)") and not exact[0].is_out
    assert not told[0].first
    assert "in 1 run(s) only the outputs were looked at (config set level ops looks at all)" in said
    _, said = told_of([replace(program, steps=hidden[:1])], "ops", FILTER, tmp_path)
    assert "no tensor passed" in said and "looked at" not in said
    # As if the level of modules promised all: what it takes for that is a logarithm alone.
    monkeypatch.setitem(DIALECTS["onnx"].levels, "modules", True)
    found = shrunk(Difference(program, "modules", FILTER, exact[0], told[0]), tmp_path)
    assert [op for op, _, _ in found.program.steps] == ["Neg", "Log", "IsNaN"]
