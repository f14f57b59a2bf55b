"""Targets: what reads dumps, from the wire format to the screens."""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
from dump_reading import read_all, service_over
from fuzz_kit import (
    BrokenPromiseError,
    Target,
    confined,
    drawn,
    memory_folder,
    shown_reply,
)
from fuzz_samples import (
    SOURCE,
    files_of,
    small_dump,
    write_small_directory,
    write_small_folder,
)
from hypothesis import strategies as st

from tfdbg_cli.common.errors import DumpError
from tfdbg_cli.dumps.elements import node_name_of, parse_watch_key, tensor_name_of
from tfdbg_cli.dumps.proto import wire
from tfdbg_cli.dumps.proto.attr_values import encode_text, render
from tfdbg_cli.dumps.proto.graph_def import graph_chunks, graph_of, node_def_of, parse_graph_def
from tfdbg_cli.dumps.proto.tensor_proto import TensorProto, tensor_chunks
from tfdbg_cli.dumps.run_folder.profile_file import read_profile
from tfdbg_cli.dumps.run_folder.safetensors_part import read_header
from tfdbg_cli.dumps.run_folder.strings_part import decode_strings, encode_strings
from tfdbg_cli.dumps.tfdbg_dir import names
from tfdbg_cli.dumps.tfdbg_dir.events import (
    Event,
    extract_core_metadata_from_event_proto,
    graph_event,
    message_event,
    tensor_event,
)
from tfdbg_cli.engines.tensorflow.sessions.grpc.events import Assembler, RunFiles

__all__ = ["TARGETS"]

# Values.

_DTYPES = ["f4", "f8", "f2", "i1", "i4", "i8", "u1", "u2", "u8", "?", "c8", "c16"]
_SHAPES = st.lists(st.integers(0, 3), max_size=3).map(tuple)
_NUMBERS = st.builds(
    lambda kind, shape: np.arange(int(np.prod(shape))).astype(kind).reshape(shape),
    st.sampled_from(_DTYPES),
    _SHAPES,
)
_TEXTS = st.lists(st.binary(max_size=6), max_size=3).map(lambda items: np.array([*items], object))
_VALUES = st.one_of(_NUMBERS, _TEXTS)
_TENSORS = _VALUES.map(lambda value: b"".join(map(bytes, tensor_chunks(value))))
_LISTS = st.builds(
    lambda kind, field, numbers, shape: (
        wire.put_varint(1, kind)
        + wire.put_bytes(2, wire.put_bytes(2, wire.put_varint(1, shape)))
        + wire.put_packed_varints(field, numbers)
    ),
    st.sampled_from([1, 3, 9, 10, 14, 19, 29, 7, 20]),
    st.sampled_from([5, 7, 10, 11, 13, 16, 17, 18, 14, 15]),
    st.lists(st.integers(0, 1 << 20), max_size=4),
    st.integers(0, 5),
)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


# The wire format.


def _read_tensor_proto(data: bytes) -> None:
    tensor = TensorProto(memoryview(bytearray(data)))
    assert tensor.nbytes >= 0
    value = tensor.value()
    if isinstance(value, np.ndarray):
        assert value.shape == tensor.shape
    else:
        str(value)


def _read_event(data: bytes) -> None:
    event = Event(memoryview(bytearray(data)))
    assert isinstance(event.device_name, str)
    if event.tensor is not None:
        event.tensor.value()
    elif event.graph_def is not None:
        parse_graph_def(event.graph_def)
    else:
        extract_core_metadata_from_event_proto(event)


_CORE = (
    '{"global_step":-1,"session_run_index":2,"executor_step_index":0,'
    '"input_names":["x:0"],"output_names":["y:0"],"target_nodes":[]}'
)


def _event_seeds() -> list[bytes]:
    tensors = drawn(_TENSORS, 40)
    graph = graph_chunks(map(node_def_of, small_dump().graph().nodes.values()))
    made = [tensor_event("a/b", 0, "DebugIdentity", "/device:CPU:0", 7, [each]) for each in tensors]
    made += [graph_event(graph, 7), message_event(_CORE, 7), message_event("['a:0']")]
    return [b"".join(map(bytes, chunks)) for chunks in made]


def _read_graph_def(data: bytes) -> None:
    parsed = parse_graph_def(data)
    parsed.SerializeToString()
    graph = graph_of(parsed)
    for node in graph.nodes.values():
        for key, text in node.attributes.items():
            assert isinstance(key, str) and isinstance(text, str)
        graph.recipients(node.name)
        for name in node.inputs:
            assert node_name_of(name) + name
    for name in list(graph.nodes)[:3]:
        graph.path(name, name, True)


