"""Calls of one traced function that go through somebody else."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tensorflow.python.eager import context

from tfdbg_cli.engines.kit.patching.patches import PatchSet
from tfdbg_cli.engines.tensorflow.functions.private import NAMES

__all__ = ["InterceptedCall", "intercept"]


class InterceptedCall:
    """Calls a function as it was meant to be.

    Args:
        original: the method that does.
        function: the framework's object.
    """

    def __init__(self, original: Callable[..., Any], function: Any) -> None:
        self._original, self._function = original, function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._original(self._function, *args, **kwargs)


def intercept(
    function: Any, around: Callable[[Callable[..., Any], Any, Any], Any]
) -> Callable[[], None]:
    """Let calls of a function by the program go through another one; see `StepsCalls.intercept`.

    What other functions trace of it is theirs.
    """

    def replaced(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def call(called: Any, *args: Any, **kwargs: Any) -> Any:
            if called is not function or not context.executing_eagerly():
                return original(called, *args, **kwargs)
            return around(InterceptedCall(original, called), args, kwargs)

        return call

    owner = next(each for each in type(function).__mro__ if "__call__" in vars(each))
    patches = PatchSet(NAMES.framework)
    with patches.together():
        patches.replace(owner, "__call__", replaced)
    return patches.undo
