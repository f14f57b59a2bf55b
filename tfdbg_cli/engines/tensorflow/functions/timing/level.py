"""A run whose ops are timed by TensorFlow's own profiler, which keeps its events in memory.

It tells of each kernel that was executed when it began and how long it took, by the name that it
has in the runtime's graph: that of the function with what it calls put in place of the calls.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any

from tfdbg_cli.common.interpreter.program_signals import pass_on
from tfdbg_cli.dumps.graph import Graph
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.profile import Profile, ProfileEntry, place_of
from tfdbg_cli.engines.base import Capture
from tfdbg_cli.engines.kit.levels import CaptureLevel
from tfdbg_cli.engines.tensorflow.functions.definitions import FunctionBody, Kind, plain_text
from tfdbg_cli.engines.tensorflow.functions.describing import RunDescriber
from tfdbg_cli.engines.tensorflow.functions.inlined import InlinedNames
from tfdbg_cli.engines.tensorflow.functions.level import ValuesLevel
from tfdbg_cli.engines.tensorflow.functions.private import (
    function_name,
    mark_trace,
    profiler_session,
)
from tfdbg_cli.engines.tensorflow.functions.timing.trace import MARK, KernelRun, ProfilerTrace

__all__ = ["TimedLevel"]

# Every kernel and not only those that are expected to take long; nothing of Python.
_OPTIONS = {"host_tracer_level": 3, "python_tracer_level": 0, "device_tracer_level": 1}
# What is seen where that is what the profiler does: those of some versions don't.
_VERBOSE = b"ExecutorPropagateOutputs"
# What lowering puts into the names of nodes inside of loops and branches.
_LOWERED = re.compile(r"(?<=/)(body|cond|then|else|branch_?\d*|\d+)/_\d+(?=/)")


class TimedLevel(ValuesLevel):
    """Times the ops of a run; no values are kept."""

    level = ""

    _session: Any = None
    _why = ""

    def begin_run(self) -> None:
        super().begin_run()
        try:
            self._session = profiler_session(_OPTIONS)
            mark_trace(MARK)
        except Exception as error:  # the program itself is at it
            pass_on(error)
            self._session, self._why = None, f"TensorFlow's profiler is in use ({error})"

    def _collect(self) -> bytes:
        """End the profile; what it has seen."""
        session, self._session = self._session, None
        try:
            return bytes(session.stop()) if session is not None else b""
        except Exception as error:
            pass_on(error)
            self._why = f"TensorFlow's profiler has failed ({error})"
            return b""

    def finish(self, error: BaseException | None) -> Capture:
        """A dump with the timings of the run, its graph, and no tensors."""
        CaptureLevel.finish(self, error)
        raw = self._collect()

        @functools.cache
        def seen() -> tuple[Graph, RunDescriber]:
            describing, nodes, _ = self.describing(has_values=False)
            return Graph(nodes), describing

        dump = MemoryDump(lambda: seen()[0], profile=lambda: _profile(raw, *seen()))
        if self._why:
            dump.warnings.append(f"Nothing was timed: {self._why}.")
        elif _VERBOSE not in raw and self.has_calls:
            dump.warnings.append(
                "Kernels of a few microseconds may be missing: the profiler of this TensorFlow "
                "leaves them out once it has found that they are cheap."
            )
        return Capture(None, dump, error)

    def details(self) -> list[tuple[str, str]]:
        return []

    def discard(self) -> None:
        super().discard()
        self._collect()


def _profile(raw: bytes, graph: Graph, describing: RunDescriber) -> Profile:
    locate = place_of(lambda: graph)
    devices: dict[str, list[ProfileEntry]] = {}
    found = list(_timed(raw, graph, describing)) if raw else []
    first = min((one.start for one, _, _ in found), default=0.0)
    for one, node, op_type in found:
        entry = ProfileEntry(
            node,
            op_type or one.kernel,
            one.start - first,
            one.time,
            one.time,
            "" if one.node == one.kernel else one.node,
            one.kernel,
            locate,
        )
        devices.setdefault(one.device, []).append(entry)
    return Profile(devices.items())


def _timed(
    raw: bytes, graph: Graph, describing: RunDescriber
) -> Iterator[tuple[KernelRun, str, str]]:
    """What was executed, each with the node and its op type."""
    trace, calls = ProfilerTrace(raw), describing.calls
    called = [(plain_text(function_name(call.event.function)), call) for call in calls]
    names = [_Names(call.inlined, call.event.known.body) for call in calls]
    nodes = graph.nodes
    ops, at_op = describing.ops, 0
    for op, is_function, executed in trace.executions():
        if not is_function:
            later = (at for at in range(at_op, len(ops)) if ops[at][0] == op)
            found_op = next(later, None)
            if found_op is not None:  # else one of those that nobody is told of
                at_op = found_op + 1
                yield executed[0]._replace(node=ops[found_op][1]), ops[found_op][1], op
            continue
        at = next((at for at, (name, _) in enumerate(called) if name == plain_text(op)), None)
        if at is None:
            continue
        title = called[at][1].event.known.title
        called[at] = "", called[at][1]
        for one in executed:
            if one.node == op:  # XLA has made one kernel of all of it
                yield one._replace(node=title, kernel="XLA"), title, "XLA"
                continue
            if one.node in names[at].calls:
                title, op_type = names[at].calls[one.node]
                yield one, title, op_type
                continue
            name = names[at].find(one.node)
            found = nodes.get(name)
            yield one, name or one.node, found.op_type if found is not None else ""


class _Names:
    """From the runtime's names of a call's nodes to ours.

    Attributes:
        calls: the runtime's name of a node that calls a function -> what the user calls that, and
            who executes it.
    """

    def __init__(self, inlined: InlinedNames, body: FunctionBody) -> None:
        self.calls = dict(_calls(body, ""))
        self._names: dict[str, str] = {}
        within: dict[str, set[str]] = {}
        for path, inside in inlined.names.items():
            prefix = "".join(f"{node}/{step}/" if step else f"{node}/" for node, step in path)
            for node, name in inside.items():
                self._names[prefix + node] = name
                within.setdefault(node, set()).add(name)
        # Functions that aren't put in place of their calls have their nodes' names as they are.
        self._alone = {node: names.pop() for node, names in within.items() if len(names) == 1}

    def find(self, node: str) -> str:
        """Our name; of what a loop or a branch is made of, that of the loop; empty: none."""
        node = _LOWERED.sub(r"\1", node)
        found = self._names.get(node) or self._alone.get(node)
        while found is None and "/" in node:
            node = node.rpartition("/")[0]
            found = self._names.get(node)
        return found or ""


def _calls(body: FunctionBody, prefix: str) -> Iterator[tuple[str, tuple[str, str]]]:
    for node in body.nodes:
        inner = node.inner.get("") if node.kind == Kind.CALL else None
        if inner is not None:
            yield prefix + node.name, (inner.title, "XLA" if inner.is_compiled else node.op)
            yield from _calls(inner, f"{prefix}{node.name}/")
