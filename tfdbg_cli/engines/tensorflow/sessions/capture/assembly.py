"""The tensors of one run, fetched and watched, put in one order."""

from __future__ import annotations

import contextlib
import math
import time
import weakref
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tfdbg_cli.common.errors import one_line
from tfdbg_cli.common.interpreter.program_signals import contained, pass_on
from tfdbg_cli.dumps.dump import Datum, Redo
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.run_info import RunInfo
from tfdbg_cli.dumps.tfdbg_dir.names import parse_feed_node_name
from tfdbg_cli.engines.tensorflow.sessions.bodies.rewrites import Rewrites
from tfdbg_cli.engines.tensorflow.sessions.capture.plan import CapturePlan, PlannedTensor
from tfdbg_cli.engines.tensorflow.sessions.capture.spool import SeenValue
from tfdbg_cli.engines.tensorflow.sessions.traits import TRAITS
from tfdbg_cli.engines.tensorflow.shared.body_nodes import Inner
from tfdbg_cli.engines.tensorflow.shared.graph import GraphView
from tfdbg_cli.engines.tensorflow.shared.redo import (
    NOT_FETCHED,
    RECOMPUTED,
    Edge,
    UnreadTensors,
    inputs_of,
)
from tfdbg_cli.engines.tensorflow.shared.values import (
    Constant,
    apart,
    base_dtype_name,
    holdable,
    owned,
    plain,
)
from tfdbg_cli.tensors.numeric import has_nonfinite

__all__ = ["Assembly"]

# A program has a handful of distinct runs.
_MOST_KNOWN = 256
# So many of the nodes that a warning is about are named in it.
_NAMED = 3

# Session -> signature of a plan -> how the graph that ran differs from the user's. The runtime
# shows that graph only when it makes an executor.
_COMPARED: weakref.WeakKeyDictionary[Any, dict[Any, Rewrites]] = weakref.WeakKeyDictionary()


