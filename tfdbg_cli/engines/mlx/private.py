"""The version of MLX, and what of it the engine needs though nobody promises it."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from importlib.metadata import version
from types import FunctionType, NoneType
from typing import Any

from tfdbg_cli.engines.kit.patching.private_names import PrivateNames

__all__ = [
    "CALL",
    "COMPILED",
    "NAMES",
    "compiled_function",
    "is_compiled",
    "is_module",
    "modules_below",
]

NAMES = PrivateNames("MLX", version("mlx"), ["0.32.4"])
NAMES.require("mlx.core:array")
NAMES.require("mlx.core:custom_function")
NAMES.require("mlx.core:value_and_grad")
NAMES.require("mlx.core:vjp")
NAMES.require("mlx.core:compile")
# Its class, its inputs, its outputs, the function.
_OF_COMPILED = 4
COMPILED = NAMES.require("mlx.core:_gc_func")
CALL = NAMES.require("mlx.core:_gc_func.__call__")


def is_module(value: Any) -> bool:
    """Whether it is a module of `mlx.nn`, which is imported when the engine is installed."""
    layers = sys.modules.get("mlx.nn")
    return layers is not None and isinstance(value, layers.Module)


def modules_below() -> Iterator[type]:
    """The classes of modules, those of the program included."""
    layers = sys.modules.get("mlx.nn")
    waiting: list[type] = [] if layers is None else [layers.Module]
    while waiting:
        found = waiting.pop()
        yield found
        waiting += found.__subclasses__()


def is_compiled(made: Any) -> bool:
    """Whether `mx.compile` has made a function, and not `mx.grad`, say."""
    found = gc.get_referents(made)
    kinds = (list, tuple, dict, NoneType)
    return len(found) == _OF_COMPILED and all(isinstance(each, kinds) for each in found[1:3])


def compiled_function(compiled: Any) -> Any:
    """What a compiled function was made of; ``None``: it has a state besides, or isn't known."""
    _, *state, function = gc.get_referents(compiled)
    return function if state == [None, None] and isinstance(function, FunctionType) else None
