"""What is changed around a program while a run of it is recorded, and put back afterwards."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol, cast

import torch

from tfdbg_cli.engines.kit.thread_follower import ThreadFollower
from tfdbg_cli.engines.torch.around.compiled import (
    CompiledCode,
    OpaqueMode,
    can_be_opaque,
    is_guarded,
)
from tfdbg_cli.engines.torch.modes import insert_mode, is_inserted, remove_mode
from tfdbg_cli.engines.torch.record.freeing import ResizeWatch
from tfdbg_cli.engines.torch.traits import TRAITS

if TYPE_CHECKING:
    from tfdbg_cli.engines.torch.record.run_recorder import RunRecorder

__all__ = ["PROCESS_PATCHES", "ProcessPatches"]

_DEFAULTS = {field.name: field.default for field in TRAITS.settings}


class Notes(Protocol):
    """Something that is to be said of a run."""

    def note(self, text: str) -> None:
        """Say it."""


class HelperThreads(ThreadFollower):
    """The threads that runs start, whose modules and phases belong to the run as well."""

    @contextlib.contextmanager
    def module(self, module: torch.nn.Module) -> Iterator[None]:
        """A module is called, maybe by a thread that a run has started."""
        recorder = cast("RunRecorder | None", self.helped())
        if recorder is not None:
            recorder.enter_module(module)
        try:
            yield
        finally:
            if recorder is not None:
                recorder.leave_module(module)

    @contextlib.contextmanager
    def phase(self, phase: str, owner: Any = None) -> Iterator[None]:
        """A backward pass or a step, maybe of a thread that a run has started."""
        recorder = cast("RunRecorder | None", self.helped())
        if recorder is not None:
            recorder.enter_phase(phase, owner)
        try:
            yield
        finally:
            if recorder is not None:
                recorder.leave_phase()


class ProcessPatches:
    """How the program runs while it is recorded: compiled code, fused kernels, threads.

    All of it belongs to the process, so there is one.

    Attributes:
        recorder: what records, or has paused; ``None``: nothing does.
        compiled: how compiled code runs meanwhile.
        setting: the value of a setting by its name.
        helpers: the threads that runs start.
    """

    def __init__(self) -> None:
        self.setting: Callable[[str], Any] = _DEFAULTS.__getitem__
        self.helpers = HelperThreads()
        self.compiled = CompiledCode()
        self._freeing = ResizeWatch()
        self.recorder: RunRecorder | Notes | None = None
        self._is_eager = False
        self._is_lasting = False
        self._placeholders: list[OpaqueMode] = []

    # What recorders are made with.

    @property
    def clones(self) -> bool:
        """Whether values are cloned at once."""
        return bool(self.setting("keep") == "clone")

    @property
    def ways(self) -> tuple[bool, bool]:
        """Whether compiled code stays compiled, and whether fused kernels are done in parts."""
        is_opaque = self.setting("compiled") == "opaque" and can_be_opaque()
        return is_opaque, bool(self.setting("expand")) and not is_opaque

    # What is recorded.

    def enter(self, recorder: RunRecorder) -> None:
        """A run is recorded from now on, by one recorder at a time, on this thread."""
        if self.recorder is recorder:  # it has paused
            self.helpers.own(recorder)
            self.compiled.turn(is_on=True)
            return
        if self.recorder is not None:
            self.leave(self.recorder)
        self.recorder = recorder
        self.helpers.own(recorder)
        self.helpers.enter()
        self._freeing.enter(recorder)
        self._enter_compiled()

    def enter_blind(self, owner: Notes) -> None:
        """The same where nothing is recorded, and only the modules in compiled code are called."""
        if self.recorder is not None:
            self.leave(self.recorder)
        self.recorder = owner
        self._enter_compiled()

    def _enter_compiled(self) -> None:
        self._is_eager = not self.ways[0]
        if self._is_eager:
            self.compiled.enter()

    def keep_key(self) -> None:
        """A mode is about to be taken off.

        A compiled function that is being called will turn the dispatch key of modes on again when
        it returns, if it was on at the beginning, and so does the end of ``inference_mode``; there
        has to be a mode then.
        """
        if is_guarded() and not any(map(is_inserted, self._placeholders)):
            mode = OpaqueMode(None)
            insert_mode(mode)
            self._placeholders.append(mode)

    def settle(self) -> None:
        """A run begins: what was left on for compiled functions to return is taken off."""
        if self._placeholders and not is_guarded():
            while self._placeholders:
                remove_mode(self._placeholders.pop())

    def leave(self, recorder: RunRecorder | Notes) -> None:
        """It is not any more. May be called more than once."""
        if self.recorder is not recorder:
            return
        self.recorder = None
        self.helpers.own(None)
        self._freeing.leave()
        self._let_go()
        if self._is_eager:
            if self.compiled.was_used:
                recorder.note(
                    "Compiled code ran op by op, as it was written: the numbers are those of eager "
                    "mode (config compiled opaque leaves it compiled)."
                )
            self.compiled.leave()

    @contextlib.contextmanager
    def lasting(self) -> Iterator[None]:
        """One recorder leaves and another may come: what both need stays in place meanwhile."""
        self._is_lasting = True
        try:
            yield
        finally:
            self._is_lasting = False
            self._let_go()

    def _let_go(self) -> None:
        if self.recorder is None and not self._is_lasting:
            self.helpers.leave()
            self._freeing.undo()


#: The process's.
PROCESS_PATCHES = ProcessPatches()
