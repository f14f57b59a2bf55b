import tracemalloc
import warnings

import ml_dtypes
import numpy as np
import pytest

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.tensors.numeric import (
    blocks,
    dtype_kind,
    dtype_name,
    has_nonfinite,
    widened,
)
from tfdbg_cli.tensors.ranges import Ranges


@pytest.mark.parametrize(
    ("dtype", "kind", "name"),
    [
        (np.float16, "float", "float16"),
        (ml_dtypes.bfloat16, "float", "bfloat16"),
        (ml_dtypes.float8_e4m3fn, "float", "float8_e4m3fn"),
        (ml_dtypes.int4, "int", "int4"),
        (ml_dtypes.uint4, "int", "uint4"),
        (np.uint64, "int", "uint64"),
        (np.bool_, "bool", "bool"),
        (np.complex64, "complex", "complex64"),
        (object, "string", "string"),
        ("S3", "string", "string"),
        ("U3", "string", "string"),
        ("M8[s]", "other", "datetime64[s]"),
        ("i4,f4", "other", "[('f0', '<i4'), ('f1', '<f4')]"),
    ],
)
def test_kinds(dtype, kind, name):
    assert dtype_kind(np.dtype(dtype)) == kind
    assert dtype_name(np.dtype(dtype)) == name


@pytest.mark.parametrize(
    "dtype",
    [np.float16, np.float32, np.float64, np.complex64, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2],
)
def test_nonfinite_of_every_float(dtype):
    good = np.array([0, 1, -2]).astype(dtype)
    assert not has_nonfinite(good)
    bad = np.array([1, np.nan, np.inf]).astype(dtype)
    assert has_nonfinite(bad) and has_nonfinite(bad[1:2]) and has_nonfinite(bad[2])
    assert np.array_equal(widened(good).astype(complex), [0, 1, -2])


def test_what_holds_no_nan():
    for value in (np.array([1]), np.array(["nan"]), np.array([np.nan], object), None, "nan"):
        assert not has_nonfinite(value)
    assert not has_nonfinite(np.zeros((0, 2)))
    assert widened(np.array([-8, 7], ml_dtypes.int4)).tolist() == [-8, 7]


@pytest.mark.parametrize(
    "values",
    [
        np.arange(3_000_000)[::2],
        np.arange(3_000_000).reshape(-1, 3).T,
        np.arange(3_000_000).reshape(-1, 3)[:, :2],
        np.arange(4_400_000).reshape(2, 2_200_000)[:, ::2],
        np.arange(5),
        np.array(3),
        np.zeros((0, 4)),
    ],
    ids=lambda values: str(values.shape),
)
def test_blocks_are_few_and_in_order(values):
    found = list(blocks(values))
    assert np.array_equal(np.concatenate(found), values.reshape(-1))
    assert len(found) <= 2 + 2 * values.size // (1 << 20)


def test_blocks_make_no_whole_copy():
    values = np.broadcast_to(np.float32(1), (400, 1000, 1000))
    tracemalloc.start()
    try:
        for at, _ in enumerate(blocks(values)):
            if at == 3:
                break
        assert tracemalloc.get_traced_memory()[1] < 100e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("0,1", [0.0, 0.5, 1.0]),
        ("[-inf,-0.1]", [-np.inf, -2.0]),
        ("[[-inf,-0.1],[0.5,0.5]]", [-np.inf, -2.0, 0.5]),
        ("(1, inf)", [1.0, np.inf]),
    ],
)
def test_ranges(text, inside):
    values = np.array([-np.inf, -2.0, 0.0, 0.5, 1.0, np.inf, np.nan])
    assert values[Ranges(text).mask(values)].tolist() == inside


@pytest.mark.parametrize("text", ["", "1", "a,b", "1,2,3", "2,1", "[[]]", "nan,1", "[0,1],[2,3]"])
def test_malformed_ranges(text):
    with pytest.raises(UserError):
        Ranges(text)


def test_ranges_of_every_dtype_without_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for dtype in (np.float16, np.float32, ml_dtypes.bfloat16):
            values = np.array([1, np.inf, -np.inf, np.nan]).astype(dtype)
            assert Ranges("0,1e300").mask(values).tolist() == [True, False, False, False]
        assert Ranges("0,1e300").mask(np.array([-1, 3], np.int8)).tolist() == [False, True]
        assert Ranges("4,6").mask(np.array([3 + 4j, 1e308 + 1e308j])).tolist() == [True, False]
        assert Ranges("0,1").mask(np.array([True, False])).tolist() == [True, True]
        assert Ranges("1,1").mask(np.array([True, False])).tolist() == [True, False]
        assert Ranges("0,inf").mask(np.array([complex(np.inf, np.nan), 2j])).tolist() == [
            False,
            True,
        ]
        assert Ranges("1,2").mask(np.zeros((0, 3), ml_dtypes.float8_e4m3fn)).shape == (0, 3)
        assert Ranges("1.5,2.5").mask(np.array([1, 2], ml_dtypes.float8_e4m3fn)).tolist() == [
            False,
            True,
        ]
    with pytest.raises(UserError):
        Ranges("0,1").mask(np.array(["a"]))


def test_integers_are_compared_exactly():
    big = np.array([2**53, 2**53 + 1, 2**63 - 1])
    assert Ranges(f"{2**53 + 1},{2**62}").mask(big).tolist() == [False, True, False]
    assert Ranges("-inf,inf").mask(np.array([0, 2**64 - 1], np.uint64)).all()
    assert Ranges("0.5,1e300").mask(np.array([0, 1, 2], np.uint8)).tolist() == [False, True, True]
    assert not Ranges("1.2,1.8").mask(np.array([1, 2])).any()
    assert not Ranges("-inf,-inf").mask(np.array([-128], np.int8)).any()
    assert Ranges(f"1,{10**39}").mask(np.array([2.0, np.inf], np.float32)).tolist() == [True, False]


def test_what_has_no_range_is_told_so():
    for values, what in (("a", "strings"), (np.datetime64("2020"), "datetime64")):
        with pytest.raises(UserError, match=what):
            Ranges("0,1").mask(np.array([values]))
    with pytest.raises(UserError, match="Write 1,2"):
        Ranges("2,1")
