"""Numbers are searched in the values: the same lines as in the text, few of them written."""

import re

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import IS_LONG

from tfdbg_cli.tensors.cells import ElementFormat, cells_for
from tfdbg_cli.tensors.formatting import TensorView
from tfdbg_cli.tensors.search import needle_in

_FLOATS = ("f2", "f4", ">f4", "f8", "g", ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn)
_COMPLEX = ("c8", "c16")
_INTS = ("?", "i1", "u1", "i2", "i4", "i8", "u8", ml_dtypes.int4)


def reals(rng, count):
    """Numbers of many sizes, many of them next to where their text changes."""
    sizes = 10.0 ** rng.integers(-12, 12, count)
    made = rng.choice(
        [
            rng.standard_normal(count),
            rng.standard_normal(count) * 10.0 ** rng.integers(-320, 300, count),
            np.round(rng.standard_normal(count) * 10.0 ** rng.integers(-3, 8), rng.integers(0, 9)),
            sizes * (1 + rng.integers(-2, 3, count) * 10.0 ** rng.integers(-17, -5, count)),
            rng.integers(0, 1000, count) / 10.0 ** rng.integers(0, 7),
            (rng.integers(1, 999, count) - 10.0 ** rng.integers(-12, -1, count)) * sizes[0],
            rng.random(count) * 10.0 ** rng.integers(0, 8),
        ]
    )
    words = rng.choice([0.0, -0.0, np.nan, np.inf, -np.inf], count)
    return np.where(rng.random(count) < 0.03, words, made) * rng.choice([-1, 1], count)


def elements(rng, dtype, count):
    dtype = np.dtype(dtype)
    with np.errstate(all="ignore"):
        if dtype.kind == "c":
            return (reals(rng, count) + 1j * reals(rng, count)).astype(dtype)
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            drawn = rng.integers(limits.min, limits.max, count, dtype, endpoint=True)
            return drawn >> dtype.type(rng.integers(0, 8 * dtype.itemsize))
        if dtype.kind == "b" or dtype.name == "int4":
            return rng.integers(0, 2 if dtype.kind == "b" else 8, count).astype(dtype)
        return reals(rng, count).astype(dtype)


