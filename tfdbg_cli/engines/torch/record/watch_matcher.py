"""Which outputs of which ops a watch asks for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tfdbg_cli.engines.base import Watch

if TYPE_CHECKING:
    import torch

    from tfdbg_cli.engines.torch.record.op_record import OpRecord

__all__ = ["WatchMatcher"]


class WatchMatcher:
    """The regular expressions of a watch, each looked at once per type.

    Args:
        watch: what was asked for.

    Attributes:
        names_views: views are asked for as well: a node or an op type is named.
    """

    def __init__(self, watch: Watch) -> None:
        self._name, self._op_type, self._dtype = (
            re.compile(text) if text else None
            for text in (watch.node_name, watch.op_type, watch.tensor_dtype)
        )
        self.names_views = self._name is not None or self._op_type is not None
        self._is_open = self._name is None and self._op_type is None and self._dtype is None
        self._op_types: dict[str, bool] = {}
        self._dtypes: dict[torch.dtype, bool] = {}

    def wants(self, record: OpRecord, dtype: torch.dtype) -> bool:
        """Whether an output of an op is to be held."""
        if self._is_open:
            return True
        if self._op_type is not None:
            known = self._op_types.get(record.op_type)
            if known is None:
                known = self._op_type.search(record.op_type) is not None
                self._op_types[record.op_type] = known
            if not known:
                return False
        if self._dtype is not None:
            known = self._dtypes.get(dtype)
            if known is None:
                known = self._dtype.search(str(dtype).removeprefix("torch.")) is not None
                self._dtypes[dtype] = known
            if not known:
                return False
        return self.wants_name(record.name)

    def wants_name(self, name: str) -> bool:
        """Whether a node of this name is watched."""
        return self._name is None or self._name.search(name) is not None
