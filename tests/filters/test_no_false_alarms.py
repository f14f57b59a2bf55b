"""Filters for numbers that are wrong and yet finite find nothing in programs without a mistake.

Programs are those of the corpus of fates, and the scripts of the tests on PyTorch; as many as
`samples` says.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from program_server import shared
from samples import sample

sys.path.append(str(Path(__file__).parents[1] / "fate"))

from fate_kit import Script, corpus, engine_of

_TESTS = Path(__file__).parents[1]
FILTERS = "constant,broadcast,stuck,unused"
# They make the mistake, to see PyTorch's warning of it.
_MISTAKEN = {"torch_programs/warnings_are_errors"}
# They start processes or end in other ways than with the program.
_APART = ("torch_processes/", "/fork", "/exec", "/kill")


def _scripts() -> list[Script]:
    own = sorted((_TESTS / "engines" / "torch" / "scripts").glob("*.py"))
    found = [*corpus(), *(Script(f"torch_{each.stem}", each.read_text()) for each in own)]
    return [
        each
        for each in found
        if not (each.name in _MISTAKEN or each.missing or any(w in each.name for w in _APART))
    ]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["plain", "numpy", "tensorflow", "torch"])
def test_programs_without_a_mistake_pass(engine, tmp_path):
    scripts = [each for each in _scripts() if engine_of(each) == engine]
    assert len(scripts) > 20
    alarms = []
    folder = tmp_path / "there"
    folder.mkdir()
    for script in sample(scripts, 60):
        path = tmp_path / "script.py"
        path.write_text(f"__import__('os').chdir({str(folder)!r})\n{script.text}")
        programs = shared(*({"plain": ()}.get(engine, (engine,))))
        options = ("--check", FILTERS, "--check-only", "--dump-root", tmp_path / "dumps")
        said = programs.debugged(*options, path).err
        troubles = ("check failed: ", "raised for", "the debugger failed")
        lines = [each for each in said.splitlines() if any(word in each for word in troubles)]
        alarms += [f"{script.name}: {each}" for each in lines]
    assert not alarms, "\n".join(alarms)
