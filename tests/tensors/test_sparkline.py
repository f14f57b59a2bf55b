"""A series as one row of blocks."""

import math

import numpy as np
import pytest

from tfdbg_cli.tensors.sparkline import GAP, INF, NAN, sparkline


def test_eight_heights_from_the_smallest_to_the_largest():
    assert sparkline(range(8)) == "▁▂▃▄▅▆▇█"
    assert sparkline(np.arange(8, dtype=np.float32)[::-1]) == "█▇▆▅▄▃▂▁"


@pytest.mark.parametrize(("bad", "mark"), [(math.nan, NAN), (math.inf, INF), (-math.inf, INF)])
def test_a_bad_number_shows_however_long_the_series_is(bad, mark):
    numbers = np.linspace(1.0, 2.0, 100_000)
    numbers[77_777] = bad
    row = sparkline(numbers, 30)
    assert len(row) == 30
    assert [at for at, each in enumerate(row) if each == mark] == [23]


def test_a_nan_goes_before_an_infinity_of_the_same_stretch():
    assert sparkline([1.0, math.inf, math.nan, 2.0], 1) == NAN


@pytest.mark.parametrize(("peak", "block"), [(9.0, "█"), (-9.0, "▁")])
def test_a_peak_of_one_number_is_not_lost(peak, block):
    numbers = np.random.default_rng(0).normal(size=10_000).clip(-2, 2)
    numbers[1234] = peak
    row = sparkline(numbers, 20)
    assert row[2] == block
    assert row.count(block) == 1


def test_gaps_and_short_and_empty_series():
    assert sparkline([0.0, None, 7.0]) == f"▁{GAP}█"
    assert sparkline([]) == ""
    assert sparkline([3.0, 3.0]) == "▄▄"
    assert sparkline([math.nan, None, math.inf]) == f"{NAN}{GAP}{INF}"
    assert sparkline([1.0, 2.0], 0) == ""


def test_the_largest_numbers_there_are():
    assert sparkline([-1.7e308, 0.0, 1.7e308]) == "▁▅█"
