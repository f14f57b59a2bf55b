"""Both formats byte for byte: what lies on disks is read, and written, by later versions too."""

import json
import re
from functools import partial

import numpy as np
import pytest
from dump_samples import START

from tfdbg_cli.common.errors import DumpError
from tfdbg_cli.dumps.dtypes import DTYPES, dtype_by_name, dtype_by_number, encode
from tfdbg_cli.dumps.dump import Datum, InconvertibleTensorProto, RunInfo
from tfdbg_cli.dumps.feeds import LazyFeeds
from tfdbg_cli.dumps.joined import JoinedDump
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.proto.tensor_proto import tensor_chunks
from tfdbg_cli.dumps.run_folder.dump import RunFolderDump, write_run_folder
from tfdbg_cli.dumps.run_folder.safetensors_part import (
    PartEntry,
    dtype_of_stored,
    entries_in,
    storage_of,
    stored_dtype,
)
from tfdbg_cli.dumps.tfdbg_dir.debug_dump_dir import DebugDumpDir
from tfdbg_cli.dumps.tfdbg_dir.events import tensor_event
from tfdbg_cli.dumps.tfdbg_dir.writer import write_dump_directory

# fmt: off
INDEX = (
    '{"format":"tfdbg_cli run folder","version":1,"crc32":"ffe5a34b"}\n'
    '{"n":0,"node":"x","slot":0,"op_type":"","debug_op":"DebugIdentity","device":"/cpu:0"'
    ',"time":1795188947307651,"key":"x:0","dtype":"float32","shape":[2],"bytes":8,"nan":0'
    ',"neg_inf":0,"pos_inf":0,"stored":"F32","value_crc32":775923062,"file":"tensors-0000'
    '0.safetensors","start":320,"end":328,"crc32":"8fbe35bc"}\n'
    '{"n":1,"node":"a/y","slot":1,"op_type":"","debug_op":"DebugIdentity","device":"","ti'
    'me":1795188947307656,"key":"a/y:1","dtype":"float64","shape":[1,2],"bytes":16,"nan":'
    '1,"neg_inf":0,"pos_inf":1,"stored":"F64","value_crc32":339478060,"file":"tensors-000'
    '00.safetensors","start":328,"end":344,"crc32":"c4ff4907"}\n'
    '{"n":2,"node":"a/y","slot":1,"op_type":"","debug_op":"DebugIdentity","device":"","ti'
    'me":1795188947307657,"key":"a/y:1#1","dtype":"float64","shape":[1,2],"bytes":16,"nan'
    '":0,"neg_inf":0,"pos_inf":0,"stored":"F64","value_crc32":802568677,"file":"tensors-0'
    '0000.safetensors","start":344,"end":360,"crc32":"d425e4c2"}\n'
    '{"n":3,"node":"w","slot":0,"op_type":"","debug_op":"DebugIdentity","device":"","time'
    '":1795188947307658,"key":"w:0","dtype":"string","shape":[2],"bytes":2,"stored":"stri'
    'ngs","value_crc32":1007328464,"file":"strings-00000.jsonl","start":0,"end":66,"crc32'
    '":"b405b983"}\n'
    '{"feed":"x:0","key":"feed/x:0","dtype":"float32","shape":[2],"bytes":8,"nan":0,"neg_'
    'inf":0,"pos_inf":0,"stored":"F32","value_crc32":775923062,"file":"tensors-00000.safe'
    'tensors","start":360,"end":368,"crc32":"21f4287c"}\n'
)
# fmt: on
HEADER = json.dumps(
    {
        "__metadata__": {"written_by": "tfdbg_cli"},
        "x:0": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
        "a/y:1": {"dtype": "F64", "shape": [1, 2], "data_offsets": [8, 24]},
        "a/y:1#1": {"dtype": "F64", "shape": [1, 2], "data_offsets": [24, 40]},
        "feed/x:0": {"dtype": "F32", "shape": [2], "data_offsets": [40, 48]},
    },
    separators=(",", ":"),
).encode()
NUMBERS = bytes.fromhex(
    "0000803f00000040 000000000000f87f000000000000f07f 00000000000008400000000000001240 "
    "0000803f00000040"
)
FILES = {
    "tensors.jsonl": INDEX.encode(),
    "tensors-00000.safetensors": (312).to_bytes(8, "little") + HEADER.ljust(312) + NUMBERS,
    "strings-00000.jsonl": b'{"key": "w:0", "shape": [2], "values": ["a", {"base64": "/w=="}]}\n',
}
RUN = {
    "format": "tfdbg_cli run folder",
    "version": 1,
    "run": {"engine": "numpy", "call_count": 2, "fetches": ["y:0"], "feeds": ["x:0"]},
    "tensors": 4,
    "files": {name: len(data) for name, data in FILES.items() if name != "tensors.jsonl"},
}


