"""What a run computes and how each of its tensors can be kept: fetched, watched, or known."""

from __future__ import annotations

import functools
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

from tensorflow.core.framework import node_def_pb2

from tfdbg_cli.dumps.proto.graph_def import FUNCTIONAL
from tfdbg_cli.engines.base import Watch
from tfdbg_cli.engines.kit.watch_matcher import WatchMatcher
from tfdbg_cli.engines.tensorflow.sessions.capture.finite import FiniteCheck
from tfdbg_cli.engines.tensorflow.sessions.capture.liveness import Liveness, ordered_run
from tfdbg_cli.engines.tensorflow.sessions.capture.prepared import PreparedFetches
from tfdbg_cli.engines.tensorflow.sessions.capture.topology import Buffers, edge_of
from tfdbg_cli.engines.tensorflow.sessions.requests import RunRequest
from tfdbg_cli.engines.tensorflow.shared.body_nodes import Inner
from tfdbg_cli.engines.tensorflow.shared.optimized import COMPOSED, PASSING, OptimizedGraph
from tfdbg_cli.engines.tensorflow.shared.private import functions_of, is_reference
from tfdbg_cli.engines.tensorflow.shared.redo import UnreadGraph, UnreadNode, inputs_of
from tfdbg_cli.engines.tensorflow.shared.values import Constant, base_dtype_name, holdable

__all__ = ["CapturePlan", "PlanCache", "PlannedTensor", "make_plan", "plans_of"]

# Handles are made anew by each fetch (and deleted with it), queues by name are references.
_NEVER = frozenset({"GetSessionHandle", "GetSessionHandleV2", "VarHandleOp", "VarHandlesOp"})
# The optimizer makes one product or constant of these outside of training, fetched or not: then
# there is the first output alone, and whoever fetches another one gets an error.
_ONE_OUTPUT = frozenset({"FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"})
# The optimizer inlines these, unless somebody fetches what they return.
_INLINED = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
# Those that a session keeps.
_VARIABLES = frozenset({"Variable", "VariableV2"})
# A program has a handful of distinct runs; more come from graphs that grow with each.
_KEPT = 64


_P = TypeVar("_P")


class PlannedTensor(NamedTuple):
    """One tensor that a run will list.

    Attributes:
        node: the name of its operation.
        slot: the output of the operation.
        position: its place in the topological order of the run.
        fetch: its index in `CapturePlan.extra`, or -1.
        copied: the program holds the fetched array too.
        constant: its value, where no run is needed to know it.
        device: what the graph asks for, mostly nothing.
        is_unread: it isn't fetched, so that the optimizer makes the same of the rest: it is
            computed when somebody looks.
        is_hidden: it is there for those alone, and isn't listed.
    """

    node: str
    slot: int
    position: int
    fetch: int
    copied: bool
    constant: Constant | None
    device: str
    is_unread: bool = False
    is_hidden: bool = False


