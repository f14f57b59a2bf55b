"""Fused kernels as their parts: ``config expand``."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from tfdbg_cli.engines.torch.private import fused_switches
from tfdbg_cli.engines.torch.record.capture import ApiMode, meant

__all__ = ["FUSED_MODULES", "ExpandingMode"]

#: Modules that take another way, of many ops instead of a fused kernel, as soon as they see that
#: somebody notes which functions are called.
FUSED_MODULES = (
    torch.nn.MultiheadAttention,
    torch.nn.TransformerEncoder,
    torch.nn.TransformerEncoderLayer,
)


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


class ExpandingMode(ApiMode):
    """Does without fused kernels for attention, transformer layers and recurrent layers.

    Only during the calls themselves: the program's own choices stay in force around them.

    Attributes:
        names: of the functions that were done in parts.
    """

    def __init__(self, ops: Any) -> None:
        super().__init__(ops)
        self.names: list[str] = []

    def notes(self) -> list[str]:
        """That the numbers may differ."""
        what = ", ".join(self.names)
        text = f"{what} ran as parts: the numbers are those of the parts (config expand)."
        return [text] if what else []

    def __torch_function__(
        self, func: Any, types: Sequence[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        func = meant(func, sys._getframe(1))
        way = _WAYS.get(func)
        if way is None:
            return self._call(func, args, kwargs)
        if func.__name__ not in self.names:
            self.names.append(func.__name__)
        with way():
            return self._call(func, args, kwargs)
