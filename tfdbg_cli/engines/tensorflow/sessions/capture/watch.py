"""Debug watches for what can't be fetched: the options that ask the runtime for them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

from tensorflow.core.protobuf import config_pb2

__all__ = ["all_watchable", "debug_options", "with_debug"]

# The runtime ends the process when it can't create a dump file, so names that may be too long
# for the file system are never watched. The rest of a file's name is the slot, the debug op, the
# time and a counter; the rest of its path the folder and the device.
_LONGEST_PART = 180
_LONGEST_NAME = 3000 if os.name != "nt" else 80
# The optimizer makes names longer by a word or two.
_OPTIMIZER = 60


def _fits(node: str, margin: int = 0) -> bool:
    encoded = node.encode("utf-8", "replace")
    return len(encoded) + margin <= _LONGEST_NAME and all(
        len(part) + margin <= _LONGEST_PART for part in encoded.split(b"/")
    )


def all_watchable(nodes: Iterable[str]) -> bool:
    """Whether everything can be watched in a graph with these nodes."""
    return all(_fits(node, _OPTIMIZER) for node in nodes)


def debug_options(
    tensors: Sequence[tuple[str, int]],
    everything: str | None,
    urls: Sequence[str],
    debug_ops: Sequence[str] = ("DebugIdentity",),
    tolerate_failures: bool = False,
) -> Any:
    """A ``DebugOptions`` proto.

    Args:
        tensors: ``(node, slot)`` to watch.
        everything: the name of any node, to watch whatever the runtime makes as well (it wants at
            least one named watch beside the wildcard); ``None``: only ``tensors``.
        urls: where the values go.
        debug_ops: what is computed of them.
        tolerate_failures: leave out tensors that a debug op can't be made for.
    """
    options = config_pb2.RunOptions().debug_options
    names = [(node, slot) for node, slot in tensors if _fits(node)]
    if everything is not None:
        names += [(everything, 0), ("*", -1)]
    for node, slot in dict.fromkeys(names):
        options.debug_tensor_watch_opts.add(
            node_name=node,
            output_slot=slot,
            debug_ops=debug_ops,
            debug_urls=urls,
            tolerate_debug_op_creation_failures=tolerate_failures,
        )
    # The runtime counts bytes over the life of the process and fails a run beyond its limit.
    options.reset_disk_byte_usage = True
    return options


def with_debug(options: Any, debug: Any) -> Any:
    """A copy of a caller's ``RunOptions`` (or new ones) with these debug options."""
    made = config_pb2.RunOptions()
    if options is not None:
        made.CopyFrom(options)
    made.debug_options.CopyFrom(debug)
    return made
