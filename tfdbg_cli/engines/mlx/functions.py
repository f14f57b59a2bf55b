"""MLX's functions of functions: gradients, compiled functions, checkpoints, and those not seen."""

from __future__ import annotations

import copy
import functools
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import get_ident
from types import FrameType, MethodType
from typing import Any

import mlx.core as mx

from tfdbg_cli.engines.kit.patching.patches import PatchSet
from tfdbg_cli.engines.kit.sites import argument_names, named_parts
from tfdbg_cli.engines.mlx.private import CALL, COMPILED, compiled_function, is_compiled, is_module
from tfdbg_cli.engines.mlx.runs import INFERENCE, STEP, Runs, name_of
from tfdbg_cli.engines.mlx.tape import TAPES, Differentiation, Tape, arrays_in

__all__ = ["see_functions"]


def see_functions(runs: Runs, patches: PatchSet) -> None:
    """Let the functions that they make be told to the tape of their thread."""
    patches.replace(mx, "grad", lambda original: _differentiating(runs, original, False))
    patches.replace(mx, "value_and_grad", lambda original: _differentiating(runs, original, True))
    patches.replace(mx, "compile", lambda original: _compiling(runs, original))
    patches.replace(mx, "checkpoint", _checkpointing)
    patches.replace(mx, "vmap", lambda original: _making_unseen(original, "vmap"))
    for name in ("jvp", "vjp"):
        patches.replace(mx, name, functools.partial(_unseen, name))
    patches.replace(COMPILED, "__call__", functools.partial(_called_late, runs))
    call = functools.partial(_unseen, "custom_function")
    patches.replace(mx.custom_function, "__call__", call)


