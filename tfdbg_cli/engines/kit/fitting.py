"""Whether a value can stand for a tensor: one rule and one wording for all engines.

A value fits where it loses no more than precision. Of Python's own numbers the kind is what counts
(whole numbers are numbers), of arrays the dtype.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tfdbg_cli.common.errors import UserError, message_of
from tfdbg_cli.dumps.dump import CannotRedo, NewValues
from tfdbg_cli.dumps.finite import all_finite

__all__ = [
    "bytes_array",
    "cannot_have",
    "fitted_array",
    "nobody_elses",
    "refuse_written",
    "replaced",
    "stands_for",
    "wrong_dtype",
    "wrong_shape",
]

_Shape: TypeAlias = Sequence[int | None] | None

#: Python's numbers, each kind of which fits into those after it.
_KINDS = "biufc"


def nobody_elses(value: Any) -> Any:
    """A copy of a value that its holder may write to; what is not an array can't be written to."""
    return np.array(value) if isinstance(value, np.ndarray | np.generic) else value


def fitted_array(
    name: str, value: Any, dtype: np.dtype[Any], shape: _Shape, other: str = ""
) -> NDArray[Any]:
    """A value as an array that can stand for a tensor; a copy that nobody can write to.

    Args:
        name: of the tensor.
        value: an array, or numbers or text in nested lists.
        dtype: of the tensor; objects are text, as bytes.
        shape: of the tensor, as far as it is known; ``None``: not even its rank.
        other: the name of the tensor that the value is, which can't be; empty: it is none.

    Raises:
        UserError: its dtype or shape isn't the tensor's.
    """
    if other:
        raise UserError(
            f"The value for {name} is itself a tensor ({other}).", "Give an array or a number."
        )
    try:
        array = bytes_array(value) if dtype.kind == "O" else _numbers(name, value, dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise cannot_have(name, error) from error
    is_alike = shape is None or (
        len(shape) == array.ndim
        and all(size in (None, own) for size, own in zip(shape, array.shape, strict=True))
    )
    if shape is not None and not is_alike:
        raise wrong_shape(name, shape, array.shape)
    array.setflags(write=False)
    return array


def cannot_have(name: str, why: BaseException | str) -> UserError:
    """What can't become a value of a tensor at all."""
    text = why if isinstance(why, str) else " ".join(message_of(why).split())
    return UserError(f"{name} can't have this value: {text.rstrip('.')}.")


def wrong_shape(name: str, wanted: Sequence[int | None], given: Sequence[int]) -> UserError:
    """A value of another shape than the tensor's."""
    sizes = ", ".join("?" if size is None else str(size) for size in wanted)
    return UserError(f"{name} has the shape [{sizes}]; the value has {list(given)}.")


def wrong_dtype(name: str, wanted: str, given: str, hint: str = "") -> UserError:
    """A value whose dtype would lose more than precision."""
    return UserError(f"{name} is {wanted}; the value is {given}, which would lose too much.", hint)


def bytes_array(value: Any) -> NDArray[Any]:
    """Text as an array of bytes objects.

    Raises:
        TypeError: it is not text.
    """
    array = np.array(value, dtype=object)
    made = np.empty(array.size, dtype=object)
    for index, each in enumerate(array.reshape(-1)):
        made[index] = each.encode("utf-8") if isinstance(each, str) else each
        if not isinstance(made[index], bytes):
            raise TypeError(f"it is string, not {type(each).__name__}")
    return made.reshape(array.shape)


def _numbers(name: str, value: Any, wanted: np.dtype[Any]) -> NDArray[Any]:
    is_weak = not isinstance(value, np.ndarray | np.generic)
    given = np.asarray(value)
    if given.dtype.kind == "O" and given.size and all(type(each) is int for each in given.flat):
        raise OverflowError(f"{wanted.name} can't hold it")  # nor can any other of NumPy's
    if given.dtype.kind in "OSTU":
        raise TypeError(f"it is {wanted.name}, not {type(value).__name__}")
    if not _fits(given.dtype, wanted, is_weak):
        hint = "" if is_weak else f"Convert it: value.astype({wanted.name!r})."
        raise wrong_dtype(name, wanted.name, given.dtype.name, hint)
    array = np.array(given, dtype=wanted)
    if _kind(wanted) in "iu" and not np.array_equal(array, given):
        raise OverflowError(f"{wanted.name} can't hold it")
    return array


def _fits(given: np.dtype[Any], wanted: np.dtype[Any], is_weak: bool) -> bool:
    kinds = _kind(given), _kind(wanted)
    if is_weak:
        return _KINDS.index(kinds[0].replace("u", "i")) <= _KINDS.index(kinds[1])
    return given == wanted or kinds == ("f", "f") or bool(np.can_cast(given, wanted, "same_kind"))


def _kind(dtype: np.dtype[Any]) -> str:
    """``b``, ``i``, ``u``, ``f`` or ``c``, of the dtypes of ml_dtypes as well."""
    if dtype.kind != "V":
        return dtype.kind
    return "f" if dtype.name.startswith(("bfloat", "float")) else dtype.name[:1]


def stands_for(name: str, value: Any, was: Any) -> NDArray[Any]:
    """A computed value in place of another one of the run; a copy.

    Args:
        name: of the tensor.
        value: may be of a wider dtype.
        was: the other one, an array or what has its dtype and shape.

    Raises:
        CannotRedo: it is of another shape, or its numbers are beyond the range of the dtype.
    """
    if not hasattr(was, "dtype") or not hasattr(was, "shape"):
        raise CannotRedo(f"{name} is returned as a {type(was).__name__}")
    if tuple(was.shape) != value.shape:
        raise CannotRedo(f"{name} would have another shape, {list(value.shape)}")
    with np.errstate(over="ignore"):
        made = np.array(value, dtype=was.dtype)
    if all_finite(value) and not all_finite(made):
        raise CannotRedo(f"{name} would be beyond the range of {was.dtype}")
    return made


def refuse_written(new: NewValues) -> None:
    """Refuse other results of a run that has written other values to variables already.

    Raises:
        CannotRedo: it has.
    """
    if new.written:
        raise CannotRedo(f"the run has written to {', '.join(new.written)} already")


def replaced(fetches: Any, value: Any, name_of: Callable[[Any], str], new: NewValues) -> Any:
    """What a session returns for its fetches, with other values of some tensors.

    Args:
        fetches: a fetch, or a nest of lists, tuples and dicts of them.
        value: what was returned for them; stays as it is.
        name_of: the tensor that a fetch is; empty: it is none.
        new: the tensors with other values.

    Raises:
        CannotRedo: a value isn't known, or can't stand for the other one.
    """
    if isinstance(fetches, list | tuple):
        # A callable may return the first ones alone.
        pairs = zip(fetches, value, strict=False)
        made = [replaced(fetch, each, name_of, new) for fetch, each in pairs]
        return type(value)(*made) if hasattr(value, "_fields") else type(value)(made)
    if isinstance(fetches, Mapping):
        made = copy.copy(value)
        for key, fetch in fetches.items():
            made[key] = replaced(fetch, value[key], name_of, new)
        return made
    name = name_of(fetches)
    found = new(name) if name else None
    if found is None:
        return value
    array = stands_for(name, found, value)
    return array[()] if isinstance(value, np.generic) else array
