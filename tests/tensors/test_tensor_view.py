import re

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.tensors.formatting import TensorView
from tfdbg_cli.tensors.ranges import Ranges

# NumPy 2.2 began to write the shape of a shortened array; the view does not.
_SHAPE = re.compile(r",\s+shape=\([^()]*\)")
# What is scientific and where lines break is as in NumPy 2.
as_numpy_2 = pytest.mark.skipif(np.__version__ < "2", reason="NumPy 1 lays texts out otherwise")
_DTYPES = ("?", "i1", "i2", "i4", "i8", "u1", "u8", "f2", "f4", "f8", "c8", "c16")


def numpy_text(values, width, threshold=1000):
    with np.printoptions(threshold=threshold or 10**9, linewidth=75):
        return np.array_repr(values, max_line_width=width)


@st.composite
def arrays(draw):
    dtype = np.dtype(draw(st.sampled_from(_DTYPES)))
    # No more elements than are looked at for the format.
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=5))
    if dtype.kind == "f":
        bits = dtype.itemsize * 8
        plain = st.sampled_from([0.0, -0.0, 1.0, 2.5, -3.25, 100.0, np.inf, -np.inf, np.nan, 1e-3])
        elements = draw(st.sampled_from([plain, st.floats(width=bits)]))
        return draw(hnp.arrays(dtype, shape, elements=elements))
    return draw(hnp.arrays(dtype, shape))


@as_numpy_2
@settings(max_examples=200, deadline=None)
@given(values=arrays(), width=st.integers(10, 130))
def test_text_is_numpys(values, width):
    assert TensorView(values, width, threshold=0).text == numpy_text(values, width, 0)
    turned = values.T[::-1] if values.ndim else values
    assert TensorView(turned, width, threshold=0).text == numpy_text(turned, width, 0)


@as_numpy_2
@settings(max_examples=80, deadline=None)
@given(
    shape=hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=11),
    edge=st.integers(1, 4),
    width=st.integers(16, 100),
    scale=st.sampled_from([1, 0.37, 1e-3, 1e5]),
    dtype=st.sampled_from(["f4", "f8", "i4", "c8"]),
)
def test_shortened_text_is_numpys(shape, edge, width, scale, dtype):
    values = (np.arange(np.prod(shape)).reshape(shape) * scale).astype(dtype)
    # With a dtype there may be a line break before NumPy's shape; int64 and float64 have no dtype.
    with np.printoptions(threshold=5, edgeitems=edge):
        expected = np.array_repr(values, max_line_width=width)
    view = TensorView(values, width, threshold=5, edge_items=edge)

    def body(text):
        return re.sub(r",\s+(shape|dtype)=.*", "", text, flags=re.S).removesuffix(")")

    assert body(view.text) == body(_SHAPE.sub("", expected))
    check_geometry(view, values, edge if values.size > 5 else 99)


def check_geometry(view, values, edge):
    """Any window equals the whole; every element is where locate says, or it is hidden."""
    whole = view.lines(0, view.line_count)
    assert len(whole) == view.line_count
    middle = view.line_count // 2
    assert view.lines(middle, middle + 3) == whole[middle : middle + 3]
    for index in np.ndindex(values.shape):
        if any(edge <= i < n - edge for i, n in zip(index, values.shape, strict=True)):
            with pytest.raises(UserError, match="pt -a"):
                view.locate(index)
        else:
            first, last = whole[view.locate(index)].indices
            assert first <= index <= last


