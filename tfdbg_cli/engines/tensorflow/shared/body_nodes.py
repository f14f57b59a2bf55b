"""Nodes of function bodies: from the names the runtime gives them to the operations they are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from tensorflow.python.framework import function_def_to_graph

from tfdbg_cli.common.interpreter.program_signals import contained
from tfdbg_cli.dumps.proto.graph_def import FUNCTIONAL
from tfdbg_cli.engines.tensorflow.shared.private import function_of, functions_of

__all__ = ["Functions", "Inner", "argument_index", "kind_of", "operations_of"]

# Inlined bodies: "loop/body/_3/add", "if/then/_0/mul", "case/branches/1/_4/neg"; a call's body
# comes right below its own name.
_BRANCHES = {
    "While": re.compile(r"(body|cond)/_\d+/"),
    "If": re.compile(r"(then|else)/_\d+/"),
    "Case": re.compile(r"branch(?:es)?[/_:]?(\d+)/_\d+/"),
}
_ATTRIBUTES = {"then": "then_branch", "else": "else_branch"}


# Functions may call themselves.
_DEEPEST = 8


class _FunctionBody(NamedTuple):
    """A function's operations by the name they have in its definition.

    Attributes:
        ops: the operations.
        traced: whether their creation stacks are the program's.
        results: the tensors that the function returns.
    """

    ops: dict[str, Any]
    traced: bool
    results: tuple[Any, ...]


class Inner(NamedTuple):
    """One node of an inlined body.

    Attributes:
        name: the user's: the calls that lead to the body, and the operation's own name.
        op: the operation in its ``FuncGraph``.
        prefix: what stands before the operation's own name.
        calls: the operations that call the body, outermost first, each with the prefix of the
            graph it is in.
        traced: whether the operation's creation stack is the program's.
    """

    name: str
    op: Any
    prefix: str
    calls: tuple[tuple[str, Any], ...]
    traced: bool


class Functions:
    """The functions of one graph, looked up when a name asks for them.

    Args:
        graph: the outermost ``tf.Graph``; it holds the nested functions as well.
    """

    def __init__(self, graph: Any) -> None:
        self._graph = graph
        self._bodies: dict[str, _FunctionBody | None] = {}

    def find(self, name: str, callers: Any, *, is_own: bool = False) -> Inner | None:
        """The operation behind a runtime name; ``None`` if it is the runtime's own invention.

        Args:
            name: e.g. ``loop/body/_1/add_0``.
            callers: the functional operations of the outermost graph, as a mapping by name.
            is_own: it ends with the operation's own name, as `Inner.name` does.
        """
        prefix, rest = "", name
        calls: tuple[tuple[str, Any], ...] = ()
        while True:
            found = _split(rest, callers)
            if found is None:
                return None
            call, step, rest = found
            function = _function_name(call, step)
            body = self._body(function) if function else None
            if body is None:
                return None
            calls = (*calls, (prefix, call))
            prefix += f"{call.name}/{step}"
            ops = {each.name: each for each in body.ops.values()} if is_own else body.ops
            op = ops.get(rest)
            if op is not None:
                return Inner(prefix + op.name, op, prefix, calls, body.traced)
            callers = {key: inner for key, inner in ops.items() if self.is_call(inner)}

    def within(self, name: str, callers: Mapping[str, Any]) -> Iterator[Inner]:
        """The nodes of all bodies whose definition has a name, wherever the bodies are called.

        The numbers that the runtime gives to bodies are not known here: they are zeros.
        """
        waiting = [("", call, 0) for call in callers.values()]
        while waiting:
            prefix, call, depth = waiting.pop(0)
            for step, function in _function_names(call).items():
                body = self._body(function)
                if body is None:
                    continue
                word = f"branches/{step}" if kind_of(call) == "Case" else step
                inside = f"{prefix}{call.name}/" + (f"{word}/_0/" if word else "")
                found = self.find(inside + name, callers) if name in body.ops else None
                if found is not None:
                    yield found
                if depth < _DEEPEST:
                    nested = (op for op in body.ops.values() if self.is_call(op))
                    waiting += [(inside, op, depth + 1) for op in nested]

    def is_call(self, op: Any) -> bool:
        """Whether an operation runs a function of the graph's library."""
        return op.type in FUNCTIONAL or op.type in functions_of(self._graph)

    def names(self, calls: Iterable[Any]) -> Iterator[str]:
        """The names of all nodes in the bodies that operations call, directly or not."""
        for body in self._bodies_of(calls):
            yield from body.ops

    def operations(self, calls: Iterable[Any]) -> Iterator[Any]:
        """All nodes in the bodies that operations call, directly or not; each once."""
        for body in self._bodies_of(calls):
            yield from body.ops.values()

    def _bodies_of(self, calls: Iterable[Any]) -> Iterator[_FunctionBody]:
        seen: set[str] = set()
        waiting = list(calls)
        while waiting:
            for function in _function_names(waiting.pop()).values():
                body = self._body(function) if function not in seen else None
                seen.add(function)
                if body is not None:
                    yield body
                    waiting.extend(op for op in body.ops.values() if self.is_call(op))

    def results(self, call: Any) -> dict[str, tuple[Any, ...]]:
        """What the functions that an operation calls return, as tensors of their graphs.

        Returns:
            Step into the body -> its results: ``body`` and ``cond`` of a loop, ``then`` and
            ``else`` of a branch, numbers of a case, the empty string of any other call.
        """
        found = {}
        for step, function in _function_names(call).items():
            body = self._body(function)
            if body is not None:
                found[step] = body.results
        return found

    def passed(self, call: Any, index: int) -> Any:
        """The tensor that a call passes as an argument, or ``None``."""
        # If and Case take the predicate first.
        at = index + 1 if kind_of(call) in ("If", "Case") else index
        return call.inputs[at] if at < len(call.inputs) else None

    def _body(self, function: str) -> _FunctionBody | None:
        if function not in self._bodies:
            self._bodies[function] = None
            with contained:  # nobody knows more than its name
                self._bodies[function] = _make_body(self._graph, function)
        return self._bodies[function]


