"""Where runs begin and end, and calls of modules and optimizers in them."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from threading import get_ident
from types import FrameType
from typing import Any

import mlx.core as mx

from tfdbg_cli.common.node_words import OPTIMIZER
from tfdbg_cli.dumps.sources import show_program_only
from tfdbg_cli.engines.kit.patching.patches import PatchSet
from tfdbg_cli.engines.kit.recording.program_kit import ProgramKit
from tfdbg_cli.engines.kit.sites import argument_names, name_in, named_parts
from tfdbg_cli.engines.kit.stacks import user_frame
from tfdbg_cli.engines.mlx.private import is_module, modules_below
from tfdbg_cli.engines.mlx.tape import TAPES, Tape, arrays_in

__all__ = ["INFERENCE", "STEP", "Runs", "name_of", "see_runs"]

#: The kinds of runs.
STEP, INFERENCE = "training step", "inference run"
# What makes an array's elements real, besides `eval`.
_READING = (
    *("item", "tolist", "__array__", "__bool__", "__float__", "__int__", "__index__"),
    *("__complex__", "__repr__", "__format__", "__str__", "__dlpack__"),
)


class Runs:
    """The run that is open, seen from the functions that stand for MLX's.

    Args:
        engine: whose runs they are.
    """

    def __init__(self, engine: ProgramKit) -> None:
        self._engine = engine
        self._kind = ""
        self._depth = 0
        self._model: Callable[[], Any] = lambda: None
        self._is_updated = False

    def recorder(self) -> Any:
        """What records this thread; ``None``: nothing does."""
        return self._engine.recorder()

    @property
    def is_open(self) -> bool:
        """Whether a run is open that this has begun, and its outermost call is over."""
        return bool(self._kind) and not self._depth and self._is_here

    @property
    def _is_here(self) -> bool:
        return self._engine.program().runs.is_here()

    def outermost(
        self,
        kind: str,
        model: Any,
        title: Callable[[], str],
        inputs: Callable[[], Mapping[str, Any]],
    ) -> AbstractContextManager[None]:
        """Around a call that begins a run, if none is open, or goes on with it.

        Args:
            kind: of run.
            model: what is called.
            title: what to call the run.
            inputs: the arrays that it gets, by the user's names.
        """
        return _Outermost(self, kind, model, title, inputs)

    def enter(
        self,
        kind: str,
        model: Any,
        title: Callable[[], str],
        inputs: Callable[[], Mapping[str, Any]],
    ) -> bool:
        """A call begins; whether it is one of the run's."""
        if not self._is_here:
            return False
        if self._depth:
            self._depth += 1
            return True
        if self.is_open and (kind == STEP or (self._kind == kind and model is self._model())):
            self.close()
        engine = self._engine
        if not engine.is_open:
            engine.begin(kind, title(), lambda: dict(inputs()))
            self._kind = kind if engine.is_open else ""
            self._is_updated = False
            self._model = weakref.ref(model) if is_module(model) else lambda: model
        if not engine.is_open:
            return False
        self._depth = 1
        return True

    def leave(self, error: BaseException | None) -> None:
        """It ends."""
        self._depth -= 1
        if error is not None and not self._depth and self._kind:
            self._kind = ""
            self._engine.end(error)

    def updated(self) -> None:
        """An optimizer has made new parameters."""
        self._is_updated = True

    def real(self, is_all: bool) -> None:
        """Arrays have been computed: a run that is waiting for it ends.

        Args:
            is_all: as the program has asked for it; else it has only looked at one.
        """
        if self.is_open and (is_all or self._kind == INFERENCE or self._is_updated):
            self.close()

    def close(self, error: BaseException | None = None) -> None:
        """The run ends, maybe with an error."""
        self._kind = ""
        self._engine.end(error)


class _Outermost(AbstractContextManager[None]):
    def __init__(self, runs: Runs, *call: Any) -> None:
        self._runs, self._call = runs, call
        self._is_in = False

    def __enter__(self) -> None:
        self._is_in = self._runs.enter(*self._call)

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        try:
            if self._is_in:
                self._runs.leave(error)
        finally:
            if error is not None:
                show_program_only(error)


