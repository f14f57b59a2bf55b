"""The step stats of a traced run as a `Profile` in the user's names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from tensorflow.core.protobuf import config_pb2

from tfdbg_cli.dumps.graph import Graph
from tfdbg_cli.dumps.profile import Profile, ProfileEntry, place_of
from tfdbg_cli.engines.tensorflow.graph import GraphView
from tfdbg_cli.engines.tensorflow.origins import Executed, Origin, Origins

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

    Times of a ``NodeExecStats``: it was scheduled at ``all_start``, its kernel computed from
    ``op_start_rel`` to ``op_end_rel`` after that, and at ``all_end_rel`` its outputs had been
    handed on.

    Args:
        graph: the session's ``tf.Graph``.
        view: the same graph for the commands.
        stats: the ``StepStats`` of the run.
    """

    def __init__(self, graph: Any, view: GraphView, stats: Any) -> None:
        self._framework_graph = graph
        self._view = view
        self._stats = stats

    def graph(self) -> Graph:
        """The session's graph, with the bodies of the functions that were executed."""
        inner = {}
        for _, timed in self._timed:
            for _, origin in timed:
                if origin.inner is not None:
                    inner[origin.inner.prefix] = origin.inner
        return self._view.graph(inner.values())

    def profile(self) -> Profile:
        """The timings, in the user's names wherever they are known."""
        origin = min((one.start for _, timed in self._timed for one, _ in timed), default=0)
        locate = place_of(self.graph)
        devices = []
        stats = iter(_nodes_of(self._stats))
        for (device, timed), nodes in zip(self._timed, stats, strict=True):
            entries = []
            for (one, found), node in zip(timed, nodes, strict=True):
                op_time, exec_time = _durations(node)
                entries.append(
                    ProfileEntry(
                        found.node,
                        found.op_type or one.kernel,
                        (one.start - origin) / 1000,
                        op_time / 1000,
                        exec_time / 1000,
                        one.name,
                        one.kernel,
                        locate,
                    )
                )
            devices.append((device, entries))
        return Profile(devices)
