"""What a debugger asks that is one of several, one for each rank of a distributed program.

One rank leads: it has the UI, or takes the commands of a batch. The others follow: where it stops
they stop, what it chooses they do.

How they talk. The leader listens on a socket, whose address and token it leaves in the store that
the framework's ranks have met at (`tfdbg_cli.engines.base.Meeting`); the followers connect once.
Sockets and not the store itself, because

- a rank that waits for the leader sleeps in a read of its own connection. The store's is shared
  with the framework, which a wait would block, and asking it again and again is work;
- the end of a process closes its connections: nobody waits for the dead, and nobody needs
  timeouts to find that out;
- it goes on when the program destroys its process group.

What they say. A run that is debugged is known by its kind and its number among these (`training
run 7`): what one rank does alone, an evaluation say, makes no others wait. Each says at the
beginning that it is in the run, and at the end whether a tensor passed; the leader answers whether
all stop. That is one small exchange a run. One that is known to be in the same run is waited for
for a minute, one that isn't for a few seconds: it may be in a collective, and wait for whoever
waits for it. A rank that can't give what it is asked for says so. Only while a person looks the
others wait without an end.

A thread of each rank (`tfdbg_cli.sessions.ranks.hanging`) looks whether a run takes very long, and
says where the program is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tfdbg_cli.dumps.dump import Dump, RunError
from tfdbg_cli.engines.base import Adapter

__all__ = ["Agreement", "RankPlace", "SingleRank", "Verdict", "find_place"]

# Rank and number of processes, as launchers tell them, and what must be there besides.
_LAUNCHERS = (
    ("RANK", "WORLD_SIZE", ""),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", ""),
    ("PMI_RANK", "PMI_SIZE", ""),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_ID"),  # the step: not in a script of sbatch
)


@dataclass(frozen=True)
class RankPlace:
    """Which of the processes of a program this is.

    Attributes:
        rank: from 0.
        size: how many there are, 2 or more.
        leader: the rank that the person or the batch is at.
    """

    rank: int
    size: int
    leader: int = 0

    @property
    def leads(self) -> bool:
        """Whether this one is the leader."""
        return self.rank == self.leader


def find_place(environment: Mapping[str, str] | None = None, leader: int = 0) -> RankPlace | None:
    """The place that a launcher (torchrun, mpirun, srun) or ``TF_CONFIG`` gives this process.

    Args:
        environment: default: that of the process.
        leader: the rank that is to lead.

    Returns:
        ``None``: no launcher has said anything, or there is only one process.
    """
    found = os.environ if environment is None else environment
    for rank, size, besides in _LAUNCHERS:
        values = found.get(rank, ""), found.get(size, "")
        are_numbers = all(value.isdecimal() and len(value) < 10 for value in values)
        if are_numbers and (not besides or besides in found):
            place = RankPlace(int(values[0]), int(values[1]), leader)
            return place if place.size > 1 and place.rank < place.size else None
    return _place_in_cluster(found.get("TF_CONFIG", ""), leader)


def _place_in_cluster(text: str, leader: int) -> RankPlace | None:
    """The place of one of TensorFlow's workers, which compute together; the chief is the first."""
    try:
        config = json.loads(text)
        jobs, task = config["cluster"], config["task"]
        chiefs, workers = len(jobs.get("chief", ())), len(jobs.get("worker", ()))
        rank = int(task["index"]) + (chiefs if task["type"] == "worker" else 0)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    if "ps" in jobs or task["type"] not in ("chief", "worker") or not rank < chiefs + workers > 1:
        return None
    return RankPlace(rank, chiefs + workers, leader)


@dataclass(frozen=True)
class Verdict:
    """What a rank says at the end of a debugged run.

    Attributes:
        stops: for its part it stops here.
        passes: a tensor passed the filter of ``run -f``.
        error: what its part of the run raised.
    """

    stops: bool
    passes: bool = False
    error: RunError | None = None


@dataclass
class Agreement:
    """What all do at the end of a run.

    Attributes:
        stops: they stop.
        passing: the ranks on which a tensor passed the filter.
        errors: rank -> what it raised.
        missing: rank -> why nothing is known of its part.
    """

    stops: bool
    passing: list[int] = field(default_factory=list)
    errors: dict[int, RunError] = field(default_factory=dict)
    missing: dict[int, str] = field(default_factory=dict)

    def describe(self, first: int | None = None) -> str:
        """Why they stop, for a title: ``on rank 1: ``; empty where there is nothing to tell.

        Args:
            first: the rank on which it began, where that is known.
        """
        ranks = sorted(self.errors) or self.passing
        if not ranks:
            return ""
        text = f"on rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"
        if first in ranks and len(ranks) > 1:
            text += f", first on {first}"
        return f"{text}: "


class SingleRank:
    """The debugger of a program of one process: nobody to ask. Others do as this class says."""

    @property
    def is_silent(self) -> bool:
        """Whether this process has no UI of its own: it is a follower, or is going to be."""
        return False

    @property
    def is_joined(self) -> bool:
        """Whether others follow, or are followed."""
        return False

    def meet(self, adapter: Adapter) -> None:
        """Find the other ranks, if they can be found by now."""

    def run_started(self, kind: str) -> str:
        """A run begins; the name that it has among the ranks."""
        return kind

    def opened(self, run: str) -> None:
        """It is going to be debugged."""

    def news(self) -> bool:
        """Whether the leader has stopped or chosen since; never waits."""
        return False

    def may_stop(self) -> bool:
        """Whether a stop at the beginning of a run can be had; waits a little for the leader."""
        return True

    def agree(self, run: str, verdict: Verdict) -> Agreement:
        """Say what came of a debugged run, and hear what all do."""
        return Agreement(verdict.stops)

    def share(self, run: str, dump: Dump | None, agreed: Agreement) -> Dump | None:
        """Show the others this rank's part of a run at whose end all stop.

        Returns:
            The dump to look at: for the leader, that of all ranks.
        """
        return dump

    def give_up(self, reason: str) -> None:
        """This process isn't debugged any more: nobody is to wait for it."""

    def details(self) -> list[tuple[str, str]]:
        """What there is to say of where this process runs."""
        return []

    def stopping(self) -> None:
        """A stop begins that somebody is asked at."""

    def chosen(self, action: Any) -> None:
        """It is over, with this choice."""

    def follow(self) -> Any:
        """Wait, asleep, for what the leader chooses at its stop."""
        raise NotImplementedError

    def leave(self, outcome: str = "") -> None:
        """The program is at its end.

        Args:
            outcome: the error that it ends with; empty: none.
        """
