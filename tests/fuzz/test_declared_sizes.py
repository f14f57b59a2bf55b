"""Sizes that files and messages only claim: nothing is allocated for what isn't there."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fuzz_kit import Checker
from fuzz_samples import files_of, write_small_folder
from fuzz_targets import TARGETS

from tfdbg_cli.dumps.proto import wire

_CLAIMED = 1 << 40
# An archive of NumPy's default packing may hold a thousand times its bytes.
_PACKED = bytes(48 << 20)


def array_header(shape: tuple[int, ...], kind: str = "<f4", length: int | None = None) -> bytes:
    """The beginning of an .npy file; ``length``: what it says of its own."""
    text = repr({"descr": kind, "fortran_order": False, "shape": shape}).encode() + b"\n"
    return b"\x93NUMPY\x02\x00" + struct.pack("<I", len(text) if length is None else length) + text


def archive(*pieces: bytes, packing: int = zipfile.ZIP_DEFLATED) -> bytes:
    """An .npz file."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", packing) as made, made.open("x.npy", "w") as member:
        for piece in pieces:
            member.write(piece)
    return file.getvalue()


def patched(data: bytes, mark: bytes, offset: int, number: int) -> bytes:
    """With other four bytes behind the last mark."""
    at = data.rindex(mark) + offset
    return data[:at] + struct.pack("<I", number) + data[at + 4 :]


def large_dictionary(data: bytes) -> bytes:
    """LZMA that asks for as many bytes to unpack with as it can."""
    at = data.index(b"x.npy") + 5 + 4 + 1  # behind the name, the version and the first property
    return data[:at] + struct.pack("<I", 0xFFFFFFF0) + data[at + 4 :]


def of_folder(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], bytes]:
    """A run folder in which one file is another."""

    def make(folder: Path) -> bytes:
        write_small_folder(folder / "run")
        names = files_of(str(folder / "run"))
        return bytes([names.index(name)]) + change((folder / "run" / name).read_bytes())

    return make


def with_record(**fields: Any) -> Callable[[bytes], bytes]:
    """The index of a run folder in which the first tensor says something else."""

    def change(data: bytes) -> bytes:
        head, first, *rest = data.decode().splitlines()
        record = {name: each for name, each in json.loads(first).items() if "crc32" not in name}
        return "\n".join([head, json.dumps({**record, **fields}), *rest]).encode()

    return change


def tensor(kind: int, size: int, payload: bytes) -> bytes:
    """A TensorProto."""
    shape = wire.put_bytes(2, wire.put_bytes(2, wire.put_varint(1, size)))
    return wire.put_varint(1, kind) + shape + payload


def many_chunks(folder: Path) -> bytes:
    """An Event that says that it is one of so many."""
    meta = b'{"device":"/device:CPU:0","outputSlot":0,"numChunks":%d,"chunkIndex":0}' % _CLAIMED
    value = wire.put_text(7, "a/b:0:DebugIdentity") + wire.put_bytes(8, tensor(1, _CLAIMED, b""))
    value += wire.put_bytes(9, wire.put_bytes(1, wire.put_bytes(2, meta)))
    event = wire.put_double(1, 7.0) + wire.put_bytes(5, wire.put_bytes(1, value))
    return len(event).to_bytes(2, "big") + event


def model(folder: Path) -> bytes:
    """A model with a weight that says to be larger than it is."""
    from onnx import TensorProto, helper

    weight = TensorProto(name="w", data_type=1, dims=[_CLAIMED, 3], raw_data=bytes(12))
    graph = helper.make_graph([helper.make_node("Neg", ["w"], ["y"])], "g", [], [], [weight])
    return helper.make_model(graph).SerializeToString()


BAD = b"\x2d\0\0\x80\x3f"  # one number, as a list has it

