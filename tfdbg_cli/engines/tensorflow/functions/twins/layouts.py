"""Where the tensors of functions are among the results that their twins have in addition."""

from __future__ import annotations

import functools
from collections.abc import Collection
from typing import Any, NamedTuple

from tensorflow.python.framework import dtypes

from tfdbg_cli.dumps.dump import Redo
from tfdbg_cli.engines.tensorflow.functions.definitions import BodyNode, FunctionBody
from tfdbg_cli.engines.tensorflow.functions.twins.health import Health
from tfdbg_cli.engines.tensorflow.shared.optimized import PASSING
from tfdbg_cli.engines.tensorflow.shared.redo import UnreadGraph, UnreadNode, redo_of
from tfdbg_cli.engines.tensorflow.shared.values import holdable

__all__ = ["Layout", "LayoutItem", "Part"]


class LayoutItem(NamedTuple):
    """Where the outputs of one node are among the added results of its function.

    Attributes:
        node: the node.
        places: slot -> number of the result.
        first: of a call, the number of the first result that comes from inside; of a branch that
            of the number of the one that was taken, behind which are those of all.
        inner: step -> the added results of what is called, and how many come before its. Of a loop
            they are lists; those of its condition are the last ones. Behind all of them are the
            numbers of a `Window`, and the condition's of the test that has ended the loop.
    """

    node: BodyNode
    places: dict[int, int]
    first: int
    inner: dict[str, tuple[int, Layout]]


class Layout:
    """The added results of a function, without the one for health.

    Attributes:
        body: of the function.
        items: its nodes, in order.
        dtypes: of the added results.
        sizes: the numbers of those that say how many bytes the lists of a loop hold.
        unread: node and slot of the tensors that aren't among the results, as the optimizer makes
            something else of them; whether it has them all the same.
    """

    def __init__(self, body: FunctionBody) -> None:
        self.body = body
        self.items: list[LayoutItem] = []
        self.dtypes: list[int] = []
        self.sizes: list[int] = []
        self.unread: Collection[tuple[str, int]] = ()

    @functools.cached_property
    def unread_slots(self) -> dict[str, list[int]]:
        """Node -> the outputs that are computed of its inputs when somebody looks."""
        found: dict[str, list[int]] = {}
        for item in self.items if self.unread else ():
            name, outputs = item.node.name, item.node.outputs
            if not item.inner and item.node.op not in PASSING:
                slots = [
                    slot
                    for slot, output in enumerate(outputs)
                    if (name, slot) in self.unread and holdable(dtypes.as_dtype(output.dtype))
                ]
                found.update({name: slots} if slots else {})
        return found

    @functools.cached_property
    def unread_graph(self) -> UnreadGraph:
        """Computes them."""
        return UnreadGraph(
            UnreadNode(item.node.definition, item.node.inputs, self.unread_slots[item.node.name])
            for item in self.items
            if item.node.name in self.unread_slots
        )

    @functools.cached_property
    def redo(self) -> Redo:
        """Computes a node again."""
        return redo_of({node.name: node.definition for node in self.body.nodes}.get)


class Part(NamedTuple):
    """A function on its way to become a twin.

    Attributes:
        definition: a copy, in which calls return more.
        layout: what is to be returned.
        references: where that comes from.
        health: what tells of its tensors.
    """

    definition: Any
    layout: Layout
    references: list[str]
    health: Health
