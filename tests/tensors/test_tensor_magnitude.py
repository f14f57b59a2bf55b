"""Elements by magnitude, and the bad ones."""

import re
import time

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.tensors.badness import BadSteps, find_bad
from tfdbg_cli.tensors.magnitude import MagnitudeView
from tfdbg_cli.tensors.ranges import Ranges

DTYPES = ["f2", "f4", "f8", "c8", "c16", "i1", "i8", "u1", "u8", "bool"]


def expected_order(values, is_reversed=False):
    """Places by size, nan above all, equal ones in their order; in Python's exact numbers."""

    def size(place):
        value = values.reshape(-1)[place].item()
        is_nan = bool(np.isnan(value))
        return is_nan, 0 if is_nan else abs(value)

    sign = 1 if is_reversed else -1
    places = sorted(range(values.size), key=size)
    keys = [size(place) for place in places]
    ranks = {key: at for at, key in enumerate(dict.fromkeys(keys))}
    return sorted(range(values.size), key=lambda place: (sign * ranks[size(place)], place))


def shown_places(view, shape):
    found = []
    for line in view:
        index = tuple(map(int, re.match(r"\[([\d,]*)\]", line.text)[1].split(",")))
        found.append(int(np.ravel_multi_index(index, shape)))
    return found


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(DTYPES).flatmap(
        lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=1, max_dims=3, max_side=6))
    ),
    st.booleans(),
)
def test_the_order_is_exact(values, is_reversed):
    view = MagnitudeView(values, is_reversed=is_reversed)
    with np.errstate(over="ignore"):
        if values.dtype.kind == "c":
            sizes = np.abs(values)
            sizes[np.isnan(values)] = np.nan
            wanted = expected_order(sizes, is_reversed)
        else:
            wanted = expected_order(values, is_reversed)
    assert shown_places(view, values.shape) == wanted
    for rank in (0, view.line_count // 2, view.line_count - 1):
        index = np.unravel_index(wanted[rank], values.shape)
        assert view.locate([int(i) for i in index]) == rank


@pytest.mark.slow
@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize("make", ["random", "few", "equal", "fortran"])
def test_ends_are_selected_as_a_full_sort_would(make, is_reversed):
    random = np.random.default_rng(0)
    values = {
        "random": lambda: random.normal(size=(1300, 1000)).astype(np.float32),
        "few": lambda: random.integers(-3, 4, (1300, 1000)).astype(np.float16),
        "equal": lambda: np.broadcast_to(np.float32(2), (1300, 1000)),
        "fortran": lambda: random.normal(size=(1000, 1300)).T,
    }[make]()
    if make == "random":
        values[7, 8] = np.nan
        values[900, 1] = -np.inf
    keys = np.abs(values.reshape(-1).astype(np.float64))
    keys[np.isnan(keys)] = np.inf
    keys[keys == np.inf] += 0
    order = np.argsort(keys if is_reversed else -keys, kind="stable")
    view = MagnitudeView(values, is_reversed=is_reversed)
    size = values.size
    if make == "random":  # nan beyond inf
        nan, inf = 7 * 1000 + 8, 900 * 1000 + 1
        order = np.array([i for i in order.tolist() if i not in (nan, inf)])
        order = np.array([*order, inf, nan] if is_reversed else [nan, inf, *order])
    for start, stop in ((0, 30), (4090, 4100), (size - 20, size), (600_000, 600_010), (0, 30)):
        wanted = [tuple(map(int, np.unravel_index(i, values.shape))) for i in order[start:stop]]
        assert [line.indices[0] for line in view.lines(start, stop)] == wanted
    rank = view.locate(tuple(map(int, np.unravel_index(order[5], values.shape))))
    assert rank == 5


def test_lines_roles_and_limits():
    values = np.array([[1, np.nan], [-np.inf, 3]], np.float32)
    view = MagnitudeView(values, ranges=Ranges("2,4"))
    assert [line.text for line in view] == [
        "[0,1]  nan",
        "[1,0]  -inf",
        "[1,1]  3.0",
        "[0,0]  1.0",
    ]
    assert [line.spans[-1].role for line in view] == ["nan", "inf", "highlight", ""]
    assert view.status(0, 2) == "1-2 of 4"
    short = MagnitudeView(values, limit=2)
    assert short.line_count == 2
    with pytest.raises(UserError, match=r"^\[0,0\] is not among these lines. Use pt -a"):
        short.locate([0, 0])
    equal = MagnitudeView(np.array([[2, -3], [3, 3]]))
    assert [equal.locate(place) for place in ((0, 0), (0, 1), (1, 0), (1, 1))] == [3, 0, 1, 2]
    with pytest.raises(UserError, match="mismatch"):
        view.locate([0])
    with pytest.raises(UserError, match="out of range"):
        view.locate([0, 2])
    assert [line.text for line in MagnitudeView(np.array(2.5))] == ["[]  2.5"]
    assert MagnitudeView(np.zeros((0, 3))).text == ""
    with pytest.raises(UserError, match="no magnitude"):
        MagnitudeView(np.array(["a"]))
    small = np.array([1, -4, 2], ml_dtypes.float8_e4m3fn)
    assert [line.text for line in MagnitudeView(small)] == ["[1]  -4.0", "[2]  2.0", "[0]  1.0"]
    lowest = np.array([-128, 127, -127], np.int8)
    assert MagnitudeView(lowest).lines(0, 1)[0].text == "[0]  -128"


@pytest.mark.parametrize("is_reversed", [False, True])
def test_words_are_found_without_looking_at_lines(is_reversed):
    values = np.array([1, np.nan, -np.inf, 3, np.nan, np.inf])
    view = MagnitudeView(values, is_reversed=is_reversed)
    texts = [line.text for line in view]
    for pattern in ("nan", "inf", "nan|inf", "-inf", "3", "7"):
        compiled = re.compile(pattern)
        for direction in (1, -1):
            for start in range(6):
                for stop in (None, 0, 2, 5):
                    order = range(6)[start:stop] if direction > 0 else range(start, -1, -1)
                    if direction < 0 and stop is not None:
                        order = range(start, stop, -1)
                    wanted = next((i for i in order if compiled.search(texts[i])), None)
                    assert view.find(compiled, start, direction, stop) == wanted
    assert MagnitudeView(np.arange(3)).find(re.compile("nan"), 0) is None


def test_a_huge_array_opens_at_once():
    values = np.broadcast_to(np.arange(1000, dtype=np.float32), (30_000, 1000))
    begin = time.process_time()
    view = MagnitudeView(values)
    assert view.lines(0, 2)[1].text.split() == ["[1,999]", "999.0"]
    assert view.lines(view.line_count - 1, view.line_count)[0].text.split() == ["[29999,0]", "0.0"]
    assert time.process_time() - begin < 60


@pytest.mark.parametrize("is_reversed", [False, True])
def test_from_one_bad_element_to_the_next(is_reversed):
    values = np.array([[1, np.nan, 0], [-np.inf, 3, 2]])
    view = MagnitudeView(values, is_reversed=is_reversed, bad=BadSteps(values, find_bad(values)))
    places = [(0, 1), (1, 0)][:: -1 if is_reversed else 1]
    first = 4 if is_reversed else 0
    steps = [view.step(None), view.step(places[0]), view.step(places[1]), view.step(places[0], -1)]
    found = [(step.line - first, step.indices, step.number, step.wrapped) for step in steps]
    assert found == [
        (0, places[0], 1, False),
        (1, places[1], 2, False),
        (0, places[0], 1, True),
        (1, places[1], 2, True),
    ]
    nan = np.array(np.nan)
    assert MagnitudeView(nan, bad=BadSteps(nan, find_bad(nan))).step(None).indices == ()
    assert MagnitudeView(np.ones(3)).step(None) is None


def test_bad_elements():
    values = np.zeros((3, 1000, 500), np.float32)
    values[1, 2, 3] = np.nan
    values[2, 999, 499] = -np.inf
    values[0, 0, 1] = np.inf
    found = find_bad(values)
    assert found.counts == {"NaN": 1, "-Inf": 1, "+Inf": 1}
    assert (found.count, found.total) == (3, 1_500_000)
    assert found.places == ((0, 0, 1), (1, 2, 3), (2, 999, 499))
    assert find_bad(values, first=2).places == found.places[:2]
    assert find_bad(values.T).places[0] == (1, 0, 0)
    parts = np.array([complex(np.inf, np.nan), complex(0, -np.inf), 1j])
    assert find_bad(parts).counts == {"NaN": 1, "-Inf": 1, "+Inf": 0}
    small = np.array([1, np.nan], ml_dtypes.float8_e4m3fn)
    assert find_bad(small).places == ((1,),)
    assert find_bad(np.array(np.nan)).places == ((),)
    assert find_bad(np.zeros((0, 2))).count == 0
    for never in (np.array([1]), np.array(["nan"]), np.array([True])):
        with pytest.raises(UserError, match="never nan"):
            find_bad(never)