@pytest.mark.parametrize("size", [4900, 5900])
def test_some_thousand_elements_decide_the_format_together(size):
    values = np.round(np.random.default_rng(1).standard_normal(size), 3)
    values[size // 2 + 3] = 123.45678
    assert TensorView(values, 100, threshold=0).text == numpy_text(values, 100, 0)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.float32(3.0), "array(3., dtype=float32)"),
        (np.array(True), "array(True)"),
        (np.array(False), "array(False)"),
        (np.zeros((0, 3), np.float32), "array([], shape=(0, 3), dtype=float32)"),
        (np.zeros(0), "array([], dtype=float64)"),
        (np.array([2**64 - 1, 0], np.uint64), None),
        (np.array([np.nan, np.nan]), "array([nan, nan])"),
        (np.array([-np.inf, 1.5]), "array([-inf,  1.5])"),
        (np.array([1.5, -2], ml_dtypes.bfloat16), "array([ 1.5, -2. ], dtype=bfloat16)"),
        (
            np.array([0.5, np.nan], ml_dtypes.float8_e5m2),
            "array([0.5, nan], dtype=float8_e5m2)",
        ),
        (np.array([-8, 7], ml_dtypes.int4), "array([-8,  7], dtype=int4)"),
        (np.array([b"a", "b\n", None, 3], object), r"array([b'a', 'b\n', None, 3], dtype=object)"),
        (np.array(b"alone", object), "array(b'alone', dtype=object)"),
        (np.array(["x", "yz"]), "array(['x', 'yz'], dtype='<U2')"),
        (np.array(["2020-01-31", "NaT"], "M8[D]"), None),
        (np.array([1, -20], "m8[s]"), None),
        (np.array([(1, 2.5)], "i4,f4"), "array([(1, 2.5)], dtype=[('f0', '<i4'), ('f1', '<f4')])"),
        (np.array([1.0], ">f4"), "array([1.], dtype='>f4')"),
        (np.longdouble([1.25]), "array([1.25], dtype=float128)"),
        (np.array([1e-300, 1e300]), "array([1.e-300, 1.e+300])"),
        (np.array([complex(1, np.nan), complex(-np.inf, 2)]), None),
    ],
    ids=str,
)
def test_special_arrays(values, expected):
    if expected and "float128" in expected:
        expected = expected.replace("float128", np.dtype(np.longdouble).name)
    assert TensorView(values).text == (expected or numpy_text(values, 80))


def test_long_strings_are_cut_unless_alone():
    long = b"x" * 5000
    cells = TensorView(np.array([long, b"y"], object), 400).lines(0, 1)[0].text
    assert "…" in cells
    assert len(cells) < 300
    assert len(TensorView(np.array([long], object)).text) > 5000


def test_utf_8_is_read_as_text_and_nothing_else_is():
    values = np.array(["größer".encode(), b"\xff\xc3", "x\x85".encode(), b"it's"], object)
    view = TensorView(values, 200)
    assert view.text == (
        r"""array([b'größer', b'\xff\xc3', b'x\xc2\x85', b"it's"], dtype=object)"""
    )
    # A long one may be cut in the middle of a character.
    for start in range(3):
        long = b"x" * start + ("日" * 500).encode()
        assert "日日日" in TensorView(np.array([long, b""], object), 400).text


def test_objects_stay_on_one_line():
    class Broken:
        def __str__(self):
            raise ValueError("no")

    view = TensorView(np.array([Broken(), np.eye(3), "\x1b[0m\u2028"], object), 200)
    assert view.line_count == len(view.text.splitlines()) == 1
    assert all(character.isprintable() for character in view.text)
    assert "ValueError" in view.text


def test_roles_and_few_spans():
    values = np.array([[1.0, np.nan, -np.inf], [0.25, 0.5, 7.0]])
    view = TensorView(values, ranges=Ranges("[0.2,0.6]"))
    assert [[(s.text, s.role) for s in made.spans if s.role] for made in view] == [
        [("nan", "nan"), ("-inf", "inf")],
        [("0.25", "highlight"), ("0.5", "highlight")],
    ]
    assert len(TensorView(np.arange(9.0)).lines(0, 1)[0].spans) == 1
    assert view.text == numpy_text(values, 80)


def test_ranges_need_numbers():
    with pytest.raises(UserError, match="numbers"):
        TensorView(np.array(["a"]), ranges=Ranges("0,1"))


