"""The version of MLX, and what of it the engine needs though nobody promises it."""

from __future__ import annotations

import gc
import sys
from importlib.metadata import version
from types import FunctionType
from typing import Any

from tfdbg_cli.engines.kit.patching.private_names import PrivateNames

__all__ = ["NAMES", "compiled_function", "is_compiled", "is_module"]

NAMES = PrivateNames("MLX", version("mlx"), ["0.32.4"])
NAMES.require("mlx.core:array")
NAMES.require("mlx.core:custom_function")
NAMES.require("mlx.core:value_and_grad")
NAMES.require("mlx.core:vjp")
NAMES.require("mlx.core:compile")
COMPILED = NAMES.require("mlx.core:_gc_func")


def is_module(value: Any) -> bool:
    """Whether it is a module of `mlx.nn`, which is imported when the engine is installed."""
    layers = sys.modules.get("mlx.nn")
    return layers is not None and isinstance(value, layers.Module)


def is_compiled(value: Any) -> bool:
    """Whether `mx.compile` has made it."""
    return COMPILED is not None and type(value) is COMPILED


def compiled_function(compiled: Any) -> Any:
    """What a compiled function was made of; ``None``: it has a state besides, or isn't known."""
    others = [each for each in gc.get_referents(compiled) if not isinstance(each, type)]
    found = [each for each in others if each is not None]
    return found[0] if len(found) == 1 and isinstance(found[0], FunctionType) else None
