"""Which tensors of a graph with Switch, Merge and while frames are computed in every run."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, NamedTuple

from tfdbg_cli.engines.tensorflow.sessions.capture.topology import Edges, edge_of, order, walk
from tfdbg_cli.engines.tensorflow.sessions.requests import RunRequest

__all__ = ["Liveness", "OrderedRun", "ordered_run"]

# A literal of a condition: the predicate's operation and slot, and which way it goes. A Merge
# whose inputs don't add up to "always" gets a literal of its own.
_Literal = tuple[Any, int, object]
_Condition = frozenset[_Literal]

_ALWAYS: _Condition = frozenset()


class OrderedRun(NamedTuple):
    """The operations of a run, in the order in which they can be done.

    Attributes:
        fed: ``(operation, slot)`` of the fed tensors.
        asked: those of the fetches.
        roots: what it is all there for: fetches that aren't fed, and targets, whose slot is -1.
        edges: of each operation.
        ops: the operations.
        alive: which of their tensors are computed in every run.
    """

    fed: frozenset[tuple[Any, int]]
    asked: set[tuple[Any, int]]
    roots: list[tuple[Any, int]]
    edges: dict[Any, Edges]
    ops: list[Any]
    alive: Liveness


def ordered_run(request: RunRequest) -> OrderedRun:
    """What a run does for its fetches, targets and feeds."""
    fed = frozenset(map(edge_of, request.feeds))
    asked = {*map(edge_of, request.fetches)}
    roots = [edge for edge in asked if edge not in fed] + [(op, -1) for op in request.targets]
    edges = walk([op for op, _ in roots], fed)
    ops = order(edges, {})
    alive = Liveness(edges, fed)
    for op in ops:
        alive.visit(op)
    if alive.frames:
        ops = order(edges, alive.frames)
    return OrderedRun(fed, asked, roots, edges, ops, alive)


class Liveness:
    """Follows the operations of a run in topological order.

    A tensor downstream of a Switch exists only if its predicate went that way, until a Merge joins
    both ways again; a dead tensor can't be fetched. Tensors inside a while frame can't be fetched
    either: they exist once for each iteration. Nothing but the edges is looked at, so imported
    graphs, which carry no control flow contexts, come out right as well.

    Args:
        edges: operation -> ``(data inputs as (operation, slot), control inputs)``.
        fed: ``(operation, slot)`` of the fed tensors: they always have a value.
    """

    def __init__(self, edges: Mapping[Any, Any], fed: frozenset[tuple[Any, int]]) -> None:
        self._edges = edges
        self._fed = fed
        self._conditions: dict[Any, _Condition] = {}
        #: The names of the while frames that an operation's outputs are in, outermost first, for
        #: those that are in any.
        self.frames: dict[Any, tuple[str, ...]] = {}
        self._switches: dict[Any, tuple[Any, int]] = {}
        self._optional: set[tuple[str, ...]] = set()

    def visit(self, op: Any) -> None:
        """Take in the next operation; its producers were visited before."""
        data, control = self._edges[op]
        kind = op.type.removeprefix("Ref")
        frame: tuple[str, ...] = ()
        for source in [edge[0] for edge in data if edge not in self._fed] + list(control):
            inner = self.frames.get(source, ())
            if len(inner) > len(frame):
                frame = inner
        if kind == "Enter":
            frame = (*frame, _text(op.get_attr("frame_name")))
        elif kind == "Exit":
            frame = frame[:-1]
        if frame:
            self.frames[op] = frame
        self._conditions[op] = self._condition(op, kind, data, control)
        if kind == "Enter" and self._conditions[op] != _ALWAYS:
            self._optional.add(frame)

    def always(self, op: Any) -> bool:
        """Whether the operation runs exactly once, whichever way the run goes."""
        return op not in self.frames and self._conditions[op] == _ALWAYS

    def may_never_begin(self, op: Any) -> bool:
        """Whether the operation is in a loop that isn't begun in every run.

        A watch there keeps the Merge behind the loop from having a value when it isn't.
        """
        frame = self.frames.get(op, ())
        return any(frame[: depth + 1] in self._optional for depth in range(len(frame)))

    def chooses(self, op: Any) -> bool:
        """Whether the operation gives a value to one of its outputs only."""
        return op in self._switches

    def _of(self, source: Any, slot: int) -> _Condition:
        if (source, slot) in self._fed:
            return _ALWAYS
        condition = self._conditions.get(source, _ALWAYS)
        switch = self._switches.get(source)
        if switch is not None:
            condition = condition | {(*switch, slot)}
        return condition

    def _condition(self, op: Any, kind: str, data: Any, control: Any) -> _Condition:
        if kind == "Merge":
            # The end of a loop comes round to its Merge later: the way in decides.
            ways = [
                self._of(*edge) for edge in data if edge[0] in self._conditions or edge in self._fed
            ]
            condition = _any_of(ways, op)
        else:
            condition = _ALWAYS
            for edge in data:
                condition = condition | self._of(*edge)
        for source in control:
            condition = condition | self._conditions.get(source, _ALWAYS)
        if kind == "Switch" and data[1][0].type != "LoopCond":
            self._switches[op] = self._predicate(*data[1])
        return condition

    def _predicate(self, op: Any, slot: int) -> tuple[Any, int]:
        """What a Switch depends on, without the Identity operations that a cond puts before it."""
        while op.type == "Identity" and (op, slot) not in self._fed and op in self._edges:
            data, control = self._edges[op]
            if control:
                break
            op, slot = data[0]
        return op, slot


def _any_of(ways: list[_Condition], merge: Any) -> _Condition:
    """When a Merge has a value: one of several conditions holds."""
    left = list(dict.fromkeys(ways))
    pair = _joinable(left)
    while pair is not None:
        left = [way for way in left if way not in pair] + [pair[0] & pair[1]]
        pair = _joinable(left)
    if len(left) == 1:
        return left[0]
    if not left:
        return _ALWAYS
    return frozenset.intersection(*left) | {(merge, 0, "any")}


def _joinable(ways: list[_Condition]) -> tuple[_Condition, _Condition] | None:
    """Two conditions of which what they have in common is as good as either of them."""
    for first, other in itertools.combinations(ways, 2):
        difference = first ^ other
        opposite = len(difference) == 2 and len({literal[:2] for literal in difference}) == 1
        if opposite or first <= other or other <= first:
            return first, other
    return None


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
