"""What MLX's ops do with nan and infinities, and which tensors of a run show all that is bad."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tfdbg_cli.engines.kit.op_facts import Op, Search, Value, table
from tfdbg_cli.engines.mlx.tape import Call, Differentiation, Ref, Tape
from tfdbg_cli.engines.mlx.tape import Op as Called

__all__ = ["FACTS", "Plan", "Plans"]

#: By op type.
FACTS = table(
    {},
    moved="""
        broadcast_to contiguous expand_dims flatten matrix_transpose moveaxis negative reshape
        squeeze stop_gradient swapaxes transpose
    """,
    picked="getitem maximum minimum where",
    made="""
        argmax argmin equal greater greater_equal isfinite isinf isnan less less_equal not_equal
    """,
    rounded="abs",
    bounded="erf sigmoid sign tanh",
    spread="add matmul mean multiply square subtract sum",
    spread_first="divide log sqrt",
)
#: What hands its input on, and what nothing is known of.
_MOVED, _UNKNOWN = "contiguous", "vjp"
_Body = list[Called | Call | Differentiation]


class _Line(NamedTuple):
    """An op of a run in the words of the search.

    Attributes:
        op: the op.
        slots: place and slot of those of its outputs that can be looked at.
    """

    op: Op
    slots: Mapping[int, tuple[int, int]]


class Plan:
    """Which outputs of a run's ops are to be looked at, for runs that call the same ones.

    Args:
        tape: of the run.

    Attributes:
        checks: place of the op -> slots of its outputs.
        leaves: what the run began with that has to be looked at, too.
        exact: the places of checks that have given a false alarm.
    """

    def __init__(self, tape: Tape) -> None:
        self.checks: dict[int, tuple[int, ...]] = {}
        self.leaves: list[Ref] = []
        self.exact: frozenset[int] = frozenset()
        self._calls = [*_calls(tape.top)]
        # Facts depend on dtypes, and on whether there are elements.
        self._leaves = [
            (ref, str(each.dtype), 0 in each.shape) for ref, each in tape.leaves.items()
        ]

    def is_of(self, other: Plan) -> bool:
        """Whether the other run has called the same ops with the same operands."""
        return self._calls == other._calls and self._leaves == other._leaves

    def find_checks(self, tape: Tape, values: Mapping[Ref, Any]) -> None:
        """Find the outputs.

        Args:
            tape: of the run.
            values: of its tensors.
        """
        lines: list[_Line] = []
        _Lines(lines, values).add(tape.top)
        search = Search(FACTS)
        found: dict[int, list[int]] = {}
        for line in reversed(lines):
            before = {*search.told}
            slots = search.check(line.op)
            if any(slot not in line.slots for slot in slots):
                # It can't be looked at: nothing is known of what it was computed from.
                search.told = before
                known = [slot for slot in slots if slot in line.slots]
                search.told.update(line.op.outputs[slot].key for slot in known)
                slots = known
            for slot in slots:
                at, place = line.slots[slot]
                found.setdefault(at, []).append(place)
        self.checks = {at: tuple(slots) for at, slots in found.items()}
        self.leaves = [
            ref
            for ref in tape.leaves
            if (value := _value(values, ref)).may_be_bad and value.key not in search.told
        ]


def _calls(body: _Body) -> Iterator[Any]:
    for each in body:
        if isinstance(each, Called):
            yield each.key
        elif isinstance(each, Call):
            yield id(each.traces), each.inputs, each.outputs
        else:
            yield each.given, each.chosen, each.values, each.gradients
            yield from _calls(each.body)


def _value(values: Mapping[Ref, Any], ref: Ref) -> Value:
    array = values.get(ref)
    if array is None:
        return Value((0, ref))
    return Value((0, ref), str(array.dtype).rpartition(".")[2], array.shape)


class _Lines:
    """Writes a tape down for the search.

    Args:
        lines: are added to.
        values: of the tape's tensors.
    """

    def __init__(self, lines: list[_Line], values: Mapping[Ref, Any]) -> None:
        self._lines, self._values = lines, values
        self._at = self._scope = 0

    def add(self, body: _Body) -> None:
        """The ops of a body."""
        for each in body:
            if isinstance(each, Called):
                if each.error is None:
                    self._op(each.type, each.inputs, each.outputs)
            elif isinstance(each, Call):
                self._call(each)
            else:
                for inner, given in each.given:
                    self._line(_MOVED, [self._value(given)], [self._value(inner)], {})
                self.add(each.body)
                for value, made in each.values:
                    self._line(_MOVED, [self._value(made)], [self._value(value)], {})
                self._op(_UNKNOWN, (), each.gradients)

    def _op(self, op_type: str, inputs: Iterable[Ref], outputs: Sequence[Ref]) -> None:
        slots = {slot: (self._at, slot) for slot in range(len(outputs))}
        self._at += 1
        self._line(op_type, map(self._value, inputs), map(self._value, outputs), slots)

    def _line(
        self,
        op_type: str,
        inputs: Iterable[Value],
        outputs: Iterable[Value],
        slots: Mapping[int, tuple[int, int]],
    ) -> None:
        self._lines.append(_Line(Op(op_type, (*inputs,), (*outputs,)), slots))

    def _value(self, ref: Ref) -> Value:
        return _value(self._values, ref)

    def _call(self, call: Call) -> None:
        trace = call.trace([self._values[ref] for ref in call.inputs])
        if trace is None:
            self._op(_UNKNOWN, call.inputs, call.outputs)
            return
        known = dict(zip(trace.inputs, map(self._value, call.inputs), strict=True))
        slots = {}
        for slot, (inner, ref) in enumerate(zip(trace.outputs, call.outputs, strict=True)):
            known.setdefault(inner, self._value(ref))
            slots[known[inner].key] = (self._at, slot)
        self._at += 1
        self._traced(trace.top, known, slots)

    def _traced(
        self, body: _Body, known: dict[Ref, Value], slots: Mapping[Any, tuple[int, int]]
    ) -> None:
        """What a compiled function computes; only its outputs can be looked at."""
        self._scope += 1
        scope = self._scope

        def value(ref: Ref) -> Value:
            return known.setdefault(ref, Value((scope, ref)))

        def line(op_type: str, inputs: Iterable[Ref], outputs: Iterable[Ref]) -> None:
            made = [*map(value, outputs)]
            places = {at: slots[each.key] for at, each in enumerate(made) if each.key in slots}
            self._line(op_type, [*map(value, inputs)], made, places)

        def add(body: _Body) -> None:
            for each in body:
                if isinstance(each, Called):
                    line(each.type, each.inputs, each.outputs)
                elif isinstance(each, Call):
                    line("compiled", each.inputs, each.outputs)
                else:
                    for inner, given in each.given:
                        line(_MOVED, [given], [inner])
                    add(each.body)
                    for outer, made in each.values:
                        line(_MOVED, [made], [outer])
                    line(_UNKNOWN, (), each.gradients)

        add(body)


class Plans:
    """The plans of the runs before, by kind."""

    def __init__(self) -> None:
        self._known: dict[str, list[Plan]] = {}

    def latest(self, kind: str) -> Plan | None:
        """That of the last run; ``None``: there was none."""
        known = self._known.get(kind)
        return known[-1] if known else None

    def add(self, kind: str, plan: Plan) -> None:
        """The last run was one of this plan."""
        self._known[kind] = [plan]
