"""Filters about narrower types, and arguments of filters."""

import enum
from typing import Literal

import ml_dtypes
import numpy as np
import pytest
from filter_kit import INF, NAN

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.common.settings import Settings
from tfdbg_cli.dumps.dump import Datum, InconvertibleTensorProto, is_only_nonfinite, takes_dump
from tfdbg_cli.filters.arguments import choices, parameters
from tfdbg_cli.filters.builtin import has_inf_or_nan
from tfdbg_cli.filters.registry import FilterRegistry, load_filters

TYPES = {
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
}


@pytest.fixture
def filters():
    return FilterRegistry()


def passes(filters, name, values, dtype=np.float32):
    value = np.asarray(values, dtype) if dtype is not None else values
    return filters.predicate(name)(Datum("x", 0, lambda: value), value)


def around(number):
    """A number of float32 between its neighbours."""
    middle = np.float32(number)
    return np.nextafter(middle, np.float32(0)), middle, np.nextafter(middle, np.float32(INF))


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("float16", 65520.0),
        ("bfloat16", 3.396177529e38),
        ("float8_e4m3", 464.0),
        ("float8_e5m2", 61440.0),
    ],
)
def test_what_overflows_is_what_a_cast_makes_infinite(filters, name, limit):
    for value in (*around(limit), np.float32(1.0)):
        with np.errstate(over="ignore"):
            is_gone = not np.isfinite(value.astype(TYPES[name]).astype(np.float32))
        assert passes(filters, f"overflows:{name}", [0.0, value]) is bool(is_gone), value
    assert passes(filters, f"overflows:{name}", [around(limit)[2]])
    assert not passes(filters, f"overflows:{name}", [around(limit)[0]])


@pytest.mark.parametrize(
    ("name", "smallest"),
    [
        ("float16", 2.0**-24),
        ("bfloat16", 2.0**-133),
        ("float8_e4m3", 2.0**-9),
        ("float8_e5m2", 2.0**-16),
    ],
)
def test_what_underflows_is_what_a_cast_makes_zero(filters, name, smallest):
    for value in (*around(smallest / 2), np.float32(smallest)):
        is_gone = value.astype(TYPES[name]).astype(np.float32) == 0
        assert passes(filters, f"underflows:{name}", [value, -value]) is bool(is_gone), value
    assert not passes(filters, f"underflows:{name}", [0.0, 0.0])


def test_the_share_that_underflows(filters):
    small, large = [1e-9], [1.0]
    assert not passes(filters, "underflows:float16", small + large + [0.0] * 9)
    assert passes(filters, "underflows:float16", small * 2 + large + [NAN, INF])
    assert passes(filters, "underflows:float16:0.2", small + large * 3)
    assert not passes(filters, "underflows:float16:0.25", small + large * 3)
    assert passes(filters, "underflows:float16:0", small + large * 99)


def test_masks_and_what_holds_no_floating_point_numbers_do_not_count(filters):
    lowest = np.finfo(np.float32).min
    for name in ("overflows:float16", "underflows:float16"):
        assert not passes(filters, name, [0.0, lowest])
        assert not passes(filters, name, [INF, -INF, NAN])
        assert not passes(filters, name, [10**9], np.int64)
        assert not passes(filters, name, InconvertibleTensorProto(), None)
    assert passes(filters, "overflows:float16", [1e300], np.float64)
    assert passes(filters, "overflows:float16", [1e5], ml_dtypes.bfloat16)
    assert not passes(filters, "overflows:float16", [65504.0], np.float16)


@pytest.mark.parametrize(
    "name",
    [
        *("overflows:half", "overflows:fp16", "overflows_float16", "overflows:FLOAT16"),
        *("overflows:e4m3", "overflows:fp8_e4m3", "overflows:float8_e4m3fn", "overflows:e5m2"),
        *("overflows:float8_e5m2", "overflows_float8_e5m2", "overflows:bf16", "overflows_bfloat16"),
    ],
)
def test_the_usual_names(filters, name):
    assert name in filters
    is_wide = "b" in name
    assert passes(filters, name, [1e5]) is not is_wide
    assert not passes(filters, name, [400.0])


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("overflows", "needs an argument. It is written overflows:DTYPE. DTYPE is one of float16"),
        ("overflows:", "needs an argument"),
        ("overflows:float17", 'can\'t take "float17" for DTYPE. Did you mean float16'),
        ("overflows:float16:1", "takes at most 1 argument"),
        ("underflows:float16:2", 'can\'t take "2" for SHARE. A share is a number from 0'),
        ("underflows:float16:x", 'can\'t take "x" for SHARE'),
        ("exploding:nan", 'can\'t take "nan" for ABOVE. It is written exploding'),
        ("dead:1", "takes no argument. Write dead alone"),
        ("overflow:float16", 'no tensor filter named "overflow". Did you mean overflows'),
        ("overflows_x", 'no tensor filter named "overflows_x"'),
    ],
)
def test_arguments_that_a_filter_cannot_have(filters, name, said):
    assert name not in filters
    with pytest.raises(UserError) as caught:
        filters.predicate(name)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_arguments_come_before_settings():
    settings = Settings(None)
    filters = FilterRegistry(settings)
    settings.set("exploding_above", "10")
    assert passes(filters, "exploding", [50.0])
    assert not passes(filters, "exploding:60", [50.0])
    assert passes(filters, "exploding:40", [50.0])
    assert passes(filters, "exploding:", [50.0])
    filters.add("exploding", lambda datum, tensor, *, above=3: above == 4)
    assert not passes(filters, "exploding", [50.0])
    assert passes(filters, "exploding:4", [50.0])


