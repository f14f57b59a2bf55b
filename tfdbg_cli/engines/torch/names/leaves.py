"""Names for tensors that no op of the run has made: parameters, states, variables."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, FrameType, FunctionType, ModuleType, NoneType
from typing import Any

import torch

from tfdbg_cli.engines.kit.stacks import user_frames, variables
from tfdbg_cli.engines.torch.names.optimizers import Updates
from tfdbg_cli.engines.torch.names.scopes import Leaf, Names, legal
from tfdbg_cli.engines.torch.names.sites import tensors_in
from tfdbg_cli.engines.torch.private import is_alone, quiet, shard_of, storage_key
from tfdbg_cli.engines.torch.values.access import gradient_of
from tfdbg_cli.engines.torch.values.notes import note

__all__ = ["Leaves", "named_tensors"]

# A name is looked for in so many variables of a frame and items of each, and for so many tensors.
_MOST_VARIABLES = 300
_MOST_ITEMS = 50
_MOST_SEARCHES = 200
_NO_COLLECTIONS = (
    torch.nn.Module,
    torch.Tensor,
    type,
    str,
    int,
    float,
    NoneType,
    ModuleType,
    FunctionType,
    BuiltinFunctionType,
)
_INDEX = re.compile(r"\[['\"]?([^\]'\"]*)['\"]?\]")


class Leaves:
    """Finds the names of leaves in one run.

    Args:
        names: of modules and their tensors.
        leaf_of: the record of the leaf that a parameter is, made if there is none; or its name.
    """

    def __init__(self, names: Names, leaf_of: Callable[[torch.Tensor], Any]) -> None:
        self._names = names
        self._leaf_of = leaf_of
        self._in_storage: dict[int, tuple[torch.Tensor, Leaf]] | None = None
        self._searches = 0

    def leaf(
        self, tensor: torch.Tensor, updates: Updates | None, optimizer: str
    ) -> tuple[torch.Tensor, Leaf] | None:
        """The tensor of a model or an optimizer that a tensor is, or shares its memory with.

        Args:
            tensor: made by no op.
            updates: of the optimizer that makes a step now.
            optimizer: prefix of its names.
        """
        found = self._names.tensor(tensor)
        if found is None and updates is not None:
            found = self._state(tensor, updates, optimizer)
        if found is not None:
            return tensor, found
        with quiet():  # classes of the program's would see what is asked
            key = storage_key(tensor)
            if self._in_storage is None:
                if tensor.grad_fn is not None and is_alone(key):
                    return None  # made by autograd, and a part of nothing: of no model either
                self._in_storage = self._places()
                found = self._names.tensor(tensor)
                if found is not None:
                    return tensor, found
            place = self._in_storage.get(key) if key else None
            # A storage of the past may have had the same address.
            return place if place is not None and storage_key(place[0]) == key else None

    def _state(self, tensor: torch.Tensor, updates: Updates, optimizer: str) -> Leaf | None:
        if updates.owner(tensor) is None:
            updates.find()
        parameter = updates.owner(tensor)
        state = updates.state(tensor)
        if parameter is None or not state:
            return None
        owner = self._leaf_of(parameter)
        if state == "grad":
            return Leaf(tensor, "input/", "Input", owner, ".grad")
        return Leaf(tensor, optimizer, "State", owner, f"/{legal(state)}")

    def plain_name(self, parameter: torch.Tensor) -> str:
        """The name of a parameter of a known module; empty for others."""
        known = self._names.tensor(parameter)
        if known is None and self._in_storage is None:
            with quiet():
                self._in_storage = self._places()
            known = self._names.tensor(parameter)
        return known.name if known is not None else ""

    def _places(self) -> dict[int, tuple[torch.Tensor, Leaf]]:
        self._names.search()
        found: dict[int, tuple[torch.Tensor, Leaf]] = {}
        for tensor, leaf in self._names.tensors():
            part = shard_of(tensor)
            if part is not tensor:
                leaf.note = note(tensor)
            found[storage_key(part)] = (part, leaf)
            grad = gradient_of(tensor)
            if grad is not None:
                known = Leaf(grad, f"input/{leaf.name}.grad", "Input")
                part = shard_of(grad)
                if part is not grad:
                    known = Leaf(part, known.name, known.op_type)
                    known.note = note(grad)
                found[storage_key(part)] = (part, known)
        found.pop(0, None)
        return found

    def variable(self, tensor: torch.Tensor, frame: FrameType | None) -> str:
        """What the user's code calls a tensor, in the innermost frame that knows it."""
        self._searches += 1
        if self._searches > _MOST_SEARCHES:
            return ""
        inside = ""
        for at in user_frames(frame):
            for name, value in itertools.islice(variables(at).items(), _MOST_VARIABLES):
                if value is tensor:
                    return _clean(name)
                if not inside:
                    inner = _inside(value, tensor)
                    inside = inner if name == "self" or not inner else f"{name}.{inner}"
        return _clean(inside) if inside else ""


def _inside(value: Any, tensor: torch.Tensor) -> str:
    """Where in a collection or an object a tensor is: a key, an index, an attribute."""
    items: Any
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list | tuple):
        items = enumerate(value)
    elif isinstance(value, _NO_COLLECTIONS):
        return ""
    else:
        try:
            items = vars(value).items()
        except Exception:  # an object without attributes, or one that makes them up
            return ""
    for key, item in itertools.islice(items, _MOST_ITEMS):
        if item is tensor:
            return str(key)
    return ""


def _clean(name: str) -> str:
    return legal(_INDEX.sub(r".\1", name)).strip(".")


def named_tensors(name: str, value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors of a nested value, with their names: ``batch.ids``, ``pair.0``."""
    for path, tensor in tensors_in(name, value, depth=4, most=None):
        yield _clean(path), tensor
