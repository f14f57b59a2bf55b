"""Sees a program give memory back that values are held in, as FSDP does with its parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from tfdbg_cli.engines.kit.patching.patches import PatchSet
from tfdbg_cli.engines.torch.private import NAMES, storage_address

if TYPE_CHECKING:
    from tfdbg_cli.engines.torch.record.holding import Holder

__all__ = ["ResizeWatch"]

_Storage: Any = torch.UntypedStorage


class ResizeWatch:
    """Around ``UntypedStorage.resize_`` while a run is recorded: no operator tells of it."""

    def __init__(self) -> None:
        self._holder: Holder | None = None
        self._patches = PatchSet(NAMES.framework)

    def enter(self, holder: Holder) -> None:
        """Tell a holder of what is freed from now on."""
        self._holder = holder
        if self._patches:
            return
        if "resize_" in vars(_Storage):  # somebody else looks, too, and may not pass it on
            return
        self._patches.replace(_Storage, "resize_", self._telling, wraps=False)

    def leave(self) -> None:
        """Tell nobody."""
        self._holder = None

    def undo(self) -> None:
        """Look no more."""
        self._patches.undo()

    def _telling(self, original: Any) -> Any:
        def resize_(storage: Any, size: Any) -> Any:
            holder = self._holder
            if holder is not None:
                try:
                    if size < storage.nbytes():
                        holder.freed(storage_address(storage))
                except Exception:  # no size: PyTorch says so
                    pass
            return original(storage, size)

        return resize_