CLAIMS: dict[str, tuple[str, bytes | Callable[[Path], bytes]]] = {
    "npy, the shape": ("arrays", array_header((_CLAIMED,))),
    "npy, the shape beyond all numbers": ("arrays", array_header((1 << 80, 1 << 80))),
    "npy, a dimension below nothing": ("arrays", array_header((-1, _CLAIMED))),
    "npy, the size of an element": ("arrays", array_header((1,), "<U400000000")),
    "npy, elements of no size": ("arrays", array_header((_CLAIMED,), "<U0")),
    "npy, elements with a shape": ("arrays", array_header((1,), "400000000f4")),
    "npy, the header": ("arrays", array_header((1,), length=0xFFFFFFF0)),
    "npz, the shape": ("arrays", archive(array_header((_CLAIMED,)), bytes(64))),
    "npz, the shape of what is packed": ("arrays", archive(array_header((_CLAIMED,)), _PACKED)),
    "npz, the header of what is packed": (
        "arrays",
        archive(array_header((1,), length=len(_PACKED)), _PACKED),
    ),
    "npz, the size in its directory": (
        "arrays",
        patched(archive(array_header((1 << 29,)), bytes(64)), b"PK\x01\x02", 24, 0xFFFFFFF0),
    ),
    "npz, both sizes in its directory": (
        "arrays",
        patched(
            patched(archive(array_header((1 << 29,)), bytes(64)), b"PK\x01\x02", 24, 0xFFFFFFF0),
            b"PK\x01\x02",
            20,
            0xFFFFFFF0,
        ),
    ),
    "npz, the directory": (
        "arrays",
        patched(archive(array_header((1,)), bytes(4)), b"PK\x05\x06", 12, 0xFFFFFFF0),
    ),
    "npz, another packing": (
        "arrays",
        large_dictionary(archive(array_header((1,)), bytes(4), packing=zipfile.ZIP_LZMA)),
    ),
    "safetensors, the header": ("safetensors", struct.pack("<Q", _CLAIMED) + b"{}"),
    "safetensors, a tensor": (
        "safetensors",
        struct.pack("<Q", 62)
        + b'{"a":{"dtype":"F32","shape":[1099511627776],"data_offsets":[0,4]}}'[:62],
    ),
    "strings, the shape": ("strings", b'a{"key":"k","values":["a"],"shape":[1099511627776]}'),
    "run folder, a shape": (
        "run_folder",
        of_folder("tensors.jsonl", with_record(shape=[_CLAIMED], bytes=4 * _CLAIMED)),
    ),
    "run folder, an end": (
        "run_folder",
        of_folder("tensors.jsonl", with_record(shape=[_CLAIMED], end=4 * _CLAIMED)),
    ),
    "run folder, a view": (
        "run_folder",
        of_folder(
            "tensors.jsonl",
            with_record(shape=[_CLAIMED], view=True, of=1, offset=0, strides=[0], slot=9),
        ),
    ),
    "run folder, part of a file": (
        "run_folder",
        of_folder("tensors-00000.safetensors", lambda data: struct.pack("<Q", _CLAIMED) + data[8:]),
    ),
    "run folder, columns": (
        "run_folder",
        of_folder("columns.safetensors", lambda data: data.replace(b"[11,16]", b"[99999999999]")),
    ),
    "event, a tensor": (
        "event",
        wire.put_bytes(5, wire.put_bytes(1, wire.put_bytes(8, tensor(1, _CLAIMED, BAD)))),
    ),
    "tensor, one number for all": ("tensor", tensor(1, 1 << 23, BAD)),
    "tensor, one text for all": ("tensor", tensor(7, _CLAIMED, wire.put_bytes(8, b"a"))),
    "tensor, its content": ("tensor", tensor(1, _CLAIMED, wire.put_bytes(4, bytes(4)))),
    "attribute, a tensor": ("attribute", wire.put_bytes(8, tensor(1, _CLAIMED, BAD))),
    "grpc, chunks": ("grpc", many_chunks),
    "channel, a message": ("channel", b"\xff\xff\xff\xf0{}"),
    "connection, a message": ("connection", b"\xff\xff\xff\xf0{}"),
    "listing, a file": ("listing", b"b/tree\nrun/run.json\t99999999999999999"),
    "model, a weight": ("model", model),
}


@pytest.mark.parametrize("claim", CLAIMS)
def test_nothing_is_allocated_for_what_is_only_claimed(
    claim: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, data = CLAIMS[claim]
    if name not in TARGETS:
        pytest.skip("what reads it isn't installed")
    content = data if isinstance(data, bytes) else data(tmp_path)
    monkeypatch.setattr("fuzz_kit.FIXED_BYTES", 2 << 20)
    with Checker(TARGETS[name]) as checker:
        for check in (checker.check, checker._check_memory):  # the first one also imports
            finding = check(content)
            assert finding is None, f"{finding.where}\n{finding.text}"
