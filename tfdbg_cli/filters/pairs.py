"""``broadcast``: [N, 1] and [N] met by mistake, and a loss is the sum over all pairs."""

from __future__ import annotations

import re
from typing import Any

from tfdbg_cli.dumps.dump import Datum, Dump, explained
from tfdbg_cli.dumps.graph import Node, node_name_of
from tfdbg_cli.filters.lineage import TensorLineage, holds_others

__all__ = ["broadcast", "why_broadcast"]

_BINARY = frozenset({"add", "div", "mul", "sub"})
_SQUARED_DIFFERENCE = "SquaredDifference"
# PyTorch's losses of two tensors, which they broadcast by views.
_LOSS = re.compile(r"(?:mse|l1|smooth_l1|huber|soft_margin)_loss")
_TOTALS = frozenset({"mean", "sum"})
# Pairs are meant where these follow: kernels, attention, products of matrices.
_OF_PAIRS = frozenset({"exp", "exp2", "linear", "softmax"})
# JAX's op for the axis that NumPy's rules put in front of a vector.
_PROMOTION = "broadcast_in_dim"
_EXPANDING = ("broadcast_tensors", "expand")
# A tensor handed on more often isn't followed further.
_MOST_VIEWS = 20


@explained
def broadcast(datum: Datum, tensor: Any, dump: Dump) -> bool:
    """Whether [N, 1] and [N] met by mistake, and a sum or a mean goes over all N x N pairs.

    The first result of that size passes: of a sum, a difference, a product or a quotient; or the
    loss that was given both. Only ops on single elements may be between it and the total, which is
    one number. Pairs that were asked for don't count: the program has added the axis to the [N, 1]
    itself, another N x N tensor takes part, or exp, softmax or a matrix product follow.

    Args:
        datum: the tensor.
        tensor: its value; not looked at.
        dump: whose tensor it is.
    """
    return bool(why_broadcast(TensorLineage.of(dump), datum))


def why_broadcast(lineage: TensorLineage, datum: Datum) -> str:
    """What met in a tensor by mistake; empty: nothing, or on purpose.

    Args:
        lineage: of the dump.
        datum: the tensor.
    """
    return lineage.once(_found).get(datum.tensor_name, "")


def _found(lineage: TensorLineage) -> dict[str, str]:
    return _Pairs(lineage).found


class _Pairs:
    """The tensors of a dump in which all pairs of two vectors met.

    Attributes:
        found: their names -> what met in them.
    """

    def __init__(self, lineage: TensorLineage) -> None:
        self._shape, self._roles = lineage.shape, lineage.roles
        self._nodes = lineage.graph.nodes if lineage.graph is not None else {}
        self.found: dict[str, str] = {}
        begun: dict[str, str] = {}
        for node in self._nodes.values():
            what = self._roles.computes(node.op_type)
            is_loss = _LOSS.fullmatch(node.op_type) is not None
            if not (what in _BINARY or is_loss or node.op_type == _SQUARED_DIFFERENCE):
                continue
            if len(node.inputs) == 2 and (text := self._met(*node.inputs, is_loss)):
                name = f"{node.name}:0"
                if is_loss and self._shape(name) == ():
                    self.found[name] = f"{text}, and {node.op_type} is the loss of all pairs"
                else:
                    begun[name] = text
        if begun and lineage.graph is not None:
            self._follow(lineage, begun)

    def _met(self, one: str, other: str, is_loss: bool) -> str:
        """What two operands are, if it is a mistake that they are given together."""
        one, other = self._as_given(one, is_loss), self._as_given(other, is_loss)
        for column, row in ((one, other), (other, one)):
            count = (self._shape(column) or (0,))[0]
            if count < 2 or self._shape(column) != (count, 1) or self._shape(row) != (count,):
                continue
            if not self._has_added_axis(column) and self._root(column) != self._root(row):
                return f"{column} [{count}, 1] and {row} [{count}] give [{count}, {count}]"
        return ""

    def _as_given(self, name: str, is_loss: bool) -> str:
        """An operand before it was broadcast by an op, as for PyTorch's losses and in JAX."""
        for _ in range(_MOST_VIEWS):
            shape, maker = self._shape(name), self._maker(name)
            if shape is None or len(shape) != 2 or maker is None or not maker.inputs:
                break
            is_promoted = maker.op_type == _PROMOTION and shape[0] == 1
            if not (is_promoted or (is_loss and maker.op_type in _EXPANDING)):
                break
            name = maker.inputs[0]
        return name

    def _has_added_axis(self, name: str) -> bool:
        """Whether a tensor of N x 1 was a vector before: somebody has asked for pairs."""
        shape = self._shape(name)
        for _ in range(_MOST_VIEWS):
            maker = self._maker(name)
            if maker is None or not maker.inputs or shape is None:
                break
            if self._shape(maker.inputs[0]) == shape[:1]:
                return True
            if not self._hands_on(maker):
                break
            name = maker.inputs[0]
        return False

    def _root(self, name: str) -> str:
        """What a tensor is a view of, or has the numbers of."""
        for _ in range(_MOST_VIEWS):
            maker = self._maker(name)
            if maker is None or not maker.inputs:
                break
            if not self._hands_on(maker):
                break
            name = maker.inputs[0]
        return name

    def _hands_on(self, node: Node) -> bool:
        return holds_others(node) or self._roles.computes(node.op_type) == "same"

    def _maker(self, name: str) -> Node | None:
        return self._nodes.get(node_name_of(name))

    def _follow(self, lineage: TensorLineage, begun: dict[str, str]) -> None:
        """Which of the tensors of pairs go into a total."""
        graph = lineage.graph
        assert graph is not None
        origins = {name: {name} for name in begun}  # tensor of pairs -> those that it began with
        waiting = list(begun)
        while waiting:
            name = waiting.pop()
            for edge in graph.recipients(node_name_of(name), control=False):
                node = self._nodes[edge.node]
                made, what = f"{node.name}:0", self._roles.computes(node.op_type)
                if name not in node.inputs or what in _OF_PAIRS or made in begun:
                    continue
                size = self._shape(name)
                others = [each for each in node.inputs if self._shape(each) == size]
                if not all(each in origins for each in others):
                    continue
                given = {begin for each in others for begin in origins[each]}
                shape = self._shape(made)
                if shape == ():
                    for begin in given if what in _TOTALS else ():
                        self.found[begin] = f"{begun[begin]}, and {made} is the {what} of all pairs"
                elif shape == size or what in _TOTALS:
                    before = origins.setdefault(made, set())
                    if not given <= before:
                        before |= given
                        waiting.append(made)
