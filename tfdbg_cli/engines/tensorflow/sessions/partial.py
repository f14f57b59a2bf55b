"""Partial runs: a run that is fed and fetched in several parts."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from tfdbg_cli.common.interpreter.program_signals import contained
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.engines.base import Capture, RunCall, Watch
from tfdbg_cli.engines.kit.watch_matcher import WatchMatcher
from tfdbg_cli.engines.tensorflow.sessions.capture.plan import CapturePlan, PlannedTensor, make_plan
from tfdbg_cli.engines.tensorflow.sessions.capture.topology import edge_of, walk
from tfdbg_cli.engines.tensorflow.sessions.errors import attempt_late, run_plainly
from tfdbg_cli.engines.tensorflow.sessions.requests import Kept, RunRequest, resolve
from tfdbg_cli.engines.tensorflow.shared import guard
from tfdbg_cli.engines.tensorflow.shared.private import conversions

if TYPE_CHECKING:
    from tfdbg_cli.engines.tensorflow.sessions.adapter import TensorFlowAdapter

__all__ = ["PartialRuns"]

# Programs may leave theirs unfinished.
_MOST = 64

_Key = tuple[Any, int]


class _Partial:
    """One partial run, from its setup to its last part.

    Args:
        request: what the program asked for at the setup.
        plan: how the whole of it is watched.
    """

    def __init__(self, request: RunRequest, plan: CapturePlan) -> None:
        self.plan = plan
        asked = {edge_of(tensor) for tensor in request.fetches}
        self.fetches = set(asked)
        self.targets = set(request.targets)
        self.feeds = {edge_of(tensor) for tensor in request.feeds}
        #: What the debugged parts so far have found, shown again where a later one fails.
        self.found: dict[_Key, Any] = {}
        #: The intermediate tensors that no part has fetched yet: each can be fetched once.
        self.left: dict[_Key, Any] = {
            edge_of(tensor): tensor
            for tensor in plan.extra
            if edge_of(tensor) not in asked and edge_of(tensor) not in plan.fed
        }

    def take(self, request: RunRequest, debugged: bool) -> list[Any]:
        """What to fetch besides in a part; to be called once for each part.

        A run is over when all that was set up is fetched and fed, so the last part takes all that
        is left.
        """
        self.fetches -= {edge_of(tensor) for tensor in request.fetches}
        self.targets -= set(request.targets)
        self.feeds -= {edge_of(tensor) for tensor in request.feeds}
        is_last = not (self.fetches or self.targets or self.feeds)
        if is_last:
            taken = list(self.left)
        elif debugged:
            reached = self.ancestors(request)
            taken = [key for key in self.left if key[0] in reached]
        else:
            taken = []
        return [self.left.pop(key) for key in taken]

    def ancestors(self, request: RunRequest) -> set[Any]:
        """The operations that a part needs."""
        roots = [
            tensor.op for tensor in request.fetches if edge_of(tensor) not in self.plan.fed
        ] + list(request.targets)
        return set(walk(roots, self.plan.fed))


class PartialRuns:
    """The partial runs of one session.

    Their setup asks for the intermediate tensors as well, since only what was set up can be
    fetched; a debugged part fetches those that it computes. The runtime takes no debug watches
    here, so the inside of loops, branches and functions stays unseen.

    Args:
        adapter: of the session.
    """

    def __init__(self, adapter: TensorFlowAdapter) -> None:
        self._adapter = adapter
        self._running: OrderedDict[Any, _Partial] = OrderedDict()
        self._lock = threading.Lock()

    def setup(self, fetches: Any, feeds: Any) -> Any:
        """``Session.partial_run_setup``; its handle."""
        session = self._adapter.session
        set_up = guard.runner(session, "partial_run_setup")
        with guard.bypass():
            handle = None
            with contained:
                request = _resolve_setup(session.graph, fetches, feeds)
                state = _Partial(request, make_plan(session.graph, request, Watch(), shares=False))
                handle = set_up([fetches, list(state.left.values())], feeds)
            if handle is None:
                # Mostly the arguments are wrong; TensorFlow itself says best in what way. (Out
                # here, its error doesn't get ours for a context.)
                return set_up(fetches, feeds)
        with self._lock:
            self._running[handle] = state
            while len(self._running) > _MOST:
                self._running.popitem(last=False)
        return handle

    def call(self, handle: Any, fetches: Any, feed_dict: Any) -> RunCall:
        """One part of a partial run."""
        adapter = self._adapter

        def run() -> Any:
            return self._run(handle, fetches, feed_dict)

        return RunCall(
            adapter.fetch_names(fetches),
            adapter.feeds(feed_dict),
            run=run,
            debug=lambda watch: self._debug(handle, fetches, feed_dict, watch),
            plain=lambda: run_plainly(run),
        )

    def _part(
        self, handle: Any, fetches: Any, feed_dict: Any
    ) -> tuple[_Partial, RunRequest] | None:
        """What is known of a part; ``None`` where TensorFlow will have something to say."""
        state = self._running.get(handle)
        if state is None:
            return None
        with contained:
            return state, resolve(self._adapter.session.graph, fetches, feed_dict)
        return None

    def _run(self, handle: Any, fetches: Any, feed_dict: Any) -> Any:
        part = self._part(handle, fetches, feed_dict)
        run = guard.runner(self._adapter.session, "partial_run")
        with guard.bypass():
            if part is None:
                return run(handle, fetches, feed_dict)
            state, request = part
            extra = state.take(request, debugged=False)
            self._forget(handle, state)
            return run(handle, [fetches, extra], feed_dict)[0]

    def _debug(self, handle: Any, fetches: Any, feed_dict: Any, watch: Watch) -> Capture:
        adapter, part = self._adapter, self._part(handle, fetches, feed_dict)
        run = guard.runner(adapter.session, "partial_run")
        if part is None:
            with guard.bypass():
                capture = run_plainly(lambda: run(handle, fetches, feed_dict))
            capture.dump = MemoryDump(adapter.graph)
            capture.dump.warnings.append("The run was not watched: its setup isn't known.")
            return capture
        state, request = part
        extra = [*state.take(request, debugged=True), *request.fetches, *request.feeds]
        self._forget(handle, state)
        assembly = adapter.assembly(state.plan)
        kept = Kept(extra)
        with guard.bypass():
            values, error, late, is_done = attempt_late(
                lambda: run(handle, [kept, fetches], feed_dict)
            )
        if is_done:
            listed = dict(zip(map(edge_of, extra), kept.values or (), strict=False))
            state.found.update(listed)
        else:
            # The runtime cancels the session with the run: nothing can be computed any more.
            listed = state.found
        reached = state.ancestors(request) if is_done else set(state.plan.ops)
        entries, given = _listed(state.plan, listed, reached, WatchMatcher(watch))
        dump = assembly.dump(entries, given, [])
        if not is_done:
            dump.warnings.append(
                "A part of the run failed: the tensors are those of earlier parts."
            )
        elif state.plan.watched or state.plan.functional:
            dump.warnings.append(
                "A partial run can't be watched from inside: tensors of loops, branches and "
                "functions are missing."
            )
        return Capture(values[1] if error is None else None, dump, error, late=late)

    def _forget(self, handle: Any, state: _Partial) -> None:
        if not (state.fetches or state.targets or state.feeds):
            with self._lock:
                self._running.pop(handle, None)


def _listed(
    plan: CapturePlan, found: dict[_Key, Any], reached: set[Any], matcher: WatchMatcher
) -> tuple[list[PlannedTensor], list[Any]]:
    """The entries of a plan that a part has values for, and the values at their places."""
    names = {op.name: op for op in reached}
    values: list[Any] = [None] * len(plan.extra)
    entries = []
    for entry in plan.entries:
        if entry.fetch < 0:
            op = names.get(entry.node)
            tensor = op.outputs[entry.slot] if op is not None else None
        else:
            tensor = plan.extra[entry.fetch]
            if edge_of(tensor) in found:
                values[entry.fetch] = found[edge_of(tensor)]
            else:
                tensor = None
        if tensor is not None and matcher.wants(entry.node, tensor.op.type, tensor.dtype.name):
            entries.append(entry)
    return entries, values


def _resolve_setup(graph: Any, fetches: Any, feeds: Any) -> RunRequest:
    """The tensors and operations of a setup, which has no values yet."""
    request = resolve(graph, fetches, None)
    keys = feeds if isinstance(feeds, list | tuple) else [] if feeds is None else [feeds]
    tensors = []
    for key in keys:
        for kind, _, _, expand in conversions:
            if isinstance(key, kind):
                for part in expand(key):
                    tensors.append(
                        graph.as_graph_element(part, allow_tensor=True, allow_operation=False)
                    )
                break
    return RunRequest(request.fetches, request.targets, tuple(tensors), ())
