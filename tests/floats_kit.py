"""Comparing floats that two libraries, or two kernels of one, have computed."""

from __future__ import annotations

from typing import Any

import numpy as np

# Kernels differ in the order of their sums, in what they fuse, and in the last places of exp, log.
_LAST_PLACES = 16


def assert_close(found: Any, expected: Any, terms: int = 1, of: float = 0.0) -> None:
    """The same, as far as the coarser of the two data types and the length of the sums allow.

    Where the very same kernel ran, or all values are exact in binary, compare for equality.

    Args:
        found, expected: arrays or numbers of the same shape.
        terms: how many products or terms were summed for an element, one after the other.
        of: the largest of the terms, if that is larger than any result.
    """
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape
    floats = [each.dtype for each in (found, expected) if each.dtype.kind in "fc"]
    eps = max((float(np.finfo(dtype).eps) for dtype in floats), default=0.0)
    finite = np.abs(np.where(np.isfinite(expected), expected, 0))
    scale = max(float(finite.max(initial=0)), of)
    np.testing.assert_allclose(found, expected, rtol=0, atol=_LAST_PLACES * eps * terms * scale)
