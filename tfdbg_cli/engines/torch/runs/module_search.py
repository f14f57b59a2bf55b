"""In which call of a module something bad began: calls are made once more until one shows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tfdbg_cli.engines.torch.names.scopes import Names
from tfdbg_cli.engines.torch.private import parameters_of
from tfdbg_cli.engines.torch.runs.module_calls import ModuleCall
from tfdbg_cli.engines.torch.runs.replay import Refused, Replay, Replayer

__all__ = [
    "GRADIENT",
    "INPUT",
    "NODE",
    "OUTPUT",
    "PARAMETER",
    "UPDATED",
    "Event",
    "Found",
    "Search",
    "Words",
]

# Calls that are made once more for one run.
_MOST_AGAIN = 8
_MOST_NAMED = 3


class Event(NamedTuple):
    """A tensor that is looked at.

    Attributes:
        kind: `INPUT` and so on.
        thing: the call, border, or parameter.
        time: when it was looked at, in nanoseconds of the performance counter.
    """

    kind: str
    thing: Any
    time: int


INPUT, OUTPUT, GRADIENT, NODE = "input", "output", "gradient", "node"
PARAMETER, UPDATED = "parameter", "updated"

#: An event that was bad, and the slot of its tensor.
Found = tuple[Event, int]


class Words:
    """What was bad, in words.

    Args:
        names: of modules and parameters.
    """

    def __init__(self, names: Names) -> None:
        self._names = names

    def summary(self, found: Sequence[Found]) -> str:
        """The first few in words."""
        texts = list(dict.fromkeys(self.describe(*item) for item in found))
        more = len(texts) - _MOST_NAMED
        return ", ".join(texts[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")

    def describe(self, event: Event, slot: int) -> str:
        """What was bad: the same in each run."""
        kind, thing = event.kind, event.thing
        if kind == INPUT:
            return f"input of {self.label(thing)}"
        if kind == OUTPUT:
            return f"output of {self.label(thing.call)}" + (f" ({slot})" if slot else "")
        if kind == NODE:
            return f"gradient of {thing.kind}"
        if kind == GRADIENT:
            return f"gradient of the output of {self.label(thing.call)}"
        leaf = self._names.tensor(thing)
        owner = leaf.name if leaf is not None else "a parameter"
        return f"{'gradient' if kind == PARAMETER else 'new value'} of {owner}"

    def label(self, call: ModuleCall) -> str:
        """A module by its path, or its class."""
        caller = None
        for each in call.chain:
            caller = self._names.module(each.module, None, caller)
        assert caller is not None
        return caller.path or caller.class_name


class Search:
    """Looks into the calls of one run.

    Args:
        calls: of modules, in the order in which they began; grows.
        replayer: makes them once more.
        words: for what could not be made.

    Attributes:
        replays: calls that were made once more.
        refusals: why others were not: a module and a clause.
    """

    def __init__(self, calls: Sequence[ModuleCall], replayer: Replayer, words: Words) -> None:
        self.replays: list[Replay] = []
        self.refusals: list[str] = []
        self._calls = calls
        self._replayer = replayer
        self._words = words

    def look(self, found: Sequence[Found]) -> None:
        """Make calls once more until one shows what the filter is about.

        Args:
            found: what is bad, in the order of time.
        """
        tried: set[tuple[int, bool]] = set()
        unknown: set[int] = set()  # what may have come from where nobody could look
        for event, _ in found:
            made_of = event.thing.call.sources if event.kind == OUTPUT else []
            if unknown and (event.kind != OUTPUT or any(id(each) in unknown for each in made_of)):
                unknown.add(id(event.thing))
                continue
            if event.kind == NODE:
                return  # this is where it began
            refusals, came_in = [], False
            candidates = self._candidates(event)
            for call, is_backward in candidates:
                if (id(call), is_backward) in tried or len(tried) >= _MOST_AGAIN:
                    continue
                tried.add((id(call), is_backward))
                try:
                    again = self._replayer.backward if is_backward else self._replayer.forward
                    replay = again(call)
                    if not replay.is_bad:
                        raise Refused("it was good the second time")
                    if replay.came_in:  # it began in what led to it
                        came_in = True
                        continue
                except Refused as refusal:
                    refusals.append(f"{self._words.label(call)}: {refusal}")
                    continue
                self.replays.append(replay)
                refusals, came_in = [], False
                if replay.passed:
                    return
                break
            if event.kind == GRADIENT and not candidates:
                refusals.append("the backward pass of what is outside of modules")
            self.refusals += refusals[:1]
            if refusals or came_in:
                unknown.add(id(event.thing))

    def _candidates(self, event: Event) -> list[tuple[ModuleCall, bool]]:
        """The calls in which something bad may have begun, innermost first; in their backward?"""
        kind, thing = event.kind, event.thing
        if kind == OUTPUT:
            return [(call, False) for call in reversed(thing.call.chain)]
        if kind == GRADIENT:
            users = [call for call in self._calls if thing in call.sources]
            users.sort(key=lambda call: -len(call.chain))
            return [(call, True) for call in dict.fromkeys([*users, *thing.around()])]
        if kind == PARAMETER:
            owners = [
                call
                for call in reversed(self._calls)
                if any(each is thing for each in parameters_of(call.module).values())
            ]
            chain = [each for call in owners for each in reversed(call.chain[:-1])]
            return [(call, True) for call in dict.fromkeys([*owners, *chain])]
        return []