@dataclass
class CapturePlan:
    """How to debug the runs of one request on one version of the graph.

    Attributes:
        ops: every operation the run computes, producers first.
        extra: the tensors to fetch besides the user's: those that are fed, those that the run
            computes, and variables that are read before it.
        ahead: how many are read before the run.
        updates: the operations that write a variable last, and whose outputs are fetched
            -> the variable.
        entries: the tensors whose values are fetched or known, in the order they are listed.
        watched: ``(node, slot)`` of the tensors that only a debug watch can see.
        unwatched: ``(node, slot)`` of those that a watch would change the run by.
        places: node name -> position in the order, for the watched and the functional nodes.
        functional: the operations whose bodies need the wildcard watch, by name.
        matcher: the filters of the watch.
        fed: ``(operation, slot)`` of the fed tensors.
        debug_options: the ``DebugOptions`` made so far, by URL.
        everything: whether the wildcard watch is needed and can be used.
        inner: runtime name -> the operation of a function body, as far as they were looked up.
        returned: ``(operation, slot)`` of function calls whose results aren't fetched: they are
            the tensors that the inlined bodies return.
        request: the names of what was asked for and fed.
        asked: the tensors that were asked for and aren't fed.
        targets: the operations that were asked for.
        feeds: the tensors that are fed.
        optimized: the graph that the runtime makes of the program's own run, as far as it is known.
        told: the unread nodes that others tell of: all that is bad in them shows in those.
        again: nodes that are fetched, and computed again with what is not -> another name: if they
            don't come out alike, what isn't fetched may have been something else in the run.
        is_enough: runs may do without what `told` names; not any more once one had something bad.
        spared: what `sparing` has made of it.
        beyond: ``(node, slot)`` of the watched ones that would not fit in memory.
        sizes: bytes of the tensors of `extra`, by how long dimensions are that the graph doesn't
            know.
        smaller: the same plan for so much memory and so long dimensions.
    """

    ops: list[Any] = field(default_factory=list)
    extra: list[Any] = field(default_factory=list)
    ahead: int = 0
    updates: dict[str, Any] = field(default_factory=dict)
    entries: list[PlannedTensor] = field(default_factory=list)
    watched: list[tuple[str, int]] = field(default_factory=list)
    unwatched: list[tuple[str, int]] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)
    functional: dict[str, Any] = field(default_factory=dict)
    matcher: WatchMatcher = field(default_factory=lambda: WatchMatcher(Watch()))
    fed: frozenset[tuple[Any, int]] = frozenset()
    debug_options: dict[str, Any] = field(default_factory=dict)
    everything: bool = False
    inner: dict[str, Inner | None] = field(default_factory=dict)
    returned: list[tuple[Any, int]] = field(default_factory=list)
    request: tuple[Any, ...] = ()
    asked: Sequence[Any] = ()
    targets: Sequence[Any] = ()
    feeds: Sequence[Any] = ()
    optimized: OptimizedGraph | None = None
    told: Set[str] = frozenset()
    again: Mapping[str, str] = field(default_factory=dict)
    is_enough: bool = True
    spared: CapturePlan | None = None
    beyond: Sequence[tuple[str, int]] = ()
    sizes: dict[int, Sequence[int]] = field(default_factory=dict)
    smaller: dict[tuple[int, int], CapturePlan] = field(default_factory=dict)

    @functools.cached_property
    def fed_count(self) -> int:
        """How many of `extra` are fed: they come first."""
        return sum(edge_of(tensor) in self.fed for tensor in self.extra)

    @functools.cached_property
    def left(self) -> frozenset[str]:
        """The nodes of the entries that are unread."""
        return frozenset(entry.node for entry in self.entries if entry.is_unread)

    @functools.cached_property
    def copied(self) -> list[int]:
        """The places in `extra` whose arrays the program holds, too."""
        return sorted({entry.fetch for entry in self.entries if entry.copied})

    @functools.cached_property
    def opaque(self) -> list[str]:
        """The functional operations that nothing of what is fetched belongs to."""
        shown = {entry.node[:at] for entry in self.entries for at in _slashes(entry.node)}
        return [name for name in self.functional if name not in shown]

    @functools.cached_property
    def check(self) -> FiniteCheck:
        """Tells whether a run has computed a nan or an infinity."""
        constants = [
            (entry.node, entry.slot, entry.constant)
            for entry in self.entries
            if entry.constant is not None
        ]
        return FiniteCheck(self.ops, self.extra, self.fed_count, self.ahead, constants)

    @functools.cached_property
    def composed(self) -> list[tuple[str, int | str]]:
        """What the optimizer has put into one op with others, and doesn't hide what it has made.

        Each with the place in `extra` of what it is given, or the name of the one that gives it.
        """
        found: list[tuple[str, int | str]] = []
        places: dict[str, int | str] = {}
        for entry in self.entries:
            op = self.operation(entry.node)
            if entry.fetch >= 0 and not entry.slot:
                places[entry.node] = entry.fetch
            elif entry.is_unread and op.type in COMPOSED and entry.node not in self.told:
                source = op.inputs[0]
                if source.op.name in places and not source.value_index:
                    found.append((entry.node, places[source.op.name]))
                    places[entry.node] = entry.node
        return found

    @functools.cached_property
    def unread(self) -> UnreadGraph:
        """Computes what isn't read, and what `again` names."""
        slots: dict[str, list[int]] = {}
        for entry in self.entries:
            if entry.is_unread:
                slots.setdefault(entry.node, []).append(entry.slot)

        def nodes() -> Iterator[UnreadNode]:
            for op in self.ops:
                if op.name in slots and op.name not in self.functional:
                    yield UnreadNode(op.node_def, inputs_of(op), slots[op.name])
                if op.name in self.again:
                    made = node_def_pb2.NodeDef()
                    made.CopyFrom(op.node_def)
                    made.name = self.again[op.name]
                    yield UnreadNode(made, inputs_of(op), range(len(op.outputs)))

        return UnreadGraph(nodes())

    @functools.cached_property
    def prepared(self) -> PreparedFetches:
        """What the runtime is asked for."""
        end = len(self.extra) - self.ahead
        return PreparedFetches(
            self.feeds,
            self.asked,
            self.targets,
            self.extra[self.fed_count : end],
            self.extra[end:],
        )

    @property
    def signature(self) -> tuple[Any, ...]:
        """What the runtime makes an executor for: plans with equal ones run the same graph."""
        return (
            self.request,
            tuple(tensor.name for tensor in self.extra),
            tuple(self.watched),
            self.everything,
        )

    def without(self, unwanted: Callable[[PlannedTensor], bool]) -> CapturePlan:
        """The same plan with fewer tensors to fetch."""
        return self._of([each for each in self.entries if each.fetch < 0 or not unwanted(each)])

    def leaving(self, unread: Collection[str]) -> CapturePlan:
        """The tensors that the watch wants, and what those of some nodes are to be computed of.

        Args:
            unread: the nodes; what was asked for of them is fetched all the same.
        """
        nodes, end = {*unread}, len(self.extra) - self.ahead
        for op in self.ops:
            if op.type in PASSING and op.inputs[0].op.name in nodes:
                nodes.add(op.name)
        kept, needed = list[PlannedTensor](), set[tuple[str, int]]()
        for each in reversed(self.entries):
            is_hidden = not self._wants(each.node, each.slot)
            if is_hidden and (each.node, each.slot) not in needed:
                continue
            is_unread = each.is_unread or (
                each.node in nodes and 0 <= each.fetch < end and not each.copied
            )
            if is_unread:
                inputs = self.operation(each.node).inputs
                needed.update((tensor.op.name, tensor.value_index) for tensor in inputs)
            fetch = -1 if is_unread else each.fetch
            kept.append(each._replace(fetch=fetch, is_unread=is_unread, is_hidden=is_hidden))
        return replace(
            self._of(kept[::-1]),
            watched=[key for key in self.watched if self._wants(*key)],
            unwatched=[key for key in self.unwatched if self._wants(*key)],
        )

    def operation(self, name: str) -> Any:
        """The operation of a name."""
        return self._by_name[name]

    @functools.cached_property
    def _by_name(self) -> dict[str, Any]:
        return {op.name: op for op in (*(tensor.op for tensor in self.feeds), *self.ops)}

    def _wants(self, node: str, slot: int) -> bool:
        op = self.operation(node)
        return self.matcher.wants(node, op.type, op.outputs[slot].dtype.name)

    def _of(self, kept: Sequence[PlannedTensor]) -> CapturePlan:
        used = sorted({entry.fetch for entry in kept if entry.fetch >= 0})
        places = {place: at for at, place in enumerate(used)}
        end = len(self.extra) - self.ahead
        return replace(
            self,
            extra=[self.extra[place] for place in used],
            ahead=sum(place >= end for place in used),
            entries=[entry._replace(fetch=places.get(entry.fetch, -1)) for entry in kept],
            spared=None,
            sizes={},
            smaller={},
        )

    def sparing(self, unwanted: Callable[[str, int], bool]) -> CapturePlan:
        """The same plan, keeping fewer tensors than it can; what is asked for is fetched anyway.

        It is made once: what a stepper can compute later follows from the request and the graph.

        Args:
            unwanted: says it of a node's output.
        """
        if self.spared is None:
            fewer = self.without(
                lambda entry: (
                    entry.position >= 0 and not entry.copied and unwanted(entry.node, entry.slot)
                )
            )
            watched = [key for key in self.watched if not unwanted(*key)]
            entries = [each for each in fewer.entries if not each.is_unread]
            self.spared = replace(fewer, entries=entries, watched=watched, debug_options={})
        return self.spared


