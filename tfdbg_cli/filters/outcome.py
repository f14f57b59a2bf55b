"""Which of the bad tensors of a run got somewhere, and which stayed where they were made."""

from __future__ import annotations

import itertools
import math
import re
import weakref
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from tfdbg_cli.common.arrays import np
from tfdbg_cli.common.node_words import BACKWARD, PHASE, RESULT, WRITES, output_shapes
from tfdbg_cli.common.traits import OpRoles
from tfdbg_cli.dumps.dump import Datum
from tfdbg_cli.dumps.elements import split_tensor_name
from tfdbg_cli.dumps.executions import body_of
from tfdbg_cli.dumps.graph import Graph, Node, node_name_of
from tfdbg_cli.filters.lineage import (
    WRITTEN,
    TensorLineage,
    floats,
    hides_others,
    holds_others,
    is_called,
)

__all__ = ["Outcome"]

_FLOATING = re.compile(r"b?float|complex")
_BAD_NUMBER = re.compile(r"nan|inf", re.IGNORECASE)


class Outcome:
    """Walks back from where a run ends, through bad tensors only.

    The ends are the bad ones among

    * the results: the output of a model, a loss, a gradient, what was fetched;
    * what the program still has when the run is over: parameters and other state as far as it
      became bad in this run, variables. Infinities that ops of the run have read and that came to
      nothing are none, nor are such parts of a gradient's computation;
    * what goes to Python (``item()``, or a number in a condition: ``if isfinite(loss)``), to
      another process, to a node that gives no tensor; what a run that failed made last.

    Where the dump doesn't say what the program has at the end, the tensors of nodes that no dumped
    node has read are the ends; in a loop that JAX compiles these are computed for nothing.

    Args:
        lineage: of the dump; with a graph. `TensorLineage.once` keeps the one of it.
    """

    def __init__(self, lineage: TensorLineage) -> None:
        self._lineage: TensorLineage = weakref.proxy(lineage)
        self._data: set[int] | None = None
        self._names: set[str] | None = None

    def got_somewhere(self, datum: Datum) -> bool:
        """Whether what is bad in a tensor was taken over, all the way to an end of the run."""
        graph = self._lineage.graph
        if graph is None:
            return True
        if self._data is None and self._names is None:
            results, fetches = self._told()
            if results is None:
                self._data = self._from_unread(graph, fetches)
            else:
                self._names = self._from_results(graph, results)
        if self._names is not None:
            return datum.tensor_name in self._names
        return id(datum) in (self._data or ())

    def is_end(self, datum: Datum) -> bool:
        """Whether a bad tensor is plainly an end of the run; no other tensor is looked at."""
        graph = self._lineage.graph
        if graph is None:
            return True
        results, fetches = self._told()
        if results is not None:
            return results.get(datum.tensor_name, False)
        is_unread = not self._tells_all() and not self._has_known_reader(graph, datum.node_name)
        return datum.tensor_name in fetches or is_unread

    def is_result(self, datum: Datum) -> bool:
        """Whether a tensor is what the run is known to give: an output, a loss, a gradient."""
        results, fetches = self._told()
        return (results or {}).get(datum.tensor_name, datum.tensor_name in fetches)

    def _told(self) -> tuple[Mapping[str, bool] | None, frozenset[str]]:
        """What the dump says of the run's results, and of its fetches."""
        info = self._lineage.dump.run_info()
        return (info.results, frozenset(info.fetches)) if info is not None else (None, frozenset())

    def _tells_all(self) -> bool:
        """Whether the fetches are all that a run gives."""
        info = self._lineage.dump.run_info()
        return info is not None and info.unit == "program" and bool(info.fetches)

    def _has_known_reader(self, graph: Graph, node: str) -> bool:
        if node not in graph:
            return False
        return any(self._lineage.dump.by_node(reader) for reader in _readers(graph, node))

    # Where the dump says what the run leaves behind, each tensor was made once.

    def _from_results(self, graph: Graph, results: Mapping[str, bool]) -> set[str]:
        taken: set[str] = set()
        waiting: list[str] = []
        for name, is_result in results.items():
            kept = [*self._bad_of(graph, [name])]
            seen = set(kept)
            for tensor in kept:
                before = None if is_result else self._overwritten(graph, tensor)
                if not is_result and not self._is_kept_bad(graph, tensor, before):
                    # It may have become bad by the write before this one, if that was in the run.
                    earlier = [self._dumped(graph, before)] if before is not None else []
                    for each in self._bad_of(graph, earlier):
                        maker = graph.nodes.get(node_name_of(each))
                        if each not in seen and maker is not None and maker.inputs:
                            kept.append(each)
                            seen.add(each)
                    continue
                if before is None:
                    waiting.append(tensor)
                else:  # what was bad there before has only stayed
                    taken.add(tensor)
                    waiting += self._fed(graph, tensor, but=before)
        for node in graph.nodes.values():
            if _is_exit(node, self._lineage.roles):
                waiting += self._bad_of(graph, self._sent(node))
            elif node.op_type in self._lineage.roles.telling:
                waiting += self._bad_of(graph, _compared(graph, node))
        info, data = self._lineage.dump.run_info(), self._lineage.dump.data()
        if info is not None and info.error is not None:
            # What the error is about; behind it may be ops that found it out (isnan, any).
            of_numbers = (e.tensor_name for e in reversed(data) if _FLOATING.match(e.dtype))
            waiting += self._bad_of(graph, [*itertools.islice(of_numbers, 1)])
        done: set[str] = set()
        while waiting:
            tensor = waiting.pop()
            if tensor not in done:
                done.add(tensor)
                waiting += self._fed(graph, tensor)
        return taken | done

    def _bad_of(self, graph: Graph, tensors: Iterable[str]) -> Iterator[str]:
        """The bad ones of some tensors; those that aren't there are passed through."""
        dump = self._lineage.dump
        waiting = list(tensors)
        seen: set[str] = set()
        while waiting:
            tensor = waiting.pop()
            if tensor in seen:
                continue
            seen.add(tensor)
            data = dump.by_tensor(tensor)
            node = graph.nodes.get(node_name_of(tensor))
            may_be = dump.suspects is None or tensor in dump.suspects
            if node is not None and hides_others(node):
                may_be = True
            if data:
                if may_be and self._lineage.bad(data[-1]):
                    yield tensor
            elif may_be and dump.suspects is not None and tensor in dump.suspects:
                yield tensor  # one of too many to be kept
            elif node is not None and (hides_others(node) or not dump.lists_only_bad):
                waiting += node.inputs

    def _sent(self, node: Node) -> Sequence[str]:
        """What leaves the run by a node that sends to other processes, or tells the program."""
        found = [each for each in node.inputs if self._lineage.reads(node, each)]
        if not found or len(found) < len(node.inputs) or not node.attributes.get(WRITES):
            return found
        # What is bad there afterwards may have been sent; what is clean was received.
        dump = self._lineage.dump
        slots = len(node.attributes[WRITES].split(", "))
        made = [dump.by_tensor(f"{node.name}:{slot}") for slot in range(slots)]
        is_known = dump.lists_only_bad or all(made)
        is_bad = any(self._lineage.bad(data[-1]) for data in made if data)
        return found if is_bad or not is_known else []

    def _fed(self, graph: Graph, tensor: str, but: str = "") -> Iterator[str]:
        """The bad tensors that a bad tensor has taken over."""
        dump = self._lineage.dump
        node = graph.nodes.get(node_name_of(tensor))
        if node is None:
            return
        data = dump.by_tensor(tensor)
        for each in self._bad_of(graph, [name for name in node.inputs if name != but]):
            source = dump.by_tensor(each)
            if not data or not source or self._lineage.takes_over(data[-1], source[-1]):
                yield each

    def _overwritten(self, graph: Graph, tensor: str) -> str | None:
        """What was in the memory of a tensor before it was made; ``None``: nothing."""
        name, slot = split_tensor_name(tensor)
        node = graph.nodes.get(name)
        if node is None:
            return None
        if node.op_type == WRITTEN:
            return next(iter(node.inputs), None)
        writes = node.attributes.get(WRITES, "")
        if not writes:
            return None
        written = writes.split(", ")
        before = written[slot] if slot < len(written) else written[0]
        return next((each for each in node.inputs if is_called(each, before)), None)

    def _dumped(self, graph: Graph, tensor: str) -> str:
        """What was in memory before, as far back as the dump doesn't have it."""
        node = graph.nodes.get(node_name_of(tensor))
        while node is not None and node.op_type == WRITTEN and node.inputs:
            if self._lineage.dump.by_tensor(tensor):
                break
            tensor = node.inputs[0]
            node = graph.nodes.get(node_name_of(tensor))
        return tensor

    def _is_kept_bad(self, graph: Graph, tensor: str, before: str | None) -> bool:
        """Whether it counts that the program still has a bad tensor."""
        dump = self._lineage.dump
        data = dump.by_tensor(tensor)
        if not data:
            return True
        if before is not None:
            old = dump.by_tensor(self._dumped(graph, before))
            return not old or _has_new(data[-1], old[-1])
        bad, node = self._lineage.bad(data[-1]), graph.nodes.get(node_name_of(tensor))
        # What a gradient's formula has made on its way is kept for the gradient of that, by nobody
        # else.
        is_inner = node is not None and node.attributes.get(PHASE) == BACKWARD
        is_state = bad is None or (bool(bad.nan) and not is_inner)
        return is_state or not _is_read(graph, node_name_of(tensor))

    # Elsewhere a tensor may be there many times, in loops.

    def _from_unread(self, graph: Graph, fetches: Collection[str]) -> set[int]:
        dump = self._lineage.dump
        handed_on = {
            tensor
            for node in graph.nodes.values()
            for ways in node.returns or ()
            for tensor in ways
        }
        was_done = _needed(graph, fetches)
        waiting = [
            datum
            for node in graph.nodes.values()
            if not dump.by_node(node.name)
            and not graph.recipients(node.name, control=False)
            and (was_done is None or node.name in was_done or body_of(node.name))
            for tensor in node.inputs
            for datum in dump.by_tensor(tensor)
        ]
        is_end: dict[str, bool] = {}
        tells_all = self._tells_all()
        for datum in dump.data():
            name, node = datum.tensor_name, datum.node_name
            if node not in is_end:
                is_end[node] = not tells_all and not self._has_known_reader(graph, node)
            if (is_end[node] and name not in handed_on) or name in fetches or node in fetches:
                waiting.append(datum)
        done: set[int] = set()
        while waiting:
            datum = waiting.pop()
            if id(datum) in done or not self._lineage.bad(datum):
                continue
            done.add(id(datum))
            waiting += [
                each
                for each in self._lineage.inputs(datum)
                if self._lineage.bad(each) and self._lineage.takes_over(datum, each)
            ]
        return done


