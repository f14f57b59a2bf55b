"""Doing something around a function of PyTorch's, with one frame of ours while that is at work."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, TypeAlias

import torch

from tfdbg_cli.common.interpreter.recursion import ROOM, depth, lift, limit_now
from tfdbg_cli.engines.torch.around.compiled import wanted
from tfdbg_cli.engines.torch.private import set_callback

__all__ = ["Around", "Invocation", "surrounding"]

#: What is to be called, and with what.
Invocation: TypeAlias = tuple[Callable[..., Any], Sequence[Any], Mapping[str, Any]]
#: What is done around a call. It yields what is to be called in the function's place, once or more
#: often, and gets what that has returned (or its error is raised there). What it returns the caller
#: gets.
Around: TypeAlias = Generator[Invocation, Any, Any]

# How many frames less than `call` what it stands for takes, until it comes to the program's own.
_LEAST = 0
_is_compiling: Callable[[], bool] = torch.compiler.is_compiling


def surrounding(
    original: Callable[..., Any],
    around: Callable[..., Around | None],
    *,
    in_compiled: bool = True,
    passes: Callable[[tuple[Any, ...]], bool] | None = None,
) -> Callable[..., Any]:
    """A function that stands for another one. The compiler has to leave it alone.

    Args:
        original: the other one.
        around: gets what it is given; ``None``: nothing is to be done.
        in_compiled: whether anything is to be done in code that the compiler looks at as it runs.
            What `original` does then is compiled as it would be without us.
        passes: gets the positional arguments; whether the call is nobody's business. It is asked
            first, so that such calls cost next to nothing.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        if _is_compiling():
            return original(*args, **kwargs)
        callback = set_callback(None)  # the compiler would take `passes` for the program's
        if (callback is not None and not in_compiled) or (passes is not None and passes(args)):
            set_callback(callback)
            return original(*args, **kwargs)
        steps: Around | None = None
        value: Any = None
        next_call: Invocation | None = original, args, kwargs
        lifted: int | None = None
        try:
            # Nearly always there is room for our work.
            lifted = _own if lift(_own, ROOM) else ROOM if lift(ROOM, _LEAST) else None
            if lifted is None:
                raise RecursionError("maximum recursion depth exceeded")
            limit = limit_now()
            steps = around(*args, **kwargs)
            if steps is not None:
                next_call = next(steps)
            while next_call is not None:
                function, given, named = next_call
                going_on = wanted(callback) if callback is not None else None
                if lifted == ROOM:
                    lift(_own - ROOM)
                set_callback(going_on)  # no frame of ours comes now that could be compiled
                try:
                    try:
                        value = function(*given, **named)
                    finally:
                        set_callback(None)
                        if limit_now() != limit:  # it may leave less room than before
                            lift(ROOM - _own)
                            lifted, limit = ROOM, limit_now()
                except BaseException as error:
                    next_call, value = _failed(steps, error)
                    if next_call is None and value is _NOTHING:
                        raise
                    continue
                try:
                    next_call = None if steps is None else steps.send(value)
                except StopIteration as end:
                    next_call, value = None, end.value
            return value
        finally:
            if lifted:
                lift(-lifted)
            # A traceback may keep this frame.
            next_call = steps = value = None
            args, kwargs = given, named = (), {}
            if callback is not None:
                set_callback(wanted(callback))

    return call


_NOTHING: Any = object()


def _failed(steps: Around | None, error: BaseException) -> tuple[Invocation | None, Any]:
    """What is to be called next, or what the caller gets; `_NOTHING`: the error.

    What else `steps` raises leaves the call in its place.
    """
    traceback = error.__traceback__
    if steps is not None:
        try:
            return steps.throw(error), None
        except StopIteration as end:
            return None, end.value
        except BaseException as raised:
            if raised is not error:
                raise
    error.__traceback__ = traceback  # without frames of ours that are at their end
    return None, _NOTHING


def _here() -> int:
    return depth()


# How many frames `call` is to the interpreter, which counts calls in C as well until Python 3.11.
_own = 0
_own = surrounding(_here, lambda: None)() - _here()
