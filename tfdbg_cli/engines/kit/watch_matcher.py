"""Which outputs of which nodes a watch asks for."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from tfdbg_cli.engines.base import Watch

__all__ = ["WatchMatcher", "watch_of"]


def watch_of(nodes: Collection[str]) -> Watch | None:
    """What watches just these nodes; ``None``: there are none."""
    pattern = "|".join(map(re.escape, sorted(nodes)))
    return Watch(node_name=f"^(?:{pattern})$") if nodes else None


class WatchMatcher:
    """The regular expressions of a watch, each looked at once per op type and dtype.

    Args:
        watch: what was asked for.

    Attributes:
        is_open: everything is asked for.
        names_ops: nodes or op types are named, so that also ops are meant that make nothing new.
    """

    def __init__(self, watch: Watch) -> None:
        self._name, self._op_type, self._dtype = (
            re.compile(text) if text else None
            for text in (watch.node_name, watch.op_type, watch.tensor_dtype)
        )
        self.names_ops = self._name is not None or self._op_type is not None
        self.is_open = not self.names_ops and self._dtype is None
        self._op_types: dict[str, bool] = {}
        self._dtypes: dict[Any, bool] = {}

    def wants(self, name: str, op_type: str, dtype: Any) -> bool:
        """Whether an output of a node is to be kept.

        Args:
            name: of the node.
            op_type: of the node.
            dtype: of the output: its name, or an object that is printed as ``framework.name``.
        """
        if self.is_open:
            return True
        if self._op_type is not None:
            known = self._op_types.get(op_type)
            if known is None:
                known = self._op_types[op_type] = self._op_type.search(op_type) is not None
            if not known:
                return False
        if self._dtype is not None:
            known = self._dtypes.get(dtype)
            if known is None:
                text = str(dtype).rpartition(".")[2]
                known = self._dtypes[dtype] = self._dtype.search(text) is not None
            if not known:
                return False
        return self.wants_name(name)

    def wants_name(self, name: str) -> bool:
        """Whether nodes of this name are watched."""
        return self._name is None or self._name.search(name) is not None
