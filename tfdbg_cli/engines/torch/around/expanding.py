"""Fused kernels as their parts: ``config expand``."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FrameType, FunctionType
from typing import Any

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode, handle_torch_function

from tfdbg_cli.engines.kit.patching.places import calling_at
from tfdbg_cli.engines.torch.private import fused_switches

__all__ = ["ExpandingMode"]


def _plain_attention() -> contextlib.AbstractContextManager[Any]:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    context: contextlib.AbstractContextManager[Any] = sdpa_kernel(SDPBackend.MATH)
    return context


@contextlib.contextmanager
def _plain_recurrence() -> Iterator[None]:
    found = [switch for switch in map(fused_switches, ("mkldnn", "cudnn")) if switch is not None]
    before = [get() for get, _ in found]
    for _, put in found:
        put(False)
    try:
        yield
    finally:
        for (_, put), was_on in zip(found, before, strict=True):
            put(was_on)


_WAYS: dict[Any, Callable[[], contextlib.AbstractContextManager[Any]]] = {
    F.scaled_dot_product_attention: _plain_attention,
    F.multi_head_attention_forward: _plain_attention,
    torch.lstm: _plain_recurrence,
    torch.gru: _plain_recurrence,
    torch.rnn_tanh: _plain_recurrence,
    torch.rnn_relu: _plain_recurrence,
}


class ExpandingMode(TorchFunctionMode):  # type: ignore[misc]  # PyTorch is Any to mypy
    """Does without fused kernels for attention, transformer layers and recurrent layers.

    Only during the calls themselves: the program's own choices stay in force around them. Modules
    that have a fused way take the one of many ops where they see a mode like this.
    """

    def __init__(self) -> None:
        super().__init__()
        self._names: list[str] = []

    def notes(self) -> list[str]:
        """That the numbers may differ."""
        what = ", ".join(self._names)
        text = f"{what} ran as parts: the numbers are those of the parts (config expand)."
        return [text] if what else []

    def __torch_function__(
        self, func: Any, types: Sequence[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        frame: FrameType | None = sys._getframe(1)
        func = _meant(func, frame)
        if frame is not None and frame.f_code is _HANDS_OVER and frame.f_back is not None:
            frame = frame.f_back.f_back  # who has called the function
        way = _WAYS.get(func)
        if way is not None and func.__name__ not in self._names:
            self._names.append(func.__name__)
        with way() if way is not None else contextlib.nullcontext():
            call = calling_at(frame) if frame is not None else _call
            return call(func, args, kwargs or {})


def _call(function: Any, args: Any, kwargs: Any) -> Any:
    return function(*args, **kwargs)


# Through this, functions of PyTorch that are written in Python come to a mode.
_HANDS_OVER = handle_torch_function.__code__


def _meant(func: Any, frame: FrameType | None) -> Any:
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
