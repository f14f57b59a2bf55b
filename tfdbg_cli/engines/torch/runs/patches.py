"""Sees module calls, backward passes and optimizer steps of an unmodified program."""

from __future__ import annotations

import functools
import gc
import importlib
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch.optim import Optimizer

from tfdbg_cli.engines.kit.patching.patches import PatchSet
from tfdbg_cli.engines.torch.around.compiled import is_product
from tfdbg_cli.engines.torch.around.private import keep_out_code, know_call
from tfdbg_cli.engines.torch.around.surrounding import Around, surrounding
from tfdbg_cli.engines.torch.names.sites import parameters_in
from tfdbg_cli.engines.torch.private import (
    MODE_AT,
    MODE_COUNT,
    NAMES,
    OPTIMIZER_MADE,
    TOTAL_NORM,
    TRACES,
    fetchers,
)
from tfdbg_cli.engines.torch.record.capture import program_modes
from tfdbg_cli.engines.torch.runs.keras_steps import KerasSteps
from tfdbg_cli.engines.torch.values.access import TRAINED_ELSEWHERE

if TYPE_CHECKING:
    from tfdbg_cli.engines.torch.runs.runs import Runs

__all__ = ["Interceptor", "Optimizers", "Patches", "Visitor"]

_is_compiling: Callable[[], bool] = torch.compiler.is_compiling


class Optimizers:
    """The optimizers that are alive, and which parameters they own.

    Those that are used on another thread than that of the runs aren't among them.
    """

    def __init__(self) -> None:
        self._alive: dict[int, weakref.ref[Optimizer]] = {}  # each run goes through them
        self._elsewhere: weakref.WeakSet[Optimizer] = weakref.WeakSet()
        self._owned: dict[int, tuple[tuple[tuple[int, int], ...], frozenset[int]]] = {}

    def __iter__(self) -> Iterator[Optimizer]:
        found = list(self._alive.values())
        return iter([each for reference in found if (each := reference()) is not None])

    def __bool__(self) -> bool:
        return bool(self._alive)

    def add(self, optimizer: Optimizer, is_elsewhere: bool = False) -> None:
        """One was made, or makes a step.

        Args:
            optimizer: it.
            is_elsewhere: on another thread than that of the runs.
        """
        if is_elsewhere == (optimizer in self._elsewhere):
            if not is_elsewhere:
                self._note(optimizer)
            return
        parameters = self._parameters(optimizer)
        if is_elsewhere:
            self._alive.pop(id(optimizer), None)
            self._elsewhere.add(optimizer)
            TRAINED_ELSEWHERE.update(parameters)
            weakref.finalize(optimizer, TRAINED_ELSEWHERE.difference_update, parameters)
        else:
            self._elsewhere.discard(optimizer)
            self._note(optimizer)
            TRAINED_ELSEWHERE.difference_update(parameters)

    def _note(self, optimizer: Optimizer) -> None:
        if id(optimizer) not in self._alive:
            self._alive[id(optimizer)] = weakref.ref(optimizer)
            weakref.finalize(optimizer, self._alive.pop, id(optimizer), None)

    def find(self) -> None:
        """Add those that were made before anybody watched."""
        if getattr(torch.__spec__, "_initializing", False):
            return  # PyTorch is being imported, and going through all objects takes 25 ms
        for found in gc.get_objects():
            if issubclass(type(found), Optimizer):  # isinstance would wake lazy modules
                self.add(found)

    def own(self, module: torch.nn.Module) -> bool:
        """Whether one of them updates a parameter of a module."""
        sets = [self._parameters(optimizer) for optimizer in self]
        return any(key in owned for key in map(id, parameters_in(module)) for owned in sets)

    def _parameters(self, optimizer: Optimizer) -> frozenset[int]:
        groups = getattr(optimizer, "param_groups", ())
        state = (*[(id(group["params"]), len(group["params"])) for group in groups],)
        known = self._owned.get(id(optimizer))
        if known is None or known[0] != state:
            ids = frozenset(id(p) for group in groups for p in group["params"])
            known = self._owned[id(optimizer)] = (state, ids)
            weakref.finalize(optimizer, self._owned.pop, id(optimizer), None)
        return known[1]


def _without_ours(original: Any) -> Any:
    """Anomaly mode notes the stack of each op: that of the program, without our frames."""

    def format_stack() -> list[str]:
        program: list[str] = []
        for place in original():
            if place.startswith(_LAUNCHER):  # the program begins beneath it
                program = []
            elif not place.startswith(_OURS):
                program.append(place)
        return program

    return format_stack


_OURS = f'  File "{__file__.removesuffix(os.path.join("engines", "torch", "runs", "patches.py"))}'
_LAUNCHER = f"{_OURS}{os.path.join('front', 'launcher.py')}"


#: What makes a call, its positional arguments and its keyword arguments -> what the call returns.
Interceptor = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]


