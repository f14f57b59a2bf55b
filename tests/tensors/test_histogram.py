"""Histograms: as data, drawn in several rows, on linear and logarithmic axes, of every dtype."""

import math
import threading
import time

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfdbg_cli.tensors.histogram_lines import histogram_lines
from tfdbg_cli.tensors.measurements import halt
from tfdbg_cli.tensors.summary import summarize
from tfdbg_cli.tensors.summary_document import summary_document


def histogram(values, **options):
    return summarize(np.asarray(values), **options).histogram


def texts(found, width=119, **options):
    return [line.text for line in histogram_lines(found, width, **options)]


EXTREMES = [
    [1.7e308, -1.7e308, 0.0],
    [5e-324, 0.0, -5e-324],
    [5e-324, 1.7e308, -3.0],
    [1e-300, 2e-300],
    [-0.0, 1.0],
    [1.0, 1.0 + 2**-52],
    np.array([2**63 - 1, -(2**63)]),
    np.array([2**64 - 1, 0, 2**63], np.uint64),
    np.array([-128, 127, 0], np.int8),
    np.array([-8, 7], ml_dtypes.int4),
    np.array([65504, 6e-8, -1], np.float16),
    np.array([1, -2, 448, np.nan], ml_dtypes.float8_e4m3fn),
    np.array([3e38, -1e-38, np.inf], ml_dtypes.bfloat16),
    np.array([3 + 4j, complex(np.nan, 0), 1j], np.complex64),
    np.array([b"a", b"abcdef", b""], object),
    [np.nan, np.inf, -np.inf, 1.0, 2.0, 2.0],
]


@pytest.mark.parametrize("is_log", [False, True])
@pytest.mark.parametrize("values", EXTREMES)
def test_every_element_is_in_a_bin_or_among_the_bad(values, is_log):
    array = np.asarray(values)
    found = histogram(array, is_log=is_log)
    assert sum(found.counts) + sum(found.bad) == array.size
    assert len(found.edges) == len(found.counts) + 1
    assert list(found.edges) == sorted(found.edges)
    assert all(math.isfinite(edge) for edge in found.edges)
    assert found.counts[0] and found.counts[-1]
    for bins in (1, 2, 5, 16, 77):
        merged = found.merged(bins)
        assert len(merged.counts) <= max(bins, 3)
        assert sum(merged.counts) == sum(found.counts)
        assert (merged.edges[0], merged.edges[-1]) == (found.edges[0], found.edges[-1])
    shares = [found.share(number) for number in (*found.ticks(), found.edges[-1])]
    assert all(0 <= share <= 1 for share in shares) and shares == sorted(shares)
    for width in (20, 49, 79, 159):
        for log_counts in (False, True):
            made = texts(found, width, log_counts=log_counts)
            assert len(made) in (7, 10)
            assert width == 20 or max(map(len, made)) <= width


@given(
    st.lists(st.floats(allow_nan=True, allow_infinity=True, width=64), max_size=40),
    st.booleans(),
)
def test_any_numbers_make_a_histogram(values, is_log):
    found = histogram(np.array(values, np.float64), is_log=is_log)
    assert (found is None) == (not values)
    if found is not None:
        assert sum(found.counts) + sum(found.bad) == len(values)
        assert texts(found) and texts(found, 30, log_counts=True)


def test_numbers_are_where_numpy_has_them():
    values = np.random.default_rng(1).normal(0, 1, 20_000)
    found = histogram(values)
    expected, edges = np.histogram(values, bins=len(found.counts))
    assert np.abs(np.subtract(found.counts, expected)).max() <= 1  # rounding at edges
    assert found.edges == pytest.approx(edges)


def test_whole_numbers_have_whole_edges():
    found = histogram(np.array([0, 0, 3, 1, 3, 3]))
    assert (found.edges, found.counts) == ((0, 1, 2, 3, 4), (2, 1, 0, 3))
    wide = histogram(np.arange(-1000, 1000))
    assert {high - low for low, high in zip(wide.edges, wide.edges[1:], strict=False)} == {9}
    assert set(wide.counts[:-1]) == {9}
    assert histogram(np.array([True, False, True])).counts == (1, 2)


