"""The steps of a plan: what is done at a time, what it reads and what it makes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tfdbg_cli.engines.numpy.executor import PlanBlock, RunPlan
from tfdbg_cli.engines.numpy.nodes import Operation, Tensor
from tfdbg_cli.stepping.stepper import Step

__all__ = ["NodeLayout", "make_layout"]

_NAMED = 3


@dataclass(frozen=True)
class NodeLayout:
    """The steps of a run, in order; the sequences have an element for each.

    Attributes:
        steps: as the user sees them.
        items: what the executor computes; ``None``: nothing, the value is fed.
        made: every tensor that is computed, those inside a loop as well.
        tensors: name -> tensor, of all that the run knows.
        makers: tensor name -> index of the step that makes it.
        readers: tensor name -> indices of the steps that read it.
        caveats: what can't be done with this run, a sentence each.
    """

    steps: tuple[Step, ...]
    items: tuple[Operation | PlanBlock | None, ...]
    made: tuple[tuple[Tensor, ...], ...]
    tensors: Mapping[str, Tensor]
    makers: Mapping[str, int]
    readers: Mapping[str, Sequence[int]]
    caveats: tuple[str, ...]


def make_layout(plan: RunPlan, fed: Iterable[Tensor]) -> NodeLayout:
    """The steps of a plan.

    Args:
        plan: what is to be computed.
        fed: the fed tensors; they come first, in this order.
    """
    members = [item.members if isinstance(item, PlanBlock) else (item,) for item in plan]
    computed, given = {op for inside in members for op in inside}, dict.fromkeys(fed)
    feeds: dict[Operation, list[Tensor]] = {}
    for tensor in given:
        # A node that runs for another of its outputs has its step among the computed ones.
        if tensor.op not in computed:
            feeds.setdefault(tensor.op, []).append(tensor)
    inputs = [_inputs(inside) for inside in members]
    readers: dict[str, list[int]] = {}
    for index, names in enumerate(inputs, len(feeds)):
        for name in names:
            readers.setdefault(name, []).append(index)
    steps = [
        Step(op.name, op.type, (), tuple(t.name for t in tensors), (op.name,), is_feed=True)
        for op, tensors in feeds.items()
    ]
    for item, inside, names in zip(plan, members, inputs, strict=True):
        outputs = tuple(tensor.name for op in inside for tensor in op.outputs)
        if isinstance(item, PlanBlock):
            leaving = tuple(name for name in outputs if name in readers)
            nodes = tuple(op.name for op in inside)
            steps.append(Step(item.loop.name, "while_loop", names, leaving, nodes))
        else:
            steps.append(
                Step(item.name, item.type, names, outputs, (item.name,), unfit=_unfit(item))
            )
    made = (
        *((),) * len(feeds),
        *(tuple(t for op in inside for t in op.outputs if t not in given) for inside in members),
    )
    makers = {name: index for index, step in enumerate(steps) for name in step.outputs}
    makers.update((tensor.name, index) for index, each in enumerate(made) for tensor in each)
    return NodeLayout(
        tuple(steps),
        (*(None for _ in feeds), *plan),
        made,
        {tensor.name: tensor for tensors in (tuple(given), *made) for tensor in tensors},
        makers,
        readers,
        tuple(_caveats(steps)),
    )


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


def _caveats(steps: Iterable[Step]) -> Iterable[str]:
    loops = [step.node for step in steps if step.op_type == "while_loop"]
    if loops:
        more = f" and {len(loops) - _NAMED} more" if len(loops) > _NAMED else ""
        yield (
            "A loop is one step: what is inside can be looked at but not overridden "
            f"({', '.join(loops[:_NAMED])}{more})."
        )
