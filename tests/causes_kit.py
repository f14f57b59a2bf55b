"""Asks `why` of all cases of a table, which a program computes, each as a run of its own."""

from __future__ import annotations

import json
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
    """What is said of each case of a program.

    Args:
        programs: runs it.
        engine: whose words the program has.
        program: its file.
        before: commands before the first case.
    """

    def __init__(
        self, programs: Programs, engine: str, program: Path, before: Sequence[str]
    ) -> None:
        self._programs, self._engine, self._before = programs, engine, before
        self._program = program
        self._parts = self._debugged(
            "run -f has_inf_or_nan", "fix --json", "why --json", "li --to-first-bad"
        )

    def _debugged(self, *commands: str) -> dict[str, str]:
        """What is printed of each case if each is answered with some commands."""
        count = self._program.read_text().count("\n    (")
        commands = (*self._before, *commands * count)
        options = [part for command in commands for part in ("-c", command)]
        done = self._programs.debugged("--batch", *options, self._program)
        # Each case is a run from its first op on: nothing of it is over before.
        for trouble in ("Traceback", "the debugger failed", "Error in the debugger", "was over"):
            assert trouble not in done.err + done.out, done.err
        parts = re.split(rf"^{MARK}(.*)$", done.out, flags=re.MULTILINE)
        return dict(zip(parts[1::2], parts[2::2], strict=True))

    def check(self, case: Case) -> None:
        """What is said of a case is what is to be said of it."""
        out = self._parts[case.name]
        said, expected = reason_of(out), case.expected(self._engine)
        assert bool(said) == bool(expected), out
        assert re.match(expected, said), out
        shown = re.search(r"^Line(?: of the forward op)?: +.*:(\d+)$", out, re.MULTILINE)
        (finding,) = (json.loads(each) for each in out.splitlines() if each.startswith('{"version'))
        if shown or "Read at: " not in out:  # where it comes in, it is read elsewhere
            assert int(shown[1] if shown else 0) == (finding["line"] or {"line": 0})["line"], out
        given = re.findall(r"^(?:From:  |       )\[[^\]]*\] (\S+)", out, re.MULTILINE)
        assert given == [each["name"] for each in finding["inputs"]], out
        began = re.search(r"^It began in \[[^\]]*\] (\S+)", out, re.MULTILINE)
        way = re.search(r"\] (\S+) .*   here it began$", out, re.MULTILINE)
        assert began is None or (way is not None and way[1] == began[1]), out

    def check_silence(self, words: str) -> None:
        """Some words are said of no case."""
        assert not [name for name, out in self._parts.items() if words in out]

    def check_remedies(self) -> None:
        """For nine of ten reasons one remedy makes the run clean, and so does its patch."""
        tried = self.remedies()
        assert sum(bool(each) for _, each in tried) >= 0.9 * len(tried), tried
        text = self._program.read_text()
        patched = {}
        for name, part in self._parts.items():
            patches = [each["patch"] for each in _fixes(part) if each["clean"] and each["patch"]]
            if patches:
                before, after = re.findall(r"^[-+](?![-+]{2} )(.*)$", patches[0], re.MULTILINE)
                assert f"\n{before}\n" in text, patches[0]
                text = text.replace(f"\n{before}\n", f"\n{after}\n")
                patched[name] = after
        assert patched or self._engine == "onnx"  # models have no lines
        self._program.write_text(text)
        parts = self._debugged("run -f has_inf_or_nan")
        for name, line in patched.items():
            assert "It began in" not in parts[name], (line, parts[name])

    def remedies(self) -> list[tuple[str, str]]:
        """The reason of each case, and the remedy that was tried with success; empty: none was.

        Where a bad value comes in, there is nothing to try.
        """
        found = []
        for case in CASES:
            out = self._parts.get(case.name, "")
            if "It began in " not in out or not (said := reason_of(out)):
                continue
            clean = [each["change"] for each in _fixes(out) if each["clean"]]
            if not re.match(_FROM_OUTSIDE, said):
                found.append((said, next(iter(clean), "")))
        return found

    def check_local(self, case: Case) -> None:
        """Nobody says of a case that something began in it."""
        assert "It began in" not in self._parts[case.name], self._parts[case.name]


def cases_of(engine: str, cases: Sequence[Case] = CASES) -> list[Any]:
    """The cases that an engine has a way to compute, for `pytest.mark.parametrize`."""
    return [pytest.param(each, id=each.name) for each in cases if getattr(each, engine)]


def _fixes(out: str) -> list[dict[str, Any]]:
    """What ``fix --json`` has printed."""
    lines = (each.strip() for each in out.splitlines())
    return [json.loads(each) for each in lines if each.startswith('{"change"')]


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
    return Told(programs, engine, write_cases(folder, engine, text), commands)


def write_cases(folder: Path, engine: str, text: str) -> Path:
    """A program of all cases that an engine can compute.

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
    return path


def reason_of(out: str) -> str:
    """The reason that `why` has given; empty: it has claimed none, though something began."""
    assert "It began in " in out, out
    found = re.search(r"^Why:   (.*)$", out, re.MULTILINE)
    return found[1] if found else ""
