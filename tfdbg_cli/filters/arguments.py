"""Arguments of filters: ``NAME:ARGUMENT`` gives values to a filter's keyword-only parameters."""

from __future__ import annotations

import enum
import functools
import inspect
import math
from collections.abc import Iterator, Sequence
from typing import Any

from tfdbg_cli.common.errors import UserError, did_you_mean
from tfdbg_cli.common.fields import to_bool
from tfdbg_cli.dumps.dump import Predicate, marked_as

__all__ = ["SIGN", "choices", "example", "parameters", "required", "usage", "with_arguments"]

#: Between a filter's name and its arguments.
SIGN = ":"


def parameters(tensor_filter: Predicate) -> list[inspect.Parameter]:
    """The keyword-only parameters of a filter: what it takes as arguments, in this order.

    Annotations that are written as text are looked up, where that works.
    """
    try:
        try:
            signature = inspect.signature(tensor_filter, eval_str=True)
        except (NameError, SyntaxError, AttributeError):
            signature = inspect.signature(tensor_filter)
    except (TypeError, ValueError):
        return []
    return [each for each in signature.parameters.values() if each.kind == each.KEYWORD_ONLY]


def required(tensor_filter: Predicate) -> list[str]:
    """The names of the arguments that a filter can't do without."""
    return [each.name for each in parameters(tensor_filter) if each.default is each.empty]


def choices(parameter: inspect.Parameter) -> list[str]:
    """The values that an argument may have; none: any of its type."""
    kind = parameter.annotation
    if not (isinstance(kind, type) and issubclass(kind, enum.Enum)):
        return []
    return [str(each.value) for each in kind]


def usage(name: str, tensor_filter: Predicate) -> str:
    """A filter's name with its arguments: ``underflows:DTYPE[:SHARE]``."""
    text = name
    for each in parameters(tensor_filter):
        written = f"{SIGN}{each.name.upper()}"
        text += written if each.default is each.empty else f"[{written}]"
    return text


def example(name: str, tensor_filter: Predicate) -> Iterator[str]:
    """Ways to write a filter: its name, or where it needs an argument of a few, with each."""
    needed = [each for each in parameters(tensor_filter) if each.default is each.empty]
    if not needed:
        yield name
    elif len(needed) == 1:
        for choice in choices(needed[0]):
            yield f"{name}{SIGN}{choice}"


def with_arguments(name: str, tensor_filter: Predicate, texts: Sequence[str]) -> Predicate:
    """A filter with its arguments.

    An argument is what its parameter's annotation makes of the text (``int``, ``float``, a class
    of `enum.Enum`); without one, the type of its default does.

    Args:
        name: of the filter.
        tensor_filter: it.
        texts: the arguments as they were written; an empty one is left at its default.

    Raises:
        UserError: one is missing, is too many, or has a value that it can't have.
    """
    taken = parameters(tensor_filter)
    how = f"It is written {usage(name, tensor_filter)}."
    if len(texts) > len(taken):
        if not taken:
            raise UserError(f'The filter "{name}" takes no argument.', f"Write {name} alone.")
        raise UserError(f'The filter "{name}" takes at most {len(taken)} argument(s).', how)
    given = {
        each.name: _value(name, each, text, how)
        for each, text in zip(taken, texts, strict=False)
        if text
    }
    missing = [each for each in taken if each.default is each.empty and each.name not in given]
    if missing:
        known = ", ".join(choices(missing[0]))
        of_these = f" {missing[0].name.upper()} is one of {known}." if known else ""
        raise UserError(f'The filter "{name}" needs an argument.', f"{how}{of_these}")
    bound: Predicate = functools.partial(tensor_filter, **given)
    return marked_as(bound, tensor_filter)


def _value(name: str, parameter: inspect.Parameter, text: str, how: str) -> Any:
    empty = parameter.empty
    kind = parameter.annotation
    if not isinstance(kind, type) or kind is empty:
        kind = str if parameter.default in (empty, None) else type(parameter.default)
    try:
        found = to_bool(text) if kind is bool else kind(text)
        if isinstance(found, float) and math.isnan(found):
            raise ValueError
        return found
    except ValueError:
        known = choices(parameter)
        hint = did_you_mean(text, known) or f"There are {', '.join(known)}." if known else ""
        if not known and kind.__module__ != "builtins":
            hint = (kind.__doc__ or "").strip().partition("\n")[0]
        raise UserError(
            f'The filter "{name}" can\'t take "{text}" for {parameter.name.upper()}.', hint or how
        ) from None
