"""Does a plan op by op."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from jax import numpy as jnp

from tfdbg_cli.common.interpreter.program_signals import pass_on
from tfdbg_cli.engines.jax.plans.ops import Block, Constant, Op
from tfdbg_cli.engines.jax.plans.shards import DivergingDevices, Shards
from tfdbg_cli.engines.jax.plans.values import chosen, is_key, is_spread
from tfdbg_cli.engines.jax.private import array_of_ref, calls_back, is_ref, scan_counts

__all__ = ["CallbackResults", "CannotReplay", "Replay"]


class CannotReplay(Exception):
    """An op that must not be done twice."""


class CallbackResults:
    """What functions of the program's that a compiled one has called have given, in their order."""

    def __init__(self) -> None:
        self._made: dict[int, list[Any]] = {}

    def add(self, callback: Any, result: Any) -> None:
        """One call is over."""
        self._made.setdefault(id(callback), []).append(result)

    @property
    def has_any(self) -> bool:
        """Whether there was a call."""
        return bool(self._made)

    def copy(self) -> CallbackResults:
        """To be taken from once more."""
        made = CallbackResults()
        made._made = {key: list(each) for key, each in self._made.items()}
        return made

    def next(self, callback: Any) -> Any:
        """What the next call has given.

        Raises:
            LookupError: it isn't known.
        """
        waiting = self._made.get(id(callback))
        if not waiting:
            raise LookupError
        return waiting.pop(0)