class Assembly:
    """Makes the dump of a run; made when it begins.

    Fetched tensors have no times: they come in the order of the graph, a microsecond apart. What
    a watch saw has the time it was seen, and stands where its loop, branch or function stands.

    Args:
        view: the session's graph.
        plan: what the run is to compute.
        device: the session's only device; empty: it has several.
        session: the session; what is known of the graphs that it ran lives as long as it does.
        redo: of the dump.
    """

    def __init__(
        self, view: GraphView, plan: CapturePlan, device: str, session: Any, redo: Redo
    ) -> None:
        self._view = view
        self.plan = plan
        self._start = time.time_ns() // 1000
        self._device = device
        self._session, self._redo = session, redo
        self._ran: list[bytes] = []
        self._rewrites: Rewrites | None = None
        self._hidden: set[str] = set()
        self._inner: dict[str, Inner] = {}
        # The nodes of what the watches saw, by the user's names.
        self._shown: set[str] = set()

    def ran(self, graph: bytes) -> None:
        """Take in a partition of the graph that ran, a serialized ``GraphDef``."""
        self._ran.append(graph)

    def dump(
        self,
        entries: Sequence[PlannedTensor],
        extra: Sequence[Any],
        seen: Sequence[SeenValue],
        everything: bool = False,
        is_brief: bool = False,
    ) -> MemoryDump:
        """Put it together.

        Args:
            entries: the tensors to list, in order.
            extra: the values of `CapturePlan.extra`, which others may write to.
            seen: what the watches saw.
            everything: also what the runtime made itself and nobody can name.
            is_brief: nobody looks at the dump once the program goes on.
        """
        values: list[Any] = []
        watched: list[tuple[float, SeenValue, str]] = []

        warnings: list[str] = []

        def make() -> Iterator[Datum]:
            own = values or self._own(extra)
            return self._data(entries, own, watched, None if is_brief else warnings)

        dump = MemoryDump(self._graph, run_info=RunInfo(engine=TRAITS.name), make=make)
        dump.warnings = warnings
        dump.redo = self._redo
        dump.absence = self._absence
        try:
            if seen and not everything:
                seen = self._compared(dump, seen)
            watched += self._place(seen, entries, everything)
            self._shown.update(name for _, _, name in watched)
            if not is_brief:
                values += self._own(extra)
        except Exception as bug:  # the program has its result, whatever happens to the dump
            pass_on(bug)
            dump.warnings.append(f"Tensors are missing: {one_line(bug)}")
        if self._hidden:
            some = ", ".join(sorted(self._hidden)[:_NAMED])
            more = ", ..." if len(self._hidden) > _NAMED else ""
            dump.warnings.append(
                f"{len(self._hidden)} node(s) were rewritten by the runtime's optimizer and no "
                f"longer compute the graph's tensors, which are not shown: {some}{more}"
            )
        return dump

    def unseen(self, is_complete: bool) -> Iterator[str]:
        """What the dump has no tensors of, and why, in a sentence each.

        Args:
            is_complete: the run has come to its end, and all its tensors were asked for.
        """
        plan = self.plan
        for caller in plan.opaque if is_complete else ():
            if not any(name.startswith(f"{caller}/") for name in self._shown):
                yield (
                    f"The body of {caller} left no tensors: TensorFlow computed it ahead of the "
                    "run (constant folding) or kept it as one op."
                )
        if plan.functional and not plan.everything:
            yield (
                "Function bodies aren't watched: that would change the run, or a node's name is "
                "too long for a file."
            )
        if plan.unwatched:
            first = ", ".join(node for node, _ in plan.unwatched[:3])
            count = len(plan.unwatched)
            more = f" and {count - 3} more" if count > 3 else ""
            yield (
                f"Not watched, for that would change the run: {first}{more} (a variable that is "
                "read again after its update, or a loop in a branch)."
            )

    def is_finite(self, extra: Sequence[Any], seen: Sequence[SeenValue]) -> bool:
        """Whether none of a run's tensors holds a nan or an infinity; makes nothing of them.

        Args:
            extra, seen: as `dump` takes them.
        """
        with contained:  # whoever asks the dump is told what is wrong with it
            is_finite = self.plan.check.passes(extra, [one.load() for one in seen])
            return is_finite and not any(map(has_nonfinite, self._composed(extra)))
        return False

    def _composed(self, extra: Sequence[Any]) -> Iterator[Any]:
        """The values of `CapturePlan.composed`."""
        made: dict[str, Any] = {}
        for node, source in self.plan.composed:
            given = plain(extra[source]) if isinstance(source, int) else made[source]
            (made[node],) = self._redo(node, [given], ()) or ()
            yield made[node]

    def _own(self, extra: Sequence[Any]) -> list[Any]:
        """The values in memory that nobody else writes to."""
        values = [apart(value) for value in extra]
        for place in self.plan.copied if values else ():
            values[place] = owned(values[place])
        return values

    def _compared(self, dump: MemoryDump, seen: Sequence[SeenValue]) -> Sequence[SeenValue]:
        """What the watches saw, if it is known which of it is the user's."""
        try:
            self._rewrites = self._compare()
        except Exception as bug:
            pass_on(bug)
            dump.warnings.append(f"What only a watch sees is not shown: {one_line(bug)}")
            return ()
        if self._rewrites is None:
            dump.warnings.append(
                "TensorFlow didn't show the graph it ran: what loops and functions show may be "
                "the work of its optimizer."
            )
        return seen

    def _compare(self) -> Rewrites | None:
        """How the graph that ran differs; worked out once for each executor of a session."""
        plan = self.plan
        known = _COMPARED.setdefault(self._session, {})
        if self._ran:
            known[plan.signature] = Rewrites(
                self._ran,
                self._view.operation,
                self._find_any,
                self._view.functions,
                [entry.node for entry in plan.entries],
                dict.fromkeys(node for node, _ in plan.watched),
            )
            while len(known) > _MOST_KNOWN:
                known.pop(next(iter(known)))
        found = known.get(plan.signature)
        if found is not None:
            self._inner.update(found.bodies)
        return found

    def _absence(self, node: str) -> str:
        """Why a node has no tensors, if the optimizer is the reason."""
        rewrites = self._rewrites
        if rewrites is None:
            return ""
        if node in rewrites.names:
            return "The runtime's optimizer has rewritten it: it computed something else."
        is_inside = self._view.operation(node) is None
        if (is_inside or node in self.plan.places) and rewrites.removed(node):
            return "The runtime's optimizer has removed it: it was folded, fused or merged."
        return ""

    def _data(
        self,
        entries: Sequence[PlannedTensor],
        values: Sequence[Any],
        watched: Sequence[tuple[float, SeenValue, str]],
        warnings: list[str] | None,
    ) -> Iterator[Datum]:
        now, at = self._start, 0
        known = dict[Edge, Callable[[], Any]]()
        unread = UnreadTensors(self.plan.unread, known.get, self._redo)
        for entry in entries:
            known[entry.node, entry.slot] = self._load(entry, values, unread)
        others = [] if warnings is None else [*self._others(entries, known, unread)]
        if warnings is not None and others:
            warnings.append(
                f"{others[0]} is bad in the run and not when it is computed again, or the other "
                "way round: tensors that the run didn't fetch may have been different in it, too. "
                "The next run fetches all."
            )
        for entry in entries:
            while at < len(watched) and watched[at][0] <= entry.position:
                now = max(now + 1, watched[at][1].timestamp)
                yield self._seen_datum(*watched[at][1:], now)
                at += 1
            now += 1
            if entry.is_hidden:
                continue
            note = RECOMPUTED
            if entry.node in self.plan.told:
                note = NOT_FETCHED if others else ""
            yield Datum(
                entry.node,
                entry.slot,
                known[entry.node, entry.slot],
                timestamp=now,
                device_name=self._device or entry.device,
                is_computed=entry.is_unread,
                note=note if entry.is_unread else "",
            )
        for _, seen, name in watched[at:]:
            now = max(now + 1, seen.timestamp)
            yield self._seen_datum(seen, name, now)

    def _others(
        self,
        entries: Sequence[PlannedTensor],
        known: Mapping[Edge, Callable[[], Any]],
        unread: UnreadTensors,
    ) -> Iterator[str]:
        """Tensors of `CapturePlan.again` that are bad only in the run, or only computed again."""
        for entry in entries:
            if entry.node in self.plan.again and entry.fetch >= 0:
                again = self.plan.again[entry.node], entry.slot
                made = self._unread(again, self.plan.operation(entry.node), unread)
                if has_nonfinite(made) != has_nonfinite(known[entry.node, entry.slot]()):
                    yield f"{entry.node}:{entry.slot}"

    @staticmethod
    def _unread(edge: Edge, op: Any, unread: UnreadTensors) -> Any:
        return unread.load(edge, inputs_of(op), base_dtype_name(op.outputs[edge[1]].dtype))

    def _graph(self) -> Any:
        return self._view.graph(self._inner.values(), self.plan.feeds)

    def _load(
        self, entry: PlannedTensor, values: Sequence[Any], unread: UnreadTensors
    ) -> Callable[[], Any]:
        """What gives the value of a tensor.

        Args:
            entry: the tensor.
            values: those that were fetched.
            unread: gives the others.
        """
        if entry.constant is not None:
            return entry.constant
        if not entry.is_unread:
            value = plain(values[entry.fetch])
            return lambda: value
        op = self.plan.operation(entry.node)
        return lambda: self._unread((entry.node, entry.slot), op, unread)

    def _seen_datum(self, seen: SeenValue, name: str, now: int) -> Datum:
        return Datum(
            name,
            seen.slot,
            seen.load,
            debug_op=seen.debug_op,
            timestamp=now,
            device_name=seen.device,
            dtype=seen.dtype,
            shape=seen.shape,
            nbytes=seen.nbytes,
        )

    def _place(
        self, seen: Sequence[SeenValue], entries: Sequence[PlannedTensor], everything: bool
    ) -> list[tuple[float, SeenValue, str]]:
        """Position, value and the user's name of what is worth listing, in the order to list it."""
        if not seen:
            return []
        plan = self.plan
        changed = self._rewrites.changed if self._rewrites is not None else frozenset()
        wanted = set(plan.watched)
        kept = {op.name for op, _ in plan.returned}
        listed = {(entry.node, entry.slot) for entry in entries} if plan.functional else set()
        placed: list[tuple[float, SeenValue, str]] = []
        aliases = self._rewrites.aliases if self._rewrites is not None else {}
        merged = self._rewrites.merged if self._rewrites is not None else {}
        for one in seen:
            name = one.node
            if name in aliases and not aliases[name].calls:
                name = aliases[name].name
            if name in changed:
                inner = self._find(name) if name not in plan.places else None
                if inner is not None or name in plan.places:  # else nobody wants to see it
                    self._hidden.add(inner.name if inner is not None else name)
            elif (name, one.slot) in wanted or (name in kept and self._is_result(name, one)):
                placed.append((plan.places[name], one, name))
            elif everything:
                placed.append((0, one, _without_argument(name, one.slot)))
            elif (name, one.slot) not in listed and plan.functional:
                inner = self._find(name)
                if inner is not None and self._wanted(inner, one):
                    # Before what the call hands on.
                    placed.append((plan.places[inner.calls[0][1].name] - 0.5, one, inner.name))
            if name in merged and name not in changed:
                placed += self._stood_for(one, merged[name], wanted)
        if self._rewrites is not None:
            placed += self._returned(placed)
            placed[:0] = self._folded(self._rewrites, {name for _, _, name in placed})
        if not everything:
            placed.sort(key=lambda item: item[0])
        return placed

    def _stood_for(
        self, one: SeenValue, others: Iterable[Inner], wanted: Container[tuple[str, int]]
    ) -> Iterator[tuple[float, SeenValue, str]]:
        """The same of nodes that the runtime has merged with the one that a value is of."""
        places = self.plan.places
        for other in others:
            if other.calls and self._wanted(other, one):
                self._inner[other.prefix] = other
                yield places[other.calls[0][1].name] - 0.5, one, other.name
            elif (other.name, one.slot) in wanted:
                yield places[other.name], one, other.name

    def _folded(
        self, rewrites: Rewrites, shown: Container[str]
    ) -> Iterator[tuple[float, SeenValue, str]]:
        """The constants of bodies that the runtime has left out, where what reads them is shown."""
        for each in rewrites.folded():
            tensor, held = each.op.outputs[0], Constant(each.op)
            if not any(each.prefix + op.name in shown for op in tensor.consumers()):
                continue
            dtype, shape = base_dtype_name(tensor.dtype), tuple(tensor.shape.as_list())
            size = math.prod(shape) * tensor.dtype.size
            one = SeenValue(
                each.op.name, 0, "DebugIdentity", 0, each.op.device, dtype, shape, size, held
            )
            if holdable(tensor.dtype) and self._wanted(each, one):
                self._inner[each.prefix] = each
                yield self.plan.places[each.calls[0][1].name] - 0.5, one, each.name

    def _is_result(self, call: str, one: SeenValue) -> bool:
        """Whether it is the result of a call that was executed as it is, not inlined."""
        op_type = self.plan.functional[call].type
        return self.plan.matcher.wants(call, op_type, one.dtype)

    def _returned(
        self, placed: Sequence[tuple[float, SeenValue, str]]
    ) -> list[tuple[float, SeenValue, str]]:
        """The results of calls that were inlined: what their bodies return, once more."""
        last = {(name, one.slot): one for _, one, name in placed}
        found: list[tuple[float, SeenValue, str]] = []
        for op, slot in self.plan.returned:
            assert self._rewrites is not None
            one = last.get(self._rewrites.result(op, slot))
            if one is not None and (op.name, slot) not in last and self._is_result(op.name, one):
                found.append((self.plan.places[op.name], one._replace(slot=slot), op.name))
        return found

    def failed(self, name: str, seen: Sequence[SeenValue]) -> Inner | None:
        """The node of a body that an error means by the name it has in its function.

        Args:
            name: e.g. ``check_0``, without anything about the body.
            seen: what the watches saw before the failure.
        """
        with contextlib.suppress(Exception):  # the dump will tell
            self._compare()
        functions, callers = self._view.functions, self.plan.functional
        known = [functions.find(prefix + name, callers) for prefix in self._inner]
        found = [inner for inner in known if inner is not None]
        if not found:
            found = list(functions.within(name, callers))
        if not found:
            return None
        counts = Counter(one.node for one in seen)

        def failures(inner: Inner) -> int:
            """How often the inputs were computed and the node was not."""
            definition = inner.prefix + name
            inputs = [counts[inner.prefix + tensor.op.name] for tensor in inner.op.inputs]
            return max(inputs, default=0) - counts[definition]

        chosen = max(found, key=failures)
        self._inner.setdefault(chosen.prefix, chosen)
        return chosen

    def _find_any(self, name: str) -> Inner | None:
        """The node of a body that a name of the runtime's stands for, whoever calls the body."""
        return self._view.functions.find(name, self.plan.functional)

    def _find(self, name: str) -> Inner | None:
        plan = self.plan
        if name not in plan.inner:
            known = self._rewrites.aliases.get(name) if self._rewrites is not None else None
            plan.inner[name] = known or self._find_any(name)
        found = plan.inner[name]
        if found is not None:
            self._inner[found.prefix] = found
        return found

    def _wanted(self, inner: Inner, one: SeenValue) -> bool:
        wants = self.plan.matcher.wants
        return one.dtype not in ("resource", "variant") and wants(
            inner.name, inner.op.type, one.dtype
        )


def _without_argument(name: str, slot: int) -> str:
    """The user's name of a fed tensor, which the runtime calls ``_arg_<name>_<slot>_<index>``."""
    fed = parse_feed_node_name(name)
    return fed[0] if fed is not None else name
