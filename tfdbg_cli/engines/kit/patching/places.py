"""Which file and line frames of ours seem to be at, to Python's warnings and to `inspect`.

A warning names the frame that is so many frames out from where it is given. What is put in place of
a framework's function stands between that function and who has called it, and would be named, or
counted. Python doesn't count frames of its own import system, which it knows by ``importlib`` and
``_bootstrap`` in the path of their file. So the path of such a function leads to the framework's
file by way of a folder of ours with this name: warnings skip it, `inspect` finds the file of the
function that it stands for, and to us it is one of ours.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType
from typing import Any

from tfdbg_cli.common.interpreter.signal_gate import STAND_IN

__all__ = ["calling_at", "seem", "seeming"]

_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "importlib_bootstrap")
# What comes behind it is a file's whole path, by which a framework may know its own.
_TO_ROOT = os.path.join(_FOLDER, *[".."] * len(Path(_FOLDER).parts[1:]))


# By the ids of codes, which live as long as they: what `seeming` gives, and the two.
_seeming: dict[tuple[int, int], tuple[CodeType, CodeType, CodeType]] = {}
_MOST_SEEMING = 1000


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
    """A code at the place of another one; the same one whenever it is asked for."""
    if code.co_filename.startswith(_FOLDER):
        return code
    known = _seeming.get((id(code), id(original)))
    if known is None:
        if len(_seeming) >= _MOST_SEEMING:
            _seeming.clear()
        path = _TO_ROOT + original.co_filename
        made = code.replace(co_filename=path, co_firstlineno=original.co_firstlineno)
        known = _seeming[id(code), id(original)] = made, code, original
    return known[0]


# Each is on one line, which becomes the frame's.
_called = lambda function, args, kwargs: function(*args, **kwargs)  # noqa: E731
_traced = lambda function, args, kwargs: (args[0](args[1]), function(*args[2], **kwargs))[1]  # noqa: E731
_CALL, _CALL_TRACED = (each.__code__.replace(co_name=STAND_IN) for each in (_called, _traced))
_MOST = 20_000
# By the ids of codes, which live as long as they, and positions in them.
_callers: dict[tuple[int, int, bool], tuple[CodeType, FunctionType]] = {}


def calling_at(frame: FrameType) -> Callable[..., Any]:
    """A function that calls another one with what it is given, as if where a frame stands.

    Warnings that are given in C name the frame that is innermost.
    """
    trace = sys.gettrace()
    if trace is not None and isinstance(sys.settrace, BuiltinFunctionType):
        return functools.partial(_call_untraced, _at(frame, _CALL_TRACED), trace)
    return _at(frame, _CALL)


def _at(frame: FrameType, call: CodeType) -> FunctionType:
    code = frame.f_code
    key = id(code), frame.f_lasti, call is _CALL
    known = _callers.get(key)
    if known is not None and known[1].__globals__ is frame.f_globals:
        return known[1]
    at = call.replace(co_filename=code.co_filename, co_firstlineno=frame.f_lineno or 1)
    made = FunctionType(at, frame.f_globals)
    module = sys.modules.get(frame.f_globals.get("__name__", ""))
    if module is not None and vars(module) is frame.f_globals:  # else it would be kept alive here
        if len(_callers) >= _MOST:
            _callers.clear()
        _callers[key] = (code, made)
    return made


def _call_untraced(call: Any, trace: Any, function: Any, args: Any, kwargs: Any) -> Any:
    """The program's trace function, as coverage and debuggers have one, doesn't see the frame."""
    sys.settrace(None)
    return call(function, (sys.settrace, trace, args), kwargs)
