"""The steps of a run, and what depends on what among them."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from tfdbg_cli.engines.tensorflow.sessions.capture.liveness import Liveness, ordered_run
from tfdbg_cli.engines.tensorflow.sessions.capture.topology import Buffers, edge_of
from tfdbg_cli.engines.tensorflow.sessions.requests import RunRequest
from tfdbg_cli.engines.tensorflow.sessions.stepping.effects import VARIABLES, Effects, is_handle
from tfdbg_cli.engines.tensorflow.shared.body_nodes import Functions
from tfdbg_cli.engines.tensorflow.shared.private import is_reference, serial_of
from tfdbg_cli.engines.tensorflow.shared.values import holdable
from tfdbg_cli.stepping.stepper import Step

__all__ = ["Unit", "UnitLayout", "make_layout"]


@dataclass(frozen=True, eq=False, slots=True)
class Unit:
    """What one step does.

    Attributes:
        index: its place among the steps.
        ops: the operations; none for a feed; several for a loop of version 1.
        step: as the user sees it.
        reads, writes: variables, as the operations that hold them.
        shares: state of the run, as the operations that make it.
        keeps: why it is not executed again, as `Effect.keeps`.
        draws: the names of the operations inside of it that draw random numbers.
    """

    index: int
    ops: tuple[Any, ...]
    step: Step
    reads: frozenset[Any] = frozenset()
    writes: frozenset[Any] = frozenset()
    shares: frozenset[Any] = frozenset()
    keeps: str = ""
    draws: tuple[str, ...] = ()


class UnitLayout:
    """The units of one run.

    Args:
        units: in the order in which they are done.
        alive: which operations are computed in every run.
        edges: operation -> its inputs.
        fed: ``(operation, slot)`` of the fed tensors.
        buffers: of reference variables.
        asked: ``(operation, slot)`` of what is fetched; slot -1: an operation.

    Attributes:
        units, edges, fed, asked: as above.
        live: as in `Buffers`.
        ends: variable -> the units that make a fetched tensor with its buffer: what is fetched is
            what the variable is at the end of the run.
        steps: those of the units.
        unit_of: operation -> its unit.
        tensors: name -> tensor, of all that the run makes or is fed.
        readers: ``(operation, slot)`` -> the indices of the units that it goes into.
        users: variable or state of the run -> the indices of the units that work on it.
        places: the name of an operation -> the index of its unit.
    """

    def __init__(
        self,
        units: Sequence[Unit],
        alive: Liveness,
        edges: dict[Any, Any],
        fed: frozenset[tuple[Any, int]],
        buffers: Buffers,
        asked: Collection[tuple[Any, int]],
    ) -> None:
        self.units, self.edges, self.fed = units, edges, fed
        self.live, self.asked = buffers.live, asked
        self.steps = tuple(unit.step for unit in units)
        self._alive = alive
        self.unit_of = {op: unit for unit in units for op in unit.ops}
        self.tensors = {tensor.name: tensor for op in edges for tensor in op.outputs}
        self.tensors |= {op.outputs[slot].name: op.outputs[slot] for op, slot in fed}
        self.readers: dict[tuple[Any, int], list[int]] = {}
        self.users: dict[Any, list[int]] = {}
        for unit in units:
            members = set(unit.ops)
            outside = (edge for op in unit.ops for edge in edges[op].data)
            for edge in dict.fromkeys(outside):
                if edge[0] not in members or edge in fed:
                    self.readers.setdefault(edge, []).append(unit.index)
            for state in unit.reads | unit.writes | unit.shares:
                self.users.setdefault(state, []).append(unit.index)
        self.ends: dict[Any, set[int]] = {}
        for edge in asked:
            if edge[1] >= 0 and edge not in fed:
                for variable in buffers.variables(edge):
                    self.ends.setdefault(variable, set()).add(self.unit_of[edge[0]].index)
        self.places = {op.name: unit.index for unit in units for op in unit.ops}
        #: What whoever makes such runs has found out about them, by its name.
        self.known: dict[str, Any] = {}
        self._writers: dict[int, int] | None = None
        self._before: list[int] = []

    @functools.cached_property
    def variables(self) -> Sequence[Any]:
        """The variables that the run may write, in the order of the graph."""
        found = {variable for unit in self.units for variable in unit.writes}
        return tuple(sorted(found, key=serial_of))

    def writers(self, variable: Any) -> list[int]:
        """The indices of the units that may write a variable."""
        users = self.users.get(variable, ())
        return [index for index in users if variable in self.units[index].writes]

    def always(self, op: Any) -> bool:
        """Whether an operation runs exactly once, whichever way the run goes."""
        return op not in self.edges or self._alive.always(op)

    def in_loop(self, op: Any) -> bool:
        """Whether an operation runs once for each iteration of a loop of version 1."""
        return op in self._alive.frames

    def certain(self, op: Any, slot: int) -> bool:
        """Whether a tensor has exactly one value in every run, which can be fed."""
        if (op, slot) in self.fed:
            return True
        tensor = op.outputs[slot]
        return (
            self.always(op)
            and not self._alive.chooses(op)
            and not is_reference(tensor)
            and holdable(tensor.dtype)
        )

    def shown(self, op: Any, slot: int) -> bool:
        """Whether a tensor has a value in every run that a dump can show."""
        tensor = op.outputs[slot]
        if not is_reference(tensor):
            return self.certain(op, slot)
        is_variable = tensor.dtype.base_dtype.name != "string"
        return self.always(op) and is_variable and holdable(tensor.dtype)

    def depends(self, unit: int, on: int) -> bool:
        """Whether a unit has to wait for one that writes variables."""
        if self._writers is None:
            self._find_writers()
        assert self._writers is not None
        bit = self._writers.get(on)
        return bit is not None and bool(self._before[unit] >> bit & 1)

    def _find_writers(self) -> None:
        # Per unit, the units with writes that come before it, as bits.
        writing = [unit.index for unit in self.units if unit.writes]
        self._writers = {index: bit for bit, index in enumerate(writing)}
        self._before = [0] * len(self.units)
        for unit in self.units:
            mask = 0
            for source in self.sources(unit):
                mask |= self._before[source.index]
                if source.index in self._writers:
                    mask |= 1 << self._writers[source.index]
            self._before[unit.index] = mask

    def sources(self, unit: Unit) -> Iterator[Unit]:
        """The units that a unit waits for."""
        for op in unit.ops:
            data, control = self.edges[op]
            before = [edge[0] for edge in data if edge not in self.fed]
            for source in (*before, *control):
                found = self.unit_of[source]
                if found is not unit:
                    yield found


def make_layout(request: RunRequest, functions: Functions) -> UnitLayout:
    """The steps of a run.

    Args:
        request: what it is asked for and fed.
        functions: those of the graph.
    """
    fed, asked, roots, edges, ops, alive = ordered_run(request)
    groups = _group(ops, alive, edges)
    effects, buffers = Effects(functions), Buffers(edges, ops, asked)
    taken = {op.name for op in edges}
    units: list[Unit] = []
    for op in dict.fromkeys(tensor.op for tensor in request.feeds):
        if op not in edges:
            outputs = tuple(each.name for each in request.feeds if each.op is op)
            step = Step(op.name, op.type, (), outputs, (op.name,), is_feed=True)
            units.append(Unit(len(units), (), step))
    for members in groups:
        units.append(_unit(len(units), members, effects, buffers.users, fed, alive, taken))
    return UnitLayout(units, alive, edges, fed, buffers, roots)


def _group(ops: Iterable[Any], alive: Liveness, edges: dict[Any, Any]) -> list[tuple[Any, ...]]:
    """The operations of each step: loops of version 1, with what leaves them, are one."""
    loops: dict[str, list[Any]] = {}
    places: list[Any] = []
    last: dict[str, int] = {}
    for op in ops:
        frames = alive.frames.get(op)
        if not frames and op.type.endswith("Exit"):
            frames = next((alive.frames[each] for each, _ in edges[op].data), None)
            if frames:
                loops[frames[0]].append(op)
                continue
        if frames:
            loops.setdefault(frames[0], []).append(op)
            last[frames[0]] = len(places)
            places.append(None)
        else:
            places.append(op)
    ends = {place: frame for frame, place in last.items()}
    groups = []
    for at, op in enumerate(places):
        if op is not None:
            groups.append((op,))
        elif at in ends:
            groups.append(tuple(loops[ends[at]]))
    return groups


def _unit(
    index: int,
    ops: tuple[Any, ...],
    effects: Effects,
    late: Mapping[Any, Set[Any]],
    fed: frozenset[tuple[Any, int]],
    alive: Liveness,
    taken: set[str],
) -> Unit:
    found = [effects.of(op) for op in ops]
    keeps, draws = found[0].keeps, found[0].draws
    if len(ops) > 1:
        names = [op.name for op, each in zip(ops, found, strict=True) if each.keeps == "random"]
        draws = (*names, *(name for each in found for name in each.draws))
        reasons = [each.keeps for each in found if each.keeps not in ("", "random", "print")]
        keeps = reasons[0] if reasons else ""
    return Unit(
        index,
        ops,
        _step(ops, fed, alive, taken),
        frozenset().union(
            *(each.reads - {op} for op, each in zip(ops, found, strict=True)),
            *(late[op] for op in ops if op in late),
        ),
        frozenset().union(*(each.writes for each in found)),
        frozenset().union(*(each.shares for each in found)),
        keeps,
        draws,
    )


def _step(
    ops: tuple[Any, ...], fed: frozenset[tuple[Any, int]], alive: Liveness, taken: set[str]
) -> Step:
    members = set(ops)
    inputs = dict.fromkeys(
        tensor.name
        for op in ops
        for tensor in op.inputs
        if tensor.op not in members or edge_of(tensor) in fed
    )
    names = tuple(op.name for op in ops)
    if len(ops) == 1:
        op = ops[0]
        made = tuple(tensor.name for tensor in op.outputs)
        return Step(op.name, op.type, tuple(inputs), made, names, unfit=_unfit(op))
    leaving = tuple(tensor.name for op in ops if op not in alive.frames for tensor in op.outputs)
    return Step(_loop_name(ops, alive, taken), "while_loop", tuple(inputs), leaving, names)


def _loop_name(ops: Iterable[Any], alive: Liveness, taken: set[str]) -> str:
    """The scope of a loop; where that isn't clear, what ends it."""
    ops = list(ops)
    frame: str = next(alive.frames[op][0] for op in ops if op in alive.frames)
    scope = frame.rpartition("/")[0]
    end = next((op.name for op in ops if op.type == "LoopCond" and len(alive.frames[op]) == 1), "")
    for name in (scope, end.rpartition("/")[0], end, frame):
        inside = any(op.name.startswith(f"{name}/") for op in ops)
        if name and (name == end or (inside and name not in taken)):
            taken.add(name)
            return str(name)
    return str(ops[0].name)


def _unfit(op: Any) -> str:
    """Why the outputs of an operation can't be overridden."""
    if not op.outputs:
        return f"{op.name} makes no tensor."
    tensor = op.outputs[0]
    if is_reference(tensor):
        what = "the variable" if op.type in VARIABLES else "a reference to a variable"
        return (
            f"{op.name} gives {what} itself and no value: override what goes into it or what "
            "reads it."
        )
    if all(is_handle(each) for each in op.outputs):
        return f"{op.name} gives a handle and no value: override what reads it."
    if not any(holdable(each.dtype) for each in op.outputs):
        kind = tensor.dtype.base_dtype.name
        return f"{op.name} gives a tensor of type {kind}, which no array can hold."
    return ""
