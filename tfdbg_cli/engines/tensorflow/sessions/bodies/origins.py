"""From the names in a run's step stats to the user's nodes that they were made from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from tfdbg_cli.dumps.proto.graph_def import FUNCTIONAL
from tfdbg_cli.dumps.tfdbg_dir.runtime_names import user_names
from tfdbg_cli.engines.tensorflow.shared.body_nodes import Functions, Inner
from tfdbg_cli.engines.tensorflow.shared.private import functions_of

__all__ = ["NodeExecution", "NodeOrigin", "Origins"]

# Where the bodies of an operation that wasn't inlined begin; see `functions`.
_STEPS = {"While": ("body/_0/", "cond/_0/"), "If": ("then/_0/", "else/_0/")}


class NodeExecution(NamedTuple):
    """One execution of a node, as the step stats tell of it.

    Attributes:
        name: what the runtime calls the node.
        kernel: the type of operation it executed; empty where the stats don't say.
        inputs: the names of the nodes it read from.
        start: when it began, in nanoseconds on some clock.
        op_time: how long its kernel computed, in nanoseconds.
        exec_time: how long it took in all, in nanoseconds.
    """

    name: str
    kernel: str
    inputs: tuple[str, ...]
    start: int
    op_time: int
    exec_time: int


class NodeOrigin(NamedTuple):
    """Where a node of the runtime comes from.

    Attributes:
        node: the user's name of the node; the runtime's, where there is nothing of the user's.
        op_type: its type in the user's graph; empty where there is nothing of the user's.
        inner: set if it is in the body of a function.
    """

    node: str
    op_type: str = ""
    inner: Inner | None = None


class _Calls:
    """The operations of a graph that call functions, by name, looked up when asked for."""

    def __init__(self, graph: Any, functions: Functions) -> None:
        self._graph = graph
        self._functions = functions

    def get(self, name: str) -> Any:
        op = _operation(self._graph, name)
        return op if op is not None and self._functions.is_call(op) else None


class _BodyCall(NamedTuple):
    """A function that was executed under its own names, not inlined."""

    origin: NodeOrigin
    prefixes: tuple[str, ...]
    times: tuple[tuple[int, int], ...]

    def covers(self, moment: int) -> bool:
        return any(begin <= moment <= end for begin, end in self.times)


class Origins:
    """Leads the nodes of one run back to the user's.

    Args:
        graph: the ``tf.Graph`` of the session.
        functions: of that graph.
        executed: everything that the run executed.
    """

    def __init__(self, graph: Any, functions: Functions, executed: Iterable[NodeExecution]) -> None:
        self._graph = graph
        self._functions = functions
        self._calls = _Calls(graph, functions)
        self._known: dict[tuple[str, str], NodeOrigin] = {}
        self._opened: list[_BodyCall] = []
        self._open(executed)

    def of(self, one: NodeExecution) -> NodeOrigin:
        """The origin of an executed node."""
        if self._opened:
            child = self._of_child(one)
            if child is not None:
                return child
        key = (one.name, one.kernel)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._find(one.name)
        return found

    def _find(self, runtime_name: str) -> NodeOrigin:
        name = runtime_name.removeprefix("Func/")  # what an inlined call was given and gave
        for candidate in user_names(name):
            found = self._exactly(candidate)
            if found is not None:
                return found
        # The switches and merges that a loop or branch is made of belong to it.
        at = name.rfind("/")
        while at > 0:
            call = self._calls.get(name[:at])
            if call is not None:
                return NodeOrigin(call.name, call.type)
            at = name.rfind("/", 0, at)
        return NodeOrigin(runtime_name)

    def _exactly(self, name: str) -> NodeOrigin | None:
        op = _operation(self._graph, name)
        if op is not None:
            return NodeOrigin(op.name, op.type)
        inner = self._functions.find(name, self._calls)
        return NodeOrigin(inner.name, inner.op.type, inner) if inner is not None else None

    # Functions that weren't inlined: the nodes of their bodies have no prefix.

    def _open(self, executed: Iterable[NodeExecution]) -> None:
        """Find the functions whose bodies were executed as they are, also within each other."""
        waiting: dict[tuple[str, str], list[tuple[int, int]]] = {}
        for one in executed:
            if one.kernel in FUNCTIONAL or one.kernel in functions_of(self._graph):
                span = one.start, one.start + one.exec_time
                waiting.setdefault((one.name, one.kernel), []).append(span)
        found = True
        while found:
            found = False
            for (name, kernel), spans in list(waiting.items()):
                for origin in self._called(name, kernel):
                    steps = _STEPS.get(kernel.removeprefix("Stateless"), ("",))
                    prefixes = tuple(f"{origin.node}/{step}" for step in steps)
                    self._opened.append(_BodyCall(origin, prefixes, tuple(spans)))
                    waiting.pop((name, kernel), None)
                    found = True

    def _called(self, name: str, kernel: str) -> Iterator[NodeOrigin]:
        """The calls that a node may be, if it has executed a function as it is."""
        inside = [self._inside(call, name) for call in self._opened]
        for origin in (self._exactly(name), *inside):
            if origin is not None and origin.op_type == kernel:
                yield origin

    def _inside(self, call: _BodyCall, name: str) -> NodeOrigin | None:
        for prefix in call.prefixes:
            inner = self._functions.find(prefix + name, self._calls)
            if inner is not None:
                return NodeOrigin(inner.name, inner.op.type, inner)
        return None

    def _of_child(self, one: NodeExecution) -> NodeOrigin | None:
        """The origin in a function that was executed as it is, if it is in one."""
        calls = [call for call in self._opened if call.covers(one.start)]
        if not calls:
            return None
        if one.kernel in ("_Arg", "_Retval"):
            is_outer = one.name.startswith(("_arg_", "_retval_"))
            return None if is_outer else calls[-1].origin._replace(inner=None)
        own = _operation(self._graph, one.name)
        for call in reversed(calls):  # the innermost first
            child = self._inside(call, one.name)
            if child is None or child.inner is None:
                continue
            if own is not None and _alike(own, one) > _alike(child.inner.op, one):
                return None
            return child
        return None


def _operation(graph: Any, name: str) -> Any:
    try:
        return graph.get_operation_by_name(name)
    except (KeyError, ValueError):
        return None


def _alike(op: Any, one: NodeExecution) -> int:
    """How many of an executed node's inputs are those of an operation."""
    names = {tensor.op.name for tensor in op.inputs}
    return sum(name in names for name in one.inputs)