def test_the_same_filter_is_the_same_object(filters):
    assert filters.get("overflows:float16") is filters.get("overflows:float16")
    assert filters.predicate("overflows:float16") is filters.predicate("overflows:float16")
    filters.add("overflows", lambda datum, tensor, *, dtype: dtype == "x")
    assert passes(filters, "overflows:x", [1.0])
    assert not passes(filters, "overflows:float16", [1e9])


def test_how_filters_are_written(filters):
    assert filters.usage("overflows") == "overflows:DTYPE"
    assert filters.usage("underflows") == "underflows:DTYPE[:SHARE]"
    assert [filters.usage(each) for each in ("dead", "nowhere")] == ["dead", "nowhere"]
    assert filters.examples("overflows") == [f"overflows:{name}" for name in TYPES]
    assert filters.examples("exploding") == ["exploding"]
    assert parameters(max) == []
    (about,) = parameters(lambda datum, tensor, *, kind: True)
    assert choices(about) == []


class Side(enum.Enum):
    LEFT = "left"
    RIGHT = "right"


def test_filters_of_ones_own(filters):
    def several(datum, tensor, dump, *, count: int, side: Side = Side.LEFT, word="a"):
        return (count, side, word, dump) == (3, Side.RIGHT, "b", 7)

    filters.add("several", several)
    found = filters.predicate("several:3:right:b")
    assert takes_dump(found)
    assert found(None, None, 7)
    assert not filters.predicate("several:3")(None, None, 7)
    with pytest.raises(UserError, match='"three" for COUNT'):
        filters.predicate("several:three")
    with pytest.raises(UserError, match=r'"up" for SIDE\. There are left'):
        filters.predicate("several:3:up")
    filters.add("a:b", has_inf_or_nan)
    assert filters.get("a:b") is has_inf_or_nan

    def unknown(datum, tensor, *, kind: "Nowhere" = 2, way: Literal["x"] = "x"):  # noqa: F821
        return (kind, way) == (5, "x")

    filters.add("switch", lambda datum, tensor, *, switch=True: switch)
    assert not filters.predicate("switch:off")(None, None)
    filters.add("unknown", unknown)
    assert filters.predicate("unknown:5")(None, None)


def test_a_file_of_filters_with_arguments(filters, tmp_path):
    path = tmp_path / "filters.py"
    path.write_text(
        "from __future__ import annotations\n"
        "import enum\n"
        "class Side(enum.Enum):\n    LEFT = 'left'\n"
        "def one(datum, tensor, *, limit: float):\n    return tensor.max() > limit\n"
        "def two(datum, tensor, dump, *, side: Side):\n    return side is Side.LEFT\n"
        "def other(datum, tensor, other, *, side: Side):\n    return side is Side.LEFT\n"
        "def no(datum, *, side):\n    return True\n"
    )
    assert load_filters(str(path), filters) == ["one", "two", "other"]
    assert passes(filters, "one:2.5", [3.0])
    assert not passes(filters, "one:3.5", [3.0])
    assert takes_dump(filters.predicate("two:left"))
    assert filters.predicate("other:left")(None, None, None)
    assert filters.examples("two") == ["two:left"]


def test_what_only_nan_and_infinities_pass_stays_so(filters):
    def bad(datum, tensor, *, least: int = 1):
        return int((~np.isfinite(tensor)).sum()) >= least

    bad.only_nonfinite = True
    filters.add("bad", bad)
    assert is_only_nonfinite(filters.predicate("bad:2"))
    assert not passes(filters, "bad:2", [NAN])
