"""The steps of a plan: what is done at a time, what it reads and what it makes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tfdbg_cli.engines.numpy.executor import PlanBlock, RunPlan
from tfdbg_cli.engines.numpy.nodes import Branch, Loop, Operation, Tensor
from tfdbg_cli.engines.numpy.registry import OPS
from tfdbg_cli.stepping.stepper import Step

__all__ = ["NodeLayout", "make_layout"]

_NAMED = 3


@dataclass(frozen=True)
class NodeLayout:
    """The steps of a run, in order; the sequences have an element for each.

    Attributes:
        steps: as the user sees them.
        items: what the executor computes; ``None``: nothing, the value is fed.
        reads: the tensors that come in from other steps.
        made: every tensor that is computed, those inside a loop or branch as well.
        tensors: name -> tensor, of all that the run knows.
        makers: tensor name -> index of the step that makes it.
        readers: tensor name -> indices of the steps that read it.
        caveats: what can't be done with this run, a sentence each.
    """

    steps: tuple[Step, ...]
    items: tuple[Operation | PlanBlock | None, ...]
    reads: tuple[tuple[Tensor, ...], ...]
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
    feeds: dict[Operation, list[Tensor]] = {}
    computed, given = set(plan.operations), dict.fromkeys(fed)
    for tensor in given:
        # A node that runs for another of its outputs has its step among the computed ones.
        if tensor.op not in computed:
            feeds.setdefault(tensor.op, []).append(tensor)
    nothing: tuple[tuple[Tensor, ...], ...] = ((),) * len(feeds)
    members = [_operations(item) for item in plan.items]
    reads = (*nothing, *map(_reads, plan.items, members))
    made = (
        *nothing,
        *(tuple(t for op in inside for t in op.outputs if t not in given) for inside in members),
    )
    readers: dict[str, list[int]] = {}
    for index, tensors in enumerate(reads):
        for tensor in tensors:
            readers.setdefault(tensor.name, []).append(index)
    values = {
        op.inputs[0].op: op.outputs[0].name
        for op in reversed(plan.operations)
        if op.type == "Identity" and op.context is None and op.inputs[0].op.type == "VariableV2"
    }
    steps = [
        Step(op.name, op.type, (), tuple(t.name for t in tensors), (op.name,), is_feed=True)
        for op, tensors in feeds.items()
    ]
    for item, inside in zip(plan.items, members, strict=True):
        inputs = tuple(tensor.name for tensor in reads[len(steps)])
        steps.append(_step(item, inside, inputs, readers, values))
    known = {tensor.name: tensor for tensors in (tuple(given), *made) for tensor in tensors}
    makers = {name: index for index, step in enumerate(steps) for name in step.outputs}
    makers.update((tensor.name, index) for index, each in enumerate(made) for tensor in each)
    return NodeLayout(
        tuple(steps),
        (*(None for _ in feeds), *plan.items),
        reads,
        made,
        known,
        makers,
        readers,
        tuple(_caveats(plan, steps)),
    )


def _operations(item: Operation | PlanBlock) -> Sequence[Operation]:
    """The nodes of an item, in the order of creation."""
    return sorted(_walk(item), key=lambda op: op.index) if isinstance(item, PlanBlock) else (item,)


def _walk(item: Operation | PlanBlock) -> Iterator[Operation]:
    if isinstance(item, Operation):
        yield item
        return
    yield from item.merges
    yield from item.switches
    for part in (*item.items, *item.body):
        yield from _walk(part)


def _conditions(item: Operation | PlanBlock) -> Iterator[Tensor]:
    """What is read besides the inputs: the conditions of branches and of what joins them."""
    if isinstance(item, Operation):
        pred = item.attributes.get("pred")
        if item.type == "Merge" and isinstance(pred, Tensor):
            yield pred
        return
    if isinstance(item.context, Branch):
        yield item.context.pred
    for part in (*item.items, *item.body):
        yield from _conditions(part)


def _reads(item: Operation | PlanBlock, members: Sequence[Operation]) -> tuple[Tensor, ...]:
    inside = {tensor for op in members for tensor in op.outputs}
    tensors = [tensor for op in members for tensor in op.inputs]
    tensors.extend(_conditions(item))
    return tuple(dict.fromkeys(tensor for tensor in tensors if tensor not in inside))


def _step(
    item: Operation | PlanBlock,
    members: Sequence[Operation],
    inputs: tuple[str, ...],
    readers: Mapping[str, Sequence[int]],
    values: Mapping[Operation, str],
) -> Step:
    names = tuple(op.name for op in members)
    outputs = tuple(tensor.name for op in members for tensor in op.outputs)
    if isinstance(item, Operation):
        return Step(item.name, item.type, inputs, outputs, names, unfit=_unfit(item, values))
    leaving = tuple(name for name in outputs if name in readers)
    context = item.context
    if isinstance(context, Loop):
        return Step(context.name, "while_loop", inputs, leaving, names)
    # Both sides of a condition have its name; what stands for a side has one of its own.
    name = context.pivot.name if context.pivot is not None else context.name
    return Step(name, "cond", inputs, leaving, names)


def _unfit(op: Operation, values: Mapping[Operation, str]) -> str:
    """Why the outputs of a node can't be overridden.

    Args:
        op: the node.
        values: variable -> a tensor of the run that is its value.
    """
    if op.type == "Switch":
        return f"{op.name} only leads to one side of a condition: override {op.inputs[1].name}."
    if _gives_variable(op):
        variable = op
        while variable.type != "VariableV2" and variable.inputs:
            variable = variable.inputs[0].op
        example = f", e.g. {values[variable]}" if variable in values else ""
        return (
            f"{op.name} gives the variable {variable.name} itself and not a value: override "
            f"what goes into it or what reads it{example}."
        )
    return ""


def _gives_variable(op: Operation) -> bool:
    """Whether the output is a reference to a variable: that of the variable and of its updates."""
    if op.type == "VariableV2":
        return True
    return (
        OPS[op.type].ref_inputs > 0
        and op.type != "IsVariableInitialized"
        and bool(op.outputs)
        and op.outputs[0].dtype == op.inputs[0].dtype
    )


def _caveats(plan: RunPlan, steps: Iterable[Step]) -> Iterator[str]:
    effects = [op.name for op in plan.operations if OPS[op.type].has_effects]
    if effects:
        yield (
            f"What Python functions do can't be undone: there is no way back over {_few(effects)}."
        )
    blocks = [step.node for step in steps if step.op_type in ("while_loop", "cond")]
    if blocks:
        yield (
            "A loop or branch is one step: what is inside can be looked at but not overridden "
            f"({_few(blocks)})."
        )


def _few(names: Sequence[str]) -> str:
    text = ", ".join(names[:_NAMED])
    return text if len(names) <= _NAMED else f"{text} and {len(names) - _NAMED} more"
