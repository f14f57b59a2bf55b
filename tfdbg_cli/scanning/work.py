"""What a worker does: a filter over the tensors of some dumps, or those of other dumps beside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from tfdbg_cli.common.errors import UserError, one_line
from tfdbg_cli.comparing.alignment import Renamed, align
from tfdbg_cli.comparing.bars import Bars
from tfdbg_cli.comparing.comparison import Comparison, Row
from tfdbg_cli.comparing.digests import digest_in
from tfdbg_cli.comparing.shards import side_by_side
from tfdbg_cli.comparing.verdicts import verdict
from tfdbg_cli.dumps.dump import Datum, Dump, noted
from tfdbg_cli.filters.registry import FilterRegistry, load_filters
from tfdbg_cli.scanning.tree import Folder, opened, opened_pair

__all__ = ["NAMED", "Finding", "compare_folders", "merged", "scan_folders"]

#: A row of the index: what was found in a dump, in what JSON has.
Finding = dict[str, Any]

#: So many tensors of a dump are named.
NAMED = 20


def scan_folders(
    tree: str, filter_name: str, files: Sequence[str], folders: Sequence[Folder]
) -> list[Finding]:
    """Look for the tensors that pass a filter in some dumps of a tree.

    Args:
        tree: as the worker sees it.
        filter_name: of the filter.
        files: of filters of the user's.
        folders: dumps in it, or parts of dumps.

    Raises:
        UserError: there is no such filter.
    """
    registry = FilterRegistry()
    for path in files:
        load_filters(path, registry)
    look = partial(_scanned, tree, registry.predicate(filter_name))
    return [_found(folder, look) for folder in folders]


def compare_folders(
    tree: str, other: str, bars: Bars, renamed: Renamed, folders: Sequence[Folder]
) -> list[Finding]:
    """Say where some dumps of a tree part from those of the same paths in another one.

    Args:
        tree, other: as the worker sees them.
        bars: how far two tensors may be apart.
        renamed: as `align` takes it.
        folders: dumps in the first one.
    """
    look = partial(_compared, tree, other, bars, renamed)
    return [_found(folder, look) for folder in folders]


def merged(parts: Sequence[Finding]) -> Finding:
    """What was found in a dump, of what was found in its parts, in their order."""
    whole = {name: value for name, value in parts[0].items() if name != "part"}
    if len(parts) > 1:
        whole["passed"] = sum(each.get("passed", 0) for each in parts)
        for name in ("first", "problems"):
            found = [one for each in parts for one in each.get(name, ())]
            whole[name] = list({str(one): one for one in found}.values())[:NAMED]
        whole["bytes"] = sum(each["bytes"] for each in parts)
    return whole


def _found(folder: Folder, look: Callable[[Folder, Finding], Iterator[str]]) -> Finding:
    finding: Finding = {"folder": folder.path, "state": folder.state, "bytes": folder.size}
    if folder.part != (0, 1):
        finding["part"] = list(folder.part)
    problems: list[str] = []
    try:
        problems.extend(look(folder, finding))
    except UserError as error:
        problems.append(str(error))
    except Exception as error:  # a damaged dump is a row that says so
        problems.append(one_line(error))
    if problems:
        finding["problems"] = problems[:NAMED]
    return finding


def _scanned(tree: str, predicate: Any, folder: Folder, finding: Finding) -> Iterator[str]:
    failures: list[str] = []
    with opened(tree, folder.path) as dump:
        found = list(dump.iter_find(predicate, on_error=noted(failures), part=folder.part))
        finding["tensors"] = len(dump.data())
        finding["passed"] = len(found)
        finding["first"] = [_named(dump, datum) for datum in found[:NAMED]]
        yield from (*dump.warnings, *failures)


def _compared(
    tree: str, other: str, bars: Bars, renamed: Renamed, folder: Folder, finding: Finding
) -> Iterator[str]:
    with opened_pair((tree, other), folder) as both:
        first, second = side_by_side(*both)
        if any(folder.ranks):
            finding["ranks"] = sum(map(len, folder.ranks))
        pairs = align(first, second, renamed)
        finding["tensors"] = sum(one is not None and two is not None for one, two, *_ in pairs)
        comparison = Comparison(first, second, pairs, bars)
        row = comparison.first_apart()
        finding["passed"] = int(row is not None)
        if row is not None:
            finding["said"] = row.said
            found = comparison.exact(row).gap
            # An infinity on one side has no distance.
            finding["max_abs"] = None if found.is_bad else float(found.max_abs)
            bad = [*_bad_of(comparison, row)]
            told = verdict(comparison, row)
            lines = [each and f"{each.file}:{each.line}" for each in told.places]
            finding |= {"bad": bad} if any(bad) else {}
            finding |= {"arguments": [[*each] for each in told.arguments]} if told.arguments else {}
            finding |= {"lines": lines} if any(lines) else {}
            finding["first"] = [_named(first, row.datum)]
        elif not finding["tensors"]:
            yield "no tensor of one is one of the other."
        yield from (*first.warnings, *second.warnings)


def _bad_of(comparison: Comparison, row: Row) -> Iterator[int]:
    """How many elements of a tensor are NaN or infinite, in each of two runs."""
    for side, datum in zip(comparison.sides, row.pair[:2], strict=True):
        known = digest_in(side.dump, datum) if datum is not None else None
        yield sum(known.bad) if known is not None else 0


def _named(dump: Dump, datum: Datum) -> dict[str, Any]:
    dumps = dump.by_tensor(datum.tensor_name)
    return {
        "tensor": datum.tensor_name,
        **({"number": dumps.index(datum)} if len(dumps) > 1 else {}),
        "op": dump.op_type(datum.node_name),
        "dtype": datum.dtype,
        "shape": None if datum.shape is None else list(datum.shape),
    }
