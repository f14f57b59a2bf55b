import math
import pickle
import sys
import types

import numpy as np
import pytest
from dump_samples import same
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tfdbg_cli.common.errors import DumpError
from tfdbg_cli.dumps.dtypes import DTYPES, decode
from tfdbg_cli.dumps.dump import InconvertibleTensorProto
from tfdbg_cli.dumps.proto import wire
from tfdbg_cli.dumps.proto.tensor_proto import TensorProto, put_shape, tensor_chunks

NUMERIC = [dtype for dtype in DTYPES if dtype.raw and dtype.number is not None]
SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


def parse(*chunks):
    return TensorProto(memoryview(bytearray(b"".join(bytes(chunk) for chunk in chunks))))


def proto(dtype, shape, *fields):
    return parse(wire.put_varint(1, dtype), put_shape(2, shape), *fields)


@given(st.data(), st.sampled_from(NUMERIC), SHAPES)
def test_every_numeric_type_round_trips(data, dtype, shape):
    size = math.prod(shape) * dtype.itemsize
    content = data.draw(st.binary(min_size=size, max_size=size))
    raw = np.frombuffer(content, dtype.raw).reshape(shape)
    if dtype.name == "bool":
        raw = np.asarray(raw.view(np.uint8) & np.uint8(1)).view(bool)
    value = decode(raw, dtype)
    found = parse(*tensor_chunks(value, dtype.name))
    assert found.dtype is dtype
    assert found.shape == shape
    assert found.nbytes == raw.nbytes
    assert same(found.value(), value)


@given(SHAPES, st.data())
def test_strings_round_trip(shape, data):
    size = math.prod(shape)
    array = np.empty(size, object)
    array[:] = data.draw(st.lists(st.binary(max_size=9), min_size=size, max_size=size))
    array = array.reshape(shape)
    found = parse(*tensor_chunks(array))
    assert found.dtype.name == "string"
    assert found.nbytes == sum(map(len, array.reshape(-1)))
    assert same(found.value(), array)


def test_python_text_is_stored_as_utf8():
    assert parse(*tensor_chunks(np.array(["é", "b"]))).value().tolist() == ["é".encode(), b"b"]


@pytest.mark.parametrize(
    ("dtype", "fields", "expected"),
    [
        (1, wire.put_bytes(5, np.array([1.5, 2.5], "<f4").tobytes()), [1.5, 2.5]),
        (1, wire.put_float(5, 1.5) + wire.put_float(5, 2.5), [1.5, 2.5]),
        (2, wire.put_bytes(6, np.array([1.5, -2.5]).tobytes()), [1.5, -2.5]),
        (3, wire.put_packed_varints(7, [1, -2]), [1, -2]),
        (3, wire.put_varint(7, -1) + wire.put_varint(7, 5), [-1, 5]),
        (6, wire.put_packed_varints(7, [-128, 127]), [-128, 127]),
        (17, wire.put_packed_varints(7, [65535, 0]), [65535, 0]),
        (11, wire.put_packed_varints(7, [-3, 3]), [-3, 3]),
        (8, wire.put_bytes(9, np.array([1, 2, 3, 4], "<f4").tobytes()), [1 + 2j, 3 + 4j]),
        (18, wire.put_bytes(12, np.array([1.0, 2, 3, 4]).tobytes()), [1 + 2j, 3 + 4j]),
        (9, wire.put_packed_varints(10, [-(1 << 62), 3]), [-(1 << 62), 3]),
        (10, wire.put_packed_varints(11, [1, 0]), [True, False]),
        (19, wire.put_packed_varints(13, [0x3C00, 0xC000]), [1.0, -2.0]),
        (14, wire.put_packed_varints(13, [0x3F80, 0xC000]), [1.0, -2.0]),
        (22, wire.put_packed_varints(16, [1 << 31, 1]), [1 << 31, 1]),
        (23, wire.put_packed_varints(17, [1 << 63, 1]), [1 << 63, 1]),
        (24, wire.put_bytes(18, b"\x3c\xc0"), [1.0, -2.0]),
        (29, wire.put_packed_varints(7, [-8, 7]), [-8, 7]),
        (7, wire.put_bytes(8, b"x") + wire.put_bytes(8, b""), [b"x", b""]),
        # A field of a version to come.
        (3, wire.put_packed_varints(7, [1, 2]) + wire.put_bytes(99, b"ab"), [1, 2]),
    ],
)
def test_listed_values_are_read(dtype, fields, expected):
    assert proto(dtype, (2,), fields).value().tolist() == expected


