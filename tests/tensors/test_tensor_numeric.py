"""Numbers of arrays that are looked at block by block: as NumPy has them of the whole."""

import numpy as np
import pytest

from tfdbg_cli.tensors.numeric import any_nonfinite, exact_sum, has_nonfinite
from tfdbg_cli.tensors.summary import summarize


@pytest.mark.parametrize(
    "values",
    [
        [2**62, 2**62],
        [-(2**62), -(2**62), -(2**62)],
        [2**63 - 1, 2**63 - 1, -1],
        [2**62, 2**62 - 1],
        [3, -5],
        [],
    ],
)
def test_sums_of_integers_are_exact_whatever_their_size(values):
    block = np.array(values, np.int64)
    assert exact_sum(block, max(map(abs, values), default=0)) == sum(values)


def test_sums_of_unsigned_integers_are_exact():
    block = np.array([2**64 - 1, 2**64 - 1, 7], np.uint64)
    assert exact_sum(block, 2**64 - 1) == 2**65 + 5


def test_mean_and_deviation_do_not_depend_on_the_blocks():
    # The blocks have different means: what lies between them counts.
    values = np.repeat(np.float64([1, 5, -9]), 700_000)
    found = summarize(values)
    assert found.mean == pytest.approx(values.mean())
    assert found.std == pytest.approx(values.std())
    assert (found.minimum, found.maximum) == (-9, 5)


@pytest.mark.parametrize("place", [0, 3, 4])
@pytest.mark.parametrize("kind", [np.float32, np.complex128])
def test_one_bad_number_in_many_arrays_is_found(place, kind):
    arrays = [np.zeros(size, kind) for size in (1, 1024, 0, 7, 1025)]
    assert not any_nonfinite(arrays, np.dtype(kind))
    arrays[place][-1] = np.nan
    assert any_nonfinite(arrays, np.dtype(kind))
    assert not any_nonfinite(arrays[:place], np.dtype(kind))


def test_what_is_no_float_is_never_bad():
    assert not any_nonfinite([np.arange(3)], np.dtype(int))
    assert not has_nonfinite("nan")
    assert has_nonfinite(np.float32("inf"))
