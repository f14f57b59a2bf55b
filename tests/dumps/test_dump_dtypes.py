import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfdbg_cli.common.errors import DumpError
from tfdbg_cli.dumps import dtypes
from tfdbg_cli.dumps.dtypes import DTYPES, decode, dtype_by_name, dtype_by_number, encode
from tfdbg_cli.dumps.finite import count_bad

EXTENSIONS = [dtype for dtype in DTYPES if not dtype.is_native]


def codes_of(dtype):
    bits = {"bfloat16": 16, "int4": 4, "uint4": 4, "int2": 2, "uint2": 2, "float4_e2m1fn": 4}
    return np.arange(1 << bits.get(dtype.name, 8)).astype(dtype.raw)


@pytest.fixture
def without_ml_dtypes(monkeypatch):
    monkeypatch.setattr(dtypes, "_ml_dtypes", lambda: None)


@pytest.mark.parametrize("dtype", EXTENSIONS, ids=lambda dtype: dtype.name)
def test_every_code_is_decoded_as_ml_dtypes_does(dtype, without_ml_dtypes):
    codes = codes_of(dtype)
    known = codes.view(getattr(ml_dtypes, dtype.name)).astype(np.float32)
    found = decode(codes, dtype)
    assert found.dtype.type.__module__ == "numpy"
    np.testing.assert_array_equal(found.astype(np.float32), known)
    numbers = ~np.isnan(known)
    np.testing.assert_array_equal(np.signbit(found)[numbers], np.signbit(known)[numbers])


@pytest.mark.parametrize("dtype", EXTENSIONS, ids=lambda dtype: dtype.name)
def test_every_value_is_encoded_again_without_ml_dtypes(dtype, without_ml_dtypes):
    values = decode(codes_of(dtype), dtype)
    np.testing.assert_array_equal(decode(encode(values, dtype), dtype), values)


@pytest.mark.parametrize("dtype", EXTENSIONS, ids=lambda dtype: dtype.name)
def test_a_scalar_stays_an_array(dtype, without_ml_dtypes):
    value = decode(codes_of(dtype)[1].reshape(()), dtype)
    assert isinstance(value, np.ndarray) and value.shape == ()
    assert isinstance(encode(value, dtype), np.ndarray)


@pytest.mark.parametrize("dtype", EXTENSIONS, ids=lambda dtype: dtype.name)
def test_with_ml_dtypes_the_array_has_the_type_itself(dtype):
    values = decode(codes_of(dtype), dtype)
    assert values.dtype.name == dtype.name
    assert encode(values, dtype).tobytes() == codes_of(dtype).tobytes()


def test_the_numbers_are_tensorflow_s():
    assert dtype_by_number(1).name == "float32"
    assert dtype_by_number(101).name == "float32"
    assert dtype_by_number(14).name == "bfloat16"
    assert dtype_by_number(0) is None
    assert dtype_by_number(999) is None
    assert dtype_by_name("float32_ref").number == 1


def test_values_that_do_not_fit_are_refused():
    with pytest.raises(DumpError, match="int64"):
        encode(np.array([1 << 40]), dtype_by_name("float32"))


def test_big_endian_arrays_are_stored_little_endian():
    raw = encode(np.array([1, 2], ">i4"), dtype_by_name("int32"))
    assert raw.tobytes() == np.array([1, 2], "<i4").tobytes()


BAD = [np.nan, -np.inf, np.inf, np.inf, 0.0, 1.0]


@pytest.mark.parametrize("name", ["float16", "float32", "float64", "bfloat16", "float8_e5m2"])
def test_bad_values_are_counted_in_every_floating_type(name):
    dtype = getattr(ml_dtypes, name, None) or name
    assert count_bad(np.array(BAD).astype(dtype)) == (1, 1, 2)


def test_bad_values_of_other_types():
    nan = ml_dtypes.float8_e4m3fn(np.nan)
    assert count_bad(np.array([nan, nan, 1], ml_dtypes.float8_e4m3fn)) == (2, 0, 0)
    assert count_bad(np.array([complex(np.nan, np.inf), complex(0, -np.inf), 1j])) == (1, 1, 0)
    assert count_bad(np.array([1, 2])) == (0, 0, 0)
    assert count_bad(np.array([b"nan"], object)) == (0, 0, 0)
    assert count_bad(np.array([], np.float32)) == (0, 0, 0)
    assert count_bad(np.float32(np.nan).reshape(())) == (1, 0, 0)


@given(st.lists(st.floats(width=32), max_size=20))
def test_counts_agree_with_numpy(values):
    array = np.array(values, np.float32)
    minus, plus = (array == -np.inf).sum(), (array == np.inf).sum()
    assert count_bad(array) == (np.isnan(array).sum(), minus, plus)
