"""The Event messages of a ``grpc://`` debug stream, put together and filed as a dump directory.

What TensorFlow sends is what it would write to the files of a dump directory, except that large
tensors and graphs come in pieces of about 4 MB, see ``DebugGrpcIO`` in
https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/debug/debug_io_utils.cc
"""

from __future__ import annotations

import json
import re
import struct
import threading
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from tfdbg_cli.common.errors import DumpError, UserError
from tfdbg_cli.dumps.elements import parse_watch_key
from tfdbg_cli.dumps.files import Chunk, make_folder, write_file
from tfdbg_cli.dumps.proto import wire
from tfdbg_cli.dumps.tfdbg_dir.debug_dump_dir import DebugDumpDir
from tfdbg_cli.dumps.tfdbg_dir.events import (
    METADATA,
    NODE_NAME,
    TENSOR,
    CoreMetadata,
    extract_core_metadata_from_event_proto,
    graph_event,
    message_event,
    summary_fields,
    tensor_event,
)
from tfdbg_cli.dumps.tfdbg_dir.names import (
    CORE_METADATA_PREFIX,
    GRAPH_PREFIX,
    device_name_to_device_path,
    file_node_name,
)

__all__ = ["Assembler", "Message", "RunFiles", "StreamedGraph", "StreamedTensor", "read_message"]

# tensorflow/core/util/event.proto, framework/summary.proto, framework/tensor.proto
_WALL_TIME, _GRAPH_DEF, _SUMMARY, _LOG_MESSAGE = 1, 4, 5, 6
_TENSOR_CONTENT = 4

_DEVICE = re.compile(r"[\w./:@-]{1,160}", re.ASCII)
_DEBUG_OP = re.compile(r"[A-Za-z0-9]{1,60}")
_DIGITS = re.compile(r"-?[0-9]{1,20}")

# No tensor and no graph has more pieces: that would be 400 GB.
_MOST_PIECES = 100_000
# So many problems are named one by one.
_NAMED = 20


class StreamedTensor(NamedTuple):
    """One tensor of a run, whole.

    Attributes:
        node: the node's name in the graph that ran.
        slot: which output.
        debug_op: plain name of the debug op.
        device: where it was computed.
        timestamp: microseconds since the epoch.
        chunks: the serialized TensorProto, in pieces.
    """

    node: str
    slot: int
    debug_op: str
    device: str
    timestamp: int
    chunks: list[Chunk]


class StreamedGraph(NamedTuple):
    """What one device was to compute.

    Attributes:
        device: its name.
        number: a hash of the graph, as TensorFlow has it.
        timestamp: microseconds since the epoch.
        chunks: the serialized GraphDef, in pieces.
    """

    device: str
    number: str
    timestamp: int
    chunks: list[Chunk]


#: What one Event says, once all its pieces are there.
Message = StreamedTensor | StreamedGraph | CoreMetadata


class _Piece(NamedTuple):
    """One piece of something larger."""

    key: tuple[str, ...]
    number: int
    total: int
    chunks: list[Chunk]


def read_message(data: bytes) -> tuple[Message | None, _Piece | None]:
    """What an Event holds: a message that is whole, or a piece of one; neither if it is empty.

    Raises:
        DumpError: it isn't an Event of a debug stream.
    """
    view = memoryview(data)
    stamp = 0.0
    for number, kind, a, b in wire.fields(view):
        if number == _WALL_TIME and kind == wire.FIXED64:
            (stamp,) = struct.unpack_from("<d", view, a)
            if not 0 <= stamp < 1e17:
                raise DumpError(f"An event has the impossible time {stamp}.")
        elif number == _SUMMARY and kind == wire.LENGTH:
            return _read_tensor(view, a, b, int(stamp))
        elif number == _GRAPH_DEF and kind == wire.LENGTH:
            return _read_graph(view[a:b])
        elif number == _LOG_MESSAGE and kind == wire.LENGTH:
            return extract_core_metadata_from_event_proto(data), None
    return None, None


