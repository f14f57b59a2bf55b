"""How far arrays are apart, against numbers computed element by element."""

import math
import warnings

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from tfdbg_cli.comparing.gaps import (
    Gap,
    beyond,
    delta,
    difference,
    epsilon,
    gap,
    largest,
    ulps,
)

_FLOATS = st.sampled_from([np.float16, np.float32, np.float64])


@st.composite
def pairs(draw):
    dtype = draw(_FLOATS)
    shape = draw(npst.array_shapes(max_dims=2, max_side=5))
    elements = npst.from_dtype(np.dtype(dtype))
    first = draw(npst.arrays(dtype, shape, elements=elements))
    second = first.copy()
    for place in draw(st.lists(st.integers(0, first.size - 1), max_size=4)):
        second.reshape(-1)[place] = draw(elements)
    return first, second


@given(pairs())
def test_a_gap_is_what_elements_one_by_one_tell(pair):
    first, second = pair
    found = gap(first, second)
    apart, is_bad = 0.0, False
    for one, other in zip(first.reshape(-1), second.reshape(-1), strict=True):
        if math.isfinite(one) and math.isfinite(other):
            with np.errstate(all="ignore"):
                apart = max(apart, float(abs(one - other)))
        elif not (one == other or (math.isnan(one) and math.isnan(other))):
            is_bad = True
    assert (found.max_abs, found.is_bad) == (apart, is_bad)
    assert found.is_equal == (not apart and not is_bad)
    assert bool(largest(first, second, 3)) == (not found.is_equal)
    assert bool(beyond(first, second, 0.0)) == (not found.is_equal)


@given(pairs())
def test_a_difference_counts_elements_and_signs(pair):
    first, second = pair
    found = difference(first, second)
    same = [
        one == other or (math.isnan(one) and math.isnan(other))
        for one, other in zip(first.reshape(-1), second.reshape(-1), strict=True)
    ]
    assert found.differing == same.count(False)
    flips = [
        (one < 0 < other) or (other < 0 < one)
        for one, other in zip(first.reshape(-1), second.reshape(-1), strict=True)
    ]
    assert found.flips == flips.count(True)
    assert found.cosine is None or -1 <= found.cosine <= 1


@given(_FLOATS, st.data())
def test_ulps_are_steps_to_the_next_number(dtype, data):
    start = dtype(data.draw(st.floats(-100, 100, width=16)))
    count = data.draw(st.integers(0, 20))
    there = start
    for _ in range(count):
        there = np.nextafter(there, dtype(np.inf))
    # From the lower zero to the upper one is no step.
    crossed = start < 0 <= there
    found = ulps(np.array([start]), np.array([there]))
    assert int(found[0]) in ({count, count - 1} if crossed else {count})


def test_the_coarser_dtype_counts():
    one = np.array([1.0, 2.0], np.float32)
    other = one.astype(ml_dtypes.bfloat16) * ml_dtypes.bfloat16(1.0078125)
    assert ulps(one, other).tolist() == [1, 1]
    assert difference(one, other).max_ulps == 1
    assert gap(one, other).max_abs == pytest.approx(0.015625)


@pytest.mark.parametrize(
    ("one", "other", "problem"),
    [
        (np.ones(3), np.ones(4), "the shapes differ: [3] and [4]"),
        (np.array(["a"]), np.ones(1), "string and float64"),
        (np.ones(2), None, "not both are arrays"),
    ],
)
def test_what_cannot_be_compared_says_why(one, other, problem):
    assert gap(one, other).problem == problem


@pytest.mark.parametrize(
    ("one", "other", "differing"),
    [
        (np.array([True, False, True]), np.array([True, True, True]), 1),
        (np.array([1, 2**62]), np.array([1, 2**62]), 0),
        (np.array(["a", "b"], object), np.array(["a", "c"], object), 1),
        (np.array([1 + 2j]), np.array([1 + 2j]), 0),
        (np.zeros((0, 3)), np.zeros((0, 3)), 0),
        (np.array([0.0]), np.array([-0.0]), 0),
    ],
)
def test_elements_of_other_kinds(one, other, differing):
    found = gap(one, other)
    assert (found.differing, found.is_equal) == (differing, not differing)


def pieces_of(first, second):
    """Two arrays of several pieces, with what is drawn at the ends."""
    room = np.ones((2, 3 << 16), first.dtype)
    for row, drawn in zip(room, (first, second), strict=True):
        row[: first.size] = row[-first.size :] = drawn.reshape(-1)
    return room


