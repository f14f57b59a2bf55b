"""In the program that is soaked: counts what it does, and what it holds meanwhile."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

__all__ = ["Sample", "rounds"]

# How often a program is looked at.
_LOOKS = 20


@dataclass(frozen=True)
class Sample:
    """What a process holds at one moment.

    Attributes:
        done: rounds until then.
        seconds: since the first one.
        memory: resident bytes, after a garbage collection.
        descriptors: open ones.
        threads: the system's.
        children: processes.
        files: in the temporary folders, and in shared memory.
        objects: that the garbage collector knows.
    """

    done: int
    seconds: float
    memory: int
    descriptors: int
    threads: int
    children: int
    files: int
    objects: int


def _measured(done: int, seconds: float) -> Sample:
    """This process, now."""
    gc.collect()
    me = Path("/proc/self")
    resident = int((me / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    tasks = list((me / "task").iterdir())
    children = 0
    for task in tasks:
        with contextlib.suppress(OSError):  # a thread that has ended
            children += len((task / "children").read_text().split())
    files = sum(map(_count, [Path(os.environ["TMPDIR"]), *_own_folders()]))
    # The one that lists them is among them.
    descriptors = len(os.listdir("/proc/self/fd")) - 1
    return Sample(
        done, seconds, resident, descriptors, len(tasks), children, files, len(gc.get_objects())
    )


def _count(folder: Path) -> int:
    """Files and folders below one."""
    return sum(len(folders) + len(files) for _, folders, files in os.walk(folder))


def _own_folders() -> Iterator[Path]:
    """Those of this process where files are memory."""
    for folder in Path("/dev/shm").glob("tfdbg-*"):
        with contextlib.suppress(OSError):  # somebody else's, which is being removed
            if (folder / ".owner").read_text() == str(os.getpid()):
                yield folder


def rounds(step: int = 1) -> Iterator[int]:
    """Numbers of rounds, as many as the environment asks for; what was measured goes to a file.

    Args:
        step: how many rounds of the count the caller does for each number.
    """
    count = int(os.environ["SOAK_COUNT"])
    limit = float(os.environ.get("SOAK_SECONDS") or "inf")
    samples: list[Sample] = []
    begun = time.monotonic()
    number = due = 0
    try:
        while number < count and (spent := time.monotonic() - begun) < limit:
            if number >= due or spent >= limit * len(samples) / _LOOKS:
                samples.append(_measured(number, spent))
                _tell(samples)
                due = number + max(1, count // _LOOKS)
            yield number
            number += step
    finally:
        samples.append(_measured(number, time.monotonic() - begun))
        _tell(samples)


def _tell(samples: Sequence[Sample]) -> None:
    path = Path(os.environ["SOAK_FIGURES"])
    new = path.with_suffix(".new")
    new.write_text(json.dumps([asdict(each) for each in samples]), encoding="utf-8")
    new.replace(path)
