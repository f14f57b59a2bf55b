"""Asks `why` of all cases of a table, which a program computes, each as a run of its own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from causes_cases import CASES, LOCAL, Case
from program_server import Programs

__all__ = ["Told", "cases_of", "reason_of", "told", "write_cases"]

#: What the programs print before a case.
MARK = "case: "
_FROM_OUTSIDE = "it came in|it reads|the number|not from the inputs"


class Told:
    """What was said of each case of a program.

    Args:
        engine: whose words the program has.
        out: what the debugger has printed, with the `MARK` of each case before it.
    """

    def __init__(self, engine: str, out: str) -> None:
        self._engine = engine
        parts = re.split(rf"^{MARK}(.*)$", out, flags=re.MULTILINE)
        self._parts = dict(zip(parts[1::2], parts[2::2], strict=True))

    def check(self, case: Case) -> None:
        """What is said of a case is what is to be said of it."""
        out = self._parts[case.name]
        said, expected = reason_of(out), case.expected(self._engine)
        assert bool(said) == bool(expected), out
        assert re.match(expected, said), out

    def check_remedies(self) -> None:
        """For nine of ten reasons that have remedies, one of them makes the run clean."""
        tried = self.remedies()
        assert sum(bool(each) for _, each in tried) >= 0.9 * len(tried), tried

    def remedies(self) -> list[tuple[str, str]]:
        """The reason of each case, and the remedy that was tried with success; empty: none was.

        Where a bad value comes in, there is nothing to try.
        """
        found = []
        for case in CASES:
            out = self._parts.get(case.name, "")
            if "It began in " not in out or not (said := reason_of(out)):
                continue
            remedy = re.search(r"^Tried: (.*: clean to the .*)  fix$", out, re.MULTILINE)
            if not re.match(_FROM_OUTSIDE, said):
                found.append((said, remedy[1] if remedy else ""))
        return found

    def check_local(self, case: Case) -> None:
        """Nobody says of a case that something began in it."""
        assert "It began in" not in self._parts[case.name], self._parts[case.name]


def cases_of(engine: str, cases: Sequence[Case] = CASES) -> list[Any]:
    """The cases that an engine has a way to compute, for `pytest.mark.parametrize`."""
    return [pytest.param(each, id=each.name) for each in cases if getattr(each, engine)]


def told(programs: Programs, folder: Path, engine: str, text: str, *commands: str) -> Told:
    """What is said of all cases, which one program computes, each a run that stops once.

    Args:
        programs: runs it.
        folder: where to write it.
        engine: whose words to take.
        text: of the program, with ``{cases}`` where they are to stand: pairs of a name and either
            a function of ``w`` and ``bad``, or, for ONNX, a text.
        commands: before the first case.
    """
    path, count = write_cases(folder, engine, text)
    commands = (*commands, *("run -f has_inf_or_nan",) * count)
    options = [part for command in commands for part in ("-c", command)]
    done = programs.debugged("--batch", *options, path)
    for trouble in ("Traceback", "the debugger failed", "Error in the debugger"):
        assert trouble not in done.err + done.out, done.err
    return Told(engine, done.out)


def write_cases(folder: Path, engine: str, text: str) -> tuple[Path, int]:
    """A program of all cases that an engine can compute, and how many these are.

    Args:
        folder: where to write it.
        engine: whose words to take.
        text: as `told` takes it.
    """
    before = "" if engine == "onnx" else "lambda w, bad: "
    ways = [(each.name, getattr(each, engine)) for each in (*CASES, *LOCAL)]
    written = [
        f"    ({name!r}, {before}{repr(way) if engine == 'onnx' else way}),\n"
        for name, way in ways
        if way
    ]
    path = folder / f"causes_{engine}.py"
    path.write_text(text.replace("{cases}", "".join(written)))
    return path, len(written)


def reason_of(out: str) -> str:
    """The reason that `why` has given; empty: it has claimed none, though something began."""
    assert "It began in " in out, out
    found = re.search(r"^Why:   (.*)$", out, re.MULTILINE)
    return found[1] if found else ""
