"""How far arrays are apart, against numbers computed element by element."""

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from tfdbg_cli.comparing.gaps import beyond, delta, difference, gap, largest, ulps

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