def test_a_logarithmic_axis_has_negative_ones_zero_and_positive_ones():
    found = histogram([-100.0, -1.0, 0, 0, 0, 1.0, 10.0, 100.0], is_log=True)
    assert found.counts[found.zero] == 3
    assert found.edges[found.zero] == -1 and found.edges[found.zero + 1] == 1
    assert sum(found.counts[: found.zero]) == 2 and sum(found.counts[found.zero + 1 :]) == 3
    assert found.share(0) == pytest.approx(0.5, abs=0.01)
    assert found.share(10) == pytest.approx(0.75, abs=0.01)
    assert found.merged(21).counts[found.merged(21).zero] == 3
    assert found.ticks(9) == pytest.approx([-100, -10, -1, 0, 1, 10, 100])
    assert [text.strip() for text in texts(found)[-1].split()] == ["-100", "-10", "0", "10", "100"]
    assert histogram([1.0, 10, 100], is_log=True).zero == -1


def test_bad_elements_stand_beside_the_bars_in_their_colours():
    found = histogram([*range(50), np.nan, np.nan, np.inf, -np.inf])
    made = histogram_lines(found, 79)
    assert made[-2].text.split()[-3:] == ["-inf", "nan", "+inf"]
    assert made[-1].text.split()[-3:] == ["1", "2", "1"]
    roles = {span.text.strip(): span.role for span in (*made[-2].spans, *made[-1].spans)}
    assert (roles["nan"], roles["2"], roles["-inf"], roles["+inf"]) == ("nan", "nan", "inf", "inf")
    # However many they are, the others keep their scale, and the few are seen beside the many.
    many = histogram([1.0, 2.0, *[np.nan] * 1000, np.inf])
    top = histogram_lines(many, 79)[0].spans
    assert [span.role for span in top[:2]] == ["dim", "number"]
    assert [span.text.strip() for span in top if span.ink is not None] == ["███", "███"]
    assert len({span.ink for span in top if span.ink is not None}) == 2
    few = histogram([*[1.0] * 100_000, 2.0, np.nan])
    assert "▁" in histogram_lines(few, 119)[7].spans[3].text


def test_what_has_nothing_to_compare_says_so():
    assert texts(histogram([3.0, 3.0, np.nan])) == ["  all finite elements are 3, 1 nan"]
    assert texts(histogram([0])) == ["  the only finite element is 0"]
    assert texts(histogram([np.nan, np.inf])) == ["  no element is finite, 1 nan, 1 +inf"]
    assert histogram(np.zeros((0, 3))) is None
    assert histogram(np.array([], object)) is None


def test_small_counts_are_seen_beside_large_ones():
    values = [0.0] * 100_000 + [1.0]
    linear, log = texts(histogram(values)), texts(histogram(values), log_counts=True)
    assert linear[7].endswith("▁") and linear[0].startswith(" 100k ┤█")
    assert log[7].endswith("█") or log[7].endswith("▄")
    assert log[4].split()[0] == "315"  # half as high: the square root


# -- large arrays


def soon(what):
    end = time.monotonic() + 60
    while not what():
        assert time.monotonic() < end
        threading.Event().wait(0.005)


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_large_array_is_looked_at_first_and_read_in_the_background(order):
    values = np.asarray(np.random.default_rng(0).normal(0, 1, (2000, 1500)), np.float32, order)
    values[1234, 987] = np.nan
    document = summary_document(values, 79)
    count = document.line_count
    first = [line.text for line in document.lines(0, count)]
    assert first[-1] == "(a first look at 262,144 of 3,000,000 elements; … the rest is read)"
    assert "█" in "".join(first)
    soon(lambda: not document.pending)
    made = [line.text for line in document.lines(0, count)]
    assert made[0].split()[1:4] == ["nan", "-", "+"]
    assert made[1].split()[-2] == "3000000"
    assert (document.line_count, made[-1]) == (count, "")
    assert [line.text for line in document.resized(159).lines(0, 2)] == made[:2]


def test_whoever_takes_the_lines_for_good_gets_all_elements():
    values = np.zeros(3_000_000, np.float32)
    values[-1] = np.inf
    document = summary_document(values, 79)
    assert "a first look" not in document.text
    assert document.text.splitlines()[1].split()[1:3] == ["2999999", "1"]
    assert not document.pending


def test_the_background_ends_with_the_stop():
    document = summary_document(np.ones(30_000_000, np.float32), 79)
    document.lines(0, 3)
    halt(20)
    names = {thread.name for thread in threading.enumerate()}
    assert "tfdbg statistics" not in names
    assert "│" in document.text or "all finite" in document.text


def test_a_sample_shows_the_ends_of_the_whole():
    values = np.zeros((17 << 20,), np.float32)
    values[5], values[-5] = -7, 9
    found = summarize(values)
    assert found.histogram.sampled and "sample" not in found.note
    assert found.histogram.counts[0] >= 1 and found.histogram.counts[-1] >= 1
