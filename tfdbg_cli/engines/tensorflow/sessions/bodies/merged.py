"""Which of the user's nodes are gone because others compute the same, and stand for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tfdbg_cli.engines.tensorflow.sessions.bodies.lineage import BodyLineage
from tfdbg_cli.engines.tensorflow.sessions.bodies.matching import attributes_of
from tfdbg_cli.engines.tensorflow.shared.body_nodes import Inner

__all__ = ["MergedNodes"]

# They are what they are given, in the frame of a loop that this is in.
_SAME = frozenset({"Identity", "Snapshot"})
# Their inputs don't say what they give: which way, and how often. What a body is given has none,
# and TensorFlow 2.12 fails where it is asked for them.
_OWN = frozenset({"Enter", "Exit", "LoopCond", "Merge", "NextIteration", "Placeholder", "Switch"})


class MergedNodes:
    """Finds the nodes that read the same tensors and do the same with them.

    Of such nodes the runtime keeps one. What it gives is what each of the others would give, in
    the same iterations: nodes that read the same tensors are in the same loop.

    Args:
        lineage: of the graph that ran and the user's.
        changed: the runtime's names of the nodes that compute something else.
        main: gives the operation of the outermost graph with a name, or ``None``.
    """

    def __init__(
        self, lineage: BodyLineage, changed: frozenset[str], main: Callable[[str], Any]
    ) -> None:
        self._lineage, self._changed, self._main = lineage, changed, main
        self._numbers: dict[object, int] = {}

    def found(self, watched: Iterable[str]) -> dict[str, list[Inner]]:
        """The runtime's name of a node -> the nodes that it stands for beside its own.

        Args:
            watched: the names of the outermost graph's nodes that only a watch sees.
        """
        lineage = self._lineage
        found: dict[str, list[Inner]] = {}
        for prefix, body in lineage.bodies.items():
            self._add(
                found,
                [
                    Inner(prefix + op.name, op, prefix, body.calls, body.traced)
                    for op in body.op.graph.get_operations()
                ],
            )
        own = [(name, self._main(name)) for name in watched]
        known = [Inner(name, op, "", (), True) for name, op in own if op is not None]
        if any(each.name not in lineage.present for each in known):
            self._add(found, known)
        return found

    def _add(self, found: dict[str, list[Inner]], nodes: list[Inner]) -> None:
        """Add what is merged among the nodes of one graph."""
        numbers: dict[Any, int] = {}
        kept: dict[int, str] = {}
        gone: list[tuple[int, Inner]] = []
        for each in nodes:
            number = self._number(each.op, numbers)
            name = self._lineage.present.get(each.name)
            if name is None:
                gone.append((number, each))
            elif name not in self._changed:
                kept.setdefault(number, name)
        for number, each in gone:
            if number in kept and each.op.inputs:
                found.setdefault(kept[number], []).append(each)

    def _number(self, op: Any, numbers: dict[Any, int]) -> int:
        """The same for all operations of a graph that compute the same."""
        waiting = [op]
        while waiting:
            at = waiting[-1]
            is_own = at.op_def.is_stateful or at.type in _OWN
            sources = [] if is_own else [tensor.op for tensor in at.inputs]
            missing = [each for each in sources if each not in numbers]
            if missing:
                waiting += missing
                continue
            waiting.pop()
            if at not in numbers:
                numbers[at] = self._of(at, is_own, numbers)
        return numbers[op]

    def _of(self, op: Any, is_own: bool, numbers: dict[Any, int]) -> int:
        key: object = id(op)
        if op.type in _SAME:
            return numbers[op.inputs[0].op] if not op.inputs[0].value_index else self._new(key)
        if not is_own and (op.inputs or op.type == "Const"):
            given = tuple((numbers[each.op], each.value_index) for each in op.inputs)
            words = sorted(
                (name, value.SerializeToString(deterministic=True))
                for name, value in attributes_of(op).items()
            )
            key = (op.type, given, tuple(words))
        return self._new(key)

    def _new(self, key: object) -> int:
        return self._numbers.setdefault(key, len(self._numbers))
