"""The rest of a run, computed again with a change: the changed op and all that read its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tfdbg_cli.common.arrays import Array, np
from tfdbg_cli.common.errors import DumpError
from tfdbg_cli.common.node_words import BACKWARD, PHASE
from tfdbg_cli.dumps.dump import HANDLES, CannotRedo, Datum, Dump, variable_before
from tfdbg_cli.dumps.graph import Graph, Node, node_name_of
from tfdbg_cli.filters.causes.ops import forward_node, place_of
from tfdbg_cli.filters.causes.patterns import later_phase
from tfdbg_cli.filters.forward import in_order
from tfdbg_cli.filters.lineage import TensorLineage
from tfdbg_cli.remedies.ends import is_end
from tfdbg_cli.remedies.gradient_ops import GradientOps
from tfdbg_cli.remedies.wide import WideOps
from tfdbg_cli.tensors.numeric import dtype_kind, has_nonfinite

__all__ = ["Change", "Outcome", "Trial", "difference"]

# What isn't in the dump is computed from what is, over so many ops.
_MOST_BACK = 200
_NOT_APART = "its gradient is of ops that aren't told apart"
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
        wide: the op and its gradient are computed in this dtype, and so is what reads a result that
            doesn't fit into its own dtype; empty: all in their own.
        inner: the node whose result the op reads, directly or by `between`, where one function
            takes the place of all of them.
        between: the nodes whose results the program doesn't have any more.
        pulled: the gradient of that function, of what comes back to it.
        slope: the derivative of `inner`, of its result: what a gradient is multiplied with where
            the gradient's ops don't name their forward op; ``None``: they have to.
        is_exact: the ops compute the same otherwise, so that the gradient stays as it is: of the
            changed inputs it knows nothing.
        is_own: `replace` doesn't look at the inputs.
        others: changes of other ops, which belong to it.
    """

    def __init__(
        self,
        node: str,
        give: Callable[[list[Any]], list[Any]] = lambda given: given,
        passes: Callable[[list[Any]], Array] | None = None,
        replace: Callable[[list[Any]], list[Array]] | None = None,
        wide: str = "",
        *,
        is_exact: bool = False,
        is_own: bool = False,
    ) -> None:
        self.node = node
        self.give = give
        self.passes = passes
        self.replace = replace
        self.wide = wide
        self.is_exact = is_exact
        self.is_own = is_own
        self.inner = ""
        self.between: Sequence[str] = ()
        self.pulled: Callable[[Array], Array] | None = None
        self.slope: Callable[[Array], Array] | None = None
        self.others: Sequence[Change] = ()


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
        wide: as `WideOps.reach`.
    """

    def __init__(self) -> None:
        self.values: dict[str, Array] = {}
        self.bad = ""
        self.bad_value: Array | None = None
        self.unknown = self.why = ""
        self.left: dict[str, tuple[str, str]] = {}
        self.count = 0
        self.wide: Mapping[str, bool] = {}


class Trial:
    """Computes what depends on a changed op, by the framework's own ops, on copies.

    Args:
        dump: of the run; with `Dump.redo`.
        is_late: whether the time is over: what isn't computed until then is unknown.
    """

    def __init__(self, dump: Dump, is_late: Callable[[], bool]) -> None:
        self._dump = dump
        self._is_late = is_late
        self._left = _MOST_BYTES
        self._lineage = TensorLineage.of(dump)
        self._graph: Graph = dump.graph() or Graph([])
        self._gradients = GradientOps(self._lineage, self._graph)
        self._recorded: dict[str, Any] = {}
        self._outcome = Outcome()
        self._unknown: dict[str, str] = {}
        self._wide = self._wide_ops("")
        self._untaken = self._in_untaken_branches()
        self._changes: dict[str, Change] = {}
        # What changed ops are given, and what they make -> these ops.
        self._near: dict[str, list[str]] = {}
        # What comes back to the functions in place of several ops; the nodes that carry it on.
        self._back: dict[str, Array] = {}
        self._carriers: set[str] = set()
        self._is_pulled = False

    def run(self, change: Change) -> Outcome:
        """Compute the run with a change.

        Args:
            change: to be tried.
        """
        self._changes = {each.node: each for each in (change, *change.others)}
        self._near = {}
        for name in self._changes:
            for each in (*self._graph.nodes[name].inputs, f"{name}:0"):
                self._near.setdefault(each, []).append(name)
        self._outcome, self._unknown, self._back, self._carriers = Outcome(), {}, {}, set()
        self._wide = self._wide_ops(change.wide)
        self._outcome.wide = self._wide.reach
        self._is_pulled = False
        ordered, around = self._cone()
        for node in ordered:
            self._compute(node)
        if not self._is_pulled:
            for node in ordered:
                if node.name in self._carriers:
                    self._give_up(node, _NOT_APART)
        looped = [node for node in around if node.name in self._changes]
        for node in looped if len(self._changes) == 1 else ():
            self._give_up(node, "it is part of a loop")
        if looped or any(self._is_other(each) for node in around for each in node.inputs):
            for node in around:
                self._give_up(node, "it is part of a loop, or reads what one gives")
        for name in (name for each in self._changes.values() for name in each.between):
            self._outcome.values.pop(f"{name}:0", None)
        return self._outcome

    def _is_other(self, name: str) -> bool:
        """Whether a tensor is another one with the change, or may be."""
        return name in self._outcome.values or name in self._unknown

    def _cone(self) -> tuple[list[Node], list[Node]]:
        """The changed nodes and all that depend on them, each behind what it reads; what loops keep
        from that.

        The latter are in the order of the graph.
        """
        nodes, graph = self._graph.nodes, self._graph
        begins = [
            each for start in self._changes for each in (start, *self._gradients.all_of(start))
        ]
        within = {*begins}
        waiting = [*begins]
        while waiting:
            for edge in graph.recipients(waiting.pop(), control=False):
                if edge.node not in within:
                    within.add(edge.node)
                    waiting.append(edge.node)
        cone = [node for name, node in nodes.items() if name in within]
        found = in_order(cone)
        done = {node.name for node in found}
        return found, [node for node in cone if node.name not in done]

    def _compute(self, node: Node) -> None:
        """One node; its outputs are known afterwards, or the reason why they aren't."""
        outcome = self._outcome
        start = self._changes.get(node.name)
        others = () if start else self._changes.values()
        forward = self._forward(node) if not start else None
        names = self._names(node)
        if node.name in self._untaken:
            return
        if any(each.inner and self._is_of_inner(node, each.inner) for each in others):
            self._pull(node)
            return
        if not self._carriers.isdisjoint(map(node_name_of, names)):
            self._carry(node, names)
            return
        if forward is not None and forward.inner:
            self._take_back(node, forward, names)
            return
        if not (start or forward or any(each in outcome.values for each in names)):
            unknown = next((each for each in names if each in self._unknown), "")
            if unknown:
                self._give_up(node, "")
            return  # what it reads is as it was
        change = start or forward
        is_wide = bool(change is not None and change.wide) or self._wide.reads_wide(node)
        try:
            before = given = self._given(node, start)
            if start is not None and start.replace is None:
                given = start.give(list(given))
            elif forward is not None and not forward.is_exact:
                given = self._as_forward(forward, names, given)
            if not start and self._reads_doubtful(node):
                raise CannotRedo(_NOT_APART)
            made = self._made(node)
            if start is not None and start.replace is not None:
                found: Sequence[Any] | None = start.replace(list(before))
            elif any(map(self._is_other, self._handed(node))):
                found = self._handed_on(node, made)
            elif is_wide:
                found = self._in_wide(node, given, made)
            else:
                found = self._redo(node, given, made)
                if self._wide.has_overflown(given, found):
                    found = self._in_wide(node, given, made)
        except CannotRedo as error:
            self._give_up(node, str(error))
            return
        if found is None:
            return
        outcome.count += 1
        if forward is not None and forward.passes is not None:
            found = self._masked(node, forward, found)
        self._note(node, found, made)

    @staticmethod
    def _handed(node: Node) -> list[str]:
        """The tensors of its bodies that a node may hand on."""
        return [each for ways in node.returns for each in ways if each]

    def _handed_on(self, node: Node, made: Sequence[Any]) -> list[Any]:
        """What a branch or a call gives whose body has made something else with the change.

        Its op, computed again, would make what the body makes without the change.
        """
        bodies = zip(*node.returns, strict=False)
        taken = [each for each in bodies if any(map(self._dump.by_tensor, each))]
        # The first input of a condition says which branch is taken.
        if len(taken) != 1 or not all(taken[0]) or self._is_other(node.inputs[0]):
            raise CannotRedo("it is a loop or a branch")
        found = [self._value(node, each) for each in taken[0]]
        for value, was in zip(found, made, strict=False):
            if was is not None and (value.shape, value.dtype) != (was.shape, was.dtype):
                raise CannotRedo("it is a loop")  # which puts together what iterations give
        return found

    def _forward(self, node: Node) -> Change | None:
        """The change of the op of whose gradient a node is part; ``None``: it isn't."""
        told = forward_node(self._graph, node)
        near = [told.name] if told is not None and told.name in self._changes else []
        near += [each for name in node.inputs for each in self._near.get(name, ())]
        found = (each for each in near if self._gradients.is_of(node, each))
        return next((self._changes[each] for each in found), None)

    def _names(self, node: Node) -> list[str]:
        """What a node reads; of a branch that wasn't taken it gets nothing."""
        return [each for each in node.inputs if node_name_of(each) not in self._untaken]

    def _in_untaken_branches(self) -> set[str]:
        """The nodes of branches that the run hasn't taken, which have given it nothing."""
        nodes, dump, found = self._graph.nodes, self._dump, set[str]()
        if dump.lists_only_bad:
            return found
        branching = [
            node
            for node in nodes.values()
            if any(len(ways) > 1 for ways in node.returns) and dump.by_node(node.name)
        ]
        handed = (way for node in branching for ways in node.returns for way in ways)
        waiting = [*map(node_name_of, handed)]
        while waiting:
            name = waiting.pop()
            if name not in found and name in nodes and not dump.by_node(name):
                found.add(name)
                waiting += map(node_name_of, nodes[name].inputs)
        # What others read as well isn't of a branch: it only has no numbers.
        readers = {*found, *(node.name for node in branching)}
        while outer := {
            name
            for name in found
            if not readers.issuperset(e.node for e in self._graph.recipients(name, control=False))
        }:
            found -= outer
            readers -= outer
        return found

    def _given(self, node: Node, start: Change | None) -> list[Any]:
        """What a node reads; nothing, where it isn't known and what takes its place needs none."""
        try:
            return [self._value(node, name) for name in self._names(node)]
        except CannotRedo:
            if start is None or not start.is_own:
                raise
            return []

    def _note(self, node: Node, found: Sequence[Any], made: Sequence[Any]) -> None:
        outcome = self._outcome
        for slot, value in enumerate(found):
            name = f"{node.name}:{slot}"
            if value is None:  # an input that has no gradient
                continue
            if not outcome.bad and has_nonfinite(value) and not self._is_meant(node, value):
                outcome.bad, outcome.bad_value = name, value
            if slot < len(made) and made[slot] is not None and _same(made[slot], value):
                continue
            outcome.values[name] = value
            self._left -= value.nbytes

    def _is_meant(self, node: Node, value: Array) -> bool:
        """Whether the program itself writes down what is bad here: a mask of infinities."""
        changed = [each for each in node.inputs if each in self._outcome.values]
        return (
            node.op_type in self._lineage.roles.placing
            and not any(has_nonfinite(self._outcome.values[each]) for each in changed)
            and not any(self._is_as_bad(each, value) for each in changed)
        )

    def _is_as_bad(self, name: str, value: Array) -> bool:
        """Whether a nan is written where the run had one: the change of that is for nothing."""
        try:
            before = self.value(name)
        except CannotRedo:
            return False
        if before.shape != value.shape:
            return False
        return bool(
            (np.isnan(before.astype(np.float64)) & np.isnan(value.astype(np.float64))).any()
        )

    def _wide_ops(self, dtype: str) -> WideOps:
        return WideOps(dtype, self._graph, self._lineage.roles.computes, self._gradients.is_of)

    def _in_wide(
        self, node: Node, given: Sequence[Any], made: Sequence[Any]
    ) -> Sequence[Any] | None:
        found = self._redo(node, self._wide.widened(given), made, is_wide=True)
        return found if found is None else self._wide.narrowed(node, given, found, made)

    def _redo(
        self, node: Node, given: Sequence[Any], made: Sequence[Any], *, is_wide: bool = False
    ) -> Sequence[Any] | None:
        if self._is_late():
            raise CannotRedo("there was no more time")
        if self._left <= 0:
            raise CannotRedo("it takes too much memory")
        if self._dump.redo is None:
            raise CannotRedo("the program that ran it is gone")
        return self._dump.redo(node.name, given, made, is_wide=is_wide)

    # Gradients of the changed op.

    def _reads_doubtful(self, node: Node) -> bool:
        """Whether a gradient reads what is as bad as in the run, though it may be of a changed op.

        A line may have several ops; whose derivative it is nobody tells.
        """
        for name in node.inputs if node.attributes.get(PHASE) == BACKWARD else ():
            maker = self._graph.nodes.get(node_name_of(name))
            if maker is None or not maker.inputs or self._is_other(name):
                continue
            forwards = (self._graph.nodes[each] for each in self._changes)
            places = {place_of(each): each for each in forwards}  # `_is_kept` is about the line
            if any(self._gradients.is_kept(maker, each) for each in places.values()):
                return has_nonfinite(self._value(node, name))
        return False

    def _take_back(self, node: Node, change: Change, names: Sequence[str]) -> None:
        """An op of a gradient that isn't computed any more: what came back to it is kept."""
        forward = self._graph.nodes[change.node]
        given = {*forward.inputs, f"{forward.name}:0"}
        self._carriers.add(node.name)
        try:
            for name in names:
                maker = self._graph.nodes.get(node_name_of(name))
                if name not in given and maker and not self._gradients.is_of(maker, forward.name):
                    self._back[change.node] = self._value(node, name)
                    return
        except CannotRedo as error:
            self._give_up(node, str(error))

    def _carry(self, node: Node, names: Sequence[str]) -> None:
        """An op between the gradients of ops in whose place one function is."""
        carried = [each for each in names if node_name_of(each) in self._carriers]
        others = [each for each in names if each not in carried]
        try:
            if len(others) == 1 and self._is_slope(others[0]):
                self._pull(node)
                return
            for change in self._changes.values():  # of this one only the derivative has come
                parts = [self._graph.nodes[node_name_of(each)] for each in carried]
                is_of = any(self._gradients.is_of(each, change.node) for each in parts)
                if change.node not in self._back and is_of and len(others) == 1:
                    self._back[change.node] = self._value(node, others.pop())
        except CannotRedo as error:
            self._give_up(node, str(error))
            return
        changes = self._changes.values()
        between = {name for each in changes for name in (each.node, *each.between)}
        forward = forward_node(self._graph, node)
        # Another gradient may be added to what comes back, or what comes back be used elsewhere.
        is_known = all(self._gradients.is_before(node_name_of(each)) for each in others)
        if is_known and (forward is None or forward.name in between):
            self._carriers.add(node.name)
        else:
            self._give_up(node, _NOT_APART)

    def _is_slope(self, name: str) -> bool:
        """Whether a tensor is the derivative of the inner op."""
        change = next(iter(self._changes.values()))
        if change.slope is None:
            return False
        x, found = self.value(f"{change.inner}:0"), self.value(name)
        slope = change.slope(x.astype(np.float64))
        return found.shape == x.shape and np.allclose(found.astype(np.float64), slope, atol=1e-6)

    def _pull(self, node: Node) -> None:
        """The gradient of the function in place of several ops, where that of the inner one was."""
        changes = [*self._changes.values()]
        inner = changes[0].inner
        edges = self._graph.recipients(node.name, control=False)
        is_last = not all(self._is_of_inner(self._graph.nodes[e.node], inner) for e in edges)
        pulls = [(each.pulled, self._back.get(each.node)) for each in changes]
        if any(pulled is None or back is None for pulled, back in pulls):
            self._give_up(node, _NOT_APART)
        elif is_last or not edges:
            self._is_pulled = True
            found = [pulled(back) for pulled, back in pulls if pulled and back is not None]
            self._note(node, [sum(found[1:], found[0])], [])

    def _is_of_inner(self, node: Node, inner: str) -> bool:
        """Whether an op is of the gradient of the inner op, and adds no other gradient to it."""
        if not self._gradients.is_of(node, inner):
            return False
        makers = (self._graph.nodes.get(node_name_of(each)) for each in node.inputs)
        return not any(
            maker is not None
            and not self._gradients.is_before(maker.name)
            and not self._gradients.is_of(maker, inner)
            and maker.name not in self._carriers
            for maker in makers
        )

    def _as_forward(self, change: Change, names: Sequence[str], given: list[Any]) -> list[Any]:
        """What an op of the changed op's gradient reads: of its inputs the changed ones."""
        forward = self._graph.nodes[change.node]
        before = [self._value(forward, name) for name in forward.inputs]
        now = change.give(list(before))
        changed = {name: now[at] for at, name in enumerate(forward.inputs)}
        return [changed.get(name, value) for name, value in zip(names, given, strict=True)]

    def _masked(self, node: Node, change: Change, found: Sequence[Any]) -> list[Any]:
        """What leaves the gradient of the changed op: elements that were clipped have none."""
        edges = self._graph.recipients(node.name, control=False)
        if edges and all(
            self._gradients.is_of(self._graph.nodes[each.node], change.node) for each in edges
        ):
            return list(found)
        forward = self._graph.nodes[change.node]
        assert change.passes is not None
        mask = change.passes([self._value(forward, name) for name in forward.inputs])
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
        # An update is told of only where nothing before it is unknown, nor is what ends there.
        if why and (not self._outcome.unknown or self._is_update(self._outcome.unknown)):
            self._outcome.unknown, self._outcome.why = node.name, why
        left, sources = self._outcome.left, map(node_name_of, node.inputs)
        cause = node.name, why
        left[node.name] = cause if why else next((left[e] for e in sources if e in left), cause)
        for slot in range(max(len(self._dump.by_node(node.name)), 8)):
            self._unknown[f"{node.name}:{slot}"] = why

    def _is_update(self, name: str) -> bool:
        is_late = later_phase(self._graph.nodes, name) == "optimizer"
        return is_late or is_end(self._lineage, self._outcome.left, name)


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