def _read_tensor(
    view: memoryview, start: int, end: int, stamp: int
) -> tuple[Message | None, _Piece | None]:
    watch_key, tensor, metadata = "", (0, 0), (0, 0)
    for number, first, last in summary_fields(view, start, end):
        if number == NODE_NAME:
            watch_key = wire.text(view, first, last)
        elif number == TENSOR:
            tensor = first, last
        elif number == METADATA:
            metadata = first, last
    device, index, count = _read_metadata(view, *metadata)
    node, slot, debug_op = parse_watch_key(watch_key)
    if slot is None or not _DEBUG_OP.fullmatch(debug_op):
        raise DumpError(f'A tensor is named "{watch_key[:80]}", which is not a watch.')
    whole = StreamedTensor(node, slot, debug_op, device, stamp, [view[tensor[0] : tensor[1]]])
    if count <= 1:
        return whole, None
    key = ("tensor", device, watch_key, str(stamp))
    return None, _Piece(key, index, count, whole.chunks)


def _read_metadata(view: memoryview, start: int, end: int) -> tuple[str, int, int]:
    """Device, index of the piece and number of pieces, of a value's ``SummaryMetadata``."""
    for number, kind, a, b in wire.fields(view, start, end):
        if number != 1 or kind != wire.LENGTH:
            continue
        for inner, inner_kind, first, last in wire.fields(view, a, b):
            if inner != 2 or inner_kind != wire.LENGTH:
                continue
            try:
                found = json.loads(bytes(view[first:last]))
                device = str(found["device"])
                index, count = int(found["chunkIndex"]), int(found["numChunks"])
            except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
                raise DumpError(f"A tensor's description can't be read ({error}).") from None
            return _check_device(device), *_check_piece(index, count)
    raise DumpError("A tensor comes without its description.")


def _read_graph(data: memoryview) -> tuple[Message | None, _Piece | None]:
    """``hash,device,time|index|count|piece of the serialized graph``."""
    head = bytes(data[:1024]).split(b"|", 3)
    fields = head[0].decode("utf-8", "replace").split(",") if len(head) == 4 else []
    if len(fields) != 3 or not all(_DIGITS.fullmatch(text) for text in (fields[0], fields[2])):
        raise DumpError("A graph comes without its description.")
    if not (head[1].isdigit() and head[2].isdigit()):
        raise DumpError("A piece of a graph comes without its number.")
    device = _check_device(fields[1])
    index, count = _check_piece(int(head[1][:20]), int(head[2][:20]))
    content = data[sum(len(part) for part in head[:3]) + 3 :]
    graph = StreamedGraph(device, fields[0], int(fields[2]), [content])
    if count <= 1:
        return graph, None
    return None, _Piece(("graph", *fields), index, count, [content])


def _check_device(name: str) -> str:
    if not _DEVICE.fullmatch(name):
        raise DumpError(f'"{name[:80]}" is not a device.')
    return name


def _check_piece(index: int, count: int) -> tuple[int, int]:
    if not (0 <= index < max(count, 1) and count <= _MOST_PIECES):
        raise DumpError(f"A tensor or graph can't have a piece {index} of {count}.")
    return index, count


