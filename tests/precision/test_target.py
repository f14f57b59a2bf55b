"""Numbers are rounded as ml_dtypes rounds them, which the frameworks use."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.filters.narrow import Narrow
from tfdbg_cli.precision.target import TYPES, target_of

ml_dtypes = pytest.importorskip("ml_dtypes")
_FLOATS = arrays(np.float32, st.integers(0, 40), elements=st.floats(width=32))


@pytest.mark.parametrize("name", TYPES)
@given(values=_FLOATS)
def test_rounded(name, values):
    rounds(name, values)


@pytest.mark.parametrize("name", TYPES)
def test_rounded_at_the_ends(name):
    target = target_of(name)
    ends = np.float64([target.limit, target.normal, target.normal * 2.0**-target.digits])
    near = np.concatenate([ends, ends / 2, np.nextafter(ends, 0), np.nextafter(ends, np.inf)])
    halves = np.concatenate([near, ends * (1 + 2.0 ** (-1 - target.digits)), ends * 1.5])
    with np.errstate(over="ignore"):
        values = np.concatenate([halves, -halves, [0.0, -0.0, np.inf, np.nan]]).astype(np.float32)
    rounds(name, values)


def rounds(name, values):
    """Same numbers, and NaN and the signs of zeros at the same places."""
    with np.errstate(all="ignore"):
        expected = values.astype(getattr(ml_dtypes, Narrow(name).full_name, name)).astype(
            np.float32
        )
    np.testing.assert_array_equal(target_of(name).rounded(values), expected)


@pytest.mark.parametrize("text", ["", "float32", "int8", "float17"])
def test_no_type(text):
    with pytest.raises(UserError):
        target_of(text)


def test_short_names():
    names = [target_of(each).name for each in ("half", "bf16", "e4m3", "float8_e4m3fn")]
    assert names == ["float16", "bfloat16", "float8_e4m3", "float8_e4m3"]
