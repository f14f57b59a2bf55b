"""Pictures of arrays: nothing bad is lost by reduction, whatever the size, dtype and layout."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.tensors.pictures.colours import BAD, LEVELS, colour_table
from tfdbg_cli.tensors.pictures.layout import Panel, fitted, inside, tiled
from tfdbg_cli.tensors.pictures.picture import coloured, picture_of, plane, png, png_of
from tfdbg_cli.tensors.pictures.reduction import (
    HOWS,
    MINUS_INF,
    NAN,
    PLUS_INF,
    Axis,
    reduced,
    sampled,
)
from tfdbg_cli.tensors.pictures.scales import SCALES, scale_for

_Array = np.ndarray[Any, Any]
BITS = {NAN: np.nan, PLUS_INF: np.inf, MINUS_INF: -np.inf}

shapes = st.tuples(st.integers(1, 70), st.integers(1, 70))


@st.composite
def broken(draw: st.DrawFn) -> tuple[_Array, dict[tuple[int, int], int]]:
    """An array with some bad elements, and what they are."""
    shape = draw(shapes)
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    values = rng.standard_normal(shape)
    places = st.tuples(st.integers(0, shape[0] - 1), st.integers(0, shape[1] - 1))
    bad = draw(st.dictionaries(places, st.sampled_from([*BITS]), max_size=6))
    for place, bits in bad.items():
        values[place] = BITS[bits]
    return values, bad


@given(
    broken(),
    st.sampled_from(["f2", "f4", "f8", "bfloat16", "float8_e5m2"]),
    st.integers(1, 80),
    st.integers(1, 80),
    st.sampled_from("CF"),
)
@settings(deadline=None)
def test_no_bad_element_is_lost(
    made: tuple[_Array, dict[tuple[int, int], int]], dtype: str, high: int, wide: int, order: Any
) -> None:
    values, bad = made
    kind = getattr(ml_dtypes, dtype) if hasattr(ml_dtypes, dtype) else dtype
    values = np.asarray(values.astype(kind), order=order)
    rows, columns = Axis(0, values.shape[0], high), Axis(0, values.shape[1], wide)
    grid = reduced(values, rows, columns)
    expected = np.zeros((rows.cells, columns.cells), np.uint8)
    for (row, column), bits in bad.items():
        expected[row // high, column // wide] |= bits
    assert np.array_equal(grid.bad, expected)
    for row in range(rows.cells):
        for column in range(columns.cells):
            block = values[slice(*rows.span(row)), slice(*columns.span(column))].astype("f8")
            finite = block[np.isfinite(block)]
            cell = (grid.mean[row, column], grid.low[row, column], grid.high[row, column])
            if finite.size:
                np.testing.assert_allclose(cell[0], finite.mean(), rtol=1e-6, atol=1e-12)
                assert cell[1:] == (finite.min(), finite.max())
            else:
                assert np.isnan(cell).all()
    # And each is drawn in a colour that says so.
    pixels = coloured(grid, scale_for("minmax", [grid.mean]))
    colours = {colour for _, colour, _ in BAD.values()}
    packed = pixels.astype(int) @ [1 << 16, 1 << 8, 1]
    assert np.array_equal(np.isin(packed, [*colours]), expected > 0)


@given(
    st.tuples(st.integers(1, 3000), st.integers(1, 3000)),
    st.integers(1, 60),
    st.integers(1, 200),
)
@settings(deadline=None)
def test_every_element_is_in_a_cell_of_the_page(
    size: tuple[int, int], lines: int, width: int
) -> None:
    panel = fitted((0, 0, *size), lines, width)
    assert panel.lines <= lines
    assert panel.width <= width
    for axis, n in zip((panel.rows, panel.columns), size, strict=True):
        assert axis.span(0)[0] == 0
        assert axis.span(axis.cells - 1)[1] == n
    seen = set()
    for line in range(panel.lines):
        upper, lower = panel.halves(line)
        seen |= {upper, upper if lower is None else lower}
    assert seen == set(range(panel.rows.cells))
    for row, column in ((0, 0), (size[0] - 1, size[1] - 1), (size[0] // 2, size[1] // 3)):
        place = panel.place_of(row, column)
        assert place is not None
        rows, columns = panel.block(*place)
        assert rows.start <= row < rows.stop
        assert columns.start <= column < columns.stop


@given(st.integers(1, 40), shapes, st.integers(3, 50), st.integers(6, 160))
@settings(deadline=None)
def test_tiles_dont_overlap(count: int, size: tuple[int, int], lines: int, columns: int) -> None:
    panels = tiled(*size, count, lines, columns)
    assert 1 <= len(panels) <= count
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        assert panel.column + panel.width <= columns
        here = {
            (panel.line + line, panel.column + column)
            for line in range(-1, panel.lines)
            for column in range(panel.width)
        }
        assert not here & taken
        taken |= here
    assert max(panel.line + panel.lines for panel in panels) <= max(lines, 2)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.array([[True, False], [True, True]]), 0.75),
        (np.array([[1, 2], [3, 2**62]], np.int64), (6 + 2**62) / 4),
        (np.array([[3 + 4j, 0]]), 2.5),
        (np.array([[250, 255]], np.uint8), 252.5),
        (np.array([[1.5, 2.5]], ml_dtypes.float8_e4m3fn), 2.0),
        (np.full((2, 2), 1.7e308), 1.7e308),
        (np.array([[-1.7e308, 1.7e308]]), 0.0),
    ],
)
def test_any_number_has_a_mean(value: _Array, expected: float) -> None:
    grid = reduced(value, Axis(0, value.shape[0], 2), Axis(0, value.shape[1], 2))
    np.testing.assert_allclose(grid.mean, [[expected]], atol=1e-9)
    assert grid.is_exact


def test_half_a_nan_makes_a_complex_number_bad() -> None:
    value = np.array([[complex(0, np.nan), complex(np.nan, np.inf), complex(1, -np.inf), 1]])
    grid = reduced(value, Axis(0, 1, 1), Axis(0, 4, 1))
    assert grid.bad.tolist() == [[NAN, NAN, PLUS_INF, 0]]


def test_a_sample_is_bounded_and_says_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    class Counted(np.ndarray):  # type: ignore[type-arg]
        read = 0

        def __getitem__(self, key: Any) -> Any:
            part = np.asarray(super().__getitem__(key))
            Counted.read += part.size
            return part

    value = np.zeros((40_000, 5000), np.float16).view(Counted)
    rows, columns = Axis(0, 40_000, 454), Axis(0, 5000, 32)
    grid = sampled(value, rows, columns)
    assert not grid.is_exact
    assert np.isfinite(grid.mean).all()  # no cell is left out
    assert Counted.read <= 1 << 20
    for shape in ((1, 10**7), (10**7, 1), (3, 10**7)):
        flat = np.broadcast_to(np.float32(1), shape)
        axes = [Axis(0, n, -(-n // 100)) for n in shape]
        assert (sampled(flat, *axes).mean == 1).all()


def test_what_is_checked_between_pieces_ends_the_work() -> None:
    calls = []

    def check() -> None:
        calls.append(1)
        if len(calls) > 3:
            raise KeyboardInterrupt

    value = np.broadcast_to(np.float32(1), (4000, 4000))
    with pytest.raises(KeyboardInterrupt):
        reduced(value, Axis(0, 4000, 100), Axis(0, 4000, 100), check)
    assert len(calls) == 4


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=30))
@settings(deadline=None)
def test_levels_are_in_the_order_of_the_numbers(numbers: list[float]) -> None:
    values = np.array(numbers)
    order = np.argsort(values)
    for name in SCALES:
        scale = scale_for(name, [values])
        assert np.isfinite([scale.low, scale.high]).all()
        levels = scale.levels(values)
        assert levels.max() < LEVELS
        if name != "log":
            finite = [int(levels[at]) for at in order if np.isfinite(values[at])]
            assert finite == sorted(finite)


def test_scales() -> None:
    values = np.array([[-1.0, 0.0, 3.0]])
    assert scale_for("symmetric", [values]).low == -3
    middle = scale_for("symmetric", [values]).levels(np.zeros(1))
    assert middle in (LEVELS // 2, LEVELS // 2 - 1)
    log = scale_for("log", [np.array([1e-3, -1e3, 0.0, np.inf])])
    assert (log.low, log.high) == (1e-3, 1e3)
    outlier = np.append(np.linspace(0, 1, 999), 1e30)
    assert scale_for("quantile", [outlier]).high < 1.01
    assert scale_for("minmax", [np.full(3, np.nan)]).levels(np.full(2, np.nan)).tolist() == [0, 0]
    constant = scale_for("minmax", [np.full((2, 2), 7.0)])
    assert (constant.levels(np.full(2, 7.0)) == LEVELS // 2).all()


def test_colour_maps_have_steps_that_look_alike_and_nothing_bad_among_them() -> None:
    bad = {colour for _, colour, _ in BAD.values()}
    assert len(bad) == len(BAD)
    for diverging in (False, True):
        table = colour_table(diverging=diverging).astype(int)
        assert len(np.unique(table, axis=0)) == LEVELS
        light = table @ [0.2126, 0.7152, 0.0722]
        parts = np.split(light, 2) if diverging else [light]
        assert (np.diff(parts[0]) > 0).all()
        for colour in bad:
            parts_of = np.array([colour >> 16, colour >> 8 & 255, colour & 255])
            assert np.abs(table - parts_of).sum(axis=1).min() > 100


def unpacked(data: bytes) -> _Array:
    """The pixels of a PNG file of ours."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, body = 8, b""
    while at < len(data):
        (size,) = struct.unpack(">I", data[at : at + 4])
        kind, chunk = data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        (checksum,) = struct.unpack(">I", data[at + 8 + size : at + 12 + size])
        assert checksum == zlib.crc32(kind + chunk)
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", chunk[:10])
            assert depth == 8
        elif kind == b"IDAT":
            body += chunk
        at += 12 + size
    parts = {2: 3, 6: 4}[colour]
    rows = np.frombuffer(zlib.decompress(body), np.uint8).reshape(height, 1 + parts * width)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape(height, width, parts)


