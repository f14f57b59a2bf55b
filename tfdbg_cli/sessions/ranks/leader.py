"""The leader's side: followers connect to it, and it decides for all of them."""

from __future__ import annotations

import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.dumps.dump import Dump, RunError
from tfdbg_cli.dumps.joined import JoinedDump
from tfdbg_cli.dumps.open import open_dump
from tfdbg_cli.engines.base import Meeting
from tfdbg_cli.net.address import BACKLOG, lifted
from tfdbg_cli.net.door import Door
from tfdbg_cli.net.wire import LostError
from tfdbg_cli.sessions.debugger.storage import DumpStore
from tfdbg_cli.sessions.ranks.interface import Agreement, Verdict
from tfdbg_cli.sessions.ranks.messages import RankLink, addresses, message_of, verdict_of

__all__ = ["ADDRESS", "NOWHERE", "Leader"]

#: Under this name the leader leaves its address at the meeting.
ADDRESS = "leader"
#: What it leaves there if it can't be reached.
NOWHERE = "nowhere"

# How long a rank is waited for that isn't known to be in the same run.
_PATIENCE = 5.0
# The same after an error: the others hang in a collective, or fail within moments.
_SHORT_PATIENCE = 1.0
# A Ctrl-C from before the end of the run asks for that end, with all ranks: one that is a little
# late is waited for, and one that writes its dump.
_DUMP_PATIENCE = 30.0
# How long it is waited for in any case: it may wait for this rank, in a collective.
LONGEST_WAIT = 60.0
# Reports of where ranks are come in for so long before they are told, in one line.
_GATHERING = 1.5
_GONE = "is gone"
# Whoever waits is told after so many seconds what for.
_SILENCE = 2.0


class _Follower:
    """What the leader knows of one of them.

    Attributes:
        link: the connection; ``None`` once it is gone.
        run: the debugged run that it said it is in.
        verdicts: what it said at the end of its last runs.
        dumps: where it put its part of a run, or why it didn't.
        apart: kinds of runs that it doesn't have in common with the leader.
        farewell: how it ended.
        place: the run that it was in for long, and where.
        heard: when it last said anything.
    """

    def __init__(self, link: RankLink, host: str) -> None:
        self.link: RankLink | None = link
        self.host = host
        self.run = ""
        self.verdicts: dict[str, Verdict] = {}
        self.dumps: dict[str, dict[str, Any]] = {}
        self.apart: set[str] = set()
        self.farewell = ""
        self.place = ("", "")
        self.heard = time.monotonic()


