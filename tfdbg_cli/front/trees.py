"""What is done with many dumps: ``tfdbg scan TREE`` and ``tfdbg compare TREE_A TREE_B``."""

from __future__ import annotations

import argparse
import functools
import json
import os
import sys
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.common.printable import printable
from tfdbg_cli.common.streams import tell
from tfdbg_cli.front.options import WRONG_USE, OptionParser, add_terms

if TYPE_CHECKING:
    from tfdbg_cli.scanning.scan import Do, Progress
    from tfdbg_cli.scanning.tree import Folder
    from tfdbg_cli.scanning.work import Finding

__all__ = ["compare_main", "scan_main"]

# Exit statuses: of a scan those of --check, of a comparison those of --against.
_PROBLEMS, _FOUND = 1, 3
# Rows that a person reads.
_MOST_ROWS = 50
_TREE = "a folder with dumps at any depth (ranks, steps, experiments), or its address (s3://…)"


def scan_main(argv: Sequence[str]) -> int:
    """``tfdbg scan``: which dumps of a tree have tensors that pass a filter.

    Args:
        argv: what stands behind ``scan``.

    Returns:
        The exit status.

    Raises:
        SystemExit: a wrong command line.
        KeyboardInterrupt: what was found until then is in the index.
    """
    parser = OptionParser(
        prog="tfdbg scan",
        description="Look for tensors that pass a filter in all dumps of a tree of folders.",
        epilog="Exit status: 0 when no tensor has passed, 3 when one has, 1 when a dump couldn't be"
        " read or TREE has none, 2 for a wrong command line.",
    )
    add = parser.add_argument
    add("tree", metavar="TREE", help=_TREE)
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
    _add_shared(parser, "TREE/tfdbg-scan.jsonl")
    options = parser.parse_args(argv)
    return _reported(options, _scan)


def compare_main(argv: Sequence[str]) -> int:
    """``tfdbg compare``: which dumps of two trees part, and where. Otherwise as `scan_main`."""
    parser = OptionParser(
        prog="tfdbg compare",
        description="Compare each dump of a tree of folders with the one at the same path in "
        "another tree, and say where the two part. Where one of the trees has rank_0, rank_1 ... "
        "and the other one dump, the parts of the ranks are joined.",
        epilog="Exit status: 0 when all are within the bar, 1 when some aren't or couldn't be"
        " compared, 2 for a wrong command line.",
    )
    add = parser.add_argument
    add("tree", metavar="TREE_A", help=_TREE)
    add("other", metavar="TREE_B", help="another one")
    add_terms(parser)
    _add_shared(parser, "TREE_A/tfdbg-compare.jsonl")
    options = parser.parse_args(argv)
    return _reported(options, _compare)


def _add_shared(parser: OptionParser, index: str) -> None:
    add = parser.add_argument
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
        help=f"file for the findings; dumps in it aren't done again (default: {index})",
    )
    add("--json", action="store_true", help="print the findings as a line of JSON per dump")


def _reported(options: argparse.Namespace, do: Callable[[argparse.Namespace], int]) -> int:
    try:
        if options.jobs is not None and options.jobs < 1:
            raise UserError("--jobs takes a number from 1 on.")
        return do(options)
    except UserError as error:
        tell(printable(" ".join(str(error).split())))
        return WRONG_USE


def _scan(options: argparse.Namespace) -> int:
    from tfdbg_cli.scanning.work import scan_folders

    files = [os.path.abspath(path) for path in options.filters]
    tree = _tree(options.tree)
    do = functools.partial(_work, scan_folders, tree, options.filter, files)
    do([])  # whether there is the filter, before anybody is sent to work
    about: dict[str, Any] = {"filter": options.filter}
    if files:
        about["files"] = [zlib.crc32(Path(path).read_bytes()) for path in files]
    folders = _folders(tree, options.tree)
    found = _done(options, tree, about, folders, do, has_parts=True)
    if not options.json:
        _print(found, _scanned_row)
        hits = sum(bool(each.get("passed")) for each in found)
        print(f"{hits} of {len(found)} dumps have tensors that pass {options.filter}.")
        if hits:
            print("tfdbg --dump-dir opens one; there, lt -f lists its tensors.")
    if any(each.get("passed") for each in found):
        return _FOUND
    return _PROBLEMS if any(each.get("problems") for each in found) else 0


def _compare(options: argparse.Namespace) -> int:
    from tfdbg_cli.comparing.terms import Terms
    from tfdbg_cli.scanning.tree import pairs_of
    from tfdbg_cli.scanning.work import compare_folders

    terms = Terms.of(options)
    bars, renamed = terms.bars(), terms.renamed()
    tree, other = _tree(options.tree), _tree(options.other)
    do = functools.partial(_work, compare_folders, tree, other, bars, renamed)
    folders, beside = pairs_of(_folders(tree, options.tree), _folders(other, options.other))
    about = {"against": other, "bars": repr(bars)}
    if renamed:
        about["map"] = repr([(pattern.pattern, name) for pattern, name in renamed])
    found = _done(options, tree, about, folders, do, has_parts=False)
    if not options.json:
        _print(found, _compared_row)
        hits = [each for each in found if each.get("passed")]
        print(f"{len(hits)} of {len(found)} dumps part from those in {options.other}.")
        if hits:
            print("tfdbg --dump-dir A --against B, with two dumps, shows where.")
    if beside:
        names = ", ".join(each.path for each in beside[:3]) + (", …" if len(beside) > 3 else "")
        tell(printable(f"{len(beside)} dump(s) are only in {options.other}: {names}"))
    is_apart = any(each.get("passed") or each.get("problems") for each in found)
    return _PROBLEMS if is_apart or beside else 0


