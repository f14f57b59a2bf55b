"""The operations of a run: which they are, in what order they run, which share a buffer."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

__all__ = ["Buffers", "Edges", "order", "walk"]

# What hands on the buffer of its input: an array fetched from it changes with the variable.
_ALIASING = frozenset(
    {"Enter", "ExpandDims", "Identity", "IdentityN", "Reshape", "Squeeze", "StopGradient"}
)
_VARIABLES = frozenset({"TemporaryVariable", "Variable", "VariableV2"})
# What takes a reference and hands it on as it is.
_FORWARDING = frozenset({"RefEnter", "RefExit", "RefIdentity", "RefMerge", "RefSwitch", "Switch"})
_READERS = frozenset({"Identity", "IsVariableInitialized", "Shape", "Size", "Rank"})


class Edges(NamedTuple):
    """The inputs of an operation: data as ``(operation, slot)``, and control."""

    data: tuple[tuple[Any, int], ...]
    control: tuple[Any, ...]


def walk(targets: Iterable[Any], fed: frozenset[tuple[Any, int]]) -> dict[Any, Edges]:
    """The operations that a run computes, with their inputs; cut where a tensor is fed.

    Args:
        targets: the operations that are asked for.
        fed: ``(operation, slot)`` of the fed tensors.
    """
    fed_placeholders = {op for op, _ in fed if op.type in ("Placeholder", "PlaceholderV2")}
    edges: dict[Any, Edges] = {}
    stack = list(targets)
    while stack:
        op = stack.pop()
        if op in edges:
            continue
        data = tuple((tensor.op, tensor.value_index) for tensor in op.inputs)
        # The runtime cuts the control edges of a fed placeholder too, and of nothing else.
        control = tuple(c for c in op.control_inputs if c not in fed_placeholders)
        edges[op] = Edges(data, control)
        stack.extend(source for source, slot in data if (source, slot) not in fed)
        stack.extend(control)
    return edges


def order(edges: dict[Any, Edges], frames: Mapping[Any, tuple[str, ...]]) -> list[Any]:
    """The operations, producers first, else as they were created; loops are cut at their end.

    Args:
        edges: the operations with their inputs.
        frames: operation -> the while frames it is in, as far as known: what leaves a loop comes
            after all that belongs to it.
    """
    waiting: dict[Any, int] = dict.fromkeys(edges, 0)
    consumers: dict[Any, list[Any]] = {}

    def depend(op: Any, source: Any) -> None:
        if source in waiting:
            waiting[op] += 1
            consumers.setdefault(source, []).append(op)

    for frame in frames.values():
        if frame:
            waiting[frame[0]] = 0  # stands for the end of the loop
    for op, (data, control) in edges.items():
        merges = op.type.endswith("Merge")
        for source, _ in data:
            if not (merges and source.type.endswith("NextIteration")):
                depend(op, source)
        for source in control:
            depend(op, source)
        frame = frames.get(op, ())
        if frame:
            depend(frame[0], op)
        elif op.type.endswith("Exit"):
            for source, _ in data:
                for name in frames.get(source, ())[:1]:
                    depend(op, name)
    ready = [(op._id, op.name, op) for op in edges if waiting[op] == 0]
    heapq.heapify(ready)
    found: list[Any] = []
    while ready:
        op = heapq.heappop(ready)[2]
        found.append(op)
        done = [op]
        while done:
            for consumer in consumers.get(done.pop(), ()):
                waiting[consumer] -= 1
                if waiting[consumer]:
                    continue
                if isinstance(consumer, str):
                    done.append(consumer)
                else:
                    heapq.heappush(ready, (consumer._id, consumer.name, consumer))
    if len(found) < len(edges):
        ordered = set(found)
        found.extend(sorted((op for op in edges if op not in ordered), key=lambda op: op._id))
    return found


class Buffers:
    """Which tensors share the buffer of a reference variable.

    Args:
        edges: the operations of a run with their inputs.
        ops: the same in topological order.

    Attributes:
        changing: the tensors, not references themselves, whose buffer this run writes.
        reads: variable -> an operation that reads it, for those that this run doesn't write.
        late: references, and tensors of `changing`, that something uses after an update that comes
            after them. It sees the updated variable; a watch would put a copy in between.
    """

    def __init__(self, edges: Mapping[Any, Edges], ops: Iterable[Any]) -> None:
        self._edges = edges
        self.changing: set[tuple[Any, int]] = set()
        self.reads: dict[Any, Any] = {}
        self.late: set[tuple[Any, int]] = set()
        if any(op.type in _VARIABLES for op in ops):
            self._follow(ops)

    def _follow(self, ops: Iterable[Any]) -> None:
        written = {
            self._variable(source)
            for op in ops
            if op.type.removeprefix("Ref") not in _READERS
            for source, slot in self._edges[op].data
            if _by_reference(source, slot)
        }
        for op in ops:
            if op.type not in _ALIASING:
                continue
            count = len(op.outputs)
            for slot, (source, source_slot) in enumerate(self._edges[op].data[:count]):
                if not _by_reference(source, source_slot):
                    if (source, source_slot) in self.changing:
                        self.changing.add((op, slot))
                elif self._variable(source) in written:
                    self.changing.add((op, slot))
                elif op.type == "Identity" and source.type in _VARIABLES:
                    self.reads[source] = op
        self._find_late(ops)

    def _find_late(self, ops: Iterable[Any]) -> None:
        """Find the uses of a buffer that come after an update."""
        bits: dict[Any, int] = {}  # of each update
        updates: dict[Any, int] = {}  # variable -> those of it
        before: dict[Any, int] = {}  # operation -> those that come before it
        for op in ops:
            data, control = self._edges[op]
            mask = 0
            for source in (*(source for source, _ in data), *control):
                mask |= before.get(source, 0) | bits.get(source, 0)
            before[op] = mask
            if op.type.removeprefix("Ref") in _READERS or op.type in _FORWARDING:
                continue
            for source, slot in data:
                if _by_reference(source, slot):
                    bit = bits.setdefault(op, 1 << len(bits))
                    variable = self._variable(source)
                    updates[variable] = updates.get(variable, 0) | bit
        for op in ops:
            for source, slot in self._edges[op].data:
                if not _by_reference(source, slot) and (source, slot) not in self.changing:
                    continue
                known = before[source] | bits.get(source, 0)
                if before[op] & ~known & updates.get(self._variable(source), 0):
                    self.late.add((source, slot))

    def _variable(self, op: Any) -> Any:
        """The variable of a reference or alias, through what hands it on."""
        while op in self._edges and self._edges[op].data:
            source, slot = self._edges[op].data[0]
            if not _by_reference(source, slot) and (source, slot) not in self.changing:
                break
            op = source
        return op


def _by_reference(op: Any, slot: int) -> bool:
    return bool(op.outputs[slot].dtype._is_ref_dtype)