class PlanCache:
    """The plans of one session's latest runs, for those that run again. Threads may share it.

    A plan is how a run is captured, or how it is gone through in steps.
    """

    def __init__(self) -> None:
        self._plans: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = threading.Lock()
        self._thread = 0
        #: Whether several threads run the session: one may write to what another one reads.
        self.is_shared = False

    def enter(self) -> None:
        """This thread makes a run."""
        thread = threading.get_ident()
        self.is_shared = self.is_shared or self._thread not in (0, thread)
        self._thread = thread

    def get(self, key: Hashable, make: Callable[[], _P]) -> _P:
        """The plan with a key, made now if there is none; that may take its time."""
        with self._lock:
            plan: _P | None = self._plans.get(key)
            if plan is not None:
                self._plans.move_to_end(key)
                return plan
        plan = make()
        with self._lock:
            self._plans[key] = plan
            while len(self._plans) > _KEPT:
                self._plans.popitem(last=False)
        return plan

    def replace(self, old: CapturePlan, new: CapturePlan) -> None:
        """Keep another plan under the key of one that is kept."""
        with self._lock:
            for key, plan in self._plans.items():
                if plan is old:
                    self._plans[key] = new
                    return


_CACHES: weakref.WeakKeyDictionary[Any, PlanCache] = weakref.WeakKeyDictionary()


