"""What an optimizer's step is about: which parameter a gradient or a state belongs to."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Sequence
from types import CodeType
from typing import Any

import torch

from tfdbg_cli.engines.kit.stacks import USER, kind_of
from tfdbg_cli.engines.torch.private import quiet, shard_of

__all__ = ["Updates"]

# A nested state (LBFGS keeps lists of directions) is followed so far.
_DEEPEST = 3


# What a mode is called by.
_MODES = ("__torch_dispatch__", "__torch_function__")


class Updates:
    """The tensors of an optimizer while it makes a step.

    Args:
        optimizer: or a gradient scaler, or whatever else makes steps.
    """

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer
        # By address, with the parameter that each belongs to, and its name; empty: it is that. The
        # tensors are in there so that their addresses stay theirs.
        self._known: dict[int, tuple[torch.Tensor, torch.Tensor, str]] = {}
        self._state_count = -1
        # Codes that are no closure's, by address.
        self._own: set[int] = set()
        self._last: Sequence[CodeType] = ()
        kind = type(optimizer)
        self._file = "" if kind.__module__.startswith("torch.") else _file_of(kind)
        self.find()

    def owner(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """The parameter that a tensor is, or is the gradient or a state of."""
        found = self._known.get(id(tensor))
        return found[1] if found is not None else None

    def state(self, tensor: torch.Tensor) -> str:
        """What the optimizer calls a tensor among its states, ``grad`` for gradients; else empty.

        It belongs to the parameter that `owner` gives.
        """
        found = self._known.get(id(tensor))
        return found[2] if found is not None else ""

    def is_closure(self, codes: Sequence[CodeType]) -> bool:
        """Whether an op in these frames, innermost first, is one of a closure of the user's.

        Optimizers call such functions.
        """
        if codes == self._last or self._own.issuperset(map(id, codes)):
            self._last = codes
            return False
        self._own |= {id(code) for code in codes if not self._is_foreign(code)}
        # Modes of the program's do what the optimizer would do by itself.
        modes = [at for at, code in enumerate(codes) if code.co_name in _MODES]
        outside = codes[modes[-1] + 1 :] if modes else codes
        return any(id(code) not in self._own for code in outside)

    def _is_foreign(self, code: CodeType) -> bool:
        return kind_of(code) == USER and not (
            code.co_filename == self._file
            and "<locals>" not in code.co_qualname
            and "closure" not in code.co_name
        )

    def find(self) -> bool:
        """Look for states that are new; whether there may be any."""
        states = getattr(self._optimizer, "state", None)
        count = sum(map(len, states.values())) if isinstance(states, dict) else 0
        if count == self._state_count:
            return False
        self._state_count = count
        for parameter in self._parameters():
            self._add(parameter, parameter, "")
            with quiet():  # its class would see it
                grad = parameter.grad
            if isinstance(grad, torch.Tensor):
                self._add(grad, parameter, "grad")
        for parameter, state in states.items() if isinstance(states, dict) else ():
            if isinstance(parameter, torch.Tensor) and isinstance(state, dict):
                for name, value in state.items():
                    for path, tensor in _leaves(str(name), value, _DEEPEST - 1):
                        self._add(tensor, parameter, path)
        return True

    def _add(self, tensor: torch.Tensor, parameter: torch.Tensor, name: str) -> None:
        for each in (tensor, shard_of(tensor)):
            self._known.setdefault(id(each), (each, parameter, name))

    def _parameters(self) -> Iterator[torch.Tensor]:
        for group in getattr(self._optimizer, "param_groups", ()):
            yield from (each for each in group["params"] if isinstance(each, torch.Tensor))


def _leaves(name: str, value: Any, depth: int) -> Iterable[tuple[str, torch.Tensor]]:
    """The tensors of a nested state, with their names."""
    return ((name, value),) if isinstance(value, torch.Tensor) else _inside(name, value, depth)


def _inside(name: str, value: Any, depth: int) -> Iterator[tuple[str, torch.Tensor]]:
    if depth and isinstance(value, dict | list | tuple):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield from _leaves(f"{name}.{key}", item, depth - 1)


def _file_of(kind: type) -> str:
    try:
        return inspect.getfile(kind)
    except (TypeError, OSError):
        return ""