class Replay:
    """Computes the ops of a plan, and tells of each tensor.

    Args:
        tell: gets the name of a node, the slot and the value.
        callbacks: what has been given by functions of the program's.
        error: that the call has raised: by one of them, where it has given nothing.
    """

    def __init__(
        self,
        tell: Callable[[str, int, Any], None],
        callbacks: CallbackResults | None = None,
        error: BaseException | None = None,
    ) -> None:
        self._tell = tell
        self._callbacks = callbacks or CallbackResults()
        self._error = error
        #: The op that is done.
        self.at: Op | None = None
        #: The iteration of each loop that is around what is done, the outermost first.
        self.rounds: list[int] = []
        #: What was done as a whole, and why.
        self.wholes: list[tuple[str, str]] = []

    def run(self, block: Block, values: Sequence[Any]) -> list[Any]:
        """All ops of a block; what it returns."""
        known = dict(zip(block.inputs, values, strict=True))
        for op, places in zip(block.ops, block.done_with, strict=True):
            self.do(op, known)
            for place in places:
                known.pop(place, None)
        return self.outputs(block, known)

    def outputs(self, block: Block, known: Mapping[int, Any]) -> list[Any]:
        """What a block returns, once all its ops were done."""
        return [_value(known, each, block.shards) for each in block.outputs]

    def do(self, op: Op, known: dict[int, Any]) -> None:
        """One op: what it makes is told of and put among what is known."""
        self.at = op
        inputs = [_value(known, each, op.shards) for each in op.inputs]
        made = self._made(op, inputs)
        for slot, (place, value) in enumerate(zip(op.outputs, made, strict=False)):
            known[place] = self.told(op.name, slot, value)

    def told(self, node: str, slot: int, value: Any) -> Any:
        """Tell of a tensor; the value to go on with."""
        self._tell(node, slot, array_of_ref(value) if is_ref(value) else value)
        return value

    def _made(self, op: Op, inputs: Sequence[Any]) -> Sequence[Any]:
        if op.kind == "shard_map":
            return self._shard_map(op, inputs)
        if op.kind == "scan":
            return self._scan(op, inputs)
        try:
            if op.kind == "while":
                return self._while(op, inputs)
            if op.kind == "cond":
                branch = min(max(int(_agreed(op, inputs[0])), 0), len(op.bodies) - 1)
                return self.run(op.bodies[branch], inputs[1:])
        except DivergingDevices:
            return self._whole(op, inputs, "its devices go different ways")
        if op.kind == "callback":
            return self._call_back(op, inputs)
        if op.kind == "silent":
            return ()
        if op.op_type in ("new_ref", "mutable_array"):  # it may take its input's memory
            inputs = [jnp.copy(each) for each in inputs]
        return op.compute(inputs)

    def _shard_map(self, op: Op, inputs: Sequence[Any]) -> Sequence[Any]:
        shards = op.inside
        assert shards is not None
        try:
            given = self._begin_round(op, shards.enter(inputs))
            return shards.leave(self.run(op.bodies[0], given))
        except CannotReplay:
            raise
        except Exception as error:
            pass_on(error)
            self.at = op
            return self._whole(op, inputs, str(error).partition("\n")[0])

    def _whole(self, op: Op, inputs: Sequence[Any], why: str) -> Sequence[Any]:
        """Do an op as JAX does it."""
        if calls_back(op.equation):
            raise CannotReplay(f"{op.name} calls functions of the program's: it is not done twice")
        self.wholes.append((op.name, why))
        return op.compute(inputs)

    def _scan(self, op: Op, inputs: Sequence[Any]) -> Sequence[Any]:
        params = op.equation.params
        constants, count = scan_counts(params)
        begin = constants + count
        carried = list(inputs[constants:begin])
        stacked: list[list[Any]] = [[] for _ in op.outputs[count:]]
        order = range(params["length"])
        # NumPy's slices are views: nothing is compiled for each of them.
        sources = [_sliceable(each) for each in inputs[begin:]]
        depth = op.shards.depth if op.shards is not None else 0
        with self._loop():
            for at in reversed(order) if params["reverse"] else order:
                slices = [_slice(source, at, depth) for source in sources]
                given = self._begin_round(op, [*carried, *slices])
                made = self.run(op.bodies[0], [*inputs[:constants], *given])
                carried = made[:count]
                for several, value in zip(stacked, made[count:], strict=True):
                    several.append(value)
                self.rounds[-1] += 1
        results = op.equation.outvars[count:]
        for several in stacked if params["reverse"] else ():
            several.reverse()
        return [
            *carried,
            *(
                _stack(each, result.aval, op.shards)
                for each, result in zip(stacked, results, strict=True)
            ),
        ]

    def _while(self, op: Op, inputs: Sequence[Any]) -> Sequence[Any]:
        params = op.equation.params
        tests = params["cond_nconsts"]
        begin = tests + params["body_nconsts"]
        carried = list(inputs[begin:])
        test, body = op.bodies
        with self._loop():
            while True:
                carried = self._begin_round(op, carried)
                (is_going,) = self.run(test, [*inputs[:tests], *carried])
                goes = np.asarray(_agreed(op, is_going))
                if not goes.any():
                    return carried
                made = self.run(body, [*inputs[tests:begin], *carried])
                if goes.ndim:  # those of a batch that are through stay as they are
                    made = [chosen(goes, new, old) for new, old in zip(made, carried, strict=True)]
                carried = made
                self.rounds[-1] += 1

    @contextlib.contextmanager
    def _loop(self) -> Iterator[None]:
        self.rounds.append(0)
        try:
            yield
        finally:
            self.rounds.pop()

    def _begin_round(self, op: Op, given: Sequence[Any]) -> list[Any]:
        """Tell of what an iteration, or the inside of a ``shard_map``, gets; what it does get."""
        changed = [self.told(name, 0, value) for name, value in zip(op.carried, given, strict=True)]
        self.at = op
        return changed

    def _call_back(self, op: Op, inputs: Sequence[Any]) -> Sequence[Any]:
        if op.shards is not None:  # which device has called when isn't known
            raise CannotReplay(f"{op.name} is called by several devices: it is not done twice")
        try:
            made = self._callbacks.next(op.equation.params["callback"])
        except LookupError:
            if self._error is not None:
                raise self._error from None
            if op.op_type == "pure_callback":
                return op.compute(inputs)
            raise CannotReplay(f"{op.name} is not done twice") from None
        return [jnp.asarray(each) for each in made]


def _value(known: Mapping[int, Any], operand: int | Constant, shards: Shards | None) -> Any:
    if not isinstance(operand, Constant):
        return known[operand]
    return shards.spread(operand.value) if shards is not None else operand.value


def _agreed(op: Op, value: Any) -> Any:
    return op.shards.agreed(value) if op.shards is not None else value


def _sliceable(value: Any) -> Any:
    return value if is_key(value) or is_spread(value) else np.asarray(value)


def _slice(value: Any, at: int, depth: int) -> Any:
    found = value[(*(slice(None),) * depth, at)]
    return jnp.asarray(found) if isinstance(value, np.ndarray) else found


def _stack(values: Sequence[Any], aval: Any, shards: Shards | None) -> Any:
    depth = shards.depth if shards is not None else 0
    if not values:
        empty = jnp.zeros(aval.shape, aval.dtype)
        return shards.spread(empty) if shards is not None else empty
    if any(is_key(each) or is_spread(each) for each in values):
        return jnp.stack(values, axis=depth)
    return jnp.asarray(np.stack([np.asarray(each) for each in values], axis=depth))
