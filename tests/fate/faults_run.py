"""What ``scripts/faults`` does: each call of the debugger's fails once, or a signal comes in."""

from __future__ import annotations

import argparse
import queue
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from fault_kit import Call, Faults, may_mount
from fault_situations import LIMITS, MODES, PROGRAMS, SIGNALS, SITUATIONS, is_sensible

_FEW = 5
_FEW_HELP = f"only {_FEW} of the calls from each place that begins so: engines/registry.py"
# After so many it is said how far it has come.
_NEWS = 50


def _range(text: str) -> range:
    first, dash, last = text.partition("-")
    return range(int(first), int(last or sys.maxsize) + 1 if dash else int(first) + 1)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/faults",
        description="Let calls to the system fail, one by one; print what that did to programs.",
    )
    add = parser.add_argument
    add("-e", metavar="ENGINE", action="append", choices=PROGRAMS, help=", ".join(PROGRAMS))
    add("-s", metavar="SITUATION", action="append", choices=SITUATIONS, help=", ".join(SITUATIONS))
    add("-m", metavar="MODE", action="append", choices=(*MODES, *SIGNALS))
    add("--limits", action="store_true", help="the system itself gives less: descriptors, memory …")
    add("-n", metavar="N[-M]", type=_range, help="only the N-th call, or those from there on")
    add("--each", metavar="K", type=int, help="only K of the calls from each place")
    add("--few", metavar="PLACE", action="append", default=[], help=_FEW_HELP)
    add("--step", metavar="K", type=int, default=1, help="only each K-th call")
    add("-j", metavar="JOBS", type=int, default=2, help="programs at a time (default: 2)")
    return parser


def _numbers(calls: Sequence[Call], each: int | None, few: Sequence[str]) -> list[int]:
    """Those that are tried, from 1; of imports there are as many as of a place."""
    places: dict[object, list[int]] = {}
    for number, call in enumerate(calls, 1):
        places.setdefault(call.kind if call.kind == "import" else call, []).append(number)
    chosen: list[int] = []
    for place, numbers in places.items():
        count = min(each or len(numbers), len(numbers))
        if isinstance(place, Call) and place.place.startswith(tuple(few)):
            count = min(_FEW, count)
        chosen += (numbers[at * len(numbers) // count] for at in range(count))
    return sorted(chosen)


def main() -> int:
    """The command line; 1: something was wrong."""
    options = _parser().parse_args()
    waiting: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
    for engine in options.e or PROGRAMS:
        for situation in options.s or SITUATIONS:
            if is_sensible(engine, situation):
                waiting.put((engine, situation))
    modes = () if options.limits else options.m or (*MODES, *SIGNALS)
    counts = dict.fromkeys(modes, 0)
    found: set[str] = set()
    lock = threading.Lock()
    begun = time.monotonic()

    def note(wrong: str, kind: str) -> None:
        if wrong and kind not in found:
            print(f"{wrong}\n", flush=True)
            found.add(kind)

    def limited(faults: Faults, folder: Path, engine: str, name: str) -> None:
        for limit, values in LIMITS.items():
            if limit == "AS" and engine != "numpy":  # their C++ may abort where there is none
                continue
            if limit == "DISK" and not may_mount(folder):
                print("no disk of its own can be had here: DISK isn't tried")
                continue
            tried = 0
            for value in values[:: options.step]:
                wrong = faults.limited(limit, value)
                with lock:
                    tried += wrong is not None
                    note(wrong or "", f"{name} {limit}")
            counts[limit] = counts.get(limit, 0) + tried
            print(f"{name} {limit}: {tried} of {len(values)} values", flush=True)
        faults.close()

    def work(folder: Path) -> None:
        while not waiting.empty():
            engine, situation = waiting.get()
            (folder / f"{engine}-{situation}").mkdir(parents=True)
            faults = Faults(folder / f"{engine}-{situation}", engine, situation)
            if options.limits:
                limited(faults, folder, engine, f"{engine} {situation}")
                continue
            numbers = _numbers(faults.calls, options.each, options.few)[:: options.step]
            numbers = [number for number in numbers if not options.n or number in options.n]
            for mode in modes:
                if not is_sensible(engine, situation, mode):
                    continue
                for done, number in enumerate(numbers):
                    if done and not done % _NEWS:
                        print(f"{engine} {situation} {mode}: {done} calls so far", flush=True)
                    wrong = faults.found(number, mode)
                    with lock:
                        counts[mode] += 1
                        note(wrong, wrong.partition(" (")[2] + mode)
                told = f"{len(numbers)} of {len(faults.calls)} calls"
                print(f"{engine} {situation} {mode}: {told}", flush=True)
            faults.close()

    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        workers = [
            threading.Thread(target=work, args=(Path(folder) / str(number),))
            for number in range(options.j)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    print(
        f"{sum(counts.values())} points ({', '.join(f'{n} {mode}' for mode, n in counts.items())}):"
        f" {len(found)} kinds of defects; {time.monotonic() - begun:.0f} s"
    )
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
