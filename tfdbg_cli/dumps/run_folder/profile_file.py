"""``profile.jsonl``, the timings in a run folder; docs/dump-formats.md describes it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from typing import Any

from tfdbg_cli.common.errors import DumpError
from tfdbg_cli.dumps.files import read_file
from tfdbg_cli.dumps.profile import CodeLine, Profile, ProfileEntry
from tfdbg_cli.dumps.run_folder.json_fields import Fields, fail, parse_json

__all__ = ["PROFILE_FILE", "profile_lines", "read_profile"]

PROFILE_FILE = "profile.jsonl"

_FORMAT = "tfdbg_cli profile"
_VERSION = 1


def profile_lines(profile: Profile) -> Iterator[bytes]:
    """The lines of the file, one execution of an operation each."""
    header = {
        "format": _FORMAT,
        "version": _VERSION,
        "devices": [device.name for device in profile.devices],
        "entries": len(profile),
    }
    yield _line(header)
    for number, device in enumerate(profile.devices):
        for entry in device.entries:
            yield _line(_record(entry, number))


def _line(record: dict[str, Any]) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def _record(entry: ProfileEntry, device: int) -> dict[str, Any]:
    record: dict[str, Any] = {
        "device": device,
        "node": entry.node,
        "op_type": entry.op_type,
        "start": round(entry.start, 3),
        "op_time": round(entry.op_time, 3),
        "exec_time": round(entry.exec_time, 3),
    }
    if entry.runtime_name:
        record["runtime_name"] = entry.runtime_name
    if entry.kernel:
        record["kernel"] = entry.kernel
    if entry.place is not None:
        record.update(entry.place._asdict())
    return record


def read_profile(path: str, report: Callable[[str], None], root: str | None = None) -> Profile:
    """The timings of a run folder.

    Args:
        path: of the file.
        report: gets one line for everything that is missing or damaged; the rest is read.
        root: the folder that it must be in.
    """
    try:
        lines = bytes(read_file(path, root)).splitlines()
    except DumpError as error:
        report(error.message)
        return Profile()
    devices: list[str] = []
    promised = 0
    entries: dict[int, list[ProfileEntry]] = {}
    damaged: list[int] = []
    for number, text in enumerate(lines, 1):
        try:
            record = parse_json(text)
            if "format" in record:
                if (record["format"], record.get("version")) != (_FORMAT, _VERSION):
                    report(
                        f"{path} has format {record['format']!r} version "
                        f"{record.get('version')!r}; this tfdbg_cli knows version {_VERSION}."
                    )
                devices = [str(name) for name in record["devices"]]
                promised = Fields(record, fail).size("entries")
            else:
                entry = _entry(record)
                device = Fields(record, fail).size("device")
                entries.setdefault(device, []).append(entry)
        except (ValueError, TypeError, KeyError, OverflowError):
            damaged.append(number)
    if damaged:
        more = f" and {len(damaged) - 1} more are" if len(damaged) > 1 else " is"
        report(f"{path} is damaged: line {damaged[0]}{more} left out.")
    missing = promised - sum(map(len, entries.values())) - len(damaged)
    if missing > 0:
        report(f"{path} is damaged: {missing} timings are missing.")
    numbers = sorted({*entries, *range(len(devices))})
    return Profile(
        (devices[number] if number < len(devices) else "", entries.get(number, ()))
        for number in numbers
    )


def _entry(record: dict[str, Any]) -> ProfileEntry:
    found = Fields(record, fail)
    place = None
    if "file" in found:
        place = CodeLine(found.text("file"), found.size("line"), found.text("function"))
    if "node" not in found:
        raise ValueError("node")
    return ProfileEntry(
        found.text("node"),
        found.text("op_type"),
        _time(record["start"]),
        _time(record["op_time"]),
        _time(record["exec_time"]),
        found.text("runtime_name"),
        found.text("kernel"),
        place,
    )


def _time(value: Any) -> float:
    found = float(value)
    if not math.isfinite(found):
        raise ValueError(f"{value!r} is not a time")
    return found
