"""Recording only the ops of some modules: a value costs what it takes to read it."""

from __future__ import annotations

import functools
import threading
from collections.abc import Mapping
from types import CodeType, FrameType
from typing import Any

import torch

from tfdbg_cli.engines.base import Watch
from tfdbg_cli.engines.kit.stacks import Stack
from tfdbg_cli.engines.torch.around.process_patches import PROCESS_PATCHES
from tfdbg_cli.engines.torch.around.surrounding import Around
from tfdbg_cli.engines.torch.levels import TorchLevel
from tfdbg_cli.engines.torch.names.contexts import ThreadState
from tfdbg_cli.engines.torch.names.scopes import Leaf, Names
from tfdbg_cli.engines.torch.private import current_node, training_codes
from tfdbg_cli.engines.torch.record.capture_levels import FullLevel
from tfdbg_cli.engines.torch.record.op_record import OpOutput, OpRecord
from tfdbg_cli.engines.torch.record.op_recorder import OpRecorder
from tfdbg_cli.engines.torch.record.run_recorder import RunRecorder
from tfdbg_cli.stepping.calls import paths_of

__all__ = ["BlindLevel", "ScopedLevel", "is_inside_modules"]

_NOTE = (
    "Only the ops were recorded that the trace block asks for by name; "
    "trace(..., keep=True) records all."
)


def is_inside_modules(scopes: frozenset[str]) -> bool:
    """Whether all ops of some scopes are in the calls of modules, and none outside of all."""
    return "" not in scopes


@functools.cache
def _blank() -> RunRecorder:
    """What has recorded nothing, and never will."""
    return RunRecorder(Watch())


class BlindLevel(TorchLevel):
    """Records no op. Compiled code runs as it was written, so that modules in it are called.

    Attributes:
        recorder: of nothing.
    """

    def __init__(self) -> None:
        super().__init__(Watch())
        self.recorder = _blank()

    def start(self) -> None:
        """The program goes on."""
        PROCESS_PATCHES.enter_blind(self)

    def stop(self) -> None:
        """Compiled code runs compiled."""
        PROCESS_PATCHES.leave(self)

    def look_away(self) -> None:
        """Nobody asks for modules any more."""
        self.stop()

    def note(self, text: str) -> None:
        """There is no dump to say it with."""


class _ModuleOps(OpRecorder):
    """Those of modules' forward passes alone, told by where they are called.

    Nobody looks at backward passes and steps of optimizers: in the call of a module there is
    hardly ever one.

    Attributes:
        is_closed: nobody asks for more.
    """

    is_closed = False

    def begin(
        self, op: Any, args: Any, kwargs: Mapping[str, Any], frame: FrameType | None
    ) -> OpRecord | None:
        """As `OpRecorder`."""
        if self.is_closed or current_node() is not None or self._is_elsewhere(frame):
            return None
        return super().begin(op, args, kwargs, frame)

    def _discover(
        self, state: ThreadState, tensor: torch.Tensor, frame: FrameType | None
    ) -> OpOutput:
        """As `OpRecorder`, but what it is called is of no interest to anybody."""
        name = f"input/tensor_{next(self._unnamed)}"
        return self._leaf(tensor, Leaf(tensor, name, "Input"))

    def _is_elsewhere(self, frame: FrameType | None) -> bool:
        top = self.contexts.local.state.top
        boundary, codes = top.frame if top is not None else None, _codes_of_training()
        while frame is not None and frame is not boundary:
            if id(frame.f_code) in codes:
                return True
            frame = frame.f_back
        return False


@functools.cache
def _codes_of_training() -> Mapping[int, CodeType]:
    """The code that makes a backward pass, or the step of an optimizer, by its id."""
    return {id(code): code for code in training_codes()}


class ScopedLevel(FullLevel):
    """Records the ops of some modules' calls, forward, and holds their values.

    The modes that see ops are on only while such a call is the innermost one.

    Args:
        names: what things are called.
        scopes: what the names of the ops begin with: ``fc1/``, ``fc1-2/``; empty for those outside
            of modules and of the outermost one's own.
        root: in which the modules are; ``None``: that isn't known.

    Attributes:
        sees_calls_only: whether calls of modules are all that has to be seen of the program.
        gap: records with a lower index are from before ops that were not recorded.
    """

    def __init__(self, names: Names, scopes: frozenset[str], root: torch.nn.Module | None) -> None:
        self.sees_calls_only = is_inside_modules(scopes)
        kind = _ModuleOps if self.sees_calls_only else OpRecorder
        super().__init__(Watch(), names, make_ops=kind)
        self.note(_NOTE)
        self.gap = 0
        self._scopes = scopes
        self._is_in = False  # ops are recorded now
        self._is_blind = False
        self._paths = frozenset().union(*map(paths_of, scopes))
        self._wanted: set[int] | None = None
        if root is not None:
            self._wanted = {id(names.at(path)) for path in self._paths}

    def watches(self, module: torch.nn.Module, path: str | None) -> bool:
        """Whether a call has to be told of: ops of it are recorded, or those around it are.

        Args:
            module: that is called.
            path: of the module, where there is no root.
        """
        if self._is_blind or self._is_in:
            return not self._is_blind
        if self._wanted is not None:
            return id(module) in self._wanted
        return path in self._paths or not self.sees_calls_only

    def look_away(self) -> None:
        """Record no more. The program may be in an op, which puts the mode back at its end."""
        self._is_blind = True
        self._scopes = frozenset()
        self.ops.passage = None
        if isinstance(self.ops, _ModuleOps):
            self.ops.is_closed = True
        PROCESS_PATCHES.leave(self)

    def around_module(self, original: Any, module: Any, args: Any, kwargs: Any) -> Around:
        """A call of a module, where nothing else is seen of the program."""
        self.enter_module(module)
        output = None
        try:
            output = yield original, (module, *args), kwargs
        finally:
            self.leave_module(module, output)
        return output

    def _is_own_thread(self) -> bool:
        return threading.get_ident() == self._thread

    def _wants(self) -> bool:
        top = self.ops.contexts.local.state.top
        return (top.prefix if top is not None else "") in self._scopes

    def _insert(self) -> None:
        if not self._is_own_thread():
            if self._scopes:  # all that threads do: nobody sees there which calls are made
                super()._insert()
        elif self._wants():
            self._is_in = True
            state = self.ops.contexts.local.state
            state.begin()
            super()._insert()

    def _remove(self) -> None:
        if self._is_own_thread():
            self._is_in = False
            records = self.ops.records
            self.gap = records[-1].index + 1 if records else 0
        super()._remove()

    def _settle(self) -> None:
        """The innermost call is another one."""
        if self.is_on and self._is_own_thread() and self._is_in != self._wants():
            if self._is_in:
                self._remove()
            else:
                self._insert()

    def enter_module(self, module: Any, arguments: Any = None) -> None:
        """As `FullLevel`, unless nothing is recorded."""
        if not self._is_blind:
            super().enter_module(module, arguments)
            self._settle()

    def leave_module(self, module: Any, output: Any = None) -> None:
        """The call returns."""
        if not self._is_blind or self._is_in:
            super().leave_module(module, output)
            self._settle()

    def enter_phase(self, phase: str, owner: Any = None, outer: Stack | None = None) -> None:
        """A backward pass or a step begins."""
        if not self._is_blind:
            super().enter_phase(phase, owner, outer)
            self._settle()

    def leave_phase(self) -> None:
        """It ends."""
        if not self._is_blind:
            super().leave_phase()
            self._settle()
