"""Dumps for scans to find."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.run_folder.writer import write_run_folder
from tfdbg_cli.dumps.run_info import RunInfo

__all__ = ["MB", "floats", "write"]

MB = 1 << 20


def write(path: Path, **tensors: Any) -> None:
    """A dump; what is a list is dumped several times."""
    dump = MemoryDump(Graph([Node(name, f"Op{name}") for name in tensors]))
    dump.set_run_info(RunInfo(engine="torch"))
    for at, (name, value) in enumerate(tensors.items()):
        for each in value if isinstance(value, list) else [value]:
            dump.add(name, 0, each, timestamp=at)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_run_folder(dump, path)


def floats(*values: float) -> Any:
    return np.float32(values)
