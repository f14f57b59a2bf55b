"""TensorFlow's debug ops, computed of values that a run has kept.

The runtime's own kernels need a debug URL, know few element types, and name the nodes as the
optimizer has renamed them. What they compute is small arithmetic on one tensor, see
https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/kernels/debug_ops.h
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tfdbg_cli.dumps.dtypes import dtype_by_name
from tfdbg_cli.dumps.dump import Datum, Dump, InconvertibleTensorProto
from tfdbg_cli.dumps.memory import MemoryDump

__all__ = ["DebugOp", "apply_debug_ops", "parse_debug_op"]

_TEXT = re.compile(r"(\w+)(?:\((.*)\))?")

_Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class DebugOp:
    """One debug op with its attributes.

    Attributes:
        name: ``DebugIdentity``, ``DebugNanCount`` or ``DebugNumericSummary``.
        lower_bound: finite values up to it count as negative infinities.
        upper_bound: finite values from it on count as positive infinities.
        mute_if_healthy: nothing is dumped of a tensor without NaN and infinity.
    """

    name: str
    lower_bound: float = -math.inf
    upper_bound: float = math.inf
    mute_if_healthy: bool = False


_ATTRIBUTES: Mapping[str, Mapping[str, Callable[[str], Any]]] = {
    "DebugIdentity": {},
    "DebugNanCount": {},
    "DebugNumericSummary": {"lower_bound": float, "upper_bound": float, "mute_if_healthy": bool},
}


def parse_debug_op(text: str) -> DebugOp:
    """A debug op as a program writes it: ``Name`` or ``Name(attribute=value;attribute=value)``.

    Raises:
        ValueError: there is no such debug op, or it has no such attribute or value. (The attribute
            ``gated_grpc`` is read over: nothing is sent anywhere.)
    """
    match = _TEXT.fullmatch(text.strip())
    known = _ATTRIBUTES.get(match[1]) if match is not None else None
    if match is None or known is None:
        raise ValueError(f'"{text}" is not a debug op. There are {", ".join(_ATTRIBUTES)}.')
    attributes: dict[str, Any] = {}
    for item in filter(None, (match[2] or "").split(";")):
        name, equals, value = (part.strip() for part in item.partition("="))
        if name == "gated_grpc":
            continue
        if name not in known or not equals:
            has = f"It has {', '.join(known)}." if known else "It has none."
            raise ValueError(f'{match[1]} has no attribute "{name}". {has}')
        if name in attributes:
            raise ValueError(f'The attribute "{name}" of {match[1]} was given twice.')
        try:
            attributes[name] = _truth(value) if known[name] is bool else known[name](value)
        except ValueError:
            raise ValueError(f'"{value}" is not a value for {name} of {match[1]}.') from None
    return DebugOp(match[1], **attributes)


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "false", "1", "0"):
        raise ValueError(text)
    return text.lower() in ("true", "1")


def apply_debug_ops(dump: Dump, ops: Sequence[DebugOp]) -> MemoryDump:
    """The dump that debug ops make of a dump of values.

    A tensor that an op can't be computed of is left out of it: a NaN count of text, say.
    """
    made = MemoryDump(dump.graph, dump.sources(), dump.run_info())
    made.warnings.extend(dump.warnings)
    for datum in dump.data():
        for op in ops:
            if op.name == "DebugIdentity":
                made.add_datum(datum)
                continue
            result = _computed(op, datum, dump.value(datum))
            if result is not None:
                made.add(
                    datum.node_name,
                    datum.output_slot,
                    result,
                    timestamp=datum.timestamp,
                    device_name=datum.device_name,
                    debug_op=op.name,
                )
    return made


def _computed(op: DebugOp, datum: Datum, value: Any) -> _Array | None:
    if isinstance(value, InconvertibleTensorProto):
        if op.name != "DebugNumericSummary" or value.initialized:
            return None
        return None if op.mute_if_healthy else _uninitialized(datum)
    numbers = _numbers(value)
    if numbers is None:
        return None
    if op.name == "DebugNanCount":
        is_bool = np.asarray(value).dtype.kind == "b"
        return None if is_bool else np.array([np.isnan(numbers).sum()], np.int64)
    return _summary(op, datum, numbers, np.shape(value))


def _numbers(value: Any) -> _Array | None:
    """The elements as doubles; ``None``: they are no real numbers."""
    array = np.asarray(value)
    if array.dtype.kind == "c":
        return None
    try:
        with np.errstate(all="ignore"):
            numbers: _Array = array.astype(np.float64).reshape(-1)
    except (TypeError, ValueError):
        return None
    return numbers if array.dtype.kind in "biufV" else None


def _type_number(datum: Datum) -> float:
    dtype = dtype_by_name(datum.dtype)
    return float(dtype.number or 0) if dtype is not None else 0.0


def _uninitialized(datum: Datum) -> _Array:
    shape = datum.shape or ()
    empty = [0.0] * 8 + [math.inf, -math.inf, math.nan, math.nan]
    return np.array([*empty, _type_number(datum), len(shape), *shape], np.float64)


def _summary(op: DebugOp, datum: Datum, numbers: _Array, shape: Sequence[int]) -> _Array | None:
    """The numbers of ``DebugNumericSummary``.

    Is initialized, elements, NaNs, negative infinities, negative, zero, positive, positive
    infinities, then minimum, maximum, mean and variance of the finite elements (the bounds don't
    count here), the number of the element type, that of the dimensions, and their sizes.
    """
    nan = np.isnan(numbers)
    low = numbers <= op.lower_bound
    high = (numbers >= op.upper_bound) & ~low
    inside = ~(nan | low | high)
    if op.mute_if_healthy and inside.all():
        return None
    counts = [
        1,
        numbers.size,
        nan.sum(),
        low.sum(),
        (inside & (numbers < 0)).sum(),
        (inside & (numbers == 0)).sum(),
        (inside & (numbers > 0)).sum(),
        high.sum(),
    ]
    finite = numbers[np.isfinite(numbers)]
    ends = (
        [finite.min(), finite.max(), finite.mean(), finite.var()]
        if finite.size
        else [math.inf, -math.inf, math.nan, math.nan]
    )
    return np.array([*counts, *ends, _type_number(datum), len(shape), *shape], np.float64)