def see_runs(runs: Runs, patches: PatchSet) -> None:
    """See calls of modules and optimizers, and what makes arrays real."""
    # Only now that `mx.compile` is seen: `mlx.nn` compiles functions.
    from mlx import nn, optimizers

    array: Any = mx.array
    patches.replace(mx, "eval", lambda original: _evaluated(runs, original))
    for name in _READING:
        if hasattr(array, name):
            patches.replace(array, name, lambda original: _read(runs, original))
    seen: set[type] = set()

    def see_class(kind: type) -> None:
        for each in kind.__mro__:
            if each not in seen and issubclass(each, nn.Module):
                seen.add(each)
                if "__call__" in vars(each):
                    patches.replace(each, "__call__", lambda original: _called(runs, original))

    def made(original: Any) -> Any:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            see_class(type(self))

        return __init__

    patches.replace(nn.Module, "__init__", made)
    for each in modules_below():
        see_class(each)
    for kind in [optimizers.Optimizer, *_below(optimizers.Optimizer)]:
        if "apply_gradients" in vars(kind):
            patches.replace(kind, "apply_gradients", lambda original: _update(runs, original))


def _below(kind: Any) -> Iterator[type]:
    for each in kind.__subclasses__():
        yield each
        yield from _below(each)


def _evaluated(runs: Runs, original: Any) -> Any:
    def eval(*args: Any) -> None:
        recorder = runs.recorder() if runs.is_open else None
        tape = recorder.tape if recorder is not None else None
        try:
            original(*args, *(tape.checks if tape is not None else ()))
        except Exception as error:
            if tape is not None:
                tape.failed(error, "eval", (*arrays_in(args),), {}, sys._getframe(1))
                runs.close(error)
            show_program_only(error)
            raise
        runs.real(True)

    return eval


def _read(runs: Runs, original: Any) -> Any:
    def read(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = original(self, *args, **kwargs)
        if runs.is_open:
            runs.real(False)
        return found

    return read


def name_of(value: Any, frame: FrameType | None, default: str) -> str:
    """What the user calls a module or an optimizer."""
    return name_in(user_frame(frame), value) or default


def _called(runs: Runs, original: Any) -> Any:
    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        thread = get_ident()
        tape = TAPES.get(thread)
        if tape is not None and tape.modules:
            return inner(tape, self, args, kwargs)

        def inputs() -> dict[str, Any]:
            named = argument_names(original, (self, *args), kwargs)
            parts = (named_parts(name, each, mx.array) for name, each in named.items())
            return dict(part for name, part in _without_self(named, parts))

        with runs.outermost(INFERENCE, self, lambda: type(self).__name__, inputs):
            tape = TAPES.get(thread)
            if tape is None:
                return original(self, *args, **kwargs)
            recorder = runs.recorder()
            if recorder is not None:
                recorder.root(name_of(self, sys._getframe(1), "model"), self)
            return inner(tape, self, args, kwargs)

    def inner(tape: Tape, self: Any, args: Any, kwargs: Any) -> Any:
        before, base = tape.modules, tape.base(sys._getframe())
        tape.modules = (*before, self)
        try:
            return original(self, *args, **kwargs)
        finally:
            tape.modules = before
            tape.base_again(base)

    return __call__


def _without_self(named: Mapping[str, Any], parts: Any) -> Iterator[tuple[str, Any]]:
    for name, found in zip(named, parts, strict=True):
        if name != "self":
            for part in found:
                yield name, part


def _update(runs: Runs, original: Any) -> Any:
    def apply_gradients(self: Any, *args: Any, **kwargs: Any) -> Any:
        tape = TAPES.get(get_ident())
        if tape is None:
            return original(self, *args, **kwargs)
        recorder = runs.recorder()
        if recorder is not None:
            recorder.parameters(name_of(self, sys._getframe(1), "optimizer"), self.state)
        before, base = tape.phase, tape.base(sys._getframe())
        tape.phase = OPTIMIZER
        try:
            return original(self, *args, **kwargs)
        finally:
            tape.phase = before
            tape.base_again(base)
            runs.updated()

    return apply_gradients
