"""What is known of a run at its beginning and at its end, in the user's own words."""

from __future__ import annotations

import dis
from collections.abc import Callable, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch

from tfdbg_cli.dumps.dump import RunInfo
from tfdbg_cli.dumps.feeds import LazyFeeds
from tfdbg_cli.engines.kit.description import RunDescription
from tfdbg_cli.engines.kit.life import BLOCK
from tfdbg_cli.engines.kit.sites import argument_names, call_site, name_in
from tfdbg_cli.engines.kit.stacks import variables
from tfdbg_cli.engines.torch.names.sites import tensors_in
from tfdbg_cli.engines.torch.values.arrays import to_numpy
from tfdbg_cli.engines.torch.values.layouts import dtype_name

if TYPE_CHECKING:
    from tfdbg_cli.engines.kit.levels import CaptureLevel

__all__ = ["BLOCK", "GRADIENT", "INFERENCE", "TRAINING", "Description", "events_in_words"]

# The kinds of runs.
TRAINING = "training run"
INFERENCE = "inference run"
GRADIENT = "gradient run"

_MOST_OUTPUTS = 50


class Description(RunDescription):
    """One run, described when somebody wants to know.

    Args:
        kind: what kind of run; it may turn out to be another one.
        number: 1 for the first one of its kind.
        frame: the user's frame where it begins.
        module: the module that is called, if that is how it begins.
        args, kwargs: its arguments.
        title: what to call it, if it doesn't begin with a module.
        optimizers: those that are alive.
    """

    def __init__(
        self,
        kind: str,
        number: int,
        frame: FrameType | None,
        module: torch.nn.Module | None,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        title: str,
        optimizers: Any,
    ) -> None:
        super().__init__(kind, number, title)
        self.whose = ""  # modules have names of their own in the whole program
        self._frame = frame
        self._module = module
        self._args = args
        self._kwargs = kwargs
        self._optimizers = optimizers
        self._site = call_site(frame)  # the frame goes on
        self._tensors: dict[str, torch.Tensor] | None = None
        self._shown: str | None = None
        self._outputs: dict[str, str] | None = None
        mode = "training" if module is not None and module.training else "evaluation"
        self._mode = f"{mode}, gradients {'on' if torch.is_grad_enabled() else 'off'}"

    def leave_frame(self) -> None:
        """Look for all that the frame tells now, and hold it no longer."""
        self.tensors()
        if self._module is not None:
            self._label(self._module)
        self._frame = None

    def forget(self) -> None:
        self._frame = self._module = None
        self._args, self._kwargs = (), {}
        self._tensors = None

    def tensors(self) -> dict[str, torch.Tensor]:
        """The tensors among the arguments, by the names of the user's variables for them.

        Those are looked for when this is first called.
        """
        if self._tensors is not None:
            return self._tensors
        found: dict[str, torch.Tensor] = {}
        if self._module is None:
            return found
        for name, value in argument_names(self._module.forward, self._args, self._kwargs).items():
            own = name_in(self._frame, value) or name
            for path, tensor in tensors_in(own, value):
                found.setdefault(path, tensor)
        self._tensors = found
        return found

    def info(self) -> RunInfo:
        tensors = self.tensors()
        shapes = {name: shape_of(tensor) for name, tensor in tensors.items()}
        loads = {name: _loader(tensor) for name, tensor in tensors.items()}
        details = []
        module = self._module
        runner = self._title
        if module is not None:
            label = type(module).__name__
            details.append(("Module", self._label(module)))
            details.append(("Mode", self._mode))
            given = ", ".join(f"{name}: {shape}" for name, shape in list(shapes.items())[:4])
            more = ", ..." if len(shapes) > 4 else ""
            runner = f"{label}({given}{more})"
        elif not runner:
            runner = self._site or "a part of the program"
        if self._site:
            details.append(("Called at", self._site))
        return RunInfo(
            kind=self.kind,
            runner=runner,
            feeds=LazyFeeds(loads, shapes),
            details=[*details, *self._updated_by()],
            number=self.number,
        )

    def _label(self, module: torch.nn.Module) -> str:
        """The module by its class, and the variable that holds it."""
        if self._shown is None:
            name = name_in(self._frame, module)
            label = type(module).__name__
            self._shown = f"{label} ({name})" if name else label
        return self._shown

    def _updated_by(self) -> list[tuple[str, str]]:
        owners = sorted({type(optimizer).__name__ for optimizer in self._optimizers})
        return [("Optimizer", ", ".join(owners))] if owners and self.kind == TRAINING else []

    def end(
        self,
        info: RunInfo,
        watcher: CaptureLevel,
        frame: FrameType | None,
        output: Any,
    ) -> None:
        if self._outputs is None:
            self.name_outputs(watcher, frame, output)
        info.outputs = self._outputs or {}
        if info.kind != self.kind:
            kept = [pair for pair in info.details if pair[0] != "Optimizer"]
            info.details = [*kept, *self._updated_by()]
        info.kind, info.number = self.kind, self.number
        self.forget()

    def name_outputs(self, watcher: CaptureLevel, frame: FrameType | None, output: Any) -> None:
        """Let what the run has made so far have the names that the user has for it now.

        Args:
            watcher: has seen the run.
            frame: the user's.
            output: of the call that the run is; ``None``: the variables of the frame count.
        """
        named: dict[str, torch.Tensor] = {}
        if output is not None:
            named.update(_named(_targets(frame), output))
        elif frame is not None:
            for name, value in variables(frame).items():
                if not name.startswith("_"):
                    named.update(tensors_in(name, value, depth=2))
        outputs: dict[str, str] = {}
        given = {id(tensor) for tensor in self.tensors().values()}
        for name, tensor in named.items():
            if id(tensor) in given or isinstance(tensor, torch.nn.Parameter):
                continue
            made = watcher.tensor_name(tensor)
            if made and not made.startswith("input/") and len(outputs) < _MOST_OUTPUTS:
                outputs[name] = made
        watcher.name_outputs({name: named[name] for name in outputs})
        self._outputs = outputs


