"""Running a graph: the plan of a run, and the one loop that computes it, debugged or not.

Nodes run in the order of their creation, which is a topological order because a node's inputs
exist before it. Only loops go back, and a loop runs as a block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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
from tfdbg_cli.engines.numpy.nodes import Branch, FlowContext, Loop, Operation, Tensor
from tfdbg_cli.engines.numpy.registry import OPS

__all__ = [
    "DEVICE",
    "PlanBlock",
    "Recorder",
    "RunPlan",
    "RunState",
    "RunStep",
    "VariableRef",
    "make_plan",
    "shown",
]

#: Where everything is computed, as TensorFlow would write it.
DEVICE = "/job:localhost/replica:0/task:0/device:CPU:0"

#: Called with an operation and a value for each of its outputs (``None``: an output that the run
#: did not make) as soon as they are computed.
Recorder: TypeAlias = "Callable[[Operation, Sequence[Any]], None]"


class RunState:
    """What a session keeps from run to run: the values of variables, and the random streams.

    A variable's array is replaced, never written to, so that whoever holds one keeps its value.
    Without a seed the random stream is a different one each time.
    """

    def __init__(self, seed: int | None) -> None:
        self.variables: dict[Operation, Array] = {}
        self._stream = np.random.default_rng(seed)
        self._own_streams: dict[Operation, np.random.Generator] = {}

    def read(self, op: Operation) -> Array | None:
        """The value of a variable; ``None``: it has none yet."""
        return self.variables.get(op)

    def write(self, op: Operation, value: Array) -> None:
        """Replace the value of a variable."""
        self.variables[op] = value

    def random_stream(self, op: Operation) -> np.random.Generator:
        """The stream that a random op draws from: its own if it has a seed, else the common one."""
        seed = op.attributes.get("seed")
        if seed is None:
            return self._stream
        if op not in self._own_streams:
            self._own_streams[op] = np.random.default_rng(seed)
        return self._own_streams[op]


class VariableRef:
    """What a variable node, and one that changes a variable, gives its consumers: the variable.

    Attributes:
        snapshot: the value when this reference was made, ``None`` if there was none.
    """

    __slots__ = ("op", "snapshot", "state")

    def __init__(self, state: RunState, op: Operation) -> None:
        self.state = state
        self.op = op
        self.snapshot: Array | None = state.variables.get(op)

    def read(self, reader: Operation) -> Array:
        """The value now.

        Raises:
            FailedPreconditionError: it has none; the error names the reader.
        """
        value = self.state.read(self.op)
        if value is None:
            raise FailedPreconditionError(
                reader,
                f"The variable {self.op.name} has no value yet: run its initializer first "
                "(global_variables_initializer()).",
            )
        return value

    def write(self, value: Array) -> VariableRef:
        """Replace the value; the result refers to the variable with its new value."""
        self.state.write(self.op, value)
        return VariableRef(self.state, self.op)


def shown(value: Any) -> Any:
    """An output of a node as a dump shows it: of a variable, its value when the node ran.

    Returns:
        An array; an `InconvertibleTensorProto` for a variable without a value; ``None`` for an
        output that was not made.
    """
    if type(value) is not VariableRef:
        return value
    if value.snapshot is not None:
        return value.snapshot
    return InconvertibleTensorProto(f"Uninitialized variable {value.op.name}", initialized=False)


@dataclass
class PlanBlock:
    """The nodes of one loop or branch that a run needs, in order.

    Attributes:
        items: its nodes and the blocks within it; for a loop, those of the condition.
        body: the nodes and blocks of a loop's body; its Merge and Switch nodes are apart.
        last: the place of its last node in the order of creation.
    """

    context: FlowContext
    last: int
    items: list[Operation | PlanBlock] = field(default_factory=list)
    body: list[Operation | PlanBlock] = field(default_factory=list)
    merges: list[Operation] = field(default_factory=list)
    switches: list[Operation] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class RunPlan:
    """What a run computes, in order: nodes and blocks, and the nodes in all."""

    items: list[Operation | PlanBlock]
    operations: list[Operation]


def make_plan(targets: Iterable[Operation], fed: frozenset[Tensor]) -> RunPlan:
    """Find the nodes that some targets need; what only fed tensors need is not computed."""

    def is_fed(op: Operation) -> bool:
        return bool(op.outputs) and all(tensor in fed for tensor in op.outputs)

    stack = list(targets)
    needed: set[Operation] = set()
    while stack:
        op = stack.pop()
        if op in needed or (fed and is_fed(op)):
            continue
        needed.add(op)
        stack.extend(tensor.op for tensor in op.inputs if tensor not in fed)
        stack.extend(op.control_inputs)
        stack.extend(context.pred.op for context in _around(op))
    ordered = sorted(needed, key=lambda op: op.index)
    top: list[Operation | PlanBlock] = []
    blocks: dict[FlowContext, PlanBlock] = {}
    for op in ordered:
        parent: PlanBlock | None = None
        for context in reversed(_around(op)):
            block = blocks.get(context)
            if block is None:
                block = blocks[context] = PlanBlock(context, op.index)
                _place(block, parent, top, op)
            block.last = op.index
            parent = block
        _place(op, parent, top, op)
    # A block runs when its last node comes: what was made in between, but outside, runs before it.
    for items in [top, *(part for block in blocks.values() for part in (block.items, block.body))]:
        items.sort(key=lambda item: item.last if isinstance(item, PlanBlock) else item.index)
    return RunPlan(top, ordered)


def _around(op: Operation) -> list[FlowContext]:
    """The loops and branches that a node is in, innermost first."""
    found, context = [], op.context
    while context is not None:
        found.append(context)
        context = context.parent
    return found


def _place(
    item: Operation | PlanBlock,
    parent: PlanBlock | None,
    top: list[Operation | PlanBlock],
    first: Operation,
) -> None:
    """Append an item, whose first node is ``first``, to the part of its block that it is of."""
    if parent is None:
        top.append(item)
        return
    context = parent.context
    if isinstance(context, Loop):
        if isinstance(item, Operation) and item in context.merges:
            parent.merges.append(item)
        elif isinstance(item, Operation) and item in context.switches:
            parent.switches.append(item)
        elif first.index > context.pred.op.index:
            parent.body.append(item)
        else:
            parent.items.append(item)
    else:
        parent.items.append(item)


class RunStep:
    """One run.

    Args:
        state: the session's state.
        values: tensor -> its latest value, the fed ones at first; variables as `VariableRef`.
        recorder: told of every node that was computed.
        errstate: NumPy's floating-point error handling of the caller, for the caller's functions.
    """

    def __init__(
        self,
        state: RunState,
        values: dict[Tensor, Any],
        recorder: Recorder | None,
        errstate: Mapping[str, Any],
    ) -> None:
        self.state = state
        self.values = values
        self.errstate = errstate
        self._fed = frozenset(values)
        self._recorder = recorder

    def run(self, items: Sequence[Operation | PlanBlock]) -> None:
        """Compute nodes and blocks in order.

        Raises:
            OpError: a node failed; what came before it was recorded.
        """
        for item in items:
            if type(item) is Operation:
                self._run_op(item)
            elif isinstance(item, PlanBlock):
                self._run_block(item)

    def _run_block(self, block: PlanBlock) -> None:
        context = block.context
        if isinstance(context, Branch):
            if bool(self.values[context.pred]) == context.taken_if:
                self.run(block.items)
            return
        first = True
        while self.iterate(block, first):
            first = False

    def iterate(self, block: PlanBlock, first: bool) -> bool:
        """Compute one iteration of a loop; in the first, its variables come in from outside.

        Returns:
            Whether the body was computed; if not, the loop is over.
        """
        context = block.context
        came_from = 0 if first else 1
        for merge in block.merges:
            value = self.values[merge.inputs[came_from]]
            self._finish(merge, (value, np.asarray(came_from, np.int32)))
        self.run(block.items)
        going = bool(self.values[context.pred])
        for switch in block.switches:
            value = self.values[switch.inputs[0]]
            self._finish(switch, (None, value) if going else (value, None))
        if going:
            self.run(block.body)
        return going

    def _run_op(self, op: Operation) -> None:
        definition = OPS[op.type]
        values = self.values
        inputs = [values[tensor] for tensor in op.inputs] if op.type != "Merge" else []
        refs = definition.ref_inputs
        for at, value in enumerate(inputs):
            if type(value) is VariableRef:
                if at >= refs:
                    inputs[at] = value.read(op)
            elif at < refs:
                raise InvalidArgumentError(op, f"{op.inputs[at].name} is fed: it can't be changed.")
        try:
            result = definition.kernel(self, op, inputs)
        except OpError:
            raise
        except MemoryError as error:
            raise ResourceExhaustedError(op, f"Not enough memory: {error}.") from error
        except (ValueError, TypeError, IndexError, ArithmeticError) as error:
            raise InvalidArgumentError(op, _describe(op, inputs, error)) from error
        self._finish(op, (result,) if len(op.outputs) == 1 else result)

    def _finish(self, op: Operation, results: Sequence[Any]) -> None:
        """Keep and record the outputs of a node."""
        if not op.outputs:
            return
        made: list[Any] = []
        for tensor, result in zip(op.outputs, results, strict=True):
            value = result if result is None else _as_value(result, tensor.dtype)
            made.append(value)
            if value is not None and tensor not in self._fed:
                self.values[tensor] = value
        if self._recorder is not None:
            self._recorder(op, made)


def _as_value(result: Any, dtype: DType) -> Any:
    """What a kernel returned as an array of the promised type (NumPy makes scalars of 0-d ones)."""
    if type(result) is VariableRef or (type(result) is np.ndarray and result.dtype == dtype):
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