def test_a_picture_as_png() -> None:
    value = np.arange(12.0).reshape(3, 4)
    value[1, 2] = np.nan
    picture = picture_of(value)
    assert picture.bad == {"NaN": 0xFF0000}
    pixels = unpacked(png(picture, 5))
    assert np.array_equal(pixels[::5, ::5], picture.pixels)
    assert pixels[7, 12].tolist() == [255, 0, 0]
    assert unpacked(png(picture)).shape[0] % 3 == 0
    large = picture_of(np.zeros((5000, 7)), (50, 50))
    assert large.grid.is_exact
    assert large.pixels.shape == (50, 7, 3)
    see_through = np.zeros((2, 2, 4), np.uint8)
    assert np.array_equal(unpacked(png_of(see_through)), see_through)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.array(3.0), "single element"),
        (np.zeros((0, 4)), "empty"),
        (np.array([b"a", b"b"], object), "string"),
        (np.array(["a"]), "string"),
        (np.zeros(2, [("a", "f4")]), "make no picture"),
    ],
)
def test_what_makes_no_picture_is_told(value: _Array, text: str) -> None:
    with pytest.raises(UserError, match=text):
        picture_of(value)


def test_slices_of_more_dimensions() -> None:
    value = np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5)
    assert plane(value, (1, 2)).tolist() == value[1, 2].tolist()
    assert picture_of(value, outer=(1, 2)).grid.mean[0, 0] == value[1, 2, 0, 0]
    assert picture_of(np.arange(4), how="max").grid.values("max").tolist() == [[0, 1, 2, 3]]
    for how in HOWS:
        assert picture_of(value, (2, 2), how=how).pixels.shape == (2, 2, 3)


def test_a_part_stays_inside() -> None:
    assert inside((-5, 90, 10, 20), (40, 100)) == (0, 80, 10, 20)
    assert inside((3, 3, 40, 100), (40, 100)) is None
    panel = Panel((), Axis(10, 7, 2), Axis(4, 3, 1), 1, 2)
    assert panel.place_of(16, 6) == (1, 2)
    assert panel.place_of(17, 6) is None
    assert panel.block(1, 0) == (slice(14, 17), slice(4, 5))
