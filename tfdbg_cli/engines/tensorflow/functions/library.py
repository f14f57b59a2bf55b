"""The traced functions that the program calls, and their twins."""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from tensorflow.core.framework import function_pb2
from tensorflow.python.eager import context
from tensorflow.python.framework import dtypes

from tfdbg_cli.engines.tensorflow.functions.definitions import (
    MARK,
    BodyNode,
    FunctionBody,
    Kind,
    read_body,
)
from tfdbg_cli.engines.tensorflow.functions.effects import has_state
from tfdbg_cli.engines.tensorflow.functions.private import (
    call_by_name,
    optimized_graphs,
    refused,
    spare,
    variable_kind,
)
from tfdbg_cli.engines.tensorflow.functions.twins.again import make_again, make_before, why_not
from tfdbg_cli.engines.tensorflow.functions.twins.guards import READING
from tfdbg_cli.engines.tensorflow.functions.twins.layouts import Layout
from tfdbg_cli.engines.tensorflow.functions.twins.optimized import (
    Place,
    graph_of_function,
    nodes_of,
    refusable,
    unread_edges,
)
from tfdbg_cli.engines.tensorflow.functions.twins.twin import Twin, make_twin
from tfdbg_cli.engines.tensorflow.functions.twins.windows import DEFAULT_ROOM
from tfdbg_cli.engines.tensorflow.functions.variables import is_writing, quietly
from tfdbg_cli.engines.tensorflow.shared.optimized import OptimizedGraph, settled
from tfdbg_cli.engines.tensorflow.shared.values import holdable

__all__ = ["KnownFunction", "Library", "find_function", "lent"]


class KnownFunction:
    """What is known of a function.

    It always has the same twin, whoever looks at its runs: a stream of random numbers that an op of
    TensorFlow's keeps in itself would begin anew in another one. The twin of most gives only what
    can't be computed a second time, and of the rest whether it is bad.

    Args:
        body: what it does.
        room: how many bytes the iterations of a loop may take.

    Attributes:
        body: as above.
        title: what the user calls it.
        is_training: it computes gradients.
        writes: it writes to variables.
        has_streams: it draws random numbers whose state is in the ops.
        has_steps: it has loops or branches.
        is_compiled: XLA compiles some of it.
        only_reads: it may be computed twice.
        holds: why its twin gives all there is; empty: what is plain can be computed again.
        excused: the numbers of its health that were bad without anything that was waited for.
    """

    def __init__(self, body: FunctionBody, room: Callable[[], int]) -> None:
        pairs = list(_all_nodes(body, set()))
        nodes = [node for _, node in pairs]
        self.body, self.title = body, body.title
        arguments = enumerate(body.definition.signature.input_arg)
        self._holdable = {each.name: at for at, each in arguments if _holds(each.type)}
        self.is_training = any("gradient_tape/" in node.name for node in nodes)
        self.writes = any(is_writing(node.op) for node in nodes)
        self.only_reads = not any(
            has_state(node) and node.op not in ("ReadVariableOp", "Assert")
            for node in nodes
            if not node.kind
        )
        self.has_streams = any("seed2" in node.definition.attr for node in nodes)
        self.holds = why_not(body)
        self.has_steps = any(node.kind and node.kind != Kind.CALL for node in nodes)
        self.is_compiled = body.is_compiled or any(
            inner.is_compiled for node in nodes for inner in node.inner.values()
        )
        self.excused: set[int] = set()
        reading = {body for body, node in pairs if node.op == READING}
        self._can_be_guarded = len(reading) == 1 and not (
            self.holds or self.has_streams or self.is_compiled
        )
        self._room = room
        self._is_guarded: bool | None = None
        self._twins: dict[bool, Twin] = {}
        self._plain: OptimizedGraph | None = None
        self._unread: Collection[Place] = ()
        self._again: dict[bool, Twin] = {}

    def inputs(self, arguments: Sequence[Any]) -> Mapping[str, Any]:
        """The arguments of a call that have elements, by name; those that it has captured, too."""
        return {name: arguments[at] for name, at in self._holdable.items() if at < len(arguments)}

    def is_guarded(self, arguments: Sequence[Any], allowance: int) -> bool:
        """Whether its twin does without what variables held, where a bad tensor is waited for.

        That is found out once: there is more or less room from run to run, and it takes long to
        prepare another twin.

        Args:
            arguments: of a call: the shapes of variables are part of what was traced.
            allowance: bytes that its variables may take in addition.
        """
        if self._is_guarded is None:
            kinds = filter(None, map(variable_kind, arguments))
            size = sum(dtype.size * (shape.num_elements() or 0) for dtype, shape in kinds)
            self._is_guarded = self._can_be_guarded and size > allowance
        return self._is_guarded

    def twin(self, is_guarded: bool = False, arguments: Sequence[Any] | None = None) -> Twin:
        """What is called in its place.

        Args:
            is_guarded: what variables held is returned only if something is bad.
            arguments: of the call; ``None``: the optimizer has nothing to do with it.
        """
        if is_guarded not in self._twins:
            wants = _everything if self.holds else _stateful

            if arguments is not None and self._plain is None and not self.body.is_compiled:
                self._plain = _graph_of(self.body.name, arguments)
            more = spare() if self._plain is not None else ()
            made: list[Twin] = []

            def make(places: Collection[Place]) -> Twin:
                while made:  # one that has computed something else
                    _remove(made.pop())
                unread = unread_edges(self.body, places)
                twin = make_twin(
                    self.body, find_function, wants, True, self._room(), is_guarded, unread
                )
                if more:
                    refusable(twin.definitions[-1])
                _add(twin)
                made.append(twin)
                return twin._replace(more=more)

            def look(twin: Twin) -> OptimizedGraph | None:
                if more:
                    return _prepared(twin.definitions[-1], arguments or ())
                return _graph_of(twin.name, arguments or ())

            nodes = functools.partial(nodes_of, self.body)
            self._twins[is_guarded], self._unread = settled(make, look, nodes, self._plain)
        return self._twins[is_guarded]

    def values(
        self, twin: Twin, arguments: Sequence[Any], added: Sequence[Any], by_xla: bool = False
    ) -> tuple[Layout, Sequence[Any]] | None:
        """All tensors of a call.

        Args:
            twin: that was called.
            arguments: of the call.
            added: what the twin has given besides.
            by_xla: as XLA computes them, where they are computed again.

        Returns:
            Where they are among the results, and the results; ``None``: they weren't kept.
        """
        if not twin.keeps(added):
            return None
        if self.holds:
            return twin.layout, added
        if by_xla not in self._again:
            made_again = make_again(self.body, find_function, self._room(), by_xla, self._unread)
            _add(made_again)
            self._again[by_xla] = made_again
        again = self._again[by_xla]
        given = [*arguments, *added[:-1]]
        plain = len(self.body.definition.signature.output_arg)
        with context.eager_mode():
            made = call_by_name(again.name, given, plain + again.added)
        return again.layout, made[plain:]

    def values_before(
        self, arguments: Sequence[Any], failed: str
    ) -> tuple[Layout, Sequence[Any]] | None:
        """The tensors of a call that has failed at a node, as far as they are known."""
        if not any(node.name == failed for node in self.body.nodes):
            return None
        twin = make_before(self.body, find_function, failed)
        _add(twin)
        try:
            with context.eager_mode():
                made = call_by_name(twin.name, arguments, twin.added)
        finally:
            _remove(twin)
        return twin.layout, made

    def forget(self) -> None:
        """Let go of what was made known to the runtime."""
        for twin in (*self._twins.values(), *self._again.values()):
            _remove(twin)


