"""``scripts/fuzz``: runs fuzz targets in processes of their own, and counts."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT)]

WAYS = ("structure", "coverage")
_MANY = 1 << 62
# How often a worker says how far it is.
_SAY_SECONDS = 2.0


# In a worker.


class _Tally:
    """Counts the inputs of a worker and keeps one finding for each place."""

    def __init__(self, path: Path, seconds: float, inputs: int) -> None:
        self.count = 0
        self._path, self._inputs = path, inputs
        self._began = time.monotonic()
        self._until = self._began + seconds
        self._said = 0.0
        self._found: dict[str, dict[str, Any]] = {}

    def report(self, count: int, finding: Any) -> None:
        self.count += count
        if finding is not None:
            if finding.where not in self._found:
                kept = str(finding.keep())
                self._found[finding.where] = {"file": kept, "text": finding.text, "count": 0}
            self._found[finding.where]["count"] += 1
        if self.count % 64 == 0 and time.monotonic() - self._said > _SAY_SECONDS:
            self.say()

    @property
    def is_over(self) -> bool:
        return self.count >= self._inputs or (
            self.count % 16 == 0 and time.monotonic() > self._until
        )

    def say(self) -> None:
        self._said = time.monotonic()
        text = json.dumps(
            {"inputs": self.count, "seconds": self._said - self._began, "found": self._found}
        )
        self._path.write_text(text)


def _work(options: argparse.Namespace) -> None:
    name, way = options.worker
    if way == "coverage":
        import atheris

        with atheris.instrument_imports(include=["tfdbg_cli"]):
            from fuzz_targets import TARGETS
    else:
        from fuzz_targets import TARGETS
    from fuzz_kit import Checker, by_structure, remove_folders

    target = TARGETS[name]
    if way == "structure":
        tally = _Tally(Path(options.out), options.seconds, options.inputs)
        by_structure(target, options.seed, options.seconds, options.inputs, tally.report)
        tally.say()
        remove_folders()
        return
    with Checker(target) as checker, tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder, "corpus")
        corpus.mkdir()
        for number, data in enumerate(target.seeds()):
            (corpus / f"{number:04}").write_bytes(data)
        words = Path(folder, "words")
        tokens = [token for token in target.tokens if 0 < len(token) < 60]
        quoted = ("".join(f"\\x{byte:02x}" for byte in token) for token in tokens)
        words.write_text("".join(f'"{text}"\n' for text in quoted) or "\n")
        tally = _Tally(Path(options.out), options.seconds, options.inputs)

        def one(data: bytes) -> None:
            tally.report(1, checker.check(data))
            if tally.is_over:
                tally.say()
                remove_folders()
                os._exit(0)  # libFuzzer knows no other end

        arguments = [f"-max_len={target.longest}", f"-seed={options.seed}", "-close_fd_mask=3"]
        atheris.Setup(
            [
                "fuzz",
                *arguments,
                "-timeout=60",
                "-rss_limit_mb=3000",
                f"-dict={words}",
                str(corpus),
            ],
            one,
        )
        atheris.Fuzz()


# In the process that starts them.


@dataclass
class _Job:
    name: str
    way: str
    out: Path
    weight: int = 1
    process: subprocess.Popen[bytes] | None = None
    inputs: int = 0
    seconds: float = 0.0
    found: dict[str, dict[str, Any]] = field(default_factory=dict)
    status: int = 0

    def start(self, seconds: float, inputs: int, seed: int) -> None:
        arguments = ["--worker", self.name, self.way, "--out", str(self.out), "--seed", str(seed)]
        arguments += ["--seconds", str(seconds), "--inputs", str(inputs)]
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "fuzz_run.py"), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self.out.with_suffix(".err").open("wb"),
            env=os.environ
            | {"XDG_CONFIG_HOME": str(self.out.parent), "FUZZ_FOLDER": str(self.out.parent)},
        )

    def take(self, is_stopped: bool = False) -> None:
        assert self.process is not None
        self.status = 0 if is_stopped else self.process.returncode
        if self.status > 0:
            said = self.out.with_suffix(".err").read_text(errors="replace")
            print(said[-3000:], file=sys.stderr)
        if self.out.exists():
            told = json.loads(self.out.read_text())
            self.inputs, self.seconds, self.found = told["inputs"], told["seconds"], told["found"]


def _run(jobs: list[_Job], options: argparse.Namespace) -> None:
    """Run all, so many at a time; a Ctrl-C or SIGTERM ends them, and what was done counts."""
    running: list[_Job] = []
    try:
        _run_all(jobs, running, options)
    except KeyboardInterrupt:
        for job in running:
            assert job.process is not None
            job.process.terminate()
            job.process.wait()
            job.take(is_stopped=True)
            _print(job)


def _run_all(jobs: list[_Job], running: list[_Job], options: argparse.Namespace) -> None:
    whole = sum(job.weight for job in jobs)
    share = options.seconds * options.jobs / whole if options.seconds else _MANY
    inputs = -(-options.inputs // len(jobs)) if options.inputs else _MANY
    waiting = list(jobs)
    while waiting or running:
        while waiting and len(running) < options.jobs:
            job = waiting.pop(0)
            job.start(share * job.weight, inputs, options.seed + len(waiting))
            running.append(job)
        for job in list(running):
            assert job.process is not None
            if job.process.poll() is not None:
                running.remove(job)
                job.take()
                _print(job)
        time.sleep(0.05)


def _print(job: _Job) -> None:
    rate = job.inputs / max(job.seconds, 1e-3)
    ended = f", ended with status {job.status}" if job.status else ""
    print(
        f"{job.name:18} {job.way:10} {job.inputs:>12,} inputs {rate:>9,.0f}/s "
        f"{len(job.found):>3} found{ended}",
        flush=True,
    )
    for where, told in job.found.items():
        path = os.path.relpath(told["file"], ROOT)
        print(f"    {where} ({told['count']} times): {path}")
        last = told["text"].strip().splitlines()[-1:]
        print(f"        {''.join(last)[:300]}", flush=True)


def _has_atheris() -> bool:
    try:
        import atheris  # noqa: F401
    except ImportError:
        return False
    return True


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; the status is 1 where something was found."""
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="default: all")
    parser.add_argument("--seconds", type=float, default=0, help="for all targets together")
    parser.add_argument("--inputs", type=int, default=0, help="for all targets together")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--way", choices=WAYS, help="by structure or by coverage; default: both")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--out", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.worker:
        _work(options)
        return 0
    if not options.seconds and not options.inputs:
        options.seconds = 60.0
    from fuzz_kit import IN_MEMORY
    from fuzz_targets import TARGETS

    names = options.targets or list(TARGETS)
    unknown = [name for name in names if name not in TARGETS]
    if unknown:
        parser.error(f"there is no target {unknown[0]}; there are {', '.join(TARGETS)}")
    ways = [options.way] if options.way else list(WAYS)
    if "coverage" in ways and not _has_atheris():
        print("atheris isn't installed: by structure only.")
        ways = ["structure"]
    began = time.monotonic()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # All that workers write is in it, and goes with it, whatever ends them.
    with tempfile.TemporaryDirectory(prefix="tfdbg-fuzz-", dir=IN_MEMORY) as folder:
        jobs = [
            # Those that read fast get more of the time.
            _Job(n, way, Path(folder, f"{n}-{way}.json"), 1 if TARGETS[n].few < 1000 else 3)
            for way in ways
            for n in names
        ]
        _run(jobs, options)
    inputs, found = sum(job.inputs for job in jobs), sum(len(job.found) for job in jobs)
    minutes = (time.monotonic() - began) / 60
    count = len({job.name for job in jobs if job.inputs})
    print(f"{count} targets, {inputs:,} inputs, {found} found, {minutes:.1f} minutes")
    return int(found > 0 or any(job.status for job in jobs))


if __name__ == "__main__":
    sys.exit(main())
