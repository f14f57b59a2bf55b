"""Sees a program give memory back that values are held in, as FSDP does with its parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from tfdbg_cli.engines.torch.record.holding import Holder

__all__ = ["Freeing"]

_Storage: Any = torch.UntypedStorage


class Freeing:
    """Around ``UntypedStorage.resize_`` while a run is recorded: no operator tells of it."""

    def __init__(self) -> None:
        self._holder: Holder | None = None

    def enter(self, holder: Holder) -> None:
        """Tell a holder of what is freed from now on."""
        self._holder = holder
        if "resize_" in vars(_Storage):  # somebody else looks, too, and may not pass it on
            return
        original = _Storage.resize_

        def resize_(storage: Any, size: Any) -> Any:
            holder = self._holder
            if holder is not None:
                try:
                    if size < storage.nbytes():
                        holder.freed(int(storage._cdata))
                except Exception:  # no size: PyTorch says so
                    pass
            return original(storage, size)

        _Storage.resize_ = resize_

    def leave(self) -> None:
        """Tell nobody."""
        if self._holder is not None:
            self._holder = None
            made = vars(_Storage).get("resize_")
            if getattr(made, "__module__", "") == __name__:
                del _Storage.resize_
