"""Whether all elements of an array are finite, as fast as they come out of memory."""

from __future__ import annotations

import functools
import math
import os
import threading
from collections.abc import Callable
from typing import Any

from tfdbg_cli.common.arrays import Array, np
from tfdbg_cli.dumps.dtypes import LAYOUTS, Layout, blocks

__all__ = ["all_finite", "count_bad", "finite_test"]

# A piece stays in a core's own cache while it is looked at.
_PIECE_BYTES = 1 << 20
# From so many bytes on, threads are worth starting; each takes so many at a time.
_SHARED_BYTES = 1 << 25
_SHARE_BYTES = 1 << 22
_MOST_THREADS = 16


def all_finite(values: Array) -> bool:
    """Whether an array has no nan and no infinity. A large one is looked at on all cores.

    Args:
        values: of any dtype; what can't hold a nan or an infinity is finite.
    """
    test = finite_test(values.dtype)
    if test is None or not values.size:
        return True
    step = max(_PIECE_BYTES // values.itemsize, 1)
    if values.size <= step:
        return test(values.reshape(-1))
    if values.nbytes < _SHARED_BYTES or not values.flags.c_contiguous:
        return all(map(test, blocks(values, step)))
    return _all_in_threads(values.reshape(-1), lambda part: all(map(test, blocks(part, step))))


def _all_in_threads(flat: Array, test: Callable[[Array], bool]) -> bool:
    """Whether something is true of all parts of a large array."""
    share = max(_SHARE_BYTES // flat.itemsize, 1)
    starts = list(range(0, flat.size, share))[::-1]
    stops: list[bool] = []

    def work() -> None:
        while not stops:
            try:
                at = starts.pop()
            except IndexError:
                return
            if not test(flat[at : at + share]):
                stops.append(True)

    threads: list[threading.Thread] = []
    try:
        for _ in range(min(_cores(), _MOST_THREADS, len(starts)) - 1):
            thread = threading.Thread(target=work, name="tfdbg_finite", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the interpreter ends, or there are too many
                break
            threads.append(thread)
        work()
        for thread in threads:
            thread.join()
        return not stops
    finally:
        stops.append(True)


def _cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


@functools.cache
def finite_test(dtype: np.dtype[Any]) -> Callable[[Array], bool] | None:
    """A function that says of a 1-d array of a dtype whether it is finite.

    Returns:
        ``None``: whatever has this dtype is.
    """
    layout = LAYOUTS.get(dtype.name)
    if layout is not None and dtype.isnative:
        return None if layout.special == "finite" else functools.partial(_by_bits, layout)
    if dtype.kind == "c" and dtype.isbuiltin == 1:
        part = dtype.type().real.dtype
        return lambda flat: _by_value(flat.view(part) if flat.flags.c_contiguous else flat)
    if dtype.isbuiltin == 2:  # registered by somebody: NumPy's own functions may not know it
        kinds = {"float": np.float32, "complex": np.complex64}
        found = (kinds[k] for k in kinds if dtype.name.removeprefix("b").startswith(k))
        wide = next(found, None)
        return None if wide is None else lambda flat: _by_value(flat.astype(wide))
    return _by_value if dtype.kind in "fc" else None


def _by_value(flat: Array) -> bool:
    # Nearly always the sum tells, in two thirds of the time; it warns of nothing.
    if flat.dtype.char in "fd" and math.isfinite(np.einsum("i->", flat)):
        return True
    return bool(np.isfinite(flat).all())


def _by_bits(layout: Layout, flat: Array) -> bool:
    """The same for types that NumPy computes element by element, or doesn't know.

    As signed integers, the largest bits are those of the largest positive element; as unsigned
    ones, those of the most negative. Two passes over a piece in cache are faster than a mask.
    """
    size = flat.itemsize
    bits, signed = flat.view(f"u{size}"), flat.view(f"i{size}")
    sign = 1 << layout.exponent + layout.mantissa
    if layout.special == "scale":
        return int(np.maximum.reduce(bits)) < 255
    if layout.special == "fnuz":
        return int(np.minimum.reduce(signed)) > -sign
    bad = sign - (1 << layout.mantissa if layout.special == "ieee" else 1)
    return int(np.maximum.reduce(signed)) < bad and int(np.maximum.reduce(bits)) < sign + bad


def count_bad(array: np.ndarray[Any, Any]) -> tuple[int, int, int]:
    """How many elements are NaN, minus infinity and plus infinity.

    A complex element counts as NaN if either part is, else by the first part that is infinite.
    Types without such values give zeros. Works in pieces: no temporary as large as the array.
    """
    if all_finite(array):
        return 0, 0, 0
    kind = array.dtype.kind
    test = finite_test(array.dtype)
    nan = minus = plus = 0
    for piece in blocks(array):
        if test is None or test(piece):
            continue
        part = piece if kind in "fc" else piece.astype(np.float32)
        bad = part[~np.isfinite(part)]
        is_nan = np.isnan(bad)
        nan += int(is_nan.sum())
        infinite = bad[~is_nan]
        if kind == "c":
            infinite = np.where(np.isinf(infinite.real), infinite.real, infinite.imag)
        negative = int((infinite < 0).sum())
        minus += negative
        plus += infinite.size - negative
    return nan, minus, plus
