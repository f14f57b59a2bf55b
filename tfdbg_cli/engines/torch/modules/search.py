"""In which call of a module something bad began: calls are made once more until one shows it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import torch

from tfdbg_cli.engines.torch.modules.calls import InnerCall, ModuleCall
from tfdbg_cli.engines.torch.modules.checks import (
    GRADIENT,
    NODE,
    OUTPUT,
    PARAMETER,
    WEIGHT,
    Event,
    Found,
    Words,
)
from tfdbg_cli.engines.torch.modules.replay import Replay, Replayer, ReplayRefusal

__all__ = ["Search"]

# Calls that are made once more for one run.
_MOST_AGAIN = 8


class Search:
    """Looks into the calls of one run.

    Args:
        calls: of modules, in the order in which they began; grows.
        replayer: makes them once more.
        words: for what could not be made.

    Attributes:
        replays: calls that were made once more.
        refusals: why others were not: a module and a clause.
        unread: bad parameters that no call has read.
    """

    def __init__(self, calls: Sequence[ModuleCall], replayer: Replayer, words: Words) -> None:
        self.replays: list[Replay] = []
        self.refusals: list[str] = []
        self.unread: set[Event] = set()
        self._calls = calls
        self._replayer = replayer
        self._words = words

    def look(self, found: Sequence[Found]) -> None:
        """Make calls once more until one shows what the filter is about.

        Args:
            found: what is bad, in the order of time.
        """
        tried: set[int] = set()
        unknown: set[int] = set()  # what may have come from where nobody could look
        for event, _ in found:
            made_of = event.thing.call.sources if event.kind == OUTPUT else []
            if unknown and (event.kind != OUTPUT or any(id(each) in unknown for each in made_of)):
                unknown.add(id(event.thing))
                continue
            if event.kind == NODE and not event.thing.calls:
                return  # this is where it began
            refusals, is_read = [], event.kind != WEIGHT
            came_in: Replay | None = None
            candidates = self._candidates(event)
            for call in candidates:
                if id(call) in tried or len(tried) >= _MOST_AGAIN:
                    is_read = is_read or any(call is each.call for each in self.replays)
                    continue
                tried.add(id(call))
                try:
                    backward = event.time if event.kind not in (OUTPUT, WEIGHT) else None
                    replay = self._replayer.again(call, backward)
                    if not replay.is_bad and event.kind == WEIGHT:
                        tried.discard(id(call))
                        continue  # nothing has read it
                    if not replay.is_bad:
                        raise ReplayRefusal("the replay was clean", self._chain_of(event))
                    if replay.came_in:  # it began in what led to it
                        came_in = replay
                        continue
                except ReplayRefusal as refusal:
                    label = self._words.label([*call.chain, *refusal.modules])
                    refusals.append(f"{label}: {refusal}")
                    continue
                is_read = True
                self.replays.append(replay)
                refusals, came_in = [], None
                if replay.passed:
                    return
                break
            if event.kind == GRADIENT and not candidates:
                refusals.append("the backward pass of what is outside of modules")
            if not is_read and not refusals:
                self.unread.add(event)
            self.refusals += refusals[:1]
            if came_in is not None:  # whether what it got was read, and where it went
                self.replays.append(came_in)
            if refusals or came_in is not None:
                unknown.add(id(event.thing))

    def look_on(self) -> None:
        """Make the other outermost calls once more: remedies are tried through all of a run."""
        known = {id(each.call) for each in self.replays}
        known |= {id(each.call.parent) for each in self.replays if each.call.parent is not None}
        for call in self._calls:
            if len(self.replays) >= _MOST_AGAIN:
                return
            if call.parent is None and id(call) not in known:
                with contextlib.suppress(ReplayRefusal):
                    replay = self._replayer.again(call)
                    if not replay.differs:
                        self.replays.append(replay)

    def _chain_of(self, event: Event) -> Sequence[torch.nn.Module]:
        return event.thing.chain if isinstance(event.thing, InnerCall) else ()

    def _candidates(self, event: Event) -> list[ModuleCall]:
        """The calls in which something bad may have begun, innermost first."""
        kind, thing = event.kind, event.thing
        if kind == OUTPUT or isinstance(thing, InnerCall):
            found = [thing.call]
        elif kind == GRADIENT:
            found = [call for call in self._calls if thing in call.sources]
        elif kind == NODE:  # what calls have handed to it
            found = list(thing.calls)
        elif kind in (PARAMETER, WEIGHT):
            found = [
                call
                for call in (reversed(self._calls) if kind == PARAMETER else self._calls)
                if any(each is thing for each in call.parameters)
            ]
        else:
            found = []
        around = [call.parent for call in found if call.parent is not None]
        return list(dict.fromkeys([*found, *around]))
