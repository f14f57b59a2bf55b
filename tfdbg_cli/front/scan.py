"""``tfdbg scan TREE``: which of many dumps have tensors that pass a filter."""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.common.printable import printable
from tfdbg_cli.common.streams import tell
from tfdbg_cli.front.options import WRONG_USE, OptionParser

if TYPE_CHECKING:
    from tfdbg_cli.scanning.scan import Progress

__all__ = ["main"]

# Exit statuses, as those of --check.
_PROBLEMS, _FOUND = 1, 3
# Rows that a person reads.
_MOST_ROWS = 50


def _make_parser() -> OptionParser:
    parser = OptionParser(
        prog="tfdbg scan",
        description="Look for tensors that pass a filter in all dumps of a tree of folders.",
        epilog="Exit status: 0 when no tensor has passed, 3 when one has, 1 when a dump couldn't be"
        " read or TREE has none, 2 for a wrong command line.",
    )
    add = parser.add_argument
    add("tree", metavar="TREE", help="a folder with dumps at any depth: ranks, steps, experiments")
    add(
        *("-f", "--filter"),
        default="has_inf_or_nan",
        metavar="NAME",
        help="the filter (default: %(default)s)",
    )
    add(
        "--filters",
        action="append",
        default=[],
        metavar="FILE",
        help="a Python file with filters of your own; repeatable",
    )
    add(
        "--executor",
        default="processes",
        metavar="WHO",
        help="who does the work: threads, processes, dask://HOST:PORT, mpi, or MODULE:FACTORY,"
        " which makes a concurrent.futures.Executor (default: %(default)s)",
    )
    add("--jobs", type=int, metavar="N", help="threads or processes (default: one per core)")
    add(
        "--index",
        metavar="FILE",
        help="where to keep what is found; what is in there isn't scanned again (default:"
        " TREE/tfdbg-scan.jsonl)",
    )
    add("--json", action="store_true", help="print what was found as a line of JSON per dump")
    return parser


def main(argv: Sequence[str]) -> int:
    """Scan a tree of dumps and print what was found.

    Args:
        argv: what stands behind ``scan``.

    Returns:
        The exit status.

    Raises:
        SystemExit: a wrong command line.
        KeyboardInterrupt: what was found until then is in the index.
    """
    from tfdbg_cli.scanning.executors import make_executor
    from tfdbg_cli.scanning.index import Index
    from tfdbg_cli.scanning.scan import scan
    from tfdbg_cli.scanning.tree import INDEX_NAME

    options = _make_parser().parse_args(argv)
    files = [os.path.abspath(path) for path in options.filters]
    tree = os.path.abspath(os.path.expanduser(options.tree))
    progress = _Bar()
    try:
        if "://" in options.tree:
            hint = "Mount it, or copy it: tfdbg --dump-dir reads one address at a time."
            raise UserError("scan reads folders, not addresses.", hint)
        if options.jobs is not None and options.jobs < 1:
            raise UserError("--jobs takes a number from 1 on.")
        if not os.path.isdir(tree):
            raise UserError(f"there is no folder {options.tree}.")
        _check_filter(options.filter, files)
        index = Index(options.index or os.path.join(tree, INDEX_NAME), options.filter)
        try:
            make = functools.partial(make_executor, options.executor, options.jobs)
            found = scan(tree, index, options.filter, files, make, progress)
        finally:
            progress.end()
            index.close()
    except UserError as error:
        tell(printable(" ".join(str(error).split())))
        return WRONG_USE
    if options.json:
        for each in found:
            print(json.dumps(each))
    else:
        _print(found, options.filter)
    if any(each.get("passed") for each in found):
        return _FOUND
    return _PROBLEMS if any(each.get("problems") for each in found) else 0


def _check_filter(name: str, files: Sequence[str]) -> None:
    """Whether there is the filter, before anybody is sent to work.

    Raises:
        UserError: there isn't.
    """
    from tfdbg_cli.scanning.work import scan_folders

    scan_folders("", [], name, files)


def _print(found: Sequence[dict[str, object]], filter_name: str) -> None:
    hits = [each for each in found if each.get("passed")]
    width = max((len(str(each["folder"])) for each in hits[:_MOST_ROWS]), default=0)
    for each in hits[:_MOST_ROWS]:
        first: list[dict[str, object]] = each["first"]  # type: ignore[assignment]
        name, op = first[0]["tensor"], first[0]["op"]
        row = f"{each['folder']!s:{width}}  {each['passed']:>6} of {each['tensors']}"
        print(printable(f"{row}  first {name}" + (f" ({op})" if op else "")))
    if len(hits) > _MOST_ROWS:
        print(f"... and {len(hits) - _MOST_ROWS} more; --json prints all")
    for each in found:
        problems: list[str] = each.get("problems", [])  # type: ignore[assignment]
        if problems:
            tell(printable(f"{each['folder']}: {problems[0]}"))
    print(f"{len(hits)} of {len(found)} dumps have tensors that pass {filter_name}.")
    if hits:
        print("tfdbg --dump-dir opens one; there, lt -f lists its tensors.")


class _Bar:
    """Tells on a terminal how far a scan has come, how fast, and how long it will take."""

    def __init__(self) -> None:
        self._is_shown = sys.stderr.isatty()
        self._start = time.monotonic()
        self._width = 0

    def __call__(self, at: Progress) -> None:
        if not self._is_shown:
            return
        seconds = max(time.monotonic() - self._start, 1e-6)
        rate = at.done_bytes / seconds
        left = (at.all_bytes - at.done_bytes) / rate if rate else 0.0
        filled = 20 * at.done // at.all
        text = (
            f"[{'#' * filled:20}] {at.done} of {at.all} dumps, {rate / 1e6:.0f} MB/s, "
            f"{left:.0f} s left"
        )
        self._width = max(self._width, len(text))
        print(f"\r{text:{self._width}}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._width:
            print(f"\r{'':{self._width}}\r", end="", file=sys.stderr, flush=True)