def make_dump():
    x = np.float32([1, 2])
    info = RunInfo(2, fetches=["y:0"], feeds={"x:0": x}, engine="numpy")
    dump = MemoryDump(run_info=info)
    dump.add("x", 0, x, timestamp=START, device_name="/cpu:0")
    dump.add("a/y", 1, np.array([[np.nan, np.inf]]), timestamp=START + 5)
    dump.add("a/y", 1, np.array([[3, 4.5]]), timestamp=START + 6)
    dump.add("w", 0, np.array([b"a", b"\xff"], object), timestamp=START + 7)
    return dump


def told(dump):
    return [
        (
            *(datum.watch_key, datum.execution, datum.timestamp - START),
            *(datum.dtype, datum.shape, datum.nbytes, repr(datum.get_tensor().tolist())),
        )
        for datum in dump.data()
    ]


TOLD = [
    ("x:0:DebugIdentity", 0, 0, "float32", (2,), 8, "[1.0, 2.0]"),
    ("a/y:1:DebugIdentity", 0, 5, "float64", (1, 2), 16, "[[nan, inf]]"),
    ("a/y:1:DebugIdentity", 1, 6, "float64", (1, 2), 16, "[[3.0, 4.5]]"),
    ("w:0:DebugIdentity", 0, 7, "string", (2,), 2, r"[b'a', b'\xff']"),
]


def test_a_run_folder_is_written_as_ever(tmp_path):
    write_run_folder(make_dump(), tmp_path / "run")
    for name, data in FILES.items():
        assert (tmp_path / "run" / name).read_bytes() == data
    written = json.loads((tmp_path / "run" / "run.json").read_text())
    assert {name: written[name] for name in ("format", "version", "tensors", "bytes")} == {
        "format": "tfdbg_cli run folder",
        "version": 1,
        "tensors": 4,
        "bytes": 113,
    }
    assert RUN["run"].items() <= written["run"].items()
    assert RUN["files"].items() <= written["files"].items()


def test_a_run_folder_is_read_as_ever(tmp_path):
    for name, data in FILES.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "run.json").write_text(json.dumps(RUN))
    found = RunFolderDump(tmp_path)
    assert told(found) == TOLD and found.warnings == []
    assert [datum.device_name for datum in found.data()] == ["/cpu:0", "", "", ""]
    assert [datum.health for datum in found.data()[:3]] == [(0, 0, 0), (1, 0, 1), (0, 0, 0)]
    info = found.run_info()
    assert (info.engine, info.call_count, info.fetches) == ("numpy", 2, ["y:0"])
    assert info.feeds["x:0"].tolist() == [1.0, 2.0]
    # What isn't as it was written is not shown as if it were.
    (tmp_path / "tensors.jsonl").write_bytes(FILES["tensors.jsonl"].replace(b'"x"', b'"z"', 1))
    assert "line 2" in RunFolderDump(tmp_path).warnings[0]
    part = bytearray(FILES["tensors-00000.safetensors"])
    part[330] ^= 1
    (tmp_path / "tensors-00000.safetensors").write_bytes(part)
    damaged = RunFolderDump(tmp_path)
    first, second = damaged.by_tensor("a/y:1")
    with pytest.raises(DumpError, match="bytes 328 to 344 aren't those that were written"):
        first.get_tensor()
    assert damaged.warnings[-1].endswith("bytes 328 to 344 aren't those that were written.")
    assert second.get_tensor().tolist() == [[3.0, 4.5]]
    found = RunFolderDump(tmp_path).by_tensor("a/y:1")
    (tmp_path / "tensors-00000.safetensors").write_bytes(part[:350])
    with pytest.raises(DumpError, match="it ends at byte 350, but the tensor at 360"):
        found[1].get_tensor()