def _graph_seeds() -> list[bytes]:
    graph = small_dump().graph()
    attributes = drawn(
        st.lists(st.tuples(st.text(max_size=5), st.text(max_size=12)), max_size=3).map(
            lambda pairs: b"".join(
                wire.put_bytes(5, wire.put_text(1, key) + wire.put_bytes(2, encode_text(text)))
                for key, text in pairs
            )
        ),
        20,
    )
    whole = b"".join(map(bytes, graph_chunks(map(node_def_of, graph.nodes.values()))))
    node = wire.put_text(1, "a") + wire.put_text(2, "Neg") + wire.put_text(3, "^b")
    return [whole, *(whole + wire.put_bytes(1, node + each) for each in attributes)]


def _read_attribute(data: bytes) -> None:
    text = render(data)
    again = encode_text(text)
    if not text.startswith("<damaged"):
        render(again)
    encode_text(_text(data))


def _attribute_seeds() -> list[bytes]:
    texts = ["1", "-2.5", "true", "(1, ?)", "<unknown>", "float32", "[1, 2]", '["a", "b"]', "nan"]
    encoded = [encode_text(text) for text in texts]
    tensors = [wire.put_bytes(8, each) for each in drawn(_TENSORS, 10)]
    function = wire.put_bytes(10, wire.put_text(1, "f"))
    return [*encoded, *tensors, function, *(text.encode() for text in texts)]


# Names.