def plans_of(session: Any) -> PlanCache:
    """The plans of a session, whoever debugs it; they don't keep it alive.

    The session below a monitored one is a weak proxy: what it stands for is the key.
    """
    return _CACHES.setdefault(session.__init__.__self__, PlanCache())


def make_plan(
    graph: Any,
    request: RunRequest,
    watch: Watch,
    inline_calls: bool = False,
    reads_ahead: bool = False,
    shares: bool = True,
) -> CapturePlan:
    """Work out a plan.

    Time and memory grow with the part of the graph that the run computes; nothing is recursive.

    Args:
        graph: the session's ``tf.Graph``.
        request: the resolved fetches and feeds.
        watch: which tensors are wanted; the plan has all, until `CapturePlan.leaving` is asked.
        inline_calls: don't fetch what function calls return: the runtime inlines only calls that
            nobody fetches, and no watch sees into the others.
        reads_ahead: variables may be read before the run.
        shares: what only hands on another tensor isn't fetched itself.
    """
    fed, asked, _, edges, ops, alive = ordered_run(request)
    plan = CapturePlan(
        ops=ops,
        matcher=WatchMatcher(watch),
        fed=fed,
        request=request.key(),
        asked=[each for each in request.fetches if edge_of(each) not in fed],
        targets=request.targets,
        feeds=request.feeds,
    )
    buffers = Buffers(edges, ops, asked)
    planner = _Planner(graph, plan, request, asked, alive, buffers)
    planner.inlines = inline_calls
    planner.reads_ahead = reads_ahead
    planner.shares = shares
    planner.fill()
    return plan