class Assembler:
    """Puts the pieces of one stream together.

    Args:
        limit: bytes of unfinished pieces that it holds.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = 0
        self._parts: dict[tuple[str, ...], dict[int, list[Chunk]]] = {}

    @property
    def unfinished(self) -> list[str]:
        """The names of what lacks pieces."""
        return [": ".join(key[:3]) for key in self._parts]

    def feed(self, data: bytes) -> Message | None:
        """Take one serialized Event.

        Returns:
            What is whole now, if anything is.

        Raises:
            DumpError: it is no Event of a debug stream, or too much is unfinished.
        """
        message, piece = read_message(data)
        if piece is None:
            return message
        size = wire.chunks_length(piece.chunks)
        if self._held + size > self._limit:
            raise DumpError(f"There is no room for a piece of {piece.key[2]}.")
        parts = self._parts.setdefault(piece.key, {})
        if piece.number not in parts:
            self._held += size
            parts[piece.number] = piece.chunks
        if len(parts) < piece.total:
            return None
        del self._parts[piece.key]
        self._held -= sum(wire.chunks_length(chunks) for chunks in parts.values())
        chunks = [chunk for index in sorted(parts) for chunk in parts[index]]
        if piece.key[0] == "graph":
            _, number, device, stamp = piece.key
            return StreamedGraph(device, number, int(stamp), chunks)
        _, device, watch_key, stamp = piece.key
        node, slot, debug_op = parse_watch_key(watch_key)
        return StreamedTensor(node, slot or 0, debug_op, device, int(stamp), _joined(chunks))


def _joined(pieces: list[Chunk]) -> list[Chunk]:
    """One TensorProto of several with the same dtype and shape: their contents in a row."""
    made: list[Chunk] = []
    contents: list[Chunk] = []
    for at, piece in enumerate(pieces):
        view = memoryview(piece)
        before = 0
        for number, kind, a, b in wire.fields(view):
            # A field ends where its payload does; only those of length have one that is large.
            stop = b if kind != wire.VARINT else before + _varint_field(view, before)
            if number == _TENSOR_CONTENT and kind == wire.LENGTH:
                contents.append(view[a:b])
            elif at == 0 or number > _TENSOR_CONTENT:
                made.append(view[before:stop])
            before = stop
    if contents:
        made += wire.put_message(_TENSOR_CONTENT, contents)
    return made


def _varint_field(view: memoryview, start: int) -> int:
    """How many bytes a field of a varint takes, its tag included."""
    at = start
    for _ in range(2):
        while view[at] >= 0x80:
            at += 1
        at += 1
    return at - start


class RunFiles:
    """The dump directory of one run, written while the run goes on.

    Several streams may add to it at once.

    Args:
        folder: where; is made.
        limit: bytes that the tensors may take; what is beyond that is left out.

    Raises:
        UserError: the folder can't be made.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        make_folder(folder)
        self.folder = folder
        self.core: CoreMetadata | None = None
        self.graphs: dict[str, StreamedGraph] = {}
        self._devices: set[str] = set()
        self._left = limit
        self._is_full = False
        self._names: Counter[Path] = Counter()
        self._lock = threading.Lock()
        self._problems: list[str] = []
        self._more = 0

    @property
    def devices(self) -> set[str]:
        """The devices that tensors came from."""
        return set(self._devices)

    def note(self, problem: str) -> None:
        """Say something of this run where it is shown."""
        if problem in self._problems:
            return
        if len(self._problems) < _NAMED:
            self._problems.append(problem)
        else:
            self._more += 1

    def add(self, message: Message) -> None:
        """File a message. What can't be written is noted instead."""
        with self._lock:
            try:
                if isinstance(message, StreamedTensor):
                    self._add_tensor(message)
                elif isinstance(message, StreamedGraph):
                    self._add_graph(message)
                else:
                    self._add_core(message)
            except UserError as error:
                self.note(str(error))

    def _add_core(self, core: CoreMetadata) -> None:
        self.core = core
        name = f"{CORE_METADATA_PREFIX}sessionrun{core.session_run_index:014d}"
        text = json.dumps(core._asdict(), separators=(",", ":"), ensure_ascii=False)
        stamp = time.time_ns() // 1000
        write_file(self.folder / f"{name}_{stamp}", message_event(text, stamp))

    def _add_graph(self, graph: StreamedGraph) -> None:
        self.graphs[graph.device] = graph
        folder = self.folder / device_name_to_device_path(graph.device)
        make_folder(folder)
        path = folder / f"{GRAPH_PREFIX}hash{graph.number}_{graph.timestamp}"
        write_file(path, graph_event(graph.chunks, graph.timestamp))

    def _add_tensor(self, tensor: StreamedTensor) -> None:
        size = wire.chunks_length(tensor.chunks)
        if self._is_full or size > self._left:
            if not self._is_full:
                self._is_full = True
                self.note("The run reached the limit of --dump-limit: the rest of it was left out.")
            return
        self._left -= size
        self._devices.add(tensor.device)
        name = file_node_name(tensor.node)
        path = self.folder / device_name_to_device_path(tensor.device) / name
        path = path.with_name(f"{path.name}_{tensor.slot}_{tensor.debug_op}_{tensor.timestamp}")
        earlier = self._names[path]
        self._names[path] += 1
        if earlier:
            path = path.with_name(f"{path.name}-{earlier}")
        event = tensor_event(name, *tensor[1:])
        make_folder(path.parent)
        write_file(path, event)

    def open(self) -> DebugDumpDir:
        """The dump of what is there."""
        dump = DebugDumpDir(self.folder)
        with self._lock:
            more = [f"{self._more} more problems in this run."] if self._more else []
            dump.warnings[:0] = [*self._problems, *more]
        return dump