class Leader:
    """Knows what the other ranks do, and tells them what to do.

    Args:
        meeting: where the ranks have met.
        is_local: all of them are on this machine.
        note: shows a line at the next stop.
        say: prints one at once.
        hurries: whether the person has asked not to wait any longer.

    Raises:
        OSError: it can't listen.
    """

    def __init__(
        self,
        meeting: Meeting,
        is_local: bool,
        note: Callable[[str], None],
        say: Callable[[str], None],
        hurries: Callable[[], bool],
    ) -> None:
        self.rank, self.size = meeting.rank, meeting.size
        self._note, self._say, self._hurries = note, say, hurries
        self._changed = threading.Condition()
        self._followers: dict[int, _Follower] = {}
        self._unheard: set[int] = set()  # ranks that were waited for and never came
        self._state: dict[str, Any] = {"is": "state", "number": 0, "stopped": False, "action": None}
        self._run = ""
        self._token = secrets.token_hex(16)
        listening = lifted(
            socket.create_server(
                ("127.0.0.1" if is_local else "", 0), backlog=max(BACKLOG, self.size)
            )
        )
        self._door = Door(listening, self._token, self._serve)
        self._is_over = False
        self._place = ("", "")
        self._long: tuple[str, float] = ("", 0.0)  # a run to tell of, and since when
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._abandon)
        try:
            self._door.open()
        except OSError:
            self._door.close()
            raise
        place = {
            "hosts": addresses(is_local),
            "port": listening.getsockname()[1],
            "token": self._token,
        }
        meeting.put(ADDRESS, json.dumps(place))

    # Threads: a door that lets followers in, and one for each of them.

    def _serve(self, connected: socket.socket) -> None:
        link = RankLink(connected)
        hello = link.receive(_PATIENCE)
        rank = hello.get("rank") if hello is not None else None
        if hello is None or type(rank) is not int:
            link.close()
            return
        follower = _Follower(link, str(hello.get("host", "")))
        with self._changed:
            if self._is_over:  # it came while this rank was about to leave
                link.send(**{"is": "bye"})
                link.close()
                return
            self._followers[rank] = follower
            link.send(**self._state)
            link.send(**{"is": "open", "run": self._run})
            self._changed.notify_all()
        try:
            while (message := link.receive()) is not None:
                self._take(rank, follower, message)
        except LostError:
            pass
        link.close()
        if not follower.farewell and not self._is_over:
            follower.farewell = _GONE
            # Before anybody who waits for it goes on to a stop, which is to show it.
            self._tell(
                f"Rank {rank} is gone: its process has ended unexpectedly, or the connection to it."
            )
        with self._changed:
            follower.link = None
            self._changed.notify_all()

    def _take(self, rank: int, follower: _Follower, message: dict[str, Any]) -> None:
        kind, run = message.get("is"), str(message.get("run", ""))
        verdict = verdict_of(message)
        follower.heard = time.monotonic()
        if kind == "place":
            follower.place = (run, str(message.get("text", "")))
            self.is_long(run)
        if kind == "end":
            self._tell_error(rank, run, verdict.error)  # before the stop that it leads to
        with self._changed:
            if kind == "open":
                follower.run = run
                follower.apart.discard(run.rpartition(" ")[0])
                # What was before is of no interest any more.
                follower.verdicts.clear()
                follower.dumps.clear()
            elif kind == "end":
                follower.verdicts[run] = verdict
            elif kind == "dump":
                follower.dumps[run] = message
            elif kind == "bye":
                follower.farewell = str(message.get("text", "")) or "has ended"
            self._changed.notify_all()
        if kind == "bye" and message.get("text"):
            self._tell(f"Rank {rank} {follower.farewell}.")

    def _tell_error(self, rank: int, run: str, error: RunError | None) -> None:
        if error is None:
            return
        where = f" in {error.op_name}" if error.op_name else ""
        text = " ".join(error.message.split())[:300]
        self._tell(
            f"Rank {rank} failed in {run}{where}: {error.type_name}: {text} "
            "(ranks that wait for it in a collective go on waiting until it ends)"
        )

    def _tell(self, text: str) -> None:
        """Say it now, as nobody knows whether there will be another stop, and at the next one."""
        if not self._state["stopped"]:
            self._say(text)
        self._note(text)

    # What the leader's own runs need.

    def opened(self, run: str) -> None:
        """This rank is in a debugged run."""
        self._run = run
        self._broadcast({"is": "open", "run": run})

    def agree(self, run: str, verdict: Verdict, store: DumpStore) -> Agreement:
        """Hear the others and decide.

        Args:
            run: which run.
            verdict: of this rank.
            store: where this rank puts its own part of the run.
        """
        agreed = Agreement(verdict.stops)
        if verdict.passes:
            agreed.passing.append(self.rank)
        if verdict.error is not None:
            agreed.errors[self.rank] = verdict.error
        patience = _PATIENCE if verdict.error is None else _SHORT_PATIENCE
        for rank in range(self.size):
            if rank != self.rank:
                self._hear(rank, run, patience, agreed, is_failed=verdict.error is not None)
        self._run = ""
        if self._hurries():
            agreed.stops = True
        agreed.passing.sort()
        answer = {"is": "verdict", "run": run, "stops": agreed.stops}
        if agreed.stops:
            answer |= {"root": str(store.shared_root()), "number": store.number}
        self._broadcast(answer)
        return agreed

    def _hear(
        self, rank: int, run: str, patience: float, agreed: Agreement, *, is_failed: bool
    ) -> None:
        """Wait for what a rank says of a run."""
        kind = run.rpartition(" ")[0]
        began = time.monotonic()
        has_said = False
        hurried_patience = _PATIENCE if self._hurries() else _SHORT_PATIENCE
        with self._changed:
            while True:
                follower = self._followers.get(rank)
                waited = time.monotonic() - began
                if follower is not None and run in follower.verdicts:
                    theirs = follower.verdicts[run]
                    agreed.stops = agreed.stops or theirs.stops
                    if theirs.passes:
                        agreed.passing.append(rank)
                    if theirs.error is not None:
                        agreed.errors[rank] = theirs.error
                        agreed.stops = True
                    return
                if follower is None or follower.link is None:
                    if follower is not None:
                        agreed.missing[rank] = follower.farewell or _GONE
                        return
                    if rank in self._unheard or waited > patience:
                        self._unheard.add(rank)
                        agreed.missing[rank] = "was not heard of"
                        return
                elif follower.run == run and not is_failed:
                    if waited > _SILENCE and not has_said:
                        has_said = True
                        self._say(
                            f"waiting for rank {rank}, which is still in {run}{self._way_out()}."
                        )
                    is_enough = self._hurries() and waited > hurried_patience
                    if is_enough or waited > LONGEST_WAIT:
                        agreed.missing[rank] = f"is still in {run}"
                        return
                elif _is_later(follower.run, run):
                    agreed.missing[rank] = f"was not asked to debug {run}"
                    return
                elif kind in follower.apart or waited > patience:
                    if follower.run == run:
                        agreed.missing[rank] = f"is still in {run}, probably in a collective"
                    else:
                        follower.apart.add(kind)
                        agreed.missing[rank] = f"has no {run}"
                    return
                self._changed.wait(0.1)

    def collect(self, run: str, own: Dump | None, agreed: Agreement) -> Dump | None:
        """The dump of all ranks, as far as it can be had; this rank's own where there is no other.

        Raises:
            Nothing: what is missing becomes a warning of the dump.
        """
        parts: dict[int, Dump] = {}
        problems = [f"Rank {rank} {why}." for rank, why in sorted(agreed.missing.items())]
        if own is not None:
            parts[self.rank] = own
        else:
            problems.append(f"Rank {self.rank} has kept no tensors of this run.")
        for rank in range(self.size):
            if rank == self.rank or rank in agreed.missing:
                continue
            message = self._dump_of(rank, run)
            path, text = message.get("path"), str(message.get("text", ""))
            if isinstance(path, str):
                try:
                    parts[rank] = open_dump(path)
                except (UserError, OSError):
                    host = self._followers[rank].host
                    text = (
                        f"can't be read here: it lies in {path} on {host}. "
                        "Name a folder that all machines share with --dump-root"
                    )
            if rank not in parts:
                problems.append(f"The dump of rank {rank} {text or 'is missing'}.")
        if not parts:
            return own
        dump = JoinedDump(parts, self.rank)
        dump.warnings[:0] = problems
        return dump

    def _dump_of(self, rank: int, run: str) -> dict[str, Any]:
        began = time.monotonic()
        has_said = False
        hurried_patience = _DUMP_PATIENCE if self._hurries() else _SILENCE
        with self._changed:
            while True:
                follower = self._followers[rank]
                if run in follower.dumps:
                    return follower.dumps[run]
                if follower.link is None:
                    return {"text": "was not written: the rank has ended"}
                waited = time.monotonic() - began
                if waited > _SILENCE and not has_said:
                    has_said = True
                    self._say(f"waiting for the dump of rank {rank}{self._way_out()}.")
                if self._hurries() and waited > hurried_patience:
                    return {"text": "was not waited for"}
                if time.monotonic() - max(began, follower.heard) > LONGEST_WAIT:
                    return {"text": f"has not come in {LONGEST_WAIT:.0f} seconds"}
                self._changed.wait(0.1)

    # Runs that take long.

    def is_long(self, run: str, place: str = "") -> None:
        """A rank has been in a run for long: tell where each is, when all had time to say it.

        Args:
            run: which one.
            place: where this rank is; empty: it was another that said so.
        """
        if place:
            self._place = (run, place)
        if self._long[0] != run:
            self._long = (run, time.monotonic())

    def tick(self) -> None:
        """Some time has passed."""
        run, since = self._long
        if run and since and time.monotonic() - since > _GATHERING:
            self._long = (run, 0.0)
            places = "; ".join(f"rank {rank} {self._whereabouts(rank, run)}" for rank in self._all)
            self._tell(f"{run} takes long: {places}.")

    @property
    def _all(self) -> range:
        return range(self.size)

    def _whereabouts(self, rank: int, run: str) -> str:
        follower = self._followers.get(rank)
        known, text = self._place if rank == self.rank else ("", "")
        if follower is not None:
            known, text = follower.place
            if run in follower.verdicts:
                return "is at its end"
            if follower.link is None:
                return follower.farewell or _GONE
        elif rank != self.rank:
            return "was not heard of"
        if known == run:
            return f"is {text}"
        current = self._run if rank == self.rank else follower.run if follower else ""
        return f"is in {current}, at an unknown place" if current == run else "is not in it"

    def _way_out(self) -> str:
        """What a Ctrl-C does for whoever waits; the second one would be the program's."""
        return "" if self._hurries() else "; Ctrl-C: not"

    def stopping(self) -> None:
        """Somebody is asked: whoever is at the same stop waits."""
        with self._changed:
            self._state = {**self._state, "number": self._state["number"] + 1, "stopped": True}
            state = self._state
        self._broadcast(state)

    def chosen(self, action: Any, settings: Mapping[str, Any]) -> None:
        """This is what all do.

        Args:
            action: the choice of the stop.
            settings: those of this rank, which hold for all.
        """
        with self._changed:
            number = self._state["number"] + (not self._state["stopped"])
            self._state = {
                "is": "state",
                "number": number,
                "stopped": False,
                "action": message_of(action),
                "settings": settings,
            }
            state = self._state
        self._broadcast(state)

    def _broadcast(self, message: dict[str, Any]) -> None:
        with self._changed:
            links = [each.link for each in self._followers.values() if each.link is not None]
        for link in links:
            link.send(**message)

    def leave(self) -> None:
        """This rank is at its end: nobody waits for it."""
        with self._changed:  # who isn't among them by now hears it when it comes in
            self._is_over = True
            followers = list(self._followers.values())
        self._door.close()
        for follower in followers:
            link = follower.link  # its thread lets go of it when the other one is gone
            if link is not None:
                link.send(**{"is": "bye"})
                link.close()

    def _abandon(self) -> None:
        """In a forked child: the connections are the parent's."""
        self._is_over = True
        self._door.abandon()
        for follower in self._followers.values():
            if follower.link is not None:
                follower.link.abandon()


def _is_later(run: str, than: str) -> bool:
    """Whether a rank that is in one run has done another one, without the debugger."""
    (kind, _, number), (wanted, _, limit) = run.rpartition(" "), than.rpartition(" ")
    return kind == wanted and number.isdecimal() and int(number) > int(limit)
