"""The PyTorch program as the session that is debugged, and its adapter."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any

import torch

from tfdbg_cli.engines.base import KeyMeeting, Meeting
from tfdbg_cli.engines.kit.program import RunsAdapter
from tfdbg_cli.engines.torch.around.process_patches import PROCESS_PATCHES
from tfdbg_cli.engines.torch.private import NAMES, default_store
from tfdbg_cli.engines.torch.runs.lifecycle import PatchedProgram
from tfdbg_cli.engines.torch.runs.patches import Interceptor, Patches
from tfdbg_cli.engines.torch.runs.runs import Runs
from tfdbg_cli.engines.torch.traits import TRAITS

__all__ = ["TorchAdapter", "TorchProgram"]


class TorchProgram(PatchedProgram):
    """This process, as far as it uses PyTorch."""

    runs: Runs

    def __init__(self) -> None:
        super().__init__(TRAITS)
        PROCESS_PATCHES.setting = self.value
        self.runs = Runs(self)
        self.patches = Patches(self.runs)

    def prepare(self) -> None:
        """Which optimizers there are decides what a run is. It takes long: see `watched`."""
        self.runs.optimizers.find()

    def begun(self) -> None:
        """Say of which versions the engine knows that it works."""
        NAMES.tell_version()

    def intercept(self, module: Any, through: Interceptor) -> Callable[[], None]:
        """See `TorchEngine.intercept`."""
        undoing = contextlib.ExitStack()  # closed once more, it does nothing
        undoing.callback(self.watched())
        undoing.callback(self.patches.intercept(module, through))
        return undoing.close


class TorchAdapter(RunsAdapter):
    """The program as the wrapper session sees it: it runs by itself, nobody runs it."""

    def seed(self) -> str | None:
        """That of the default generator on the CPU."""
        return f"{torch.initial_seed()} (torch.initial_seed())"

    def meeting(self) -> Meeting | None:
        """The default process group's, once there is one; ``None`` before, and alone."""
        if "torch.distributed.distributed_c10d" not in sys.modules:
            return None
        distributed = torch.distributed
        if not distributed.is_available() or not distributed.is_initialized():
            return None
        size = distributed.get_world_size()
        store = default_store() if size > 1 else None
        if store is None:
            return None
        return StoreMeeting(distributed.get_rank(), size, store, self.session.runs.where)


class StoreMeeting(KeyMeeting):
    """The store through which ``init_process_group`` made the ranks known to each other.

    It is asked a few times at the beginning and never waited for: a wait would hold the connection
    that PyTorch itself uses.

    Args:
        rank: of this process.
        size: how many there are.
        store: a ``torch.distributed.Store``.
        whereabouts: tells where the program is.
    """

    def __init__(self, rank: int, size: int, store: Any, whereabouts: Callable[[], str]) -> None:
        super().__init__(rank, size, whereabouts)
        self._store = store

    def set_key(self, key: str, text: str) -> None:
        self._store.set(key, text)

    def get_key(self, key: str) -> str | None:
        return bytes(self._store.get(key)).decode() if self._store.check([key]) else None
