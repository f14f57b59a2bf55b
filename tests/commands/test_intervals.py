"""Intervals of times and sizes: every way to write one, and every way to get it wrong."""

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfdbg_cli.commands.shell.parsing import quoted, split_words
from tfdbg_cli.commands.tensors.intervals import (
    TIME_UNITS,
    Interval,
    parse_time,
    parse_time_interval,
    time_text,
)
from tfdbg_cli.common.errors import UserError

numbers = st.floats(0, 1e9, allow_nan=False)
units = st.sampled_from(["", "us", "ms", "s"])
blanks = st.sampled_from(["", " ", "  "])


def in_us(number, unit):
    return number * TIME_UNITS[unit or "us"]


@given(numbers, units, blanks)
def test_a_time_is_a_number_and_a_unit(number, unit, blank):
    assert parse_time(f"{blank}{number!r}{blank}{unit}{blank}") == in_us(number, unit)


@pytest.mark.parametrize(
    "text", ["", "us", "1 2", "1h", "-3us", "nan", "inf", "1e400", "0x10", "1us2"]
)
def test_what_is_no_time_is_told_in_one_line(text):
    with pytest.raises(UserError, match="is not a valid time") as error:
        parse_time(text)
    assert "Write 100us" in error.value.hint
    assert "\n" not in str(error.value)


@given(numbers, units, st.sampled_from(["<", "<=", ">", ">="]), blanks, numbers)
def test_a_relation_holds_for_what_it_says(number, unit, relation, blank, value):
    found = parse_time_interval(f"{relation}{blank}{number!r}{unit}")
    limit = in_us(number, unit)
    expected = {
        "<": value < limit,
        "<=": value <= limit,
        ">": value > limit,
        ">=": value >= limit,
    }[relation]
    assert found.contains(value) == expected
    assert found.contains(limit) == relation.endswith("=")


@given(
    st.tuples(numbers, units),
    st.tuples(numbers, units),
    st.sampled_from("[("),
    st.sampled_from("])"),
    blanks,
    numbers,
)
def test_a_range_holds_what_lies_between_its_ends(one, other, left, right, blank, value):
    (low, low_unit), (high, high_unit) = sorted([one, other], key=lambda pair: in_us(*pair))
    start, end = in_us(low, low_unit), in_us(high, high_unit)
    text = f"{left}{low!r}{low_unit},{blank}{high!r}{high_unit}{right}"
    found = parse_time_interval(text)
    assert found == Interval(start, left == "[", end, right == "]")
    inside = start < value < end
    at_end = (value == start and left == "[") or (value == end and right == "]")
    if start != end:
        assert found.contains(value) == (inside or at_end)
    # As a word of a command line it survives, whatever its brackets and blanks.
    assert split_words(f"lp -e {quoted(text)} -r") == ["lp", "-e", text, "-r"]


def test_a_range_may_be_open_ended():
    found = parse_time_interval("(1us,inf)")
    assert (found.contains(1), found.contains(1.001), found.contains(1e30)) == (False, True, True)
    assert found.end == math.inf


@pytest.mark.parametrize(
    "text",
    [
        "",
        "100us",
        "[]",
        "[1us]",
        "[1us,2us,3us]",
        "[2us,1us]",
        "1us,2us",
        "[1us,2us",
        "inf",
        "=1us",
        ">",
        "<= ",
    ],
)
def test_what_is_no_interval_is_told_in_one_line(text):
    with pytest.raises(UserError, match="is not a valid interval") as error:
        parse_time_interval(text)
    assert error.value.hint.startswith("Write >10us")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", [">x", "[a,b]", "[1us,]", "[,1us]", ">-1us", "(inf,1us)"])
def test_what_is_no_end_of_an_interval_is_told_in_one_line(text):
    with pytest.raises(UserError, match="is not a valid time"):
        parse_time_interval(text)


@given(st.text(max_size=20))
def test_nothing_but_a_user_error_comes_of_any_text(text):
    with contextlib.suppress(UserError):
        found = parse_time_interval(text)
        assert found.start <= found.end
        assert parse_time_interval(found.text) == found


@pytest.mark.parametrize(
    ("time", "unit", "text"),
    [
        (0, "", "0us"),
        (12.34, "", "12.3us"),
        (999.9, "", "1ms"),
        (1500, "", "1.5ms"),
        (2.5e6, "", "2.5s"),
        (1234e6, "", "1234s"),
        (194.02, "us", "194.0us"),
        (194.02, "ms", "0.1940ms"),
        (194.02, "s", "0.0001940s"),
    ],
)
def test_times_for_people(time, unit, text):
    assert time_text(time, unit) == text


@given(st.floats(0, 1e12))
def test_a_time_for_people_is_read_back_to_three_digits(time):
    assert parse_time(time_text(time)) == pytest.approx(time, rel=5e-3, abs=1e-12)
