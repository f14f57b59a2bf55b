"""Looking at dumps after the program has gone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tfdbg_cli.commands.builtin import make_registry
from tfdbg_cli.commands.context import Context
from tfdbg_cli.commands.registry import CommandRegistry
from tfdbg_cli.commands.shell.parsing import quoted
from tfdbg_cli.commands.units import describe_run
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.comparing.terms import Terms
from tfdbg_cli.dumps.open import find_ranks, find_runs, open_dump, rank_runs
from tfdbg_cli.dumps.profile import is_profile_only
from tfdbg_cli.dumps.remote.shadow import place_of, shadowed
from tfdbg_cli.sessions.debugger.debugger import Debugger
from tfdbg_cli.sessions.offline.against import first_apart
from tfdbg_cli.sessions.offline.commands import OpenedRun, run_commands
from tfdbg_cli.sessions.offline.scanned import ScanAnswers
from tfdbg_cli.sessions.offline.search import Search
from tfdbg_cli.sessions.offline.survey import Survey

__all__ = ["look"]

# So many runs at the end that can't be opened are named one by one.
_NAMED = 3


def look(
    path: str | os.PathLike[str],
    debugger: Debugger,
    *,
    validate: bool = True,
    against: str | None = None,
    terms: Terms | None = None,
) -> None:
    """Show the runs of a dump folder until the user leaves.

    Args:
        path: one run's directory (the original's format or a run folder), or a folder of runs, of
            which the last one that can be opened is shown first; it may be an address.
        debugger: UI, filters and settings.
        validate: whether dumps in the original's format are compared with their graphs.
        against: a folder of runs: the first run that differs from the one of its name there is
            opened, and compared with it.
        terms: what they are compared by.

    Raises:
        UserError: there is no dump.
    """
    survey = _survey(shadowed(path), validate)
    search = Search(survey, debugger.filters)
    registry = make_registry(run_commands(survey, search))
    if against is None:
        opened = _open_last(survey, debugger)
    else:
        opened, notes, is_whole = first_apart(survey, against, terms or Terms())
        for text in notes:
            debugger.note(text)
        if debugger.queue.batch:
            debugger.queue.insert([opened.first])
            debugger.queue.failed = not is_whole  # nobody knows what is in the others
    while True:
        survey.current = opened.run.number
        try:
            action = _stop(opened, survey, registry, debugger, search.scanned)
        finally:
            opened.dump.close()
        if not isinstance(action, OpenedRun):
            return
        opened = action


def _survey(path: str | os.PathLike[str], validate: bool) -> Survey:
    """The runs of a folder.

    Raises:
        UserError: there are none.
    """
    paths = find_runs(path)
    if paths:
        return Survey(paths, validate=validate)
    ranks = rank_runs(find_ranks(path))
    if not ranks:
        open_dump(path)  # says what is there instead
    return Survey.of_ranks(Path(path).expanduser(), ranks, validate=validate)


def _open_last(survey: Survey, debugger: Debugger) -> OpenedRun:
    """The last run that can be opened; the others behind it are noted.

    Raises:
        UserError: there is none.
    """
    errors: list[str] = []
    for run in reversed(survey.like_current()):
        try:
            dump = survey.open(run)
        except UserError as error:
            if len(survey.runs) == 1:
                raise
            errors.append(f"Run {run.label} can't be opened: {error.message}")
            continue
        for text in errors[:_NAMED]:
            debugger.note(text)
        if len(errors) > _NAMED:
            debugger.note(f"{len(errors) - _NAMED} more runs can't be opened: see runs.")
        return OpenedRun(run, dump)
    raise UserError(f"None of the {len(survey.runs)} runs can be opened: {errors[0]}")


def _stop(
    opened: OpenedRun,
    survey: Survey,
    registry: CommandRegistry,
    debugger: Debugger,
    scanned: ScanAnswers,
) -> Any:
    """Show one run; returns what the user left it for."""
    dump = opened.dump
    is_profile = is_profile_only(dump)
    context = debugger.context(
        "offline-profile" if is_profile else "offline",
        dump.run_info(),
        dump,
        commands=registry,
        found_before=lambda name: scanned.data(opened.run, dump, name),
    )
    _mention_filter(context, debugger)
    count = len(survey.runs)
    which = f"{opened.run.label} of {count} runs: " if count > 1 else ""
    initial, role = "lp" if is_profile else "lt", "offline"
    if opened.wanted is not None and not is_profile:
        initial, role = f"lt {opened.wanted.options}", "error"
    elif opened.first:
        initial = opened.first
    what = f"{'profile of ' * is_profile}{describe_run(context.run_info)}"
    return debugger.stop(
        context,
        title=f"offline: {which}{place_of(opened.run.path)} - {what}",
        title_role=role,
        initial_command=initial,
    )


def _mention_filter(context: Context, debugger: Debugger) -> None:
    """Say which filter the run was kept for."""
    name = context.run_info.filter_name
    if not name:
        return
    if name in debugger.filters:
        hint = f"lt -f {quoted(name)} lists what passes."
    else:
        hint = "It isn't loaded: --filters FILE.py loads it."
    debugger.note(f'This run stopped the program for the filter "{name}". {hint}')
