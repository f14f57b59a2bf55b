"""What a worker does: a filter over the tensors of some dumps."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from tfdbg_cli.common.errors import UserError, one_line
from tfdbg_cli.dumps.open import open_dump
from tfdbg_cli.filters.registry import FilterRegistry, load_filters
from tfdbg_cli.scanning.tree import Folder

__all__ = ["Finding", "scan_folders"]

#: A row of the index: what was found in a dump, in what JSON has.
Finding = dict[str, Any]

_NAMED = 20


def scan_folders(
    tree: str, folders: Sequence[Folder], filter_name: str, files: Sequence[str]
) -> list[Finding]:
    """Look for the tensors that pass a filter in some dumps of a tree.

    Args:
        tree: as the worker sees it.
        folders: dumps in it.
        filter_name: of the filter.
        files: of filters of the user's.

    Raises:
        UserError: there is no such filter.
    """
    registry = FilterRegistry()
    for path in files:
        load_filters(path, registry)
    predicate = registry.predicate(filter_name)
    return [_scanned(tree, folder, predicate) for folder in folders]


def _scanned(tree: str, folder: Folder, predicate: Any) -> Finding:
    finding: Finding = {"folder": folder.path, "state": folder.state, "bytes": folder.size}
    failures: list[str] = []
    try:
        dump = open_dump(os.path.join(tree, folder.path), validate=False)
        found = dump.find(
            predicate,
            on_error=lambda datum, error: failures.append(
                f"{datum.tensor_name}: {one_line(error)}"
            ),
        )
        finding["tensors"] = len(dump.data())
        finding["passed"] = len(found)
        finding["first"] = [
            {
                "tensor": datum.tensor_name,
                "op": dump.op_type(datum.node_name),
                "dtype": datum.dtype,
                "shape": None if datum.shape is None else list(datum.shape),
            }
            for datum in found[:_NAMED]
        ]
        problems = [*dump.warnings, *failures]
    except UserError as error:
        problems = [str(error)]
    except Exception as error:  # a damaged dump is a row that says so
        problems = [one_line(error)]
    if problems:
        finding["problems"] = problems[:_NAMED]
    return finding
