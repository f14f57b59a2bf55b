"""A tensor filter over all runs of a folder, one run after the other."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tfdbg_cli.commands.run.choices import RunFilter
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.dumps.dump import Datum, Dump, Predicate, bound, is_only_nonfinite, noted
from tfdbg_cli.filters.builtin import has_inf_or_nan
from tfdbg_cli.filters.registry import FilterRegistry
from tfdbg_cli.sessions.offline.scanned import ScanAnswers
from tfdbg_cli.sessions.offline.survey import Survey, SurveyedRun
from tfdbg_cli.tensors.measurements import Measurements

__all__ = ["FoundRun", "Search"]


@dataclass(frozen=True)
class FoundRun:
    """What a filter found in one run.

    Attributes:
        tensor: the first tensor that passes, ``node:slot``; empty: none does.
        number: which of the dumps of that tensor; ``None`` where it has only one.
        failures: one line for each tensor that can't be read or that the filter raised for, up to
            the one that passes; or why the run can't be opened.
    """

    tensor: str = ""
    number: int | None = None
    failures: tuple[str, ...] = ()


class Search:
    """Applies filters to runs and remembers what it found: a search that is interrupted goes on
    where it was when it is asked again.

    Args:
        survey: the runs.
        filters: the tensor filters.

    Attributes:
        scanned: what was found before.
    """

    def __init__(self, survey: Survey, filters: FilterRegistry) -> None:
        self._survey = survey
        self._filters = filters
        self.scanned = ScanAnswers(filters)
        self._found: dict[tuple[RunFilter, Predicate, int], FoundRun] = {}

    def check(self, wanted: RunFilter) -> None:
        """Whether there is such a filter.

        Raises:
            UserError: there is none, or the regex is malformed.
        """
        self._filters.get(wanted.name)
        _ = wanted.pattern

    def in_run(self, run: SurveyedRun, wanted: RunFilter) -> FoundRun:
        """The first tensor of a run that passes. Nothing behind it is read.

        Raises:
            UserError: as `check`.
        """
        original = self._filters.get(wanted.name)
        key = wanted, original, run.number
        if key not in self._found:
            before = None if wanted.exclude else self.scanned.finding(run, wanted.name)
            if before is not None:
                first = before["first"][0] if before["passed"] else {}
                found = FoundRun(str(first.get("tensor", "")), first.get("number"))
                self._found[key] = found
                return found
            exclude = wanted.pattern
            try:
                dump = self._survey.open(run)
            except UserError as error:
                self._found[key] = FoundRun(failures=(error.message,))
                return self._found[key]
            try:
                predicate = self._filters.predicate(wanted.name)
                self._found[key] = _first(dump, predicate, original is has_inf_or_nan, exclude)
            finally:
                dump.close()
        return self._found[key]

    def first(self, runs: Iterable[SurveyedRun], wanted: RunFilter) -> SurveyedRun | None:
        """The first of some runs with a tensor that passes.

        Raises:
            UserError: as `check`.
        """
        return next((run for run in runs if self.in_run(run, wanted).tensor), None)


def _first(
    dump: Dump, predicate: Predicate, trusts_counts: bool, exclude: re.Pattern[str] | None
) -> FoundRun:
    """The first tensor that passes.

    Args:
        dump: the run.
        predicate: the filter.
        trusts_counts: whether the filter is about what the dump itself has counted, so that no
            value is read where it has.
        exclude: nodes that don't count.
    """
    failures: list[str] = []
    failed = noted(failures)
    is_quick = is_only_nonfinite(predicate)
    predicate = bound(predicate, dump)
    measurements = Measurements.of(dump)

    def passes(datum: Datum) -> bool:
        known = measurements.peek(datum, numbers=False) if trusts_counts else None
        if known is not None:
            return known.health is not None and known.health.bad > 0
        return bool(predicate(datum, dump.value(datum)))

    data: Iterable[Datum] = (
        datum for datum in dump.data() if exclude is None or not exclude.search(datum.node_name)
    )
    if is_quick:
        data = dump.maybe_nonfinite(data)
    for datum in data:
        try:
            passed = passes(datum)
        except Exception as error:
            failed(datum, error)
            continue
        if passed:
            turns = dump.by_tensor(datum.tensor_name)
            number = turns.index(datum) if len(turns) > 1 else None
            return FoundRun(datum.tensor_name, number, tuple(failures))
    return FoundRun(failures=tuple(failures))