class _Planner:
    """Decides tensor by tensor how it is kept."""

    def __init__(
        self,
        graph: Any,
        plan: CapturePlan,
        request: RunRequest,
        asked: set[tuple[Any, int]],
        alive: Liveness,
        buffers: Buffers,
    ) -> None:
        self._graph = graph
        self._functions = functions_of(graph)
        self._plan = plan
        self._request = request
        self._asked = asked
        self._alive = alive
        self._buffers = buffers
        #: Whether the results of function calls are left to the watch of their bodies.
        self.inlines = False
        #: Whether variables that the run writes may be read before it.
        self.reads_ahead = False
        #: Whether tensors that are others, handed on, aren't fetched themselves.
        self.shares = True
        self._known: dict[tuple[Any, int], PlannedTensor] = {}
        #: Those that are, with the places of the entries that have their values.
        self._ahead: dict[Any, list[int]] = {}

    def fill(self) -> None:
        """Work out everything but the operations."""
        self._add_feeds()
        for position, op in enumerate(self._plan.ops):
            self._add(op, position)
        self._read_ahead()
        self._share_unwritten()
        if self._plan.watched:
            self._place()

    def _add_feeds(self) -> None:
        unreadable = {*map(edge_of, self._request.handles)}
        for tensor in self._request.feeds:
            op, slot = tensor.op, tensor.value_index
            if (op, slot) not in unreadable and holdable(tensor.dtype):
                # Fetching a fed tensor runs nothing: it gives the fed value as an array.
                self._fetch(op, slot, tensor, -1)

    def _add(self, op: Any, position: int) -> None:
        plan, name, kind = self._plan, op.name, op.type
        if kind in FUNCTIONAL or kind in self._functions:
            plan.functional[name] = op
            plan.places[name] = position
        outputs = op.outputs
        if not outputs or kind in _NEVER:
            return
        certain = (
            self._alive.always(op) and not self._alive.chooses(op) and self._graph.is_fetchable(op)
        )
        is_one = kind in _ONE_OUTPUT and not op.get_attr("is_training")
        for slot, tensor in enumerate(outputs):
            key = (op, slot)
            if key in plan.fed or not holdable(tensor.dtype):
                continue
            if is_one and slot and key not in self._asked:
                continue
            by_reference = is_reference(tensor)
            if key in self._asked:
                self._fetch(op, slot, tensor, position)
            elif certain and kind == "Const":
                entry = PlannedTensor(name, slot, position, -1, False, Constant(op), op.device)
                plan.entries.append(entry)
                self._known[key] = entry
            elif self.inlines and (kind in _INLINED or kind in self._functions):
                plan.returned.append((op, slot))
            elif certain and not by_reference and key not in self._buffers.changing:
                if not (self.shares and self._share(op, position)):
                    self._fetch(op, slot, tensor, position)
            elif certain and key not in self._buffers.late and self._is_before(op, by_reference):
                variable = self._buffers.first.get(op, op)
                self._ahead.setdefault(variable, []).append(len(plan.entries))
                plan.entries.append(PlannedTensor(name, slot, position, 0, False, None, op.device))
            elif certain and self.reads_ahead and by_reference and op in self._buffers.last:
                self._fetch(op, slot, tensor, position)
                plan.updates[name] = self._buffers.last[op].outputs[0]
            elif key in self._buffers.late or self._alive.may_never_begin(op):
                plan.unwatched.append((name, slot))
            elif kind not in FUNCTIONAL and not (by_reference and _is_text(tensor.dtype)):
                plan.watched.append((name, slot))
                plan.places[name] = position

    def _share(self, op: Any, position: int) -> bool:
        """Let an operation that only hands on its input have the value of that, if it is known."""
        if op.type not in PASSING:
            return False
        source = op.inputs[0]
        entry = self._known.get((source.op, source.value_index))
        if entry is None:
            return False
        self._plan.entries.append(
            entry._replace(node=op.name, slot=0, position=position, copied=False, device=op.device)
        )
        self._known[op, 0] = entry
        return True

    def _is_before(self, op: Any, by_reference: bool) -> bool:
        """Whether an output is what a variable was before the run.

        What the run only reads is known by the value that was read.
        """
        variable = op if by_reference else self._buffers.first.get(op)
        return (
            self.reads_ahead
            and variable is not None
            and variable.type in _VARIABLES
            and variable not in self._buffers.reads
            and (variable, 0) not in self._plan.fed
        )

    def _fetch(self, op: Any, slot: int, tensor: Any, position: int) -> None:
        plan = self._plan
        held = (op, slot) in self._asked or (op, slot) in plan.fed
        entry = PlannedTensor(op.name, slot, position, len(plan.extra), held, None, op.device)
        plan.entries.append(entry)
        plan.extra.append(tensor)
        if not is_reference(tensor):
            self._known[op, slot] = entry

    def _read_ahead(self) -> None:
        plan = self._plan
        plan.ahead = len(self._ahead)
        for variable, places in self._ahead.items():
            for place in places:
                plan.entries[place] = plan.entries[place]._replace(fetch=len(plan.extra))
            plan.extra.append(variable.outputs[0])

    def _share_unwritten(self) -> None:
        """A reference variable that the run only reads has the value that was read of it."""
        plan = self._plan
        fetched = {(entry.node, entry.slot): entry for entry in plan.entries if entry.fetch >= 0}
        shared = set()
        for variable, reader in self._buffers.reads.items():
            key = (variable.name, 0)
            entry = fetched.get((reader.name, 0))
            if entry is not None and variable.name in plan.places and key not in fetched:
                shared.add(key)
                plan.entries.append(
                    entry._replace(node=variable.name, position=plan.places[variable.name])
                )
        if shared:
            plan.watched = [key for key in plan.watched if key not in shared]
            plan.entries.sort(key=lambda entry: entry.position)

    def _place(self) -> None:
        """The tensors of a loop stand all together, where it ends."""
        plan, frames = self._plan, self._alive.frames
        loops = {frames[op][0]: at for at, op in enumerate(plan.ops) if op in frames}
        watched = {name for name, _ in plan.watched}
        for op, frame in frames.items():
            if op.name in watched:
                plan.places[op.name] = loops[frame[0]]


def _slashes(name: str) -> Iterator[int]:
    return (at for at, character in enumerate(name) if character == "/")


def _is_text(dtype: Any) -> bool:
    """Whether a reference is to the name of a queue or table rather than to a variable."""
    return base_dtype_name(dtype) == "string"
