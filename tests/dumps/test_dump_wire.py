import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfdbg_cli.common.errors import DumpError
from tfdbg_cli.dumps.proto import wire


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_integers_round_trip(value):
    ((number, kind, found, _),) = wire.fields(wire.put_varint(3, value))
    assert (number, kind, wire.signed(found)) == (3, wire.VARINT, value)


@given(st.lists(st.integers(0, (1 << 64) - 1)))
def test_packed_integers_round_trip(values):
    data = wire.put_packed_varints(5, values)
    ((_, kind, start, end),) = wire.fields(data)
    assert list(wire.varints(data, kind, start, end)) == values


@given(st.binary(max_size=300), st.integers(1, 100_000))
def test_bytes_round_trip(value, number):
    data = wire.put_bytes(number, value)
    ((found, _, start, end),) = wire.fields(data)
    assert (found, data[start:end]) == (number, value)


def test_a_message_is_scanned_in_order():
    data = (
        wire.put_double(1, 2.5)
        + wire.put_float(2, 0.5)
        + wire.put_text(3, "é")
        + wire.put_varint(400, 7)
    )
    found = list(wire.fields(memoryview(data)))
    assert [field[0] for field in found] == [1, 2, 3, 400]
    assert wire.text(data, *found[2][2:]) == "é"


@given(st.binary(max_size=60))
def test_any_bytes_are_a_message_or_a_dump_error(data):
    try:
        for _, kind, start, end in wire.fields(data):
            assert kind == wire.VARINT or 0 <= start <= end <= len(data)
    except DumpError:
        pass


@pytest.mark.parametrize(
    "data", [b"\x0a\x05ab", b"\x09\x00", b"\x08", b"\x08" + b"\xff" * 11, b"\x00\x00", b"\x0b"]
)
def test_damaged_bytes_say_so(data):
    with pytest.raises(DumpError):
        list(wire.fields(data))


def test_a_number_has_ten_bytes_at_most():
    longest = b"\x08" + b"\xff" * 9 + b"\x01"
    assert [value for _, _, value, _ in wire.fields(memoryview(longest))] == [2**64 - 1]
    for count in (10, 11, 40):
        with pytest.raises(DumpError, match="longer than 10 bytes"):
            list(wire.fields(memoryview(b"\x08" + b"\xff" * count + b"\x01")))