def _split(name: str, callers: Any) -> tuple[Any, str, str] | None:
    """The call that a name begins with, the step into its body, and the rest."""
    at = name.find("/")
    while at >= 0:
        call = callers.get(name[:at])
        if call is not None:
            rest = name[at + 1 :]
            pattern = _BRANCHES.get(kind_of(call))
            if pattern is None:
                return call, "", rest
            match = pattern.match(rest)
            if match is not None:
                return call, match[0], rest[match.end() :]
        at = name.find("/", at + 1)
    return None


def _function_name(call: Any, step: str) -> str:
    """The function that a step into a call's body leads to."""
    kind = kind_of(call)
    if kind == "Case":
        match = _BRANCHES["Case"].match(step)
        branches = call.get_attr("branches")
        index = int(match[1]) if match is not None else len(branches)
        return str(branches[index].name) if index < len(branches) else ""
    word = step.partition("/")[0]
    if call.type not in FUNCTIONAL:  # the type itself names the function
        return str(call.type)
    return str(call.get_attr(_ATTRIBUTES.get(word, word) or "f").name)


def _function_names(call: Any) -> dict[str, str]:
    """All functions that an operation may call, by the step that leads to them."""
    kind = kind_of(call)
    if kind == "Case":
        return {str(at): str(each.name) for at, each in enumerate(call.get_attr("branches"))}
    steps = {"While": ("body", "cond"), "If": ("then", "else")}.get(kind, ("",))
    return {step: _function_name(call, step and f"{step}/") for step in steps}


def kind_of(call: Any) -> str:
    """The type of a call, stateless or not: ``While``, ``If``, ``PartitionedCall``..."""
    return str(call.type).removeprefix("Stateless").removeprefix("Stateful")


def _make_body(graph: Any, name: str) -> _FunctionBody:
    function = function_of(graph, name)
    body = getattr(function, "graph", None)
    traced = body is not None
    if body is None:  # imported with a GraphDef
        with graph.as_default():
            body = function_def_to_graph.function_def_to_graph(function.definition)
    return _FunctionBody(operations_of(function.definition, body), traced, tuple(body.outputs))


def operations_of(definition: Any, graph: Any) -> dict[str, Any]:
    """The operations of a function by the names of the nodes in its definition.

    Args:
        definition: its ``FunctionDef``.
        graph: its ``FuncGraph``.
    """
    # The definition renames nodes that would clash with its arguments and results ("add" may
    # become "add_0"), but keeps their order.
    nodes = [(node.name, node.op) for node in definition.node_def]
    inputs = {tensor.op for tensor in graph.inputs}
    ops = [op for op in graph.get_operations() if op not in inputs]
    if [op.type for op in ops] == [kind for _, kind in nodes]:
        return {name: op for (name, _), op in zip(nodes, ops, strict=True)}
    own = {op.name: op for op in ops}
    table = {}
    for node, kind in nodes:
        op = own.get(node) or own.get(re.sub(r"_\d+$", "", node))
        if op is not None and op.type == kind:
            table[node] = op
    return table


def argument_index(op: Any) -> int | None:
    """Which argument of its function an operation stands for; ``None``: it is none."""
    if op.type != "Placeholder":
        return None
    for index, tensor in enumerate(getattr(op.graph, "inputs", ())):
        if tensor.op is op:
            return index
    return None