def test_a_value_whose_line_says_more_than_most_is_checked_as_well(tmp_path):
    for name, data in FILES.items():
        (tmp_path / name).write_bytes(data)
    lines = re.sub(',"crc32":"[0-9a-f]{8}"', "", INDEX).replace('"key"', '"note":"odd","key"')
    (tmp_path / "tensors.jsonl").write_text(lines)
    (tmp_path / "run.json").write_text(json.dumps(RUN))
    found = RunFolderDump(tmp_path)
    assert told(found) == TOLD
    assert [datum.health for datum in found.data()] == [(0, 0, 0), (1, 0, 1), (0, 0, 0), None]
    for name, at in (("tensors-00000.safetensors", 330), ("strings-00000.jsonl", 38)):
        part = bytearray(FILES[name])
        part[at] ^= 1
        (tmp_path / name).write_bytes(part)
    for name in ("a/y:1", "w:0"):
        datum = RunFolderDump(tmp_path).by_tensor(name)[0]
        assert datum.note == "odd"
        with pytest.raises(DumpError, match="aren't those that were written"):
            datum.get_tensor()


@pytest.mark.parametrize("name", ["node", "slot"])
def test_a_line_that_does_not_say_which_tensor_it_is_is_left_out(name, tmp_path):
    for file, data in FILES.items():
        (tmp_path / file).write_bytes(data)
    lines = re.sub(',"crc32":"[0-9a-f]{8}"', "", INDEX)
    (tmp_path / "tensors.jsonl").write_text(lines.replace(f'"{name}"', '"other"', 1))
    (tmp_path / "run.json").write_text(json.dumps(RUN))
    found = RunFolderDump(tmp_path)
    assert told(found) == TOLD[1:]
    path = tmp_path / "tensors.jsonl"
    assert found.warnings == [
        f"{path} is damaged: line 2 is left out (it doesn't say which tensor it is)."
    ]


def test_an_empty_value_whose_line_says_more_is_there(tmp_path):
    dump = MemoryDump()
    for at, value in enumerate((np.zeros((0, 3)), np.zeros(0, object))):
        load = partial(np.asarray, value)
        dump.add_datum(Datum(f"n{at}", 0, load, timestamp=START + at, note="odd"))
    write_run_folder(dump, tmp_path / "run")
    found = RunFolderDump(tmp_path / "run")
    assert [datum.get_tensor().shape for datum in found.data()] == [(0, 3), (0,)]
    assert found.warnings == []


def test_a_type_of_a_later_version_is_said_to_be_one(tmp_path):
    for name, data in FILES.items():
        (tmp_path / name).write_bytes(data)
    lines = re.sub(',"crc32":"[0-9a-f]{8}"', "", INDEX).replace("float64", "float3000")
    (tmp_path / "tensors.jsonl").write_text(lines)
    (tmp_path / "run.json").write_text(json.dumps(RUN))
    datum = RunFolderDump(tmp_path).by_tensor("a/y:1")[0]
    assert (datum.dtype, datum.shape) == ("float3000", (1, 2))
    assert str(datum.get_tensor()) == "Tensor of the unknown type float3000"


# As TensorFlow's debugger writes it: an Event with a summary of one value.
FILE = (
    bytes.fromhex(
        "09 0c3209fedb821943 2a7b 0a79 0a0178 3a11 783a303a44656275674964656e74697479"
        "4212 0801 1204 12020802 2208 0000803f00000040"
        "4a4d 0a4b 0a08 6465627567676572 123f"
    )
    + b'{"device":"/cpu:0","outputSlot":0,"numChunks":1,"chunkIndex":0}'
)
NAME = "_tfdbg_device_,cpu_0/x_0_DebugIdentity_1795188947307651"


def test_a_dump_directory_is_read_and_written_as_ever(tmp_path):
    value = np.float32([1, 2])
    event = tensor_event("x", 0, "DebugIdentity", "/cpu:0", START, tensor_chunks(value))
    assert b"".join(event) == FILE
    (tmp_path / "read" / NAME).parent.mkdir(parents=True)
    (tmp_path / "read" / NAME).write_bytes(FILE)
    assert told(DebugDumpDir(tmp_path / "read")) == TOLD[:1]
    write_dump_directory(make_dump(), tmp_path / "written")
    assert (tmp_path / "written" / NAME).read_bytes() == FILE
    names = {path.name for path in (tmp_path / "written").iterdir()}
    assert names == {
        "_tfdbg_core_metadata_sessionrun00000000000002_1795188947307651",
        "_tfdbg_device_,cpu_0",
        "_tfdbg_device_,job_localhost,replica_0,task_0,device_CPU_0",
        "_tfdbg_feed_keys_info_",
        "_tfdbg_fetches_info_",
    }
    assert told(DebugDumpDir(tmp_path / "written")) == TOLD
    fetches = (tmp_path / "written" / "_tfdbg_fetches_info_").read_bytes()
    assert fetches == bytes.fromhex("3209 1207") + b"['y:0']"