class _Interception:
    """A module whose calls go through a function.

    Args:
        module: this very one.
        through: the function.
    """

    def __init__(self, module: torch.nn.Module, through: Interceptor) -> None:
        self._module = weakref.ref(module)
        self._through = through
        self._local = threading.local()

    def takes(self, module: torch.nn.Module) -> bool:
        """Whether a call of a module goes through it: one that isn't made by such a call."""
        return self._module() is module and not getattr(self._local, "is_inside", False)

    def around(self, module: torch.nn.Module, args: Any, kwargs: Any) -> Around:
        """The call."""

        def original(*own: Any, **named: Any) -> Any:
            if not own and not named:
                own, named = args, kwargs
            return module(*own, **named)

        original.__self__ = module  # type: ignore[attr-defined]  # as a bound method has it
        self._local.is_inside = True
        try:
            return (yield self._through, (original, args, kwargs), {})
        finally:
            self._local.is_inside = False


class Visitor(Protocol):
    """Sees the module calls of a piece of the program, and makes them."""

    def takes(self) -> bool:
        """Whether a call that is made now belongs to that piece."""

    def around(
        self, original: Callable[..., Any], module: torch.nn.Module, args: Any, kwargs: Any
    ) -> Around | None:
        """What is done around the call; ``original`` is ``Module.__call__``."""


