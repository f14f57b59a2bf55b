"""Runs the benchmarks: ``python -m benchmarks [--quick] [--write] [NAME ...]``.

Each runs in a process of its own, one after the other, since frameworks don't share one well.
``--quick`` takes fewer rounds and smaller sizes, two minutes in all; ``--write`` makes
docs/performance.md of all of them.
"""

import argparse
import datetime
import importlib.metadata
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.harness import Table, loaded

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "performance.md"
#: In the order of the page, with the heads of their sections.
BENCHMARKS = {
    "programs_waiting": "What waiting costs",
    "starting": "Start",
    "torch_runs": "Waiting: PyTorch",
    "torch_growth": "Growth: PyTorch",
    "tensorflow_runs": "Waiting: TensorFlow sessions",
    "tensorflow2_runs": "Waiting: TensorFlow 2",
    "memory": "Memory while waiting",
    "following": "Numbers over runs",
    "stepping": "Stepping and tracing",
    "tracing": "Tracing a language model",
    "reading": "Readers",
    "comparing": "Comparing runs",
    "screens": "Screens",
    "histograms": "Histograms and source",
    "checksums": "Checksums of run folders",
    "dumping": "Dumping many runs",
}
_CODE = """
import sys
from pathlib import Path
from benchmarks import harness, {name}
Path(sys.argv[1]).write_text(harness.dumped({name}.tables({quick})), encoding="utf-8")
"""


def run(name: str, quick: bool) -> list[Table] | str:
    """The tables of one benchmark, or why there are none."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "tables.json")
        done = subprocess.run(
            [sys.executable, "-c", _CODE.format(name=name, quick=quick), str(out)],
            cwd=ROOT,
            env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": "1"},
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        if done.returncode:
            return (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        return loaded(out.read_text(encoding="utf-8"))


def header(quick: bool) -> str:
    """What the numbers were measured with."""
    versions = []
    for package in ("numpy", "torch", "tensorflow-cpu", "tensorflow"):
        try:
            versions.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return (
        "# Performance\n\n"
        f"Made by `python -m benchmarks {'--quick ' if quick else ''}--write` on "
        f"{datetime.date.today().isoformat()}: Python {platform.python_version()}, "
        f"{', '.join(versions)}; {os.cpu_count()} cores ({platform.machine()}), frameworks on one "
        "thread. Quote the ratios, not the times: both sides run in the same process, in rounds of "
        "changing order, and each ratio is the median over the rounds. Missed goals are marked; "
        "`python -m benchmarks` also prints a profile of each.\n"
    )


def main() -> int:
    """The program."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--quick", action="store_true", help="fewer rounds, smaller sizes")
    parser.add_argument("--write", action="store_true", help="write docs/performance.md")
    args = parser.parse_args()
    if unknown := [name for name in args.names if name not in BENCHMARKS]:
        parser.error(f"no benchmark {unknown[0]!r}; there are {', '.join(BENCHMARKS)}")
    page, failed = [header(args.quick)], False
    for name, title in BENCHMARKS.items():
        if args.names and name not in args.names:
            continue
        began = time.monotonic()
        tables = run(name, args.quick)
        section = [f"## {title}\n"]
        if isinstance(tables, str):
            failed = True
            section.append(f"`benchmarks/{name}.py` could not run: {tables}\n")
        else:
            section += [table.markdown() for table in tables]
        print("\n".join(section), flush=True)
        print(f"({name}: {time.monotonic() - began:.0f} s)\n", file=sys.stderr)
        page += section
    if args.write:
        PAGE.write_text("\n".join(page), encoding="utf-8")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