def _loader(tensor: torch.Tensor) -> Callable[[], Any]:
    return lambda: to_numpy(tensor)


def shape_of(tensor: torch.Tensor) -> str:
    """``float32[8, 3]``."""
    dtype = dtype_name(tensor.dtype)
    try:
        return f"{dtype}{list(tensor.shape)}"
    except RuntimeError:  # a nested tensor has none
        return dtype


def events_in_words(events: str) -> str:
    """Letters to words: ``2 x forward, backward, step``."""
    words = {"F": "forward", "B": "backward", "S": "step"}
    parts: list[tuple[str, int]] = []
    for letter in events:
        if parts and parts[-1][0] == letter:
            parts[-1] = (letter, parts[-1][1] + 1)
        else:
            parts.append((letter, 1))
    shown = [f"{count} x {words[at]}" if count > 1 else words[at] for at, count in parts[:12]]
    return ", ".join(shown) + (", ..." if len(parts) > 12 else "")


def _targets(frame: FrameType | None) -> list[str]:
    """The variables that a frame is about to store the result of its current call in.

    Several where it unpacks the result; none where it does something else with it.
    """
    if frame is None:
        return []
    names: list[str] = []
    wanted = 1
    found = False
    for instruction in dis.get_instructions(frame.f_code):
        if instruction.offset == frame.f_lasti:
            found = True
        elif found and instruction.opname == "UNPACK_SEQUENCE" and not names:
            wanted = int(instruction.arg or 0)
        elif found:
            if not instruction.opname.startswith("STORE_") or not instruction.argval:
                return []
            stored = instruction.argval  # two names where Python has joined two instructions
            joined = stored if isinstance(stored, tuple) else (stored,)
            names += map(str, joined[:1] if "LOAD" in instruction.opname else joined)
            if len(names) >= wanted:
                return names[:wanted]
    return []


def _named(names: list[str], output: Any) -> dict[str, torch.Tensor]:
    """The tensors of a result by the variables that it goes to."""
    if len(names) < 2 or not isinstance(output, tuple | list) or len(output) != len(names):
        return dict(tensors_in(names[0] if len(names) == 1 else "output", output))
    found: dict[str, torch.Tensor] = {}
    for name, item in zip(names, output, strict=True):
        found.update(tensors_in(name, item))
    return found
