"""The steps of a plan: what is done at a time, what it reads and what it makes."""

from __future__ import annotations

from collections.abc import Sequence

from tfdbg_cli.engines.numpy.executor import PlanBlock, RunPlan
from tfdbg_cli.engines.numpy.nodes import Operation, Tensor
from tfdbg_cli.stepping.stepper import Step

__all__ = ["NodeLayout"]


class NodeLayout:
    """The steps of a run, in order.

    Args:
        plan: what is to be computed.
        fed: the fed tensors; they come first, in this order.

    Attributes:
        steps: as the user sees them.
        items: for each step, what the executor computes; ``None``: nothing, the value is fed.
        made: for each step, every tensor that is computed, those inside a loop as well.
        tensors: name -> tensor, of all that the run knows.
        makers: tensor name -> index of the step that makes it.
        readers: tensor name -> indices of the steps that read it.
        caveats: what can't be done with this run, a sentence each.
    """

    def __init__(self, plan: RunPlan, fed: Sequence[Tensor]) -> None:
        members = [item.members if isinstance(item, PlanBlock) else (item,) for item in plan]
        computed = {op for inside in members for op in inside}
        feeds: dict[Operation, list[Tensor]] = {}
        for tensor in fed:
            # A node that runs for another of its outputs has its step among the computed ones.
            if tensor.op not in computed:
                feeds.setdefault(tensor.op, []).append(tensor)
        self.items = (*(None for _ in feeds), *plan)
        self.made: list[list[Tensor]] = [[] for _ in feeds]
        self.readers: dict[str, list[int]] = {}
        inputs = [_inputs(inside) for inside in members]
        for index, names in enumerate(inputs, len(feeds)):
            for name in names:
                self.readers.setdefault(name, []).append(index)
        self.steps = [
            Step(op.name, op.type, (), tuple(t.name for t in tensors), (op.name,), is_feed=True)
            for op, tensors in feeds.items()
        ]
        for item, inside, names in zip(plan, members, inputs, strict=True):
            made = [tensor for op in inside for tensor in op.outputs]
            outputs = tuple(tensor.name for tensor in made)
            if isinstance(item, PlanBlock):
                leaving = tuple(name for name in outputs if name in self.readers)
                nodes = tuple(op.name for op in inside)
                step = Step(item.loop.name, "while_loop", names, leaving, nodes)
            else:
                step = Step(item.name, item.type, names, outputs, (item.name,), unfit=_unfit(item))
            self.steps.append(step)
            self.made.append([tensor for tensor in made if tensor not in fed])
        self.tensors = {t.name: t for tensors in (fed, *self.made) for t in tensors}
        self.makers = {name: at for at, step in enumerate(self.steps) for name in step.outputs}
        self.makers.update((t.name, at) for at, tensors in enumerate(self.made) for t in tensors)
        self.caveats = [
            f"The loop {item.loop.name} is one step: its inside can be looked at, not overridden."
            for item in plan
            if isinstance(item, PlanBlock)
        ]


def _inputs(members: Sequence[Operation]) -> tuple[str, ...]:
    """What comes in from other steps."""
    inside = {tensor for op in members for tensor in op.outputs}
    found = dict.fromkeys(tensor for op in members for tensor in op.inputs)
    return tuple(tensor.name for tensor in found if tensor not in inside)


def _unfit(op: Operation) -> str:
    """Why the outputs of a node can't be overridden: it gives a variable, no value."""
    variable = op.outputs[0].variable if op.outputs else None
    if variable is None:
        return ""
    return (
        f"{op.name} gives the variable {variable.name} itself and not a value: override what goes "
        f"into it or what reads it, e.g. {variable.name}/read:0."
    )
