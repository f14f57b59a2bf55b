"""The user's graph out of one that the debugger has put its nodes into."""

from __future__ import annotations

from typing import Any

from tfdbg_cli.dumps.proto.graph_def import GraphDef, parse_graph_def
from tfdbg_cli.dumps.tfdbg_dir.partition import DeviceGraph

__all__ = ["reconstruct_non_debug_graph_def"]


def reconstruct_non_debug_graph_def(debug_graph_def: Any) -> Any:
    """A device's graph without the ``Copy`` and ``Debug`` nodes of a watched run.

    Nodes that the runtime itself put in (``_Send``, ``_Recv``, ``_Retval``) stay, and so do the
    ``parallel_iterations`` of 1 that a watched loop has.

    Args:
        debug_graph_def: TensorFlow's ``GraphDef``, our own, or a serialized one.

    Returns:
        The same kind of thing: TensorFlow's ``GraphDef`` for one, else our own.

    Raises:
        DumpError: the bytes aren't a GraphDef.
    """
    if isinstance(debug_graph_def, GraphDef):
        return DeviceGraph(debug_graph_def, "").non_debug_graph_def()
    if isinstance(debug_graph_def, bytes | bytearray | memoryview):
        return DeviceGraph(parse_graph_def(debug_graph_def), "").non_debug_graph_def()
    parsed = parse_graph_def(debug_graph_def.SerializeToString())
    cleared = DeviceGraph(parsed, "").non_debug_graph_def()
    return type(debug_graph_def).FromString(cleared.SerializeToString())
