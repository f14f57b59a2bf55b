"""Slices: the same result as NumPy's, or the same refusal."""

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.tensors.slicing import (
    apply_slice,
    is_expression,
    parse_indices,
    parse_slice,
    split_slice,
)

numbers = st.integers(-6, 6)
bounds = st.one_of(st.just(""), numbers.map(str), st.sampled_from(["10000000000000000000", "+2"]))
slices = st.builds("{}:{}".format, bounds, bounds) | st.builds(
    "{}:{}:{}".format, bounds, bounds, st.sampled_from(["", "1", "2", "-1", "-3"])
)
rows = st.integers(1, 3).flatmap(
    lambda n: st.lists(st.lists(numbers, min_size=n, max_size=n), min_size=1, max_size=3)
)
lists = (st.lists(numbers, max_size=4) | rows).map(str)
pieces = st.one_of(
    numbers.map(str), slices, lists, st.sampled_from(["...", "None", "newaxis", "np.newaxis"])
)
blanks = st.sampled_from(["", " "])
indices = st.lists(st.builds("{}{}{}".format, blanks, pieces, blanks), min_size=1, max_size=5)
shapes = st.lists(st.integers(0, 5), max_size=4).map(tuple)


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(indices, shapes, blanks)
def test_every_plain_slice_is_numpys(parts, shape, comma):
    text = f"[{','.join(parts)}{',' if comma else ''}]"
    value = np.arange(int(np.prod(shape, dtype=int))).reshape(shape)
    assert not is_expression(text)
    try:
        wanted = eval(f"value{text}", {"value": value, "np": np, "newaxis": None})
    except (IndexError, ValueError, OverflowError):
        with pytest.raises(UserError):
            apply_slice(value, text)
        return
    found = apply_slice(value, text)
    assert isinstance(found, np.ndarray)
    assert found.shape == wanted.shape
    assert np.array_equal(found, wanted)


@settings(max_examples=200, deadline=None)
@given(st.text("[]0123:,.-+ _>npa'\"`", max_size=12))
def test_any_text_is_a_slice_or_a_mistake(text):
    if is_expression(f"[{text}]"):
        return
    with contextlib.suppress(UserError):
        found = apply_slice(np.arange(6).reshape(2, 3), f"[{text}]")
        assert isinstance(found, np.ndarray)


@pytest.mark.parametrize(
    ("text", "name", "slicing"),
    [
        (" a/b:0[0:5, 1] ", "a/b:0", "[0:5, 1]"),
        ("a/b:0", "a/b:0", ""),
        ('"a b[0]"[1]', "a b[0]", "[1]"),
        ("'it is'", "it is", ""),
        ('a:0[_ == "]"]', "a:0", '[_ == "]"]'),
        ("layers[0].w:0[1]", "layers", "[0].w:0[1]"),
    ],
)
def test_split_slice(text, name, slicing):
    assert split_slice(text) == (name, slicing)


def test_a_name_that_exists_may_hold_brackets():
    known = {"layers[0].w:0", "x[1]", "x", "it's", "'q'"}
    for text, expected in {
        "layers[0].w:0[1, :]": ("layers[0].w:0", "[1, :]"),
        "layers[0].w:0": ("layers[0].w:0", ""),
        "x[1]": ("x[1]", ""),
        "x[1][2]": ("x[1]", "[2]"),
        "x[[1]]": ("x", "[[1]]"),
        "x[`x[1]`]": ("x", "[`x[1]`]"),
        "it's[0]": ("it's", "[0]"),
        "'q'": ("'q'", ""),
        "y[2]": ("y", "[2]"),
    }.items():
        assert split_slice(text, known.__contains__) == expected


def test_an_open_slice_is_a_mistake():
    for text in ("a:0[1", '"a"[1'):
        with pytest.raises(UserError, match="not closed"):
            split_slice(text)


@pytest.mark.parametrize(
    "text",
    ["[]", "[[,]]", "[1.5]", "[..., ...]", "[1:2:3:4]", "[::0]", "[,]", "[0][1]", "[9" * 5000,
     "[[0,[1]]]", "[[0],1]]", "[[[0,1],[2]]]", "[1:[0]]", f"[{'9' * 5000}]", "[[[0]0]]", "[1 2]",
     "[[1,,2]]"],
)  # fmt: skip
def test_malformed_slices(text):
    with pytest.raises(UserError):
        apply_slice(np.arange(4), text)


@pytest.mark.parametrize(
    "text", ["[_ > 3]", "[a]", "[True]", "[3-1]", "[`m:0`]", "[1e3]", "[not_none]", "[None_]"]
)
def test_what_is_left_to_python(text):
    assert is_expression(text)
    asked = []

    def select(value, slicing):
        asked.append(slicing)
        return value[1]

    found = apply_slice(np.arange(5), text, select=select)
    assert (asked, found.tolist(), found.shape) == ([text], 1, ())
    with pytest.raises(UserError):
        apply_slice(np.arange(5), text)