def _work(do: Callable[..., list[Finding]], *arguments: Any) -> list[Finding]:
    """What a worker does, wherever it is: it has to know what the ops of engines are."""
    from tfdbg_cli.engines import registry  # noqa: F401

    return do(*arguments)


def _tree(text: str) -> str:
    from tfdbg_cli.dumps.remote.systems import is_remote

    return text.rstrip("/") if is_remote(text) else os.path.abspath(os.path.expanduser(text))


def _folders(tree: str, text: str) -> list[Folder]:
    """The dumps of a tree.

    Raises:
        UserError: there are none.
    """
    from tfdbg_cli.dumps.remote.systems import is_remote
    from tfdbg_cli.scanning.tree import find_folders

    if not is_remote(tree) and not os.path.isdir(tree):
        raise UserError(f"there is no folder {text}.")
    folders = list(find_folders(tree))
    if not folders:
        raise UserError(f"there is no dump in {text}.")
    return folders


def _done(
    options: argparse.Namespace,
    tree: str,
    about: Mapping[str, Any],
    folders: Sequence[Folder],
    do: Do,
    *,
    has_parts: bool,
) -> list[Finding]:
    """Let it be done, and give what was found; `--json` prints it."""
    from tfdbg_cli.dumps.files import is_inside
    from tfdbg_cli.dumps.remote.systems import is_remote
    from tfdbg_cli.scanning.executors import end_in_order, make_executor
    from tfdbg_cli.scanning.index import Index
    from tfdbg_cli.scanning.scan import scan
    from tfdbg_cli.scanning.tree import INDEX_NAMES, joined

    name = INDEX_NAMES["against" in about]
    make = functools.partial(make_executor, options.executor, options.jobs)
    place = options.index or joined(tree, name)
    if not options.index and not is_remote(tree) and not is_inside(place, tree):
        raise UserError(f"{place} leads out of the tree.", "Name another file with --index.")
    index = Index(place, about)
    progress = _Bar()
    try:
        found = scan(folders, index, do, make, progress, has_parts=has_parts)
    except KeyboardInterrupt:
        progress.end()
        tell(printable(f"interrupted; the same command goes on from {place}."))
        raise
    finally:
        progress.end()
        index.close()
    end_in_order(options.executor)
    if options.json:
        for each in found:
            print(json.dumps(each))
    return found


def _print(found: Sequence[Finding], row: Callable[[Finding], str]) -> None:
    hits = [each for each in found if each.get("passed")]
    width = max((len(str(each["folder"])) for each in hits[:_MOST_ROWS]), default=0)
    for each in hits[:_MOST_ROWS]:
        print(printable(f"{each['folder']!s:{width}}  {row(each)}"))
    if len(hits) > _MOST_ROWS:
        print(f"... and {len(hits) - _MOST_ROWS} more; --json prints all")
    for each in found:
        if each.get("problems"):
            tell(printable(f"{each['folder']}: {each['problems'][0]}"))


def _scanned_row(found: Finding) -> str:
    return f"{found['passed']:>6} of {found['tensors']}  first {_named(found)}"


def _compared_row(found: Finding) -> str:
    texts = [f"{found['said']:<13}  {_named(found)}"]
    if found["max_abs"] is not None:
        texts.append(f"max abs {found['max_abs']:.3g}")
    if any(found.get("bad", ())):
        texts.append(" | ".join(str(count or "ok") for count in found["bad"]) + " bad")
    texts += [f"{name} {one} in A, {two} in B" for name, one, two in found.get("arguments", ())]
    lines = [each for each in found.get("lines", ()) if each]
    texts += [" | ".join(dict.fromkeys(lines))] * bool(lines)
    if found.get("ranks"):
        texts.append(f"({found['ranks']} ranks joined)")
    return "  ".join(texts)


def _named(found: Finding) -> str:
    first = found["first"][0]
    return f"{first['tensor']} ({first['op']})" if first["op"] else f"{first['tensor']}"


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
        filled = int(20 * at.done / at.all)
        text = (
            f"[{'#' * filled:20}] {at.done:.0f} of {at.all:.0f} dumps, {rate / 1e6:.0f} MB/s, "
            f"{left:.0f} s left"
        )
        self._width = max(self._width, len(text))
        print(f"\r{text:{self._width}}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._width:
            print(f"\r{'':{self._width}}\r", end="", file=sys.stderr, flush=True)
