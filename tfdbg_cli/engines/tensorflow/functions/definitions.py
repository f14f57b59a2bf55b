"""The bodies of traced functions, as their definitions say: nodes in order, and what they call."""

from __future__ import annotations

import heapq
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tensorflow.core.framework import node_def_pb2, types_pb2
from tensorflow.python.framework import dtypes, op_def_registry

import tfdbg_cli
from tfdbg_cli.engines.tensorflow.functions.pipelines.loops import (
    ELEMENT,
    SCAN,
    DatasetLoop,
    loop_of,
)
from tfdbg_cli.engines.tensorflow.shared.values import holdable

__all__ = [
    "MARK",
    "BodyNode",
    "FunctionBody",
    "Kind",
    "Output",
    "element_node",
    "plain_text",
    "read_body",
]

#: In the names of functions that we make, behind those of the functions that they stand for.
MARK = "__tfdbg_"
_MARKED = re.compile(rf"{MARK}\w*")
# The stacks in messages: of the debugged program they begin where the debugger runs it.
_PACKAGE = os.path.dirname(os.path.abspath(tfdbg_cli.__file__))
_FRAME = r' +File "{}[^"]*", line \d+, in [^\n]*\n(?: *\n| {{6}}[^\n]*\n)?'
_LAUNCHER = re.compile(
    f"(?:{_FRAME.format('<frozen runpy>')})*(?:{_FRAME.format(re.escape(_PACKAGE + os.sep))})+"
)

# Functions may call themselves.
_DEEPEST = 32
_NAME = re.compile(r"__(?:inference|forward)_(.+?)(?:_\d+)+\Z")
_BACKWARD = re.compile(r"__inference___backward_(.+?)(?:_\d+)+\Z")


def plain_text(text: str) -> str:
    """A message as the program's own functions have it, without the frames that run it."""
    return _LAUNCHER.sub("", _MARKED.sub("", text))


class Kind:
    """How a node calls functions."""

    CALL = "call"
    BRANCH = "branch"
    LOOP = "loop"
    DATASET = "loop over a dataset"


_KINDS = {
    "PartitionedCall": Kind.CALL,
    "StatefulPartitionedCall": Kind.CALL,
    "If": Kind.BRANCH,
    "StatelessIf": Kind.BRANCH,
    "Case": Kind.BRANCH,
    "StatelessCase": Kind.BRANCH,
    SCAN: Kind.DATASET,
    "While": Kind.LOOP,
    "StatelessWhile": Kind.LOOP,
}


class Output(NamedTuple):
    """One output of a node.

    Attributes:
        reference: as a definition names it: ``node:argument:index``.
        dtype: its ``DataType`` enum.
    """

    reference: str
    dtype: int


class BodyNode:
    """One node of a function's body.

    Attributes:
        definition: its ``NodeDef``.
        outputs: in order.
        inputs: where its inputs come from: a node's name and slot; of an argument of the function
            an empty name and its number.
        control: the names of the nodes that it waits for.
        kind: how it calls functions; empty: it doesn't.
        inner: step -> the body that is called: ``then``, ``else``, numbers, ``cond``, ``body``, or
            nothing.
        loop: over a dataset, that begins with it.
        stands_for: the number of the function's argument that its first output is; ``None``: it is
            a node of its own.
    """

    __slots__ = (
        "control",
        "definition",
        "inner",
        "inputs",
        "kind",
        "loop",
        "outputs",
        "stands_for",
    )

    def __init__(self, definition: Any, outputs: Sequence[Output], kind: str) -> None:
        self.definition = definition
        self.outputs = outputs
        self.kind = kind
        self.inner: dict[str, FunctionBody] = {}
        self.inputs: list[tuple[str, int]] = []
        self.control: list[str] = []
        self.loop: DatasetLoop | None = None
        self.stands_for: int | None = None

    @property
    def name(self) -> str:
        """The user's, within the function."""
        return str(self.definition.name)

    @property
    def op(self) -> str:
        """The op type."""
        return str(self.definition.op)


class FunctionBody:
    """A function.

    Attributes:
        definition: its ``FunctionDef``.
        nodes: in an order in which they can be computed, otherwise that in which they were made.
        returns: per result where it comes from, as `BodyNode.inputs`.
        live: the names of the nodes that are executed: the runtime leaves out what nothing needs.
        is_compiled: XLA compiles it.
    """

    def __init__(self, definition: Any) -> None:
        self.definition = definition
        self.nodes: list[BodyNode] = []
        self.returns: list[tuple[str, int]] = []
        self.live: set[str] = set()
        self.is_compiled = definition.attr["_XlaMustCompile"].b if definition.attr else False

    @property
    def name(self) -> str:
        """The runtime's."""
        return str(self.definition.signature.name)

    @property
    def title(self) -> str:
        """What the user calls it."""
        for pattern, made in ((_BACKWARD, "gradients of {}"), (_NAME, "{}")):
            match = pattern.fullmatch(plain_text(self.name))
            if match is not None:
                return made.format(match[1].strip("_"))
        return self.name


def _kind_of(op: str, is_function: Callable[[str], bool]) -> str:
    """How nodes of an op type call functions."""
    return _KINDS.get(op) or (Kind.CALL if is_function(op) else "")


