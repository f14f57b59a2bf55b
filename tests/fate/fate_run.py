"""What ``scripts/fate`` does: all scripts in all ways, or programs that are made up."""

from __future__ import annotations

import argparse
import queue
import re
import sys
import threading
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

from fate_kit import WAYS, Fate, Script, corpus, engine_of
from long_run import INTERRUPTED, Progress, in_threads, interruptible


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/fate",
        description="Run scripts plain and debugged in several ways; print what differs.",
    )
    add = parser.add_argument
    add("-k", metavar="REGEX", default="", help="only scripts whose theme/name matches")
    add("-w", metavar="WAY", action="append", choices=WAYS, help=f"one of {', '.join(WAYS)}")
    add("-j", metavar="JOBS", type=int, default=2, help="scripts at a time (default: 2)")
    add("--forked", action="store_true", help="don't import the frameworks each time: faster")
    add("--list", action="store_true", help="print the names of the scripts")
    add("--generate", metavar="N", type=int, help="make up N programs for each engine")
    add("--engine", action="append", help="with --generate: only this one")
    add("--seed", type=int, help="with --generate: make up the same programs each time")
    return parser


def _compare(scripts: list[Script], ways: list[str], jobs: int, forked: bool) -> int:
    waiting: queue.SimpleQueue[Script] = queue.SimpleQueue()
    for script in scripts:
        waiting.put(script)
    found: list[str] = []
    known: list[str] = []
    tried: set[Script] = set()
    at: dict[Path, str] = {}
    comparisons = 0
    lock = threading.Lock()
    begun = time.monotonic()

    def told() -> str:
        return (
            f"{comparisons} of {len(scripts) * len(ways)} comparisons, {len(found)} found: "
            f"{', '.join(at.values())}"
        )

    def work(folder: Path) -> None:
        nonlocal comparisons
        fate = Fate(folder, forked)
        try:
            while True:
                try:
                    script = waiting.get_nowait()
                except queue.Empty:
                    break
                for way in ways:
                    at[folder] = f"{script.name} {way}"
                    difference = fate.difference(script, way)
                    with lock:
                        comparisons += 1
                        tried.add(script)
                        note(script, way, difference)
                fate.forget(script)
        finally:
            at.pop(folder, None)
            fate.close()

    def note(script: Script, way: str, difference: str) -> None:
        if not difference:
            return
        told_before = any(difference.partition("\n")[2] in each for each in found)
        if why := script.known(way):
            known.append(difference)
            progress.print(f"{script.name}, {way}: known: {why}\n")
            return
        found.append(difference)
        head = difference.partition("\n")[0]
        progress.print(f"{f'{head}: as before' if told_before else difference}\n")

    is_whole = True
    with Progress(told) as progress:
        try:
            in_threads(jobs, work)
        except KeyboardInterrupt:
            is_whole = False
    unsteady = sum("differs from itself" in each for each in found)
    engines = dict.fromkeys(map(engine_of, scripts), 0)
    for script in tried:
        engines[engine_of(script)] += 1
    print(
        ("" if is_whole else f"Ended early, of {len(scripts)} scripts: ")
        + f"{len(tried)} scripts ({', '.join(f'{n} {e}' for e, n in engines.items() if n)}),"
        f" {len(ways)} ways, {comparisons} comparisons:"
        f" {len(found) - unsteady} differences, {len(known)} known ones,"
        f" {unsteady} of scripts that differ from themselves;"
        f" {time.monotonic() - begun:.0f} s"
    )
    return int(bool(found)) if is_whole else INTERRUPTED


def main() -> int:
    """The command line; 1: something differed."""
    options = _parser().parse_args()
    interruptible()
    if options.generate:
        from fate_programs import generate

        return generate(options.generate, options.engine, options.seed, options.w)
    chosen = [script for script in corpus() if re.search(options.k, script.name)]
    missing = {name: [s for s in chosen if name in s.missing] for s in chosen for name in s.missing}
    for name, left_out in missing.items():
        print(f"{name} isn't installed: {len(left_out)} scripts left out", file=sys.stderr)
    chosen = [script for script in chosen if not script.missing]
    if options.list:
        print(*(script.name for script in chosen), sep="\n")
        return 0
    return _compare(chosen, options.w or list(WAYS), options.j, options.forked)


if __name__ == "__main__":
    sys.exit(main())
