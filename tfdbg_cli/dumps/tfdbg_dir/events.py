"""The files of the original's dump directories: each holds one Event message.

Field numbers as in ``tensorflow/core/util/event.proto`` and ``framework/summary.proto``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

from tfdbg_cli.common.errors import DumpError
from tfdbg_cli.dumps.files import Chunk, read_file
from tfdbg_cli.dumps.proto import wire
from tfdbg_cli.dumps.proto.tensor_proto import TensorProto
from tfdbg_cli.dumps.run_folder.json_fields import Fields, fail, parse_json

__all__ = [
    "METADATA",
    "NODE_NAME",
    "TENSOR",
    "CoreMetadata",
    "Event",
    "extract_core_metadata_from_event_proto",
    "graph_event",
    "load_tensor_from_event",
    "load_tensor_from_event_file",
    "message_event",
    "read_event",
    "summary_fields",
    "tensor_event",
]

_WALL_TIME, _GRAPH_DEF, _SUMMARY, _LOG_MESSAGE = 1, 4, 5, 6
_TAG = 1
#: What a value of a summary has: the numbers of `summary_fields`.
NODE_NAME, TENSOR, METADATA = 7, 8, 9


class CoreMetadata(NamedTuple):
    """What TensorFlow notes of a debugged ``Session.run()``.

    Attributes:
        global_step: as given by the caller, -1 if not.
        session_run_index: counts the runs of the session.
        executor_step_index: counts the runs of the same executor (same fetches, feeds, watches).
        input_names: feeds, as tensor names.
        output_names: fetched tensors.
        target_nodes: fetched operations.
    """

    global_step: int
    session_run_index: int
    executor_step_index: int
    input_names: list[str]
    output_names: list[str]
    target_nodes: list[str]


def summary_fields(data: memoryview, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """The numbers, beginnings and ends of what the first value of a summary has."""
    for number, kind, a, b in wire.fields(data, start, end):
        if number == 1 and kind == wire.LENGTH:
            for inner, inner_kind, first, last in wire.fields(data, a, b):
                if inner_kind == wire.LENGTH:
                    yield inner, first, last
            return


class Event:
    """One Event, scanned but not converted.

    Args:
        data: the serialized message.

    Attributes:
        tensor: the tensor of a dump file, ``None`` for other files.
        watch_key: ``node:slot:DebugOp`` as stored in the file.
        graph_def: the serialized graph of a graph file.
        message: the text of an info file.

    Raises:
        DumpError: the bytes aren't an Event.
    """

    __slots__ = ("_metadata", "graph_def", "message", "tensor", "watch_key")

    def __init__(self, data: memoryview) -> None:
        self.tensor: TensorProto | None = None
        self.watch_key = ""
        self.graph_def: memoryview | None = None
        self.message: str | None = None
        self._metadata = b""
        if not data:
            raise DumpError("The file is empty.")
        for number, kind, a, b in wire.fields(data):
            if kind != wire.LENGTH:
                continue
            if number == _SUMMARY and self.tensor is None:
                self._read_summary(data, a, b)
            elif number == _GRAPH_DEF:
                self.graph_def = data[a:b]
            elif number == _LOG_MESSAGE:
                self.message = wire.text(data, *wire.payload(data, 2, a, b))

    def _read_summary(self, data: memoryview, start: int, end: int) -> None:
        for number, first, last in summary_fields(data, start, end):
            if number == TENSOR:
                self.tensor = TensorProto(data, first, last)
            elif number == NODE_NAME:
                self.watch_key = wire.text(data, first, last)
            elif number == METADATA:
                self._metadata = bytes(data[first:last])

    @property
    def device_name(self) -> str:
        """The device as the file's own metadata has it, empty if it has none."""
        try:
            start, end = wire.payload(self._metadata, 2, *wire.payload(self._metadata, 1))
            content = parse_json(self._metadata[start:end])
            return Fields(content, lambda name: None).text("device")
        except (DumpError, ValueError):
            return ""

    def need_tensor(self) -> TensorProto:
        """The tensor.

        Raises:
            DumpError: the file holds something else.
        """
        if self.tensor is None:
            raise DumpError("The file holds no tensor.")
        return self.tensor