class Library:
    """Knows functions for as long as the program has them.

    Args:
        room: how many bytes the iterations of a loop may take.
    """

    def __init__(self, room: Callable[[], int] = lambda: DEFAULT_ROOM) -> None:
        self._room = room
        self._known: weakref.WeakKeyDictionary[Any, KnownFunction] = weakref.WeakKeyDictionary()

    def get(self, function: Any) -> KnownFunction | None:
        """What a function does, if it was asked for before."""
        return self._known.get(function)

    def know(self, function: Any, name: str) -> KnownFunction:
        """Find out what a function does.

        Args:
            function: the framework's object for it.
            name: the runtime's.

        Raises:
            KeyError: nobody knows.
        """
        known = self._known[function] = KnownFunction(
            read_body(name, find_function, {}), self._room
        )
        weakref.finalize(function, known.forget).atexit = False
        return known


def find_function(name: str) -> Any:
    """The ``FunctionDef`` of a function that the runtime knows; ``None``: it doesn't."""
    runtime = context.context()
    return runtime.get_function_def(name) if runtime.has_function(name) else None


def _graph_of(name: str, arguments: Sequence[Any]) -> OptimizedGraph | None:
    """What the runtime makes of a function; it isn't executed."""
    definition = function_pb2.FunctionDef()
    definition.CopyFrom(find_function(name))
    definition.signature.name += f"{MARK}asked"
    refusable(definition)
    runtime = context.context()
    runtime.add_function_def(definition)
    try:
        return _prepared(definition, arguments)
    finally:
        runtime.remove_function(definition.signature.name)


def _prepared(definition: Any, arguments: Sequence[Any]) -> OptimizedGraph | None:
    """As `_graph_of`, of a function that was made so that the runtime refuses a call."""
    with quietly():
        count = len(definition.signature.output_arg)
        graphs = optimized_graphs(definition.signature.name, [*arguments, refused()], count)
    return graph_of_function(graphs) if graphs else None


def _add(twin: Twin) -> None:
    for definition in twin.definitions:
        context.context().add_function_def(definition)


def _remove(twin: Twin) -> None:
    runtime = context.context()
    for definition in twin.definitions:
        if runtime.has_function(definition.signature.name):
            runtime.remove_function(definition.signature.name)


@contextlib.contextmanager
def lent(twin: Twin) -> Iterator[None]:
    """The runtime knows functions that are used once."""
    _add(twin)
    try:
        yield
    finally:
        _remove(twin)


def _holds(kind: int) -> bool:
    return holdable(dtypes.as_dtype(kind))


def _everything(node: BodyNode) -> bool:
    return True


def _stateful(node: BodyNode) -> bool:
    return not node.inner and not node.kind and has_state(node)


def _all_nodes(body: FunctionBody, seen: set[str]) -> Iterator[tuple[str, BodyNode]]:
    """All nodes, each with the name of its function."""
    if body.name in seen:
        return
    seen.add(body.name)
    for node in body.nodes:
        yield body.name, node
        for inner in node.inner.values():
            yield from _all_nodes(inner, seen)
