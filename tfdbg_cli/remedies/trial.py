"""The rest of a run, computed again with a change: the changed op and all that read its result."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tfdbg_cli.common.arrays import Array, np
from tfdbg_cli.common.errors import DumpError
from tfdbg_cli.common.node_words import BACKWARD, PHASE
from tfdbg_cli.dumps.dump import HANDLES, CannotRedo, Datum, Dump, variable_before
from tfdbg_cli.dumps.graph import Graph, Node, node_name_of
from tfdbg_cli.dumps.sources import own_frame
from tfdbg_cli.filters.cause_ops import forward_node
from tfdbg_cli.filters.cause_patterns import later_phase
from tfdbg_cli.filters.lineage import TensorLineage
from tfdbg_cli.tensors.numeric import dtype_kind, has_nonfinite

__all__ = ["Change", "Outcome", "Trial", "difference"]

# What isn't in the dump is computed from what is, over so many ops.
_MOST_BACK = 200
# What an op computes -> what its derivative does, of the same input.
_DERIVED = {"log": ("reciprocal", "div"), "div": ("div",), "pow": ("pow",), "exp": ("mul",)}
# What all trials at one stop may hold, in bytes.
_MOST_BYTES = 1 << 29


class Change:
    """What is done otherwise in one op.

    Attributes:
        node: the op.
        give: makes of the values of the op's inputs those that it is given instead.
        passes: of the inputs as they were: where the gradient of the first changed one still
            passes (a clipped element has none); ``None``: everywhere.
        replace: makes the outputs of the op from its inputs, in place of the op; ``None``: the op
            itself is computed.
        wide: the op, and what follows it, is computed in this dtype; empty: in their own.
        inner: the node whose result the op reads, where one function takes the place of both.
        pulled: the gradient of that function, of what comes back to it.
    """

    def __init__(
        self,
        node: str,
        give: Callable[[list[Any]], list[Any]] = lambda given: given,
        passes: Callable[[list[Any]], Array] | None = None,
        replace: Callable[[list[Any]], list[Array]] | None = None,
        wide: str = "",
    ) -> None:
        self.node = node
        self.give = give
        self.passes = passes
        self.replace = replace
        self.wide = wide
        self.inner = ""
        self.pulled: Callable[[Array], Array] | None = None


class Outcome:
    """What came of a trial.

    Attributes:
        values: tensor -> what it is with the change, of all tensors that are other ones then.
        bad: the first tensor that is bad with the change; empty: none.
        bad_value: its value.
        unknown: the first node that could not be computed; empty: all could.
        why: the reason.
        left: all nodes that depend on the change and could not be computed; for each the node that
            is the cause, and the reason.
        count: of the nodes that were computed.
    """

    def __init__(self) -> None:
        self.values: dict[str, Array] = {}
        self.bad = ""
        self.bad_value: Array | None = None
        self.unknown = self.why = ""
        self.left: dict[str, tuple[str, str]] = {}
        self.count = 0


class Trial:
    """Computes what depends on a changed op, by the framework's own ops, on copies.

    Args:
        dump: of the run; with `Dump.redo`.
        deadline: of `time.monotonic`: what isn't computed until then is unknown.
    """

    def __init__(self, dump: Dump, deadline: float) -> None:
        self._dump = dump
        self._deadline = deadline
        self._left = _MOST_BYTES
        self._lineage = TensorLineage.of(dump)
        self._graph: Graph = dump.graph() or Graph([])
        self._recorded: dict[str, Any] = {}
        self._outcome = Outcome()
        self._unknown: dict[str, str] = {}
        self._change = Change("")
        self._back: Array | None = None  # what comes back to the function in place of two ops

    def run(self, change: Change) -> Outcome:
        """Compute the run with a change.

        Args:
            change: to be tried.
        """
        self._change, self._outcome, self._unknown, self._back = change, Outcome(), {}, None
        ordered, around = self._cone(change.node)
        for node in ordered:
            self._compute(node)
        if any(self._is_other(each) for node in around for each in node.inputs):
            for node in around:
                self._give_up(node, "it is part of a loop, or reads what one gives")
        return self._outcome

    def _is_other(self, name: str) -> bool:
        """Whether a tensor is another one with the change, or may be."""
        return name in self._outcome.values or name in self._unknown

    def _cone(self, start: str) -> tuple[list[Node], list[Node]]:
        """A node and all that depend on it, each behind what it reads; what loops keep from that.

        The latter are in the order of the graph.
        """
        nodes, graph = self._graph.nodes, self._graph
        begins = [start, *self._gradients(start)]
        within = {*begins}
        waiting = [*begins]
        while waiting:
            for edge in graph.recipients(waiting.pop(), control=False):
                if edge.node not in within:
                    within.add(edge.node)
                    waiting.append(edge.node)
        reads = {
            name: {node_name_of(each) for each in nodes[name].inputs} & within - {name}
            for name in within
        }
        readers: dict[str, list[str]] = {}
        for name, sources in reads.items():
            for source in sources:
                readers.setdefault(source, []).append(name)
        at = {name: place for place, name in enumerate(nodes)}
        ready = sorted((name for name in within if not reads[name]), key=at.__getitem__)
        found: list[Node] = []
        while ready:
            name = ready.pop(0)
            found.append(nodes[name])
            for reader in readers.get(name, ()):
                reads[reader].discard(name)
                if not reads[reader]:
                    ready.append(reader)
        done = {node.name for node in found}
        return found, [nodes[name] for name in sorted(within - done, key=at.__getitem__)]

    def _compute(self, node: Node) -> None:
        """One node; its outputs are known afterwards, or the reason why they aren't."""
        outcome = self._outcome
        is_start = node.name == self._change.node
        is_gradient = not is_start and self._is_gradient(node, self._change.node)
        names = [*node.inputs]
        if self._change.inner and not is_start:
            if is_gradient:
                self._take_back(node, names)
                return
            if self._is_gradient(node, self._change.inner):
                self._pull(node)
                return
        if not (is_start or is_gradient or any(each in outcome.values for each in names)):
            unknown = next((each for each in names if each in self._unknown), "")
            if unknown:
                self._give_up(node, "")
            return  # what it reads is as it was
        try:
            given = [self._value(node, name) for name in names]
            if is_start or is_gradient:
                before = given
                if is_start:
                    given = self._change.give(list(given))
                else:
                    given = self._as_forward(node, names, given)
            made = self._made(node)
            if is_start and self._change.replace is not None:
                found: Sequence[Any] | None = self._change.replace(list(before))
            else:
                found = self._redo(node, given, made)
        except CannotRedo as error:
            self._give_up(node, str(error))
            return
        if found is None:
            return
        outcome.count += 1
        if is_gradient and self._change.passes is not None:
            found = self._masked(node, found)
        self._note(node, found, made)

    def _note(self, node: Node, found: Sequence[Any], made: Sequence[Any]) -> None:
        outcome = self._outcome
        for slot, value in enumerate(found):
            name = f"{node.name}:{slot}"
            if value is None:  # an input that has no gradient
                continue
            if not outcome.bad and has_nonfinite(value) and not self._is_meant(node):
                outcome.bad, outcome.bad_value = name, value
            if slot < len(made) and made[slot] is not None and _same(made[slot], value):
                continue
            outcome.values[name] = value
            self._left -= value.nbytes

    def _is_meant(self, node: Node) -> bool:
        """Whether the program itself writes down what is bad here: a mask of infinities."""
        return node.op_type in self._lineage.roles.placing and not any(
            has_nonfinite(self._outcome.values[each])
            for each in node.inputs
            if each in self._outcome.values
        )

    def _redo(self, node: Node, given: Sequence[Any], made: Sequence[Any]) -> Sequence[Any] | None:
        if time.monotonic() > self._deadline:
            raise CannotRedo("there was no more time")
        if self._left <= 0:
            raise CannotRedo("it takes too much memory")
        if self._dump.redo is None:
            raise CannotRedo("the program that ran it is gone")
        wide = self._change.wide
        if wide:
            given = [x.astype(wide) if dtype_kind(x.dtype) == "float" else x for x in given]
        return self._dump.redo(node.name, given, made, is_wide=bool(wide))

    # Gradients of the changed op.

    def _gradients(self, name: str) -> list[str]:
        """The ops of its gradient, which needn't depend on what it gives, but on its inputs."""
        node = self._graph.nodes[name]
        readers = {
            edge.node: None
            for each in (*node.inputs, f"{name}:0")
            for edge in self._graph.recipients(node_name_of(each), control=False)
        }
        return [each for each in readers if self._is_gradient(self._graph.nodes[each], name)]

    def _is_gradient(self, node: Node, of: str) -> bool:
        """Whether an op is part of the gradient of another one.

        JAX and TensorFlow 2 don't tell of which op. It reads what that was given, and is of the
        same line (JAX), or computes what its derivative is.
        """
        told = forward_node(self._graph, node)
        if told is not None or node.attributes.get(PHASE) != BACKWARD:
            return told is not None and told.name == of
        forward = self._graph.nodes[of]
        if {*forward.inputs, f"{of}:0"}.isdisjoint(node.inputs):
            return False
        roles = self._lineage.roles
        if roles.computes(node.op_type) in _DERIVED.get(roles.computes(forward.op_type), ()):
            return True
        one, other = (own_frame(each.frames or ()) for each in (node, forward))
        return (one and one[:2]) == (other and other[:2])

    def _take_back(self, node: Node, names: Sequence[str]) -> None:
        """An op of a gradient that isn't computed any more: what came back to it is kept."""
        forward = self._graph.nodes[self._change.node]
        given = {*forward.inputs, f"{forward.name}:0"}
        try:
            for name in names:
                maker = self._graph.nodes.get(node_name_of(name))
                if name not in given and maker and not self._is_gradient(maker, forward.name):
                    self._back = self._value(node, name)
                    return
        except CannotRedo as error:
            self._give_up(node, str(error))

    def _pull(self, node: Node) -> None:
        """The gradient of the function in place of two ops, where that of the inner one was."""
        inner = self._change.inner
        edges = self._graph.recipients(node.name, control=False)
        is_last = not all(self._is_gradient(self._graph.nodes[e.node], inner) for e in edges)
        if self._back is None or self._change.pulled is None:
            self._give_up(node, "its gradient is of ops that aren't told apart")
        elif is_last or not edges:
            self._note(node, [self._change.pulled(self._back)], [])

    def _as_forward(self, node: Node, names: Sequence[str], given: list[Any]) -> list[Any]:
        """What an op of the changed op's gradient reads: of its inputs the changed ones."""
        forward = self._graph.nodes[self._change.node]
        before = [self._value(forward, name) for name in forward.inputs]
        now = self._change.give(list(before))
        changed = {name: now[at] for at, name in enumerate(forward.inputs)}
        return [changed.get(name, value) for name, value in zip(names, given, strict=True)]

    def _masked(self, node: Node, found: Sequence[Any]) -> list[Any]:
        """What leaves the gradient of the changed op: elements that were clipped have none."""
        edges = self._graph.recipients(node.name, control=False)
        if edges and all(
            self._is_gradient(self._graph.nodes[each.node], self._change.node) for each in edges
        ):
            return list(found)
        forward = self._graph.nodes[self._change.node]
        assert self._change.passes is not None
        mask = self._change.passes([self._value(forward, name) for name in forward.inputs])
        return [
            x if x is None or x.shape != mask.shape else np.where(mask, x, 0).astype(x.dtype)
            for x in found
        ]

    # Values.

    def value(self, name: str) -> Any:
        """A tensor as it was in the run.

        Raises:
            CannotRedo: it isn't known.
        """
        return self._before(None, name, _MOST_BACK)

    def inputs(self, node: Node) -> list[Any]:
        """What a node was given in the run.

        Raises:
            CannotRedo: it isn't known.
        """
        return [self._before(node, name, _MOST_BACK) for name in node.inputs]

    def made(self, node: Node) -> list[Any]:
        """What a node gave in the run; ``None`` where that isn't kept.

        Raises:
            CannotRedo: the node was computed several times.
        """
        return self._made(node)

    def _value(self, node: Node, name: str) -> Any:
        if name in self._unknown:
            raise CannotRedo("")
        if name in self._outcome.values:
            return self._outcome.values[name]
        return self._before(node, name, _MOST_BACK)

    def _made(self, node: Node) -> list[Any]:
        """What a node gave in the run; ``None`` where that isn't kept."""
        data = sorted(self._dump.by_node(node.name), key=lambda each: each.output_slot)
        if len({each.output_slot for each in data}) < len(data):
            raise CannotRedo("it was computed several times")
        found: list[Any] = []
        for each in data:
            found += [None] * (each.output_slot - len(found))
            found.append(self._read(each))
        return found

    def _before(self, reader: Node | None, name: str, depth: int) -> Any:
        """A tensor as it was in the run; views, and what wasn't kept, are computed."""
        if name in self._recorded:
            return self._recorded[name]
        data = self._dump.by_tensor(name)
        if len(data) > 1 and reader is not None:
            readers = self._dump.by_node(reader.name)
            datum = self._lineage.as_given(readers[0], name) if readers else None
            data = [datum] if datum is not None else data
        if len(data) > 1:
            raise CannotRedo(f"{name} was computed several times")
        value = self._read(data[0]) if data else None
        if value is None:
            value = self._from_inputs(name, depth)
        self._recorded[name] = value
        return value

    def _from_inputs(self, name: str, depth: int) -> Any:
        node = self._graph.nodes.get(node_name_of(name))
        if node is not None and node.op_type in HANDLES:
            return variable_before(self._dump, name)
        slot = int(name.rpartition(":")[2]) if name.rpartition(":")[2].isdigit() else 0
        is_made = node is not None and (
            node.inputs or node.op_type in self._lineage.roles.placing  # written in the graph
        )
        if node is None or not is_made or depth <= 0 or self._dump.redo is None:
            raise CannotRedo(f"{name} isn't in the dump")
        given = [self._before(node, each, depth - 1) for each in node.inputs]
        found = self._dump.redo(node.name, given, self._made(node))
        if found is None or slot >= len(found):
            raise CannotRedo(f"{name} isn't in the dump")
        return found[slot]

    @staticmethod
    def _read(datum: Datum) -> Any:
        try:
            value = datum.get_tensor()
        except DumpError:
            return None
        return np.asarray(value) if isinstance(value, np.ndarray | np.generic) else None

    def _give_up(self, node: Node, why: str) -> None:
        # An update is told of only where nothing before it is unknown.
        if why and (not self._outcome.unknown or self._is_update(self._outcome.unknown)):
            self._outcome.unknown, self._outcome.why = node.name, why
        left, sources = self._outcome.left, map(node_name_of, node.inputs)
        cause = node.name, why
        left[node.name] = cause if why else next((left[e] for e in sources if e in left), cause)
        for slot in range(max(len(self._dump.by_node(node.name)), 8)):
            self._unknown[f"{node.name}:{slot}"] = why

    def _is_update(self, name: str) -> bool:
        return later_phase(self._graph.nodes, name) == "optimizer"


def _same(one: Any, other: Any) -> bool:
    return bool(
        one.shape == other.shape and one.dtype == other.dtype and one.tobytes() == other.tobytes()
    )


def difference(before: Mapping[str, Any], after: Mapping[str, Array]) -> tuple[int, float]:
    """How many elements that were finite are other ones, and the largest difference."""
    count, largest = 0, 0.0
    for name, now in after.items():
        was = before.get(name)
        if was is None or was.shape != now.shape or dtype_kind(was.dtype) != "float":
            continue
        one, other = was.astype(np.float64), now.astype(np.float64)
        both = np.isfinite(one) & np.isfinite(other) & (one != other)
        count += int(np.count_nonzero(both))
        if both.any():
            largest = max(largest, float(np.abs(one - other)[both].max()))
    return count, largest
