"""The table of ``runs`` as a Document that never waits for a run to be read."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

from tfdbg_cli.commands.list_command import ListCommand
from tfdbg_cli.commands.run.choices import RunFilter
from tfdbg_cli.commands.table import WaitingTable
from tfdbg_cli.common.documents import Line, Link, Span
from tfdbg_cli.sessions.offline.search import FoundRun
from tfdbg_cli.sessions.offline.survey import RunFacts, Survey, SurveyedRun
from tfdbg_cli.tensors.measurements import Background

__all__ = ["RUN_COLUMNS", "RunTable", "run_record", "sorted_runs"]

#: The columns; that of ranks and that of what a filter found are not always there.
RUN_COLUMNS = ("number", "time", "rank", "run", "tensors", "health", "first", "fetches")

_PLACEHOLDER = "…"

# Names of fetches beyond so many are counted, not listed.
_FETCHES = 3

_FIRST = "First tensor"


class RunTable(WaitingTable):
    """The heads of the columns, then one row a run.

    Args:
        survey: all runs.
        runs: those to list.
        order: the columns and the order that are asked for (see `order_arguments`).
        wanted: the filter that chose them, if one did.
        found: what it found in each of them.
    """

    def __init__(
        self,
        survey: Survey,
        runs: Sequence[SurveyedRun],
        order: argparse.Namespace,
        wanted: RunFilter | None = None,
        found: Sequence[FoundRun] = (),
    ) -> None:
        self._survey = survey
        self._runs = runs
        self._wanted = wanted
        self._found = found
        self._number_width = max((len(run.label) for run in runs), default=3)
        widest = max((len(_tensor(each)) for each in found), default=0)
        #: The heads and widths of the columns; a negative one is that of numbers.
        columns = {
            "number": ("", self._number_width + 2),
            "time": ("Time", 19),
            **({"rank": ("Rank", 4)} if survey.has_ranks else {}),
            "run": ("Run", -5),
            "tensors": ("Tensors", -7),
            "health": ("Health", 8),
            **({"first": (_FIRST, min(max(widest, len(_FIRST)), 40))} if wanted else {}),
            "fetches": ("Fetches", 0),
        }
        options = {} if wanted is None else {"-f": wanted.name, "-fenn": wanted.exclude}
        written = ListCommand.of("runs", options, order, columns, "number", sorts=RUN_COLUMNS)
        super().__init__(len(runs), written, columns, Background(survey), gap=2)

    def rows(self, start: int, stop: int) -> list[Line]:
        """The rows ``start`` to ``stop - 1``; what isn't known is asked for, not waited for."""
        shown = self._runs[start:stop]
        known = {run.number: self._survey.peek(run) for run in shown}
        # All runs are opened before values of any are read.
        missing = [run.jobs[0] for run in shown if known[run.number] is None]
        missing += [run.jobs[1] for run in shown if _is_unmeasured(known[run.number])]
        if missing:
            self._background.want(missing)
        return [self._row(at, run, known[run.number]) for at, run in enumerate(shown, start)]

    def settle(self, start: int, stop: int) -> None:
        """Read what these lines show."""
        shown = self._runs[max(start - 1, 0) : max(stop - 1, 0)]
        for run in shown:
            self._survey.facts(run)
        self._background.drop([job for run in shown for job in run.jobs])

    def _row(self, at: int, run: SurveyedRun, facts: RunFacts | None) -> Line:
        is_open = run.number == self._survey.current
        link = f"use {run.number}"
        if self._wanted is not None:
            link += f" {self._wanted.options}"
        facts = facts or RunFacts()
        is_known = self._survey.peek(run) is not None
        blank = "" if is_known else _PLACEHOLDER
        when = _time_text(facts.time) if facts.time else blank or "-"
        call = f"#{facts.call_count}" if facts.call_count else blank or "-"
        count = (blank or str(facts.tensors)) if not facts.is_lost else "?"
        cells: dict[str, Sequence[Span]] = {
            "number": [
                Span("> " if is_open else "  ", "bold"),
                Span(" " * (self._number_width - len(run.label))),
                Span(run.label, "link", Link(link)),
            ],
            "time": [Span(when, "dim")],
            "rank": [Span(run.ranks)],
            "run": [Span(call)],
            "tensors": [Span(count)],
            "health": _health(facts),
            "fetches": _about(run, facts),
        }
        if self._wanted is not None:
            cells["first"] = [Span(_tensor(self._found[at]), "link", Link(link))]
        return self.row(cells)


