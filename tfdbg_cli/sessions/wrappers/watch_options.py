"""Debug watches put into ``RunOptions`` by hand, for plain sessions of TensorFlow.

A wrapper session needs none of this: it fetches the tensors in the run. The functions write into
the protos that they are given and import no framework.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tfdbg_cli.sessions.wrappers.requests import either

__all__ = [
    "add_debug_tensor_watch",
    "watch_graph",
    "watch_graph_with_blacklists",
    "watch_graph_with_denylists",
]

_Texts = str | Sequence[str]


def _list(texts: _Texts | None) -> list[str]:
    return [texts] if isinstance(texts, str) else list(texts or ())


def add_debug_tensor_watch(
    run_options: Any,
    node_name: str,
    output_slot: int = 0,
    debug_ops: _Texts = "DebugIdentity",
    debug_urls: _Texts | None = None,
    tolerate_debug_op_creation_failures: bool = False,
    global_step: int = -1,
) -> None:
    """Watch one tensor in the runs with these options.

    Args:
        run_options: a ``RunOptions``, which is changed.
        node_name: the node; ``*`` with slot -1 stands for all, beside at least one named watch.
        output_slot: which output.
        debug_ops: what is computed of it, such as ``DebugIdentity`` or
            ``DebugNumericSummary(mute_if_healthy=true;lower_bound=-100)``.
        debug_urls: where the results go, such as ``file:///tmp/run_1``.
        tolerate_debug_op_creation_failures: leave out a debug op that the dtype doesn't allow.
        global_step: noted in the dump.
    """
    run_options.debug_options.global_step = global_step
    run_options.debug_options.debug_tensor_watch_opts.add(
        node_name=node_name,
        output_slot=output_slot,
        debug_ops=_list(debug_ops),
        debug_urls=_list(debug_urls),
        tolerate_debug_op_creation_failures=tolerate_debug_op_creation_failures,
    )


def watch_graph(
    run_options: Any,
    graph: Any,
    debug_ops: _Texts = "DebugIdentity",
    debug_urls: _Texts | None = None,
    node_name_regex_allowlist: str | None = None,
    op_type_regex_allowlist: str | None = None,
    tensor_dtype_regex_allowlist: str | None = None,
    tolerate_debug_op_creation_failures: bool = False,
    global_step: int = -1,
    reset_disk_byte_usage: bool = False,
    *,
    node_name_regex_whitelist: str | None = None,
    op_type_regex_whitelist: str | None = None,
    tensor_dtype_regex_whitelist: str | None = None,
) -> None:
    """Watch the tensors of a graph in the runs with these options.

    Without any list everything is watched, also what the runtime makes itself.

    Args:
        run_options: a ``RunOptions``, which is changed.
        graph: a ``tf.Graph``.
        debug_ops: as in `add_debug_tensor_watch`.
        debug_urls: likewise.
        node_name_regex_allowlist, op_type_regex_allowlist, tensor_dtype_regex_allowlist: a tensor
            is watched if its name, op type and dtype begin with a match of all that are given.
        tolerate_debug_op_creation_failures: as in `add_debug_tensor_watch`.
        global_step: likewise.
        reset_disk_byte_usage: count the bytes of dumps from 0 again.
        node_name_regex_whitelist, op_type_regex_whitelist, tensor_dtype_regex_whitelist: the
            names of TensorFlow 1 for the lists.

    Raises:
        ValueError: there are no debug ops or no URLs.
        TypeError: a list was given under its old and its new name.
    """
    if not debug_ops:
        raise ValueError("debug_ops must not be empty or None.")
    if not debug_urls:
        raise ValueError("debug_urls must not be empty or None.")
    patterns = either(
        node_name_regex=(node_name_regex_allowlist, node_name_regex_whitelist),
        op_type_regex=(op_type_regex_allowlist, op_type_regex_whitelist),
        tensor_dtype_regex=(tensor_dtype_regex_allowlist, tensor_dtype_regex_whitelist),
    )
    tensors = [(node, slot) for node, slot, matches in _tensors(graph, patterns) if all(matches)]
    if not any(patterns):
        tensors.append(("*", -1))
    how = (debug_ops, debug_urls, tolerate_debug_op_creation_failures, global_step)
    _watch(run_options, tensors, how, reset_disk_byte_usage)


def watch_graph_with_denylists(
    run_options: Any,
    graph: Any,
    debug_ops: _Texts = "DebugIdentity",
    debug_urls: _Texts | None = None,
    node_name_regex_denylist: str | None = None,
    op_type_regex_denylist: str | None = None,
    tensor_dtype_regex_denylist: str | None = None,
    tolerate_debug_op_creation_failures: bool = False,
    global_step: int = -1,
    reset_disk_byte_usage: bool = False,
) -> None:
    """Watch the tensors of a graph except some.

    Args:
        run_options, graph, debug_ops, debug_urls: as in `watch_graph`.
        node_name_regex_denylist, op_type_regex_denylist, tensor_dtype_regex_denylist: a tensor
            is left out if its name, op type or dtype begins with a match of any.
        tolerate_debug_op_creation_failures, global_step, reset_disk_byte_usage: as in
            `watch_graph`.
    """
    patterns = (node_name_regex_denylist, op_type_regex_denylist, tensor_dtype_regex_denylist)
    tensors = (
        (node, slot) for node, slot, matches in _tensors(graph, patterns) if not any(matches)
    )
    how = (debug_ops, debug_urls, tolerate_debug_op_creation_failures, global_step)
    _watch(run_options, tensors, how, reset_disk_byte_usage)


def watch_graph_with_blacklists(
    run_options: Any,
    graph: Any,
    debug_ops: _Texts = "DebugIdentity",
    debug_urls: _Texts | None = None,
    node_name_regex_blacklist: str | None = None,
    op_type_regex_blacklist: str | None = None,
    tensor_dtype_regex_blacklist: str | None = None,
    tolerate_debug_op_creation_failures: bool = False,
    global_step: int = -1,
    reset_disk_byte_usage: bool = False,
) -> None:
    """`watch_graph_with_denylists` under the names that it had in TensorFlow 1."""
    watch_graph_with_denylists(
        run_options,
        graph,
        debug_ops,
        debug_urls,
        node_name_regex_blacklist,
        op_type_regex_blacklist,
        tensor_dtype_regex_blacklist,
        tolerate_debug_op_creation_failures,
        global_step,
        reset_disk_byte_usage,
    )


def _watch(
    run_options: Any,
    tensors: Iterable[tuple[str, int]],
    how: tuple[_Texts, _Texts | None, bool, int],
    reset_disk_byte_usage: bool,
) -> None:
    """Add a watch for each of some tensors, with the last arguments of `add_debug_tensor_watch`."""
    for node, slot in tensors:
        add_debug_tensor_watch(run_options, node, slot, *how)
    run_options.debug_options.reset_disk_byte_usage = reset_disk_byte_usage


def _tensors(graph: Any, patterns: Sequence[str | None]) -> Iterator[tuple[str, int, list[bool]]]:
    """``(node, slot, matches)`` of all tensors.

    Which patterns that are given the node's name, its op type and the dtype begin with.
    """
    for op in graph.get_operations():
        for slot, tensor in enumerate(op.outputs):
            facts = zip(patterns, (op.name, op.type, tensor.dtype.name), strict=True)
            matches = [re.match(pattern, fact) is not None for pattern, fact in facts if pattern]
            yield op.name, slot, matches
