"""Recording only the ops of some modules: a value costs what it takes to read it."""

from __future__ import annotations

import threading
from typing import Any

import torch

from tfdbg_cli.engines.base import Watch
from tfdbg_cli.engines.kit.stacks import Stack
from tfdbg_cli.engines.torch.around.process_patches import PROCESS_PATCHES
from tfdbg_cli.engines.torch.modes import remove_function_mode
from tfdbg_cli.engines.torch.names.scopes import Names
from tfdbg_cli.engines.torch.record.capture_levels import FullLevel
from tfdbg_cli.engines.torch.record.run_recorder import RunRecorder
from tfdbg_cli.stepping.calls import paths_of

__all__ = ["ScopedLevel"]

_NOTE = (
    "Only the ops were recorded that the trace block asks for by name; "
    "trace(..., keep=True) records all."
)


class ScopedLevel(FullLevel):
    """Records the ops of some modules' calls, forward, and holds their values.

    The modes that see ops are on only while such a call is the innermost one. Where there are no
    modules nothing is recorded.

    Args:
        names: what things are called.
        scopes: what the names of the ops begin with: ``fc1/``, ``fc1-2/``; empty for those outside
            of modules and of the outermost one's own.
        root: in which the modules are; ``None``: that isn't known.
    """

    def __init__(self, names: Names, scopes: frozenset[str], root: torch.nn.Module | None) -> None:
        recorder = _ScopedRecorder(names, scopes)
        super().__init__(Watch(), names, recorder)
        self._scoped = recorder
        recorder.note(_NOTE)
        self._is_blind = not scopes
        self._wanted: set[int] | None = None
        if root is not None:
            self._wanted = {id(names.at(path)) for scope in scopes for path in paths_of(scope)}

    def watches(self, module: torch.nn.Module) -> bool:
        """Whether a call has to be told of: ops of it are recorded, or those around it are."""
        if self._is_blind or self._wanted is None:
            return not self._is_blind
        return self._scoped.is_in or id(module) in self._wanted

    def enter_module(self, module: Any, arguments: Any = None) -> None:
        """As `FullLevel`, unless nothing is recorded."""
        if not self._is_blind:
            super().enter_module(module, arguments)

    def leave_module(self, module: Any, output: Any) -> None:
        """The call returns."""
        if not self._is_blind:
            super().leave_module(module, output)

    def enter_phase(self, phase: str, owner: Any = None) -> None:
        """A backward pass or a step begins."""
        if not self._is_blind:
            super().enter_phase(phase, owner)

    def leave_phase(self) -> None:
        """It ends."""
        if not self._is_blind:
            super().leave_phase()


class _ScopedRecorder(RunRecorder):
    """See `ScopedLevel`.

    Attributes:
        is_in: ops are recorded now.
        gap: records with a lower index are from before ops that were not recorded.
    """

    def __init__(self, names: Names, scopes: frozenset[str]) -> None:
        super().__init__(Watch(), names=names)
        self._scopes = scopes
        self.is_in = False
        self.gap = 0

    def _is_own_thread(self) -> bool:
        return threading.get_ident() == self._thread

    def _wants(self) -> bool:
        top = self.ops.contexts.state().top
        return (top.prefix if top is not None else "") in self._scopes

    def _insert(self) -> None:
        if not self._is_own_thread():
            if self._scopes:  # all that threads do: nobody sees there which calls are made
                super()._insert()
        elif self._wants():
            self.is_in = True
            state = self.ops.contexts.state()
            state.begin()
            super()._insert()
            modules = (each.module.reference() for each in state.contexts if each.module)
            if self._api_mode is not None and any(map(PROCESS_PATCHES.must_not_see, modules)):
                remove_function_mode(self._api_mode)

    def _remove(self) -> None:
        if self._is_own_thread():
            self.is_in = False
            records = self.ops.records
            self.gap = records[-1].index + 1 if records else 0
        super()._remove()

    def _settle(self) -> None:
        """The innermost call is another one."""
        if self.is_on and self._is_own_thread() and self.is_in != self._wants():
            if self.is_in:
                self._remove()
            else:
                self._insert()

    def enter_module(self, module: torch.nn.Module) -> None:
        """As `RunRecorder`."""
        super().enter_module(module)
        self._settle()

    def leave_module(self, module: torch.nn.Module, output: Any = None) -> None:
        """As `RunRecorder`."""
        super().leave_module(module, output)
        if self._is_own_thread() and not self.is_in and PROCESS_PATCHES.must_not_see(module):
            super()._remove()  # it was put back for the module around this one
        self._settle()

    def enter_phase(self, phase: str, owner: Any = None, outer: Stack | None = None) -> None:
        """As `RunRecorder`."""
        super().enter_phase(phase, owner, outer)
        self._settle()

    def leave_phase(self) -> None:
        """As `RunRecorder`."""
        super().leave_phase()
        self._settle()
