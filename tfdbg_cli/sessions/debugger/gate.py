"""``--check``: waits for a tensor that passes a filter, tells of it, and ends the program."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from tfdbg_cli.commands.context import Context
from tfdbg_cli.commands.report.check_formats import CHECK_FORMATS, CheckResult
from tfdbg_cli.commands.report.finding import Finding, find_in
from tfdbg_cli.commands.run.choices import ExitChoice, RunChoice
from tfdbg_cli.common.errors import UserError, one_line
from tfdbg_cli.common.interpreter.program_signals import pass_on
from tfdbg_cli.common.streams import tell
from tfdbg_cli.dumps.dump import Datum, Dump, bound, is_over_runs, over_runs
from tfdbg_cli.filters.builtin import RECOMMENDED
from tfdbg_cli.filters.registry import FilterRegistry

__all__ = ["CHECK_FAILED", "Gate", "GateOptions"]

#: Exit status of a program in which a tensor has passed a filter of ``--check``.
CHECK_FAILED = 3

# What is told of where the program goes on; the rest is counted.
_MOST_TOLD = 20


@dataclass(frozen=True)
class GateOptions:
    """What was asked for.

    Attributes:
        filters: names; a tensor that passes any of them fails the check.
        after: so many runs aren't looked at.
        goes_on: the program isn't ended.
        format: one of `CHECK_FORMATS`.
        output: the file that the result goes to; ``None``: none does.
    """

    filters: Sequence[str]
    after: int = 0
    goes_on: bool = False
    format: str = "text"
    output: str | None = None

    def gate(self, registry: FilterRegistry) -> Gate:
        """What answers the stops of a program.

        Args:
            registry: of filters; gets one that stands for several.

        Raises:
            UserError: there is no such filter, or the output can't be written.
        """
        return Gate(self, registry)


class Gate:
    """Answers all stops of a program in the place of somebody at the prompt.

    Args:
        options: what was asked for.
        registry: of filters; gets one that stands for several.

    Attributes:
        name: of the filter that is awaited.

    Raises:
        UserError: there is no such filter, or the output can't be written.
    """

    def __init__(self, options: GateOptions, registry: FilterRegistry) -> None:
        self.use(options, registry)
        self._findings: dict[tuple[str, str, str], Finding] = {}
        self._count = 0
        self._output = os.path.abspath(options.output) if options.output else None
        self._is_lost = False
        if self._output is not None:
            self._write(self._output)

    def use(self, options: GateOptions, registry: FilterRegistry) -> None:
        """Wait for this from now on.

        Raises:
            UserError: there is no such filter.
        """
        self._options = options
        if not options.filters:
            raise UserError("--check needs a filter.", f"--check {RECOMMENDED}, for example.")
        self._predicates = {name: registry.predicate(name) for name in options.filters}
        self.name = ",".join(self._predicates)
        if len(self._predicates) > 1:
            joined = functools.partial(self._any)
            has_runs = any(map(is_over_runs, self._predicates.values()))
            registry.add(self.name, over_runs(joined) if has_runs else joined)

    def find(self, context: Context, title: str, allowed: str = "") -> Finding:
        """What has passed at a stop, but for nodes in whose names ``allowed`` is found."""
        return find_in(context, self._predicates, title.partition(": ")[2], allowed)

    def _any(self, datum: Datum, value: Any, dump: Dump) -> bool:
        """Passes where one of several filters does."""
        return any(bound(each, dump)(datum, value) for each in self._predicates.values())

    def prompt(self, context: Context, command: str) -> AbstractContextManager[Any] | None:
        """Within what somebody is asked at a stop before it is answered; ``None``: nobody is.

        Args:
            context: of it.
            command: of its first screen.
        """
        return None

    def answer(self, context: Context, title: str, command: str, dump: str, said: Any) -> Any:
        """A stop.

        Args:
            context: of it.
            title: of it.
            command: of its first screen.
            dump: the folder of the run's dump; empty: there is none.
            said: the choice of somebody who was asked; ``None``: nobody was.

        Returns:
            The choice for what comes.
        """
        if context.mode == "run-start":
            return RunChoice(times=self._options.after + 1, filter_name=self.name)
        if command.startswith(("lt -f", "why -f")):
            self._count += 1
            finding = self.find(context, title)
            key = finding.filter, finding.tensor, finding.place
            if key not in self._findings and len(self._findings) < _MOST_TOLD:
                self._findings[key] = finding
                self._note(finding, dump)
            if not self._options.goes_on:
                return ExitChoice(ends_program=True, status=CHECK_FAILED)
        return RunChoice(filter_name=self.name)

    def status(self, runs: int) -> int:
        """What the program ends with, if it hasn't failed itself.

        Args:
            runs: that were seen.
        """
        return CHECK_FAILED if self._count else int(runs <= self._options.after)

    def _note(self, finding: Finding, dump: str) -> None:
        finding.dump = dump
        story = list(finding.story)
        if os.environ.get("GITHUB_ACTIONS") == "true":
            story.append(finding.annotation(os.environ))
        kept = f" The dump is kept: tfdbg --dump-dir {dump}" if dump else ""
        tell(
            f"check failed: {finding.headline}.{kept}",
            "".join(f"{each}\n" for each in (finding.first_line, *story)),
        )
        self._save()

    def finish(self, runs: int) -> None:
        """The program is at its end.

        Args:
            runs: that were seen.
        """
        checked = max(runs - self._options.after, 0)
        if self._count > 1:
            tell(f"check failed in {self._count} of {checked} run(s).")
        elif not checked:
            tell(f"check: nothing was checked, {runs} run(s) were seen.")
        elif not self._count:
            tell(f"check {self.name}: nothing in {checked} run(s).")
        self._save()

    def _save(self) -> None:
        """Write the output; that it can't be written is told once, and the program goes on."""
        if self._output is None:
            return
        try:
            self._write(self._output)
        except UserError as error:
            if not self._is_lost:
                tell(str(error))
            self._is_lost = True

    def _write(self, path: str) -> None:
        try:
            with open(path, "w", encoding="utf-8") as file:
                file.write(self._text())
        except OSError as error:
            pass_on(error)
            raise UserError(f"--check-output {path}: {one_line(error)}") from None

    def _text(self) -> str:
        checked = CheckResult([*self._predicates], self._count, [*self._findings.values()])
        return CHECK_FORMATS[self._options.format](checked)
