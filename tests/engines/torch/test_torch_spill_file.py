"""The file of values that have no room in memory is closed with them, without a warning."""

from __future__ import annotations

import contextlib
import gc
import os
import warnings

import torch

from tfdbg_cli.engines.torch.private import storage_key
from tfdbg_cli.engines.torch.record.holding import Holder


def _deleted() -> set[tuple[str, str]]:
    """Open files without a name; others' may go at any time."""
    found = set()
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            found.add((number, os.readlink(f"/proc/self/fd/{number}")))
    return {(number, path) for number, path in found if path.endswith("(deleted)")}


def test_the_file_is_closed_with_the_last_value_that_lies_there():
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", ResourceWarning)
        holder = Holder(limit=100)
        before = _deleted()
        values = []
        for number in range(3):
            tensor = torch.full((100,), float(number))
            values.append(holder.hold(tensor, storage_key(tensor)))
        assert holder.spilled_bytes
        assert _deleted() - before
        del holder
        gc.collect()
        assert values[0].get().tolist() == [0.0] * 100
        values.clear()
        gc.collect()
    assert not _deleted() - before
    assert [str(each.message) for each in told] == []
