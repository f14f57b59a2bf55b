"""``--precision``: lets a program run, and tells what a narrower type would make of it."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from tfdbg_cli.commands.context import Context
from tfdbg_cli.commands.json_lines import json_document
from tfdbg_cli.commands.list_command import ListCommand
from tfdbg_cli.commands.precision.command import BAR, summary, targets_of
from tfdbg_cli.commands.precision.keeping import kept_lines, write_kept
from tfdbg_cli.commands.precision.table import precision_table, record
from tfdbg_cli.commands.run.choices import RunChoice
from tfdbg_cli.common.documents import Document
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.common.files import replacing, written
from tfdbg_cli.common.streams import tell
from tfdbg_cli.common.traits import EngineTraits
from tfdbg_cli.dumps.run_info import traits_of_run
from tfdbg_cli.filters.registry import FilterRegistry
from tfdbg_cli.precision.study import Kept, Study

__all__ = ["PrecisionGate", "PrecisionOptions"]

# The rows that are told at the end; all are in the file.
_MOST_TOLD = 20
# For each run, and once more for what is kept: nobody waits at a prompt.
_SECONDS = 120


@dataclass(frozen=True)
class PrecisionOptions:
    """What was asked for.

    Attributes:
        types: names, with commas between.
        every: each N-th run is looked at.
        keep: the file that gets what has to stay in float32; ``None``: nobody asks.
        output: the file that gets all rows as JSON; ``None``: none does.
    """

    types: str
    every: int = 1
    keep: str | None = None
    output: str | None = None

    def gate(self, registry: FilterRegistry) -> PrecisionGate:
        """What answers the stops of a program.

        Raises:
            UserError: there is no such type.
        """
        return PrecisionGate(self)


class PrecisionGate:
    """Answers all stops of a program in the place of somebody at the prompt.

    Args:
        options: what was asked for.

    Raises:
        UserError: there is no such type.
    """

    def __init__(self, options: PrecisionOptions) -> None:
        self._every = options.every
        self._targets = targets_of(options.types)
        if options.keep and len(self._targets) > 1:
            raise UserError("--precision-keep is for one type: --precision float16, for example.")
        # The program may go to another folder.
        self._keep = os.path.abspath(options.keep) if options.keep else ""
        self._output = os.path.abspath(options.output) if options.output else ""
        self._study = Study(self._targets)
        self._units: Study | None = None
        self._kept: Kept | None = None
        self._traits: EngineTraits | None = None
        self._title: list[str] = []

    def prompt(self, context: Context, command: str) -> AbstractContextManager[Any] | None:
        """Nobody is asked."""
        return None

    def answer(self, context: Context, title: str, command: str, dump: str, said: Any) -> Any:
        """A stop: its run is measured, and the program goes on."""
        if context.mode == "run-end" and context.dump is not None:
            self._study.add(context.dump, _SECONDS)
            self._title = [each.text for each in summary(self._study)]
            if self._keep and context.dump.redo is not None:
                self._keep_of(context)
        return RunChoice(times=self._every)

    def _keep_of(self, context: Context) -> None:
        dump = context.dump
        assert dump is not None
        self._traits = traits_of_run(dump.run_info())
        study = self._study
        if self._traits is not None and self._traits.keeps_modules:
            study = self._units = self._units or Study(self._targets, by_module=True)
            study.add(dump, _SECONDS)
        self._kept = study.keep(dump, self._targets[0], BAR, _SECONDS)
        write_kept(self._keep, self._kept, self._targets[0], dump, self._traits)

    def status(self, runs: int) -> int:
        """What the program ends with, if it hasn't failed itself: 1 where it had no run.

        Args:
            runs: that were seen.
        """
        return int(not runs)

    def finish(self, runs: int) -> None:
        """The program is at its end.

        Args:
            runs: that were seen.
        """
        if not self._study.runs:
            tell(f"precision: no run was measured, {runs} run(s) were seen.")
            return
        rows = self._study.rows
        table = precision_table(None, rows[:_MOST_TOLD], ListCommand("precision"), False, "")
        lines = [*self._title, "", *_texts(table)]
        if len(rows) > _MOST_TOLD:
            lines.append(f"… and {len(rows) - _MOST_TOLD} more")
        if self._kept is not None:
            names = (f"  {name}" for name in self._kept.names)
            lines += ["", *kept_lines(self._kept, self._targets[0], self._traits), *names]
        if self._output:
            self._write(json_document(len(rows), lambda at: record(rows[at])))
        files = " and ".join(filter(None, (self._output, self._keep if self._kept else "")))
        wrote = f", wrote {files}" if files else ""
        tell(f"precision: {self._study.runs} run(s) measured{wrote}.", "\n".join([*lines, ""]))

    def _write(self, rows: Document) -> None:
        with written(self._output), replacing(self._output) as file:
            file.write("\n".join([*_texts(rows), ""]).encode())


def _texts(document: Document) -> list[str]:
    return [each.text for each in document.lines(0, document.line_count)]
