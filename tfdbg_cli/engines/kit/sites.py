"""Where in the user's code something happens, and how the user calls a tensor there."""

from __future__ import annotations

import inspect
import os
import weakref
from collections.abc import Callable, Iterator, Mapping
from types import FrameType, FunctionType, MethodType
from typing import Any, TypeVar

from tfdbg_cli.engines.kit.stacks import variables

__all__ = ["argument_names", "call_site", "leaves", "name_in", "named_parts"]

T = TypeVar("T")

_MOST_NAMES = 200


def call_site(frame: FrameType | None) -> str:
    """A frame in words: ``train.py:31 in main``; empty if there is none."""
    if frame is None:
        return ""
    code = frame.f_code
    place = f"{os.path.basename(code.co_filename)}:{frame.f_lineno}"
    return place if code.co_name == "<module>" else f"{place} in {code.co_name}"


def name_in(frame: FrameType | None, value: Any) -> str:
    """The variable of a frame that holds this very object; empty if none does."""
    if frame is None:
        return ""
    own = variables(frame)
    for name, held in list(own.items())[:_MOST_NAMES]:
        if held is value and not name.startswith("_"):
            return name
    owner = own.get("self")
    of_owner = list(getattr(owner, "__dict__", {}).items())[:_MOST_NAMES]
    for name, held in [*of_owner, *list(frame.f_globals.items())[:_MOST_NAMES]]:
        if held is value:
            return str(name).lstrip("_")
    return ""


def argument_names(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments of a call, by the names of the function's parameters."""
    try:
        signature = _signature_of(function)
        bound = signature.bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        return {**{f"args[{index}]": value for index, value in enumerate(args)}, **kwargs}
    named: dict[str, Any] = {}
    for name, value in bound.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            named.update(value)
        elif kind is inspect.Parameter.VAR_POSITIONAL:
            named.update({f"{name}[{index}]": item for index, item in enumerate(value)})
        else:
            named[name] = value
    return named


# By function; working one out takes longer than a short run.
_signatures: weakref.WeakKeyDictionary[Any, inspect.Signature] = weakref.WeakKeyDictionary()


def _signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """The signature of a function or of a bound method."""
    plain = getattr(function, "__func__", None)
    if not isinstance(function, MethodType) or not isinstance(plain, FunctionType):
        return inspect.signature(function)
    known = _signatures.get(plain)
    if known is None:
        known = _signatures[plain] = inspect.signature(function)
    return known


def leaves(value: Any) -> Iterator[Any]:
    """What is in nested lists, tuples and mappings, in their order."""
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, list | tuple):
        yield value
        return
    for each in value:
        yield from leaves(each)


def named_parts(
    name: str, value: Any, kind: type[T], depth: int = 3, most: int | None = _MOST_NAMES
) -> Iterator[tuple[str, T]]:
    """What is of a kind in a nested value, with names: ``batch.input_ids``, ``pair[0]``."""
    if isinstance(value, kind):
        yield name, value
    elif depth and isinstance(value, Mapping):
        for key, item in list(value.items())[:most]:
            yield from named_parts(f"{name}.{key}", item, kind, depth - 1, most)
    elif depth and isinstance(value, list | tuple):
        fields = getattr(value, "_fields", None)
        for index, item in enumerate(value[:most]):
            inner = f"{name}.{fields[index]}" if fields else f"{name}[{index}]"
            yield from named_parts(inner, item, kind, depth - 1, most)