def _read_names(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    parsed = names.parse_dump_name(text)
    if parsed is not None:
        assert parsed.output_slot >= 0 and parsed.timestamp >= 0
    device = names.device_path_to_device_name(text)
    if names.is_canonical_device(text):
        assert names.device_path_to_device_name(names.device_name_to_device_path(text)) == text
    names.is_canonical_device(device)
    plain = text.encode("utf-8", "replace").decode()
    encoded = names.encode_node_name(plain)
    if "%" not in plain:
        assert names.decode_node_name(encoded) == names.collapse_slashes(plain), plain
    place = os.path.normpath(os.path.join("/root", names.file_node_name(text) + "_0_D_1"))
    if not place.startswith("/root/"):
        raise BrokenPromiseError(f"{text!r} is filed at {place}")
    folder = names.device_name_to_device_path(text)
    if os.path.normpath(os.path.join("/root", folder)).rpartition("/")[0] != "/root":
        raise BrokenPromiseError(f"device {text!r} is filed at {folder}")
    names.parse_feed_node_name(text)
    names.parse_copy_node_name(text)
    node_name_of(text)
    tensor_name_of(text)
    parse_watch_key(text)


# Files.

_folder_of: dict[str, str] = {}


def _scratch(kind: str, write: Callable[[str], None] | None = None) -> str:
    """A folder that lasts, filled when it is first asked for."""
    if kind not in _folder_of:
        root = memory_folder()
        _folder_of[kind] = os.path.join(root, "run")
        if write is not None:
            write(_folder_of[kind])
        else:
            os.mkdir(_folder_of[kind])
    return _folder_of[kind]


def _put(path: str, data: bytes) -> None:
    with open(path, "wb", buffering=0) as file:
        file.write(data)


def _read_safetensors(data: bytes) -> None:
    folder = _scratch("safetensors")
    path = os.path.join(folder, "tensors-00000.safetensors")
    _put(path, data)
    with confined(folder):
        for name, entry in read_header(path, folder).items():
            assert isinstance(name, str) and isinstance(entry.stored, str)


def _safetensors_seeds() -> list[bytes]:
    folder = Path(_scratch("run folder", write_small_folder))
    return [path.read_bytes() for path in sorted(folder.glob("tensors*.safetensors"))]


def _read_strings(data: bytes) -> None:
    array = decode_strings(data[1:], bool(data[:1] > b"a"))
    assert all(isinstance(each, str | bytes) for each in array.reshape(-1).tolist())


def _string_seeds() -> list[bytes]:
    lines = [encode_strings("k", array)[0] for array in [np.array([b"a", b"\xff"], object)]]
    lines += [encode_strings("k", np.array(b"a", object))[0], *_drawn_strings()]
    return [head + line for line in lines for head in (b"a", b"b")]


def _drawn_strings() -> Iterator[bytes]:
    for text in drawn(st.text(max_size=8).map(lambda text: text.encode("utf-8", "replace")), 10):
        yield encode_strings("k", np.array([text], object))[0]


def _read_profile(data: bytes) -> None:
    folder = _scratch("profile")
    path = os.path.join(folder, "profile.jsonl")
    _put(path, data)
    warnings: list[str] = []
    with confined(folder):
        for device in read_profile(path, warnings.append, folder).devices:
            for entry in device.entries:
                assert isinstance(entry.node, str) and entry.start == entry.start


def _profile_seeds() -> list[bytes]:
    folder = Path(_scratch("run folder", write_small_folder))
    return [(folder / "profile.jsonl").read_bytes()]


# Whole folders: the first byte says which file has the rest for its content.


def _with_file(kind: str, write: Callable[[str], None], data: bytes, look: object) -> None:
    folder = _scratch(kind, write)
    files = files_of(folder)
    number = data[0] if data else 0
    path = os.path.join(folder, files[number % len(files)])
    with open(path, "rb") as file:
        before = file.read()
    if number < 128:
        _put(path, data[1:])
    else:  # a file of another name
        name, _, content = data[1:].partition(b"\n")
        base = os.path.basename(os.fsdecode(name).replace("\0", ""))[:200] or "x"
        added = os.path.join(os.path.dirname(path), "x" if base in (".", "..") else base)
        while len(os.fsencode(added)) - len(os.path.dirname(path)) > 250:
            added = added[:-10]
        if os.path.lexists(added):
            return
        try:
            _put(added, content or before)
        except (OSError, ValueError):
            return
        path, before = added, b""
    try:
        with confined(os.path.dirname(folder)):
            look(folder)
    finally:
        if number < 128:
            _put(path, before)
        else:
            os.remove(path)


def _folder_seeds(kind: str, write: Callable[[str], None]) -> list[bytes]:
    folder = _scratch(kind, write)
    found = []
    for number, name in enumerate(files_of(folder)):
        content = Path(folder, name).read_bytes()
        found.append(bytes([number]) + content)
        base = os.path.basename(name).encode()
        count = len(files_of(folder))
        found.append(bytes([-(-128 // count) * count + number]) + base + b"-1\n")
    return [each for each in found if len(each) < 4000]


_SCREENS = [
    "lt",
    "lt -o time,size,op_type,dtype,shape,health,device",
    "lt --json",
    "ri",
    "err",
    "pt h/Log",
    "pt words:0",
    "pf x:0",
    "ni -a -d -t h/Log",
    "li -r -t h/Log",
    "lo -r x",
    "graph h/Log -c -d 9",
    "ls",
    f"ps {SOURCE}",
]


def _screens(folder: str) -> None:
    dump = read_all(folder)
    service = service_over(dump)
    for command in _SCREENS:
        # Without sources of its own, ps reads the file of this machine that a person names.
        if dump.sources().live and command.startswith("ps"):
            continue
        shown_reply(service.run(command))


_run_folder = functools.partial(_with_file, "run folder", write_small_folder)
_directory = functools.partial(_with_file, "directory", write_small_directory)


def _read_screens(data: bytes) -> None:
    (_run_folder if data[:1] < b"@" else _directory)(data, _screens)


def _screen_seeds() -> list[bytes]:
    found = [*_folder_seeds("run folder", write_small_folder)]
    count = len(files_of(_scratch("directory", write_small_directory)))
    for each in _folder_seeds("directory", write_small_directory):
        if each[0] < count:
            found.append(bytes([64 - 64 % count + count + each[0]]) + each[1:])
    return found


# Events over gRPC: a sequence, each with its length in two bytes before it.


def _events(data: bytes) -> Iterator[bytes]:
    at = 0
    while at + 2 <= len(data):
        size = int.from_bytes(data[at : at + 2], "big") % 2000
        yield data[at + 2 : at + 2 + size]
        at += 2 + size


def _sequence(events: Iterable[bytes]) -> bytes:
    return b"".join(len(event).to_bytes(2, "big") + event for event in events)


def _read_grpc(data: bytes) -> None:
    assembler = Assembler(1 << 20)
    for event in _events(data):
        try:
            assembler.feed(event)
        except DumpError:
            pass
    assert assembler.unfinished is not None


def _read_grpc_run(data: bytes) -> None:
    root = os.path.dirname(_scratch("grpc"))
    folder = Path(root, "received")
    assembler = Assembler(1 << 20)
    try:
        with confined(root):
            files = RunFiles(folder, 1 << 20)
            for event in _events(data):
                try:
                    message = assembler.feed(event)
                except DumpError as error:
                    files.note(str(error))
                    continue
                if message is not None:
                    files.add(message)
            files.open()
            read_all(str(folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _grpc_seeds() -> list[bytes]:
    singles = [each for each in _event_seeds() if len(each) < 2000]
    graph = b"".join(
        map(bytes, graph_chunks(map(node_def_of, small_dump().graph().nodes.values())))
    )
    head = b"123,/job:localhost/replica:0/task:0/device:CPU:0,17|"
    graphs = [wire.put_bytes(4, head + b"0|1|" + graph)]
    graphs += [
        wire.put_bytes(4, head + b"%d|2|" % at + part)
        for at, part in enumerate((graph[:40], graph[40:]))
    ]
    content = wire.put_varint(1, 1) + wire.put_bytes(2, wire.put_bytes(2, wire.put_varint(1, 2)))
    pieces = []
    for at in range(2):
        meta = b'{"device":"/device:CPU:0","outputSlot":0,"numChunks":2,"chunkIndex":%d}' % at
        value = (
            wire.put_text(7, "a/b:0:DebugIdentity")
            + wire.put_bytes(8, content + wire.put_bytes(4, b"\0\0\x80\x3f"))
            + wire.put_bytes(9, wire.put_bytes(1, wire.put_bytes(2, meta)))
        )
        pieces.append(wire.put_double(1, 7.0) + wire.put_bytes(5, wire.put_bytes(1, value)))
    core = b"".join(map(bytes, message_event(_CORE, 7)))
    return [
        *(_sequence([each]) for each in singles),
        _sequence([core, *graphs, *pieces]),
        _sequence([core, graphs[0], *singles[:3], *pieces]),
    ]


_WIRE_TOKENS = (
    *(bytes([number << 3 | kind]) for number in (1, 2, 3, 4, 5, 7, 8, 9) for kind in (0, 1, 2, 5)),
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\xff\xff\xff\xff\x0f",
    b"\x12\x0a\x12\x08\x08\x80\x80\x80\x80\x80\x80\x01",
)
_NAME_TOKENS = (b":0", b"_0", b"_DebugIdentity_", b"-3", b"%2E", b"..", b"/", b"_arg_", b"__copy_")
_JSON_TOKENS = (
    *(
        b'"%s"' % name
        for name in (b"n", b"node", b"slot", b"shape", b"bytes", b"file", b"start", b"end", b"of")
    ),
    b'"stored":"F32"',
    b'"data_offsets":[0,4]',
    b'"strides":[8]',
    b'"offset":0',
    b'"of":0',
    b"null",
    b"[]",
    b"{}",
    b"true",
    b'"../x"',
    b'{"base64":"%%"}',
    b"-0.5",
)

TARGETS = [
    Target("event", _read_event, _event_seeds, _WIRE_TOKENS),
    Target(
        "tensor", _read_tensor_proto, lambda: drawn(st.one_of(_TENSORS, _LISTS), 100), _WIRE_TOKENS
    ),
    Target("graph", _read_graph_def, _graph_seeds, (*_WIRE_TOKENS, *_NAME_TOKENS)),
    Target("attribute", _read_attribute, _attribute_seeds, _WIRE_TOKENS),
    Target(
        "names",
        _read_names,
        lambda: [
            b"a_0_DebugIdentity_1795188947307651",
            b"a_b_1_DebugNumericSummary_17-3",
            b"_tfdbg_device_,job_localhost,replica_0,task_0,device_CPU_0",
            b"/job:localhost/replica:0/task:0/device:XLA_CPU:0",
            b"a//b/../%2E",
            b"_arg_x_0_1",
            b"__copy_a/b_0",
            b"a/b:1:DebugIdentity",
        ],
        _NAME_TOKENS,
        longest=6000,
    ),
    Target("safetensors", _read_safetensors, _safetensors_seeds, _JSON_TOKENS),
    Target("strings", _read_strings, _string_seeds, _JSON_TOKENS),
    Target("profile", _read_profile, _profile_seeds, _JSON_TOKENS, few=1000),
    Target(
        "run_folder",
        lambda data: _run_folder(data, read_all),
        lambda: _folder_seeds("run folder", write_small_folder),
        (*_JSON_TOKENS, *_WIRE_TOKENS),
        few=250,
    ),
    Target(
        "tfdbg_folder",
        lambda data: _directory(data, read_all),
        lambda: _folder_seeds("directory", write_small_directory),
        (*_WIRE_TOKENS, *_NAME_TOKENS),
        few=250,
    ),
    Target("screens", _read_screens, _screen_seeds, (*_JSON_TOKENS, *_WIRE_TOKENS), few=40),
    Target("grpc", _read_grpc, _grpc_seeds, (*_WIRE_TOKENS, b"|", b"0|1|", b'"numChunks":')),
    Target("grpc_run", _read_grpc_run, _grpc_seeds, (*_WIRE_TOKENS, b"|", b"0|1|"), few=500),
]
