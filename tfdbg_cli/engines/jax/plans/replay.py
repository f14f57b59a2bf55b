"""Does a plan op by op."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jax import numpy as jnp

from tfdbg_cli.engines.jax.plans.plan import Block, Constant, Op
from tfdbg_cli.engines.jax.plans.values import chosen, is_key
from tfdbg_cli.engines.jax.private import scan_counts

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

    def run(self, block: Block, values: Sequence[Any]) -> list[Any]:
        """All ops of a block; what it returns."""
        known = dict(zip(block.inputs, values, strict=True))
        for op in block.ops:
            self.do(op, known)
        return self.outputs(block, known)

    def outputs(self, block: Block, known: Mapping[int, Any]) -> list[Any]:
        """What a block returns, once all its ops were done."""
        return [_value(known, each) for each in block.outputs]

    def do(self, op: Op, known: dict[int, Any]) -> None:
        """One op: what it makes is told of and put among what is known."""
        self.at = op
        inputs = [_value(known, each) for each in op.inputs]
        made = self._made(op, inputs)
        for slot, (place, value) in enumerate(zip(op.outputs, made, strict=False)):
            known[place] = value
            self._tell(op.name, slot, value)

    def _made(self, op: Op, inputs: Sequence[Any]) -> Sequence[Any]:
        if op.kind == "scan":
            return self._scan(op, inputs)
        if op.kind == "while":
            return self._while(op, inputs)
        if op.kind == "cond":
            branch = min(max(int(inputs[0]), 0), len(op.bodies) - 1)
            return self.run(op.bodies[branch], inputs[1:])
        if op.kind == "callback":
            return self._call_back(op, inputs)
        if op.kind == "silent":
            return ()
        return op.compute(inputs)

    def _scan(self, op: Op, inputs: Sequence[Any]) -> Sequence[Any]:
        params = op.equation.params
        constants, count = scan_counts(params)
        begin = constants + count
        carried, slices = list(inputs[constants:begin]), inputs[begin:]
        stacked: list[list[Any]] = [[] for _ in op.outputs[count:]]
        order = range(params["length"])
        # NumPy's slices are views: nothing is compiled for each of them.
        sources = [_sliceable(each) for each in slices]
        for at in reversed(order) if params["reverse"] else order:
            given = [*carried, *(_slice(source, at) for source in sources)]
            self._begin_round(op, given)
            made = self.run(op.bodies[0], [*inputs[:constants], *given])
            carried = made[:count]
            for several, value in zip(stacked, made[count:], strict=True):
                several.append(value)
        results = op.equation.outvars[count:]
        for several in stacked if params["reverse"] else ():
            several.reverse()
        return [
            *carried,
            *(_stack(each, result.aval) for each, result in zip(stacked, results, strict=True)),
        ]

    def _while(self, op: Op, inputs: Sequence[Any]) -> Sequence[Any]:
        params = op.equation.params
        tests = params["cond_nconsts"]
        begin = tests + params["body_nconsts"]
        carried = list(inputs[begin:])
        test, body = op.bodies
        while True:
            self._begin_round(op, carried)
            (is_going,) = self.run(test, [*inputs[:tests], *carried])
            goes = np.asarray(is_going)
            if not goes.any():
                return carried
            made = self.run(body, [*inputs[tests:begin], *carried])
            if goes.ndim:  # those of a batch that are through stay as they are
                made = [chosen(goes, new, old) for new, old in zip(made, carried, strict=True)]
            carried = made

    def _begin_round(self, op: Op, given: Sequence[Any]) -> None:
        for name, value in zip(op.carried, given, strict=True):
            self._tell(name, 0, value)
        self.at = op

    def _call_back(self, op: Op, inputs: Sequence[Any]) -> Sequence[Any]:
        try:
            made = self._callbacks.next(op.equation.params["callback"])
        except LookupError:
            if self._error is not None:
                raise self._error from None
            if op.op_type == "pure_callback":
                return op.compute(inputs)
            raise CannotReplay(f"{op.name} is not done twice") from None
        return [jnp.asarray(each) for each in made]


def _value(known: Mapping[int, Any], operand: int | Constant) -> Any:
    return operand.value if isinstance(operand, Constant) else known[operand]


def _sliceable(value: Any) -> Any:
    return value if is_key(value) else np.asarray(value)


def _slice(value: Any, at: int) -> Any:
    return jnp.asarray(value[at]) if isinstance(value, np.ndarray) else value[at]


def _stack(values: Sequence[Any], aval: Any) -> Any:
    if not values:
        return jnp.zeros(aval.shape, aval.dtype)
    if any(map(is_key, values)):
        return jnp.stack(values)
    return jnp.asarray(np.stack([np.asarray(each) for each in values]))
