"""Nodes of a run behind which no number is computed from what they are given."""

from __future__ import annotations

from collections.abc import Mapping

from tfdbg_cli.dumps.dump import CannotRedo
from tfdbg_cli.filters.lineage import TensorLineage

__all__ = ["is_end", "writes"]


def writes(lineage: TensorLineage, name: str) -> bool:
    """Whether a node writes to a variable."""
    node = lineage.graph.nodes.get(name) if lineage.graph is not None else None
    return node is not None and lineage.roles.writing.match(node.op_type) is not None


def is_end(lineage: TensorLineage, left: Mapping[str, tuple[str, str]], name: str) -> bool:
    """Whether a node writes to a variable, or is of a handle in which the run hands numbers over.

    Args:
        lineage: of the run.
        left: as `Outcome.left`.
        name: of the node.
    """
    is_packed = left.get(name, ("", ""))[1] == CannotRedo.NO_NUMBERS
    return writes(lineage, name) or (is_packed and not lineage.dump.by_node(name))
