"""The steps of a call: its ops, loops and branches as one step each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tfdbg_cli.engines.jax.plans.plan import Block, Op, Plan
from tfdbg_cli.stepping.stepper import Step

__all__ = ["CallLayout"]


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
    """

    def __init__(self, plan: Plan) -> None:
        self.ops: list[Op] = [op for op in plan.block.ops if op.kind != "silent"]
        self.steps: list[Step] = []
        self.places: dict[str, int] = {}
        self.makers: dict[str, int] = {}
        self.readers: dict[str, list[int]] = {}
        block = plan.block
        for place in block.inputs:
            self.places[block.tensors[place]] = place
            self.makers[block.tensors[place]] = -1
        for index, op in enumerate(self.ops):
            inputs = [tensor for each in op.inputs if (tensor := block.tensor(each))]
            inside = [*op.carried, *(each.name for each in _inside(op.bodies))]
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
            for name in op.carried:
                self.makers[f"{name}:0"] = index
            for each in _inside(op.bodies):
                self.makers.update(dict.fromkeys(each.tensors, index))


def _inside(bodies: Sequence[Block]) -> Iterator[Op]:
    for block in bodies:
        for op in block.ops:
            yield op
            yield from _inside(op.bodies)
