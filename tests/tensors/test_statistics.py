"""Health, minimum, maximum and mean of arrays of every dtype, against NumPy in wider types."""

import math
import warnings

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tfdbg_cli.dumps.dump import InconvertibleTensorProto
from tfdbg_cli.tensors.statistics import Health, Statistics, holds_nonfinite, measure

FLOATS = [
    *(np.float16, np.float32, np.float64, np.longdouble, ">f4", ml_dtypes.bfloat16),
    *(ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3b11fnuz),
]
LARGE = 3_000_001  # several blocks, the last one not full


@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_of_every_kind(dtype):
    found = measure(np.array([[0.5, -2], [3, np.nan]]).astype(dtype))
    assert found == Statistics(Health(1, 0, 0), -2.0, 3.0, 0.5)
    assert all(type(n) is float for n in (found.minimum, found.maximum, found.mean))
    assert measure(np.array([1, 4]).astype(dtype)) == Statistics(Health(0, 0, 0), 1.0, 4.0, 2.5)


@pytest.mark.parametrize("dtype", [np.float16, np.float64, ml_dtypes.bfloat16, "float8_e5m2"])
def test_infinities_are_counted_by_sign_and_left_out_of_the_numbers(dtype):
    dtype = getattr(ml_dtypes, dtype) if isinstance(dtype, str) else dtype
    inf = np.inf
    found = measure(np.array([-inf, 1, inf, -inf, np.nan, 2]).astype(dtype))
    assert found == Statistics(Health(1, 2, 1), 1.0, 2.0, 1.5)
    assert measure(np.array([np.nan, inf]).astype(dtype)) == Statistics(Health(1, 0, 1))


def test_complex_numbers_by_their_absolute_values():
    value = np.array([3 + 4j, 0, complex(np.nan, 1), complex(1, -np.inf), complex(np.inf, 1)])
    expected = Statistics(Health(1, 1, 1), 0.0, 5.0, 2.5)
    assert measure(value) == measure(value.astype(np.complex64)) == expected
    large = measure(np.array([complex(3e38, 3e38)], np.complex64))
    assert math.isclose(large.maximum, math.hypot(3e38, 3e38), rel_tol=1e-6)


def test_integers_are_exact():
    top = (1 << 64) - 1
    found = measure(np.array([0, top], np.uint64))
    assert (found.minimum, found.maximum, found.mean) == (0, top, top / 2)
    assert type(found.maximum) is int and found.health is None
    bottom = -(1 << 63)
    assert measure(np.full(LARGE, bottom)) == Statistics(None, bottom, bottom, float(bottom))
    assert measure(np.full(LARGE, top, np.uint64)).mean == float(top)
    assert measure(np.full(LARGE, 127, np.int8)) == Statistics(None, 127, 127, 127.0)
    assert measure(np.array([-8, 7], ml_dtypes.int4)) == Statistics(None, -8, 7, -0.5)
    assert measure(np.array([15, 1], ml_dtypes.uint4)) == Statistics(None, 1, 15, 8.0)


def test_booleans():
    assert measure(np.array([True, False, False, True])) == Statistics(None, False, True, 0.5)
    found = measure(np.zeros(3, bool))
    assert (found.minimum, found.maximum, found.mean) == (False, False, 0.0)
    assert type(found.minimum) is bool


def test_zero_dimensions_and_no_elements():
    assert measure(np.array(2.5, np.float32)) == Statistics(Health(0, 0, 0), 2.5, 2.5, 2.5)
    assert measure(np.float32(2.5)) == measure(np.array([2.5]))
    for shape in ((0,), (0, 3), (2, 0), (0, 0)):
        assert measure(np.zeros(shape)) == Statistics(Health(0, 0, 0))
        assert measure(np.zeros(shape, np.int32)) == Statistics()
        assert measure(np.zeros(shape, bool)) == Statistics()


@pytest.mark.parametrize(
    "value",
    [
        np.array([b"a", b""], object),
        np.array(["a"]),
        np.array(["2024-01-01"], "M8[s]"),
        np.zeros(3, "i4,f4"),
        InconvertibleTensorProto("Uninitialized", initialized=False),
        None,
        "text",
    ],
)
def test_what_has_no_statistics(value):
    assert measure(value) == Statistics()


def test_the_mean_never_overflows():
    most = np.finfo(np.float64).max
    assert measure(np.full(4, most)).mean == most
    assert measure(np.full(LARGE, -most)).mean == pytest.approx(-most)
    halves = np.full(LARGE, most)
    halves[: LARGE // 2] = -most
    assert abs(measure(halves).mean / most) < 1e-6
    half = measure(np.full(100_000, 60_000, np.float16))
    assert half.mean == half.maximum == float(np.float16(60_000))
    assert measure(np.full(LARGE, 0.1, np.float32)).mean == pytest.approx(float(np.float32(0.1)))


def test_the_users_own_settings_for_numpy_are_not_asked():
    value = np.array([np.nan, np.inf, 1e308, 1e308])
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        assert measure(value).mean == 1e308
        assert measure(value.astype(complex)).maximum == 1e308
        assert np.geterr()["over"] == "raise"


@pytest.mark.parametrize("layout", ["rows", "transposed", "reversed", "broadcast", "tall"])
def test_several_blocks_of_any_layout(layout):
    base = np.arange(3_000_000, dtype=np.float32).reshape(1000, 3000)
    base[17, 5], base[-1, -1], base[500, 0] = np.nan, np.inf, -np.inf
    value = {
        "rows": base,
        "transposed": base.T,
        "reversed": base[::-1, ::-2],
        "broadcast": np.broadcast_to(base[16:19], (400, 3, 3000)),
        "tall": base.reshape(3, -1, 2)[:, :, 1],
    }[layout]
    wide = value.astype(np.float64)
    good = wide[np.isfinite(wide)]
    found = measure(value)
    assert found.health == (np.isnan(wide).sum(), np.isneginf(wide).sum(), np.isposinf(wide).sum())
    assert (found.minimum, found.maximum) == (good.min(), good.max())
    assert found.mean == pytest.approx(good.mean(), rel=1e-12)


@given(
    arrays.arrays(
        st.sampled_from([np.float16, np.float32, np.float64]),
        arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=6),
    )
)
def test_any_floats_as_numpy_has_them(value):
    found = measure(value)
    wide = value.astype(np.longdouble)
    good = wide[np.isfinite(wide)]
    assert found.health == (np.isnan(wide).sum(), np.isneginf(wide).sum(), np.isposinf(wide).sum())
    if not good.size:
        assert found == Statistics(found.health)
        return
    assert (found.minimum, found.maximum) == (good.min(), good.max())
    scale = float(np.abs(good).max())
    assert found.mean == pytest.approx(float(good.mean()), rel=1e-9, abs=1e-9 * scale)


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), min_size=1, max_size=50))
def test_any_integers_as_python_has_them(numbers):
    found = measure(np.array(numbers, np.int64))
    assert found == Statistics(None, min(numbers), max(numbers), sum(numbers) / len(numbers))


def test_it_can_be_stopped_between_blocks():
    class Enough(Exception):
        pass

    seen = []

    def check():
        seen.append(1)
        if len(seen) == 2:
            raise Enough

    for dtype in (np.float32, np.int32, bool, np.complex64):
        seen.clear()
        with pytest.raises(Enough):
            measure(np.zeros(LARGE, dtype), check)


def test_which_types_can_hold_a_nan():
    assert all(map(holds_nonfinite, ("float16", "bfloat16", "float8_e5m2", "complex64")))
    assert not any(map(holds_nonfinite, ("int8", "qint8", "uint4", "bool", "string", "")))
