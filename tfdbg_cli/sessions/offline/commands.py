"""``runs`` and ``use``: the runs of a dump folder, and from one to another."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from tfdbg_cli.commands.compare.command import OtherRun, compare_command
from tfdbg_cli.commands.context import Context
from tfdbg_cli.commands.json_lines import JSON_ARGUMENT, json_document
from tfdbg_cli.commands.list_command import exclude_argument, filter_argument, order_arguments
from tfdbg_cli.commands.registry import Argument, Command, Result
from tfdbg_cli.commands.reply import Candidate, Leave, Toast
from tfdbg_cli.commands.run.choices import RunFilter
from tfdbg_cli.common.documents import ChainDocument, MenuItem, TextDocument, line
from tfdbg_cli.common.errors import UserError, did_you_mean
from tfdbg_cli.dumps.dump import Dump
from tfdbg_cli.dumps.remote.shadow import place_of
from tfdbg_cli.sessions.offline.search import Search
from tfdbg_cli.sessions.offline.survey import Survey, SurveyedRun
from tfdbg_cli.sessions.offline.table import RUN_COLUMNS, RunTable, run_record, sorted_runs

__all__ = ["OpenedRun", "run_commands"]

_MODES = frozenset({"offline", "offline-profile"})
_WORDS = {
    "first": "the first run",
    "prev": "the run before this one",
    "next": "the run after this one",
    "last": "the last run",
}
# Runs that completion offers by number.
_OFFERED = 400


@dataclass(frozen=True)
class OpenedRun:
    """What `use` leaves a stop with: the run that was opened.

    Attributes:
        run: which one.
        dump: its tensors.
        wanted: the filter that its first screen is to show the tensors of, if there is one.
        first: the command of its first screen; empty: the usual one.
    """

    run: SurveyedRun
    dump: Dump
    wanted: RunFilter | None = None
    first: str = ""


class _Folder:
    """The commands over the runs of a folder."""

    def __init__(self, survey: Survey, search: Search) -> None:
        self._survey = survey
        self._search = search

    # runs

    def list(self, context: Context, arguments: argparse.Namespace) -> Result:
        """``runs``."""
        if arguments.number is not None:
            arguments.where = arguments.number
            return self.use(context, arguments)
        wanted = self._wanted(arguments)
        if wanted is not None:
            return self._list_found(wanted, arguments)
        runs = sorted_runs(self._survey, self._survey.runs, arguments)
        if arguments.json:
            return json_document(len(runs), lambda at: run_record(self._survey, runs[at]))
        root = place_of(self._survey.root)
        # A long list opens where the open run is.
        head = TextDocument([line((f"{len(runs)} run(s) in {root}:", "bold")), line()])
        start = max([run.number for run in runs].index(self._survey.current) - 5, 0)
        return ChainDocument(
            [head, RunTable(self._survey, runs, arguments)],
            title="runs",
            menu=self._menu(context),
            initial_line=start + head.line_count if start else 0,
        )

    def _list_found(self, wanted: RunFilter, arguments: argparse.Namespace) -> Result:
        self._search.check(wanted)
        runs = self._survey.runs
        all_found = [self._search.in_run(run, wanted) for run in runs]
        hits = [run for run in runs if all_found[run.number].tensor]
        hits = [*sorted_runs(self._survey, hits, arguments)]
        found = [all_found[run.number] for run in hits]
        if arguments.json:
            return json_document(
                len(hits), lambda at: run_record(self._survey, hits[at], found[at])
            )
        text = f'{len(hits)} of {len(runs)} run(s) with a tensor that passes filter "{wanted.name}"'
        lines = [line((f"{text}:", "bold"))]
        failed = [run for run in runs if all_found[run.number].failures]
        if failed:
            why = all_found[failed[0].number].failures[0]
            what = f"{len(failed)} run(s) couldn't be searched in full"
            lines.append(line((f"Warning: {what}: {failed[0].label} {why}", "warning")))
        if not hits:
            return TextDocument(lines, title="runs")
        table = RunTable(self._survey, hits, arguments, wanted, found)
        return ChainDocument([TextDocument([*lines, line()]), table], title="runs")

    def _menu(self, context: Context) -> tuple[MenuItem, ...]:
        alike = self._survey.like_current()
        at, last = alike.index(self._survey.runs[self._survey.current]), len(alike) - 1
        home = "lp" if context.mode == "offline-profile" else "lt"
        return (
            MenuItem("previous run", "use prev", at > 0),
            MenuItem("next run", "use next", at < last),
            MenuItem("list_profile" if home == "lp" else "list_tensors", home),
        )

    # use

    def use(self, context: Context, arguments: argparse.Namespace) -> Result:
        """``use``."""
        wanted = self._wanted(arguments)
        where = arguments.where
        if where is None and wanted is None:
            raise UserError("use: which run?", "runs lists them; next and prev are runs too.")
        if wanted is not None:
            self._search.check(wanted)
        if isinstance(where, int) or where not in (None, *_WORDS):
            run = self._numbered(where)
        else:
            found = self._sought(where or "first", wanted)
            if found is None:
                assert wanted is not None
                behind = {"next": " after this one", "prev": " before this one"}.get(where or "")
                return Toast(f'No run{behind or ""} has a tensor that passes "{wanted.name}".')
            run = found
        if run.number == self._survey.current and wanted is None:
            return Toast(f"Run {run.label} is open already.")
        return Leave(OpenedRun(run, self._survey.open(run), wanted))

    def _numbered(self, text: int | str) -> SurveyedRun:
        runs = self._survey.runs
        try:
            number = int(text)
        except ValueError:
            hint = did_you_mean(str(text), _WORDS) or "Use a number, first, prev, next or last."
            raise UserError(f'"{text}" is not a run.', hint) from None
        if not 0 <= number < len(runs):
            raise UserError(f"There is no run {number}.", f"Use 0 to {len(runs) - 1}.")
        return runs[number]

    def _sought(self, word: str, wanted: RunFilter | None) -> SurveyedRun | None:
        """A run by a word; with a filter, the nearest one in that direction that it finds."""
        runs = self._survey.like_current()
        at = runs.index(self._survey.runs[self._survey.current])
        candidates = {
            "first": runs,
            "last": runs[::-1],
            "next": runs[at + 1 :],
            "prev": runs[:at][::-1],
        }[word]
        if wanted is not None:
            return self._search.first(candidates, wanted)
        if not candidates:
            raise UserError(f"There is no run {'after' if word == 'next' else 'before'} this one.")
        return candidates[0]

    def other(self, where: str) -> OtherRun:
        """A run to compare with, by number or by word.

        Raises:
            UserError: there is none, or it can't be opened.
        """
        run = self._sought(where, None) if where in _WORDS else self._numbered(where)
        assert run is not None
        return OtherRun(self._survey.open(run), f"run {run.label}")

    def earlier(self) -> Sequence[tuple[int, Path]]:
        """The runs before the one that is open, the latest first."""
        runs = self._survey.like_current()
        current = self._survey.current
        found = [(run.number, run.path) for run in runs if run.number < current and not run.joined]
        return found[::-1]

    @staticmethod
    def _wanted(arguments: argparse.Namespace) -> RunFilter | None:
        if not arguments.tensor_filter:
            if arguments.filter_exclude_node_names:
                raise UserError("-fenn is valid only together with -f FILTER.")
            return None
        return RunFilter(arguments.tensor_filter, arguments.filter_exclude_node_names)

    # Completion.

    def numbers(self, context: Context, typed: str) -> Iterable[Candidate]:
        """Runs by number."""
        runs = (run for run in self._survey.runs if str(run.number).startswith(typed))
        return [Candidate(str(run.number), run.path.name) for run in islice(runs, _OFFERED)]

    def places(self, context: Context, typed: str) -> Iterable[Candidate]:
        """Runs by word and by number."""
        words = [Candidate(word, what) for word, what in _WORDS.items() if word.startswith(typed)]
        return [*words, *self.numbers(context, typed)]


def run_commands(survey: Survey, search: Search) -> tuple[Command, ...]:
    """The commands over the runs of a folder.

    Args:
        survey: the runs.
        search: finds those with certain tensors.
    """
    folder = _Folder(survey, search)
    exclude = exclude_argument("with -f: nodes whose name matches don't count")

    return (
        compare_command(folder.other, frozenset({"offline"}), folder.earlier),
        Command(
            "runs",
            (),
            "run control",
            "List the runs of the dump folder.",
            folder.list,
            (
                Argument(
                    ("number",),
                    "open this run, as use does",
                    "K",
                    nargs="?",
                    kind=int,
                    complete=folder.numbers,
                ),
                filter_argument("only runs with a tensor that passes, and the first such tensor"),
                exclude,
                *order_arguments(RUN_COLUMNS, "number"),
                JSON_ARGUMENT,
            ),
            modes=_MODES,
            examples=(
                ("runs", "all runs: when, of what, how many tensors, how many with nan or inf"),
                ("runs -f", "only the bad ones, with the first bad tensor of each"),
                ("runs -s health -r", "those with the most bad tensors first"),
                ("runs --json", "for other programs"),
            ),
            details="A run folder stores the health of its tensors; for the original's directories"
            " it is counted while you look. -f reads run after run; Ctrl-C ends it, and the same"
            " command goes on where it stopped. If the program has several ranks, the list has each"
            " run over all ranks and for each rank; use next and prev stay with the open ranks.",
        ),
        Command(
            "use",
            (),
            "run control",
            "Open another run of the dump folder.",
            folder.use,
            (
                Argument(
                    ("where",),
                    "its number, or first, prev, next, last",
                    "WHICH",
                    nargs="?",
                    complete=folder.places,
                ),
                filter_argument("the nearest one with a tensor that passes; alone: the first"),
                exclude,
            ),
            modes=_MODES,
            examples=(
                ("use 3", "the run with this number"),
                ("use prev", "the run before this one"),
                ("use -f", "the first run in which something was nan or infinite"),
                ("use next -f", "the one after that"),
            ),
        ),
    )
