"""What ``scripts/faults`` does: each call of the debugger's fails once, or a signal comes in."""

from __future__ import annotations

import argparse
import contextlib
import queue
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

from fault_kit import Call, Faults, may_mount
from fault_situations import LIMITS, MODES, PROGRAMS, SIGNALS, SITUATIONS, is_sensible
from long_run import INTERRUPTED, Progress, in_threads, interruptible

_FEW = 5
_FEW_HELP = f"only {_FEW} of the calls from each place that begins so: engines/registry.py"


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
    interruptible()
    waiting: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
    for engine in options.e or PROGRAMS:
        for situation in options.s or SITUATIONS:
            if is_sensible(engine, situation):
                waiting.put((engine, situation))
    modes = () if options.limits else options.m or (*MODES, *SIGNALS)
    counts = dict.fromkeys(modes, 0)
    found: set[str] = set()
    at: dict[Path, str] = {}
    lock = threading.Lock()
    begun = time.monotonic()

    def told() -> str:
        tried = f"{sum(counts.values())} points, {len(found)} kinds of defects"
        return f"{tried}: {', '.join(at.values())}"

    def note(wrong: str, kind: str) -> None:
        if wrong and kind not in found:
            progress.print(f"{wrong}\n")
            found.add(kind)

    def limited(faults: Faults, folder: Path, engine: str, name: str) -> None:
        for limit, values in LIMITS.items():
            if limit == "AS" and engine != "numpy":  # their C++ may abort where there is none
                continue
            if limit == "DISK" and not may_mount(folder):
                progress.print("no disk of its own can be had here: DISK isn't tried")
                continue
            tried = 0
            for value in values[:: options.step]:
                at[folder] = f"{name} {limit} {value}"
                wrong = faults.limited(limit, value)
                with lock:
                    tried += wrong is not None
                    note(wrong or "", f"{name} {limit}")
            counts[limit] = counts.get(limit, 0) + tried
            progress.print(f"{name} {limit}: {tried} of {len(values)} values")

    def tried_calls(faults: Faults, folder: Path, engine: str, situation: str) -> None:
        numbers = _numbers(faults.calls, options.each, options.few)[:: options.step]
        numbers = [number for number in numbers if not options.n or number in options.n]
        for mode in modes:
            if not is_sensible(engine, situation, mode):
                continue
            name = f"{engine} {situation} {mode}"
            for done, number in enumerate(numbers):
                at[folder] = f"{name} {done} of {len(numbers)} calls"
                wrong = faults.found(number, mode)
                with lock:
                    counts[mode] += 1
                    note(wrong, wrong.partition(" (")[2] + mode)
            progress.print(f"{name}: {len(numbers)} of {len(faults.calls)} calls")

    def work(folder: Path) -> None:
        while True:
            try:
                engine, situation = waiting.get_nowait()
            except queue.Empty:
                return
            at[folder] = f"{engine} {situation}"
            (folder / f"{engine}-{situation}").mkdir(parents=True)
            with contextlib.closing(
                Faults(folder / f"{engine}-{situation}", engine, situation)
            ) as faults:
                if options.limits:
                    limited(faults, folder, engine, f"{engine} {situation}")
                else:
                    tried_calls(faults, folder, engine, situation)
            del at[folder]

    is_whole = True
    with Progress(told) as progress:
        try:
            in_threads(options.j, work)
        except KeyboardInterrupt:
            is_whole = False
    of_modes = ", ".join(f"{n} {mode}" for mode, n in counts.items())
    print(
        ("" if is_whole else "Ended early: ") + f"{sum(counts.values())} points ({of_modes}):"
        f" {len(found)} kinds of defects; {time.monotonic() - begun:.0f} s"
    )
    return int(bool(found)) if is_whole else INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