def test_a_slice_is_an_array_and_mostly_a_view():
    value = np.arange(12).reshape(3, 4)
    assert apply_slice(value, "[1, 2]").shape == ()
    assert apply_slice(value, "[1:, ..., -1]").tolist() == [7, 11]
    assert isinstance(apply_slice(np.array([b"a"], object), "[0]"), np.ndarray)
    assert apply_slice(np.array([b"a", "b"], object), "[1, ...]").tolist() == "b"
    assert np.shares_memory(apply_slice(value, "[::2]"), value)
    with pytest.raises(UserError, match="x:0 has 2 dimension"):
        apply_slice(value, "[1,2,3]", "x:0")
    with pytest.raises(UserError, match=r"out of bounds.*\(3, 4\)"):
        apply_slice(value, "[7]")
    assert parse_slice("[-1, +2]") == (-1, 2)


def test_parse_indices():
    assert parse_indices("[10, 0]") == (10, 0)
    assert parse_indices("3") == (3,)
    for text in ("", "[]", "[a]", "[1:2]"):
        with pytest.raises(UserError):
            parse_indices(text)


def test_an_expression_is_one_pair_of_brackets_too():
    def select(value, text):
        return value

    for text in ("[_ > 1][0]", "[_ > 1]]"):
        with pytest.raises(UserError):
            apply_slice(np.arange(4), text, select=select)


def test_a_name_is_told_from_its_slice_at_the_borders():
    assert split_slice("a[0]", lambda text: text == "a") == ("a", "[0]")
    # A quote that isn't closed belongs to the name, and so does what stands behind a closed one.
    assert split_slice("'a") == ("'a", "")
    assert split_slice("'a'b[0]") == ("'a'b", "[0]")
    assert split_slice("a[`b]`]", {"a"}.__contains__) == ("a", "[`b]`]")
    assert split_slice("a[']']", {"a"}.__contains__) == ("a", "[']']")
    # An open quote hides nothing.
    assert split_slice("a[']", {"a"}.__contains__) == ("a", "[']")
    assert split_slice("x[1][[2]]", {"x[1]"}.__contains__) == ("x[1]", "[[2]]")
    assert split_slice("x[1][[2], [3]]", {"x[1]"}.__contains__) == ("x[1]", "[[2], [3]]")
    # What is in quotes is no bracket, and nothing else is a quote.
    for slicing in ('["]"]', '["", "]"]', "[X[0+X]]"):
        assert split_slice(f"a[b]{slicing}", {"a[b]"}.__contains__) == ("a[b]", slicing)
    with pytest.raises(UserError, match="not closed"):
        split_slice("a[", {"a"}.__contains__)
    assert split_slice("[0]") == split_slice("[0]", {"a"}.__contains__) == ("", "[0]")
    assert split_slice(" a [0]", {"a"}.__contains__) == ("a", "[0]")


def test_what_is_refused_is_said_in_numbers():
    value = np.zeros((2, 3))
    for text, message in {
        "[0, 0, 0]": r"\[0, 0, 0\] has 3 indices, but w has 2 dimension\(s\), shape \(2, 3\)",
        "[5]": "does not fit: index 5 is out of bounds",
        "[]": "The slice is empty",
        "[..., ...]": 'more than one "..."',
        "[0:1:0]": 'The step of "0:1:0" is 0',
        "[0:1:2:3]": "too many colons",
        "[x:]": '"x" is not an index',
        "[[0][1]]": '"\\[0\\]\\[1\\]" is not an index',
        "[[0], [[1], [2, 3]]]": "is not a list of indices",
    }.items():
        with pytest.raises(UserError, match=message):
            apply_slice(value, text, "w")
    with pytest.raises(UserError, match=r"has 1 index, but"):
        apply_slice(np.float32(1).reshape(()), "[0]")
    with pytest.raises(UserError, match="nest deeper than 64"):
        apply_slice(value, "[" + "[" * 65 + "0" + "]" * 65 + "]")
    assert apply_slice(value, "[" + "[" * 25 + "0" + "]" * 25 + "]").ndim == 26


def test_new_axes_are_no_expression():
    for text in ("[newaxis]", "[np.newaxis, 0]", "[None, [1], ...]"):
        assert not is_expression(text)


def test_a_list_of_nothing_selects_nothing():
    assert apply_slice(np.arange(4), "[[]]").shape == (0,)
    assert apply_slice(np.arange(4), "[[ ]]").shape == (0,)
    nested = apply_slice(np.arange(4) * 10, "[[[0, 1], [3, 2]]]")
    assert nested.tolist() == [[0, 10], [30, 20]]
    assert apply_slice(np.arange(4), "[[1, 2,]]").tolist() == [1, 2]


def test_an_object_is_an_element_as_it_is():
    value = np.empty(2, object)
    value[0], value[1] = b"ab\0", [1, 2]
    assert apply_slice(value, "[0]")[()] == b"ab\0"
    assert apply_slice(value, "[1]")[()] == [1, 2]
    assert apply_slice(value, "[1]").shape == ()
    assert apply_slice(np.float32([1.5]), "[0]").dtype == np.float32


def test_indices_are_whole_numbers_in_brackets_or_none():
    assert parse_indices(" [1, -2] ") == (1, -2)
    assert parse_indices("3") == (3,)
    for text in ("", "[]", " [ ] "):
        with pytest.raises(UserError, match="There are no indices"):
            parse_indices(text)
    for text in ("[12", "12]", "1,,2", "x"):
        with pytest.raises(UserError, match="is not an index"):
            parse_indices(text)
