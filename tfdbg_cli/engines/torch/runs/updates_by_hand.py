"""Updates that a program writes by hand after a backward pass: where they are, and where not."""

from __future__ import annotations

import dis
import functools
import sys
from collections.abc import Mapping, Sequence
from inspect import getattr_static
from types import CodeType, FrameType, FunctionType
from typing import Any, NamedTuple

import torch

from tfdbg_cli.dumps.sources import is_library_path

__all__ = ["Update", "update_after"]

_BLOCKS = frozenset(["no_grad", "inference_mode"])
# What handles errors, as of each `with`, stands at the end of the code, far from the loop or the
# lines that it jumps back to.
_HANDLERS_LAST = sys.version_info >= (3, 12)
# How far calls are followed: `train` calls `update`, that `sgd`, that `sgd_one`.
_DEEPEST = 4
# The code object, so that its address stays its own, the position -> what follows it.
_known: dict[tuple[int, int], tuple[CodeType, Update | None]] = {}
_MOST_KNOWN = 1000


class Update(NamedTuple):
    """Where the update is that a function goes on with after a call.

    Attributes:
        code: of the function.
        at: where the call is in it.
        begin: the line of the call.
        end: the last line of the update; 0: it has a block, whose end is seen.
    """

    code: CodeType
    at: int
    begin: int
    end: int

    def is_over(self, arguments: Any, frame: FrameType | None) -> bool:
        """Whether an op comes after it.

        Args:
            arguments: what the op is given.
            frame: that calls it.
        """
        if not self.end:
            return _begins_forward(arguments)
        while frame is not None and frame.f_code is not self.code:
            frame = frame.f_back
        return frame is None or not self.begin <= (frame.f_lineno or self.end) <= self.end

    def may_go_on(self, frame: FrameType | None) -> bool:
        """Whether a block that is left now may come again: it is in a loop over parameters.

        Args:
            frame: that leaves it.
        """
        while frame is not None:
            is_here = frame.f_code is self.code
            for start, end in _loops(frame.f_code):
                if start <= frame.f_lasti <= end and not (is_here and start <= self.at <= end):
                    return True
            if is_here:
                return False
            frame = frame.f_back
        return False


@functools.lru_cache(maxsize=1000)
def _loops(code: CodeType) -> tuple[tuple[int, int], ...]:
    """Where the loops of a piece of code begin and end."""
    instructions = list(dis.get_instructions(code))
    return tuple(
        (each.argval, each.offset)
        for place, each in enumerate(instructions)
        if "JUMP_BACKWARD" in each.opname
        and not (_HANDLERS_LAST and _follows_handler(instructions, place))
    )


def _follows_handler(instructions: Sequence[dis.Instruction], place: int) -> bool:
    return any(each.opname == "POP_EXCEPT" for each in instructions[max(place - 4, 0) : place])


def update_after(frame: FrameType | None) -> Update | None:
    """The update by hand that a function goes on with, itself or in what it calls, if any.

    That is a ``with torch.no_grad()``, or a write to a tensor's ``data``.

    Args:
        frame: of the function, at a call.
    """
    if frame is None:
        return None
    key = (id(frame.f_code), frame.f_lasti)
    if key not in _known:
        if len(_known) > _MOST_KNOWN:
            _known.clear()
        _known[key] = (frame.f_code, _find(frame))
    return _known[key][1]


def _find(frame: FrameType) -> Update | None:
    code, names = frame.f_code, {**frame.f_globals, **frame.f_locals}
    ahead = [each for each in dis.get_instructions(code) if each.offset > frame.f_lasti]
    if any(each.argval in _BLOCKS for each in ahead if isinstance(each.argval, str)):
        return Update(code, frame.f_lasti, frame.f_lineno, 0)
    places = _places(ahead, names, type(names.get("self")), _DEEPEST)
    if not places:
        return None
    ends = [each.positions.end_lineno for each in ahead[: places[-1] + 1] if each.positions]
    end = max(filter(None, ends), default=0)
    return Update(code, frame.f_lasti, frame.f_lineno, end)


def _places(
    instructions: Sequence[dis.Instruction], names: Mapping[str, Any], owner: type, depth: int
) -> list[int]:
    """Which instructions make an update, or call what has one.

    Args:
        instructions: a piece of code.
        names: what it knows.
        owner: the class of ``self``.
        depth: how far calls are followed.
    """
    places = []
    for place, each in enumerate(instructions):
        name = each.argval
        if not isinstance(name, str):
            continue
        # `w.data -= ...`, `w.data = ...`; `w.data.add_(...)`
        is_data = each.opname == "STORE_ATTR" and name == "data"
        is_data |= name.endswith("_") and place > 0 and instructions[place - 1].argval == "data"
        called = names.get(name, getattr_static(owner, name, None)) if depth else None
        if is_data or name in _BLOCKS or _has_update(called, owner, depth - 1):
            places.append(place)
    return places


def _has_update(function: Any, owner: type, depth: int) -> bool:
    if not isinstance(function, FunctionType):
        return False
    code = function.__code__
    if code.co_name == "decorate_context":  # what decorators like `torch.no_grad()` make
        return True
    if is_library_path(code.co_filename):
        return not _BLOCKS.isdisjoint(code.co_names)
    return bool(_places(list(dis.get_instructions(code)), function.__globals__, owner, depth))


def _begins_forward(arguments: Any) -> bool:
    """Whether an op, given these, is a part of a forward pass: it uses what is trained."""
    if not torch.is_grad_enabled():
        return False
    return any(
        isinstance(each, torch.Tensor) and each.requires_grad and each.is_leaf for each in arguments
    )
