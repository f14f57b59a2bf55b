"""What the program calls arrays that a library hands to JAX in lists of its own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType, FunctionType, ModuleType
from typing import Any

import jax

from tfdbg_cli.dumps.sources import is_library_path
from tfdbg_cli.engines.kit.stacks import USER, kind_of, variables

__all__ = ["hides_names", "names_of_arrays"]

_MOST_VARIABLES = 200
_MOST_FRAMES = 40


def hides_names(function: Any) -> bool:
    """Whether a function isn't the program's own: its arguments are a library's lists."""
    if not isinstance(function, FunctionType):
        return True
    return is_library_path(function.__code__.co_filename)


def names_of_arrays(frame: FrameType | None) -> dict[int, str]:
    """The arrays that variables of the program hold, in models and trees, by their identity.

    Args:
        frame: where to begin to look outwards; the innermost of the program's own is the last.
    """
    found: dict[int, str] = {}
    state: Any = None
    for _ in range(_MOST_FRAMES):
        if frame is None:
            break
        is_user = kind_of(frame.f_code) == USER
        held = variables(frame)
        if not is_user:  # of a library only what is a model there
            state = held.get("state", state)
            held = {name: value for name, value in held.items() if name == "self"}
            found.update(_handed_over_by_keras(held.get("self"), state))
        for name, value in list(held.items())[:_MOST_VARIABLES]:
            if name.startswith("__") or isinstance(value, type | ModuleType | FunctionType):
                continue
            for path, array in _arrays(name, value):
                found.setdefault(id(array), path)
        if is_user:
            break
        frame = frame.f_back
    return found


def _arrays(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    try:
        yield from _of_keras(value)
        nnx = sys.modules.get("flax.nnx")
        if nnx is not None and isinstance(value, (nnx.Module, nnx.Optimizer)):
            yield from _of_nnx(nnx, name, value)
            return
        leaves, _ = jax.tree_util.tree_flatten_with_path(value)
    except Exception:  # a class that says it is a tree, and fails
        return
    for path, leaf in leaves:
        if isinstance(leaf, jax.Array):
            yield name + jax.tree_util.keystr(path), leaf


def _of_nnx(nnx: Any, name: str, module: Any) -> Iterator[tuple[str, Any]]:
    for path, part in nnx.iter_graph(module):
        if isinstance(part, nnx.Variable):
            raw = part.get_raw_value() if hasattr(part, "get_raw_value") else part.raw_value
            text = name + "".join(f"[{key!r}]" if type(key) is int else f".{key}" for key in path)
            for inner, leaf in jax.tree_util.tree_flatten_with_path(raw)[0]:
                yield text + jax.tree_util.keystr(inner), leaf


def _handed_over_by_keras(model: Any, state: Any) -> dict[int, str]:
    """The arrays of variables that Keras has emptied for the time of its loop."""
    keras = sys.modules.get("keras")
    if keras is None or not isinstance(model, keras.Model) or not isinstance(state, list | tuple):
        return {}
    optimizer = getattr(model, "optimizer", None)
    owned = (
        model.trainable_variables,
        model.non_trainable_variables,
        getattr(optimizer, "variables", ()),
        [each for metric in model.metrics for each in metric.variables],
    )
    found = {}
    for own, arrays in zip(owned, state, strict=False):
        if isinstance(arrays, list | tuple) and len(arrays) == len(own):
            found.update({id(array): each.path for each, array in zip(own, arrays, strict=True)})
    return found


def _of_keras(value: Any) -> Iterator[tuple[str, Any]]:
    keras = sys.modules.get("keras")
    if keras is None or not isinstance(value, keras.Model):
        return
    owners = [value, getattr(value, "optimizer", None)]
    for owner in owners:
        for variable in getattr(owner, "variables", ()) or ():
            yield variable.path, variable.value
    for metric in getattr(value, "metrics", ()) or ():
        for variable in metric.variables:
            yield f"metrics/{variable.path}", variable.value
