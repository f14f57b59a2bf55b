"""The dispatch mode that sees every op."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import torch

from tfdbg_cli.dumps.sources import is_debugger_code
from tfdbg_cli.engines.kit.patching.places import calling_at
from tfdbg_cli.engines.torch.private import (
    KERNEL,
    DispatchMode,
    dispatch_mode_at,
    fake_classes,
    modes_below,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfdbg_cli.engines.torch.record.op_recorder import OpRecorder

__all__ = ["CaptureMode", "program_modes"]


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
        frame = sys._getframe(1)
        if ops is not None and ops.update is not None:
            ops = ops.follow(args, frame)
        # Warnings of the kernel are those of the place that it was called at.
        call, kernel = calling_at(frame), getattr(func, KERNEL, func)
        if ops is not None and ops.is_quick and ops.passage is None and ops.update is None:
            started = ops.start(func, args, kwargs, frame)
            if started is not None:
                try:
                    result = call(kernel, args, kwargs)
                except Exception as error:
                    record = ops.undone(started)
                    if record is not None:
                        ops.failed(record, error)
                    _leave_out_call(error)
                    del ops, started, record, frame  # the traceback keeps this frame
                    raise
                ops.done(started, result)
                return result
        place = None
        if ops is not None and ops.unused is not None:
            place = ops.unused_place(func, args, kwargs, frame)
        record = ops.begin(func, args, kwargs, frame) if ops is not None and not place else None
        if ops is None or (record is None and not place):
            return call(func, args, kwargs)
        if ops.passage is not None and record is not None:
            ops.describe()
            try:
                return ops.passage.perform(ops, record, func, args, kwargs)
            finally:
                del ops, record, args, kwargs, frame  # a traceback may keep this frame
        try:
            result = call(kernel, args, kwargs)
        except Exception as error:
            record = record or ops.begin(func, args, kwargs, frame)
            if record is not None:
                ops.failed(record, error)
            _leave_out_call(error)
            del ops, record, frame  # the traceback keeps this frame
            raise
        if place and not ops.is_unused(place, result):
            record = ops.begin(func, args, kwargs, frame)  # what it was given is as it was
        if record is not None:
            ops.end(record, result)
        return result


def _leave_out_call(error: Exception) -> None:
    """The traceback of an op's error has no frame of `calling_at`."""
    trace = error.__traceback__
    if trace is not None:
        inner = trace.tb_next
        while inner is not None and is_debugger_code(inner.tb_frame.f_code):
            inner = inner.tb_next
        trace.tb_next = inner


def program_modes() -> list[Any]:
    """The dispatch modes of this thread but for the debugger's own."""
    found = map(dispatch_mode_at, range(modes_below()))
    return [mode for mode in found if not isinstance(mode, CaptureMode)]
