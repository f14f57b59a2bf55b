"""The first run of a folder that differs from its counterpart in another one."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from tfdbg_cli.commands.compare.arguments import comparison
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.comparing.alignment import Renamed, align
from tfdbg_cli.comparing.bars import Bars
from tfdbg_cli.comparing.comparison import Comparison
from tfdbg_cli.comparing.left import Left
from tfdbg_cli.comparing.shards import side_by_side
from tfdbg_cli.comparing.terms import Terms
from tfdbg_cli.dumps.dump import Dump
from tfdbg_cli.dumps.open import RankRun, find_ranks, find_runs, open_dump, open_ranks, rank_runs
from tfdbg_cli.dumps.remote.shadow import place_of, shadowed
from tfdbg_cli.sessions.offline.commands import OpenedRun
from tfdbg_cli.sessions.offline.survey import Survey

__all__ = ["FirstDifference", "first_apart"]

# So many runs that can't be compared are named one by one.
_NAMED = 3


class FirstDifference(NamedTuple):
    """The run that was found.

    Attributes:
        opened: it, with the command that compares it.
        notes: what there is to say.
        is_whole: whether all runs up to it could be compared.
    """

    opened: OpenedRun
    notes: list[str]
    is_whole: bool


def first_apart(survey: Survey, against: str, terms: Terms) -> FirstDifference:
    """Open the first run that is beyond the bar; the last one that has a counterpart, if none is.

    Runs that can't be opened, on either side, and those without a counterpart are noted.

    Args:
        survey: the runs.
        against: a run, or a folder of runs, which are told by the names of their folders; it may
            be an address.
        terms: what they are compared by.

    Raises:
        UserError: there is nothing to compare, or the terms say something that they can't.
    """
    shown, against = against, shadowed(against)
    how = terms.bars(), terms.renamed()
    others: list[Path | RankRun] = [*find_runs(against)] or [*rank_runs(find_ranks(against))]
    if not others:
        open_dump(against)  # says what is there instead
    by_name = {each.name: each for each in others}
    is_one = len(others) == len(survey.runs) == 1
    found: OpenedRun | None = None
    lost: list[str] = []
    used: set[str] = set()
    left = Left()
    count = 0
    for run in survey.like_current():
        other = others[0] if is_one else by_name.get(run.path.name)
        if other is None:
            lost.append(f"{shown} has no {run.path.name}.")
            continue
        dump: Dump | None = None
        try:
            dump = survey.open(run)
            other = _of_the_same(dump, other, others, used)
            used.add(other.name)
            is_apart = _are_apart(dump, other, *how, left)
        except UserError as error:
            lost.append(f"{run.path.name} can't be compared: {error.message}")
            if dump is not None:
                dump.close()
            continue
        count += 1
        if found is not None:
            found.dump.close()
        # Of several ranks, compare finds the run of the same number itself.
        folder = against if isinstance(other, RankRun) else str(other)
        found = OpenedRun(run, dump, first=comparison(terms, folder))
        if is_apart:
            before = f"The {count - 1} run(s) before it are within the bar."
            return FirstDifference(found, [*_short(lost), *[before] * (count > 1)], not lost)
    if found is None:
        hint = "compare DIR compares two runs, whatever they are called."
        raise UserError(f"No run of {place_of(survey.root)} can be compared: {lost[0]}", hint)
    within = f"None of {count} runs is beyond the bar."
    return FirstDifference(found, [*_short(lost), *[within] * (count > 1)], not lost)


def _of_the_same(
    dump: Dump, other: Path | RankRun, others: list[Path | RankRun], used: set[str]
) -> Path | RankRun:
    """The run of the other folder that did the same; that of the same number, if none did.

    A program that calibrates a model first, say, has more runs than one that doesn't.
    """
    wanted = _done_by(dump)
    if not wanted or isinstance(other, RankRun) or _done_there(other) in ("", wanted):
        return other
    for each in others:
        if each.name not in used and not isinstance(each, RankRun) and _done_there(each) == wanted:
            return each
    return other


def _done_there(path: Path) -> str:
    try:
        dump = open_dump(path)
    except UserError:
        return ""
    try:
        return _done_by(dump)
    finally:
        dump.close()


def _done_by(dump: Dump) -> str:
    """What a run called, and with what; empty: it isn't known."""
    info = dump.run_info()
    if info is None:
        return ""
    asked = f"{[*info.fetches]} {[*info.feeds]}" if info.fetches or info.feeds else ""
    return info.runner or asked


def _short(lost: list[str]) -> list[str]:
    more = [f"{len(lost) - _NAMED} more runs can't be compared."] if len(lost) > _NAMED else []
    return [*lost[:_NAMED], *more]


def _are_apart(dump: Dump, other: Path | RankRun, bars: Bars, renamed: Renamed, left: Left) -> bool:
    opened = open_ranks(other) if isinstance(other, RankRun) else open_dump(other)
    try:
        first, second = side_by_side(dump, opened)
        pairs = align(first, second, renamed)
        return Comparison(first, second, pairs, bars, left).first_apart() is not None
    finally:
        opened.close()
