"""Loops and branches: which nodes run together, once, not at all, or once per iteration."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfdbg_cli.engines.numpy.nodes import Operation, Tensor

__all__ = ["Branch", "FlowContext", "Loop"]


@dataclass(eq=False)
class FlowContext:
    """A loop or branch.

    Attributes:
        parent: the loop or branch around it.
        name: for messages.
        pred: what says whether it runs, or runs once more, a boolean scalar. What a loop makes
            before it runs once more than what it makes after it.
        pivot: the node that stands for "this context runs now"; nodes without an input from the
            context get it as a control input.
    """

    parent: FlowContext | None
    name: str
    pred: Tensor = field(init=False)
    pivot: Operation | None = None


@dataclass(eq=False)
class Branch(FlowContext):
    """One side of a ``cond``: the one for ``taken_if``."""

    taken_if: bool = False


@dataclass(eq=False)
class Loop(FlowContext):
    """The inside of a ``while_loop``: Merge, condition, LoopCond, Switch, body, NextIteration.

    Attributes:
        merges: the nodes where the loop variables come in, first from outside, then from the
            iteration before.
        switches: the nodes where they go on into the body or out of the loop.
    """

    merges: set[Operation] = field(default_factory=set)
    switches: set[Operation] = field(default_factory=set)
