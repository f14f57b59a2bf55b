"""`DebugDumpDir` for programs: where TensorFlow can be imported, graphs are its own messages."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable
from typing import Any

# Makes known what engines tell of dumps without their frameworks: addresses, roles of ops.
import tfdbg_cli.engines.registry  # noqa: F401
from tfdbg_cli.dumps.remote.shadow import fetched
from tfdbg_cli.dumps.tfdbg_dir import debug_dump_dir as directory

__all__ = ["DebugDumpDir"]


@functools.cache
def _messages() -> tuple[Any, Any] | None:
    """TensorFlow's ``GraphDef`` and ``AttrValue``; ``None``: it isn't there."""
    try:
        from tensorflow.core.framework import attr_value_pb2, graph_pb2
    except Exception:  # not installed, or it can't be loaded: dumps are read all the same
        return None
    return graph_pb2.GraphDef, attr_value_pb2.AttrValue


class DebugDumpDir(directory.DebugDumpDir):
    """A run in the original's dump directory, whose graphs are TensorFlow's where that is there.

    Args and errors as for the reader's own `DebugDumpDir`; ``dump_root`` may be an
    address (``gs://bucket/run``) as well, of which a copy is read.
    """

    def __init__(
        self,
        dump_root: str | os.PathLike[str],
        partition_graphs: Iterable[Any] | None = None,
        validate: bool = True,
    ) -> None:
        super().__init__(fetched(dump_root), partition_graphs, validate)

    def partition_graphs(self) -> list[Any]:
        """The devices' graphs with the debugger's nodes.

        Returns:
            TensorFlow's ``GraphDef`` messages; our own, which have ``node``, where it can't be
            imported.

        Raises:
            LookupError: there are none.
        """
        return [_graph_def(graph) for graph in super().partition_graphs()]

    def reconstructed_non_debug_partition_graphs(self) -> dict[str, Any]:
        found = super().reconstructed_non_debug_partition_graphs()
        return {device: _graph_def(graph) for device, graph in found.items()}

    def node_attributes(self, node_name: str, device_name: str | None = None) -> dict[str, Any]:
        """Attribute name -> value.

        Returns:
            TensorFlow's ``AttrValue`` messages; our own, whose ``str`` is readable text, where it
            can't be imported.

        Raises:
            LookupError: there is no graph.
            ValueError: no device or several have the node.
        """
        found = super().node_attributes(node_name, device_name)
        messages = _messages()
        if messages is None:
            return found
        return {name: messages[1].FromString(value.data) for name, value in found.items()}


def _graph_def(graph: Any) -> Any:
    messages = _messages()
    if messages is None:
        return graph
    # Names as they are: those of debug nodes have what other names may not.
    return messages[0].FromString(graph.SerializeToString(encode=str))
