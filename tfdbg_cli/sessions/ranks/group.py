"""The debugger of one rank among the others: alone until they have met, then leader or follower."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tfdbg_cli.commands.run.choices import ExitChoice
from tfdbg_cli.common.errors import UserError, one_line
from tfdbg_cli.common.settings import Settings, all_fields
from tfdbg_cli.common.streams import tell
from tfdbg_cli.dumps.dump import Dump
from tfdbg_cli.engines.base import Adapter, Meeting, MeetsRanks
from tfdbg_cli.net.wire import LostError
from tfdbg_cli.sessions.ranks.follower import Follower
from tfdbg_cli.sessions.ranks.hanging import RankWatch
from tfdbg_cli.sessions.ranks.interface import Agreement, RankPlace, SingleRank, Verdict
from tfdbg_cli.sessions.ranks.leader import ADDRESS, NOWHERE, Leader

if TYPE_CHECKING:
    from tfdbg_cli.sessions.debugger.storage import DumpStore

__all__ = ["RankGroup"]

# A follower looks so often for a leader that has not come yet; first it waits so long.
_PERIOD = 1.0
_FIRST_PATIENCE = 30.0
_PAUSE = 0.05


class RankGroup(SingleRank):
    """What `SingleRank` says, for a process that is one of several.

    Args:
        place: which one.
        store: where its dumps go.
        settings: the leader's hold for all.
        note: shows a line at the next stop.
        hurries: whether the person has asked not to wait any longer.
    """

    def __init__(
        self,
        place: RankPlace,
        store: DumpStore,
        settings: Settings,
        note: Callable[[str], None],
        hurries: Callable[[], bool],
    ) -> None:
        self.place = place
        self._store = store
        self._settings = settings
        self._note = note
        self._hurries = hurries
        self._meeting: Meeting | None = None
        self._leader: Leader | None = None
        self._follower: Follower | None = None
        self._last: Any = None  # what was chosen before the ranks had met
        self._counts: dict[str, int] = {}
        self._next_look = 0.0
        self._has_waited = False
        self._is_hopeless = False
        self._watch: RankWatch | None = None
        self._is_agreeing = self._is_writing = False

    @property
    def is_silent(self) -> bool:
        """Whether this one follows, now or later."""
        return not self.place.leads

    @property
    def is_joined(self) -> bool:
        """Whether it has met the others."""
        return self._leader is not None or self._follower is not None

    def meet(self, adapter: Adapter) -> None:
        """Find the others, once the framework has. A follower waits for the leader once."""
        if self.is_joined or self._is_hopeless:
            return
        if self._meeting is None:
            self._meeting = adapter.meeting() if isinstance(adapter, MeetsRanks) else None
            if self._meeting is None:
                return
            self._check(self._meeting)
        if self.place.leads:
            self._lead(self._meeting)
        else:
            self._find_leader(self._meeting)
        if self.is_joined:
            try:
                self._watch = RankWatch(self._patience, self._is_long, self._tick)
            except OSError as error:
                tell(f"long runs can't be reported: {one_line(error)}.")

    # Runs that take long; all on the thread of the watch.

    def _patience(self) -> float:
        return float(self._settings.get("rank_patience"))

    def _is_long(self, run: str) -> None:
        if self._is_agreeing:
            place = "at its end"
        else:
            place = self._meeting.where() if self._meeting is not None else ""
        if self._leader is not None:
            self._leader.is_long(run, place or "in it, at an unknown place")
        elif self._follower is not None:
            self._follower.tell_place(run, place or "in it, at an unknown place")

    def _tick(self) -> None:
        if self._leader is not None:
            self._leader.tick()
        elif self._follower is not None and self._is_writing:
            self._follower.tell_alive()

    def _check(self, meeting: Meeting) -> None:
        """The framework knows better than the launcher's environment."""
        if (meeting.rank, meeting.size) != (self.place.rank, self.place.size):
            self.place = RankPlace(meeting.rank, meeting.size, self.place.leader)

    def _lead(self, meeting: Meeting) -> None:
        local = os.environ.get("LOCAL_WORLD_SIZE", "")
        try:
            self._leader = Leader(
                meeting, local == str(meeting.size), self._note, tell, self._hurries
            )
            if self._last is not None:
                self.chosen(self._last)
        except OSError as error:
            self._is_hopeless = True
            meeting.put(ADDRESS, NOWHERE)
            tell(f"the ranks can't be joined, this one is debugged alone: {one_line(error)}.")

    def _find_leader(self, meeting: Meeting) -> None:
        now = time.monotonic()
        if now < self._next_look:
            return
        until = now + (0 if self._has_waited else _FIRST_PATIENCE)
        self._has_waited = True
        problem = self._connect(meeting)
        while problem is not None and time.monotonic() < until:
            time.sleep(_PAUSE)
            problem = self._connect(meeting)
        self._next_look = time.monotonic() + _PERIOD
        if problem:
            self._is_hopeless = True
            tell(
                f"rank {meeting.rank} can't reach rank {self.place.leader}, "
                f"its runs go undebugged: {problem}."
            )

    def _connect(self, meeting: Meeting) -> str | None:
        """Why the leader can't be reached; empty: it isn't there yet; ``None``: that is settled."""
        address = meeting.look(ADDRESS)
        if address is None:
            return ""
        if address == NOWHERE:  # it has said why
            self._is_hopeless = True
            return None
        try:
            self._follower = Follower(meeting.rank, address)
        except (OSError, UserError, LostError, ValueError, KeyError, TypeError) as error:
            return one_line(error)  # it may be too busy to answer in time
        return None

    # Runs.

    def run_started(self, kind: str) -> str:
        """Kind and number: what a run is called by all."""
        self._counts[kind] = self._counts.get(kind, 0) + 1
        return f"{kind} {self._counts[kind]}"

    def opened(self, run: str) -> None:
        """Tell the others."""
        if self._watch is not None:
            self._watch.begin(run)
        if self._leader is not None:
            self._leader.opened(run)
        elif self._follower is not None:
            self._follower.opened(run)

    def news(self) -> bool:
        """Whether the leader wants something."""
        return self._follower is not None and self._follower.news()

    def may_stop(self) -> bool:
        """A follower stops where the leader does; before they have met, nowhere."""
        if self.place.leads:
            return True
        return self._follower is not None and self._follower.may_stop()

    def agree(self, run: str, verdict: Verdict) -> Agreement:
        """One exchange with the others."""
        self._is_agreeing = True
        try:
            return self._agree(run, verdict)
        finally:
            self._is_agreeing = False
            if self._watch is not None:
                self._watch.end()

    def _agree(self, run: str, verdict: Verdict) -> Agreement:
        if self._leader is not None:
            return self._leader.agree(run, verdict, self._store)
        if self._follower is not None:
            answer = self._follower.agree(run, verdict)
            if answer is None:
                return Agreement(verdict.error is not None and self._follower.is_led)
            if answer.get("stops"):
                self._store.use_root(str(answer.get("root", "")))
                self._store.number = int(answer.get("number", 0))
            return Agreement(bool(answer.get("stops")))
        return Agreement(verdict.stops and not self.is_silent)

    def share(self, run: str, dump: Dump | None, agreed: Agreement) -> Dump | None:
        """A follower writes its dump, the leader reads those of all."""
        if self._leader is not None:
            return self._leader.collect(run, dump, agreed)
        if self._follower is not None:
            path, text = "", "has no tensors: this rank has looked at less"
            self._is_writing = True
            try:
                if dump is not None:
                    path, text = str(self._store.on_disk(dump)), ""
            except Exception as error:  # whatever it is, the leader waits
                text = f"could not be written: {one_line(error)}"
            finally:
                self._is_writing = False
            self._follower.tell_dump(run, path, text)
        return dump

    def details(self) -> list[tuple[str, str]]:
        """What a dump of this rank says of where it was made."""
        return [
            ("Rank", f"{self.place.rank} of {self.place.size}"),
            ("Host", socket.gethostname()),
        ]

    # Stops.

    def stopping(self) -> None:
        """Followers at the same stop wait."""
        if self._leader is not None:
            self._leader.stopping()

    def chosen(self, action: Any) -> None:
        """Followers do the same."""
        if self._leader is not None:
            values = {field.name: self._settings.get(field.name) for field in all_fields()}
            self._leader.chosen(action, values)
        else:
            self._last = action

    def follow(self) -> Any:
        """As the leader chooses; without one, on without stops."""
        if self._follower is None:
            return ExitChoice()
        action = self._follower.follow()
        known = {field.name for field in all_fields()}
        for name, value in self._follower.settings.items():
            if name in known and self._settings.get(name) != value:
                self._settings.override(name, value)
        return action

    def give_up(self, reason: str) -> None:
        """Whoever waits for this rank is told, or goes on as after ``exit``."""
        self._is_hopeless = True
        self._let_go(f"is not debugged any more: {reason}")

    def leave(self, outcome: str = "") -> None:
        """Let the others know, and let go of those who wait for this rank."""
        if self._follower is not None and outcome:
            self._follower.linger()
        self._let_go(f"has ended with {outcome}" if outcome else "")

    def _let_go(self, farewell: str) -> None:
        if self._watch is not None:
            self._watch.close()
        if self._follower is not None:
            self._follower.leave(farewell)
        if self._leader is not None:
            self._leader.leave()
        self._watch = self._follower = self._leader = None