def test_locate_mistakes():
    view = TensorView(np.zeros((30, 50)), threshold=100)
    with pytest.raises(UserError, match=r"Dimensions mismatch: requested: 3; actual: 2.*30, 50"):
        view.locate((1, 2, 3))
    with pytest.raises(UserError, match="out of range"):
        view.locate((0, 50))
    with pytest.raises(UserError, match="negative"):
        view.locate((-1, 0))
    with pytest.raises(UserError, match=r"^\[0,25\] is hidden by an ellipsis.*pt -a"):
        view.locate((0, 25))
    with pytest.raises(UserError, match="out of range"):
        TensorView(np.zeros((0, 3))).locate((0, 0))
    with pytest.raises(UserError, match="scalar"):
        TensorView(np.float32(1)).locate(())


def test_status_names_the_visible_elements():
    view = TensorView(np.zeros((2, 10, 4)))
    assert view.status(0, view.line_count) == "[0,0,0]-[1,9,3]"
    assert view.status(1, 4) == "[0,1,0]-[0,3,3]"
    assert view.status(10, 11) == ""  # the blank line between the blocks
    assert view.status(10, 12) == "[1,0,0]-[1,0,3]"
    shortened = TensorView(np.zeros((90, 90)))
    assert shortened.status(0, 4) == "[0,0]-[2,89]"
    assert TensorView(np.float32(1)).status(0, 1) == ""


def test_resized_keeps_the_array_and_its_place():
    values = np.arange(3000.0).reshape(3, 1000)
    view = TensorView(values, 60, threshold=0)
    view.title = "a title"
    view.initial_line = view.locate((2, 0))
    wider = view.resized(120)
    assert wider.title == "a title"
    assert wider.initial_line == wider.locate((2, 0))
    assert wider.text == numpy_text(values, 120, 0)
    assert view.text == numpy_text(values, 60, 0)
    assert view.resized(60) is view


_PATTERNS = ["nan", "inf", "-inf", r"\+?inf", "nan|inf", "inf|nan", "(nan|-inf)", "-inf|inf"]


@pytest.mark.parametrize("make", ["plain", "turned", "complex", "bfloat16", "half", "ints"])
def test_searching_values_agrees_with_searching_text(make):
    rng = np.random.default_rng(3)
    values = rng.standard_normal((7, 5, 61))
    for word in (np.nan, np.inf, -np.inf):
        values[tuple(rng.integers(0, n, 6) for n in values.shape)] = word
    values = {
        "plain": lambda: values,
        "turned": lambda: values.T[::2],
        "complex": lambda: (
            (values[..., None] * [1, -1]).reshape(7, -1)[:, :600].copy().view(np.complex128)
        ),
        "bfloat16": lambda: values.astype(ml_dtypes.bfloat16),
        "half": lambda: values.astype(np.float16),
        "ints": lambda: np.arange(300).reshape(3, 100),
    }[make]()
    view = TensorView(values, 70, threshold=0)
    texts = [made.text for made in view]
    count = len(texts)
    for regex in map(re.compile, _PATTERNS):
        hits = [i for i, text in enumerate(texts) if regex.search(text)]
        for start in range(-1, count + 1, 5):
            for stop in (None, start + 9, count):
                end = count if stop is None else stop
                expected = next((i for i in hits if max(start, 0) <= i < end), None)
                assert view.find(regex, start, 1, stop) == expected
            for stop in (None, start - 9, -1):
                end = -1 if stop is None else stop
                expected = next((i for i in reversed(hits) if end < i <= start), None)
                assert view.find(regex, start, -1, stop) == expected


