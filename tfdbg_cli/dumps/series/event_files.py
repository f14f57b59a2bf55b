"""Event files of TensorBoard: records with checksums, each an Event with a scalar or a text."""

from __future__ import annotations

import functools
import os
import socket
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tfdbg_cli.dumps.files import make_folder, write_file
from tfdbg_cli.dumps.proto import wire
from tfdbg_cli.dumps.series.points import Points

__all__ = ["write_events"]

# Field numbers as in ``tensorflow/core/util/event.proto`` and ``framework/summary.proto``.
_WALL_TIME, _STEP, _FILE_VERSION, _SUMMARY = 1, 2, 3, 5
_VALUE = 1
_TAG, _SIMPLE_VALUE, _TENSOR, _METADATA = 1, 2, 8, 9
_DTYPE, _STRING_VALUE, _STRING = 1, 8, 7
# The text plug-in's name: ``SummaryMetadata.plugin_data.plugin_name``.
_TEXT = wire.put_bytes(1, wire.put_text(1, "text"))

_POLYNOMIAL = 0x82F63B78  # CRC-32C, reflected
_MASK = 0xA282EAD8


def write_events(
    folder: str | os.PathLike[str],
    series: Mapping[str, Points],
    texts: Mapping[str, tuple[int, str]] | None = None,
) -> Path:
    """Write series as scalars that TensorBoard shows, to a new file of its own.

    Args:
        folder: that TensorBoard is given, or one below it; made if there is none.
        series: tag -> its numbers; the runs are the steps.
        texts: tag -> a step and a text in Markdown.

    Returns:
        The file.

    Raises:
        UserError: it can't be written.
    """
    made = Path(folder).expanduser()
    make_folder(made)
    host = "".join(each if each.isalnum() or each in "-." else "_" for each in socket.gethostname())
    stem = f"events.out.tfevents.{time.time_ns() // 10**9:010d}.{host or 'localhost'}.{os.getpid()}"
    path, number = made / f"{stem}.0", 0
    while path.exists():
        number += 1
        path = made / f"{stem}.{number}"
    write_file(path, [b"".join(_records(series, texts or {}))])
    return path


def _records(series: Mapping[str, Points], texts: Mapping[str, tuple[int, str]]) -> Iterator[bytes]:
    yield _record(
        wire.put_double(_WALL_TIME, time.time()) + wire.put_text(_FILE_VERSION, "brain.Event:2")
    )
    for tag, points in series.items():
        for run, moment, number in zip(*(each.tolist() for each in points), strict=True):
            yield _event(tag, run, moment, wire.put_float(_SIMPLE_VALUE, _float32(number)))
    for tag, (run, text) in texts.items():
        tensor = wire.put_varint(_DTYPE, _STRING) + wire.put_text(_STRING_VALUE, text)
        value = wire.put_bytes(_TENSOR, tensor) + wire.put_bytes(_METADATA, _TEXT)
        yield _event(tag, run, time.time(), value)


def _event(tag: str, run: int, moment: float, value: bytes) -> bytes:
    summary = wire.put_bytes(_VALUE, wire.put_text(_TAG, tag) + value)
    return _record(
        wire.put_double(_WALL_TIME, moment)
        + wire.put_varint(_STEP, run)
        + wire.put_bytes(_SUMMARY, summary)
    )


def _float32(value: float) -> float:
    """The number as the format holds it: what is too large for it is an infinity."""
    try:
        struct.pack("<f", value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return value


def _record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return b"%b%b%b%b" % (length, _masked(length), data, _masked(data))


def _masked(data: bytes) -> bytes:
    """The checksum of a record, as its format wants it."""
    table, found = _table(), 0xFFFFFFFF
    for byte in data:
        found = table[(found ^ byte) & 0xFF] ^ (found >> 8)
    found ^= 0xFFFFFFFF
    rotated = ((found >> 15) | (found << 17)) & 0xFFFFFFFF
    return struct.pack("<I", (rotated + _MASK) & 0xFFFFFFFF)


@functools.cache
def _table() -> tuple[int, ...]:
    made: Sequence[int] = range(256)
    for _ in range(8):
        made = [(each >> 1) ^ (_POLYNOMIAL if each & 1 else 0) for each in made]
    return tuple(made)