def _given(args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[mx.array]:
    """The arrays that a function gets; those of a module are no operands."""
    seen = [each for each in args if not is_module(each)]
    return [*arrays_in((seen, dict(kwargs)))]


# Gradients.


class _Model:
    """What is known of a function whose gradient is asked for.

    Args:
        function: it; what `nn.value_and_grad` makes of a function has its module.
    """

    def __init__(self, function: Any) -> None:
        self.module: Any = None
        self.function = function
        code = getattr(function, "__code__", None)
        if code is not None and {"model", "fn"} <= {*code.co_freevars}:
            cells = dict(zip(code.co_freevars, function.__closure__, strict=True))
            model = cells["model"].cell_contents
            if is_module(model):
                self.module, self.function = model, cells["fn"].cell_contents

    def title(self) -> str:
        """What to call a call."""
        return getattr(self.function, "__name__", "") or type(self.function).__name__

    def inputs(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Its arrays by the user's names, without the parameters of the module."""
        own = args[1:] if self.module is not None else args
        named = argument_names(self.function, (*own,), kwargs)
        return {
            name: array
            for key, each in named.items()
            if not is_module(each)
            for name, array in named_parts(key, each, mx.array, depth=8, most=None)
        }


def _differentiating(runs: Runs, original: Any, has_value: bool) -> Any:
    def make(fun: Any, argnums: Any = None, argnames: Any = ()) -> Any:
        pending: list[tuple[Tape, Differentiation, list[mx.array]]] = []
        model = _Model(fun)

        def inner(*args: Any, **kwargs: Any) -> Any:
            if not pending:
                return fun(*args, **kwargs)
            tape, of, given = pending.pop()
            tape.enter(of, _given(args, kwargs), given)
            base = tape.base(sys._getframe())
            try:
                result = fun(*args, **kwargs)
                tape.left(of, result)
                return result
            finally:
                tape.base_again(base)
                # What comes now is the backward pass, which may call functions of the program's.
                TAPES.pop(get_ident(), None)

        function = functools.wraps(fun)(inner) if hasattr(fun, "__name__") else inner
        made = original(function, argnums, argnames)

        def call(*args: Any, **kwargs: Any) -> Any:
            thread = get_ident()
            frame = sys._getframe(1)
            key = model.module if model.module is not None else fun
            inputs = functools.partial(model.inputs, args, kwargs)
            with runs.outermost(STEP, key, model.title, inputs):
                tape = TAPES.get(thread)
                if tape is None:
                    return made(*args, **kwargs)
                recorder = runs.recorder()
                if recorder is not None and model.module is not None:
                    name = name_of(model.module, frame, "model")
                    recorder.root(name, model.module)
                    recorder.parameters(name, args[0])
                of, body = tape.differentiates(frame)
                pending.append((tape, of, _given(args, kwargs)))
                try:
                    result = made(*args, **kwargs)
                finally:
                    pending.clear()
                    tape.body = body
                    tape.goes_on(thread)
                if model.module is not None:  # it has its arrays again, in other objects
                    again = [*arrays_in(model.module.trainable_parameters())]
                    tape.same(again, [*arrays_in(args[0])])
                value, gradients = result if has_value else (None, result)
                chosen = _chosen(args, kwargs, argnums, argnames, gradients)
                tape.came_back(of, value, *chosen)
                return result

        return functools.wraps(fun)(call) if hasattr(fun, "__name__") else call

    return make


def _chosen(
    args: Sequence[Any], kwargs: Mapping[str, Any], argnums: Any, argnames: Any, gradients: Any
) -> tuple[list[mx.array], list[mx.array]]:
    """What is differentiated, and the gradients in the same order."""
    names = [argnames] if isinstance(argnames, str) else [*(argnames or ())]
    if argnums is None:
        places = [] if names else [0]
    else:
        places = [argnums] if isinstance(argnums, int) else [*argnums]
    of = [*arrays_in([args[each] for each in places])]
    if not names:
        return of, [*arrays_in(gradients)]
    of += arrays_in([kwargs[each] for each in names])
    found = [*arrays_in(gradients[0])] if places else []
    return of, [*found, *arrays_in([gradients[1][each] for each in names])]


# Compiled functions.


class _Compiled:
    """A compiled function, of which the traces are known.

    Args:
        runs: the program's.
        original: `mx.compile`.
        fun, inputs, outputs, shapeless: its arguments.
        made: what it has made of them, if that was before we came.
    """

    def __init__(
        self,
        runs: Runs,
        original: Any,
        fun: Any,
        inputs: Any = None,
        outputs: Any = None,
        shapeless: bool = False,
        made: Any = None,
    ) -> None:
        self._runs, self._fun, self._inputs, self._outputs = runs, fun, inputs, outputs
        self.traces: list[Tape] = []
        self._tracing: Tape | None = None
        self._is_late = made is not None
        if made is not None:
            functools.update_wrapper(self, fun)
            self._made = made
            return
        me = weakref.ref(self)

        def trace(*args: Any, **kwargs: Any) -> Any:
            own = me()
            return own._trace(sys._getframe(), args, kwargs) if own else fun(*args, **kwargs)

        if hasattr(fun, "__name__"):
            functools.update_wrapper(self, fun)
            functools.update_wrapper(trace, fun)
        self._made = functools.partial(CALL, original(trace, inputs, outputs, shapeless))

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        return self if owner is None else MethodType(self, owner)

    def _all_given(self, args: Any, kwargs: Any) -> list[mx.array]:
        return [*arrays_in((args, kwargs)), *arrays_in(self._inputs)]

    def _trace(self, boundary: FrameType, args: Any, kwargs: Any) -> Any:
        thread = get_ident()
        before = TAPES.get(thread)
        tape = Tape(boundary=boundary)
        tape.takes(self._all_given(args, kwargs), _constants((args, kwargs)))
        TAPES[thread] = self._tracing = tape
        try:
            result = self._fun(*args, **kwargs)
        finally:
            TAPES.pop(thread, None)
            if before is not None:
                before.goes_on(thread)
        tape.gives([*arrays_in(result), *arrays_in(self._outputs)])
        self.traces[:] = [each for each in self.traces if each.kinds != tape.kinds]
        self.traces.append(tape)
        return result

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        frame = sys._getframe(1)
        kind = STEP if self._outputs is not None else INFERENCE

        def title() -> str:
            return getattr(self._fun, "__name__", "") or "compiled"

        def inputs() -> dict[str, Any]:
            named = argument_names(self._fun, args, kwargs)
            parts = (named_parts(name, each, mx.array) for name, each in named.items())
            return dict(part for found in parts for part in found)

        if TAPES.get(get_ident()) is not None:
            return self._call(frame, args, kwargs)
        with self._runs.outermost(kind, self, title, inputs):
            if kind == STEP:
                self._runs.updated()
            return self._call(frame, args, kwargs)

    def _call(self, frame: FrameType, args: Any, kwargs: Any) -> Any:
        tape = TAPES.get(get_ident())
        if tape is None:
            return self._made(*args, **kwargs)
        recorder = self._runs.recorder()
        if recorder is not None and recorder.tape is tape and self._inputs is not None:
            self._name(recorder, frame)
        given = self._all_given(args, kwargs)
        if self._is_late and not any(each.is_for(given) for each in self.traces):
            self._trace(sys._getframe(), *_copied((args, kwargs)))
        if self._is_late:  # it may be traced once more, by MLX
            TAPES.pop(get_ident(), None)
        refs = [tape.ref(each, frame) for each in given]
        self._tracing = None
        try:
            result = self._made(*args, **kwargs)
        except Exception:
            if self._tracing is not None:  # what came before the error is shown
                tape.errors += self._tracing.errors
                tape.call([self._tracing], refs, _constants((args, kwargs)), [], frame)
            raise
        finally:
            tape.goes_on(get_ident())
        made = [*arrays_in(result), *arrays_in(self._outputs)]
        tape.call(self.traces, refs, _constants((args, kwargs)), made, frame)
        return result

    def _name(self, recorder: Any, frame: FrameType) -> None:
        """What it gets besides its arguments is called as the user calls it."""
        parts = self._inputs if isinstance(self._inputs, list | tuple) else [self._inputs]
        for place, each in enumerate(parts):
            if is_module(each):
                name = name_of(each, frame, "model")
                recorder.root(name, each)
                recorder.parameters(name, each)
            elif isinstance(each, dict | list | tuple):
                recorder.parameters(f"state[{place}]", each)


def _constants(value: Any) -> list[Any]:
    """What isn't an array of a function's arguments."""
    return [*_others(value)]


def _others(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple):
        for each in value:
            yield from _others(each)
    elif isinstance(value, dict):
        for key, each in value.items():
            yield key
            yield from _others(each)
    elif type(value) is not mx.array:
        yield value


def _copied(value: Any) -> Any:
    """Arguments with other arrays that have the same elements."""
    if type(value) is mx.array:
        return copy.copy(value)
    if isinstance(value, list | tuple):
        return type(value)([_copied(each) for each in value])
    if type(value) is dict:
        return {key: _copied(each) for key, each in value.items()}
    return value


def _called_late(runs: Runs, original: Any) -> Any:
    """See calls of functions that were compiled before we came: of MLX's own, what they compute."""
    known: dict[int, tuple[Any, Any]] = {}

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = known.get(id(self))
        if found is None:
            made = functools.partial(original, self)
            if not is_compiled(self):
                return made(*args, **kwargs)
            function = compiled_function(self)
            if function is not None and function.__module__.startswith("mlx."):
                found = self, _Compiled(runs, None, function, made=made)
            else:
                found = self, _unseen("compiled", made)
            known[id(self)] = found
        return found[1](*args, **kwargs)

    return __call__


def _compiling(runs: Runs, original: Any) -> Any:
    def make(fun: Any, *args: Any, **kwargs: Any) -> Any:
        return _Compiled(runs, original, fun, *args, **kwargs)

    return make


# Checkpoints, and functions whose insides aren't seen.


def _checkpointing(original: Any) -> Any:
    def make(fun: Any) -> Any:
        pending: list[tuple[Tape, list[mx.array]]] = []
        results: list[Any] = []

        def inner(*args: Any, **kwargs: Any) -> Any:
            if not pending:  # it is computed again
                return fun(*args, **kwargs)
            tape, given = pending.pop()
            tape.same(_given(args, kwargs), given)
            result = fun(*args, **kwargs)
            results.append([*arrays_in(result)])
            return result

        made = original(inner)

        def call(*args: Any, **kwargs: Any) -> Any:
            tape = TAPES.get(get_ident())
            if tape is None:
                return made(*args, **kwargs)
            pending.append((tape, _given(args, kwargs)))
            try:
                result = made(*args, **kwargs)
                for each in results:
                    tape.same([*arrays_in(result)], each)
                return result
            finally:
                pending.clear()
                results.clear()

        return call

    return make


def _unseen(op_type: str, original: Any) -> Any:
    """The stand-in of a function that calls others in its own way: all of it is one op."""

    def call(*args: Any, **kwargs: Any) -> Any:
        thread = get_ident()
        tape = TAPES.pop(thread, None)
        if tape is None:
            return original(*args, **kwargs)
        try:
            result = original(*args, **kwargs)
        finally:
            tape.goes_on(thread)
        tape.op(op_type, None, (*arrays_in((args, kwargs)),), {}, result, sys._getframe(1))
        return result

    return call


def _making_unseen(original: Callable[..., Any], op_type: str) -> Any:
    return lambda *args, **kwargs: _unseen(op_type, original(*args, **kwargs))
