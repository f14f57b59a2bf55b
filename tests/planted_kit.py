"""Pairs of runs that part at a known op: what a comparison tells of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from program_server import shared

__all__ = ["Planted", "launched"]


def launched(*arguments: str, modules: Sequence[str] = ()) -> tuple[int, str, str]:
    """``python -m tfdbg_cli ARGUMENTS``, with modules imported already: status, output, errors."""
    done = shared(*modules).debugged(*arguments)
    return done.status, done.out, done.err


class Planted:
    """Keeps the runs of one program in several variants, and compares them.

    Args:
        run: does ``python -m tfdbg_cli ARGUMENTS``; status, output, errors.
        program: takes the name of a variant; ``none`` is the good one.
        folder: for the dumps.
        runs: how many the program has.
    """

    def __init__(
        self,
        run: Callable[..., tuple[int, str, str]],
        program: Path,
        folder: Path,
        runs: int = 3,
    ) -> None:
        self.run, self.program, self._folder, self._runs = run, program, folder, runs

    def kept(self, variant: str) -> Path:
        """The folder with the runs of a variant."""
        folder = self._folder / variant
        if not folder.exists():
            commands = ["-c", "run"] * (self._runs + 1)
            status, _, err = self.run(
                *("--batch", "--keep-dumps", "--dump-root", str(folder), *commands),
                *(str(self.program), variant),
            )
            assert status == 0, err
        return folder

    def compared(self, variant: str, *options: str) -> list[dict[str, Any]]:
        """The records of a comparison of the last runs, those beyond the bar."""
        status, out, err = self.run(
            *("--batch", "--dump-dir", str(self.kept("none"))),
            *("-c", " ".join(["compare", str(self.kept(variant)), "--json", *options])),
        )
        records = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        assert status == int(bool(records)), err
        return records

    def parted(self, variant: str) -> str:
        """What the first run that differs says of where it parts; empty: none does."""
        status, out, err = self.run(
            *("--batch", "--dump-dir", str(self.kept("none"))),
            *("--against", str(self.kept(variant))),
        )
        told = [line for line in out.splitlines() if line.startswith("They part at ")]
        assert status == len(told), err
        return told[0].removeprefix("They part at ") if told else ""
