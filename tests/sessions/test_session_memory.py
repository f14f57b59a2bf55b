"""How much memory there is, and what becomes of a run when there isn't enough of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tfdbg_cli.common import memory
from tfdbg_cli.dumps.dump import Datum
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.sessions.debugger.storage import DumpStore

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")


@pytest.mark.parametrize("kind", ["RLIMIT_DATA", "RLIMIT_AS"])
def test_a_run_may_hold_half_of_what_is_left_of_a_limit_of_the_process(kind: str) -> None:
    program = (
        f"import resource; resource.setrlimit(resource.{kind}, (2 << 30, 2 << 30))\n"
        "from tfdbg_cli.sessions.debugger.storage import DumpStore\n"
        "store = DumpStore()\n"
        "first = store.limit\n"
        "taken = bytearray(1 << 30)\n"
        "print(first, store.limit == first, store.renew_limit(), DumpStore(limit=7).renew_limit())"
    )
    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    first, stays, second, given = told.stdout.split()
    assert (stays, given) == ("True", "7")
    assert 1 << 29 < int(first) < 1 << 30
    # Other libraries' memory is part of it.
    assert 0 < int(second) <= int(first) - (1 << 29)


@pytest.mark.parametrize(
    ("line", "file"),
    [
        ("0::/box/job", "memory.max"),
        ("4:memory:/box/job", "memory/memory.limit_in_bytes"),
        ("4:cpu,memory:/gone/job", "memory/memory.limit_in_bytes"),
    ],
)
@pytest.mark.parametrize("depth", ["", "box", "box/job"])
def test_the_limits_of_control_groups_count_of_each_around_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, file: str, depth: str
) -> None:
    if "gone" in line and depth:
        pytest.skip("a container sees its own group as the root")
    real = Path.read_text

    def read(path: Path, *args: object, **kwargs: object) -> str:
        return f"3:cpuset:/\n{line}\n" if str(path) == "/proc/self/cgroup" else real(path)

    monkeypatch.setattr(memory, "_GROUPS", tmp_path)
    monkeypatch.setattr(Path, "read_text", read)
    root = tmp_path / Path(file).parent
    (root / "box" / "job").mkdir(parents=True)
    name = Path(file).name
    (root / "box" / name).write_text("max\n")
    assert memory.available_memory(1) > 1 << 28
    (root / depth / name).write_text(f"{1 << 28}\n")
    assert memory.available_memory(1) == 1 << 28


def test_tensors_that_cannot_be_had_are_missing_and_said() -> None:
    asked = []

    def make() -> list[Datum]:
        asked.append(1)
        raise MemoryError("Unable to allocate 30.5 MiB")

    dump = MemoryDump(make=make)
    dump.add("kept", 0, np.ones(2))
    assert [datum.node_name for datum in dump.data()] == ["kept"] and dump.nbytes == 16
    assert dump.warnings == ["Tensors are missing: MemoryError: Unable to allocate 30.5 MiB"]
    assert dump.data() and asked == [1]


@pytest.mark.parametrize("keep", [True, False])
def test_a_dump_that_cannot_be_written_for_want_of_memory_stays(
    keep: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> object:
        raise MemoryError("Unable to allocate 30.5 MiB")

    dump = MemoryDump()
    dump.add_datum(Datum("large", 0, fail, timestamp=1, dtype="float32", shape=(9,), nbytes=36))
    store = DumpStore(str(tmp_path / "dumps"), keep=keep, limit=8)
    found, note = store.bound(dump)
    assert (found is dump and "stays in memory: MemoryError" in note) or found.warnings
    store.retain(dump)
    store.close()