@pytest.mark.parametrize(
    "values",
    [
        np.random.default_rng(5).standard_normal((7, 5, 61)),
        np.random.default_rng(5).standard_normal((40, 30)).astype(np.float32).T[::2],
        np.exp(30 * np.random.default_rng(6).standard_normal(500)),
        np.array([[np.nan, 1.5, -np.inf]] * 40, np.float16),
        np.arange(300).reshape(3, 100),
        np.arange(60).reshape(3, 20) % 3 == 0,
        np.random.default_rng(5).standard_normal((6, 40)).astype(np.complex64),
        np.array([["a 1", "12,"], ["array", "5.5"]]),
        np.array(["2020-01-01", "NaT"], "datetime64[D]"),
        np.zeros((0, 3)),
        np.float32(7.25),
        np.ones((2, 1, 3, 1)),
    ],
    ids=lambda values: f"{values.dtype}{values.shape}",
)
@pytest.mark.parametrize("width", [40, 79])
def test_matches_are_those_of_the_text(values, width):
    view = TensorView(np.asarray(values), width, threshold=0)
    texts = [made.text for made in view]
    patterns = ["absent", "array", "dtype", "12", r"1\.5", "1.5", "e+", r"e\+", "-0", r"\[\[", "]]"]
    patterns += [
        "",
        "^$",
        "a",
        "True",
        "j,",
        "float",
        r"\d{4}",
        "0,",
        ", *-",
        "(?i)ARRAY",
        "x|5",
        ".",
    ]
    for regex in map(re.compile, patterns):
        hits = [number for number, text in enumerate(texts) if regex.search(text)]
        assert view.matches(regex, 0, len(texts)) == hits, regex
        assert view.matches(regex, -3, 10**6) == hits
        some = range(len(texts) // 3, 2 * len(texts) // 3)
        assert view.matches(regex, some.start, some.stop) == [at for at in hits if at in some]
        assert view.find(regex, 0) == (hits[0] if hits else None)


def test_other_patterns_search_the_text():
    view = TensorView(np.arange(3000).reshape(300, 10), threshold=0)
    assert view.find(re.compile("2345"), 0) == 234
    assert view.find(re.compile("2345"), 0, stop=200) is None
    shortened = TensorView(np.array([1.0] * 50 + [np.nan] + [1.0] * 50), threshold=10)
    assert shortened.find(re.compile("nan"), 0) is None
    strings = TensorView(np.array(["banana", "b"]))
    assert strings.find(re.compile("nan"), 0) == 0


def most_memory():
    """The most that this process has ever had in memory, mapped files included: KiB on Linux."""
    resource = pytest.importorskip("resource")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def test_a_huge_file_opens_at_once(tmp_path):
    shape = (1000, 1000, 1000)
    path = tmp_path / "huge.bin"
    with path.open("wb") as file:
        file.truncate(4 * 10**9)  # a hole: no disk is used
    values = np.memmap(path, np.float32, "r+", shape=shape)
    values[500, 500, 500] = 123456.789
    values[700, 3, 4] = 1e-12
    values[999, 0, 7] = np.nan
    before = most_memory()
    view = TensorView(values, 200, threshold=0)
    count = view.line_count
    last = view.lines(count - 1, count)[0]
    assert last.indices[1] == (999, 999, 999)
    assert "123456.79" in view.lines(*[view.locate((500, 500, 500)) + i for i in (0, 1)])[0].text
    assert "1.e-12" in view.lines(*[view.locate((700, 3, 4)) + i for i in (0, 1)])[0].text
    near = view.locate((999, 0, 0)) - 100
    assert view.find(re.compile("nan"), near) == view.locate((999, 0, 7))
    assert most_memory() - before < 10**6  # all of it is four times as much


def test_unforeseen_elements_are_written_in_full():
    values = np.full(200_000, 0.5)
    values[99_001:99_004] = [np.pi * 1e5, -np.inf, 1e30]
    view = TensorView(values, threshold=0)
    at = view.locate((99_001,))
    text = "".join(made.text for made in view.lines(at, at + 2))
    assert "314159.26535898" in text and "-inf" in text and "1.e+30" in text
    scientific = 10.0 ** np.linspace(-9, 9, 200_000).round()
    scientific[99_001] = 1.2345678e-200
    view = TensorView(scientific, threshold=0)
    assert "1.2345678e-200" in view.lines(*[view.locate((99_001,)) + i for i in (0, 1)])[0].text
    ints = np.ones(200_000, int)
    ints[99_001] = 2**62
    view = TensorView(ints, threshold=0)
    assert str(2**62) in view.lines(*[view.locate((99_001,)) + i for i in (0, 1)])[0].text


def test_print_options_are_neither_used_nor_changed():
    with np.printoptions(precision=2, linewidth=20, threshold=1):
        before = np.get_printoptions()
        assert TensorView(np.array([0.123456, 1.0, 2.0])).text == (
            "array([0.123456, 1.      , 2.      ])"
        )
        assert np.get_printoptions() == before