def _needed(graph: Graph, fetches: Collection[str]) -> set[str] | None:
    """The nodes that a run had to do for its fetches; ``None``: these are unknown."""
    named = {node_name_of(name) for name in fetches} & graph.nodes.keys()
    found = {each for name in named for each in graph.ancestors(name)}
    return named | found if named else None


def _readers(graph: Graph, name: str) -> Iterator[str]:
    """The nodes that read a node, be it through views of it."""
    waiting, seen = [name], {name}
    while waiting:
        for edge in graph.recipients(waiting.pop(), control=False):
            if edge.node in seen:
                continue
            seen.add(edge.node)
            if holds_others(graph.nodes[edge.node]):
                waiting.append(edge.node)
            else:
                yield edge.node


def _is_read(graph: Graph, name: str) -> bool:
    return next(_readers(graph, name), None) is not None


def _compared(graph: Graph, node: Node) -> Iterator[str]:
    """The numbers of which a node tells the program something else: whether they are finite, say.

    Only tensors of one element: of others the program asks something in order to mend it.
    """
    waiting, seen = [*node.inputs], set[str]()
    while waiting:
        name = waiting.pop()
        maker = graph.nodes.get(node_name_of(name))
        if maker is None or name in seen:
            continue
        seen.add(name)
        if any(shape is None or math.prod(shape) != 1 for shape in output_shapes(maker.attributes)):
            continue
        if maker.attributes.get("T") == "bool":
            waiting += maker.inputs
        elif name not in node.inputs:
            yield name


def _is_exit(node: Node, roles: OpRoles) -> bool:
    """Whether what a node reads leaves the run as no tensor."""
    if node.op_type in roles.telling:
        return _BAD_NUMBER.search(node.attributes.get(RESULT, "")) is not None
    return roles.sending.match(node.op_type) is not None


def _has_new(datum: Datum, before: Datum) -> bool:
    """Whether a tensor is bad where the one before it in its memory wasn't."""
    now, then = floats(datum), floats(before)
    if now is None or then is None or now.shape != then.shape:
        return True
    return bool((~np.isfinite(now) & np.isfinite(then)).any())
