"""The operations of a run: which they are, in what order they run, which share a buffer."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, NamedTuple

from tfdbg_cli.engines.tensorflow.shared.private import is_reference, serial_of

__all__ = ["Buffers", "Edges", "edge_of", "order", "walk"]

# What hands on the buffer of an input, always or at times: an array fetched from it changes with
# the variable. The input of the same number, the first one, or:
_ALIASING = frozenset(
    {
        "Bitcast",
        "CheckNumerics",
        "CheckNumericsV2",
        "EnsureShape",
        "Enter",
        "Exit",
        "ExpandDims",
        "GuaranteeConst",
        "Identity",
        "IdentityN",
        "NextIteration",
        "PlaceholderWithDefault",
        "PreventGradient",
        "Print",
        "Reshape",
        "Slice",
        "SplitV",
        "Squeeze",
        "StopGradient",
        "StridedSlice",
        "Unpack",
    }
)
_OTHER_INPUTS = {"Select": (1, 2), "SelectV2": (1, 2), "Split": (1,), "Switch": (0,)}
# They do so if there is nothing for them to do.
_OF_ONE = frozenset({"AddN", "ConcatV2", "Pack"})
_OF_THE_SAME_SIZE = frozenset(
    {"All", "Any", "BroadcastTo", "Max", "Mean", "Min", "Pad", "PadV2", "Prod", "Sum", "Tile"}
)
_VARIABLES = frozenset({"TemporaryVariable", "Variable", "VariableV2"})
# What takes a reference and hands it on as it is.
_FORWARDING = frozenset({"RefEnter", "RefExit", "RefIdentity", "RefMerge", "RefSwitch", "Switch"})
_READERS = frozenset({"Identity", "IsVariableInitialized", "Shape", "Size", "Rank"})


class Edges(NamedTuple):
    """The inputs of an operation: data as ``(operation, slot)``, and control."""

    data: tuple[tuple[Any, int], ...]
    control: tuple[Any, ...]


def edge_of(tensor: Any) -> tuple[Any, int]:
    """A tensor as ``(operation, slot)``, whatever wraps it."""
    return tensor.op, tensor.value_index


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
        data = (*map(edge_of, op.inputs),)
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
    ready = [(serial_of(op), op.name, op) for op in edges if waiting[op] == 0]
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
                    heapq.heappush(ready, (serial_of(consumer), consumer.name, consumer))
    if len(found) < len(edges):
        ordered = set(found)
        found.extend(sorted((op for op in edges if op not in ordered), key=serial_of))
    return found


class Buffers:
    """Which tensors share the buffer of a reference variable.

    Args:
        edges: the operations of a run with their inputs.
        ops: the same in topological order.
        asked: ``(operation, slot)`` of what is fetched: it is looked at when the run is over.

    Attributes:
        changing: the tensors, not references themselves, whose buffer this run writes.
        reads: variable -> an operation that reads it, for those that this run doesn't write.
        late: references, and tensors of `changing`, that something uses after an update that comes
            after them, or that hand on their buffer to such a tensor. It sees the updated
            variable; a watch would put a copy in between.
        written: the variables that this run writes.
        first: operation that reads a variable, and that every update waits for -> the variable.
        last: operation that writes a variable after all others do -> the variable.
        users: operation -> the variables that it so sees through tensors of `changing`.
        live: operations and those of their inputs that make it so.
    """

    def __init__(
        self,
        edges: Mapping[Any, Edges],
        ops: Iterable[Any],
        asked: Iterable[tuple[Any, int]] = (),
    ) -> None:
        self._edges, self._asked = edges, asked
        #: Tensor -> the variables whose buffer it may share.
        self._held: dict[tuple[Any, int], frozenset[Any]] = {}
        self.changing: Set[tuple[Any, int]] = self._held.keys()
        self.reads: dict[Any, Any] = {}
        self.late: set[tuple[Any, int]] = set()
        self.written: set[Any] = set()
        self.first: dict[Any, Any] = {}
        self.last: dict[Any, Any] = {}
        self.users: dict[Any, set[Any]] = {}
        self.live: set[tuple[Any, tuple[Any, int]]] = set()
        if any(op.type in _VARIABLES for op in ops):
            self._follow(ops)

    def _follow(self, ops: Iterable[Any]) -> None:
        self.written = written = {
            self._variable(source)
            for op in ops
            if op.type.removeprefix("Ref") not in _READERS
            for source, slot in self._edges[op].data
            if _by_reference(source, slot)
        }
        for op in ops:
            data = self._edges[op].data
            if not any(edge in self._held or _by_reference(*edge) for edge in data):
                continue
            for slot in range(len(op.outputs)):
                if _by_reference(op, slot):
                    continue
                handed = _handed_on(op, slot, data)
                found = frozenset().union(*(self.variables(edge) for edge in handed)) & written
                if found:
                    self._held[op, slot] = found
                elif op.type == "Identity" and handed[0][0].type in _VARIABLES:
                    self.reads[handed[0][0]] = op
        self._find_late(ops)

    def _find_late(self, ops: Iterable[Any]) -> None:
        """Find the uses of a buffer that come after an update."""
        bits: dict[Any, int] = {}  # of each update, and of each read
        updates: dict[Any, int] = {}  # variable -> those of it
        readers: dict[Any, Any] = {}  # operation -> the variable that it reads
        writers: dict[Any, list[Any]] = {}  # variable -> the operations that update it
        before: dict[Any, int] = {}  # operation -> those that come before it
        for op in ops:
            data, control = self._edges[op]
            mask = 0
            for source in (*(source for source, _ in data), *control):
                mask |= before.get(source, 0) | bits.get(source, 0)
            before[op] = mask
            if op.type == "Identity" and data[0][0] in self.written:
                bits[op] = 1 << len(bits)
                readers[op] = data[0][0]
            if op.type.removeprefix("Ref") in _READERS or op.type in _FORWARDING:
                continue
            for source, slot in data:
                if _by_reference(source, slot):
                    bit = bits.setdefault(op, 1 << len(bits))
                    variable = self._variable(source)
                    updates[variable] = updates.get(variable, 0) | bit
                    writers.setdefault(variable, []).append(op)
        for op, variable in readers.items():
            if all(before[writer] & bits[op] for writer in writers.get(variable, ())):
                self.first[op] = variable
        for variable, found in writers.items():
            for op in found:
                others = updates[variable] & ~bits[op]
                if before[op] & others == others:
                    self.last[op] = variable
        for op in ops:
            for edge in self._edges[op].data:
                known = before.get(edge[0], 0) | bits.get(edge[0], 0)
                for variable in self.variables(edge):
                    if not before[op] & ~known & updates.get(variable, 0):
                        continue
                    self.late.add(edge)
                    if edge in self._held:
                        self.users.setdefault(op, set()).add(variable)
                        self._mark_live(op, edge)
        for op, slot in self._asked:
            known = before.get(op, 0)
            if any(updates.get(each, 0) & ~known for each in self._held.get((op, slot), ())):
                self._mark_live(None, (op, slot))

    def _mark_live(self, op: Any, edge: tuple[Any, int]) -> None:
        """Follow a buffer back to its variable."""
        waiting = [(op, edge)]
        while waiting:
            op, edge = waiting.pop()
            if edge in self._held and (op, edge) not in self.live:
                self.live.add((op, edge))
                self.late.add(edge)
                source, slot = edge
                handed = _handed_on(source, slot, self._edges[source].data)
                waiting += [(source, each) for each in handed]

    def variables(self, edge: tuple[Any, int]) -> frozenset[Any]:
        """The variables whose buffer a tensor may have."""
        if _by_reference(*edge):
            return frozenset({self._variable(edge[0])})
        return self._held.get(edge, frozenset())

    def _variable(self, op: Any) -> Any:
        """The variable of a reference, through what hands it on."""
        while op in self._edges and self._edges[op].data:
            source, slot = self._edges[op].data[0]
            if not _by_reference(source, slot):
                break
            op = source
        return op


def _handed_on(op: Any, slot: int, data: Sequence[tuple[Any, int]]) -> Sequence[tuple[Any, int]]:
    """The inputs whose buffer an output may share."""
    kind = op.type
    if kind in _ALIASING:
        return data[slot : slot + 1] if kind == "IdentityN" else data[:1]
    if kind in _OTHER_INPUTS:
        return [data[at] for at in _OTHER_INPUTS[kind]]
    if kind == "Merge" and slot == 0:
        return data
    is_idle = (
        (kind in _OF_ONE and op.get_attr("N") == 1)
        or (kind == "Cast" and op.get_attr("SrcT") == op.get_attr("DstT"))
        or (kind in _OF_THE_SAME_SIZE and _size(op.inputs[0]) == _size(op.outputs[0]))
        or (kind == "Transpose" and _is_flat(op.inputs[0]))
    )
    return data[:1] if is_idle else ()


def _size(tensor: Any) -> int | None:
    found: int | None = tensor.shape.num_elements()
    return found


def _is_flat(tensor: Any) -> bool:
    """Whether at most one dimension is larger than 1; it may not be known."""
    shape = tensor.shape
    return shape.rank is None or [size == 1 for size in shape.as_list()].count(False) <= 1


def _by_reference(op: Any, slot: int) -> bool:
    return is_reference(op.outputs[slot])
