"""Tensor names with a slice behind them: ``a/b:0[0:5, ..., -1]``, as in NumPy."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from tfdbg_cli.errors import UserError

__all__ = ["Index", "apply_slice", "parse_indices", "parse_slice", "split_slice"]

#: What a parsed slice is made of.
Index = tuple[Any, ...]

_INTEGER = re.compile(r"[+-]?\d{1,18}\Z")


def split_slice(text: str) -> tuple[str, str]:
    """Split ``a/b:0[0:5]`` into ``("a/b:0", "[0:5]")``; the slice is empty if there is none.

    Raises:
        UserError: a bracket is not closed.
    """
    text = text.strip()
    name, bracket, rest = text.partition("[")
    if not bracket:
        return text, ""
    if not rest.endswith("]"):
        raise UserError(f'The slice of "{text}" is not closed.', 'A "]" is missing at the end.')
    return name.strip(), "[" + rest


def _integer(text: str, whole: str) -> int:
    if not _INTEGER.match(text):
        raise UserError(
            f'"{text or whole}" is no index.', f"In {whole}: use numbers, :, ... and newaxis."
        )
    return int(text)


def parse_slice(text: str) -> Index:
    """The index of ``[...]``: integers, slices with a step, ``...`` and ``newaxis``/``None``.

    Raises:
        UserError: anything else.
    """
    inner = text.strip()
    if inner.startswith("[") and inner.endswith("]"):
        inner = inner[1:-1]
    if not inner.strip():
        raise UserError("The slice is empty.", "Write for example [0, :] or [-1].")
    parts: list[Any] = []
    pieces = inner.split(",")
    if len(pieces) > 1 and not pieces[-1].strip():  # [0,] is [0]
        pieces.pop()
    for raw in pieces:
        piece = raw.strip()
        if piece == "...":
            if Ellipsis in parts:
                raise UserError(f'There is more than one "..." in {text}.')
            parts.append(Ellipsis)
        elif piece in ("newaxis", "np.newaxis", "None"):
            parts.append(None)
        elif ":" in piece:
            bounds = piece.split(":")
            if len(bounds) > 3:
                raise UserError(f'"{piece}" has too many colons.', "A slice is start:stop:step.")
            values = [_integer(b.strip(), text) if b.strip() else None for b in bounds]
            if len(values) == 3 and values[2] == 0:
                raise UserError(f'The step of "{piece}" is 0.')
            parts.append(slice(*values))
        else:
            parts.append(_integer(piece, text))
    return tuple(parts)


def apply_slice(value: np.ndarray[Any, Any], text: str, name: str = "the tensor") -> Any:
    """A view of the sliced part, always an ndarray (0-d where the slice gives an element).

    Raises:
        UserError: the slice is malformed or doesn't fit the shape.
    """
    index = parse_slice(text)
    wanted = sum(1 for part in index if part is not None and part is not Ellipsis)
    if wanted > value.ndim:
        raise UserError(
            f"{text} has {wanted} indices, but {name} has {value.ndim} dimension(s), "
            f"shape {value.shape}."
        )
    # An Ellipsis keeps the result an array where every axis is indexed by a number.
    full = index if Ellipsis in index else (*index, Ellipsis)
    try:
        return value[full]
    except IndexError as error:
        raise UserError(f"{text} does not fit: {error}.", f"The shape is {value.shape}.") from None


def parse_indices(text: str) -> tuple[int, ...]:
    """The indices of ``@[i,j]``; the brackets are optional.

    Raises:
        UserError: they are empty or no whole numbers.
    """
    inner = text.strip()
    if inner.startswith("[") and inner.endswith("]"):
        inner = inner[1:-1]
    if not inner.strip():
        raise UserError("There are no indices.", "Write for example @[10,0].")
    return tuple(_integer(piece.strip(), text) for piece in inner.split(","))
