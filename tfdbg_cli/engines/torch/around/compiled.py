"""What ``torch.compile`` has compiled: run op by op while a run is recorded, else left alone."""

from __future__ import annotations

import sys
from types import CodeType, FrameType
from typing import Any

import torch

from tfdbg_cli.dumps.sources import is_debugger_path
from tfdbg_cli.engines.kit.patching.patches import PatchSet
from tfdbg_cli.engines.torch.around.private import (
    COMPILER,
    COMPILERS,
    PYTORCH,
    keep_out,
    put_compiler_callback,
    put_stance,
    stance,
)
from tfdbg_cli.engines.torch.private import NAMES, set_callback
from tfdbg_cli.engines.torch.record.capture import CaptureMode

__all__ = [
    "CompiledCode",
    "OpaqueMode",
    "can_be_opaque",
    "is_guarded",
    "is_product",
    "wanted",
]


# Variables of the function that calls compiled code: until PyTorch 2.13, and in all versions.
_GUARD = frozenset({"saved_include_set", "saved_dynamic_layer_stack_depth"})


# By address: the code that is there, and whether it is of such a function.
_calling: dict[int, tuple[CodeType, bool]] = {}
_MOST_CODES = 50_000


def is_guarded() -> bool:
    """Whether this thread is in inference mode, or in the call of a compiled function.

    When these end, they put back which dispatch keys are on, whatever has happened to the modes.
    """
    if torch.is_inference_mode_enabled():
        return True
    if COMPILER not in sys.modules:
        return False
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        known = _calling.get(id(code))
        if known is None or known[0] is not code:
            if len(_calling) > _MOST_CODES:
                _calling.clear()
            known = _calling[id(code)] = (code, not _GUARD.isdisjoint(code.co_varnames))
        if known[1]:
            return True
        frame = frame.f_back
    return False


def is_product(frame: FrameType | None) -> bool:
    """Whether a graph is one that the compiler has made, and calls in place of code.

    Args:
        frame: of the call.
    """
    while frame is not None:
        path = frame.f_code.co_filename
        if path.startswith(COMPILERS):
            return True
        if not path.startswith(PYTORCH) and not is_debugger_path(path):
            return False
        frame = frame.f_back
    return False


def can_be_opaque() -> bool:
    """Whether compiled code is used under a dispatch mode that asks for it."""
    return hasattr(CaptureMode, "ignore_compile_internals")


class OpaqueMode(CaptureMode):
    """Sees what goes into compiled code and what of it calls PyTorch's own kernels."""

    def ignore_compile_internals(self) -> bool:
        """Compiled code is used while this mode is on."""
        return True

    def __torch_dispatch__(self, *args: Any, **kwargs: Any) -> Any:
        callback = set_callback(None)
        try:
            return super().__torch_dispatch__(*args, **kwargs)
        finally:
            set_callback(callback)


keep_out(OpaqueMode.__torch_dispatch__)


class _Stance:
    """What the compiler is asked to do: as before, but to stay away while this is on.

    It may outlive the recording: a program that sets a stance of its own in the meantime puts this
    one back afterwards.

    Attributes:
        prior: what it was asked before.
        is_on: whether something is being recorded.
        was_asked: whether compiled code was called while this was on.
    """

    def __init__(self, prior: Any) -> None:
        self.prior = prior
        self.is_on = True
        self.was_asked = False

    @property
    def stance(self) -> str:
        """The compiler reads it at every call of compiled code, and of code that it skips."""
        if not self.is_on:
            return str(self.prior.stance)
        reader = sys._getframe(1)
        if "callback" in reader.f_code.co_varnames and callable(reader.f_locals["callback"]):
            self.was_asked = True
        return "force_eager"

    def __getattr__(self, name: str) -> Any:
        return getattr(self.prior, name)


# The one that is on.
_stance: _Stance | None = None


def wanted(callback: Any) -> Any:
    """What a compiled region is to go on with."""
    is_off = _stance is not None and _stance.is_on
    return None if is_off and callable(callback) else callback


class CompiledCode:
    """Makes compiled functions run as they were written, for a while."""

    def __init__(self) -> None:
        self._patches = PatchSet(NAMES.framework)

    @property
    def was_used(self) -> bool:
        """Whether the program has called compiled code in this while."""
        return _stance is not None and _stance.was_asked

    def enter(self) -> None:
        """The while begins."""
        set_callback(None)
        if COMPILER in sys.modules:
            _take_stance()
            return
        self._patches.replace(torch, "compile", self._taking)

    @staticmethod
    def turn(is_on: bool) -> None:
        """Let the while go on, or pause: then compiled code runs compiled."""
        if _stance is not None:
            _stance.is_on = is_on

    def leave(self) -> None:
        """It ends."""
        self._patches.undo()
        _leave_stance()

    def _taking(self, original: Any) -> Any:
        def compile(*args: Any, **kwargs: Any) -> Any:
            compiled = original(*args, **kwargs)
            if self._patches and _stance is None and COMPILER in sys.modules:
                _take_stance()
            return compiled

        return compile


def _take_stance() -> None:
    global _stance
    prior = stance()
    while isinstance(prior, _Stance) and not prior.is_on:
        prior = prior.prior
    _stance = _Stance(prior)
    if prior is not None:
        put_stance(_stance)
    else:
        put_compiler_callback(_stay_away)


def _leave_stance() -> None:
    global _stance
    ours = _stance
    if ours is None:
        return
    _stance = None
    ours.is_on = False
    if stance() is ours:
        put_stance(ours.prior)
    elif ours.prior is None:
        put_compiler_callback(set_callback)


def _stay_away(callback: Any) -> Any:
    if callable(callback) and _stance is not None and _stance.is_on:
        _stance.was_asked = True
        callback = None
    return set_callback(callback)
