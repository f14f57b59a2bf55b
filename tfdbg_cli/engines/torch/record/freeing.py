"""Sees a program give memory back that values are held in, as FSDP does with its parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from tfdbg_cli.engines.kit.patching.patches import PatchSet
from tfdbg_cli.engines.torch.private import NAMES, storage_address

if TYPE_CHECKING:
    from tfdbg_cli.engines.torch.record.run_recorder import RunRecorder

__all__ = ["ResizeWatch"]

_Storage: Any = torch.UntypedStorage


class ResizeWatch:
    """Around ``UntypedStorage.resize_`` while a run is recorded: no operator tells of it."""

    def __init__(self) -> None:
        self._recorder: RunRecorder | None = None
        self._patches = PatchSet(NAMES.framework)

    def enter(self, recorder: RunRecorder) -> None:
        """Tell a recorder's holder of what is freed from now on."""
        self._recorder = recorder
        if self._patches:
            return
        if "resize_" in vars(_Storage):  # somebody else looks, too, and may not pass it on
            return
        self._patches.replace(_Storage, "resize_", self._telling, wraps=False)

    def leave(self) -> None:
        """Tell nobody."""
        self._recorder = None

    def undo(self) -> None:
        """Look no more."""
        self._patches.undo()

    def _telling(self, original: Any) -> Any:
        def resize_(storage: Any, size: Any) -> Any:
            recorder = self._recorder
            if recorder is not None:
                try:
                    if size < storage.nbytes():
                        recorder.holder.freed(storage_address(storage))
                except Exception:  # no size: PyTorch says so
                    pass
            return original(storage, size)

        return resize_
