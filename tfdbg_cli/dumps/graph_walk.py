"""The walk of ``li -r`` and ``lo -r``: a graph as an indented tree in which no node is repeated."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, overload

from tfdbg_cli.common.interpreter.garbage import collector_paused
from tfdbg_cli.dumps.elements import node_name_of

__all__ = ["Edge", "GraphWalk", "Visit"]


class Edge(NamedTuple):
    """One step from a node: to which node, through which tensor, and whether it is control."""

    node: str
    tensor: str
    is_control: bool

    @property
    def label(self) -> str:
        """The node as a list of inputs names it: with the slot where it isn't the first."""
        if self.is_control or node_name_of(self.tensor) != self.node:
            return self.node
        return self.tensor.removesuffix(":0")


class Visit(NamedTuple):
    """One line of a walk.

    Attributes:
        depth: 1 for the neighbours of the node that was asked for.
        edge: the step that leads here.
        repeated: the number of the visit (from 0) below which the node's own neighbours stand;
            -1: they stand below the start; ``None``: they weren't met before.
        is_loop: that visit is on the way from the start to this one.
        cut: the node has neighbours beyond the depth limit.
    """

    depth: int
    edge: Edge
    repeated: int | None
    is_loop: bool
    cut: bool


# What stands in `GraphWalk._marks` instead of the number of a visit.
_PLAIN, _CUT = -2, -3


class GraphWalk(Sequence[Visit]):
    """The visits in display order; a few bytes each until somebody looks at one.

    Args:
        start: the node whose neighbours come first.
        step: the neighbours of a node as names; with ``^`` in front where the edge is control.
            The names may be those of tensors.
        depth: how many levels.
        edge: the edge from a node to one of its neighbours, made when a visit is looked at.
    """

    def __init__(
        self,
        start: str,
        step: Callable[[str], Sequence[str]],
        depth: int,
        edge: Callable[[str, str], Edge],
    ) -> None:
        self._start = start
        self._edge = edge
        # One entry each per visit.
        self._items: list[str] = []
        self._depths = array("i")
        self._parents = array("q")
        self._marks = array("q")
        # The number of a visit with neighbours below it -> that of the first one behind them.
        self._ends: dict[int, int] = {}
        #: The numbers of the visits that the depth limit cut.
        self.cuts = array("q")
        with collector_paused():
            self._run(step, depth)

    def _run(self, step: Callable[[str], Sequence[str]], depth: int) -> None:
        items, depths, parents, marks = self._items, self._depths, self._parents, self._marks
        expanded = {self._start: -1}
        stack = [iter(_distinct(step(self._start)))]
        path = [-1]
        number = -1
        while stack:
            level, parent = len(stack), path[-1]
            for item in stack[-1]:
                number += 1
                items.append(item)
                depths.append(level)
                parents.append(parent)
                node = node_name_of(item)
                mark = expanded.get(node)
                if mark is not None:
                    marks.append(mark)
                    continue
                below = step(node)
                if below and level >= depth:
                    marks.append(_CUT)
                    self.cuts.append(number)
                    continue
                marks.append(_PLAIN)
                if below:
                    expanded[node] = number
                    path.append(number)
                    stack.append(iter(_distinct(below)))
                    break
            else:
                stack.pop()
                self._ends[path.pop()] = number + 1

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, at: int) -> Visit: ...

    @overload
    def __getitem__(self, at: slice) -> list[Visit]: ...

    def __getitem__(self, at: int | slice) -> Visit | list[Visit]:
        if isinstance(at, slice):
            return [self._visit(number) for number in range(*at.indices(len(self)))]
        return self._visit(range(len(self))[at])

    def __iter__(self) -> Iterator[Visit]:
        return map(self._visit, range(len(self)))

    def _visit(self, number: int) -> Visit:
        mark, parent = self._marks[number], self._parents[number]
        return Visit(
            self._depths[number],
            self._edge(
                self._start if parent < 0 else node_name_of(self._items[parent]),
                self._items[number],
            ),
            mark if mark > _PLAIN else None,
            mark > _PLAIN and number < self._ends[mark],
            mark == _CUT,
        )

    @property
    def has_repeated(self) -> bool:
        """Whether some node's neighbours stand elsewhere."""
        return any(mark > _PLAIN for mark in self._marks)


def _distinct(names: Sequence[str]) -> Sequence[str]:
    return list(dict.fromkeys(names)) if len(set(names)) < len(names) else names
