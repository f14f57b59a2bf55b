"""What the checksums of a run folder cost: writing, opening, and reading a value the first time."""

import contextlib
import os
import shutil
import sys
import tempfile
import types
from unittest import mock

import numpy as np

from benchmarks.harness import Row, Table, interleaved, main
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.run_folder.dump import RunFolderDump, write_run_folder

_CHECKED = "tfdbg_cli.dumps.run_folder."


def _unsummed():
    """The same code with checksums that are free, and always right."""
    stack = contextlib.ExitStack()
    for module in ("writer", "json_fields", "tensors", "dump"):
        found = sys.modules[_CHECKED + module]
        free = types.SimpleNamespace(crc32=lambda data, before=0: 0)
        stack.enter_context(mock.patch.object(found, "zlib", free))
    return stack


def _dump(count, size):
    dump = MemoryDump()
    draw = np.random.default_rng(0)
    for number in range(count):
        dump.add(f"node_{number}", 0, draw.standard_normal(size, np.float32), timestamp=number + 1)
    return dump


def _rows(name, count, size, rounds):
    dump = _dump(count, size)
    root = tempfile.mkdtemp(prefix="tfdbg_benchmark_")
    whole, free = os.path.join(root, "whole"), os.path.join(root, "free")
    made = os.path.join(root, "made")

    def write():
        shutil.rmtree(made, ignore_errors=True)
        write_run_folder(dump, made)

    def read(path):
        for datum in RunFolderDump(path).data():
            datum.get_tensor().max()

    def free_of(way, *arguments):
        with _unsummed():
            way(*arguments)

    write_run_folder(dump, whole)
    with _unsummed():
        write_run_folder(dump, free)
    acts = {
        "write": (write, lambda: free_of(write)),
        "open": (lambda: RunFolderDump(whole), lambda: free_of(RunFolderDump, free)),
        "open, and the largest element of each": (lambda: read(whole), lambda: free_of(read, free)),
    }
    for act, (ours, plain) in acts.items():
        sample = interleaved({"ours": ours, "plain": plain}, rounds)
        yield Row(
            act,
            1e3 * sample.seconds("ours"),
            name,
            1e3 * sample.seconds("plain"),
            ratio=sample.ratio("ours", "plain", cpu=True),
        )
    shutil.rmtree(root, ignore_errors=True)


def tables(quick: bool) -> list[Table]:
    rounds = 5 if quick else 15
    sizes = [("2,000 tensors of 400 B", 2000, 100), ("16 tensors of 4 MB", 16, 1 << 20)]
    rows = [row for size in sizes for row in _rows(*size, rounds)]
    note = "CRC-32 of each value, of each line of the index and of each file, beside none."
    title = "Run folders: checksums"
    return [Table(title, rows, peer="without", ratio="CPU ratio", note=note)]


if __name__ == "__main__":
    main(tables)
