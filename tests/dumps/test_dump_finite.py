"""Whether an array is finite: every type, every code, every place."""

import threading

import ml_dtypes
import numpy as np
import pytest

from tfdbg_cli.dumps.dtypes import DTYPES, LAYOUTS, decode
from tfdbg_cli.dumps.finite import all_finite, count_bad

SMALL = [dtype for dtype in DTYPES if dtype.name in LAYOUTS]


@pytest.mark.parametrize("dtype", SMALL, ids=lambda dtype: dtype.name)
def test_every_code_of_a_small_type_is_judged_as_its_value(dtype):
    raw = np.dtype(dtype.raw)
    codes = np.arange(1 << 8 * raw.itemsize, dtype=np.uint32).astype(f"u{raw.itemsize}")
    if dtype.name == "float4_e2m1fn":
        codes = codes[:16]
    values = decode(codes.view(raw), dtype)
    right = np.isfinite(values.astype(np.float32))
    assert [all_finite(values[at : at + 1]) for at in range(len(values))] == right.tolist()
    # Among others, of either sign.
    clean = values[right]
    assert all_finite(clean)
    for bad in values[~right][:: max(len(values[~right]) // 50, 1)]:
        assert not all_finite(np.append(clean, bad).astype(values.dtype))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f2", ">f4", "g", "c8", "c16", ">c8"])
@pytest.mark.parametrize("bad", [np.nan, -np.nan, np.inf, -np.inf])
def test_a_bad_element_is_found_wherever_it_is(dtype, bad):
    array = np.zeros((50, 61), dtype)
    array[3, 5] = np.finfo(array.real.dtype.newbyteorder("=")).max
    assert all_finite(array) and count_bad(array) == (0, 0, 0)
    for place in ((0, 0), (49, 60), (20, 30)):
        whole = array.copy()
        whole[place] = bad
        assert not all_finite(whole)
        assert not all_finite(np.asfortranarray(whole)) and not all_finite(whole[::-1, ::-1])
        assert not all_finite(whole[place]) and sum(count_bad(whole)) == 1
        if array.dtype.kind == "c":
            whole[place] = complex(0, bad)
            assert not all_finite(whole)


def test_what_cannot_be_bad_is_finite():
    for value in ([1, 2], [True], [b"nan"], ["nan"], np.array([np.nan], object), []):
        assert all_finite(np.asarray(value))
    assert all_finite(np.zeros(3, [("a", "f4")])) and all_finite(np.zeros((3, 0), np.float32))
    assert all_finite(np.zeros(3, ml_dtypes.int4)) and all_finite(np.zeros(3, "M8[s]"))


@pytest.mark.parametrize("dtype", ["f2", "f4", ml_dtypes.bfloat16])
def test_a_large_array_is_looked_at_as_a_whole(dtype):
    array = np.zeros(40_000_000, dtype)
    assert all_finite(array)
    for place in (0, 17_654_321, len(array) - 1):
        array[place] = np.inf
        assert not all_finite(array)
        assert not all_finite(array[::-1])
        assert not all_finite(array.reshape(4, 1000, -1))
        assert count_bad(array) == (0, 0, 1)
        array[place] = 0
    assert not [t for t in threading.enumerate() if t.name == "tfdbg_finite" and t.is_alive()]
