"""Loops and branches: which nodes run together, once, not at all, or once per iteration."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfdbg_cli.engines.numpy.nodes import Operation, Tensor

__all__ = ["Branch", "FlowContext", "Loop"]


class FlowContext:
    """A loop or branch.

    Attributes:
        parent: the loop or branch around it.
        pivot: the node that stands for "this context runs now"; nodes without an input from the
            context get it as a control input.
        name: for messages.
    """

    def __init__(self, parent: FlowContext | None, name: str) -> None:
        self.parent = parent
        self.name = name
        self.pivot: Operation | None = None

    def required(self) -> list[Operation]:
        """Nodes that must be computed for the context to run."""
        return []

    def check_visible(self, tensor: Tensor, user: str, where: FlowContext | None) -> None:
        """Check that a node made in context ``where`` can use a tensor of this context.

        Raises:
            ValueError: it can't: the tensor may have no value there, or many.
        """
        while where is not None:
            if self is where:
                return
            where = where.parent
        raise ValueError(
            f"{tensor.name} can't be an input of {user}: it lives inside {self.name}. "
            "Return it from there and use the result."
        )


class Branch(FlowContext):
    """One side of a ``cond``.

    Args:
        parent: the loop or branch around it.
        name: for messages.
        pred: the condition, a boolean scalar.
        taken_if: the value of ``pred`` for which this side runs.
    """

    def __init__(self, parent: FlowContext | None, name: str, pred: Tensor, taken_if: bool) -> None:
        super().__init__(parent, name)
        self.pred = pred
        self.taken_if = taken_if

    def required(self) -> list[Operation]:
        """The condition."""
        return [self.pred.op]


class Loop(FlowContext):
    """The inside of a ``while_loop``: Merge, condition, LoopCond, Switch, body, NextIteration.

    Attributes:
        loop_cond: the node that says whether to go on; what is made before it runs once more than
            what is made after it.
        merges: the nodes where the loop variables come in, first from outside, then from the
            iteration before.
        switches: the nodes where they go on into the body or out of the loop.
    """

    def __init__(self, parent: FlowContext | None, name: str) -> None:
        super().__init__(parent, name)
        self.loop_cond: Operation | None = None
        self.merges: set[Operation] = set()
        self.switches: set[Operation] = set()

    def required(self) -> list[Operation]:
        """The condition."""
        assert self.loop_cond is not None
        return [self.loop_cond]
