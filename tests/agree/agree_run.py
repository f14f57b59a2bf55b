"""``scripts/agree``: what the levels of each engine tell of programs by chance, side by side."""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import threading
import time
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from agree_kit import Difference, differences, draw, shrunk  # noqa: E402
from agree_ops import DIALECTS  # noqa: E402
from long_run import INTERRUPTED, Progress, in_threads, interruptible, stopping  # noqa: E402

FILTERS = ("has_inf_or_nan", "origin_of_nonfinite")
# Of a kind of difference so many are made smaller and shown.
_MOST_SHOWN = 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/agree",
        description="Lets each level of an engine tell the first bad tensor of programs by chance, "
        "and shows where one tells something else than the level of everything. 1: one does.",
    )
    add = parser.add_argument
    add("engine", nargs="*", metavar="ENGINE", help=f"{', '.join(DIALECTS)} (default: all)")
    add("--seconds", type=float, metavar="N", help="stop after so long (default: 60)")
    add("--programs", type=int, metavar="N", help="stop after so many programs of each engine")
    add("--seed", type=int, metavar="N", help="of the programs (default: another each time)")
    add(
        "--batch", type=int, default=100, metavar="N", help="programs of one process (default: 100)"
    )
    add("--jobs", type=int, default=2, metavar="N", help="processes at a time (default: 2)")
    return parser


def _words(found: Difference, seed: str) -> str:
    told, exact = (
        f"{each.first or 'nothing'} ({each.began})" for each in (found.told, found.exact)
    )
    told = f"{told}, everything: {exact}"
    program = found.program
    head = f"{program.engine} {found.level} {found.filter_name}: {told}"
    return f"{head} (seed {seed}, {program.shape}, {program.dtype}){program.text(0)}"


def main() -> int:
    """The command line; 1: a level tells something else."""
    parser = _parser()
    options = parser.parse_args()
    if unknown := set(options.engine) - set(DIALECTS):
        parser.error(f"there is no engine named {', '.join(sorted(unknown))}")
    interruptible()
    engines = options.engine or list(DIALECTS)
    seed = options.seed if options.seed is not None else random.randrange(1 << 30)
    until = time.monotonic() + (options.seconds or (60 if options.programs is None else 1e9))
    batches = itertools.count()
    lock, shown = threading.Lock(), Counter[tuple[str, str]]()
    counts: dict[str, Counter[str]] = {engine: Counter() for engine in engines}
    at: dict[Path, str] = {}

    def told() -> str:
        done = sum(each["programs"] for each in counts.values())
        return f"{done} programs, {sum(shown.values())} differences: {', '.join(at.values())}"

    def work(folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        while not stopping.is_set() and time.monotonic() < until:
            number = next(batches)
            engine = engines[number % len(engines)]
            first = number // len(engines) * options.batch
            size = options.batch
            if options.programs is not None:
                size = min(size, options.programs - first)
                if first >= options.programs:
                    return
            at[folder] = f"{engine} {first} to {first + size}"
            names = [f"{seed}-{first + each}" for each in range(size)]
            programs = [draw(engine, name) for name in names]
            filter_name = FILTERS[number // len(engines) % len(FILTERS)]
            found, kinds = differences(programs, filter_name, folder)
            with lock:
                counts[engine].update(kinds)
                counts[engine]["differences"] += len(found)
            for each in found:
                with lock:
                    shown[engine, each.level] += 1
                    is_shown = shown[engine, each.level] <= _MOST_SHOWN
                if is_shown:
                    name = names[programs.index(each.program)]
                    progress.print(_words(shrunk(each, folder), name))
            at.pop(folder, None)

    is_whole = True
    with Progress(told) as progress:
        try:
            in_threads(options.jobs, work)
        except KeyboardInterrupt:
            is_whole = False
    print(f"seed {seed}")
    for engine, kinds in counts.items():
        print(
            f"{engine}: {kinds['programs']} programs, {kinds['bad']} with something bad, "
            f"{kinds['hidden']} where it doesn't come out ({kinds['unseen']} unseen by contract), "
            f"{kinds['failed']} that failed; {kinds['differences']} differences"
        )
    if not is_whole:
        return INTERRUPTED
    return int(any(kinds["differences"] for kinds in counts.values()))


if __name__ == "__main__":
    sys.exit(main())