@st.composite
def searches(draw):
    """An array, and a pattern that is a piece of its text, as people type it."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    values = elements(rng, draw(st.sampled_from(_FLOATS + _COMPLEX + _INTS)), 120)
    if draw(st.booleans()):  # most of the elements have chosen a format without these
        values = np.concatenate([np.resize(values[:3], 575), values, np.resize(values[:3], 6400)])
        shape = draw(st.sampled_from([(7095,), (1419, 5)]))
    else:
        shape = draw(st.sampled_from([(120,), (3, 40), (2, 3, 20), (4, 1, 30, 1), (120, 1)]))
    values = values.reshape(shape)
    if draw(st.booleans()):
        values = values.T
    view = TensorView(values, draw(st.sampled_from([30, 79])), threshold=0)
    texts = [made.text for made in view]
    written = [text for text in texts[:300] if text]
    text = written[draw(st.integers(0, len(written) - 1))]
    digits = [at for at, letter in enumerate(text) if letter.isdigit()] or [0]
    start = digits[draw(st.integers(0, len(digits) - 1))] - draw(st.integers(0, 3))
    letters = list(text[max(start, 0) : max(start, 0) + draw(st.integers(1, 12))])
    if draw(st.booleans()) and letters:
        letters[draw(st.integers(0, len(letters) - 1))] = draw(st.sampled_from("0123456789."))
    kept = draw(st.sampled_from(["", ".", "."]))
    return view, texts, "".join(one if one in kept else re.escape(one) for one in letters)


@settings(max_examples=300 if IS_LONG else 100, deadline=None)
@given(searches())
def test_numbers_are_found_on_the_lines_that_show_them(search):
    view, texts, pattern = search
    regex = re.compile(pattern)
    hits = [number for number, text in enumerate(texts) if regex.search(text)]
    assert view.matches(regex, 0, len(texts)) == hits
    middle = len(texts) // 2
    assert view.matches(regex, middle // 2, middle) == [
        hit for hit in hits if middle // 2 <= hit < middle
    ]
    assert view.find(regex, middle) == next((hit for hit in hits if hit >= middle), None)
    assert view.find(regex, middle, -1) == next((h for h in hits[::-1] if h <= middle), None)


@pytest.mark.parametrize("dtype", [*_FLOATS[:4], *_COMPLEX, "g", "G"])
def test_no_element_that_shows_some_digits_is_left_out(dtype):
    """The formats are those of other elements, so that some are written in full."""
    rng = np.random.default_rng(3)
    for size in (1, 3, 20, 200) * 6:
        values = elements(rng, dtype, 200)
        cells = cells_for(values[:size])
        texts = cells.texts(values)
        for text in texts[::10]:
            bare = text.strip()
            start, stop = sorted(rng.integers(0, len(bare), 2))
            pattern = bare[start : stop + 1].replace("+", r"\+")
            needle = needle_in(re.compile(pattern))
            if needle:
                missed = [
                    text
                    for text, may in zip(texts, cells.may_show(needle, values), strict=True)
                    if not may and re.search(pattern, text)
                ]
                assert not missed, (pattern, needle)


@pytest.mark.parametrize("sample", [1e-7, 1.5, [1e-3, 3.14]])
@pytest.mark.parametrize("dtype", ["f2", "f4"])
def test_small_numbers_are_found_by_their_digits(dtype, sample):
    """Also those below the normal ones, which have few digits: 9.8e-45 is written as 1.e-44."""
    step = 7 if dtype == "f2" else 1
    values = np.arange(0, 9000 * step, step).astype(f"u{dtype[1]}").view(dtype)
    cells = cells_for(np.ravel(np.array(sample, dtype)))
    texts = cells.texts(values)
    needles = [f"{number}{end}" for number in range(100) for end in ("", ".")]
    for needle in (*needles, "00", "1.0", "0.1", "9.9", ".05", "123", "e-0", "e-08", "e+04"):
        shown = np.array([needle in text for text in texts])
        assert not (shown & ~cells.may_show(needle, values)).any(), needle


@pytest.mark.parametrize("dtype", ["i8", "u8", "i4", "u1", "i1"])
def test_integers_next_to_powers_of_ten_are_found(dtype):
    limits = np.iinfo(dtype)
    near = [0, limits.min, limits.max, *(10**n + d for n in range(20) for d in (-1, 0, 1, 7))]
    values = np.array([n for n in near if n <= limits.max], dtype)
    cells = cells_for(values)
    texts = [text.strip(" -") for text in cells.texts(values)]
    for needle in {text[i:j][:18] for text in texts for i in range(3) for j in range(i + 1, 21)}:
        if needle:
            may = cells.may_show(needle, values).tolist()
            assert may == [needle in text for text in texts], needle


class Counted(ElementFormat):
    """Counts the elements that are written."""

    def __init__(self, cells):
        self.cells, self.width, self.count = cells, cells.width, 0

    def texts(self, row):
        self.count += row.size
        return self.cells.texts(row)

    def may_show(self, needle, row):
        return self.cells.may_show(needle, row)


_RNG = np.random.default_rng(1)


@pytest.mark.parametrize(
    ("values", "pattern"),
    [
        (_RNG.standard_normal((300, 100)).astype(np.float32), "987654"),
        (_RNG.standard_normal((300, 100)), r"0\.12345"),
        (_RNG.standard_normal((300, 100)).astype("g"), "987654"),
        (np.exp(9 * _RNG.standard_normal((300, 100))).astype("g"), "e-1"),
        (_RNG.standard_normal((300, 100)).astype(np.float16), "987654"),
        (np.exp(9 * _RNG.standard_normal((300, 100))), "e-1"),
        (_RNG.standard_normal((300, 100)).astype(np.complex64), "12.34567"),
        (_RNG.integers(0, 2, (300, 100)).astype(np.float32), "0.5"),
        (_RNG.integers(0, 2, (300, 100)), "7"),
        (_RNG.integers(0, 10**6, (300, 100)), "98765"),
        (_RNG.integers(0, 2, (300, 100)) == 1, "1"),
        (_RNG.standard_normal((300, 100)), "nan"),
        (_RNG.standard_normal((300, 100)), "-inf|nan"),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value.dtype}",
)
def test_hardly_a_line_is_written_for_a_search(values, pattern):
    view = TensorView(values, 79, threshold=0)
    view._cells = counted = Counted(view._cells)
    view.matches(re.compile(pattern), 0, view.line_count)
    assert counted.count < values.size / 20


@pytest.mark.parametrize(
    ("pattern", "needle"),
    [
        ("987654", "987654"),
        ("0.125", "0?125"),
        (r"0\.125", "0.125"),
        ("-3.5e-07", "3?5"),
        ("^ *12", "12"),
        ("^.*12", "12"),
        ("e-07", "e-07"),
        (r"1\.5, 22\.5", "22.5"),
        ("12345678901234567890", "123456789012345678"),
        ("1|2", ""),
        ("[12]3", "3"),
        ("12+", "12"),
        ("12*", "1"),
        ("12?", "1"),
        ("1{2}234", "234"),
        ("1{}234", "234"),
        (r"\d12", "12"),
        ("1[^]2]34", "1?34"),
        ("(12|34)567", "567"),
        ("(?:12)345", "345"),
        (r"-?\b12\.5\b", "12.5"),
        ("(?=12)34", ""),
        ("(?P<x>12)34", ""),
        (r"(1)2345\1", ""),
        ("((1))234", ""),
        (r"\x31234", ""),
        (r"12\|34", "12"),
        ("(?i)12", ""),
        ("abc", ""),
    ],
)
def test_the_digits_of_a_pattern(pattern, needle):
    assert needle_in(re.compile(pattern)) == needle


_PATTERNS = [
    r"-?1[02]\.5",
    r"98\.7|12\.3",
    r"(12|34)5\d",
    r"nan|777",
    r"-?inf|e\+0[34]",
    r"[0-9]5\b",
    r"\d{4}",
    r"9[^5]7",
    r"1.5|",
    r"12+3*4",
    r"(?!1)23",
    r"\[?1{2}",
    r"^ *-?9",
    r"5[,\]]",
    r"1\|2|33",
    r"0{3}1",
]


@pytest.mark.parametrize("pattern", _PATTERNS)
def test_patterns_of_regexes_find_what_the_text_shows(pattern):
    rng = np.random.default_rng(5)
    for dtype in ("f2", "f4", "f8", "g", "i4", "c8", ml_dtypes.bfloat16):
        values = (1000 * rng.standard_normal((40, 30))).astype(dtype)
        if values.dtype.kind in "fc":
            values[3, 7], values[20, 1] = np.nan, -np.inf
        view = TensorView(values, 79, threshold=0)
        regex = re.compile(pattern)
        hits = [at for at, made in enumerate(view) if regex.search(made.text)]
        assert view.matches(regex, 0, view.line_count) == hits, dtype


def test_patterns_of_several_numbers_write_hardly_a_line():
    values = np.random.default_rng(1).standard_normal((300, 100))
    for pattern in (r"98765\d|123456", "nan|7654321", r"(?:-|\+)?0\.1234[56]", "(?:12)34567"):
        view = TensorView(values, 79, threshold=0)
        view._cells = counted = Counted(view._cells)
        view.matches(re.compile(pattern), 0, view.line_count)
        assert counted.count < values.size / 20, pattern


@pytest.mark.parametrize(
    "dtype", ["f2", "f4", "f8", "g", ml_dtypes.bfloat16, ml_dtypes.float8_e5m2]
)
@pytest.mark.parametrize("scale", [1e-6, 0.1, 1.0, 1e6])
def test_many_elements_are_written_as_numpy_writes_them(dtype, scale):
    """By whatever way they are written: formats of one sample, elements of another."""
    rng = np.random.default_rng(7)
    with np.errstate(all="ignore"):
        sample = (scale * rng.standard_normal(200)).astype(dtype)
        others = [scale * rng.standard_normal(2000), 10.0 ** rng.uniform(-12, 9, 2000)]
        others += [np.arange(-500, 500) / 8, [0.0, -0.0, np.nan, np.inf, -np.inf, 1e300]]
        values = np.concatenate(others).astype(dtype)
    wide = values.astype(np.float32) if values.dtype.isbuiltin == 2 else values
    for chosen in (sample, np.abs(sample), np.round(sample.astype("f4"), 2).astype(dtype)):
        cells = cells_for(chosen)
        assert cells.texts(values) == cells._written_by_numpy(wide)
        if wide.itemsize < 4:  # complex numbers have no parts as small as that
            continue
        with np.errstate(invalid="ignore"):
            part = cells_for(1j * chosen.astype(wide.dtype))._imag
        assert part.texts(values) == part._written_by_numpy(wide)


@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1.0, 3e6])
def test_long_numbers_between_two_texts_are_written_as_numpy_writes_them(scale):
    """Also those that are rounded otherwise as float64."""
    rng = np.random.default_rng(11)
    ten = np.longdouble(10)
    halves = (rng.integers(10**7, 10**9, 3000).astype("g") + np.longdouble(0.5)) / ten**8
    halves = np.concatenate([halves, halves / ten**3, ten ** np.arange(-9, 9).astype("g")])
    near = [halves * np.longdouble(scale)]
    for step in (2.0**-63, 2.0**-60, 2.0**-53, 2.0**-50):
        near += [near[0] * (1 + np.longdouble(step)), near[0] * (1 - np.longdouble(step))]
    values = np.concatenate(near)
    values = np.concatenate([values, -values, np.array([0, 1e300, 1e-300], "g")])
    for sample in (values[:100], rng.standard_normal(200).astype("g"), values[:1], values):
        cells = cells_for(sample)
        assert cells.texts(values) == cells._written_by_numpy(values)


def test_long_numbers_beyond_any_float64_are_found_by_their_digits():
    """They are looked at; most others are not."""
    ten = np.longdouble(10)
    exponents = np.concatenate([np.arange(-4900, 4900, 7), [-308, -300, -299, 299, 300, 308]])
    values = np.longdouble("1.2345678") * ten ** exponents.astype("g")
    for sample in (values, values[:3], np.ones(3, "g")):
        cells = cells_for(sample)
        texts = cells.texts(values)
        for needle in ("1.2345", "45678", "e+12", "e-03", "e+0", "99", "2?34"):
            shown = [re.search(re.escape(needle).replace(r"\?", "."), text) for text in texts]
            may = cells.may_show(needle, values)
            assert not any(found and not one for found, one in zip(shown, may, strict=True))
