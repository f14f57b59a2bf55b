"""Where a view shows its elements, and all about one of them."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tfdbg_cli.common.documents import ChainDocument, TextDocument
from tfdbg_cli.tensors.element import element_document, element_text
from tfdbg_cli.tensors.formatting import TensorView


@settings(max_examples=100, deadline=None)
@given(
    arrays.arrays(
        st.sampled_from([np.float32, np.int16, np.bool_, np.complex64]),
        arrays.array_shapes(min_dims=0, max_dims=3, max_side=9),
    ),
    st.integers(20, 100),
    st.sampled_from([0, 10]),
)
def test_cells_are_where_the_text_has_them(values, width, threshold):
    view = TensorView(values, width, threshold=threshold)
    seen = []
    for number in range(view.line_count):
        text = view.lines(number, number + 1)[0].text
        for cell in view.cells(number):
            shown = text[cell.start : cell.stop]
            assert shown == shown.strip()
            value = values[cell.indices]
            if values.dtype in (np.int16, np.bool_):
                assert shown == str(value)
            elif values.dtype == np.float32 and np.isfinite(value):
                assert float(shown) == pytest.approx(float(value), rel=1e-5, abs=1e-6)
            assert not values.shape or view.locate(cell.indices) == number
            seen.append(cell.indices)
    assert len(seen) == len(set(seen))
    if not threshold:
        assert len(seen) == values.size


def test_cells_of_a_chain_and_of_nothing():
    view = TensorView(np.arange(6).reshape(2, 3))
    chain = ChainDocument([TextDocument(["head", "more"]), TextDocument([]), view])
    assert chain.cells(0) == []
    assert chain.cells(99) == []
    assert [cell.indices for cell in chain.cells(3)] == [(1, 0), (1, 1), (1, 2)]
    assert chain.element((1, 2)).lines(0, 1)[0].text == "[1,2] = 5"
    assert chain.element((1,)) is None
    assert TensorView(np.zeros((0, 3))).cells(0) == []


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.float32(0.1), "0.1"),
        (np.float64(0.1) + 0.2, "0.30000000000000004"),
        (np.float32("nan"), "nan"),
        (ml_dtypes.bfloat16(1.5), "1.5"),
        (np.int8(-7), "-7"),
        (np.float16(65504), "65504.0"),
        (np.float16(0.1), "0.0999755859375"),
        (ml_dtypes.bfloat16(3.140625), "3.140625"),
        (np.bytes_("größer".encode()), "b'größer'"),
        (np.array("日本\n".encode(), object), "b'日本\\n'"),
        (np.array("\x85\u202e".encode(), object), "b'\\xc2\\x85\\xe2\\x80\\xae'"),
        (np.bool_(True), "True"),
        (np.complex64(1 - 2j), "(1-2j)"),
        (np.array(b"a\xff", object), "b'a\\xff'"),
    ],
)
def test_the_value_in_full(value, text):
    assert element_text(value) == text
    assert element_document(value, (2,)).lines(0, 1)[0].text == f"[2] = {text}"


def test_bits_and_exact_values():
    text = element_document(np.float32(0.1), ()).text
    assert "0x3dcccccd" in text
    assert "0.100000001490116119384765625" in text
    assert "0x3fc0" in element_document(ml_dtypes.bfloat16(1.5), (0,)).text
    assert "0xff" in element_document(np.uint8(255), (0,)).text
    assert "exactly" not in element_document(np.float32("inf"), (0,)).text


def test_a_long_string_is_all_there():
    value = np.array("é".encode() * 500, object)
    document = element_document(value, (3,))
    assert "1000 bytes" in document.text
    assert document.text.count("\\xc3\\xa9") + document.text.count("\\xc3\\x\na9") >= 480
    assert "é" * 500 in document.text


@pytest.mark.parametrize(
    ("value", "lines"),
    [
        (3 - 4j, ["(3-4j)", "", "  dtype:   complex128", "  abs:     5.0", "  real:    3.0"]),
        (b"\xff", ["b'\\xff'", "", "  dtype:   string", "  length:  1 bytes", "", "b'\\xff'"]),
        ("ab", ["'ab'", "", "  dtype:   string", "  length:  2 characters", "", "'ab'"]),
        (True, ["True", "", "  dtype:   bool"]),
    ],
)
def test_all_about_an_element(value, lines):
    last = {3 - 4j: ["  imag:    -4.0"], b"\xff": ["", "(not UTF-8)"]}.get(value, [])
    value = np.asarray(value, object if isinstance(value, bytes | str) else None)
    expected = [*lines, *last]
    assert element_document(value, (2,)).text.split("\n") == [f"[2] = {expected[0]}", *expected[1:]]


def test_a_long_text_is_cut_in_its_head_and_whole_below():
    text = element_document(np.array("x" * 300, object), ()).text.split("\n")
    width = len(text[0]) - len("[] = ")
    assert text[0] == "[] = '" + "x" * (width - 2) + "…"
    assert "".join(text[5:]) == repr("x" * 300)
    assert {len(each) for each in text[5:-1]} == {width}
