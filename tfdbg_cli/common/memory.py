"""How much memory this process may use: the machine's, or what it is limited to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["available_memory"]

_GROUPS = Path("/sys/fs/cgroup")


def available_memory(unknown: int) -> int:
    """Bytes: the least of the machine's memory, the limits of its control groups and its own.

    Args:
        unknown: the answer where nothing of it is known.
    """
    return min((*_machine(), *_groups(), *_own()), default=unknown)


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


def _own() -> Iterator[int]:
    try:
        import resource
    except ImportError:  # no such system
        return
    for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
        soft = resource.getrlimit(kind)[0]
        if soft != resource.RLIM_INFINITY:
            yield soft
