"""The numeric summary: counts, statistics, quantiles, histogram."""

import tracemalloc

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfdbg_cli.tensors.histogram import QUANTILES, Collector, bars
from tfdbg_cli.tensors.summary import summarize, summary_lines


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
def test_summary_of_floats(dtype):
    values = np.array([np.nan, -np.inf, np.inf, -1, 0, 2, 5]).astype(dtype)
    found = summarize(values)
    assert found.counts == {"nan": 1, "-inf": 1, "-": 1, "0": 1, "+": 2, "+inf": 1}
    assert (found.minimum, found.maximum, found.mean) == (-1, 5, 1.5)
    assert found.std == pytest.approx(np.std([-1, 0, 2, 5]))
    assert found.distribution.quantiles == pytest.approx(np.quantile([-1, 0, 2, 5], QUANTILES))
    assert sum(found.distribution.counts) == 4


def test_summary_of_many_blocks():
    values = np.random.default_rng(0).normal(1e6, 1, (3, 900_000)).T
    found = summarize(values)
    assert found.total == 2_700_000
    assert found.mean == pytest.approx(values.mean(), rel=1e-12)
    assert found.std == pytest.approx(values.std(), rel=1e-9)
    assert found.distribution.quantiles == pytest.approx(np.quantile(values, QUANTILES), rel=1e-12)
    expected = np.histogram(values, bins=len(found.distribution.counts))[0]
    assert np.abs(np.subtract(found.distribution.counts, expected)).max() <= 2  # rounding at edges


def test_summary_of_other_dtypes():
    ints = summarize(np.array([2**64 - 1, 0], np.uint64))
    assert (ints.maximum, ints.counts["+"]) == (2**64 - 1, 1)
    assert ints.distribution.quantiles[-1] == 2**64 - 1
    assert summarize(np.array([-8, 7, 0], ml_dtypes.int4)).counts["-"] == 1
    assert summarize(np.array([True, False, True])).counts == {"False": 1, "True": 2}
    empty = summarize(np.zeros((0, 3), np.float32))
    assert (empty.total, empty.mean, empty.distribution) == (0, None, None)
    assert summarize(np.array([np.nan])).distribution is None
    assert summarize(np.array([3.0, 3.0])).distribution is None
    for odd in (np.array(["2020"], "M8[Y]"), np.array([{}, None]), np.zeros(2, "i4,f4")):
        assert "no statistics" in summary_lines(summarize(odd))[-1].text


def test_summary_of_strings():
    found = summarize(np.array([b"", "x", "xyz", "x"], object))
    assert found.counts == {"empty": 1, "non-empty": 3}
    assert (found.minimum, found.maximum, found.mean) == (0, 3, 1.25)
    assert "3 distinct" in summary_lines(found)[-1].text
    assert summarize(np.array([b"ab", b"c"])).mean == 1.5
    assert summarize(np.array([], object)).total == 0


def test_complex_numbers_by_their_size_with_what_is_bad_in_their_parts():
    values = np.array([3 + 4j, complex(np.inf, np.nan), complex(0, -np.inf)])
    found = summarize(values)
    assert (found.maximum, found.counts["nan"], found.counts["+inf"]) == (5.0, 1, 1)
    texts = [line.text for line in summary_lines(found)]
    assert "real: 1 +inf" in texts
    assert "imag: 1 nan 1 -inf" in texts
    assert "(of the absolute values)" in texts


@pytest.mark.parametrize(
    "values",
    [
        [1.7e308, -1.7e308, 0.0],
        [5e-324, 0.0],
        [-(2.0**63), 2.0**63],
        np.array([2**63 - 1, -(2**63)]),
        np.array([-128, 127], np.int8),
        [1e-300, 2e-300],
    ],
)
def test_the_histogram_takes_every_range(values):
    found = summarize(np.asarray(values)).distribution
    assert sum(found.counts) == len(values)
    assert found.counts[0] and found.counts[-1]
    assert np.isfinite([float(number) for number in found.quantiles]).all()
    assert sorted(found.quantiles) == list(found.quantiles)


def test_integers_of_a_small_range_have_a_bar_each():
    found = summarize(np.array([0, 0, 3, 1, 3, 3])).distribution
    assert found.counts == (2, 1, 0, 3)
    assert bars(found.counts) == "▆▃ █"


def test_summary_lines_show_what_occurs():
    made = [line.text for line in summary_lines(summarize(np.array([0.0, np.nan, 2.0])))]
    assert made[0].split() == ["|", "nan", "0", "+", "|", "total", "|"]
    assert made[1].split() == ["|", "1", "1", "1", "|", "3", "|"]
    assert made[2].split() == ["|", "min", "max", "mean", "std", "|"]
    assert made[4].split() == ["|", "0%", "1%", "25%", "50%", "75%", "99%", "100%", "|"]
    assert made[5].split() == ["|", "0", "0.02", "0.5", "1", "1.5", "1.98", "2", "|"]
    assert made[6] == "Histogram:"
    assert made[7].startswith("1 ┤█") and "█" in made[7][-12:]
    assert made[-2].startswith("0 ┼┬") and made[-2].endswith("┬   nan")
    assert made[-1].split() == ["0", "0.5", "1", "1.5", "2", "1"]
    roles = {span.text.strip(): span.role for span in summary_lines(
        summarize(np.array([np.nan, np.inf, np.inf])))[1].spans}  # fmt: skip
    assert roles["1"] == "nan" and roles["2"] == "inf"
    bools = [line.text for line in summary_lines(summarize(np.array([True])))]
    assert bools[0].split() == ["|", "True", "|", "total", "|"]


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=50))
def test_bars_of_one_row(counts):
    made = bars(counts)
    assert len(made) == len(counts)
    assert set(made) <= set(" ▁▂▃▄▅▆▇█")
    for bar, count in zip(made, counts, strict=True):
        assert (bar == " ") == (count == 0)
        assert (bar == "█") or count < max(counts) or not count


def test_a_very_large_array_is_sampled_and_says_so():
    # The elements take no memory: the summary must not make any of it either.
    values = np.broadcast_to(np.arange(1000, dtype=np.float32), (40_000, 1000))
    tracemalloc.start()
    try:
        found = summarize(values)
        assert tracemalloc.get_traced_memory()[1] < 100e6
    finally:
        tracemalloc.stop()
    quantiles = found.distribution.quantiles
    assert quantiles == pytest.approx(np.quantile(np.arange(1000), QUANTILES), abs=5)
    assert (quantiles[0], quantiles[-1]) == (0, 999)
    assert any("random sample of 1,0" in line.text for line in summary_lines(found))
    assert summarize(values).distribution == found.distribution


def test_blocks_are_not_reordered():
    values = np.array([3.0, 1.0, 2.0])
    collector = Collector(3)
    collector.add(values)
    assert collector.distribution(1.0, 3.0).quantiles[3] == 2.0
    assert values.tolist() == [3.0, 1.0, 2.0]


def test_several_blocks_are_one_set_of_numbers():
    values = np.zeros(3_000_001)
    values[1_500_000:] = 2.0
    found = summarize(values)
    assert found.mean == pytest.approx(1.0, abs=1e-6)
    assert found.std == pytest.approx(1.0, abs=1e-6)
    most = np.finfo(np.float64).max
    assert summarize(np.full(3_000_001, most)).mean == pytest.approx(most)
    values = np.full(3_000_001, most)
    values[:1_500_000] = -most
    assert abs(summarize(values).mean / most) < 1e-6
