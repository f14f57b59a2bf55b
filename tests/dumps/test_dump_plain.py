"""Files of plain numbers are read in a few looks, and never otherwise than field by field."""

import os

import ml_dtypes
import numpy as np
import pytest
from dump_samples import START, same

from tfdbg_cli.common.errors import DumpError
from tfdbg_cli.dumps.dtypes import decode
from tfdbg_cli.dumps.dump import InconvertibleTensorProto
from tfdbg_cli.dumps.proto.tensor_proto import tensor_chunks
from tfdbg_cli.dumps.tfdbg_dir.events import Event, tensor_event
from tfdbg_cli.dumps.tfdbg_dir.plain_event import plain_tensor
from tfdbg_cli.filters.builtin import has_inf_or_nan

VALUES = [
    np.arange(6, dtype=np.float32).reshape(2, 3),
    np.float64(1.5),
    np.arange(300, dtype=np.int8),
    np.zeros((1, 40, 130), np.uint16),
    np.array([True, False]),
    np.array([1 + 2j]),
    np.ones(5, ml_dtypes.bfloat16),
    np.ones((3, 2), ml_dtypes.float8_e4m3fn),
]


def file_of(value, node="scope/x", device="/job:a/replica:0/task:0/device:CPU:0"):
    return b"".join(tensor_event(node, 0, "DebugIdentity", device, START, tensor_chunks(value)))


def by_fields(data):
    """The tensor as the scanner of messages finds it; ``None``: the file is damaged."""
    try:
        return Event(memoryview(data)).need_tensor()
    except DumpError:
        return None


def check(data):
    """Whether a file is plain; if so, it is found to be the same."""
    plain = plain_tensor(data)
    if plain is None:
        return False
    dtype, shape, start, end = plain
    tensor = by_fields(data)
    assert tensor is not None
    assert (tensor.dtype, tensor.shape, tensor.nbytes) == (dtype, shape, end - start)
    array = decode(np.frombuffer(data[start:end], dtype.raw).reshape(shape), dtype)
    assert same(array, tensor.value())
    return True


@pytest.mark.parametrize("value", VALUES, ids=lambda value: f"{value.dtype}{value.shape}")
@pytest.mark.parametrize("long", [1, 127, 128, 300])
def test_plain_files_are_found_to_be_what_they_are(value, long):
    assert check(file_of(value, "n" * long))
    assert check(file_of(value, "n", f"/job:{'j' * long}/replica:0"))


@pytest.mark.parametrize(
    "value",
    [
        np.zeros((0, 3)),
        np.array([b"text"], object),
        InconvertibleTensorProto("uninitialized", False),
        np.zeros(0),
    ],
    ids=repr,
)
def test_other_files_are_left_to_the_scanner(value):
    assert not check(file_of(value))


def test_no_damage_makes_another_value():
    for value in VALUES[:3]:
        whole = file_of(value)
        for at in range(len(whole)):
            assert not check(whole[:at])
            for byte in {0, 1, whole[at] ^ 1, whole[at] ^ 0x80, 0x7F, 0xFF}:
                check(whole[:at] + bytes([byte]) + whole[at + 1 :])
                check(whole[:at] + bytes([byte]) + whole[at:])
            check(whole[:at] + whole[at + 1 :])
        assert not check(whole + b"\0") and not check(b"")


def test_bad_values_are_found_as_one_by_one(maker):
    bad = {
        "float32": np.nan,
        "float16": -np.inf,
        "bfloat16": np.inf,
        "complex64": complex(0, np.nan),
    }
    rng = np.random.default_rng(0)
    for number in range(300):
        name = [*bad, "int32", "float8_e4m3fn"][number % 6]
        value = np.ones(rng.integers(0, 30), getattr(ml_dtypes, name, None) or name)
        if name in bad and number % 7 == 0 and value.size:
            value[rng.integers(value.size)] = bad[name]
        maker.tensor(f"s{number % 5}/n{number}", value, time=START + number)
    large = np.zeros(100_000)
    large[77_777] = np.inf
    maker.tensor("large", large, time=START + 50)
    maker.tensor("text", np.array([b"nan"], object), time=START + 60)
    path = maker.tensor("cut", 1.0, time=START + 70)
    path.write_bytes(path.read_bytes()[:-3])
    gone = maker.tensor("gone", np.nan, time=START + 80)
    dump = maker.open()
    gone.unlink()
    opened = len(os.listdir("/dev/fd"))
    found = dump.find(has_inf_or_nan)
    assert len(os.listdir("/dev/fd")) == opened

    def one_by_one(datum, value):
        return has_inf_or_nan(datum, value)

    right = maker.open().find(one_by_one)
    assert len(found) > 20
    assert [datum.file_path for datum in found] == [datum.file_path for datum in right]
    assert dump.find(has_inf_or_nan, first_n=3) == found[:3]
    text = "\n".join(dump.warnings)
    assert "cut_0_DebugIdentity" in text and "gone_0_DebugIdentity" in text


def test_a_small_value_may_be_changed(maker):
    maker.tensor("x", np.arange(3.0))
    (datum,) = maker.open().data()
    datum.get_tensor()[:] = 7
    assert datum.get_tensor().tolist() == [0, 1, 2]
