"""Updates that a program writes by hand after a backward pass: where they are, and where not."""

from __future__ import annotations

import dis
from types import CodeType, FrameType
from typing import Any

import torch

__all__ = ["begins_forward", "updates_follow"]

_BLOCKS = frozenset(["no_grad", "inference_mode"])
# The code object, so that its address stays its own, the position -> whether one follows it.
_known: dict[tuple[int, int], tuple[CodeType, bool]] = {}
_MOST_KNOWN = 1000


def updates_follow(frame: FrameType | None) -> bool:
    """Whether a function goes on with a ``with torch.no_grad()``, or calls one that has it.

    Args:
        frame: of the function, at a call.
    """
    if frame is None:
        return False
    key = (id(frame.f_code), frame.f_lasti)
    if key not in _known:
        if len(_known) > _MOST_KNOWN:
            _known.clear()
        names = {
            str(each.argval)
            for each in dis.get_instructions(frame.f_code)
            if each.offset > frame.f_lasti and isinstance(each.argval, str)
        }
        called = (frame.f_globals.get(name) for name in names)
        has_one = not names.isdisjoint(_BLOCKS) or any(map(_has_block, called))
        _known[key] = (frame.f_code, has_one)
    return _known[key][1]


def _has_block(function: Any) -> bool:
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        return False
    # The latter is what decorators like `torch.no_grad()` make.
    return not _BLOCKS.isdisjoint(code.co_names) or code.co_name == "decorate_context"


def begins_forward(arguments: Any) -> bool:
    """Whether an op, given these, is a part of a forward pass: it uses what is trained."""
    if not torch.is_grad_enabled():
        return False
    return any(
        isinstance(each, torch.Tensor) and each.requires_grad and each.is_leaf for each in arguments
    )