class Patches:
    """Replaces the few functions of PyTorch through which every run passes.

    Under a tracing compiler each replacement is the original.

    Args:
        runs: what is told.

    Attributes:
        keras: the steps of Keras, which may be imported later.
    """

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._set = PatchSet(NAMES.framework, keep_out_code)
        self._calls = PatchSet(NAMES.framework, keep_out_code)
        self._forks = False
        self._run_end = ""
        self._intercepted: list[_Interception] = []
        self._visitors: list[Visitor] = []
        self._no_grad: Callable[[], None] = lambda: None  # takes back what `watch_no_grad` does
        self.keras = KerasSteps(runs, self._set, self._replace)

    def install(self) -> None:
        """Put them in place, unless they are.

        Raises:
            UserError: one of them isn't there; none is in place.
        """
        if self._set:
            return
        with self._calls.together(), self._set.together():
            self.install_calls()
            # Around the hooks for functions of the API, which would otherwise be around the run.
            self._replace(torch.Tensor, "backward", self._backward)
            self._replace(torch.autograd, "backward", self._backward)
            grad = functools.partial(self._backward, is_grad=True)
            self._replace(torch.autograd, "grad", grad)
            self._replace(Optimizer, OPTIMIZER_MADE, self._noticing)
            self._replace(Optimizer, "profile_hook_step", self._hooking)
            self._wrap_known_steps()
            for fetcher in fetchers():
                self._replace(fetcher, "fetch", self._fetch)
            for name in TRACES:
                self._replace(torch.jit, name, self._trace)
            # As what they stand for they have no source.
            self._set.replace(*MODE_COUNT, lambda _: functools.partial(_mode_count), wraps=False)
            self._set.replace(*MODE_AT, lambda _: functools.partial(_mode_at), wraps=False)
            self._replace(torch.fx.traceback, "format_stack", _without_ours)
            scaler = getattr(getattr(torch, "amp", None), "GradScaler", None)
            if scaler is not None:
                self._replace(scaler, "step", self._step)
                self._replace(scaler, "scale", self._scale)
            clip_values = functools.partial(self._clip, is_norm=False)
            for place in (torch.nn.utils, torch.nn.utils.clip_grad):
                self._replace(place, "clip_grad_norm_", self._clip)
                self._replace(place, "clip_grad_value_", clip_values)
            if hasattr(torch.nn.utils.clip_grad, TOTAL_NORM):
                self._replace(torch.nn.utils.clip_grad, TOTAL_NORM, self._norm)
        if not self._forks and hasattr(os, "register_at_fork"):
            self._forks = True
            os.register_at_fork(after_in_child=self._runs.abandon)

    def install_calls(self) -> None:
        """Put in place what sees the calls of modules, unless it is.

        Raises:
            UserError: it isn't there.
        """
        if self._calls:
            return
        with self._calls.together():
            call = torch.nn.Module.__call__
            self._calls.replace(torch.nn.Module, "__call__", self._module_call)
            ours = torch.nn.Module.__call__
            self._calls.also(lambda: know_call(call, ours), lambda: know_call(ours, call))

    def see_calls(self) -> None:
        """The same for a while that is over soon, and comes again.

        Raises:
            UserError: as `install_calls`.
        """
        if self._calls:
            return
        call = torch.nn.Module.__call__
        if not self._calls.redirect(call, self._module_call):
            self.install_calls()

    def undo(self) -> None:
        """Put back what is still ours."""
        self._set.undo()
        self._calls.undo()
        self._run_end = ""
        self.keras.forget()

    def watch_end(self, path: str) -> None:
        """Let the return of a function end training runs (``config run_end``).

        A module that isn't imported yet is tried again at the next run.
        """
        if path == self._run_end or not path:
            return
        owner, name = _resolve(path)
        if owner is not None:
            self._run_end = path
            self._replace(owner, name, self._end_call)

    def intercept(self, module: torch.nn.Module, through: Interceptor) -> Callable[[], None]:
        """Let outermost calls of a module go through a function; returns the way back."""
        found = _Interception(module, through)
        self._intercepted.insert(0, found)
        return lambda: self._intercepted.remove(found)

    def visit(self, visitor: Visitor) -> Callable[[], None]:
        """Let a piece of the program's module calls go through an object; returns the way back."""
        self._visitors.append(visitor)
        return lambda: self._visitors.remove(visitor)

    def watch_no_grad(self, left: Callable[[FrameType | None], None]) -> None:
        """Tell of each ``with torch.no_grad()`` that is left so that gradients are on again.

        Args:
            left: is told, with the frame that leaves it; until `leave_no_grad`.
        """
        self.leave_no_grad()

        def make(original: Any) -> Any:
            def __exit__(block: Any, *error: Any) -> Any:
                value = original(block, *error)
                if error[:1] == (None,) and torch.is_grad_enabled() and not _is_compiling():
                    left(sys._getframe(1))
                return value

            return __exit__

        self._no_grad = self._replace(torch.no_grad, "__exit__", make)

    def leave_no_grad(self) -> None:
        """Don't any more."""
        self._no_grad()

    def _replace(self, owner: Any, name: str, make: Callable[[Any], Any]) -> Callable[[], None]:
        return self._set.replace(owner, name, make)

    def _wrap_known_steps(self) -> None:
        """Step methods that PyTorch has hooked before anybody watched."""
        pending: list[Any] = [Optimizer]
        while pending:
            kind = pending.pop()
            pending += kind.__subclasses__()
            step = vars(kind).get("step")
            if getattr(step, "hooked", False):
                self._replace(kind, "step", self._step)
                vars(kind)["step"].hooked = True

    # The replacements.

    def _module_call(self, original: Any) -> Any:
        runs, intercepted, visitors = self._runs, self._intercepted, self._visitors

        def around(module: torch.nn.Module, /, *args: Any, **kwargs: Any) -> Around | None:
            if isinstance(module, torch.fx.GraphModule) and is_product(sys._getframe(2)):
                return None
            for found in intercepted:
                if found.takes(module):
                    return found.around(module, args, kwargs)
            for visitor in visitors:
                if visitor.takes():
                    return visitor.around(original, module, args, kwargs)
            return runs.around_module(original, module, args, kwargs)

        return surrounding(original, around, in_compiled=False, passes=runs.loading.passes)

    def _fetch(self, original: Any) -> Any:
        return self._around(self._runs.around_fetch, original)

    def _trace(self, original: Any) -> Any:
        return self._around(self._runs.around_trace, original)

    @staticmethod
    def _around(around: Callable[..., Around | None], original: Any, *given: Any) -> Any:
        return surrounding(original, functools.partial(around, original, *given))

    def _backward(self, original: Any, *, is_grad: bool = False) -> Any:
        return self._around(self._runs.around_backward, original, is_grad)

    def _step(self, original: Any) -> Any:
        return self._around(self._runs.around_step, original)

    def _scale(self, original: Any) -> Any:
        runs = self._runs

        def scale(self: Any, outputs: Any) -> Any:
            product = original(self, outputs)
            if not _is_compiling() and not runs.is_idle():
                runs.losses.scaled(self, outputs, product)
            return product

        return scale

    def _clip(self, original: Any, *, is_norm: bool = True) -> Any:
        return self._around(self._runs.around_clipping, original, is_norm)

    def _norm(self, original: Any) -> Any:
        return self._around(self._runs.clipping.around_norm, original)

    def _noticing(self, original: Any) -> Any:
        runs, optimizers = self._runs, self._runs.optimizers

        def _patch_step_function(self: Optimizer) -> None:
            if not runs.is_elsewhere():
                optimizers.add(self)
            original(self)

        return _patch_step_function

    def _hooking(self, original: Any) -> Any:
        def profile_hook_step(step: Any) -> Any:
            hooked = original(step)
            return self._set.standing_for(hooked, self._step(hooked))

        return profile_hook_step

    def _end_call(self, original: Any) -> Any:
        return self._around(self._runs.around_end, original)


# What the program sees of its dispatch modes, if it looks: its own.


def _mode_count() -> int:
    return len(program_modes())


def _mode_at(index: int) -> Any:
    return program_modes()[index]


def _resolve(path: str) -> tuple[Any, str]:
    """The object that holds a dotted name, and the last part of it; ``None``: not there yet."""
    parts = path.split(".")
    for count in range(len(parts) - 1, 0, -1):
        module = sys.modules.get(".".join(parts[:count]))
        if module is None and count == len(parts) - 1 and parts[0] in sys.modules:
            try:
                module = importlib.import_module(".".join(parts[:count]))
            except ImportError:
                module = None
        if module is not None:
            owner: Any = module
            for part in parts[count:-1]:
                owner = getattr(owner, part, None)
            return (owner, parts[-1]) if callable(getattr(owner, parts[-1], None)) else (None, "")
    return None, ""
