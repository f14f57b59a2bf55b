"""Sees calls of traced functions, tapes and optimizers."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from tfdbg_cli.common.interpreter.recursion import Passage
from tfdbg_cli.dumps.sources import show_program_only
from tfdbg_cli.engines.kit.patching.patches import PatchSet
from tfdbg_cli.engines.tensorflow.functions.keras_names import KerasNames
from tfdbg_cli.engines.tensorflow.functions.private import (
    CREATE_ITERATOR,
    FUNCTION_CALLED,
    NAMES,
    dataset_class,
    graph_class,
    iterator_class,
    multi_iterator_class,
    strategy_class,
    tape_class,
    tensors_of,
    unread_class,
    variable_class,
)
from tfdbg_cli.engines.tensorflow.functions.runs import FunctionRuns

__all__ = ["FunctionPatches"]

# Module -> class, methods: whatever applies gradients, once it is imported.
_OPTIMIZERS = {
    "keras.src.optimizers.base_optimizer": ("BaseOptimizer", ("apply", "apply_gradients")),
    "keras.src.optimizers.loss_scale_optimizer": ("LossScaleOptimizer", ("apply",)),
    "keras.src.optimizers.multi_optimizer": ("MultiOptimizer", ("apply",)),
    "tf_keras.src.optimizers.optimizer": ("Optimizer", ("apply_gradients",)),
    "tf_keras.src.optimizers.legacy.optimizer_v2": ("OptimizerV2", ("apply_gradients",)),
    "keras.optimizers.optimizer": ("Optimizer", ("apply_gradients",)),
    "keras.optimizers.legacy.optimizer_v2": ("OptimizerV2", ("apply_gradients",)),
    "keras.src.optimizers.optimizer": ("Optimizer", ("apply_gradients",)),
    "keras.src.optimizers.legacy.optimizer_v2": ("OptimizerV2", ("apply_gradients",)),
}


class FunctionPatches:
    """Tells the runs of what happens.

    Args:
        runs: of the program.
        names: what Keras calls layers.
    """

    def __init__(self, runs: FunctionRuns, names: KerasNames) -> None:
        self._runs, self._names = runs, names
        self._patches = PatchSet(NAMES.framework)
        # What stays while a debugger is there, wanted or not: functions that draw random numbers go
        # on with those of their twins, and errors tell the program's stack alone.
        self._lasting = PatchSet(NAMES.framework)
        self._is_on = False
        self._optimizers: set[str] = set()

    def install(self) -> None:
        """See it from now on."""
        if self._is_on:
            return
        NAMES.check()
        owner, name = FUNCTION_CALLED
        patches = self._patches
        with patches.together():
            patches.replace(tape_class, "__enter__", self._entered)
            patches.replace(tape_class, "__exit__", self._left)
            patches.replace(tape_class, "gradient", self._gradient)
            patches.replace(graph_class, "__init__", self._tracing)
            patches.replace(strategy_class, "run", self._each_replica)
            if hasattr(iterator_class, CREATE_ITERATOR):
                patches.replace(iterator_class, CREATE_ITERATOR, self._iterator_made)
            if multi_iterator_class is not None:
                patches.replace(multi_iterator_class, "__init__", self._shared_out)
            if variable_class is not None and unread_class is not None:
                patches.replace(variable_class, "__init__", self._variable_made)
            if dataset_class is not None:
                patches.replace(dataset_class, "__init__", self._dataset_made)
            if not self._lasting:
                self._lasting.replace(owner, name, self._called)
        self._is_on = True

    def undo(self) -> None:
        """Don't."""
        self._patches.undo()
        if not self._runs.is_attached:
            self._lasting.undo()
        self._optimizers.clear()
        self._names.forget_patches()
        self._is_on = False

    def _called(self, original: Callable[..., Any]) -> Callable[..., Any]:
        runs = self._runs

        @functools.wraps(original)
        def call(function: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                with Passage(lambda each: original(each, *args, **kwargs)) as plain:
                    return runs.call(function, tensors_of(args), plain)
            except Exception as error:
                show_program_only(error)
                raise

        return call

    def _tracing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def trace(*args: Any, **kwargs: Any) -> None:
            self._names.see(self._patches)  # before a layer is called in the function
            original(*args, **kwargs)

        return trace

    def _entered(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def enter(tape: Any) -> Any:
            self._see_optimizers()
            self._names.see(self._patches)
            self._runs.tape_entered()
            return original(tape)

        return enter

    def _left(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def leave(tape: Any, kind: Any, error: Any, trace: Any) -> Any:
            try:
                return original(tape, kind, error, trace)
            finally:
                self._runs.tape_left(error)

        return leave

    def _gradient(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def gradient(*args: Any, **kwargs: Any) -> Any:
            target = args[1] if len(args) > 1 else kwargs.get("target")
            watcher = self._runs.gradient_begins(target)
            try:
                made = original(*args, **kwargs)
            except BaseException as error:
                self._runs.fail(error)
                raise
            finally:
                if watcher is not None:
                    watcher.leave_phase()
            self._runs.gradient_done()
            return made

        return gradient

    def _each_replica(self, original: Callable[..., Any]) -> Callable[..., Any]:
        runs = self._runs

        @functools.wraps(original)
        def run(strategy: Any, fn: Any, *args: Any, **kwargs: Any) -> Any:
            kind, title = runs.replicated(strategy, fn)
            if not kind:
                return original(strategy, fn, *args, **kwargs)
            try:
                with runs.stretch(kind, title), runs.replicas():
                    return original(strategy, fn, *args, **kwargs)
            except Exception as error:
                show_program_only(error)
                raise

        return run

    def _iterator_made(self, original: Callable[..., Any]) -> Callable[..., Any]:
        runs = self._runs

        @functools.wraps(original)
        def create(iterator: Any, dataset: Any) -> Any:
            runs.iterator_made(iterator)
            return original(iterator, dataset)

        return create

    def _shared_out(self, original: Callable[..., Any]) -> Callable[..., Any]:
        iterators = self._runs.iterators

        @functools.wraps(original)
        def share(iterator: Any, dataset: Any = None, *args: Any, **kwargs: Any) -> Any:
            made = original(iterator, dataset, *args, **kwargs)
            if dataset is not None:
                iterators.add_shared(iterator, dataset)
            return made

        return share

    def _dataset_made(self, original: Callable[..., Any]) -> Callable[..., Any]:
        iterators = self._runs.iterators

        @functools.wraps(original)
        def make(dataset: Any, *args: Any, **kwargs: Any) -> Any:
            iterators.add_dataset(dataset)
            return original(dataset, *args, **kwargs)

        return make

    def _variable_made(self, original: Callable[..., Any]) -> Callable[..., Any]:
        names = self._names

        @functools.wraps(original)
        def make(variable: Any, *args: Any, **kwargs: Any) -> None:
            original(variable, *args, **kwargs)
            if not isinstance(variable, unread_class):
                names.see_variable(variable)

        return make

    def _see_optimizers(self) -> None:
        for module, (name, methods) in _OPTIMIZERS.items():
            if module in self._optimizers or module not in sys.modules:
                continue
            owner = getattr(sys.modules[module], name, None)
            self._optimizers.add(module)
            for method in methods if owner is not None else ():
                if callable(vars(owner).get(method)):
                    self._patches.replace(owner, method, self._updating)

    def _updating(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def update(*args: Any, **kwargs: Any) -> Any:
            self._runs.update_begins(args[0] if args else None)
            error: BaseException | None = None
            try:
                return original(*args, **kwargs)
            except BaseException as raised:
                error = raised
                raise
            finally:
                self._runs.update_ends(error)

        return update
