"""The nodes of inlined function bodies, connected with the calls that lead to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from tfdbg_cli.dumps.graph import Node
from tfdbg_cli.engines.tensorflow.shared.body_nodes import Functions, Inner, argument_index, kind_of

__all__ = ["ARGUMENT", "Bodies"]

#: The type of the nodes that stand for the variables of a loop: what begins it, or comes round.
ARGUMENT = "_Arg"

_Calls = tuple[tuple[str, Any], ...]


class _InlinedBody(NamedTuple):
    """One inlined body: what stands before its nodes' names, its graph and its callers."""

    prefix: str
    graph: Any
    calls: _Calls
    traced: bool


class Bodies:
    """Makes the nodes of bodies, and says what the calls hand on.

    Args:
        functions: of the outermost graph.
        inner: a node of each body, or more.
        make: makes the node of an operation: name, operation, inputs, control inputs, returns,
            and whether its stack is the program's.
    """

    def __init__(
        self, functions: Functions, inner: Iterable[Inner], make: Callable[..., Node]
    ) -> None:
        self._functions = functions
        self._make = make
        self._bodies: dict[str, _InlinedBody] = {}
        for each in inner:
            calls, prefix, graph = each.calls, each.prefix, each.op.graph
            while calls and prefix not in self._bodies:
                self._bodies[prefix] = _InlinedBody(prefix, graph, calls, each.traced)
                prefix, call = calls[-1]
                calls, graph = calls[:-1], call.graph
        # The full name of a call -> step into it -> what stands before the body's names.
        self._steps: dict[str, dict[str, str]] = {}
        for body in self._bodies.values():
            at, call = body.calls[-1]
            name = at + call.name
            rest = body.prefix[len(name) + 1 :]
            step = rest.partition("/")[0]
            if kind_of(call) == "Case":
                step = "".join(char for char in rest.partition("/_")[0] if char.isdigit())
            self._steps.setdefault(name, {})[step] = body.prefix

    def calls(self) -> Iterator[tuple[str, Any]]:
        """The calls of the outermost graph that bodies are known of: name and operation."""
        for body in self._bodies.values():
            if len(body.calls) == 1:
                call = body.calls[0][1]
                yield call.name, call

    def nodes(self) -> Iterator[Node]:
        """The nodes of all bodies, those that stand for the variables of loops among them."""
        for body in self._bodies.values():
            for op in body.graph.get_operations():
                index = argument_index(op)
                if index is not None:
                    if self._is_variable(body, index) and op.outputs[0].consumers():
                        yield self._variable(body, op, index)
                    continue
                yield self._make(
                    body.prefix + op.name,
                    op,
                    [self._source(tensor, body.prefix, body.calls) for tensor in op.inputs],
                    [
                        body.prefix + source.name
                        for source in op.control_inputs
                        if argument_index(source) is None
                    ],
                    self.returns(body.prefix, op, body.calls),
                    body.traced,
                )

    def returns(self, prefix: str, op: Any, calls: _Calls) -> tuple[tuple[str, ...], ...]:
        """For each result of a call the tensors that it may be; none where nobody knows.

        Those of a loop are what begins it and what its body gives; those of a branch stand in the
        order of the branches, empty where one isn't known.
        """
        if not self._functions.is_call(op):
            return ()
        name, inner = prefix + op.name, (*calls, (prefix, op))
        steps = self._steps.get(name)
        if not steps:
            return ()
        results = self._functions.results(op)
        if kind_of(op) == "While":
            results.pop("cond", None)
        found = []
        for slot, _ in enumerate(op.outputs):
            tensors = [
                self._result(result[slot], steps.get(step), inner) if slot < len(result) else ""
                for step, result in results.items()
            ]
            if kind_of(op) == "While":
                begin = self._source(op.inputs[slot], prefix, calls)
                tensors = list(dict.fromkeys([begin, *filter(None, tensors)]))
            found.append(tuple(tensors))
        return tuple(found)

    def _result(self, tensor: Any, prefix: str | None, calls: _Calls) -> str:
        if prefix is not None:
            return self._source(tensor, prefix, calls)
        while tensor.op.type == "Identity":
            tensor = tensor.op.inputs[0]
        if argument_index(tensor.op) is None or kind_of(calls[-1][1]) == "While":
            return ""
        return self._source(tensor, "", calls)

    def _source(self, tensor: Any, prefix: str, calls: _Calls) -> str:
        """The name of a tensor as seen inside a body: its own, or the one that a caller passes."""
        while calls:
            index = argument_index(tensor.op)
            if index is None:
                break
            at, call = calls[-1]
            if kind_of(call) == "While":
                body = self._bodies.get(prefix)
                if body is not None and self._is_variable(body, index):
                    break
            passed = self._functions.passed(call, index)
            if passed is None:
                break
            tensor, prefix, calls = passed, at, calls[:-1]
        return f"{prefix}{tensor.op.name}:{tensor.value_index}"

    def _is_variable(self, body: _InlinedBody, index: int) -> bool:
        """Whether an argument changes from iteration to iteration."""
        at, call = body.calls[-1]
        if kind_of(call) != "While" or "body" not in self._steps.get(at + call.name, ()):
            return False
        results = self._functions.results(call).get("body")
        return results is not None and argument_index(results[index].op) != index

    def _variable(self, body: _InlinedBody, op: Any, index: int) -> Node:
        at, call = body.calls[-1]
        results = self._functions.results(call)["body"]
        prefix = self._steps[at + call.name]["body"]
        begin = self._source(call.inputs[index], at, body.calls[:-1])
        again = self._source(results[index], prefix, body.calls)
        inputs = dict.fromkeys([begin, again])
        return Node(body.prefix + op.name, ARGUMENT, inputs, (), op.device)
