"""The way back from a bad tensor, through bad tensors only, to where nan or inf began."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tfdbg_cli.common.errors import DumpError
from tfdbg_cli.dumps.dump import Datum, Dump
from tfdbg_cli.dumps.executions import ArrayContents, Executions, InputMoment, body_of, call_of
from tfdbg_cli.dumps.graph import CARRY, COLLECTED, Edge, Graph, Node, parse_tensor_name
from tfdbg_cli.dumps.proto.graph_def import FUNCTIONAL

__all__ = ["Ancestry", "AncestryStep", "Origin"]

# Of all inputs of these only one has a value: the one that was computed last.
_MERGES = frozenset({"Merge", "RefMerge", "_XlaMerge"})
# A variable of a loop: what begins the loop, and what comes round.
_VARIABLE = "_Arg"
# ONNX's loops: an output is what it began with, or what the last iteration gave.
_LOOPS = frozenset({"Loop", "Scan"})
# They put tensors of several iterations into a list, or take them out of one.
_COLLECTING = re.compile(
    "TensorList|Optional"  # TensorFlow's lists, and what one branch of several may give to them
    f"|SequenceInsert|{COLLECTED}"  # those of engines whose loops hand out what iterations made
)
# They hand on their first input as it is, or of several the one that has a value.
_PASSING = frozenset(
    {
        *("Enter", "Exit", "Identity", "NextIteration", "PreventGradient", "RefEnter"),
        *("Snapshot", "StopGradient", "Switch", _VARIABLE, *_MERGES),
    }
)
# A node that wasn't dumped is passed through so often, seen from different moments of a loop.
_MOST_PASSES = 64


class AncestryStep(NamedTuple):
    """One place on the way back: a dumped tensor, or a node that wasn't dumped.

    Attributes:
        node: the node's name.
        datum: its bad tensor; ``None``: it was passed through.
    """

    node: str
    datum: Datum | None


@dataclass
class Origin:
    """A bad tensor that was not computed from bad ones.

    Attributes:
        chain: the way to it, from the tensor that was asked for (first) to the origin (last).
        clean: the tensors it was computed from. None of them is bad, unless it is on purpose.
        unknown: the inputs of which nothing was dumped, nor of what they were computed from.
        began: something bad came into being in it; else it is bad on purpose, if one can tell.
    """

    chain: list[AncestryStep]
    clean: list[Datum] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    began: bool = False


# The nodes passed on the way to a tensor, the last one first: each with those before it. Ways that
# begin alike share their beginning, however long it is.
_Passed = tuple[str, "_Passed | None"]


class _Found(NamedTuple):
    """What a tensor was computed from: dumped tensors, each with the nodes passed to get there."""

    data: list[tuple[Datum, _Passed | None]]
    unknown: list[str]


class Ancestry:
    """Walks back through the bad tensors of a dump.

    A tensor counts as an input as it was when its consumer was computed: its last dump that is not
    later. So a loop is walked back iteration by iteration.

    Args:
        dump: whose tensors.
        graph: the dump's.
        is_bad: whether a tensor holds nan or inf; asked of inputs of bad tensors only.
        began: whether something bad came into being in a bad tensor, though inputs of it may be bad
            (on purpose): the way back ends there. Default: of tensors without bad inputs.
    """

    def __init__(
        self,
        dump: Dump,
        graph: Graph,
        is_bad: Callable[[Datum], bool],
        began: Callable[[Datum], bool] | None = None,
    ) -> None:
        self._dump = dump
        self._graph = graph
        self._is_bad = is_bad
        self._began = began
        self._order = {id(datum): at for at, datum in enumerate(dump.data())}
        self._passes: dict[str, int] = {}
        self._names: list[str] | None = None
        self._contents = ArrayContents(graph)
        self._executions = Executions(dump, graph, self._order)

    def place(self, datum: Datum) -> int:
        """The place of a tensor in the order of the dump."""
        return self._order.get(id(datum), len(self._order))

    def origins(self, start: Datum | str) -> list[Origin]:
        """Where a bad tensor comes from, nearest first.

        Args:
            start: a bad tensor, or a node that wasn't dumped.
        """
        first: AncestryStep = (
            AncestryStep(start, None)
            if isinstance(start, str)
            else AncestryStep(start.node_name, start)
        )
        came: dict[int, tuple[int, _Passed | None] | None] = {}
        known: dict[int, Datum] = {}
        queue: deque[Datum] = deque()
        found: list[Origin] = []
        if first.datum is None:
            for datum, passed in self._sources(first.node, len(self._order)).data:
                if id(datum) not in came and self._is_bad(datum):
                    came[id(datum)] = (0, passed)
                    known[id(datum)] = datum
                    queue.append(datum)
        else:
            came[id(first.datum)] = None
            known[id(first.datum)] = first.datum
            queue.append(first.datum)
        while queue:
            datum = queue.popleft()
            sources = self._sources(datum.node_name, self._order[id(datum)], datum)
            begins = self._began is not None and self._began(datum)
            bad = [
                (each, passed) for each, passed in sources.data if not begins and self._is_bad(each)
            ]
            for each, passed in bad:
                if id(each) not in came:
                    came[id(each)] = (id(datum), passed)
                    known[id(each)] = each
                    queue.append(each)
            if not bad:
                clean = list({id(each): each for each, _ in sources.data}.values())
                chain = _chain(datum, came, known)
                found.append(Origin(chain, clean, sources.unknown, begins))
        if not found and known:  # they go round and round: the earliest counts
            datum = min(known.values(), key=lambda each: self._order[id(each)])
            found.append(Origin(_chain(datum, came, known)))
        return [each for each in found if each.began] or found

    def inputs(self, datum: Datum) -> list[Datum]:
        """The dumped tensors that a tensor was computed from, through nodes that weren't dumped."""
        self._passes.clear()
        found = self._sources(datum.node_name, self._order[id(datum)], datum)
        return [each for each, _ in found.data]

    def handed_on(self, tensor: str, consumer: Datum) -> Datum | None:
        """The dumped tensor whose value another one has that wasn't dumped; ``None``: unknown.

        Args:
            tensor: that wasn't dumped.
            consumer: what was computed from it.
        """
        place, name = self._order[id(consumer)], consumer.node_name
        when = InputMoment(place, body_of(name), consumer.execution)
        for _ in range(_MOST_PASSES):
            if (found := self._at(tensor, when, consumer)) is not None:
                return found
            name, slot = parse_tensor_name(tensor)
            node = self._graph.nodes.get(name)
            if node is None or self._dump.by_tensor(tensor):
                return None
            if node.op_type not in _PASSING and not node.returns:
                return None
            edges = self._edges(name, slot, when)
            if node.op_type == "Switch":  # the other one says which way
                edges = edges[:1]
            if len(edges) != 1:
                return None
            tensor, when = edges[0]
        return None

    def along(self, edges: Sequence[Edge], end: Datum) -> list[Datum | None]:
        """The dumps of the tensors on a path, each as it was when the next node read it.

        Args:
            edges: from the path's first node on, each to the next node.
            end: the dump of the last node that the path leads to.

        Returns:
            One dump for each edge; ``None`` where there is none.
        """
        found: list[Datum | None] = []
        when = InputMoment(self._order[id(end)], body_of(end.node_name), end.execution)
        consumer, slot = end, end.output_slot
        for edge in reversed(edges):
            if edge.is_control:
                found.append(None)
                continue
            then = dict(self._edges(edge.node, slot, when)).get(edge.tensor, when)
            datum = self._at(edge.tensor, then, consumer)
            found.append(datum)
            slot, when = parse_tensor_name(edge.tensor)[1] or 0, then
            if datum is not None:
                consumer = datum
                when = InputMoment(
                    self._order[id(datum)], body_of(datum.node_name), datum.execution
                )
        return found[::-1]

    def _sources(self, node: str, moment: int, consumer: Datum | None = None) -> _Found:
        """The dumped tensors that a node was computed from, through nodes that weren't dumped."""
        data: list[tuple[Datum, _Passed | None]] = []
        unknown: list[str] = []
        when = InputMoment(moment)
        if consumer is not None:
            when = InputMoment(moment, body_of(node), consumer.execution)
        slot = consumer.output_slot if consumer is not None else None
        seen: set[tuple[str, int]] = set()
        start = (node, None) if consumer is None else None
        waiting: deque[tuple[str, _Passed | None, InputMoment]] = deque(
            (tensor, start, at) for tensor, at in self._edges(node, slot, when)
        )
        while waiting:
            tensor, passed, at = waiting.popleft()
            found = self._at(tensor, at, consumer)
            name, output = parse_tensor_name(tensor)
            if found is not None:
                made = self._collected(tensor, at, consumer) if at.all else [found]
                data += ((each, passed) for each in made or [found])
                if not _is_list(found) or name not in self._graph or not self._goes_on(name):
                    continue
                at = at._replace(moment=self.place(found))  # what was put into it counts
            elif self._dump.by_tensor(tensor):
                continue
            if (tensor, at.execution) in seen:
                continue
            seen.add((tensor, at.execution))
            if name not in self._graph or not self._goes_on(name):
                unknown.append(tensor)
                continue
            self._passes[name] = self._passes.get(name, 0) + 1
            if self._passes[name] <= _MOST_PASSES:
                waiting += (
                    (each, (name, passed), then) for each, then in self._edges(name, output, at)
                )
        return _Found(list({id(each[0]): each for each in reversed(data)}.values())[::-1], unknown)

    def _goes_on(self, name: str) -> bool:
        return bool(self._graph.nodes[name].inputs) or next(self._body(name), None) is not None

    def _edges(
        self, name: str, slot: int | None, when: InputMoment
    ) -> list[tuple[str, InputMoment]]:
        """The tensors that an output of a node was computed from, each with the moment to see."""
        node = self._graph.nodes.get(name)
        if node is None:
            return []
        inputs = list(dict.fromkeys(node.inputs))
        slots = range(len(node.returns)) if slot is None else [slot]
        returns = [each for each in slots if each < len(node.returns)]
        if when.all:  # a list may have been filled in any iteration, or before the loop
            picked = [way for each in returns for way in node.returns[each]]
        elif node.op_type == _VARIABLE and len(inputs) == 2:
            return self._variable(name, inputs, when)
        elif node.op_type == CARRY and len(inputs) == 2:
            return [(tensor, when) for tensor in self._carried(inputs, when)]
        else:
            picked = [self._result(node, each, when) for each in returns]
        if node.returns:
            return [(tensor, when) for tensor in dict.fromkeys(picked) if tensor]
        if node.op_type in _MERGES:
            last = [datum for each in inputs if (datum := self._at(each, when, None)) is not None]
            if last:
                inputs = [max(last, key=lambda datum: self._order[id(datum)]).tensor_name]
        elif (read := self._contents.read_by(node)) or _COLLECTING.match(node.op_type):
            when = when._replace(execution=-1, all=True)
            inputs += read
        elif node.op_type in FUNCTIONAL:
            nodes = self._body(name)
            inside = [self._last(self._dump.by_node(each), when.moment, None) for each in nodes]
            bad = [datum for datum in inside if datum is not None and self._is_bad(datum)]
            if bad:  # what came out is what was computed last
                inputs.append(max(bad, key=lambda datum: self._order[id(datum)]).tensor_name)
        return [(tensor, when) for tensor in inputs]

    def _variable(
        self, name: str, inputs: list[str], when: InputMoment
    ) -> list[tuple[str, InputMoment]]:
        """What a loop's variable was: as the loop began, or as the iteration before has left it."""
        begin, again = inputs
        when = self._executions.aligned(when, body_of(name))
        at = when.execution
        if at < 0:
            return [(again, when)] if self._executions.has_run(again, when) else [(begin, when)]
        if at == 0:
            return [(begin, when._replace(execution=-1))]
        around = call_of(when.body)
        inside = body_of(again).startswith(f"{around}/")  # else it comes from outside the loop
        before = when._replace(execution=at - 1, body=body_of(again)) if inside else when
        first, last = self._at(begin, when, None), self._at(again, before, None)
        if first is None or last is None or self._order[id(first)] < self._order[id(last)]:
            return [(again, before)]
        return [(begin, when)]  # the loop was entered anew

    def _carried(self, inputs: list[str], when: InputMoment) -> list[str]:
        """What an iteration was given: as the loop began, or what the one before has made."""
        begin, again = inputs
        last = self._at(again, when, None)
        if last is None:
            return [begin] if self._dump.by_tensor(again) else inputs
        # The loop was entered anew if it, or what it begins with, was done since.
        done, maker = [begin], parse_tensor_name(again)[0]
        for edge in self._graph.recipients(again) if maker in self._graph else ():
            ways = enumerate(self._graph.nodes[edge.node].returns)
            done += (f"{edge.node}:{slot}" for slot, handed in ways if again in handed)
        data = (self._at(tensor, when, None) for tensor in done)
        is_anew = any(each is not None and self.place(each) > self.place(last) for each in data)
        return [begin if is_anew else again]

    def _result(self, node: Node, slot: int, when: InputMoment) -> str:
        """The tensor that a call has handed on."""
        ways = node.returns[slot]
        around = body_of(node.name)
        then = self._executions.aligned(when, around)
        is_choice = node.op_type.removeprefix("Stateless") in ("If", "Case", "cond")
        if is_choice and len(ways) > 1 and node.inputs:
            chosen = self._at(node.inputs[0], then, None)
            if chosen is not None and (
                way := ways[self._executions.branch(node, chosen, len(ways))]
            ):
                return way
        is_loop = node.op_type.endswith("While")
        if is_loop and self._was_passed(node, slot, when):
            return ways[0]
        # What was computed last; a loop's own results come behind what it began with, unless it is
        # known which time this is.
        is_loop = is_loop and not (around and then.execution >= 0)
        ran = [way for way in ways if way and self._executions.has_run(way, when)]
        known = [(self._at(way, when, None), way) for way in ran]
        dumped = [(self._order[id(datum)], way) for datum, way in known if datum is not None]
        if len(dumped) == len(known) and dumped and not is_loop:
            latest, way = max(dumped)
            if node.op_type in _LOOPS and latest < self._last_place(node, slot, when):
                return ways[0]  # of an execution before: this time it was not gone round
            return way
        return (ran or [way for way in ways if way] or [""])[-1]

    def _last_place(self, node: Node, slot: int, when: InputMoment) -> int:
        """The place of what a node has given the time before; -1: nothing."""
        data = self._dump.by_tensor(f"{node.name}:{slot}")
        last = self._last(data, when.moment, None) if data else None
        return self.place(last) if last is not None else -1

    def _was_passed(self, node: Node, slot: int, when: InputMoment) -> bool:
        """Whether a loop that was dumped at a moment was not gone round this time."""
        made = self._dump.by_tensor(f"{node.name}:{slot}")
        began = self._dump.by_tensor(node.returns[slot][0])
        at = bisect_left(made, when.moment, key=lambda datum: self._order[id(datum)])
        if at == len(made) or self._order[id(made[at])] != when.moment or len(made) != len(began):
            return False
        end = node.returns[slot][-1]
        last = self._at(end, when, None)
        if last is None:
            return bool(self._dump.by_tensor(end))
        return self._order[id(last)] < self._order[id(began[at])]

    def _at(self, tensor: str, when: InputMoment, consumer: Datum | None) -> Datum | None:
        """The dump of a tensor that was read at a moment."""
        data = self._dump.by_tensor(tensor)
        if not data:
            return None
        if when.all and (made := self._collected(tensor, when, consumer)):
            return made[0]
        body = body_of(tensor)
        execution = self._executions.aligned(when, body).execution if body else -1
        if 0 <= execution < len(data):
            # All nodes of a body are executed once in each of its iterations.
            return data[execution] if data[execution] is not consumer else None
        return self._last(data, when.moment, consumer)

    def _collected(self, tensor: str, when: InputMoment, consumer: Datum | None) -> list[Datum]:
        """The dumps of a tensor that are in a list: all bad ones, or else the last one."""
        found = self._dump.by_tensor(tensor)
        found = found[: bisect_left(found, when.moment, key=self.place)]
        body = body_of(tensor)
        if consumer is not None and not (body and consumer.node_name.startswith(body)):
            # Behind a loop in a loop: what was collected before is in the list before.
            earlier = self._last(
                self._dump.by_tensor(consumer.tensor_name), self.place(consumer), None
            )
            since = self.place(earlier) if earlier is not None else -1
            bad = [each for each in found if self.place(each) > since and self._is_bad(each)]
            if bad:
                return bad
        return list(filter(self._is_bad, found)) or found[-1:]

    def _last(self, data: list[Datum], moment: int, consumer: Datum | None) -> Datum | None:
        """The last dump before a moment; one with the time of the consumer is not later."""
        at = bisect_left(data, moment, key=lambda datum: self._order[id(datum)])
        if at:
            return data[at - 1]
        if consumer is not None and data[0].timestamp == consumer.timestamp:
            return data[0] if data[0] is not consumer else None
        return None

    def _body(self, name: str) -> Iterator[str]:
        """The dumped nodes of the functions that a node calls."""
        if self._graph.nodes[name].op_type not in FUNCTIONAL:
            return
        if self._names is None:
            self._names = sorted({datum.node_name for datum in self._dump.data()})
        prefix = f"{name}/"
        for at in range(bisect_left(self._names, prefix), len(self._names)):
            if not self._names[at].startswith(prefix):
                return
            yield self._names[at]


def _is_list(datum: Datum) -> bool:
    """Whether a value is none that an array can hold, as far as is known."""
    try:
        return not datum.dtype
    except DumpError:
        return False


def _chain(
    origin: Datum,
    came: dict[int, tuple[int, _Passed | None] | None],
    known: dict[int, Datum],
) -> list[AncestryStep]:
    chain = [AncestryStep(origin.node_name, origin)]
    at = came[id(origin)]
    while at is not None:
        before, passed = at
        while passed is not None:
            name, passed = passed
            chain.append(AncestryStep(name, None))
        if before not in known:  # the start, which wasn't dumped
            break
        chain.append(AncestryStep(known[before].node_name, known[before]))
        at = came[before]
    chain.reverse()
    return chain
