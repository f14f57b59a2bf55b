"""Where the ranks of a PyTorch program meet: the store of its default process group."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch

from tfdbg_cli.engines.base import Meeting
from tfdbg_cli.engines.torch.private import default_store

__all__ = ["StoreMeeting", "meeting"]

# Our keys are apart from those of the program and of PyTorch.
_PREFIX = "tfdbg/"


class StoreMeeting(Meeting):
    """The store through which ``init_process_group`` made the ranks known to each other.

    It is asked a few times at the beginning and never waited for: a wait would hold the connection
    that PyTorch itself uses.

    Args:
        rank: of this process.
        size: how many there are.
        store: a ``torch.distributed.Store``.

    Attributes:
        whereabouts: tells where the program is.
    """

    def __init__(self, rank: int, size: int, store: Any) -> None:
        self.rank = rank
        self.size = size
        self.whereabouts: Callable[[], str] = str
        self._store = store

    def put(self, name: str, text: str) -> None:
        """Leave something under a key of ours."""
        try:
            self._store.set(_PREFIX + name, text)
        except Exception:  # the store is gone: nobody is going to look
            return

    def where(self) -> str:
        """The op and the line."""
        try:
            return self.whereabouts()
        except Exception:  # the program goes on meanwhile
            return ""

    def look(self, name: str) -> str | None:
        """What is under a key of ours."""
        try:
            if not self._store.check([_PREFIX + name]):
                return None
            return bytes(self._store.get(_PREFIX + name)).decode()
        except Exception:
            return None


def meeting() -> StoreMeeting | None:
    """The meeting of this program's ranks; ``None`` before ``init_process_group``, and alone."""
    if "torch.distributed.distributed_c10d" not in sys.modules:
        return None
    distributed = torch.distributed
    if not distributed.is_available() or not distributed.is_initialized():
        return None
    size = distributed.get_world_size()
    store = default_store() if size > 1 else None
    return StoreMeeting(distributed.get_rank(), size, store) if store is not None else None