def test_the_last_listed_value_stands_for_the_rest():
    assert proto(3, (2, 2), wire.put_packed_varints(7, [1, 9])).value().tolist() == [[1, 9], [9, 9]]
    assert proto(7, (3,), wire.put_bytes(8, b"s")).value().tolist() == [b"s"] * 3


def test_a_tensor_without_value_is_uninitialized():
    value = proto(1, (2,)).value()
    assert isinstance(value, InconvertibleTensorProto)
    assert not value.initialized
    assert str(value) == "Uninitialized tensor"
    assert proto(1, (2,)).nbytes == 0
    assert proto(1, (2,)).value(zero_default=True).tolist() == [0.0, 0.0]


def test_an_empty_tensor_needs_no_content():
    value = proto(1, (0, 3)).value()
    assert value.shape == (0, 3)
    assert value.dtype == np.float32


def test_an_uninitialized_tensor_round_trips():
    lost = InconvertibleTensorProto("no value", initialized=False)
    found = parse(*tensor_chunks(lost, "float32", (2, 3)))
    assert (found.dtype.name, found.shape, found.value().initialized) == ("float32", (2, 3), False)


def test_a_resource_is_described():
    texts = [wire.put_text(1, "/cpu:0"), wire.put_text(2, "box"), wire.put_text(3, "weights")]
    handle = b"".join([*texts, wire.put_varint(4, 5)])
    for fields in (
        wire.put_bytes(14, handle),
        wire.put_bytes(4, wire.varint(len(handle)) + handle),
    ):
        value = proto(20, (), fields).value()
        assert isinstance(value, InconvertibleTensorProto) and value.initialized
        assert "name 'weights', container 'box', device '/cpu:0'" in str(value)


def test_a_description_is_written_and_read_again():
    first = parse(*tensor_chunks(InconvertibleTensorProto("a queue"))).value()
    assert "a queue" in str(first)
    assert str(parse(*tensor_chunks(first)).value()) == str(first)


def test_a_variant_is_described():
    value = proto(21, (), wire.put_bytes(15, wire.put_text(1, "tensorflow::TensorList"))).value()
    assert "tensorflow::TensorList" in str(value)
    assert str(proto(21, (), wire.put_bytes(15, b"")).value()) == "variant of shape (): "


@pytest.mark.parametrize(
    "tensor",
    [
        (1, (3,), wire.put_bytes(4, b"12345678")),
        (1, (1,), wire.put_bytes(4, b"123")),
        (3, (1,), wire.put_packed_varints(7, [1, 2, 3])),
        (7, (1,), wire.put_bytes(8, b"a") + wire.put_bytes(8, b"b")),
        (1, (1 << 40,), wire.put_float(5, 1.0)),
        (7, (1 << 40,), wire.put_bytes(8, b"a")),
        (1, (0, 1 << 62, 1 << 62), b""),
        (18, (2,), wire.put_packed_varints(7, [1, 2])),
        (1, None, wire.put_float(5, 1.0)),
    ],
)
def test_contradictions_are_dump_errors(tensor):
    with pytest.raises(DumpError):
        proto(*tensor).value()


def test_a_negative_dimension_is_a_dump_error():
    with pytest.raises(DumpError, match="shape"):
        proto(1, (-2,))


def test_an_unknown_type_is_described():
    assert "77" in str(proto(77, (), wire.put_bytes(4, b"x")).value())


