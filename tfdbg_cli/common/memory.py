"""How much memory this process may use: the machine's, or what it is limited to."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tfdbg_cli.common.errors import UserError

__all__ = ["available_memory", "check_room", "spare_memory", "unnoticed_memory"]

# Of what a process uses; and what is always free to be used, in bytes.
_UNNOTICED, _LEAST_UNNOTICED = 0.02, 1 << 22
_GROUPS = Path("/sys/fs/cgroup")


def available_memory(unknown: int) -> int:
    """Bytes: the least of the machine's memory, the limits of its control groups and its own.

    Args:
        unknown: the answer where nothing of it is known.
    """
    return min((*_machine(), *_groups(), *(limit for _, limit in _own())), default=unknown)


def spare_memory(unknown: int) -> int:
    """Bytes of `available_memory` that this process doesn't use by now.

    Args:
        unknown: the answer where nothing of it is known.
    """
    used = _used()
    spare = [limit - used.resident for limit in _shared()]
    spare += (limit - getattr(used, kind) for kind, limit in _own())
    return max(min(spare, default=unknown), 0)


def unnoticed_memory(used: int | None = None) -> int:
    """So many bytes more that whoever runs a program will hardly notice.

    Args:
        used: by the program; ``None``: by this process, in the machine's memory.
    """
    if used is None:
        used = _resident(int(time.monotonic()))
    return max(int(used * _UNNOTICED), _LEAST_UNNOTICED)


@functools.lru_cache(1)
def _resident(second: int) -> int:
    """What this process uses, looked up once in a second: whoever waits asks at each run."""
    return _used().resident


def check_room(nbytes: int, what: str) -> None:
    """Refuse values that leave no room for what is computed of them.

    Args:
        nbytes: how much they take.
        what: they, in the plural.

    Raises:
        UserError: that is more than half of the spare memory.
    """
    room = spare_memory(2 * nbytes) // 2
    if nbytes > room:
        raise UserError(
            f"{what} take {nbytes:,} bytes, and there is room for {room:,}: half of the memory "
            "that is left."
        )


class _Usage(NamedTuple):
    """Bytes of this process: in the machine's memory, as data, of addresses."""

    resident: int = 0
    data: int = 0
    size: int = 0


def _used() -> _Usage:
    try:  # asked at each run of a program: a path and a buffer would take longer than the rest
        with open("/proc/self/statm", "rb", buffering=0) as file:
            pages = [int(text) for text in file.read().split()]
        page = os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # another system, or no descriptor is left
        return _Usage()
    return _Usage(pages[1] * page, pages[5] * page, pages[0] * page)


@functools.cache
def _shared() -> tuple[int, ...]:
    """The limits that others share; they stay."""
    return (*_machine(), *_groups())


def _machine() -> Iterator[int]:
    try:
        yield os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return


def _groups() -> Iterator[int]:
    """Of the group of this process and of those around it; a container sees only its own."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, kinds, path = line.split(":", 2)
        if kinds and "memory" not in kinds.split(","):
            continue
        root, name = _GROUPS, "memory.max"
        if kinds:  # version 1
            root, name = _GROUPS / "memory", "memory.limit_in_bytes"
        group = root / path.lstrip("/")
        for folder in (group, *group.parents):
            if folder.is_relative_to(root):
                yield from _number(folder / name)


def _number(path: Path) -> Iterator[int]:
    try:
        text = path.read_text().strip()
    except OSError:
        return
    if text.isdecimal():  # else "max"
        yield int(text)


def _own() -> Iterator[tuple[str, int]]:
    """This process's own limits, each with what of it counts."""
    try:
        import resource
    except ImportError:  # no such system
        return
    for name, kind in (("size", resource.RLIMIT_AS), ("data", resource.RLIMIT_DATA)):
        soft = resource.getrlimit(kind)[0]
        if soft != resource.RLIM_INFINITY:
            yield name, soft
