"""Keras on PyTorch: its steps as runs, its variables by their paths, and no symbolic builds."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.common.streams import tell
from tfdbg_cli.engines.kit.patching.patches import PatchSet
from tfdbg_cli.engines.torch.around.surrounding import surrounding
from tfdbg_cli.engines.torch.private import KERAS_VALUE
from tfdbg_cli.engines.torch.runs.description import INFERENCE, TRAINING

if TYPE_CHECKING:
    from tfdbg_cli.engines.torch.runs.runs import Runs

__all__ = ["KerasSteps", "variables_of"]

_TRAINER = "keras.src.backend.torch.trainer"
_SCOPE = "keras.src.backend.common.symbolic_scope"
# What makes a step, and may leave it out.
_OPTIMIZERS = {
    "keras.src.optimizers.base_optimizer": "BaseOptimizer",
    "keras.src.optimizers.loss_scale_optimizer": "LossScaleOptimizer",
}

#: What makes a step's function and keeps it in an attribute -> that attribute, the kind of the run.
_STEPS = {
    "make_train_function": ("train_function", "train_step", TRAINING),
    "make_test_function": ("test_function", "test_step", INFERENCE),
    "make_predict_function": ("predict_function", "predict_step", INFERENCE),
}

_Replace = Callable[[Any, str, Callable[[Any], Any]], Any]


class KerasSteps:
    """Sees the steps of `Model.fit`, `evaluate` and `predict`, once Keras is there.

    Args:
        runs: is told.
        patches: what is in place of PyTorch's own, and is taken back with it.
        replace: adds to that.
    """

    def __init__(self, runs: Runs, patches: PatchSet, replace: _Replace) -> None:
        self._runs = runs
        self._patches = patches
        self._replace = replace
        self._is_done = False
        self._away: list[Callable[[], None]] = []

    def forget(self) -> None:
        """What was put in place has been taken back."""
        self._is_done = False

    def look(self, given: Any) -> bool:
        """Put ours in place if Keras has been imported; whether it builds something symbolically.

        Models are built symbolically before their first step.

        Args:
            given: to a module that is called.
        """
        scope = sys.modules.get(_SCOPE)
        if scope is None:
            return False
        if not self._is_done and _TRAINER in sys.modules:
            self._is_done = True
            try:
                with self._patches.together():
                    self._install()
            except UserError as error:
                tell(f"Keras' steps aren't separate runs: {error}")
        return bool(scope.in_symbolic_scope()) or _has_symbols(given)

    def _install(self) -> None:
        trainer = getattr(sys.modules[_TRAINER], "TorchTrainer", None)
        for name in _STEPS:
            if hasattr(trainer, name):
                self._replace(trainer, name, functools.partial(self._making, name))
        scope = getattr(sys.modules[_SCOPE], "SymbolicScope", None)
        if scope is not None:
            self._replace(scope, "__enter__", self._entering)
            self._replace(scope, "__exit__", self._leaving)
        for module, name in _OPTIMIZERS.items():
            optimizer = getattr(sys.modules.get(module), name, None)
            if "apply" in vars(optimizer or object):
                self._replace(optimizer, "apply", self._applying)

    def _making(self, name: str, original: Any) -> Any:
        attribute, step, kind = _STEPS[name]
        runs = self._runs

        def make(model: Any, *args: Any, **kwargs: Any) -> Any:
            made = original(model, *args, **kwargs)
            function = getattr(model, attribute, None)
            if function is not None and not hasattr(function, "_tfdbg_step"):
                title = f"{type(model).__name__}.{step}"

                def one_step(*given: Any, **named: Any) -> Any:
                    return runs.around_unit(kind, title, model, function, given, named)

                made_step = self._patches.standing_for(function, one_step)
                made_step._tfdbg_step = True
                setattr(model, attribute, made_step)
            return made

        return make

    def _entering(self, original: Any) -> Any:
        def enter(scope: Any) -> Any:
            self._away.append(self._runs.look_away())
            return original(scope)

        return enter

    def _leaving(self, original: Any) -> Any:
        def leave(scope: Any, *error: Any) -> Any:
            try:
                return original(scope, *error)
            finally:
                if self._away:
                    self._away.pop()()

        return leave

    def _applying(self, original: Any) -> Any:
        return surrounding(original, functools.partial(self._runs.around_step, original))


def _has_symbols(value: Any) -> bool:
    """Whether a nested value holds tensors of Keras' that have no values."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return any(map(_has_symbols, value))
    return type(value).__name__ == "KerasTensor"


def variables_of(owner: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """The variables of a Keras model, with its optimizer's and metrics', or of an optimizer.

    Yields:
        Path and tensor.
    """
    optimizer = getattr(owner, "optimizer", None)
    for part in (
        getattr(owner, "variables", ()),
        getattr(owner, "metrics_variables", ()),
        getattr(optimizer, "variables", ()),
    ):
        for variable in part if isinstance(part, list | tuple) else ():
            value = getattr(variable, KERAS_VALUE, None)
            if isinstance(value, torch.Tensor):
                yield str(getattr(variable, "path", "")), value