@given(st.binary(max_size=80))
def test_any_bytes_are_a_tensor_or_a_dump_error(data):
    try:
        tensor = TensorProto(memoryview(bytearray(data)))
        assert tensor.nbytes >= 0
        tensor.value()
    except DumpError:
        pass


def test_values_share_the_memory_of_a_large_message():
    array = np.arange(100_000, dtype=np.float32)
    chunks = tensor_chunks(array)
    assert any(isinstance(chunk, memoryview) and chunk.nbytes == array.nbytes for chunk in chunks)
    data = memoryview(bytearray(b"".join(chunks)))
    value = TensorProto(data).value()
    assert np.shares_memory(value, np.frombuffer(data, np.uint8))


def test_objects_are_refused():
    with pytest.raises(DumpError, match="Python objects"):
        tensor_chunks(np.array([object()]))


def test_halves_of_characters_are_written_out():
    texts = np.array(["a\ud800", "b\udcff", "c"], object)
    data = memoryview(bytearray(b"".join(tensor_chunks(texts))))
    assert TensorProto(data).value().tolist() == [b"a\\ud800", b"b\xff", b"c"]


def test_texts_that_are_not_written_are_the_last_one_or_empty():
    assert proto(7, [3], wire.put_bytes(8, b"a")).value().tolist() == [b"a"] * 3
    assert proto(7, [2]).value(zero_default=True).tolist() == [b"", b""]


def test_a_damaged_shape_eats_no_memory():
    few = proto(1, [1 << 13, 1 << 13], wire.put_float(5, 1.5))
    with pytest.raises(DumpError, match=r"shape \(8192, 8192\) has almost no values"):
        few.value()
    # As large as TensorFlow itself may write it.
    most = proto(1, [1 << 11, 1 << 11], wire.put_float(5, 1.5)).value()
    assert most.shape == (2048, 2048) and (most == 1.5).all()


def test_the_class_of_tensorflow_counts_as_ours_both_ways(monkeypatch):
    theirs = types.ModuleType("tensorflow.python.debug.lib.debug_data")

    class Theirs:
        pass

    Theirs.__name__, Theirs.__module__ = "InconvertibleTensorProto", theirs.__name__
    theirs.InconvertibleTensorProto = Theirs
    monkeypatch.delitem(sys.modules, theirs.__name__, raising=False)  # of another test's
    ours = InconvertibleTensorProto("a queue")
    assert not isinstance(ours, Theirs)
    assert ours.__class__ is InconvertibleTensorProto
    monkeypatch.setitem(sys.modules, theirs.__name__, theirs)
    assert isinstance(ours, Theirs)
    assert isinstance(ours, InconvertibleTensorProto)
    assert isinstance(Theirs(), InconvertibleTensorProto)
    assert not isinstance("a queue", InconvertibleTensorProto)
    other = type("InconvertibleTensorProto", (), {})
    assert not isinstance(other(), InconvertibleTensorProto)
    monkeypatch.undo()
    again = pickle.loads(pickle.dumps(ours))
    assert (str(again), again.initialized) == ("a queue", True)
    assert repr(InconvertibleTensorProto(initialized=False)) == "Uninitialized tensor"


def test_types_that_the_original_has_no_number_for_are_float32():
    import ml_dtypes

    values = np.array([0.5, 4.0, 1.0])
    for name in ("float8_e4m3", "float8_e3m4", "float8_e8m0fnu"):
        data = b"".join(tensor_chunks(values.astype(getattr(ml_dtypes, name))))
        tensor = TensorProto(memoryview(data))
        assert (tensor.dtype.name, tensor.value().tolist()) == ("float32", [0.5, 4.0, 1.0])


@pytest.mark.parametrize("name", ["variant", "resource", ""])
def test_what_no_array_can_hold_keeps_its_type(name):
    data = b"".join(tensor_chunks(InconvertibleTensorProto("a list"), name, (3,)))
    tensor = TensorProto(memoryview(data))
    assert (tensor.dtype.name, tensor.shape) == (name or "resource", (3,))
    assert "a list" in str(tensor.value())
