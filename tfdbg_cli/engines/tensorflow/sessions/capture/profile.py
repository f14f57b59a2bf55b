"""The step stats of a traced run as a `Profile` in the user's names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from tensorflow.core.protobuf import config_pb2

from tfdbg_cli.dumps.graph import Graph
from tfdbg_cli.dumps.profile import Profile, ProfileEntry, place_of
from tfdbg_cli.engines.tensorflow.sessions.bodies.origins import NodeExecution, NodeOrigin, Origins
from tfdbg_cli.engines.tensorflow.shared.graph import GraphView

__all__ = ["StepTimings", "traced"]

# "[mklcpu 0.4MB 0.4MB] hidden/Relu = _MklNativeFusedMatMul(x, hidden/weights/read:1, ^init)"
_LABEL = re.compile(r"\S+ = ([\w>]+)\((.*)\)")
_INPUT = re.compile(r"\^?([^,\s:]+)(?::\d+)?")
# They only mark where a graph begins and ends.
_MARKS = frozenset({"_SOURCE", "_SINK"})


def traced(options: Any) -> Any:
    """A copy of the caller's ``RunOptions`` that asks for full tracing."""
    made = config_pb2.RunOptions()
    if options is not None:
        made.CopyFrom(options)
    made.trace_level = config_pb2.RunOptions.FULL_TRACE
    return made


class StepTimings:
    """The timings of one run; nothing is looked at before somebody asks.

    Of a ``NodeExecStats`` (``tensorflow/core/framework/step_stats.proto``): the op time is from
    ``op_start_rel`` to ``op_end_rel``, while the kernel computed; the exec time is
    ``all_end_rel``, from ``all_start`` until the outputs had been handed on.

    Args:
        graph: the session's ``tf.Graph``.
        view: the same graph for the commands.
        stats: the ``StepStats`` of the run.
    """

    def __init__(self, graph: Any, view: GraphView, stats: Any) -> None:
        self._framework_graph = graph
        self._view = view
        self._stats = stats

    @cached_property
    def _timed(self) -> list[tuple[str, list[tuple[NodeExecution, NodeOrigin]]]]:
        """What each device executed, and where it comes from."""
        devices = [(str(each.device), list(_executed(each))) for each in self._stats.dev_stats]
        every = (one for _, executed in devices for one in executed)
        origins = Origins(self._framework_graph, self._view.functions, every)
        return [(name, [(one, origins.of(one)) for one in executed]) for name, executed in devices]

    @cached_property
    def _graph(self) -> Graph:
        found = (origin.inner for _, timed in self._timed for _, origin in timed)
        return self._view.graph({inner.prefix: inner for inner in found if inner}.values())

    def graph(self) -> Graph:
        """The session's graph, with the bodies of the functions that were executed."""
        return self._graph

    def profile(self) -> Profile:
        """The timings, in the user's names wherever they are known."""
        first = min((one.start for _, timed in self._timed for one, _ in timed), default=0)
        locate = place_of(self.graph)

        def entry(one: NodeExecution, origin: NodeOrigin) -> ProfileEntry:
            return ProfileEntry(
                origin.node,
                origin.op_type or one.kernel,
                (one.start - first) / 1000,
                one.op_time / 1000,
                one.exec_time / 1000,
                one.name,
                one.kernel,
                locate,
            )

        return Profile((name, [entry(*pair) for pair in timed]) for name, timed in self._timed)


def _executed(device: Any) -> Iterator[NodeExecution]:
    for node in device.node_stats:
        if node.node_name in _MARKS:
            continue
        label = _LABEL.search(node.timeline_label)
        kernel, inputs = (label[1], label[2]) if label is not None else ("", "")
        yield NodeExecution(
            str(node.node_name), kernel, tuple(_INPUT.findall(inputs)), *_times(node)
        )


def _times(node: Any) -> tuple[int, int, int]:
    """Start, op time and exec time in nanoseconds; devices with a coarse clock give no more."""
    start, begin = node.all_start_nanos, node.op_start_rel_nanos
    computed, end = node.op_end_rel_nanos, node.all_end_rel_nanos
    if not start:
        start, begin = node.all_start_micros * 1000, node.op_start_rel_micros * 1000
        computed, end = node.op_end_rel_micros * 1000, node.all_end_rel_micros * 1000
    return start, max(computed - begin, 0), max(end, 0)
