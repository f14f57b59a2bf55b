"""What a folder of runs knows of each run, read when somebody looks at the list."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfdbg_cli.common.errors import UserError, one_line
from tfdbg_cli.dumps.dump import Datum, Dump, RunError
from tfdbg_cli.dumps.open import RankRun, open_dump, open_ranks
from tfdbg_cli.dumps.profile import is_profile_only
from tfdbg_cli.dumps.run_folder.dump import RunFolderDump
from tfdbg_cli.tensors.measurements import Measurements
from tfdbg_cli.tensors.numeric import has_nonfinite

__all__ = ["RunFacts", "Survey", "SurveyedRun"]

# Microseconds since the epoch from 1990 on; what an engine without a clock counts is less.
_EARLIEST = 631_152_000_000_000


@dataclass(frozen=True, eq=False)
class _Job:
    """What the background does for a run: open it, and after that read its values."""

    run: SurveyedRun
    reads_values: bool


class SurveyedRun:
    """One run of the folder.

    Attributes:
        number: its index in time order, from 0.
        path: its folder; of a run over all ranks, the one above those of the ranks.
        ranks: which ranks' tensors it has: ``all``, a number, or nothing where there are no ranks.
        joined: of a run over all ranks: where its parts are.
    """

    def __init__(
        self, number: int, path: Path, ranks: str = "", joined: RankRun | None = None
    ) -> None:
        self.number = number
        self.path = path
        self.ranks = ranks
        self.joined = joined
        self._summary = _Job(self, reads_values=False)
        self._health = _Job(self, reads_values=True)

    @property
    def label(self) -> str:
        """The number as lists and titles show it."""
        return f"[{self.number}]"

    @property
    def jobs(self) -> tuple[_Job, _Job]:
        """What is to be done for it, the quick part first."""
        return self._summary, self._health


@dataclass(frozen=True)
class RunFacts:
    """One run in short.

    Attributes:
        time: when its first tensor was dumped, seconds since the epoch; 0 where nothing tells.
        call_count: 1 for the first run of its session, 0 where unknown.
        fetches: names of the fetches, or the sentence that stands for them.
        feeds: names of the feeds.
        engine: name of the engine, empty if unknown.
        error: what the run raised.
        tensors: how many were dumped.
        bad: how many of them hold a nan or an infinity; ``None``: not counted yet.
        unreadable: how many of them can't be read, as far as they were counted.
        is_profile: whether the run was timed and holds no tensors.
        is_lost: whether it can't be opened at all; ``damage`` says why.
        damage: one line for each part that is missing or damaged.
    """

    time: float = 0.0
    call_count: int = 0
    fetches: tuple[str, ...] = ()
    feeds: tuple[str, ...] = ()
    engine: str = ""
    error: RunError | None = None
    tensors: int = 0
    bad: int | None = None
    unreadable: int = 0
    is_profile: bool = False
    is_lost: bool = False
    damage: tuple[str, ...] = ()


class Survey:
    """The runs of a folder, and what is known of them.

    Args:
        paths: their folders, in time order.
        validate: as for `open_dump`.

    Attributes:
        runs: in time order.
        current: the number of the one that is open.
        root: the folder that they are in.
    """

    def __init__(self, paths: Sequence[Path], *, validate: bool = True) -> None:
        self.runs = [SurveyedRun(number, path) for number, path in enumerate(paths)]
        self.current = len(self.runs) - 1
        self._validate = validate
        self.root = paths[0] if len(paths) == 1 else paths[0].parent if paths else Path()
        self._known: dict[int, RunFacts] = {}

    @classmethod
    def of_ranks(cls, root: Path, found: Sequence[RankRun], *, validate: bool = True) -> Survey:
        """The runs of several ranks: each as a whole, and then by rank.

        Args:
            root: the folder above those of the ranks.
            found: the runs.
            validate: as for `open_dump`.
        """
        survey = cls([], validate=validate)
        survey.root = root
        runs = survey.runs
        for run in found:
            runs.append(SurveyedRun(len(runs), root / run.name, "all", run))
            for rank, folder in run.folders.items():
                runs.append(SurveyedRun(len(runs), folder, str(rank)))
        survey.current = max((run.number for run in runs if run.joined is not None), default=0)
        return survey

    @property
    def has_ranks(self) -> bool:
        """Whether the runs are those of several ranks."""
        return any(run.ranks for run in self.runs)

    def like_current(self) -> list[SurveyedRun]:
        """The runs of the ranks whose run is open: what next and prev go through."""
        ranks = self.runs[self.current].ranks
        return [run for run in self.runs if run.ranks == ranks]

    def open(self, run: SurveyedRun) -> Dump:
        """Open a run.

        Raises:
            UserError: it can't be opened.
        """
        if run.joined is not None:
            return open_ranks(run.joined, validate=self._validate)
        return open_dump(run.path, validate=self._validate)

    def peek(self, run: SurveyedRun) -> RunFacts | None:
        """What is known of a run; nothing is read."""
        return self._known.get(run.number)

    def facts(self, run: SurveyedRun) -> RunFacts:
        """All of a run; its values are read where the dump itself doesn't say how they are."""
        return self.measure(run.jobs[1], lambda: None)

    def measure(self, job: _Job, check: Callable[[], object], /) -> RunFacts:
        """Do a job, if it isn't done.

        Args:
            job: one of a run's.
            check: called between tensors; what it raises ends the job.
        """
        number = job.run.number
        known = self._known.get(number)
        if known is None or (job.reads_values and known.bad is None):
            check()
            self._known[number] = known = self._read(job, check)
        return known

    def _read(self, job: _Job, check: Callable[[], object]) -> RunFacts:
        try:
            dump = self.open(job.run)
        except UserError as error:
            return RunFacts(bad=0, is_lost=True, damage=(error.message,), time=_file_time(job.run))
        try:
            return _summarize(job, dump, check)
        except Exception as error:
            text = error.message if isinstance(error, UserError) else one_line(error)
            return RunFacts(bad=0, damage=(text,), time=_file_time(job.run))
        finally:
            dump.close()


