"""Tensor names with a slice behind them: ``a/b:0[0:5, ..., -1]``, as in NumPy.

Integers, ``start:stop:step``, ``...``, ``newaxis`` and lists of integers are read here and never
handed to Python. Anything else between the brackets (``_ > 3``, a mask of another tensor) is an
expression; who calls `apply_slice` says how it is evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tfdbg_cli.common.arrays import Array, np
from tfdbg_cli.common.errors import UserError

__all__ = [
    "Index",
    "Select",
    "apply_slice",
    "is_expression",
    "parse_indices",
    "parse_slice",
    "split_slice",
]

#: What a parsed slice is made of.
Index = tuple[Any, ...]

#: Evaluates a slice that is an expression: ``select(array, "[_ > 3]")`` gives the selected part.
Select = Callable[[Array, str], Any]

_INTEGER = re.compile(r"[+-]?\d{1,1000}\Z")  # Python converts some thousand digits, no more
_DEEPEST = 64  # NumPy has no more dimensions
_MOST_BRACKETS = 100  # of a name and a slice that are looked at
_NEWAXIS = re.compile(r"(?<![\w.])(?:(?:np\.)?newaxis|None)(?![\w.])")
_PLAIN = re.compile(r"[\s\d+\-:,.\[\]]*\Z")
_ARITHMETIC = re.compile(r"[\d\]]\s*[+-]")


def _closing(text: str, start: int) -> int:
    """The place of the bracket that closes the one at ``start``; -1 if none does.

    Brackets inside quotes and backticks don't count.
    """
    depth, at = 0, start
    while at < len(text):
        char = text[at]
        if char == "[":
            depth += 1
        elif char == "]":
            depth -= 1
            if depth == 0:
                return at
        elif char in "'\"`":
            end = text.find(char, at + 1)
            at = end if end > 0 else at
        at += 1
    return -1


def split_slice(text: str, is_name: Callable[[str], bool] | None = None) -> tuple[str, str]:
    """Split ``a/b:0[0:5]`` into ``("a/b:0", "[0:5]")``; the slice is empty if there is none.

    Args:
        text: a name, in quotes if it would be mistaken otherwise, and a slice.
        is_name: whether a name exists. The longest part of the text that is a name is taken for
            it, so that names may hold brackets; without one the slice begins at the first bracket.

    Raises:
        UserError: a bracket is not closed.
    """
    text = text.strip()
    if is_name is not None and is_name(text):
        return text, ""
    end = text.find(text[0], 1) if text.startswith(("'", '"')) else -1
    if end > 0 and text[end + 1 : end + 2] in ("", "["):
        return text[1:end], _checked(text[end + 1 :], text)
    if is_name is not None:
        at = text.rfind("[")
        for _ in range(_MOST_BRACKETS):
            if at <= 0:
                break
            if _closing(text, at) == len(text) - 1 and is_name(text[:at].rstrip()):
                return text[:at].rstrip(), text[at:]
            at = text.rfind("[", 0, at)
    name, bracket, rest = text.partition("[")
    return name.strip(), _checked(bracket + rest, text)


def _checked(slicing: str, text: str) -> str:
    slicing = slicing.strip()
    if slicing and not slicing.endswith("]"):
        raise UserError(f'The slice of "{text}" is not closed.', 'A "]" is missing at the end.')
    return slicing


def _integer(text: str, whole: str) -> int:
    if not _INTEGER.match(text):
        raise UserError(
            f'"{text or whole}" is not an index.',
            f"In {whole}: use numbers, :, ..., newaxis, lists, or an expression over _.",
        )
    return int(text)


def _inner(text: str) -> str:
    """What stands between the brackets.

    Raises:
        UserError: nothing, or there is more than one pair of brackets.
    """
    text = text.strip()
    if text.startswith("["):
        if _closing(text, 0) != len(text) - 1:
            raise UserError(
                f"{text} is not a single slice.", "One pair of brackets holds all indices: [0, 1:]."
            )
        text = text[1:-1].strip()
    if not text:
        raise UserError("The slice is empty.", "Write for example [0, :] or [-1].")
    return text


def is_expression(text: str) -> bool:
    """Whether a slice holds more than numbers, colons, ``...``, ``newaxis`` and lists."""
    plain = _NEWAXIS.sub("0", text)
    return _PLAIN.match(plain) is None or _ARITHMETIC.search(plain) is not None


def _pieces(text: str) -> list[str]:
    """The parts between the commas that no bracket encloses; a comma at the end counts nothing."""
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += (char == "[") - (char == "]")
        if char == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    last = text[start:].strip()
    return [*parts, last] if last or not parts else parts


def _numbers(piece: str, whole: str, depth: int = 1) -> list[Any]:
    """A list of integers, maybe nested."""
    if depth > _DEEPEST:
        raise UserError(f"The lists of indices nest deeper than {_DEEPEST}.")
    found: list[Any] = []
    for part in _pieces(piece[1:-1]):
        if part.startswith("[") and _closing(part, 0) == len(part) - 1:
            found.append(_numbers(part, whole, depth + 1))
        elif part or piece[1:-1].strip():
            found.append(_integer(part, whole))
    return found


def _index_array(piece: str, whole: str) -> np.ndarray[Any, Any]:
    try:
        return np.array(_numbers(piece, whole), dtype=np.intp)
    except (ValueError, OverflowError):
        raise UserError(
            f'"{piece}" is not a list of indices.', "Its rows must have the same length."
        ) from None


def parse_slice(text: str) -> Index:
    """The index of ``[...]``: integers, slices with a step, ``...``, ``newaxis``, lists.

    Raises:
        UserError: anything else.
    """
    inner = _inner(text)
    parts: list[Any] = []
    for piece in _pieces(inner):
        if piece == "...":
            if any(part is Ellipsis for part in parts):
                raise UserError(f'There is more than one "..." in {text}.')
            parts.append(Ellipsis)
        elif _NEWAXIS.fullmatch(piece):
            parts.append(None)
        elif piece.startswith("["):
            if _closing(piece, 0) != len(piece) - 1:
                raise UserError(f'"{piece}" is not an index.', "A list of indices is [0, 2].")
            parts.append(_index_array(piece, text))
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


def apply_slice(
    value: np.ndarray[Any, Any], text: str, name: str = "the tensor", select: Select | None = None
) -> np.ndarray[Any, Any]:
    """The sliced part, always an ndarray (0-d where the slice gives an element).

    It is a view, except where lists, masks or an expression select the elements.

    Args:
        value: the whole.
        text: the slice with its brackets.
        name: of the value, for messages.
        select: evaluates a slice that `is_expression`; without it such a slice is a mistake.

    Raises:
        UserError: the slice is malformed or doesn't fit the shape.
    """
    if select is not None and is_expression(text):
        _inner(text)
        return _as_array(select(value, text))
    index = parse_slice(text)
    wanted = sum(1 for part in index if part is not None and part is not Ellipsis)
    if wanted > value.ndim:
        raise UserError(
            f"{text} has {wanted} {'index' if wanted == 1 else 'indices'}, but {name} has "
            f"{value.ndim} dimension(s), "
            f"shape {value.shape}."
        )
    # An Ellipsis keeps the result an array where every axis is indexed by a number.
    has_ellipsis = any(part is Ellipsis for part in index)
    try:
        return _as_array(value[index if has_ellipsis else (*index, Ellipsis)])
    except (IndexError, OverflowError) as error:
        raise UserError(f"{text} does not fit: {error}.", f"The shape is {value.shape}.") from None


def _as_array(part: Any) -> np.ndarray[Any, Any]:
    if isinstance(part, np.ndarray):
        return part
    # A single string or object: np.asarray would give it another dtype, or look into it.
    if not isinstance(part, np.generic):
        array = np.empty((), dtype=object)
        array[()] = part
        return array
    return np.asarray(part)


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
