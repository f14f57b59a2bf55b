"""The first run of a folder that differs from its counterpart in another one."""

from __future__ import annotations

from pathlib import Path

from tfdbg_cli.commands.shell.parsing import quoted
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.comparing.alignment import align
from tfdbg_cli.comparing.comparison import Comparison
from tfdbg_cli.dumps.dump import Dump
from tfdbg_cli.dumps.open import find_runs, open_dump
from tfdbg_cli.sessions.offline.commands import Opened
from tfdbg_cli.sessions.offline.survey import Survey

__all__ = ["first_apart"]


def first_apart(survey: Survey, against: str) -> tuple[Opened, list[str]]:
    """Open the first run that is beyond the bar; the last one that has a counterpart, if none is.

    Args:
        survey: the runs.
        against: a run, or a folder of runs, which are told by the names of their folders.

    Returns:
        The run, with the command that compares it, and what there is to say.

    Raises:
        UserError: there is nothing to compare.
    """
    others = find_runs(against)
    if not others:
        open_dump(against)  # says what is there instead
    by_name = {path.name: path for path in others}
    found: Opened | None = None
    count = 0
    for run in survey.like_current():
        other = by_name.get(run.path.name)
        if other is None and len(others) == len(survey.runs) == 1:
            other = others[0]
        if other is None:
            continue
        count += 1
        if found is not None:
            found.dump.close()
        dump = survey.open(run)
        found = Opened(run, dump, first=f"compare {quoted(str(other))}")
        if _are_apart(dump, other):
            before = f"The {count - 1} run(s) before it are within the bar."
            return found, [before] if count > 1 else []
    if found is None:
        raise UserError(
            f"No run of {against} is called as one of {survey.root}.",
            "compare DIR compares two runs, whatever they are called.",
        )
    return found, [f"None of {count} runs is beyond the bar."] if count > 1 else []


def _are_apart(dump: Dump, other: Path) -> bool:
    second = open_dump(other)
    try:
        return Comparison(dump, second, align(dump, second)).first_apart() is not None
    finally:
        second.close()
