"""The dispatch mode that sees every op, and the function mode that sees what the program calls."""

from __future__ import annotations

import gc
import sys
from types import CodeType, FrameType, FunctionType
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode, handle_torch_function

from tfdbg_cli.engines.torch.private import KERNEL, DispatchMode, fake_classes, modes_below

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfdbg_cli.engines.torch.record.op_recorder import OpRecorder

__all__ = ["ApiMode", "CaptureMode", "meant"]


# Through this, functions of PyTorch that are written in Python come to a mode.
_HANDS_OVER = handle_torch_function.__code__


def _dispatch_of(kind: Any) -> Any:
    return kind.__torch_dispatch__


_PLAIN = _dispatch_of(torch.Tensor)


class CaptureMode(DispatchMode):
    """Tells of every op that reaches it, and does it unchanged.

    Args:
        ops: is told; ``None``: nobody is.
    """

    supports_higher_order_operators = True

    def __init__(self, ops: OpRecorder | None) -> None:
        super().__init__()
        self._ops = ops

    def close(self) -> None:
        """Tell nobody any more; threads may have the mode on for longer than the run takes."""
        self._ops = None

    def tell(self, ops: OpRecorder) -> None:
        """Tell others from now on."""
        self._ops = ops

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        """One op."""
        if kwargs is None:
            kwargs = {}
        if types:
            kinds = [kind for kind in types if _dispatch_of(kind) is not _PLAIN]
            if kinds:
                # Tensors without data are nobody's values. Others wrap tensors (nested ones,
                # DTensor): they do their own work first, and what comes of it arrives here again.
                if any(issubclass(kind, fake_classes()) for kind in kinds):
                    return func(*args, **kwargs)
                return NotImplemented
        if modes_below():  # fake tensors or tracing: no values either
            return func(*args, **kwargs)
        ops = self._ops
        if ops is not None and ops.update is not None:
            ops = ops.follow(args, sys._getframe(1))
        if ops is not None and ops.is_quick and ops.passage is None and ops.update is None:
            started = ops.start(func, args, kwargs, sys._getframe(1))
            if started is not None:
                try:
                    result = getattr(func, KERNEL, func)(*args, **kwargs)
                except Exception as error:
                    record = ops.undone(started)
                    if record is not None:
                        ops.failed(record, error)
                    del ops, started, record  # the traceback keeps this frame
                    raise
                ops.done(started, result)
                return result
        record = ops.begin(func, args, kwargs, sys._getframe(1)) if ops is not None else None
        if ops is None or record is None:
            return func(*args, **kwargs)
        if ops.passage is not None:
            ops.describe()
            try:
                return ops.passage.perform(ops, record, func, args, kwargs)
            finally:
                del ops, record, args, kwargs  # a traceback may keep this frame
        try:
            result = getattr(func, KERNEL, func)(*args, **kwargs)
        except Exception as error:
            ops.failed(record, error)
            del ops, record  # the traceback keeps this frame
            raise
        ops.end(record, result)
        return result


def meant(func: Any, frame: FrameType | None) -> Any:
    """The function of PyTorch that was called, whatever the program has put in its place.

    PyTorch looks itself up by name to hand itself over, and finds what the program has put there,
    which is what has called it: that would be done twice.

    Args:
        func: that PyTorch hands over.
        frame: of who does.
    """
    origin = frame.f_back if frame is not None and frame.f_code is _HANDS_OVER else None
    if origin is None:
        return func
    code = origin.f_code
    if getattr(func, "__code__", None) is code or code.co_freevars:
        return func
    name = code.co_name
    if origin.f_globals.get(name) is func or getattr(torch.Tensor, name, None) is func:
        return _function_of(code, func) or func
    return func


#: By the ids of their codes, which live as long as they.
_functions: dict[int, FunctionType] = {}


def _function_of(code: CodeType, replacement: Any) -> FunctionType | None:
    """The function that a code is of, with its defaults; ``None``: nobody can tell."""
    found: Any = _functions.get(id(code))
    if found is None:
        found = getattr(replacement, "__wrapped__", None)
        if getattr(found, "__code__", None) is not code:
            others = (each for each in gc.get_referrers(code) if type(each) is FunctionType)
            found = next((each for each in others if each.__code__ is code), None)
        if found is not None:
            _functions[id(code)] = found
    return found if found is not None and found.__code__ is code else None


class ApiMode(TorchFunctionMode):  # type: ignore[misc]  # PyTorch is Any to mypy
    """Notes which function of the API the program has called.

    Args:
        ops: is told.
    """

    def __init__(self, ops: OpRecorder) -> None:
        super().__init__()
        self._ops: OpRecorder | None = ops

    def notes(self) -> list[str]:
        """What is to be said of the run."""
        return []

    def close(self) -> None:
        """Tell nobody any more."""
        self._ops = None

    def tell(self, ops: OpRecorder) -> None:
        """Tell others from now on."""
        self._ops = ops

    def __torch_function__(
        self, func: Any, types: Sequence[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        """One call of the API."""
        return self._call(meant(func, sys._getframe(1)), args, kwargs)

    def _call(self, func: Any, args: Any, kwargs: Any) -> Any:
        ops = self._ops
        if ops is None:
            return func(*args, **kwargs) if kwargs else func(*args)
        state = ops.contexts.local.state
        outer = state.api
        if outer is None:
            state.api = func
        try:
            return func(*args, **kwargs) if kwargs else func(*args)
        except Exception as error:
            if self._ops is ops:  # else the run has ended with it
                ops.call_failed(func, args, kwargs or {}, sys._getframe(1), error)
            raise
        finally:
            state.api = outer
