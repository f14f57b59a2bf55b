"""A few numbers about a whole tensor: how many bad elements, minimum, maximum and mean."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from tfdbg_cli.common.arrays import np
from tfdbg_cli.dumps.finite import count_bad
from tfdbg_cli.tensors.numeric import blocks, dtype_kind, exact_sum, widened

__all__ = ["Health", "Statistics", "holds_nonfinite", "joined_mean", "measure"]


class Health(NamedTuple):
    """How many elements are nan, minus infinity and plus infinity."""

    nan: int
    neg_inf: int
    pos_inf: int

    @property
    def bad(self) -> int:
        """How many elements are any of them."""
        return self.nan + self.neg_inf + self.pos_inf

    @property
    def kinds(self) -> list[tuple[int, str]]:
        """Of what there is: how many, and what it is called."""
        names = ("nan", "-inf", "+inf")
        return [(count, name) for count, name in zip(self, names, strict=True) if count]

    @property
    def text(self) -> str:
        """``3 nan, 1 +inf``; empty where nothing is bad."""
        return ", ".join(f"{count} {name}" for count, name in self.kinds)


@dataclass(frozen=True, slots=True)
class Statistics:
    """What is known of the elements of one tensor.

    Attributes:
        health: ``None`` where the element type can hold neither nan nor infinity.
        minimum, maximum: of the finite elements, of complex numbers of their absolute values; a
            Python ``int``, ``bool`` or ``float``. ``None`` where there is no such element.
        mean: of the same elements; of booleans, the share of true ones.
        error: why the value can't be had, one line; empty if it can.
    """

    health: Health | None = None
    minimum: float | None = None
    maximum: float | None = None
    mean: float | None = None
    error: str = ""


def holds_nonfinite(dtype: str) -> bool:
    """Whether elements of the type with this name can be nan or infinite."""
    return dtype.startswith(("float", "bfloat", "complex", "bcomplex"))


def _unchecked() -> None:
    pass


def measure(value: object, check: Callable[[], object] = _unchecked) -> Statistics:
    """Measure an array of any element type in one pass over bounded blocks.

    Args:
        value: an array; anything else (uninitialized, a resource handle) has no statistics, and
            neither have strings.
        check: called before each block; what it raises ends the measuring.
    """
    if not isinstance(value, np.ndarray | np.generic):
        return Statistics()
    array = np.asarray(value)
    kind = dtype_kind(array.dtype)
    # What the user has set for NumPy's warnings and errors is about the user's own arithmetic.
    with np.errstate(all="ignore"):
        if kind == "bool":
            return _measure_bool(array, check)
        if kind == "int":
            return _measure_int(array, check)
        if kind in ("float", "complex"):
            return _measure_float(array, check)
    return Statistics()


def _measure_bool(array: np.ndarray[Any, Any], check: Callable[[], object]) -> Statistics:
    if not array.size:
        return Statistics()
    true = 0
    for block in blocks(array):
        check()
        true += int(np.count_nonzero(block))
    return Statistics(None, true == array.size, true > 0, true / array.size)


def _measure_int(array: np.ndarray[Any, Any], check: Callable[[], object]) -> Statistics:
    if not array.size:
        return Statistics()
    lows, highs, total = [], [], 0
    for raw in blocks(array):
        check()
        block = widened(raw)
        low, high = int(block.min()), int(block.max())
        lows.append(low)
        highs.append(high)
        total += exact_sum(block, max(abs(low), abs(high)))
    # Division of Python integers is rounded once, whatever their size.
    return Statistics(None, min(lows), max(highs), total / array.size)


def _measure_float(array: np.ndarray[Any, Any], check: Callable[[], object]) -> Statistics:
    nan = neg_inf = pos_inf = count = 0
    low, high, mean = math.inf, -math.inf, 0.0
    for raw in blocks(array):
        if not raw.size:
            continue
        check()
        block = widened(raw)
        if block.dtype.kind == "c":
            finite = np.isfinite(block)
            is_clean = bool(finite.all())
            bad = block if not is_clean else None
            # Wide enough for the absolute value of any complex64.
            block = np.abs((block if is_clean else block[finite]).astype(np.complex128))
        else:
            if block.dtype.itemsize < 4:  # float16, which NumPy computes one by one
                block = block.astype(np.float32)
            # A nan or an infinity shows in the extremes: a clean block needs no mask.
            is_clean = bool(np.isfinite(block.min())) and bool(np.isfinite(block.max()))
            bad = block if not is_clean else None
            block = block if is_clean else block[np.isfinite(block)]
        if bad is not None:
            counts = count_bad(bad)
            nan, neg_inf, pos_inf = nan + counts[0], neg_inf + counts[1], pos_inf + counts[2]
        if block.size:
            lowest, highest = float(block.min()), float(block.max())
            low, high = min(low, lowest), max(high, highest)
            count += block.size
            # Rounding must not carry a mean beyond the extremes.
            part = min(max(_mean(block), lowest), highest)
            mean = min(max(joined_mean(mean, part, block.size / count), low), high)
    health = Health(nan, neg_inf, pos_inf)
    return Statistics(health, low, high, mean) if count else Statistics(health)


def _mean(block: np.ndarray[Any, Any]) -> float:
    mean = float(block.sum(dtype=np.float64)) / block.size
    if math.isfinite(mean):
        return mean
    # The sum is beyond the largest float64; the mean of finite numbers never is.
    return float((block / block.size).sum())


def joined_mean(mean: float, part: float, share: float) -> float:
    """The mean of all elements, of which ``share`` have the mean ``part``."""
    joined = mean + (part - mean) * share
    return joined if math.isfinite(joined) else mean * (1 - share) + part * share