def _summarize(job: _Job, dump: Dump, check: Callable[[], object]) -> RunFacts:
    data = dump.data()
    bad: int | None = None
    unreadable = 0
    if job.reads_values or isinstance(dump, RunFolderDump):
        bad, unreadable = _count_bad(dump, data, job.reads_values, check)
    info = dump.run_info()
    started = dump.t0()
    return RunFacts(
        time=started / 1e6 if started >= _EARLIEST else _file_time(job.run),
        call_count=info.call_count if info else 0,
        fetches=((info.runner,) if info.runner else tuple(info.fetches)) if info else (),
        feeds=tuple(info.feeds) if info else (),
        engine=info.engine if info else "",
        error=info.error if info else None,
        tensors=len(data),
        bad=bad,
        unreadable=unreadable,
        is_profile=is_profile_only(dump),
        damage=tuple(dump.warnings),
    )


def _count_bad(
    dump: Dump, data: Sequence[Datum], reads_values: bool, check: Callable[[], object]
) -> tuple[int | None, int]:
    """How many tensors are bad, and how many can't be read.

    The first is ``None`` where the dump doesn't say and nothing may be read.
    """
    measurements = Measurements.of(dump)
    bad = unreadable = 0

    def checked() -> Iterator[Datum]:
        for datum in data:
            if not datum.is_view:
                check()
                yield datum

    for datum in dump.maybe_nonfinite(checked()) if reads_values else checked():
        known = measurements.peek(datum, numbers=False)
        if known is not None:
            bad += known.health is not None and known.health.bad > 0
        elif not reads_values:
            return None, 0
        else:
            try:
                bad += has_nonfinite(datum.get_tensor())
            except Exception:
                unreadable += 1
    return bad, unreadable


def _file_time(run: SurveyedRun) -> float:
    try:
        return os.stat(run.path).st_mtime
    except OSError:
        return 0.0
