"""What a tensor of a run was computed from, as far as the other run has it, too."""

from __future__ import annotations

import contextlib
import functools
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tfdbg_cli.common.node_words import WRITES
from tfdbg_cli.comparing.gaps import CODES
from tfdbg_cli.dumps.dump import Dump
from tfdbg_cli.dumps.graph import Node, node_name_of
from tfdbg_cli.dumps.run_info import roles_of

__all__ = ["Origins", "Side"]

# What they give has the precision of codes.
_QUANTIZED = re.compile(r"quantize|^QLinear|Integer$|^QGemm|^DynamicQuant", re.IGNORECASE)
# They hand on the numbers that they were given.
_HANDING_ON = frozenset({"same", "cast"})


class Origins(NamedTuple):
    """The nearest tensors that something was computed from.

    Attributes:
        matched: those that the other run has, too.
        passed: the nodes on the way there.
        unknown: where a way ends at a tensor that was not kept.
        direct: those that the op itself was given; of a copy or a cast, what was copied.
        alone: those of them that only this run has.
    """

    matched: Sequence[str]
    passed: Sequence[str]
    unknown: Sequence[str]
    direct: Sequence[str]
    alone: Sequence[str]


class Side:
    """One of two runs: its graph, and which of its tensors the other run has.

    Args:
        dump: the run.
        counterparts: the names of dumped tensors, and for each those in the other run that it was
            matched with; an empty name stands for none.

    Attributes:
        nodes: name -> node.
        roles: of the engine's op types.
        memory: op types of parameters and other state, and of what reads them.
    """

    def __init__(self, dump: Dump, counterparts: Mapping[str, set[str]]) -> None:
        info, graph = dump.run_info(), dump.graph()
        self.dump = dump
        self.nodes: Mapping[str, Node] = graph.nodes if graph is not None else {}
        self.roles = roles_of(info)
        self.memory = self.roles.weights | self.roles.reading | self.roles.buffers
        self.counterparts = counterparts
        self._matched_nodes: dict[str, str] = {}
        for name, others in counterparts.items():
            if name and others - {""}:
                self._matched_nodes.setdefault(node_name_of(name), name)
        self._known: dict[str, Origins] = {}
        self._writers: dict[str, Sequence[str]] = {}

    def reads(self, node: Node) -> bool:
        """Whether a node gives a variable's content."""
        return node.op_type in self.memory and bool(node.inputs)

    def writers(self, name: str) -> Sequence[str]:
        """The nodes of this run that have written what a node reads of variables, the last ones.

        They are told by the edges that make the read wait for them.
        """
        if name not in self._writers:
            self._writers[name] = [*self._find_writers(name)]
        return self._writers[name]

    def _find_writers(self, name: str) -> Iterator[str]:
        node = self.nodes.get(name)
        read = {each for each in map(node_name_of, node.inputs if node else ()) if self.holds(each)}
        if node is None or not read or not any(each in self._writing for each in read):
            return
        waiting, seen = [*node.control_inputs, *map(node_name_of, node.inputs)], {name}
        while waiting:
            each = waiting.pop()
            if each in seen or each not in self.nodes:
                continue
            seen.add(each)
            found = self.nodes[each]
            if any(each in self._writing.get(variable, ()) for variable in read):
                yield each
                continue  # what was written before is overwritten
            waiting += [*found.control_inputs, *map(node_name_of, found.inputs)]

    def holds(self, name: str) -> bool:
        """Whether a node is a variable, a parameter or other state."""
        node = self.nodes.get(name)
        return node is not None and node.op_type in self.roles.weights

    @functools.cached_property
    def _writing(self) -> Mapping[str, set[str]]:
        """Variable -> the nodes that write to it."""
        found: dict[str, set[str]] = defaultdict(set)
        for node in self.nodes.values():
            if self.roles.writing.match(node.op_type):
                for each in map(node_name_of, node.inputs):
                    if self.holds(each):
                        found[each].add(node.name)
        return found

    def updates(self, name: str) -> bool:
        """Whether a node writes to a parameter in place, perhaps after others have done so."""
        seen = set()
        node = self.nodes.get(name)
        while node is not None and node.name not in seen:
            seen.add(node.name)
            written = node_name_of(node.attributes.get(WRITES, ""))
            if self.holds(written):
                return True
            node = self.nodes.get(written)
        return False

    def inputs(self, name: str) -> Sequence[str]:
        """The tensors that a node computes from; of a variable that was written, what wrote it."""
        node = self.nodes.get(name)
        if node is None:
            return ()
        writers = self.writers(name)
        if not writers:
            return node.inputs
        rest = [each for each in node.inputs if not self.holds(node_name_of(each))]
        return [*rest, *(f"{each}:0" for each in writers)]

    def starts(self, node: Node | None) -> bool:
        """Whether nothing in the run computes what a node gives."""
        if node is None or not node.inputs:
            return True
        if node.op_type not in self.memory or self.writers(node.name):
            return False
        # An engine may tell itself what was written to what is read.
        return all(self.holds(node_name_of(each)) for each in node.inputs)

    def origins(self, name: str) -> Origins:
        """Those of a node's tensors."""
        if name not in self._known:
            self._known[name] = self._walk(name)
        return self._known[name]

    def _walk(self, start: str) -> Origins:
        matched: list[str] = []
        passed: list[str] = []
        unknown: list[str] = []
        direct: list[str] = []
        alone: list[str] = []
        # Whether there are but copies between the op and a tensor.
        waiting, seen = [(each, True) for each in reversed(self.inputs(start))], {start}
        while waiting:
            name, is_direct = waiting.pop()
            node_name = node_name_of(name)
            if name in seen:
                continue
            seen.add(name)
            others = self.counterparts.get(name)
            # Of several outputs of a node one may stand for all.
            one = name if others else self._matched_nodes.get(node_name)
            if one is not None and (others is None or others - {""}):
                matched.append(one)
                direct += [name] * (is_direct and others is not None)
                continue
            if node_name in seen:
                continue
            seen.add(node_name)
            passed.append(node_name)
            hands_on = self.hands_on(node_name)
            if others is not None and is_direct and not hands_on:
                direct.append(name)
                alone.append(name)
            inputs = self.inputs(node_name)
            if not inputs and others is None:
                unknown.append(name)
            waiting += ((each, is_direct and hands_on) for each in reversed(inputs))
        return Origins(matched, passed, unknown, direct, alone)

    def is_quantized(self, name: str) -> bool:
        """Whether a node computes codes, or with codes."""
        return bool(_QUANTIZED.search(self.dump.op_type(name)))

    def dtypes(self, name: str) -> set[str]:
        """The dtypes of a node's tensors; codes count as what they are good for."""
        if self.is_quantized(name):
            return {CODES}
        found = set()
        for datum in self.dump.by_node(name):
            with contextlib.suppress(Exception):  # it is damaged: the comparison says so
                found.add(datum.dtype)
        return found

    def hands_on(self, name: str) -> bool:
        """Whether a node hands on the numbers that it was given, in whatever shape and dtype."""
        # TensorFlow's IdentityN hands on several.
        op_type = self.dump.op_type(name).removesuffix("N")
        return self.roles.computes(op_type) in _HANDING_ON or any(
            datum.is_view for datum in self.dump.by_node(name)
        )