def read_event(path: str | os.PathLike[str], *, writable: bool = True) -> Event:
    """Read a file that holds one Event; large tensors stay on disk.

    Args:
        path: the file.
        writable: whether somebody may want to write to its values.

    Raises:
        DumpError: the file is missing, unreadable, empty, cut short or of another format.
    """
    data = read_file(path, writable=writable)
    try:
        return Event(data)
    except DumpError as error:
        raise damaged(path, error) from None


def damaged(path: str | os.PathLike[str], error: DumpError) -> DumpError:
    """What is wrong with the content of a file, with the file's name."""
    return DumpError(f"{os.fspath(path)} is damaged: {error.message}", error.hint)


def load_tensor_from_event_file(event_file_path: str | os.PathLike[str]) -> Any:
    """The value in a dump file.

    Args:
        event_file_path: one file of a dump directory.

    Returns:
        An ndarray (string tensors: object array of bytes), or an `InconvertibleTensorProto`.

    Raises:
        DumpError: the file holds no tensor or is damaged.
    """
    event = read_event(event_file_path)
    try:
        return event.need_tensor().value()
    except DumpError as error:
        raise damaged(event_file_path, error) from None


def load_tensor_from_event(event: Any) -> Any:
    """The value in an Event: ours, TensorFlow's ``event_pb2.Event``, or the serialized bytes.

    Raises:
        DumpError: it holds no tensor.
    """
    return _as_event(event).need_tensor().value()


def _as_event(event: Any) -> Event:
    if isinstance(event, Event):
        return event
    data = event.SerializeToString() if hasattr(event, "SerializeToString") else event
    return Event(memoryview(bytearray(data)))


def extract_core_metadata_from_event_proto(event: Any) -> CoreMetadata:
    """The record of the run in an Event: ours, TensorFlow's, or the serialized bytes.

    Raises:
        DumpError: it holds none.
    """
    message = _as_event(event).message
    if message is None:
        raise DumpError("The file holds no message.")
    try:
        found = parse_json(message)
        fields = Fields(found, fail)
        if not all(name in fields for name in CoreMetadata._fields):
            raise ValueError("something is missing")
        return CoreMetadata(
            fields.number("global_step"),
            fields.number("session_run_index"),
            fields.number("executor_step_index"),
            fields.texts("input_names"),
            fields.texts("output_names"),
            fields.texts("target_nodes"),
        )
    except ValueError as error:
        raise DumpError(f"The record of the run is damaged ({error}).") from None


def tensor_event(
    node_name: str,
    output_slot: int,
    debug_op: str,
    device_name: str,
    timestamp: int,
    tensor: list[Chunk],
) -> list[Chunk]:
    """The Event of a dump file, in pieces.

    Args:
        node_name: the node.
        output_slot: which output.
        debug_op: plain name of the debug op.
        device_name: the device.
        timestamp: microseconds since the epoch.
        tensor: a serialized TensorProto.
    """
    content = json.dumps(
        {"device": device_name, "outputSlot": output_slot, "numChunks": 1, "chunkIndex": 0},
        separators=(",", ":"),
    )
    plugin = wire.put_text(1, "debugger") + wire.put_text(2, content)
    value: list[Chunk] = [
        wire.put_text(_TAG, node_name),
        wire.put_text(NODE_NAME, f"{node_name}:{output_slot}:{debug_op}"),
        *wire.put_message(TENSOR, tensor),
        wire.put_bytes(METADATA, wire.put_bytes(1, plugin)),
    ]
    summary = wire.put_message(1, value)
    return [wire.put_double(_WALL_TIME, timestamp), *wire.put_message(_SUMMARY, summary)]


def graph_event(graph_def: list[Chunk], timestamp: int) -> list[Chunk]:
    """The Event of a graph file, in pieces."""
    return [wire.put_double(_WALL_TIME, timestamp), *wire.put_message(_GRAPH_DEF, graph_def)]


def message_event(text: str, timestamp: int | None = None) -> list[Chunk]:
    """The Event of an info file."""
    chunks: list[Chunk] = [wire.put_bytes(_LOG_MESSAGE, wire.put_text(2, text))]
    if timestamp is not None:
        chunks.insert(0, wire.put_double(_WALL_TIME, timestamp))
    return chunks