@settings(max_examples=40)
@given(pairs(), st.sampled_from([0.0, 1e-3, 1.0]), st.booleans())
def test_no_more_is_looked_at_than_it_takes_to_judge(pair, rtol, is_late):
    first, second = pieces_of(*pair)
    if is_late:  # only the last piece differs
        second[: pair[0].size] = first[: pair[0].size]
    whole = gap(first, second)
    found = gap(first, second, lambda scale: rtol * scale)
    assert found.is_equal == whole.is_equal
    is_far, is_really = (each.is_bad or each.max_abs > rtol * each.scale for each in (found, whole))
    assert is_far == is_really
    assert found.max_abs <= whole.max_abs


def test_a_scale_that_is_larger_later_counts():
    first, second = np.ones(1 << 18), np.ones(1 << 18)
    second[0] += 1e-3  # too far, beside what is near it
    first[-1] = second[-1] = 1e6
    found = gap(first, second, lambda scale: 1e-4 * scale)
    assert found.max_abs <= 1e-4 * found.scale


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [
        (np.int64([2**53, 5]), np.int64([2**53 + 1, 5]), 1),
        (np.uint64([2**64 - 1]), np.uint64([2**64 - 2]), 1),
        (np.int64([-(2**63)]), np.int64([2**63 - 1]), 2**64 - 1),
        (np.int8([-128]), np.int8([127]), 255),
        (np.int32([-3]), np.int64([4]), 7),
        (np.arange(6).astype(ml_dtypes.int4), np.arange(6)[::-1].astype(ml_dtypes.int4), 5),
        (np.array([True]), np.array([False]), 1),
        (np.uint8([3]), np.float32([1.5]), 1.5),
    ],
)
def test_whole_numbers_are_as_far_apart_as_they_are(one, other, apart):
    for first, second in ((one, other), (other, one)):
        found = gap(first, second)
        assert found.max_abs == difference(first, second).max_abs == float(apart)
        assert not found.is_equal
        assert difference(first, second).differing == len(largest(first, second, 9))
        assert beyond(first, second, apart / 2)
        assert abs(delta(first, second)).max() == float(apart)
        assert (delta(first, second) == -delta(second, first)).all()
        assert not beyond(first, second, apart)


def test_a_cosine_is_of_what_is_finite_in_both():
    masked = np.array([-np.inf, 1.0, 2.0, np.nan])
    assert difference(masked, masked * 1.01).cosine == pytest.approx(1)
    assert difference(masked[:1], masked[:1]).cosine is None


@pytest.mark.parametrize("turn", [lambda x: x.T, lambda x: x[:, ::2], lambda x: x[::-1]])
def test_elements_that_are_not_in_one_piece(turn):
    values = np.random.default_rng(0).standard_normal((700, 1000)).astype(np.float32)
    first = turn(values)
    second = np.ascontiguousarray(first)
    assert gap(first, second).is_equal
    assert difference(second, first).differing == 0
    second = second.copy()
    second[3, 5] += 1
    assert gap(first, second).max_abs == gap(second, first).max_abs == pytest.approx(1)
    assert beyond(first, second, 0.5) == 1


def test_gaps_number_by_number():
    nan, inf = math.nan, math.inf
    pairs = [
        ([1.0, 2, 3], [1, 2, 4.5], Gap(3, False, 1.5, 3.0, 3)),
        ([1.0, 2, nan], [1, 3, nan], Gap(3, False, 1.0, 2.0, 1)),
        ([1.0, 2, nan], [1, 3, 4], Gap(3, False, 1.0, 2.0, 2, True)),
        ([nan, 1.0, inf], [nan, 1, 2], Gap(3, False, 0.0, 1.0, 1, True)),
        ([nan, inf], [nan, 1.0], Gap(2, False, 0.0, 0.0, 1, True)),
        ([1 + 2j, 3j], [1 - 2j, 3j], Gap(2, False, 4.0, 3.0, 2)),
    ]
    for one, other, wanted in pairs:
        for allowed in (None, lambda scale: 0.0):
            assert gap(np.array(one), np.array(other), allowed) == wanted
    # Whole numbers beside others, as far apart as these are.
    found = gap(np.array([5, 1 << 62]), np.array([5.5, nan]))
    assert (found.max_abs, found.scale, found.is_bad) == (0.5, 5.0, True)
    assert gap(np.array([True, False]), np.array([1.0, 0.0])).is_equal
    assert gap("a handle", "a handle") == Gap(is_equal=True)
    assert gap("a handle", None) == Gap(problem="not both are arrays")
    assert gap(np.zeros(0, np.float32), np.zeros(0)) == Gap(0, True)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("at", [0, 4, 1 << 10, 1 << 18, -1])
