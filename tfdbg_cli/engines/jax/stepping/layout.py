"""The steps of a call: its ops, loops and branches as one step each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from tfdbg_cli.engines.jax.plans.ops import Op
from tfdbg_cli.engines.jax.plans.plan import Plan
from tfdbg_cli.engines.jax.stepping.given import elements_shape
from tfdbg_cli.stepping.stepper import Step

__all__ = ["CallLayout", "InsideTensor"]

_LOOPS = ("scan", "while")


class InsideTensor(NamedTuple):
    """A tensor of the inside of a step.

    Attributes:
        is_in_loop: it may have several values.
        most: so many at most; ``None``: a ``while`` decides.
        aval: what is known of it before it is computed; of one device in a ``shard_map``.
        shape: of its array.
    """

    is_in_loop: bool
    most: int | None
    aval: Any
    shape: tuple[int, ...]


class CallLayout:
    """What the steps of a plan are.

    Args:
        plan: of the call.

    Attributes:
        ops: one per step.
        steps: as the debugger knows them.
        places: tensor -> its place, of those that go from step to step.
        makers: tensor -> the index of the step that makes it, -1 for an input; those inside of
            loops are among them.
        readers: tensor -> the indices of the steps that read it.
        inside: what is inside of steps.
    """

    def __init__(self, plan: Plan) -> None:
        self.ops: list[Op] = [op for op in plan.block.ops if op.kind != "silent"]
        self.steps: list[Step] = []
        self.places: dict[str, int] = {}
        self.makers: dict[str, int] = {}
        self.readers: dict[str, list[int]] = {}
        self.inside: dict[str, InsideTensor] = {}
        block = plan.block
        for place in block.inputs:
            self.places[block.tensors[place]] = place
            self.makers[block.tensors[place]] = -1
        for index, op in enumerate(self.ops):
            inputs = [tensor for each in op.inputs if (tensor := block.tensor(each))]
            inside = dict.fromkeys(name for name, _, _ in _inside(op))
            self.steps.append(
                Step(
                    op.name,
                    op.op_type,
                    tuple(dict.fromkeys(inputs)),
                    tuple(op.tensors),
                    (op.name, *inside),
                )
            )
            for place, tensor in zip(op.outputs, op.tensors, strict=True):
                self.places[tensor] = place
                self.makers[tensor] = index
            for tensor in dict.fromkeys(inputs):
                self.readers.setdefault(tensor, []).append(index)
            for name, slot, found in _inside(op):
                self.makers[f"{name}:{slot}"] = index
                self.inside[f"{name}:{slot}"] = found

    def is_loop(self, index: int) -> bool:
        """Whether a step is one that has iterations."""
        return self.ops[index].kind in _LOOPS


def _inside(
    op: Op, is_in_loop: bool = False, most: int | None = 1
) -> Iterator[tuple[str, int, InsideTensor]]:
    """The tensors inside of an op: node, slot, what is known."""
    is_in_loop = is_in_loop or op.kind in _LOOPS
    if op.kind == "while":
        most = None
    elif op.kind == "scan" and most is not None:
        most *= op.equation.params["length"]
    shards = op.inside or op.shards

    def known(aval: Any) -> InsideTensor:
        shape = elements_shape(aval)
        if shards is not None:  # an axis for each of the mesh
            shape = (*shards.shape(aval), *shape[len(aval.shape) :])
        return InsideTensor(is_in_loop, most, aval, shape)

    for name, aval in zip(op.carried, op.carried_avals, strict=True):
        yield name, 0, known(aval)
    for block in op.bodies:
        for each in block.ops:
            for slot, variable in enumerate(each.equation.outvars):
                yield each.name, slot, known(variable.aval)
            yield from _inside(each, is_in_loop, most)
