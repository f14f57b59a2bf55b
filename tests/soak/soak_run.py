"""What ``scripts/soak`` does: debugs programs for long, and prints what they held meanwhile."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

from long_run import INTERRUPTED, Progress, interruptible
from soak_kit import SITUATIONS, so_far, soak


def main() -> int:
    """The command line; 1: something has grown."""
    parser = argparse.ArgumentParser(
        prog="scripts/soak",
        description="Debug programs for long; print a line of figures for each of them.",
    )
    parser.add_argument(
        "situation", nargs="*", metavar="SITUATION", help=f"one of: {', '.join(SITUATIONS)}"
    )
    parser.add_argument(
        "--minutes",
        type=float,
        metavar="N",
        help="for all of them together, an equal share each; default: so many rounds each",
    )
    parser.add_argument(
        "--plain",
        action="store_true",
        help="the same programs without the debugger, where nobody sits at them",
    )
    options = parser.parse_args()
    names = options.situation or list(SITUATIONS)
    unknown = [name for name in names if name not in SITUATIONS]
    if unknown:
        parser.error(f"no such situation: {', '.join(unknown)}")
    if options.plain:
        names = [name for name in names if not SITUATIONS[name].has_company]
    interruptible()
    seconds = options.minutes * 60 / len(names) if options.minutes else None
    failed = False
    for name in names:
        # With a limit of time as many as there is time for.
        count = SITUATIONS[name].count * (100 if seconds else 1)
        with tempfile.TemporaryDirectory(prefix="soak-") as folder:

            def how_far(name: str = name, count: int = count, folder: str = folder) -> str:
                figures = so_far(Path(folder), name)
                done = figures.samples[-1].done if figures is not None else 0
                return f"{name}: {done:,} of {count:,} {SITUATIONS[name].what}"

            try:
                with Progress(how_far):
                    found = soak(Path(folder), name, count, seconds, options.plain)
            except KeyboardInterrupt:
                figures = so_far(Path(folder), name)
                print(f"Ended early: {figures or f'{name} had not begun'}", flush=True)
                return INTERRUPTED
            for figures in found:
                print(figures, flush=True)
                for grown in figures.grown():
                    failed = True
                    print(f"    GROWS: {grown}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
