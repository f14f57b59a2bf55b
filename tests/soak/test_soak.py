"""A minute of what ``scripts/soak`` does."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from samples import sample

if sys.platform != "linux":
    pytest.skip("what a process holds is read from /proc", allow_module_level=True)

from soak_kit import SITUATIONS, soak
from soak_programs import PROGRAMS

_ROUNDS = {
    "numpy steps": 3_000,
    "numpy threads": 4_800,
    "numpy graph": 3,
    "numpy values": 60,
    "numpy screens": 100,
    "numpy attach": 60,
    "tensorflow threads": 800,
    "torch steps": 60,
}
_FRAMEWORKS = {"tensorflow": pytest.mark.tensorflow, "torch": pytest.mark.torch}


def _marks(name: str) -> list[pytest.MarkDecorator]:
    found = [pytest.mark.slow]
    found += [mark for engine, mark in _FRAMEWORKS.items() if name.startswith(f"{engine} ")]
    return [*found, pytest.mark.tty] if SITUATIONS[name].terminal else found


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=_marks(name))
        for name in sample(_ROUNDS, _ROUNDS.keys() - {"numpy screens"})
    ],
)
def test_nothing_that_a_program_holds_grows(name: str, tmp_path: Path) -> None:
    engine = name.split(maxsplit=1)[0]
    if engine in _FRAMEWORKS:
        pytest.importorskip(engine)
    for figures in soak(tmp_path, name, _ROUNDS[name]):
        assert figures.samples[-1].done >= _ROUNDS[name]
        assert figures.grown() == [], str(figures)


def test_every_situation_has_a_program() -> None:
    assert set(SITUATIONS) == set(PROGRAMS)
