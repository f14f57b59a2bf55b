"""Running a graph: the plan of a run, and the one loop that computes it, debugged or not.

Nodes run in the order of their creation, which is a topological order because a node's inputs
exist before it. Only loops go back, and a loop runs as a block.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from tfdbg_cli.dumps.dump import InconvertibleTensorProto
from tfdbg_cli.engines.numpy.dtypes import Array, DType, dtype_name
from tfdbg_cli.engines.numpy.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    OpError,
    ResourceExhaustedError,
)
from tfdbg_cli.engines.numpy.nodes import Loop, Operation, Tensor
from tfdbg_cli.engines.numpy.registry import OPS

__all__ = ["DEVICE", "PlanBlock", "Recorder", "RunPlan", "RunState", "RunStep", "make_plan"]

#: Where everything is computed, as TensorFlow would write it.
DEVICE = "/job:localhost/replica:0/task:0/device:CPU:0"

#: Called with an operation and a value for each of its outputs (``None``: an output that the run
#: did not make) as soon as they are computed.
Recorder: TypeAlias = "Callable[[Operation, Sequence[Any]], None]"


@dataclass
class RunState:
    """What a session keeps from run to run: the values of variables, and the random stream.

    A variable's array is replaced, never written to, so that whoever holds one keeps its value.
    """

    variables: dict[Operation, Array]
    stream: np.random.Generator
    lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self, ref: Tensor, reader: Operation) -> Array:
        """The value of the variable that a tensor refers to; an error names who reads it."""
        assert ref.variable is not None
        value = self.variables.get(ref.variable)
        if value is None:
            raise FailedPreconditionError(
                reader,
                f"The variable {ref.variable.name} has no value yet: run its initializer first "
                "(global_variables_initializer()).",
            )
        return value

    def write(self, ref: Tensor, value: Array) -> None:
        """Replace the value of the variable that a tensor refers to."""
        assert ref.variable is not None
        self.variables[ref.variable] = value


@dataclass(frozen=True, eq=False)
class PlanBlock:
    """What a run needs of a loop.

    Attributes:
        index: the place of its last node in the order of creation.
        members: its nodes, those of loops inside it too.
        head: what is done in each iteration: Merge, condition, LoopCond, Switch.
        body: what is done if the condition holds.
    """

    loop: Loop
    index: int
    members: Sequence[Operation]
    head: RunPlan
    body: RunPlan


#: What a run computes, in order.
RunPlan: TypeAlias = tuple[Operation | PlanBlock, ...]


def make_plan(targets: Iterable[Operation], fed: frozenset[Tensor]) -> RunPlan:
    """Find the nodes that some targets need; what only fed tensors need is not computed."""
    stack = list(targets)
    needed: set[Operation] = set()
    while stack:
        op = stack.pop()
        if op in needed or (fed and op.outputs and fed.issuperset(op.outputs)):
            continue
        needed.add(op)
        stack.extend(tensor.op for tensor in op.inputs if tensor not in fed)
        stack.extend(op.control_inputs)
        loop = op.loop
        while loop is not None:
            stack.append(loop.pred.op)
            loop = loop.parent
    return _arranged(sorted(needed, key=lambda op: op.index), None)


def _arranged(ops: Iterable[Operation], around: Loop | None) -> RunPlan:
    """Nodes of a loop, or of none, in order; those of loops inside it are in blocks."""
    items: list[Operation | PlanBlock] = []
    inside: dict[Loop, list[Operation]] = {}
    for op in ops:
        loop = op.loop
        while loop is not around and loop is not None and loop.parent is not around:
            loop = loop.parent
        if loop is None or loop is around:
            items.append(op)
        else:
            inside.setdefault(loop, []).append(op)
    for loop, members in inside.items():
        head = _arranged((op for op in members if op.index < loop.body), loop)
        body = _arranged((op for op in members if op.index >= loop.body), loop)
        items.append(PlanBlock(loop, members[-1].index, members, head, body))
    # A block runs when its last node comes: what was made in between, but outside, runs before it.
    return tuple(sorted(items, key=lambda item: item.index))


class RunStep:
    """One run.

    Args:
        state: the session's state.
        values: tensor -> its latest value, the fed ones at first; of a variable, what it was when
            the node ran, an `InconvertibleTensorProto` if it had none.
        recorder: told of every node that was computed.
    """

    def __init__(
        self, state: RunState, values: dict[Tensor, Any], recorder: Recorder | None = None
    ) -> None:
        self.state = state
        self.values = values
        self._fed = frozenset(values)
        self._recorder = recorder

    def run(self, items: RunPlan) -> None:
        """Compute nodes and blocks in order.

        Raises:
            OpError: a node failed; what came before it was recorded.
        """
        for item in items:
            if type(item) is Operation:
                self._run_op(item)
            elif isinstance(item, PlanBlock):
                is_going = self.iterate(item, True)
                while is_going:
                    is_going = self.iterate(item, False)

    def iterate(self, block: PlanBlock, is_first: bool) -> bool:
        """Compute one iteration of a loop, the first or a later one; whether it goes on then."""
        if is_first:
            for op in block.members:
                if op.type == "Merge":
                    self.values.pop(op.inputs[1], None)
        self.run(block.head)
        is_going = bool(self.values[block.loop.pred])
        if is_going:
            self.run(block.body)
        return is_going

    def _run_op(self, op: Operation) -> None:
        definition = OPS[op.type]
        values = self.values
        inputs = [
            values[tensor] if tensor.variable is None else self._referred(tensor, op)
            for tensor in (op.inputs if op.type != "Merge" else ())
        ]
        try:
            result = definition.kernel(self, op, inputs)
        except OpError:
            raise
        except MemoryError as error:
            raise ResourceExhaustedError(op, f"Not enough memory: {error}.") from error
        except (ValueError, TypeError, IndexError, ArithmeticError) as error:
            raise InvalidArgumentError(op, _describe(op, inputs, error)) from error
        if op.outputs:
            self._finish(op, (result,) if len(op.outputs) == 1 else result)

    def _referred(self, ref: Tensor, op: Operation) -> Any:
        if ref not in self._fed:
            return None if op.type == "Assign" else self.state.read(ref, op)
        if ref in op.inputs[: OPS[op.type].ref_inputs]:
            raise InvalidArgumentError(op, f"{ref.name} is fed: it can't be changed.")
        return self.values[ref]

    def _finish(self, op: Operation, results: Sequence[Any]) -> None:
        """Keep and record the outputs of a node."""
        made: list[Any] = []
        for tensor, result in zip(op.outputs, results, strict=True):
            made.append(result if result is None else _as_value(result, tensor.dtype))
            if result is not None and tensor not in self._fed:
                self.values[tensor] = made[-1]
        if self._recorder is not None:
            self._recorder(op, made)


def _as_value(result: Any, dtype: DType) -> Any:
    """What a kernel returned as an array of the promised type (NumPy makes scalars of 0-d ones)."""
    if type(result) is np.ndarray and result.dtype == dtype:
        return result
    if type(result) is InconvertibleTensorProto:
        return result
    return np.asarray(result, dtype=dtype)


def _describe(op: Operation, inputs: Sequence[Any], error: Exception) -> str:
    """The message of a failed kernel, with what it was given."""
    text = str(error).strip().rstrip(".") or type(error).__name__
    given = [
        f"{tensor.name} {dtype_name(value.dtype)}{list(value.shape)}"
        for tensor, value in zip(op.inputs, inputs, strict=False)
        if isinstance(value, np.ndarray)
    ]
    return f"{text}. Inputs: {', '.join(given)}." if given else f"{text}."
