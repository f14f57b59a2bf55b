import tracemalloc
import warnings

import ml_dtypes
import numpy as np
import pytest

from tfdbg_cli.errors import UserError
from tfdbg_cli.tensors.numeric import (
    blocks,
    dtype_kind,
    dtype_name,
    has_nonfinite,
    nan_mask,
    nonfinite_mask,
    widened,
)
from tfdbg_cli.tensors.ranges import Ranges
from tfdbg_cli.tensors.slicing import apply_slice, parse_indices, parse_slice, split_slice
from tfdbg_cli.tensors.summary import summarize, summary_lines


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
        ("i4,f4", "other", "void64"),
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
    assert nonfinite_mask(bad).tolist() == [False, True, True]
    assert nan_mask(bad).tolist() == [False, True, False]
    assert np.array_equal(widened(good).astype(complex), [0, 1, -2])


def test_what_holds_no_nan():
    for value in (np.array([1]), np.array(["nan"]), np.array([np.nan], object), None, "nan"):
        assert not has_nonfinite(value)
    assert not has_nonfinite(np.zeros((0, 2)))
    assert nonfinite_mask(np.array([1])) is None and nan_mask(np.array([True])) is None
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


def test_split_slice():
    assert split_slice(" a/b:0[0:5, 1] ") == ("a/b:0", "[0:5, 1]")
    assert split_slice("a/b:0") == ("a/b:0", "")
    with pytest.raises(UserError, match="not closed"):
        split_slice("a:0[1")


@pytest.mark.parametrize(
    ("text", "index"),
    [
        ("[0]", (0,)),
        ("[-1, +2]", (-1, 2)),
        ("[0,]", (0,)),
        ("[1:5, ::-2, :]", (slice(1, 5), slice(None, None, -2), slice(None))),
        ("[..., None, newaxis]", (Ellipsis, None, None)),
    ],
)
def test_slices(text, index):
    assert parse_slice(text) == index


@pytest.mark.parametrize(
    "text", ["[]", "[a]", "[1.5]", "[..., ...]", "[1:2:3:4]", "[::0]", "[,]", "[0][1]", "[9" * 5000]
)
def test_malformed_slices(text):
    with pytest.raises(UserError):
        parse_slice(text)


def test_apply_slice_gives_arrays():
    value = np.arange(12).reshape(3, 4)
    assert apply_slice(value, "[1, 2]").shape == ()
    assert apply_slice(value, "[1:, ..., -1]").tolist() == [7, 11]
    assert isinstance(apply_slice(np.array([b"a"], object), "[0]"), np.ndarray)
    assert np.shares_memory(apply_slice(value, "[::2]"), value)
    with pytest.raises(UserError, match="x:0 has 2 dimension"):
        apply_slice(value, "[1,2,3]", "x:0")
    with pytest.raises(UserError, match=r"out of bounds.*\(3, 4\)"):
        apply_slice(value, "[7]")
    with pytest.raises(UserError):
        apply_slice(value, "[999999999999999999999999]")


def test_parse_indices():
    assert parse_indices("[10, 0]") == (10, 0)
    assert parse_indices("3") == (3,)
    for text in ("", "[]", "[a]", "[1:2]"):
        with pytest.raises(UserError):
            parse_indices(text)


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
    with pytest.raises(UserError):
        Ranges("0,1").mask(np.array(["a"]))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
def test_summary_of_floats(dtype):
    values = np.array([np.nan, -np.inf, np.inf, -1, 0, 2, 5]).astype(dtype)
    found = summarize(values)
    assert found.counts == {"nan": 1, "-inf": 1, "-": 1, "0": 1, "+": 2, "+inf": 1}
    assert (found.minimum, found.maximum, found.mean) == (-1, 5, 1.5)
    assert found.std == pytest.approx(np.std([-1, 0, 2, 5]))


def test_summary_of_many_blocks():
    values = np.random.default_rng(0).normal(1e6, 1, (3, 900_000)).T
    found = summarize(values)
    assert found.total == 2_700_000
    assert found.mean == pytest.approx(values.mean(), rel=1e-12)
    assert found.std == pytest.approx(values.std(), rel=1e-9)


def test_summary_of_other_dtypes():
    ints = summarize(np.array([2**64 - 1, 0], np.uint64))
    assert (ints.maximum, ints.counts["+"]) == (2**64 - 1, 1)
    assert summarize(np.array([-8, 7, 0], ml_dtypes.int4)).counts["-"] == 1
    assert summarize(np.array([True, False, True])).counts == {"False": 1, "True": 2}
    strings = summarize(np.array([b"", "x", np.zeros(3)], object))
    assert strings.counts == {"empty": 1, "non-empty": 2}
    complexes = summarize(np.array([3 + 4j, complex(np.inf, np.nan), complex(0, -np.inf)]))
    assert (complexes.maximum, complexes.counts["nan"], complexes.counts["+inf"]) == (5.0, 1, 1)
    empty = summarize(np.zeros((0, 3), np.float32))
    assert (empty.total, empty.mean) == (0, None)
    assert summarize(np.array(["2020"], "M8[Y]")).note


def test_summary_lines_show_what_occurs():
    made = [line.text for line in summary_lines(summarize(np.array([0.0, np.nan, 2.0])))]
    assert made[0].split() == ["|", "nan", "0", "+", "|", "total", "|"]
    assert made[1].split() == ["|", "1", "1", "1", "|", "3", "|"]
    assert made[2].split() == ["|", "min", "max", "mean", "std", "|"]
    roles = {span.text.strip(): span.role for span in summary_lines(
        summarize(np.array([np.nan, np.inf, np.inf])))[1].spans}  # fmt: skip
    assert roles["1"] == "nan" and roles["2"] == "inf"
    bools = [line.text for line in summary_lines(summarize(np.array([True])))]
    assert bools[0].split() == ["|", "True", "|", "total", "|"]
