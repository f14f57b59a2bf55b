"""False alarms and misses of ``compare``: ``python -m benchmarks.pairs [--write] [NAME ...]``.

Each program runs once, and keeps its runs; then both runs of a pair are compared as a gate of a CI
job would do it. Half of the pairs are equal programs that are written differently, or compute in
another precision: they have to pass. The others have a planted bug each, which has to be told by
the op, by the argument or by the line that is the bug.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks.pairs.listed import PAIRS, Pair
from tfdbg_cli.dumps.datum import Datum
from tfdbg_cli.dumps.dump import Dump
from tfdbg_cli.dumps.open import open_dump

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "compare.md"
_BEGIN, _END = "<!-- pairs -->\n", "<!-- /pairs -->\n"


class Result(NamedTuple):
    """What was said of a pair; by peers, whether each took the pair for unequal."""

    pair: Pair
    status: int
    told: str
    peers: tuple[bool, bool]

    @property
    def is_right(self) -> bool:
        """Whether an equal pair has passed, or a bug was told where it is."""
        if not self.pair.bug:
            return self.status == 0
        return self.status == 1 and bool(re.search(self.pair.bug, self.told))

    @property
    def verdict(self) -> str:
        """In a word or two."""
        if self.is_right:
            return "passes" if not self.pair.bug else "found"
        if not self.pair.bug:
            return "**false alarm**" if self.status == 1 else "**failed**"
        return "**missed**" if self.status == 0 else "**told elsewhere**"


def main() -> int:
    """Make the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pairs", description=__doc__)
    parser.add_argument("names", nargs="*", help="only pairs with these words in their names")
    parser.add_argument("--write", action="store_true", help="put the table into docs/compare.md")
    parser.add_argument("--keep", help="a folder for the runs, which are not made again")
    options = parser.parse_args()
    folder = Path(options.keep or tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    chosen = [each for each in PAIRS if all(name in str(each) for name in options.names)]
    results = []
    for pair in chosen:
        result = compared(pair, folder)
        results.append(result)
        print(f"{result.verdict:22} {pair.name:46} {result.told}", flush=True)
    lines = table(results)
    print("\n".join(lines[lines.index("") :]))
    if options.write:
        text = PAGE.read_text("utf-8")
        before, _, rest = text.partition(_BEGIN)
        after = rest.partition(_END)[2]
        PAGE.write_text(f"{before}{_BEGIN}{chr(10).join(lines)}\n{_END}{after}", "utf-8")
    return int(not all(each.is_right for each in results))


def compared(pair: Pair, folder: Path) -> Result:
    """Run both programs, if that wasn't done yet, and compare."""
    first, second = (kept(pair, variant, folder) for variant in (pair.first, pair.second))
    done = _debugger(["--batch", "--dump-dir", first, "--against", second], folder)
    told = [
        text
        for text in done.stdout.splitlines()
        if text.startswith(("They part at", "Its argument", "A  ", "B  ", "None of", "tfdbg"))
    ]
    if done.returncode not in (0, 1) or done.stderr.strip():
        told.append(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "?")
    peers = (
        any(map(_are_other_bits, *_runs(first, second))),
        any(map(_are_far, *_runs(first, second))),
    )
    return Result(pair, done.returncode, re.sub(r"(?<=\s)/\S*/", "", " | ".join(told)), peers)


def _runs(first: str, second: str) -> tuple[list[Dump], list[Dump]]:
    """The runs that both folders have, in order."""
    folders = [sorted(Path(each).glob("run_*")) for each in (first, second)]
    both = [*zip(*folders, strict=False)]
    return [open_dump(one) for one, _ in both], [open_dump(other) for _, other in both]


def _by_name(first: Dump, second: Dump) -> Iterator[tuple[Datum, Datum]]:
    """The tensors of the same names and shapes, as somebody would compare them by hand."""
    for datum in first.data():
        others = second.by_tensor(datum.tensor_name)
        if datum.execution < len(others) and not datum.is_view:
            other = others[datum.execution]
            if other.shape == datum.shape:
                yield datum, other


def _are_other_bits(first: Dump, second: Dump) -> bool:
    """What a log of hashes tells, such as DebugMode's with ``log_tensor_hashes``."""
    digests = ((first.digest(one), second.digest(two)) for one, two in _by_name(first, second))
    return any(one and two and one.hash != two.hash for one, two in digests)


def _are_far(first: Dump, second: Dump) -> bool:
    """What ``torch.testing.assert_close`` says of some tensor, as it is by default."""
    for pair in _by_name(first, second):
        arrays = [each.get_tensor() for each in pair]
        if not all(isinstance(each, np.ndarray) and each.dtype.kind in "biufcV" for each in arrays):
            continue
        values = [_tensor(each) for each in arrays]
        try:
            torch.testing.assert_close(*values, equal_nan=True, check_dtype=False)
        except AssertionError:
            return True
    return False


def _tensor(array: Any) -> torch.Tensor:
    try:
        return torch.from_numpy(np.array(array))
    except TypeError:  # NumPy has bfloat16 from elsewhere
        return torch.from_numpy(np.asarray(array).astype(np.float32))


def kept(pair: Pair, variant: str, folder: Path) -> str:
    """The runs of a program."""
    place = folder / f"{pair.engine}_{pair.model}_{variant}"
    if not place.exists():
        program = str(Path(__file__).with_name(f"{pair.engine}_pairs.py"))
        options = ["--batch", "--keep-dumps", "--dump-root", str(place), "-c", "run -k"]
        done = _debugger([*options, program, pair.model, variant], folder)
        if done.returncode:
            print(done.stderr[-2000:], file=sys.stderr)
    return str(place)


def _debugger(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    variables = {"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    variables |= {
        f"XDG_{name}_HOME": str(folder / "xdg") for name in ("CONFIG", "STATE", "DATA", "CACHE")
    }
    return subprocess.run(
        [sys.executable, "-m", "tfdbg_cli", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env=os.environ | variables,
    )


def table(results: list[Result]) -> list[str]:
    """The table of the page, and the sums."""
    lines = [
        "| engine | pair | bug | compare | hashes | assert_close |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for result in results:
        pair = result.pair
        bug = "yes" if pair.bug else "no"
        peers = " | ".join("differs" if each else "equal" for each in result.peers)
        lines.append(f"| {pair.engine} | {pair.words} | {bug} | {result.verdict} | {peers} |")
    equal = [each for each in results if not each.pair.bug]
    bugs = [each for each in results if each.pair.bug]
    wolves = sum(not each.is_right for each in equal)
    missed = sum(each.status == 0 for each in bugs)
    elsewhere = sum(not each.is_right for each in bugs) - missed
    lines += [
        "",
        f"{len(results)} pairs. Without a bug: {len(equal)}, false alarms: {wolves}. With a bug:"
        f" {len(bugs)}, missed: {missed}, told elsewhere: {elsewhere}.",
    ]
    for at, name in enumerate(("Hashes", "assert_close")):
        wolves = sum(each.peers[at] for each in equal)
        missed = sum(not each.peers[at] for each in bugs)
        lines.append(
            f"{name}, of tensors of one name and shape: false alarms: {wolves}, missed: {missed}."
        )
    return lines


if __name__ == "__main__":
    sys.exit(main())