def sorted_runs(
    survey: Survey, runs: Sequence[SurveyedRun], order: argparse.Namespace
) -> Sequence[SurveyedRun]:
    """The runs in the order that is asked for; what a column doesn't know comes last."""
    key = order.sort_by
    if key in ("number", "first"):
        return runs[::-1] if order.reverse else runs
    keys = {run.number: _sort_key(run, survey.facts(run), key) for run in runs}
    known = [run for run in runs if keys[run.number] is not None]
    known.sort(key=lambda run: keys[run.number], reverse=order.reverse)
    return [*known, *(run for run in runs if keys[run.number] is None)]


def _sort_key(run: SurveyedRun, facts: RunFacts, column: str) -> Any:
    found = {
        "time": facts.time or None,
        "rank": run.ranks,
        "run": facts.call_count or None,
        "tensors": facts.tensors,
        "health": facts.bad,
        "fetches": ", ".join(facts.fetches),
    }
    return found[column]


def run_record(survey: Survey, run: SurveyedRun, found: FoundRun | None = None) -> dict[str, Any]:
    """A run for ``--json``.

    Args:
        survey: all runs.
        run: one of them.
        found: what a filter found in it, if one was asked for.
    """
    facts = survey.facts(run)
    error = facts.error
    record: dict[str, Any] = {
        "run": run.number,
        "path": str(run.path),
        **({"ranks": run.ranks} if run.ranks else {}),
        "open": run.number == survey.current,
        "time": facts.time or None,
        "call_count": facts.call_count or None,
        "engine": facts.engine,
        "fetches": facts.fetches,
        "feeds": facts.feeds,
        "tensors": facts.tensors,
        "bad_tensors": facts.bad,
        "unreadable_tensors": facts.unreadable,
        "is_profile": facts.is_profile,
        "error": None
        if error is None
        else {"type": error.type_name, "message": error.message, "op": error.op_name},
        "damage": facts.damage,
    }
    if found is not None:
        record |= {"tensor": found.tensor, "execution": found.number}
    return record


def _is_unmeasured(facts: RunFacts | None) -> bool:
    return facts is None or facts.bad is None


def _time_text(seconds: float) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
    except (OverflowError, OSError, ValueError):
        return "-"


def _tensor(found: FoundRun) -> str:
    return found.tensor + (f" (#{found.number})" if found.number is not None else "")


def _health(facts: RunFacts) -> list[Span]:
    if facts.is_lost:
        return [Span("?", "error")]
    if facts.is_profile:
        return [Span("-", "dim")]
    if facts.bad is None:
        return [Span(_PLACEHOLDER, "dim")]
    spans = [Span(f"{facts.bad} bad", "nan") if facts.bad else Span("ok", "dim")]
    if facts.unreadable:
        spans.append(Span(f", {facts.unreadable} ?", "error"))
    return spans


def _about(run: SurveyedRun, facts: RunFacts) -> list[Span]:
    """Fetches, and what went wrong in the run or with its dump."""
    if facts.is_lost:
        return [Span(facts.damage[0], "error")]
    names = ", ".join(facts.fetches[:_FETCHES])
    if len(facts.fetches) > _FETCHES:
        names += f" and {len(facts.fetches) - _FETCHES} more"
    spans = [Span(names)]
    if facts.is_profile:
        spans.append(Span("  (op timings)", "dim"))
    if facts.error is not None:
        where = f" in {facts.error.op_name}" if facts.error.op_name else ""
        spans.append(Span(f"  {facts.error.type_name}{where}", "error"))
    if facts.damage:
        more = f" (and {len(facts.damage) - 1} more)" if len(facts.damage) > 1 else ""
        text = facts.damage[0].replace(f"{run.path}/", "")
        spans.append(Span(f"  {text}{more}", "warning"))
    return spans
