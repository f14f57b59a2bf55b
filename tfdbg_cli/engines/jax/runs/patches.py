"""Sees calls of compiled functions, those included that were compiled before."""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable
from typing import Any

import jax
from jax.stages import Compiled, Lowered, Traced

from tfdbg_cli.common.interpreter.recursion import Passage
from tfdbg_cli.dumps.sources import PACKAGE
from tfdbg_cli.engines.jax.private import (
    NAMES,
    call_primitive,
    callback_results,
    compiled_function,
    hide_frames,
    let_calls_be_replaced,
)
from tfdbg_cli.engines.jax.runs.errors import show_errors_program_only
from tfdbg_cli.engines.jax.runs.runs import JaxRuns
from tfdbg_cli.engines.kit.patching.patches import PatchSet

__all__ = ["JaxPatches"]

# What makes functions that compute gradients, op by op where the program doesn't compile them.
_GRADIENTS = ("grad", "value_and_grad", "jacfwd", "jacrev", "jacobian", "hessian")


class JaxPatches:
    """Tells the runs of what happens.

    Args:
        runs: of the program.
    """

    def __init__(self, runs: JaxRuns) -> None:
        self._runs = runs
        self._patches = PatchSet(NAMES.framework)
        self._traced: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()

    def install(self) -> None:
        """See it from now on."""
        if self._patches:
            return
        NAMES.check()
        hide_frames(PACKAGE)
        do, undo = let_calls_be_replaced()
        with self._patches.together():
            self._patches.replace(compiled_function, "__call__", self._called, wraps=False)
            self._patches.also(do, undo)
            if call_primitive is not None:
                self._patches.replace(call_primitive, "impl", self._called_by_jax)
            for name in _GRADIENTS:
                self._patches.replace(jax, name, self._gradients)
            self._patches.replace(Traced, "lower", self._lowered)
            self._patches.replace(Lowered, "compile", self._compiled)
            self._patches.replace(Compiled, "__call__", self._called_compiled)
            callback_results(self._patches, self._runs.called_back)

    def undo(self) -> None:
        """Don't."""
        self._patches.undo()

    def _called(self, original: Callable[..., Any]) -> Callable[..., Any]:
        runs = self._runs

        def __call__(self: Any, /, *args: Any, **kwargs: Any) -> Any:
            try:
                with Passage(original, is_called_in_c=True) as plain:
                    return runs.call(self, args, kwargs, plain)
            except Exception as error:
                show_errors_program_only(error)
                raise

        return __call__

    def _called_by_jax(self, original: Callable[..., Any]) -> Callable[..., Any]:
        runs = self._runs

        def call(*values: Any, **params: Any) -> Any:
            jaxpr, name = params.get("jaxpr"), str(params.get("name", ""))
            is_donated = any(params.get("donated_invars", ()))
            try:
                with Passage(functools.partial(original, *values, **params)) as plain:
                    return runs.call_jaxpr(name, jaxpr, values, is_donated, plain)
            except Exception as error:
                show_errors_program_only(error)
                raise

        return call

    def _gradients(self, original: Callable[..., Any]) -> Callable[..., Any]:
        runs = self._runs

        def of(fun: Callable[..., Any], *given: Any, **options: Any) -> Callable[..., Any]:
            made = original(fun, *given, **options)

            @functools.wraps(made)
            def call(*args: Any, **kwargs: Any) -> Any:
                try:
                    with Passage(functools.partial(made, *args, **kwargs)) as plain:
                        return runs.call_gradient(fun, args, kwargs, plain)
                except Exception as error:
                    show_errors_program_only(error)
                    raise

            return call

        return of

    # Ahead of time: what was traced is remembered by what is made of it.

    def _lowered(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def lower(traced: Any, *args: Any, **kwargs: Any) -> Any:
            made = original(traced, *args, **kwargs)
            self._remember(made, traced)
            return made

        return lower

    def _compiled(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def compile_it(lowered: Any, *args: Any, **kwargs: Any) -> Any:
            made = original(lowered, *args, **kwargs)
            traced = self._traced.get(lowered)
            if traced is not None:
                self._remember(made, traced)
            return made

        return compile_it

    def _remember(self, made: Any, traced: Any) -> None:
        with contextlib.suppress(TypeError):
            self._traced[made] = traced

    def _called_compiled(self, original: Callable[..., Any]) -> Callable[..., Any]:
        runs = self._runs

        def call(compiled: Any, /, *args: Any, **kwargs: Any) -> Any:
            traced = self._traced.get(compiled)
            if traced is None:
                return original(compiled, *args, **kwargs)
            values = jax.tree.leaves((args, kwargs))
            is_donated = bool(getattr(traced, "donate_argnums", ()))
            try:
                with Passage(functools.partial(original, compiled, *args, **kwargs)) as plain:
                    return runs.call_jaxpr(
                        traced.fun_name, traced.jaxpr, values, is_donated, plain, lambda _: False
                    )
            except Exception as error:
                show_errors_program_only(error)
                raise

        return call
