"""The names that the original's dump directories use for files, devices, feeds and debug nodes."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from tfdbg_cli.dumps.proto.wire import encoded

__all__ = [
    "CORE_METADATA_PREFIX",
    "DEVICE_PREFIX",
    "FEED_KEYS_INFO",
    "FEED_PREFIX",
    "FETCHES_INFO",
    "GRAPH_PREFIX",
    "METADATA_PREFIX",
    "DumpName",
    "collapse_slashes",
    "decode_node_name",
    "device_name_to_device_path",
    "device_path_to_device_name",
    "encode_node_name",
    "file_node_name",
    "is_canonical_device",
    "is_copy_node",
    "is_debug_node",
    "parse_copy_node_name",
    "parse_dump_name",
    "parse_feed_node_name",
]

METADATA_PREFIX = "_tfdbg_"
DEVICE_PREFIX = "_tfdbg_device_"
GRAPH_PREFIX = "_tfdbg_graph_"
CORE_METADATA_PREFIX = "_tfdbg_core_metadata_"
FETCHES_INFO = "_tfdbg_fetches_info_"
FEED_KEYS_INFO = "_tfdbg_feed_keys_info_"

# Numbers of more digits are no slots and no times, and break arithmetic far away.
_DUMP_NAME = re.compile(r"(.+)_([0-9]{1,9})_([^_]+)_([0-9]{1,18})(?:-([0-9]{1,9}))?", re.DOTALL)
#: How the names of nodes begin that stand for what was fed.
FEED_PREFIX = "_arg_"
_FEED_NODE = re.compile(r"_arg_(.+)_([0-9]{1,9})_([0-9]+)", re.DOTALL)
_CANONICAL_DEVICE = re.compile(r"/job:[^/:,\s]+/replica:\d+/task:\d+/device:[^/:,\s]+:\d+")
_DEVICE_PIECE = re.compile(r"device_(.+)_(\d+)")
# What a GraphDef gives a meaning to (colon, caret) or a file system forbids.
_UNSAFE = re.compile(r'[\x00-\x1f"%*:<?\\^|\x7f]')
_ENCODED = re.compile(r"%([0-9A-F]{2})")
_LONGEST_PIECE = 180  # bytes, so that a file's name has room for slot, debug op and time
_COPY_PREFIX = "__copy_"
_DEBUG_PREFIX = "__dbg_"


class DumpName(NamedTuple):
    """What the name of a dump file says.

    Attributes:
        node_base: the node's name after its last slash; the folders hold the rest.
        output_slot: which output.
        debug_op: plain name of the debug op.
        timestamp: microseconds since the epoch.
        suffix: ``n`` of ``timestamp-n``, 0 without one.
    """

    node_base: str
    output_slot: int
    debug_op: str
    timestamp: int
    suffix: int


def parse_dump_name(base: str) -> DumpName | None:
    """Read ``node_slot_DebugOp_timestamp[-n]``.

    Args:
        base: a file name without its folders.

    Returns:
        Its parts, or ``None`` if the name follows another pattern.
    """
    match = _DUMP_NAME.fullmatch(base)
    if match is None:
        return None
    node, slot, op, timestamp, suffix = match.groups()
    return DumpName(node, int(slot), op, int(timestamp), int(suffix or 0))


def device_name_to_device_path(device_name: str) -> str:
    """The folder that holds a device's dumps.

    >>> device_name_to_device_path("/job:localhost/replica:0/task:0/device:CPU:0")
    '_tfdbg_device_,job_localhost,replica_0,task_0,device_CPU_0'
    """
    return DEVICE_PREFIX + ",".join(piece.replace(":", "_") for piece in device_name.split("/"))


def device_path_to_device_name(device_dir: str) -> str:
    """The device that a folder is named after.

    Exact for every name of the form ``/job:J/replica:N/task:N/device:TYPE:N``, also where a job
    or a device type has underscores of its own (``device:XLA_CPU:0``). In any other name the
    first underscore of each piece is taken for the colon, as the original does; see
    `is_canonical_device`.

    Args:
        device_dir: the folder, with or without what lies above it.
    """
    pieces = os.path.basename(device_dir)[len(DEVICE_PREFIX) :].split(",")
    names = []
    for piece in pieces:
        match = _DEVICE_PIECE.fullmatch(piece)
        if match is not None:
            names.append(f"device:{match[1]}:{match[2]}")
        else:
            names.append(piece.replace("device_", "device:").replace("_", ":", 1))
    return "/".join(names)


def is_canonical_device(device_name: str) -> bool:
    """Whether a device name survives the way to a folder name and back for certain."""
    return _CANONICAL_DEVICE.fullmatch(device_name) is not None


def parse_feed_node_name(name: str) -> tuple[str, int] | None:
    """The tensor that a node ``_arg_<node>_<slot>_<index>`` feeds, as ``(node, slot)``."""
    match = _FEED_NODE.fullmatch(name)
    return (match[1], int(match[2])) if match is not None else None


def is_copy_node(name: str) -> bool:
    """Whether the debugger inserted the node to copy a watched tensor."""
    return name.startswith(_COPY_PREFIX)


def is_debug_node(name: str) -> bool:
    """Whether the debugger inserted the node to dump a watched tensor."""
    return name.startswith(_DEBUG_PREFIX)


def parse_copy_node_name(name: str) -> str | None:
    """The tensor that ``__copy_<node>_<slot>`` copies, as ``node:slot``."""
    node, _, slot = name.removeprefix(_COPY_PREFIX).rpartition("_")
    return f"{node}:{slot}" if node and slot.isdecimal() else None


def collapse_slashes(name: str) -> str:
    """``a//b`` as ``a/b``: no folder has an empty name, so dumps are filed under the latter."""
    return re.sub(r"/{2,}", "/", name) if "//" in name else name


def encode_node_name(name: str) -> str:
    """A name that a GraphDef can hold: what has a meaning there is written as ``%`` and two digits.

    TensorFlow's own names never change, and no name of TensorFlow's has a percent sign.
    """
    return _UNSAFE.sub(lambda match: f"%{ord(match[0]):02X}", collapse_slashes(name))


def decode_node_name(name: str) -> str:
    """The inverse of `encode_node_name`."""
    return _ENCODED.sub(lambda match: chr(int(match[1], 16)), name) if "%" in name else name


def file_node_name(name: str) -> str:
    """An encoded name that is a safe path as well.

    Pieces that no file may have for a name (``..``) are encoded too; one that is too long is cut
    and ends in a hash of the whole.
    """
    pieces = map(_file_piece, encode_node_name(name).split("/"))
    return "/".join(filter(None, pieces)) or "_"


def _file_piece(piece: str) -> str:
    if piece in (".", ".."):
        return piece.replace(".", "%2E")
    data = encoded(piece)
    piece = data.decode("utf-8", "surrogateescape")
    if len(data) <= _LONGEST_PIECE:
        return piece
    import hashlib  # brings OpenSSL, 10 ms

    digest = hashlib.blake2b(data, digest_size=6).hexdigest()
    return f"{piece[: _LONGEST_PIECE // 4]}-{digest}"
