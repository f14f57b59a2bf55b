"""The fields of a dump's JSON: each is what it should be, or its default, and then it is told."""

import json

import pytest

from tfdbg_cli.dumps.run_folder.json_fields import (
    Fields,
    is_size,
    is_span,
    is_whole,
    parse_lines,
    sealed,
)

LARGEST = 1 << 62


@pytest.mark.parametrize(
    ("kind", "value", "is_right"),
    [
        ("number", 5, True),
        ("number", -5, True),
        ("number", LARGEST - 1, True),
        ("number", LARGEST, False),
        ("number", -LARGEST, False),
        ("number", 1 << 200, False),
        ("number", True, False),
        ("number", 1.0, False),
        ("number", "1", False),
        ("size", 0, True),
        ("size", -1, False),
        ("size", LARGEST, False),
        ("sizes", [], True),
        ("sizes", [0, 7], True),
        ("sizes", [1, 1, 1, LARGEST - 1], True),
        ("sizes", [2, LARGEST // 2], False),
        ("sizes", [0, LARGEST - 1, 2], False),  # nobody multiplies in this order alone
        ("sizes", [1, -1], False),
        ("sizes", [1, 1.0], False),
        ("sizes", 3, False),
        ("text", "", True),
        ("text", b"a".hex(), True),
        ("text", 1, False),
        ("flag", True, True),
        ("flag", 1, False),
        ("texts", ["a", ""], True),
        ("pairs", [["a", "b"]], True),
    ],
)
def test_a_field_is_what_it_should_be_or_is_told(kind, value, is_right):
    told = []
    fields = Fields({"it": value, "none": None}, told.append)
    read = getattr(fields, kind)
    found, default = read("it"), read("none")
    assert told == ([] if is_right else ["it"])
    if kind in ("sizes", "pairs"):
        value = [*map(tuple, value)] if kind == "pairs" else value
        assert (None if found is None else [*found]) == (value if is_right else default)
    else:
        assert found == (value if is_right else default)
    assert ("it" in fields, "none" in fields, "other" in fields) == (True, False, False)


def test_of_lists_and_tables_the_right_ones_stay():
    told = []
    found = {"texts": ["a", 1, "b"], "pairs": [["a", "b"], ["c"], [1, "d"], "ef"], "table": {}}
    found["table"] = {"a": 1, "b": -1, "c": True, "d": 0}
    fields = Fields({**found, "inner": {"x": "no number"}}, told.append)
    assert fields.texts("texts") == ["a", "b"]
    assert fields.pairs("pairs") == [("a", "b")]
    assert fields.table("table", is_size) == {"a": 1, "d": 0}
    assert fields.fields("inner").number("x", -7) == -7
    assert fields.fields("texts") is None and fields.items("other", is_size) == []
    assert told == ["texts", "pairs", "table", "inner.x", "texts"]
    assert [*map(is_span, ([1, 2], [1], [1, -2], (1, 2), [1, 2, 3]))] == [True, *[False] * 4]


def test_a_text_is_as_it_was_sealed():
    text = sealed(json.dumps({"a": "b"}, indent=1))
    assert json.loads(text)["a"] == "b"
    assert is_whole(text) and is_whole(text.decode()) and is_whole(b"{}")
    assert not is_whole(text.replace(b"b", b"c", 1)) and not is_whole(text[:-1])


def test_lines_are_read_one_by_one():
    whole = sealed(json.dumps({"n": 1}))
    changed = whole.replace(b"1", b"2", 1)
    lines = [b'{"a": 1}', b"", b"[1] 2", whole, changed, b"\xff", b"x", b'"last"']
    for end in (b"", b"\n"):
        for some in (lines, lines[:5] + lines[6:]):  # as one text, and where that is no UTF-8
            found = [*parse_lines(b"\n".join(some) + end)]
            assert [number for number, _ in found] == [*range(1, len(some) + 1)]
            values = [each for _, each in found]
            assert (values[0], values[3]["n"], values[-1]) == ({"a": 1}, 1, "last")
            wrong = [number for number, each in found if isinstance(each, ValueError)]
            assert wrong == [2, 3, *range(5, len(some))]
            assert str(values[4]) == "it isn't what was written"
