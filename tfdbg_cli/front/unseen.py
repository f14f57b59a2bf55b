"""Says so when a program computes with something that the debugger can't see.

It is said at the first call, and the program is left alone from then on: the patches that wait for
that call take themselves off.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from tfdbg_cli.common.streams import tell
from tfdbg_cli.dumps.sources import user_frame
from tfdbg_cli.engines.kit.patching.patches import PatchSet
from tfdbg_cli.front.import_hook import ImportHook

__all__ = ["SEEN", "UNSEEN", "UnseenFrameworks"]

#: What is debugged today, framework by framework.
SEEN = (
    (
        "PyTorch",
        "training steps, model calls, blocks, and libraries built on them: the Hugging Face "
        "Trainer, Accelerate, Lightning, Keras on the torch backend",
    ),
    (
        "TensorFlow",
        "runs of sessions: tf.compat.v1.Session, MonitoredSession, and code that uses them",
    ),
    ("TensorFlow 2", "calls of tf.function, steps from a tape to the update, Keras 3, blocks"),
    (
        "JAX",
        "calls of compiled functions: jit and libraries built on it (optax, Flax, Equinox, "
        "Keras on JAX), blocks",
    ),
    ("ONNX Runtime", "runs of sessions, each node of their models"),
    ("NumPy engine", "runs of sessions of tfdbg_cli.engines.numpy"),
)

#: What isn't; it is said at the first call, as far as that can be noticed (not of TensorFlow 2).
UNSEEN = (
    ("TensorFlow 2", "eager ops outside tapes and blocks, functions of tf.data"),
    ("JAX", "ops outside compiled functions and blocks"),
    ("ONNX Runtime", "run_async"),
    ("NumPy", "the program's own computations can't be seen"),
)

_INSTEAD = "Supported: PyTorch, TensorFlow, JAX, ONNX Runtime and MLX."


class _Door(NamedTuple):
    """Functions that a framework's first call comes through.

    Attributes:
        module: once it is imported, the functions are there.
        functions: module, class and name of each; a name alone is one of the module's.
        text: what is said.
        counts: whether a call is one of those that can't be seen.
    """

    module: str
    functions: tuple[tuple[str, str], ...]
    text: str
    counts: Callable[[], bool] = lambda: True


_DOORS = (
    _Door(
        "onnxruntime",
        (("onnxruntime.capi.onnxruntime_inference_collection", "Session.run_async"),),
        "ONNX Runtime's run_async is not debugged: no stop and no filter sees what it computes",
    ),
)


class UnseenFrameworks:
    """Waits for the first calls.

    Attributes:
        told: the frameworks that were told of.
    """

    def __init__(self) -> None:
        self.told: list[str] = []
        self._doors = {door.module: door for door in _DOORS}
        self._hook = ImportHook(tuple(self._doors), self._imported)
        self._patched: dict[str, PatchSet] = {}

    def start(self) -> None:
        """Watch the imports from now on."""
        self._hook.install()

    def finish(self) -> None:
        """Wait no longer."""
        self._hook.uninstall()
        for module in list(self._patched):
            self._take_off(module)

    def _imported(self, module: str) -> None:
        door = self._doors[module]
        for where, name in door.functions:
            owner: Any = sys.modules.get(where)
            *classes, function = name.split(".")
            for part in classes:
                owner = getattr(owner, part, None)
            if owner is not None and callable(vars(owner).get(function)):  # others have other doors
                patches = self._patched.setdefault(module, PatchSet(module))
                patches.replace(owner, function, functools.partial(self._waiting, door))

    def _waiting(self, door: _Door, original: Callable[..., Any]) -> Callable[..., Any]:
        def first(*args: Any, **kwargs: Any) -> Any:
            if door.module in self._patched and door.counts():
                self._take_off(door.module)
                self.told.append(door.module)
                tell(f"{door.text}{_place()}. {_INSTEAD}")
            return original(*args, **kwargs)

        return first

    def _take_off(self, module: str) -> None:
        patches = self._patched.pop(module, None)
        if patches is not None:
            patches.undo()


def _place() -> str:
    """The line of the program that made the call; empty: nobody knows."""
    frame = user_frame(sys._getframe(1))
    if frame is None:
        return ""
    return f" (first at {os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno})"
