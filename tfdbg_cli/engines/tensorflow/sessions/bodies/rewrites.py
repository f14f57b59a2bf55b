"""Which nodes of the graph that ran still compute what the user's graph says under their name.

TensorFlow's optimizer (grappler) rewrites whatever a run doesn't fetch: ``(a * 2) * 3`` becomes
``a * 6``, for which the node of ``a * 2`` is given other inputs but keeps its name. What a debug
watch sees of such a node is not the user's tensor.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tfdbg_cli.engines.tensorflow.sessions.bodies.lineage import (
    CONTROL,
    PASSING,
    SENT,
    BodyLineage,
    BodyPlace,
)
from tfdbg_cli.engines.tensorflow.sessions.bodies.matching import NodeMatcher
from tfdbg_cli.engines.tensorflow.sessions.bodies.merged import MergedNodes
from tfdbg_cli.engines.tensorflow.shared.body_nodes import Functions, Inner

__all__ = ["Rewrites"]

# Nodes that stand for one of the user's under a name of their own.
_REPLACED = re.compile(
    r"(.*/)?ArithmeticOptimizer/ReplaceMulWithSquare_(.+?)(?:/unary_ops_composition)?"
    r"|(.+)/unary_ops_composition"
)


class Rewrites:
    """Compares the graph that ran with the user's, node by node.

    A node is the user's if it reads what the user's node reads (through whatever was fused,
    folded or inserted on the way) and all of that is the user's as well; or if a node that is the
    user's reads it as in the user's graph: what a rewritten part hands on to the rest, such as
    the result of a loop's body, is as it was.

    Args:
        graphs: serialized ``GraphDef`` of the partitions of a run, with their debug nodes.
        main: gives the operation of the outermost graph with a name, or ``None``.
        find: gives the node of a function's body with a name of the runtime's, or ``None``.
        functions: of the outermost graph.
        safe: the names of the outermost graph's nodes that the run fetched: the optimizer leaves
            those alone.
        watched: the names of those that only a watch sees.
    """

    def __init__(
        self,
        graphs: Iterable[Any],
        main: Callable[[str], Any],
        find: Callable[[str], Inner | None],
        functions: Functions,
        safe: Iterable[str],
        watched: Iterable[str],
    ) -> None:
        self._main = main
        self._safe = frozenset(safe)
        self._lineage = BodyLineage(graphs, main, find, functions)
        self._matching = NodeMatcher(self._lineage)
        #: The bodies that the graph holds, by prefix.
        self.bodies = self._lineage.bodies
        #: The runtime's names of the nodes whose tensors are not the user's.
        self.changed: frozenset[str] = self._changed()
        #: The same in the user's names.
        self.names = frozenset(
            user.name for name in self.changed if (user := self._lineage.user(name)) is not None
        )
        #: The runtime's names of nodes that it has made in place of others -> those others.
        self.aliases: dict[str, Inner] = dict(self._replaced())
        #: The runtime's names of nodes -> nodes that it has left out, as they compute the same.
        self.merged: dict[str, list[Inner]] = MergedNodes(self._lineage, self.changed, main).found(
            watched
        )
        self._stood_for = frozenset(each.name for all_ in self.merged.values() for each in all_)

    def _replaced(self) -> Iterator[tuple[str, Inner]]:
        lineage = self._lineage
        for name, node in lineage.nodes.items():
            match = _REPLACED.fullmatch(name)
            user = lineage.user("".join(filter(None, match.groups()))) if match else None
            if user is not None and user.name not in lineage.present:
                leaves = self._matching.read_by(node.inputs) or ()
                reads = {lineage.present.get(leaf.name) for leaf in leaves}
                if self._matching.reads_alike(node.inputs, user) and not reads & self.changed:
                    yield name, user

    def folded(self) -> Iterator[Inner]:
        """The constants of bodies that are not in the graph that ran."""
        for prefix, body in self.bodies.items():
            for op in body.op.graph.get_operations():
                if op.type == "Const" and prefix + op.name not in self._lineage.present:
                    yield Inner(prefix + op.name, op, prefix, body.calls, body.traced)

    def removed(self, name: str) -> bool:
        """Whether a node, by the user's name, is not in the graph that ran.

        Of the outermost graph's nodes only those that the run computes are to be asked for.
        """
        aliased = (user.name for user in self.aliases.values())
        if name in self._lineage.present or name in aliased or name in self._stood_for:
            return False
        return self._main(name) is not None or any(name.startswith(at) for at in self.bodies)

    def result(self, call: Any, slot: int) -> tuple[str, int]:
        """What an inlined call of the outermost graph returns, by node and output."""
        leaf = self._lineage.origin(BodyPlace(call, slot, "", ()))[0]
        return leaf.name, leaf.slot

    def _changed(self) -> frozenset[str]:
        lineage = self._lineage
        mine = [name for name in lineage.nodes if self._is_candidate(name)]
        candidates = set(mine)
        reads: dict[str, set[str]] = {}
        readers: dict[str, list[str]] = {}
        matching = {name for name in mine if self._matching.matches(name)}
        for name in matching:
            leaves = self._matching.read_by(lineage.nodes[name].inputs) or set()
            reads[name] = {
                lineage.present[leaf.name]
                for leaf in leaves
                if leaf.kind == "node" and lineage.present.get(leaf.name) in candidates
            }
            for source in reads[name]:
                readers.setdefault(source, []).append(name)
        good: set[str] = set()
        waiting = [name for name in matching if not reads[name]]
        waiting += self._handed_on(candidates, matching)
        while waiting:
            name = waiting.pop()
            if name in good:
                continue
            good.add(name)
            if name in matching:  # what it reads is right, or it would not be
                waiting += reads[name] - good
            for reader in readers.get(name, ()):
                if reader not in good and reads[reader] <= good:
                    waiting.append(reader)
        return frozenset(candidates - (good - self._laid_out(mine)))

    def _is_candidate(self, name: str) -> bool:
        user = self._lineage.user(name)
        return user is not None and (bool(user.calls) or name not in self._safe)

    def _handed_on(self, candidates: set[str], matching: set[str]) -> Iterator[str]:
        """The nodes whose values leave the part of the graph that may be rewritten as a whole."""
        lineage = self._lineage
        results = {
            id(tensor.op)
            for body in self.bodies.values()
            for tensor in (
                *getattr(body.op.graph, "outputs", ()),
                *(
                    tensor
                    for op in body.op.graph.get_operations()
                    if lineage.functions.is_call(op)
                    for tensor in op.inputs
                ),
            )
        }
        bypassed = self._bypassed(results)
        for name, node in lineage.nodes.items():
            if node.op in ("Copy", "CopyHost"):
                continue
            user = lineage.user(name)
            if user is not None and lineage.functions.is_call(user.op) and node.op in PASSING:
                user = None  # an inlined call: it hands on what its body gave
            if user is None or name not in candidates:
                if user is None and node.op not in CONTROL | PASSING | SENT | {"_Retval"}:
                    continue
                sources = {lineage.direct(*each)[0] for each in node.inputs} & candidates
                if sources and (user is None or self._matching.matches(name)):
                    for source in sources:
                        mine = lineage.user(source)
                        if mine is not None and (not mine.calls or id(mine.op) in bypassed):
                            yield source
            elif name in matching and (node.op in CONTROL or user.op.op_def.is_stateful):
                yield name

    def _bypassed(self, results: set[int]) -> set[int]:
        """With the operations that lead to these through nothing but Identity."""
        found = set(results)
        for body in self.bodies.values():
            for op in reversed(body.op.graph.get_operations()):
                if id(op) in found and op.type in PASSING:
                    found.update(id(tensor.op) for tensor in op.inputs)
        return found

    def _laid_out(self, mine: list[str]) -> set[str]:
        """Nodes whose values have another layout, from the layout optimizer on."""
        lineage = self._lineage
        found: set[str] = set()
        for name in mine:
            user, format_ = lineage.user(name), lineage.nodes[name].attributes
            if user is not None and "data_format" in format_:
                before = user.op.node_def.attr
                if "data_format" in before and before["data_format"] != format_["data_format"]:
                    found.add(name)
        if not found:
            return found
        grown = True
        while grown:
            grown = False
            for name in mine:
                if name not in found and any(
                    lineage.direct(*each)[0] in found for each in lineage.nodes[name].inputs
                ):
                    found.add(name)
                    grown = True
        return found
