"""What ``torch.compile`` has compiled: run op by op while a run is recorded, else left alone."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import FrameType, FunctionType
from typing import Any

import torch

from tfdbg_cli.dumps.sources import is_debugger_path
from tfdbg_cli.engines.torch.record.capture import CaptureMode

__all__ = [
    "CompiledCode",
    "OpaqueMode",
    "aside",
    "can_be_opaque",
    "is_guarded",
    "is_inside",
    "is_product",
    "keep_out",
    "know_call",
]

# The part of the compiler that is there as soon as torch is; the rest comes with its first use.
_frames: Any = torch._C._dynamo.eval_frame
_set_callback: Callable[[Any], Any] = _frames.set_eval_frame

_COMPILER = "torch._dynamo.eval_frame"
_PYTORCH = torch.__path__[0]
_COMPILERS = tuple(
    os.path.join(_PYTORCH, name, "") for name in ("_dynamo", "_functorch", "_inductor")
)


def keep_out(function: Callable[..., Any]) -> None:
    """Let the compiler skip the frame of a function; what that calls is compiled as ever."""
    assert isinstance(function, FunctionType)
    code = function.__code__
    skip = getattr(_frames, "skip_code", None)  # in older versions
    if skip is not None:
        skip(code)
    elif hasattr(_frames, "_FrameExecStrategy"):
        action = _frames._FrameAction
        strategy = _frames._FrameExecStrategy(action.SKIP, action.DEFAULT)
        _frames.set_code_exec_strategy(code, strategy)


def is_inside() -> bool:
    """Whether this thread is in code that the compiler looks at as it runs."""
    callback = _set_callback(None)
    if callback is None:
        return False
    _set_callback(callback)
    return True


keep_out(is_inside)


# Variables of the function that calls compiled code: until PyTorch 2.13, and in all versions.
_GUARD = frozenset({"saved_include_set", "saved_dynamic_layer_stack_depth"})


def is_guarded() -> bool:
    """Whether this thread is in the call of a compiled function.

    When it returns, it puts back which dispatch keys are on, whatever has happened to the modes.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not _GUARD.isdisjoint(frame.f_code.co_varnames):
            return True
        frame = frame.f_back
    return False


def is_product(module: torch.nn.Module, frame: FrameType | None) -> bool:
    """Whether a module is a graph that the compiler has made, and calls in place of code.

    Args:
        module: that is called.
        frame: of the call.
    """
    graph_module = getattr(sys.modules.get("torch.fx"), "GraphModule", None)
    if graph_module is None or not isinstance(module, graph_module):
        return False
    while frame is not None:
        path = frame.f_code.co_filename
        if path.startswith(_COMPILERS):
            return True
        if not path.startswith(_PYTORCH) and not is_debugger_path(path):
            return False
        frame = frame.f_back
    return False


def aside(around: Callable[..., Any]) -> Callable[..., Any]:
    """Keep the compiler away from a function that does something around another one.

    Args:
        around: is called with the other one and its arguments. What the other one does is compiled
            as it would be without us.
    """

    def call(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        callback = _set_callback(None)
        if callback is None:
            return around(original, *args, **kwargs)

        def resumed(*args: Any, **kwargs: Any) -> Any:
            _set_callback(_wanted(callback))
            try:
                return original(*args, **kwargs)
            finally:
                _set_callback(None)

        try:
            return around(resumed, *args, **kwargs)
        finally:
            _set_callback(_wanted(callback))

    keep_out(call)
    return call


def know_call(old: Any, new: Any) -> None:
    """Tell the compiler that ``Module.__call__`` is replaced.

    It goes straight to ``forward`` where it knows ``__call__``.
    """
    for name in ("torch._dynamo.utils", "torch._dynamo.variables.nn_module"):
        module: Any = sys.modules.get(name)
        if getattr(module, "unpatched_nn_module_call", None) is old:
            module.unpatched_nn_module_call = new


def can_be_opaque() -> bool:
    """Whether compiled code is used under a dispatch mode that asks for it."""
    return hasattr(CaptureMode, "ignore_compile_internals")


class OpaqueMode(CaptureMode):
    """Sees what goes into compiled code and what of it calls PyTorch's own kernels."""

    def ignore_compile_internals(self) -> bool:
        """Compiled code is used while this mode is on."""
        return True

    def __torch_dispatch__(self, *args: Any, **kwargs: Any) -> Any:
        """One op."""
        callback = _set_callback(None)
        try:
            return super().__torch_dispatch__(*args, **kwargs)
        finally:
            _set_callback(callback)


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


def _wanted(callback: Any) -> Any:
    """What a compiled region is to go on with."""
    return None if _stance is not None and callable(callback) else callback


class CompiledCode:
    """Makes compiled functions run as they were written, for a while."""

    def __init__(self) -> None:
        self._compile: Callable[..., Any] | None = None

    @property
    def was_used(self) -> bool:
        """Whether the program has called compiled code in this while."""
        return _stance is not None and _stance.was_asked

    def enter(self) -> None:
        """The while begins."""
        _set_callback(None)
        if _COMPILER in sys.modules:
            _take_stance()
            return
        original = self._compile = torch.compile

        def compile(*args: Any, **kwargs: Any) -> Any:
            compiled = original(*args, **kwargs)
            if self._compile is not None and _stance is None and _COMPILER in sys.modules:
                _take_stance()
            return compiled

        torch.compile = compile

    def leave(self) -> None:
        """It ends."""
        if self._compile is not None:
            torch.compile, self._compile = self._compile, None
        _leave_stance()


def _take_stance() -> None:
    global _stance
    compiler: Any = sys.modules[_COMPILER]
    prior = getattr(compiler, "_stance", None)
    while isinstance(prior, _Stance) and not prior.is_on:
        prior = prior.prior
    _stance = _Stance(prior)
    if prior is not None:
        compiler._stance = _stance
    else:  # before PyTorch 2.6
        compiler.set_eval_frame = _stay_away


def _leave_stance() -> None:
    global _stance
    stance = _stance
    if stance is None:
        return
    _stance = None
    stance.is_on = False
    prior = stance.prior
    compiler: Any = sys.modules[_COMPILER]
    if getattr(compiler, "_stance", None) is stance:
        compiler._stance = prior
    elif prior is None:
        compiler.set_eval_frame = _set_callback


def _stay_away(callback: Any) -> Any:
    if callable(callback) and _stance is not None:
        _stance.was_asked = True
        callback = None
    return _set_callback(callback)
