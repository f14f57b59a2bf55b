"""Sees calls of compiled functions, those included that were compiled before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfdbg_cli.dumps.sources import show_program_only
from tfdbg_cli.engines.jax.private import (
    NAMES,
    compiled_function,
    flat_callback,
    let_calls_be_replaced,
)
from tfdbg_cli.engines.jax.runs.runs import JaxRuns
from tfdbg_cli.engines.kit.patches import PatchSet

__all__ = ["JaxPatches"]


class JaxPatches:
    """Tells the runs of what happens.

    Args:
        runs: of the program.
    """

    def __init__(self, runs: JaxRuns) -> None:
        self._runs = runs
        self._patches = PatchSet(NAMES.framework)

    def install(self) -> None:
        """See it from now on."""
        if self._patches:
            return
        NAMES.check()
        NAMES.tell_version()
        do, undo = let_calls_be_replaced()
        with self._patches.together():
            self._patches.replace(compiled_function, "__call__", self._called, wraps=False)
            self._patches.also(do, undo)
            if flat_callback is not None:
                self._patches.replace(flat_callback, "__call__", self._called_back)

    def undo(self) -> None:
        """Don't."""
        self._patches.undo()

    def _called(self, original: Callable[..., Any]) -> Callable[..., Any]:
        runs = self._runs

        def __call__(self: Any, /, *args: Any, **kwargs: Any) -> Any:
            try:
                return runs.call(self, args, kwargs, original)
            except Exception as error:
                show_program_only(error)
                raise

        return __call__

    def _called_back(self, original: Callable[..., Any]) -> Callable[..., Any]:
        runs = self._runs

        def called(self: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                result = original(self, *args, **kwargs)
            except BaseException as error:
                runs.called_back(self, error)
                raise
            runs.called_back(self, result)
            return result

        return called