def _steps_of(node: Any) -> Mapping[str, str]:
    """Step -> function, for a ``NodeDef`` that calls some."""
    attributes = node.attr
    if node.op in ("If", "StatelessIf"):
        return {step: attributes[f"{step}_branch"].func.name for step in ("then", "else")}
    if node.op in ("Case", "StatelessCase"):
        return {str(at): f.name for at, f in enumerate(attributes["branches"].list.func)}
    if node.op in ("While", "StatelessWhile"):
        return {step: attributes[step].func.name for step in ("cond", "body")}
    step = "body" if node.op == SCAN else ""
    return {step: attributes["f"].func.name if "f" in attributes else node.op}


def read_body(
    name: str,
    find: Callable[[str], Any],
    known: dict[str, FunctionBody],
    depth: int = 0,
) -> FunctionBody:
    """Read a function, and those that it calls.

    Args:
        name: of the function.
        find: gives the ``FunctionDef`` of a name; ``None``: there is none.
        known: those that were read before, by name; more are added.
        depth: of calls.

    Raises:
        KeyError: there is no such function.
    """
    if name in known:
        return known[name]
    definition = find(name)
    if definition is None:
        raise KeyError(name)
    body = known[name] = FunctionBody(definition)
    table: dict[str, BodyNode] = {}
    for node in definition.node_def:
        signature = op_def_registry.get(node.op)
        called = find(node.op) if signature is None else None
        if called is not None:
            signature = called.signature
        outputs = list(_outputs(node, signature)) if signature is not None else []
        kind = _kind_of(node.op, lambda _: called is not None)  # noqa: B023 (used at once)
        table[node.name] = BodyNode(node, outputs, kind)
    definitions = {node.name: node for node in definition.node_def}
    for made in table.values():
        if made.kind == Kind.DATASET:
            made.loop = loop_of(made.definition, definitions, find)
            made.kind = made.kind if made.loop is not None else ""
    sources = {
        output.reference: (node.name, slot)
        for node in table.values()
        for slot, output in enumerate(node.outputs)
    }
    for at, argument in enumerate(definition.signature.input_arg):
        sources[argument.name] = ("", at)
    for made in table.values():
        for item in made.definition.input:
            if item.startswith("^"):
                made.control.append(item[1:])
            else:
                made.inputs.append(sources.get(item, ("", -1)))
    body.nodes = list(_ordered(table))
    body.returns = [
        sources.get(definition.ret[output.name], ("", -1))
        for output in definition.signature.output_arg
    ]
    body.live = _live(body)
    for made in body.nodes if depth < _DEEPEST else ():
        for step, function in _steps_of(made.definition).items() if made.kind else ():
            try:
                made.inner[step] = read_body(function, find, known, depth + 1)
            except KeyError:  # what it does stays unseen
                made.inner, made.kind = {}, ""
                break
    return body


def element_node(loop: DatasetLoop, body: FunctionBody) -> BodyNode:
    """What stands for the elements in the body of a loop over a dataset."""
    arguments = body.definition.signature.input_arg[loop.states : loop.states + loop.elements]
    definition = node_def_pb2.NodeDef(name=ELEMENT, op=ELEMENT)
    outputs = [
        Output(each.name, each.type) for each in arguments if holdable(dtypes.as_dtype(each.type))
    ]
    made = BodyNode(definition, outputs, "")
    made.stands_for = loop.states
    made.inputs.append(("", loop.states))
    return made


def _live(body: FunctionBody) -> set[str]:
    """The nodes that are executed."""
    live = {source for source, _ in body.returns} | set(body.definition.control_ret.values())
    for node in reversed(body.nodes):
        signature = op_def_registry.get(node.op)
        if node.name in live or signature is None or signature.is_stateful:
            live.add(node.name)
            live.update(source for source, _ in node.inputs)
            live.update(node.control)
    return live


def _outputs(node: Any, signature: Any) -> Iterator[Output]:
    for argument in signature.output_arg:
        if argument.type_list_attr:
            kinds = list(node.attr[argument.type_list_attr].list.type)
        else:
            kind = argument.type or node.attr[argument.type_attr].type
            count = node.attr[argument.number_attr].i if argument.number_attr else 1
            kinds = [kind] * count
        for at, kind in enumerate(kinds):
            yield Output(f"{node.name}:{argument.name}:{at}", kind or types_pb2.DT_INVALID)


def _ordered(table: Mapping[str, BodyNode]) -> Iterator[BodyNode]:
    """In the order in which they were made, but behind what they need.

    What a node needs comes before it however late it was made. A loop whose gradient is asked for
    gets inputs that are made after that gradient, and would come behind all of it otherwise.
    """
    places = {name: at for at, name in enumerate(table)}
    users: list[list[int]] = [[] for _ in places]
    for name, node in table.items():
        for need in {source for source, _ in node.inputs if source} | set(node.control):
            if need in places:
                users[places[need]].append(places[name])
    ranks = [*range(len(places))]
    for at in reversed(_by_rank(users, ranks)):
        ranks[at] = min([ranks[at], *(ranks[user] for user in users[at])])
    nodes = [*table.values()]
    for at in _by_rank(users, ranks):
        yield nodes[at]


def _by_rank(users: Sequence[Sequence[int]], ranks: Sequence[int]) -> list[int]:
    """Numbers, each behind those that it uses, else the lowest rank first; no circles."""
    missing = [0] * len(users)
    for each in users:
        for user in each:
            missing[user] += 1
    ready = [(ranks[at], at) for at, count in enumerate(missing) if not count]
    heapq.heapify(ready)
    found = []
    while ready:
        _, at = heapq.heappop(ready)
        found.append(at)
        for user in users[at]:
            missing[user] -= 1
            if not missing[user]:
                heapq.heappush(ready, (ranks[user], user))
    return found