def test_what_only_fills_a_part_is_no_tensor():
    entry = {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}
    header = json.dumps({"x:0": entry, ".padding/4": entry, "__metadata__": {}}).encode()
    found = entries_in(memoryview(len(header).to_bytes(8, "little") + header + bytes(8)))
    begin = 8 + len(header)
    assert found == {"x:0": PartEntry("U8", (4,), begin, begin + 4)}


# TensorFlow's types.proto, from 1 on, and how safetensors has them.
TYPES = [
    "float32:F32",
    "float64:F64",
    "int32:I32",
    "uint8:U8",
    "int16:I16",
    "int8:I8",
    "string",
    "complex64:F32",
    "int64:I64",
    "bool:BOOL",
    "qint8:I8",
    "quint8:U8",
    "qint32:I32",
    "bfloat16:BF16",
    "qint16:I16",
    "quint16:U16",
    "uint16:U16",
    "complex128:F64",
    "float16:F16",
    "resource",
    "variant",
    "uint32:U32",
    "uint64:U64",
    "float8_e5m2:F8_E5M2",
    "float8_e4m3fn:F8_E4M3",
    "float8_e4m3fnuz:F8_E4M3FNUZ",
    "float8_e4m3b11fnuz:U8",
    "float8_e5m2fnuz:F8_E5M2FNUZ",
    "int4:I8",
    "uint4:U8",
    "int2:I8",
    "uint2:U8",
    "float4_e2m1fn:U8",
]
STORED = {"F32": "f4", "F64": "f8", "F16": "f2", "BOOL": "b1"}
STORED |= {
    f"{kind}{bits}": f"{kind.lower()}{bits // 8}" for kind in "IU" for bits in (8, 16, 32, 64)
}
OTHERS = ["float8_e4m3:U8", "float8_e3m4:U8", "float8_e8m0fnu:F8_E8M0"]


@pytest.mark.parametrize(("number", "text"), [*enumerate(TYPES, 1), *((None, o) for o in OTHERS)])
def test_each_type_has_its_number_its_bytes_and_its_name_in_files(number, text):
    name, _, stored = text.partition(":")
    dtype = dtype_by_name(name)
    assert (dtype.name, dtype.number) == (name, number)
    if number is not None:
        assert dtype_by_number(number) is dtype_by_number(number + 100) is dtype
    if not stored:
        assert dtype.raw == ""
        return
    raw = np.dtype(dtype.raw)
    if dtype.is_native:
        assert raw == np.dtype(name.removeprefix("q")).newbyteorder("<")
    else:
        assert raw.itemsize == (2 if name == "bfloat16" else 1)
        assert raw.kind == ("i" if name.startswith("int") else "u")
    assert storage_of(np.zeros(3, raw), name)[:2] == (dtype, stored)
    back = dtype_of_stored(stored)
    assert stored_dtype(stored).str[1:] == STORED.get(stored, "u2" if stored == "BF16" else "u1")
    assert back.name == name if stored.startswith(("BF", "F8")) else back.raw[1:] == STORED[stored]
    assert len(DTYPES) == len(TYPES) + len(OTHERS)


def test_what_fits_is_stored_as_the_type_that_is_wanted():
    for values, name in (
        (np.int8([-1, 2]), "int32"),
        (np.float16([0.5, -2]), "float64"),
        (np.int64([-8, 7]), "int4"),
        (np.uint32([0, 15]), "uint4"),
    ):
        raw = encode(values, dtype_by_name(name))
        assert raw.dtype == dtype_by_name(name).raw and raw.tolist() == values.tolist()


def test_what_is_known_of_inputs_without_their_values(tmp_path):
    lost = InconvertibleTensorProto("it wasn't kept")
    loaders = {"x": lambda: lost, "y": lambda: np.ones(2)}
    feeds = LazyFeeds(loaders, {"x": "float32[3]"}, {"x": "input/x:0"})
    info = RunInfo(feeds=feeds, unit="program", whose="train_step")
    write_run_folder(MemoryDump(run_info=info), tmp_path / "run")
    found = RunFolderDump(tmp_path / "run")
    read = found.run_info()
    assert (read.feeds.shapes, read.feeds.tensors) == (feeds.shapes, feeds.tensors)
    assert read.measured_as == info.measured_as == "run of train_step"
    joined = JoinedDump({2: found}).run_info().feeds
    assert joined.shapes == {"rank_2/x": "float32[3]"}
    assert joined.tensors == {"rank_2/x": "rank_2/input/x:0"}
