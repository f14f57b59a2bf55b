"""Which file and line frames of ours seem to be at, to Python's warnings and to `inspect`.

A warning names the frame that is so many frames out from where it is given. What is put in place of
a framework's function stands between that function and who has called it, and would be named, or
counted. Python doesn't count frames of its own import system, which it knows by ``importlib`` and
``_bootstrap`` in the path of their file. So the path of such a function leads to the framework's
file by way of a folder of ours with this name: warnings skip it, `inspect` finds the file of the
function that it stands for, and to us it is one of ours.
"""

from __future__ import annotations

import os
import sys
from types import CodeType, FrameType, FunctionType
from typing import Any

from tfdbg_cli.common.interpreter.signal_gate import STAND_IN

__all__ = ["calling_at", "seem", "seeming"]

_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "importlib_bootstrap")


def seem(made: Any, original: Any) -> None:
    """Let a function be at the place of the one that it stands for, if that is known.

    Args:
        made: the function.
        original: the other one.
    """
    code = getattr(original, "__code__", None)
    if isinstance(made, FunctionType) and isinstance(code, CodeType):
        made.__code__ = seeming(made.__code__, code)


def seeming(code: CodeType, original: CodeType) -> CodeType:
    """A code at the place of another one."""
    if code.co_filename.startswith(_FOLDER):
        return code
    try:
        path = os.path.relpath(original.co_filename, _FOLDER)
    except ValueError:  # on another drive
        return code
    return code.replace(
        co_filename=os.path.join(_FOLDER, path), co_firstlineno=original.co_firstlineno
    )


_called = lambda function, args, kwargs: function(*args, **kwargs)  # noqa: E731  # on one line
_CALL: CodeType = _called.__code__.replace(co_name=STAND_IN)
_MOST = 20_000
# By the ids of codes, which live as long as they, and positions in them.
_callers: dict[tuple[int, int], tuple[CodeType, FunctionType]] = {}


def calling_at(frame: FrameType) -> FunctionType:
    """A function that calls another one with what it is given, as if where a frame stands.

    Warnings that are given in C name the frame that is innermost.
    """
    code = frame.f_code
    key = id(code), frame.f_lasti
    known = _callers.get(key)
    if known is not None and known[1].__globals__ is frame.f_globals:
        return known[1]
    at = _CALL.replace(co_filename=code.co_filename, co_firstlineno=frame.f_lineno or 1)
    made = FunctionType(at, frame.f_globals)
    module = sys.modules.get(frame.f_globals.get("__name__", ""))
    if module is not None and vars(module) is frame.f_globals:  # else it would be kept alive here
        if len(_callers) >= _MOST:
            _callers.clear()
        _callers[key] = (code, made)
    return made
