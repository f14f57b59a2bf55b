"""What the ops of a call compute, as it was called and with other values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tfdbg_cli.engines.jax.plans.ops import Constant, Op
from tfdbg_cli.engines.jax.plans.replay import CallbackResults, Replay

__all__ = ["ComputedTensor", "InnerValue", "World"]


class ComputedTensor(NamedTuple):
    """A tensor that was computed, at one moment.

    Attributes:
        rounds: the iteration of each loop that it is in, the outermost first.
    """

    node: str
    slot: int
    value: Any
    rounds: tuple[int, ...] = ()


class InnerValue(NamedTuple):
    """One of the values of a tensor of the inside of a loop or a branch.

    Attributes:
        tensor: its name.
        number: of the value, as a dump counts them: in the order in which they are made, from 0.
    """

    tensor: str
    number: int


class _ChangedReplay(Replay):
    """Goes on with other values."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._others: Mapping[InnerValue, Any] = {}
        # How many values of each of their tensors there were.
        self._counts: dict[str, int] = {}

    def change(self, others: Mapping[InnerValue, Any]) -> None:
        """Another op is done: the values that tensors inside of it have instead."""
        self._others = others
        self._counts = dict.fromkeys((each.tensor for each in others), 0)

    def told(self, node: str, slot: int, value: Any) -> Any:
        tensor = f"{node}:{slot}" if self._others else ""
        if tensor in self._counts:
            number = self._counts[tensor]
            self._counts[tensor] = number + 1
            value = self._others.get(InnerValue(tensor, number), value)
        return super().told(node, slot, value)


class World:
    """The ops of a call, done one after the other as far as somebody asks.

    Args:
        ops: in their order.
        values: place -> value, of the inputs.
        callbacks: what functions of the program's have given.
        error: of the call itself.
        base: the call without other values; ``None``: this is it.
        others: place -> the value that it has instead.
        inside: index of an op -> the values that tensors inside of it have instead.

    Attributes:
        known: place -> value.
        told: per op what it has made, loops' insides included.
        changed: the places that have another value than in the base.
    """

    def __init__(
        self,
        ops: Sequence[Op],
        values: Mapping[int, Any],
        callbacks: CallbackResults,
        error: BaseException | None,
        base: World | None = None,
        others: Mapping[int, Any] | None = None,
        inside: Mapping[int, Mapping[InnerValue, Any]] | None = None,
    ) -> None:
        self._ops = ops
        self._others = others or {}
        self._inside = inside or {}
        self._base = base
        self.known: dict[int, Any] = {**values, **self._others}
        self.changed: set[int] = set(self._others)
        self.told: list[list[ComputedTensor]] = []
        self.computed: set[int] = set()
        self._now: list[ComputedTensor] = []
        self._begun = -1
        self._replay = _ChangedReplay(self._tell, callbacks, error)

    @property
    def done(self) -> int:
        """How many ops were done."""
        return len(self.told)

    def told_of(self, index: int) -> Sequence[ComputedTensor]:
        """What an op has made; of the one that has failed, what it had made before."""
        if index < self.done:
            return self.told[index]
        return self._now if index == self._begun else ()

    def reach(self, count: int) -> None:
        """Do as many ops, if they aren't done.

        Raises:
            Exception: what an op raises; it is not done then.
        """
        while self.done < min(count, len(self._ops)):
            self._do(self.done)

    def _do(self, index: int) -> None:
        op, base = self._ops[index], self._base
        self._begun, self._now = index, []
        self._replay.change(self._inside.get(index, {}))
        is_changed = self._is_changed(op) or index in self._inside
        if base is not None and (op.op_type == "io_callback" or not is_changed):
            base.reach(index + 1)  # it is as it was, or not done twice
            self._now = list(base.told[index])
            self.known.update((place, base.known[place]) for place in op.outputs)
        elif base is not None and op.kind == "callback":
            inputs = [_value(self.known, each) for each in op.inputs]
            for slot, value in enumerate(op.compute(inputs)):
                self.known[op.outputs[slot]] = value
                self._tell(op.name, slot, value)
            self._mark(index)
        else:
            self._replay.do(op, self.known)
            self._mark(index)
        for slot, place in enumerate(op.outputs):
            if place in self._others:
                other = self._others[place]
                self.known[place] = other
                self._now = [
                    each._replace(value=other) if each[:2] == (op.name, slot) else each
                    for each in self._now
                ]
        self.told.append(self._now)

    def _mark(self, index: int) -> None:
        if self._base is not None:
            self.changed.update(self._ops[index].outputs)
            self.computed.add(index)

    def _is_changed(self, op: Op) -> bool:
        return any(not isinstance(each, Constant) and each in self.changed for each in op.inputs)

    def _tell(self, node: str, slot: int, value: Any) -> None:
        self._now.append(ComputedTensor(node, slot, value, (*self._replay.rounds,)))


def _value(known: Mapping[int, Any], operand: int | Constant) -> Any:
    return operand.value if isinstance(operand, Constant) else known[operand]
