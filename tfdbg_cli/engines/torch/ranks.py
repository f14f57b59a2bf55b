"""Where the ranks of a PyTorch program meet: the store of its default process group."""

from __future__ import annotations

import sys
from typing import Any

import torch

from tfdbg_cli.engines.base import KeyMeeting
from tfdbg_cli.engines.torch.private import default_store

__all__ = ["StoreMeeting", "meeting"]


class StoreMeeting(KeyMeeting):
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
        super().__init__(rank, size)
        self._store = store

    def set_key(self, key: str, text: str) -> None:
        self._store.set(key, text)

    def get_key(self, key: str) -> str | None:
        return bytes(self._store.get(key)).decode() if self._store.check([key]) else None


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
