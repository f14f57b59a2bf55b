"""A value for ``--json``: what is known of it, then its elements."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tfdbg_cli.commands.json_lines import json_document
from tfdbg_cli.common.arrays import Array, np
from tfdbg_cli.common.documents import Document
from tfdbg_cli.dumps.dump import InconvertibleTensorProto
from tfdbg_cli.tensors.badness import can_be_bad, find_bad
from tfdbg_cli.tensors.numeric import dtype_name, widened
from tfdbg_cli.tensors.statistics import measure

__all__ = ["value_records"]

# Neighbours along the last axis that share an object.
_ROW = 32
_MOST_BAD = 10_000


def value_records(
    value: Array | InconvertibleTensorProto,
    *,
    name: str,
    dtype: str = "",
    slicing: str = "",
    is_bad_only: bool = False,
    dump: tuple[int, int] = (0, 1),
) -> Document:
    """One object about the whole value, then one for each stretch of its elements.

    Args:
        value: what is printed, sliced already.
        name: of the tensor.
        dtype: the dtype's name where the array's own isn't the true one.
        slicing: ``[...]``, or empty.
        is_bad_only: only the elements that are nan or infinite, the first 10,000, one an object.
        dump: which of how many dumps of the tensor it is.
    """
    head: dict[str, Any] = {"name": name, "slice": slicing, "dump": dump[0], "dumps": dump[1]}
    if isinstance(value, InconvertibleTensorProto):
        head |= {"dtype": dtype, "shape": None, "size": None, "note": str(value.description)}
        return json_document(1, lambda at: head)
    array = np.asarray(value)
    found = measure(array)
    counts = found.health._asdict() if found.health is not None else {}
    head |= {
        "dtype": dtype or dtype_name(array.dtype),
        "shape": list(array.shape),
        "size": array.size,
        **{key: counts.get(key) for key in ("nan", "neg_inf", "pos_inf")},
        "min": found.minimum,
        "max": found.maximum,
        "mean": found.mean,
    }
    if is_bad_only:
        places = find_bad(array, _MOST_BAD).places if can_be_bad(array.dtype) else ()
        return json_document(
            1 + len(places),
            lambda at: head if not at else _bad(array, places[at - 1]),
        )
    last = array.shape[-1] if array.ndim else 1
    in_row = -(-last // _ROW)
    count = math.prod(array.shape[:-1]) * in_row
    return json_document(
        1 + count, lambda at: head if not at else _stretch(array, *divmod(at - 1, in_row))
    )


def _bad(array: Array, place: tuple[int, ...]) -> Mapping[str, Any]:
    return {"at": list(place), "values": _listed(array[(*place, None)])}


def _stretch(array: Array, row: int, part: int) -> Mapping[str, Any]:
    if not array.ndim:
        return {"at": [], "values": _listed(array.reshape(1))}
    outer = [int(index) for index in np.unravel_index(row, array.shape[:-1])] if row else []
    outer = outer or [0] * (array.ndim - 1)
    begin = part * _ROW
    return {"at": [*outer, begin], "values": _listed(array[tuple(outer)][begin : begin + _ROW])}


def _listed(values: Array) -> list[Any]:
    found = widened(values).tolist() if values.dtype.kind not in "OSU" else values.tolist()
    plain = bool | int | float | complex | str | bytes
    return [each if isinstance(each, plain) else str(each) for each in found]
