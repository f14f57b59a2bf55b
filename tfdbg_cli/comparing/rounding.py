"""How far rounding alone may take two results of one op apart, by what the op computed them from.

An error that is small beside the summands is not small beside their sum: the gradient of a bias
before a batch norm is 0 but for rounding.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from tfdbg_cli.common.arrays import Array, np
from tfdbg_cli.common.node_words import ALPHA, DIMENSIONS, VALUE
from tfdbg_cli.tensors.numeric import dtype_kind, widened

__all__ = ["Input", "carried", "summed"]

# So many roundings of its summands are ordinary for a sum.
_ROUNDINGS_OF_SUMMANDS = 4.0
# What is known of an op's errors is known but for such a factor.
_ABOUT = 2.0
# An op of which only its name is known is taken to magnify relative errors no more than this.
_MAGNIFIED = 8.0
# They don't take two numbers farther apart than they were.
_NO_FARTHER = frozenset({"same", "cast", "relu", "sigmoid", "tanh", "clip", "max", "softmax"})
_BACKWARD = re.compile(r"backward|grad|backprop", re.IGNORECASE)
_NORM = re.compile(r"norm(?!.*(backward|grad))", re.IGNORECASE)
_MOST_ELEMENTS = 1 << 24


class Input(Protocol):
    """What an op was given in both runs."""

    @property
    def scale(self) -> float:
        """The largest element, without its sign."""

    @property
    def apart(self) -> float:
        """How far the elements of both runs are apart."""


def summed(meaning: str, op_type: str, inputs: Sequence[Input], added: int, step: float) -> float:
    """How much of a difference comes of rounding, where large summands leave a small sum.

    Args:
        meaning: what the op computes, as `OpRoles.meanings` has it.
        op_type: of the op.
        inputs: what it was given.
        added: how many numbers make one element.
        step: the distance of 1 to the next number of the dtype.
    """
    size = _summands(meaning, op_type, inputs, added)
    return _ROUNDINGS_OF_SUMMANDS * step * math.sqrt(max(added, 1)) * size


def _summands(meaning: str, op_type: str, inputs: Sequence[Input], added: int) -> float:
    """The size of the numbers of which a sum is made; 0: the op makes none."""
    scales = sorted(each.scale for each in inputs)
    if not scales:
        return 0.0
    if meaning in ("add", "sub", "sum", "max"):
        return scales[-1]
    if meaning == "mean":
        return scales[-1] / max(added, 1)
    if meaning == "linear":
        return math.prod(scales[-2:])
    if _BACKWARD.search(op_type):
        return inputs[0].scale * max(each.scale for each in inputs[1:]) if inputs[1:] else scales[0]
    return 0.0


def carried(
    meaning: str,
    op_type: str,
    inputs: Sequence[Input],
    added: int,
    scale: float,
    total: int,
    values: Callable[[], Sequence[Sequence[Any]]],
    attributes: Mapping[str, str],
) -> float:
    """How far results may be apart because of how far the inputs are.

    Args:
        meaning, op_type, inputs, added: as `summed` takes them.
        scale, total: of the result, and how many elements it has.
        values: reads the inputs of the op itself, of each run.
        attributes: of the op.
    """
    if not any(each.apart for each in inputs):
        return 0.0
    worst = max((each.apart / each.scale for each in inputs if each.scale), default=0.0)
    if meaning in _NO_FARTHER:
        return _ABOUT * max(each.apart for each in inputs)
    known = _computed(meaning, total, values, attributes)
    if known is not None:
        return _ABOUT * known
    if meaning in ("add", "sub"):
        return _ABOUT * sum(each.apart for each in inputs)
    if meaning == "sum":
        return _ABOUT * min(math.sqrt(added) * _ABOUT, added) * max(each.apart for each in inputs)
    size = _summands(meaning, op_type, inputs, added) * math.sqrt(max(added, 1))
    # A norm gives means besides.
    most = max(each.apart for each in inputs) if _NORM.search(op_type) else 0.0
    return max(worst * size, _MAGNIFIED * worst * scale, _ABOUT * most)


def _computed(
    meaning: str,
    total: int,
    values: Callable[[], Sequence[Sequence[Any]]],
    attributes: Mapping[str, str],
) -> float | None:
    """How far the results of both runs are apart if they are computed again in float64."""
    how = _OPS.get(meaning)
    runs = values() if how is not None else ()
    if how is None or len(runs) != 2 or len(runs[0]) != len(runs[1]) or not runs[0]:
        return None
    made = []
    for given in runs:
        arrays = [np.asarray(each) for each in given]
        if any(each.size > _MOST_ELEMENTS or not _is_number(each) for each in arrays):
            return None
        try:
            with np.errstate(all="ignore"):
                made.append(how([widened(each).astype(np.float64) for each in arrays], attributes))
        except (ValueError, TypeError, IndexError, SyntaxError, np.exceptions.AxisError):
            return None
    if made[0] is None or made[1] is None or not made[0].size == made[1].size == total:
        return None
    with np.errstate(all="ignore"):
        apart = np.abs(made[0].reshape(-1) - made[1].reshape(-1))
    return float(apart.max(initial=0, where=np.isfinite(apart)))


def _is_number(array: Array) -> bool:
    return dtype_kind(array.dtype) in ("float", "int", "bool")


def _product(arrays: Sequence[Array], attributes: Mapping[str, str]) -> Array | None:
    if any(str(value) == "True" for value in attributes.values()):
        return None  # one is transposed
    matrices = [each for each in arrays if each.ndim >= 2]
    if len(matrices) != 2 or len(arrays) > 3:
        return None
    found: Array = matrices[0] @ matrices[1]
    others = [each for each in arrays if each.ndim < 2]
    return found + others[0] if others else found


def _reduced(how: str) -> Callable[..., Array | None]:
    def made(arrays: Sequence[Array], attributes: Mapping[str, str]) -> Array | None:
        text = next((attributes[name] for name in DIMENSIONS if name in attributes), "")
        numbers = [int(each) for each in re.findall(r"-?\d+", text)]
        if len(arrays) == 2 and arrays[1].ndim <= 1:  # TensorFlow gives them as a tensor
            numbers = [int(each) for each in arrays[1].reshape(-1)]
        elif len(arrays) != 1:
            return None
        return np.asarray(getattr(np, how)(arrays[0], axis=tuple(numbers) or None))

    return made


def _quotient_added(arrays: Sequence[Array], attributes: Mapping[str, str]) -> Array | None:
    """``a + value * b / c``: with all elements of Adam's step where a gradient is only rounding."""
    if len(arrays) != 3:
        return None
    factor = float(attributes.get(VALUE, "1"))
    return np.asarray(arrays[0] + factor * arrays[1] / arrays[2])


def _pair(how: str) -> Callable[..., Array | None]:
    def made(arrays: Sequence[Array], attributes: Mapping[str, str]) -> Array | None:
        if len(arrays) != 2:
            return None
        factor = float(attributes.get(ALPHA, "1"))
        second = factor * arrays[1] if factor != 1 else arrays[1]
        return np.asarray(getattr(np, how)(arrays[0], second))

    return made


# The functions of NumPy by name: NumPy isn't imported before the program has had its say.
_OPS: Mapping[str, Callable[[Sequence[Array], Mapping[str, str]], Array | None]] = {
    "add": _pair("add"),
    "sub": _pair("subtract"),
    "mul": _pair("multiply"),
    "div": _pair("divide"),
    "sum": _reduced("sum"),
    "mean": _reduced("mean"),
    "linear": _product,
    "addcdiv": _quotient_added,
}