def test_one_element_of_many(dtype, at):
    one = np.zeros((5 << 16) + 1, dtype)
    other = one.copy()
    other[at] = 2
    found = gap(one, other)
    assert (found.is_equal, found.max_abs) == (False, 2.0)
    # As many as there are at most, where they are no whole numbers: those of its piece.
    assert found.differing == (1 if dtype is np.uint8 else 1 if at == -1 else 1 << 16)
    assert gap(one, one.copy()) == Gap(one.size, True)
    assert largest(one, other, 2) == [(at % one.size,)]


def test_what_is_allowed_is_of_the_largest_of_all_elements():
    """Wherever it is; what was looked at by then says no more than it has to."""
    for size, late in ((1 << 17, -1), (1 << 18, -1), (1 << 18, 1 << 17)):
        first = np.ones(size)
        first[late] = 1e3
        for at in (0, -2):
            second = first.copy()
            second[at] += 3.0
            found = gap(first, second, lambda scale: 1e-4 * scale)
            assert (found.is_partial, found.max_abs, found.scale) == (True, 3.0, 1e3)
            found = gap(first, second, lambda scale: 1e-2 * scale)
            assert found.max_abs == 3.0 <= 1e-2 * max(found.scale, 1e3)
    first[0] = math.inf
    first[late:] = math.nan
    second = first.copy()
    second[1] = 9
    assert gap(first, second, lambda scale: scale)[2:4] == (8.0, 1.0)


def test_the_distance_of_one_to_the_next_number():
    assert [epsilon(name) for name in ("float16", "bfloat16", "float8_e4m3fn")] == [
        *(2.0**-10, 2.0**-7, 2.0**-3),
    ]
    assert epsilon("float32") == epsilon("complex64") == 2.0**-23
    assert epsilon("float64") == epsilon("complex128") == epsilon("longdouble128") == 2.0**-52
    assert epsilon("int32") == epsilon("bool") == epsilon("") == 0.0


def test_differences_number_by_number():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        inf = np.array([math.inf, 1.0])
        assert beyond(inf, inf, 0.0) == 0
        assert difference(inf, np.array([2.0, 3.0]))[:4] == (2, 2, 2.0, 2.0)
    found = difference(np.array([-1 + 0j, 2j]), np.array([1 + 0j, 2j]))
    assert (found.max_abs, found.flips, found.max_ulps) == (2.0, 0, None)
    assert delta(np.array([1, 5, 2]), np.array([3, 2, 2])).tolist() == [2, -3, 0]
    bad = np.array([math.nan, math.inf, 1.0])
    assert delta(bad, np.array([math.nan, math.inf, 3.0])).tolist() == [0, 0, 2]


def test_numbers_below_one():
    assert gap(np.int64([0, 0]), np.int32([0, 0])) == Gap(2, True, 0.0, 0.0, 0)
    found = difference(np.array([0.25, 0.5]), np.array([0.3125, 0.5]))
    assert found[:5] == (1, 2, 0.0625, 0.25, 1 << 50)
    assert found.flips == 0
    assert difference(np.ones(4), np.ones(4)) == (0, 4, 0.0, 0.0, 0, 1.0, 0)


def test_ulps_across_all_numbers():
    most = np.finfo(np.float64).max
    ends = np.array([most, most, -1.0, 1e-300, 0.0, 1.0])
    others = np.array([-most, -1.0, most, -1e-300, -0.0, 2.0])
    whole = np.iinfo(np.int64).max
    place = int(np.float64(1e-300).view(np.int64))
    assert ulps(ends, others).tolist() == [whole, whole, whole, 2 * place, 0, 1 << 52]
    assert ulps(np.ones(2), np.ones(2, int)) is ulps(np.ones(2, int), np.ones(2)) is None
    assert ulps(np.ones(2, np.longdouble), np.ones(2, np.longdouble)) is None


def test_the_elements_that_are_farthest_apart():
    zeros = np.zeros(100)
    assert largest(zeros, zeros + 1, 3) == [(0,), (1,), (2,)]
    other = zeros.reshape(10, 10).copy()
    other[3, 4], other[5, 6], other[7, 8] = 2, -9, math.nan
    assert largest(zeros.reshape(10, 10), other, 9) == [(7, 8), (5, 6), (3, 4)]
    for texts in (np.array(["a", "b"]), np.array(["a", "b"], object)):
        assert largest(texts, np.roll(texts, 1), 1) == [(0,)]
        assert largest(texts, texts.copy(), 1) == []
    days = np.array(["2001-01-01", "2002-01-01"], "datetime64[D]")
    assert largest(days, days[[0, 0]], 2) == [(1,)]
    many = np.zeros((1 << 20) + 5, np.float32)
    other = many.copy()
    other[[7, 1 << 20, 9]] = 3, 5, 4
    assert largest(many, other, 2) == [(1 << 20,), (9,)]
    assert largest(many, other, 5) == [(1 << 20,), (9,), (7,)]
