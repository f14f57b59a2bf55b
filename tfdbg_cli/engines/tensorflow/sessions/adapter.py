"""Sessions of TensorFlow as the wrapper session drives them."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from itertools import accumulate, chain
from types import MappingProxyType
from typing import Any

from tensorflow.core.protobuf import config_pb2
from tensorflow.python.client import session as tf_session

from tfdbg_cli.common.errors import one_line
from tfdbg_cli.common.interpreter.program_signals import contained, pass_on
from tfdbg_cli.dumps.dump import Redo, RunError
from tfdbg_cli.dumps.graph import Graph
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.engines.base import CannotStep, Capture, RunCall, SessionAdapter, Watch
from tfdbg_cli.engines.kit.levels import CHECKED
from tfdbg_cli.engines.tensorflow.sessions import errors, install, recovery
from tfdbg_cli.engines.tensorflow.sessions.callables import Callables
from tfdbg_cli.engines.tensorflow.sessions.capture import room
from tfdbg_cli.engines.tensorflow.sessions.capture.assembly import Assembly
from tfdbg_cli.engines.tensorflow.sessions.capture.fused import keeping_fused, telling
from tfdbg_cli.engines.tensorflow.sessions.capture.plan import (
    CapturePlan,
    PlanCache,
    PlannedTensor,
    make_plan,
    plans_of,
)
from tfdbg_cli.engines.tensorflow.sessions.capture.prepared import Extras
from tfdbg_cli.engines.tensorflow.sessions.capture.profile import StepTimings, traced
from tfdbg_cli.engines.tensorflow.sessions.capture.spool import SeenValue, borrow_folder, take
from tfdbg_cli.engines.tensorflow.sessions.capture.watch import (
    all_watchable,
    debug_options,
    with_debug,
)
from tfdbg_cli.engines.tensorflow.sessions.errors import attempt, attempt_late, run_plainly
from tfdbg_cli.engines.tensorflow.sessions.partial import PartialRuns
from tfdbg_cli.engines.tensorflow.sessions.requests import (
    Kept,
    RunRequest,
    feed_values,
    fetch_labels,
    replaced_fetches,
    resolve,
)
from tfdbg_cli.engines.tensorflow.sessions.stepping.stepper import TensorFlowStepper, make_stepper
from tfdbg_cli.engines.tensorflow.shared import guard
from tfdbg_cli.engines.tensorflow.shared.body_nodes import Functions
from tfdbg_cli.engines.tensorflow.shared.graph import GraphView
from tfdbg_cli.engines.tensorflow.shared.redo import redo_of

__all__ = ["TensorFlowAdapter"]

_Run = Callable[[Any, Any, Any, Any], Any]

_NO_OPTIONS = config_pb2.RunOptions()
_BRANCHES = frozenset({"Case", "If", "StatelessCase", "StatelessIf"})
_LOOPS = frozenset({"StatelessWhile", "While"})


class TensorFlowAdapter(SessionAdapter):
    """A ``BaseSession``: ``Session``, ``InteractiveSession``, and what derives from them.

    Args:
        session: the session.
        is_exact: whether debugged runs are to be equal to plain ones to the last bit: TensorFlow's
            optimizer doesn't rewrite what is fetched.
    """

    engine_name = "tensorflow"

    def __init__(self, session: Any, is_exact: Callable[[], bool] = lambda: False) -> None:
        super().__init__(session)
        self._is_exact = is_exact
        self._view: GraphView | None = None
        self._device: str | None = None
        self._watching = True  # until a debug operation fails
        self._callables = Callables(self)
        self._partial_runs = PartialRuns(self)

    @property
    def framework_graph(self) -> Any:
        """The session's ``tf.Graph``."""
        return self.session.graph

    def seed(self) -> str | None:
        """The graph's."""
        seed = getattr(self.framework_graph, "seed", None)
        return None if seed is None else f"{seed} (tf.set_random_seed)"

    def run(self, fetches: Any, feed_dict: Any, options: Any, run_metadata: Any) -> Any:
        """``Session.run``."""
        run = guard.runner(self.session)
        with guard.bypass():
            return run(fetches, feed_dict, options, run_metadata)

    def call(self, fetches: Any, feed_dict: Any, options: Any, run_metadata: Any) -> RunCall:
        call = super().call(fetches, feed_dict, options, run_metadata)
        return dataclasses.replace(call, plain=lambda: run_plainly(call.run))

    def debug_run(
        self, fetches: Any, feed_dict: Any, options: Any, run_metadata: Any, watch: Watch
    ) -> Capture:
        """``Session.run`` with the run's intermediate tensors among its fetches.

        What can't be fetched (the inside of loops, branches and functions, variables by
        reference) is watched by the runtime's debug operations in the same run.
        """
        is_chosen = watch.node_name or watch.op_type or watch.tensor_dtype or watch.debug_urls
        if self._is_exact() and not is_chosen:
            with contextlib.suppress(CannotStep):
                return self.stepper(fetches, feed_dict, options, run_metadata).finish()
        run = guard.runner(self.session)
        with guard.bypass():
            return self.debug_with(run, fetches, feed_dict, options, run_metadata, watch)

    def debug_with(
        self,
        run: _Run,
        fetches: Any,
        feed_dict: Any,
        options: Any,
        run_metadata: Any,
        watch: Watch,
        unwanted: Callable[[str, int], bool] | None = None,
        known: Mapping[Any, Any] = MappingProxyType({}),
    ) -> Capture:
        """As `debug_run`, through a given ``run`` of the session.

        Args:
            run: ``Session.run``, or what stands for it.
            fetches, feed_dict, options, run_metadata, watch: as for `debug_run`.
            unwanted: says of a node's output that it needn't be kept; ``None``: all are.
            known: variables that were read just now -> their values.
        """
        is_native = bool(watch.debug_urls) or watch.debug_ops != ("DebugIdentity",)
        unplanned: Exception | None = None
        try:
            plan, before = self._plan(fetches, feed_dict, watch, unwanted, not is_native, known)
        except Exception as raised:
            pass_on(raised)
            unplanned = raised
        if unplanned is not None:
            # Mostly the arguments are wrong; the run itself says best in what way. (Out here, its
            # error doesn't get ours for a context.)
            value, error = attempt(lambda: run(fetches, feed_dict, options, run_metadata))
            dump = MemoryDump(self.graph)
            dump.warnings.append(f"The run was not watched: {one_line(unplanned)}")
            return Capture(value, dump, error, run_metadata)
        if is_native:
            capture = self._native_run(
                lambda opts: run(fetches, feed_dict, opts, run_metadata), options, plan, watch
            )
            capture.run_metadata = run_metadata
            return capture
        planned = plan
        plan = room.within(plan, watch.limit, room.longest(self.feeds(feed_dict).values()))
        if plan.told and plan.beyond:  # nothing is computed of what only a watch sees
            planned.is_enough = False
            return self.debug_with(run, fetches, feed_dict, options, run_metadata, watch)
        assembly = self.assembly(plan)
        problems: list[str] = []
        with ExitStack() as stack:
            debug, folder = None, ""
            if self._watches(plan, options):
                try:
                    folder = stack.enter_context(borrow_folder(bool(plan.beyond)))
                    debug = self._debug_options(plan, folder)
                except OSError as full:
                    problems.append(f"Loops and functions were not watched: {one_line(full)}")
            problems += room.told(plan, debug is not None)
            is_plain = (options is None or options == _NO_OPTIONS) and run_metadata is None
            extras = Extras(plan.prepared, debug, is_plain and not self.session.sess_str)
            kept = Kept(plan.extra[: plan.fed_count], extras)
            debugged = options if debug is None else with_debug(options, debug)
            values, error, late, is_done = attempt_late(
                lambda: run([kept, fetches], feed_dict, debugged, run_metadata)
            )
            seen = take(folder, problems.append, assembly.ran) if folder else []
        if is_done:
            extra = [*(kept.values or ()), *(extras.values or ()), *before]
            capture = self._done(
                assembly, extra, seen, values[1] if error is None else None, error, watch
            )
            capture.late = late
            capture.replaced = functools.partial(replaced_fetches, self.session.graph, fetches)
            if capture.filter_passed is None:  # maybe there are infinities in each run
                planned.is_enough = False
        else:
            assert error is not None
            capture = self._failed(
                lambda: run(fetches, feed_dict, options, run_metadata),
                lambda tensors: run(tensors, feed_dict, None, None),
                assembly,
                planned,
                seen,
                before,
                error,
            )
        capture.run_metadata = run_metadata
        assert capture.dump is not None
        unseen = assembly.unseen(is_complete=capture.error is None and watch == Watch())
        capture.dump.warnings += [*problems, *unseen]
        return capture

    @staticmethod
    def _done(
        assembly: Assembly,
        extra: Sequence[Any],
        seen: Sequence[SeenValue],
        value: Any,
        error: BaseException | None,
        watch: Watch,
    ) -> Capture:
        """The capture of a run that has come to its end.

        Args:
            assembly: makes the dump.
            extra: what was fetched besides.
            seen: what the watches saw.
            value: of the run.
            error: what the program's own code has raised.
            watch: nobody looks at the run if it is for what is bad, and no tensor is.
        """
        plan = assembly.plan
        is_whole = len(extra) == len(plan.extra)
        is_checked = error is None and is_whole and watch.filter_name in CHECKED
        is_finite = is_checked and assembly.is_finite(extra, seen)
        dump = assembly.dump(plan.entries if is_whole else [], extra, seen, is_brief=is_finite)
        capture = Capture(value, dump, error, held=dump.arrays)
        if is_finite:
            capture.filter_passed = False
            capture.progress_text = f"none of {len(plan.entries) + len(seen)} tensors"
        return capture

    def _failed(
        self,
        again: Callable[[], Any],
        fetch: Callable[[list[Any]], list[Any]],
        assembly: Assembly,
        planned: CapturePlan,
        seen: list[SeenValue],
        before: list[Any],
        error: BaseException,
    ) -> Capture:
        """The capture of a run that has raised an ``OpError``.

        Args:
            again: the plain run, once more.
            fetch: other tensors with the feeds of the run.
            assembly: makes the dump.
            planned: the plan of such runs, of which that of this run is a part.
            seen: what the watches saw before the failure.
            before: the variables that were read before the run.
            error: what was raised.
        """
        plan, value, survived = assembly.plan, None, False
        own_fault = errors.is_of_watch(error)
        failed = "" if own_fault else errors.failed_op(error)
        reason = errors.reason(error)
        expected = errors.is_expected(error)
        if not expected and not recovery.has_side_effects(plan):
            # Was it one of the extra fetches? Without side effects the plain run can tell.
            value, plain_error = attempt(again)
            survived = plain_error is None
            error = plain_error or error
        entries: list[PlannedTensor] = []
        extra: list[Any] = []
        inner = None
        if failed and failed not in (op.name for op in plan.ops):
            inner = assembly.failed(failed, seen)  # the error names it as its function does
            failed = inner.calls[0][1].name if inner is not None else failed
        if (failed or own_fault) and not expected:
            entries, extra = recovery.recompute(plan, fetch, {failed}, error)
        shown, values = entries, extra
        if before:
            after, _ = attempt(lambda: plan.prepared.read_ahead(self._real))
            shown, values = recovery.with_variables(plan, entries, extra, before, after or before)
        dump = assembly.dump(shown, values, seen)
        if inner is not None and not survived:
            errors.name_op(error, inner.name)
        if own_fault:
            self._watching = False
            dump.warnings.append(f"Loops and functions aren't watched any more: {reason}")
        if not survived:
            if entries:
                dump.warnings.append(
                    "The run failed: tensors that depend neither on the failure nor on side "
                    "effects were computed once more."
                )
            return Capture(None, dump, error)
        if not own_fault:
            kept = {(entry.node, entry.slot) for entry in shown}
            planned.is_enough = False
            if not plan.told:
                fewer = plan.without(lambda entry: (entry.node, entry.slot) not in kept)
                self._plans.replace(planned, fewer)
            dump.warnings.append(f"Tensors that the run itself doesn't need are left out: {reason}")
        return Capture(value, dump)

    def _native_run(
        self, run: Callable[[Any], Any], options: Any, plan: CapturePlan, watch: Watch
    ) -> Capture:
        """Let the runtime's debug operations watch everything, as the original does."""
        assembly = self.assembly(plan)
        listed = [(entry.node, entry.slot) for entry in plan.entries if not entry.is_hidden]
        tensors = listed + plan.watched
        filtered = watch.node_name or watch.op_type or watch.tensor_dtype
        everything = tensors[0][0] if tensors and not filtered else None
        with ExitStack() as stack:
            folder = "" if watch.debug_urls else stack.enter_context(borrow_folder())
            debug = debug_options(
                tensors,
                everything,
                watch.debug_urls or (f"file://{folder}",),
                watch.debug_ops,
                watch.tolerate_failures,
            )
            value, error, late, _ = attempt_late(lambda: run(with_debug(options, debug)))
            problems: list[str] = []
            seen = take(folder, problems.append) if folder else []
        dump = assembly.dump([], [], seen, everything=True)
        dump.warnings.extend(problems)
        return Capture(value, dump, error, late=late)

    def profile_run(self, fetches: Any, feed_dict: Any, options: Any, run_metadata: Any) -> Capture:
        """``Session.run`` with full tracing; the step stats are in `Capture.run_metadata`."""
        run = guard.runner(self.session)
        with guard.bypass():
            return self.profile_with(run, fetches, feed_dict, options, run_metadata)

    def profile_with(
        self, run: _Run, fetches: Any, feed_dict: Any, options: Any, run_metadata: Any
    ) -> Capture:
        """As `profile_run`, through a given ``run`` of the session."""
        record = config_pb2.RunMetadata()
        value, error, late, _ = attempt_late(
            lambda: run(fetches, feed_dict, traced(options), record)
        )
        if run_metadata is not None and error is None:
            run_metadata.CopyFrom(record)
            if options is None or not options.trace_level:
                run_metadata.ClearField("step_stats")
        timings = StepTimings(self.session.graph, self._graph_view(), record.step_stats)
        dump = MemoryDump(timings.graph, profile=timings.profile)
        if error is not None and not record.HasField("step_stats"):
            dump.warnings.append("TensorFlow gives no timings of a run that failed.")
        return Capture(value, dump, error, record, late)

    def stepper(
        self, fetches: Any, feed_dict: Any, options: Any, run_metadata: Any
    ) -> TensorFlowStepper:
        """``Session.run``, made at once with all its tensors kept, to be gone through in steps."""
        arguments = (fetches, feed_dict, options, run_metadata)
        return make_stepper(self, self._graph_view().functions, arguments)

    # Other ways to run.

    def callable_call(
        self, callable_options: Any, values: Sequence[Any], run_metadata: Any
    ) -> RunCall:
        """The run of a callable made of ``CallableOptions``."""
        return self._callables.call(callable_options, values, run_metadata)

    def make_callable(
        self, fetches: Any, feed_list: Any, accept_options: bool
    ) -> Callable[..., Any]:
        """``Session.make_callable``; its runs go straight through."""
        with guard.bypass():
            plain: Callable[..., Any] = self.session.make_callable(
                fetches, feed_list, accept_options
            )

        @functools.wraps(plain)
        def call(*values: Any, **kwargs: Any) -> Any:
            with guard.bypass():
                return plain(*values, **kwargs)

        return call

    def partial_run_setup(self, fetches: Any, feeds: Any) -> Any:
        """``Session.partial_run_setup``, for the intermediate tensors as well."""
        return self._partial_runs.setup(fetches, feeds)

    def partial_call(self, handle: Any, fetches: Any, feed_dict: Any) -> RunCall:
        """One ``Session.partial_run``."""
        return self._partial_runs.call(handle, fetches, feed_dict)

    def next_run(self, fetches: Any, take: Callable[[RunCall], Any]) -> Callable[[], None]:
        """The run that a monitored session is about to make of this one, hooks' fetches and all."""
        doors = ExitStack()
        doors.enter_context(install.open_doors())

        def hand_over(
            session: Any, plain: _Run, asked: Any, feeds: Any, opts: Any, metadata: Any
        ) -> Any:
            cancel()
            arguments = (asked, feeds, opts, metadata)
            call = RunCall(
                self.fetch_names(fetches),
                self.feeds(feeds),
                run=lambda: plain(*arguments),
                debug=lambda watch: self.debug_with(plain, *arguments, watch),
                profile=lambda: self.profile_with(plain, *arguments),
            )
            return take(call)

        withdraw = guard.intercept(guard.Interception(fetches, hand_over, self.session))

        def cancel() -> None:
            withdraw()
            doors.close()

        return cancel

    # Plans.

    def assembly(self, plan: CapturePlan) -> Assembly:
        """What makes the dump of a run that begins now."""
        return Assembly(self._graph_view(), plan, self._device_name(), self._real, self._redo)

    @functools.cached_property
    def _redo(self) -> Redo:
        return redo_of(self._definition)

    @functools.cached_property
    def _plans(self) -> PlanCache:
        return plans_of(self.session)

    @property
    def _real(self) -> Any:
        """The session, which can be a key; the one below a monitored session is a weak proxy."""
        return self.session.__init__.__self__

    def _plan(
        self,
        fetches: Any,
        feed_dict: Any,
        watch: Watch,
        unwanted: Callable[[str, int], bool] | None,
        may_read: bool,
        known: Mapping[Any, Any] = MappingProxyType({}),
    ) -> tuple[CapturePlan, list[Any]]:
        """How to debug a run, and the variables that were read before it.

        Args:
            fetches, feed_dict, watch, unwanted, known: as for `debug_with`.
            may_read: whether variables may be read before it.
        """
        graph, plans = self.session.graph, self._plans
        request = resolve(graph, fetches, feed_dict)
        filters = (watch.node_name, watch.op_type, watch.tensor_dtype)
        is_here = not self.session.sess_str
        plans.enter()

        is_awaited = may_read and unwanted is None and watch.filter_name in CHECKED

        def plan(reads: bool, is_whole: bool) -> CapturePlan:
            ways = self._watching and is_here, reads, is_whole
            key = (graph.version, *ways, *request.key(), *filters)
            made = plans.get(key, lambda: self._make_plan(request, watch, *ways))
            if made.told and not made.is_enough:
                return plan(reads, is_whole=True)
            return made if unwanted is None else made.sparing(unwanted)

        is_whole = not (is_awaited and is_here and ":CPU:" in self._device_name())
        made = plan(may_read and is_here and not plans.is_shared, is_whole)
        with contained:  # one has no value yet, or the session is closed
            return made, made.prepared.read_ahead(self._real, known) if may_read else []
        watched = plan(False, is_whole)
        plans.replace(made, watched)
        return watched, []

    def _make_plan(
        self, request: RunRequest, watch: Watch, inlines: bool, reads: bool, is_whole: bool
    ) -> CapturePlan:
        graph = self.session.graph
        plan = make_plan(graph, request, watch, inlines, reads)
        if plan.functional:
            functions = self._graph_view().functions
            inner = functions.names(plan.functional.values())
            plan.everything = (
                not plan.leaving(()).unwatched
                and not _may_skip_a_loop(functions, plan.functional.values())
                and all_watchable(chain((op.name for op in plan.ops), inner))
            )
            if plan.returned and not plan.everything:
                plan = make_plan(graph, request, watch, reads_ahead=reads)
        if self.session.sess_str:
            return plan.leaving(())
        return keeping_fused(self._real, plan) if is_whole else telling(self._real, plan)

    def _watches(self, plan: CapturePlan, options: Any) -> bool:
        """Whether the runtime's debug operations are needed and can be used."""
        if not self._watching or not (plan.watched or plan.everything):
            return False
        if self.session.sess_str:  # a remote runtime writes to its own disk
            return False
        # Two watches of one tensor don't go together: the program's own come first.
        return options is None or not options.debug_options.debug_tensor_watch_opts

    def _debug_options(self, plan: CapturePlan, folder: str) -> Any:
        url = f"file://{folder}"
        if url not in plan.debug_options:
            everything = next(iter(plan.functional)) if plan.everything else None
            plan.debug_options[url] = debug_options(plan.watched, everything, (url,))
        return plan.debug_options[url]

    def _device_name(self) -> str:
        """The session's device where it has only one; else the graph says what it knows."""
        if self._device is None:
            with contained:  # closed: the run will say so
                devices = self.session.list_devices()
                self._device = str(devices[0].name) if len(devices) == 1 else ""
        return self._device or ""

    # Names.

    def fetch_names(self, fetches: Any) -> list[str]:
        return fetch_labels(fetches)

    def feeds(self, feed_dict: Any) -> Mapping[str, Any]:
        """The values of the feeds by the names of the tensors they go to."""
        return feed_values(feed_dict)

    def _graph_view(self) -> GraphView:
        if self._view is None:
            self._view = GraphView(self.session.graph)
        return self._view

    def graph(self) -> Graph:
        """The session's graph as it is now."""
        return self._graph_view().graph()

    def _definition(self, name: str) -> Any:
        """The ``NodeDef`` of a node of the session's graph, or of a function's body in it.

        ``None``: it has none.
        """
        view = self._graph_view()
        op = view.operation(name)
        if op is None:
            around = map(view.operation, accumulate(name.split("/"), "{}/{}".format))
            calls = {each.name: each for each in around if each and view.functions.is_call(each)}
            inner = view.functions.find(name, calls, is_own=True)
            op = inner.op if inner is not None else None
        return op.node_def if op is not None else None

    def describe_error(self, error: BaseException) -> RunError | None:
        """Type, message and operation of a ``tf.errors.OpError``."""
        return errors.describe(error)

    def streams_to(self, url: str) -> bool:
        """Whether the runtime itself sends tensors to an address: a receiver, or a folder."""
        return url.startswith(("grpc://", "file://"))

    def default_session(self, wrapper: Any) -> AbstractContextManager[Any]:
        """A context in which ``tensor.eval()`` and ``op.run()`` go through ``wrapper``."""
        context: AbstractContextManager[Any] = tf_session.BaseSession.as_default(wrapper)
        return context


def _may_skip_a_loop(functions: Functions, calls: Collection[Any]) -> bool:
    """Whether a branch, in what these operations call, has a loop that may not be run.

    A watch in it keeps the branch's result from having a value when it isn't.
    """
    inside = chain(calls, functions.operations(calls))
    branches = [op for op in inside if op.type in _BRANCHES]
    return any(op.type in _LOOPS for op in functions.operations(branches))
