"""``scripts/fuzz``: runs fuzz targets in processes of their own, and counts."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

_BEGAN = time.monotonic()
HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(HERE.parent), str(ROOT)]

from long_run import INTERRUPTED, Progress, interruptible  # noqa: E402

WAYS = ("structure", "coverage")
_MANY = 1 << 62
# How often a worker says how far it is.
_SAY_SECONDS = 1.0


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
        if time.monotonic() - self._said > _SAY_SECONDS:
            self.say()

    @property
    def is_over(self) -> bool:
        return self.count >= self._inputs or time.monotonic() > self._until

    def say(self) -> None:
        self._said = time.monotonic()
        text = json.dumps(
            {"inputs": self.count, "seconds": self._said - self._began, "found": self._found}
        )
        new = self._path.with_suffix(".new")
        new.write_text(text)
        new.replace(self._path)


def _work(name: str, way: str, out: str, seed: int, seconds: float, inputs: int) -> None:
    """Feed one target, in a copy of a process that has imported all of them."""
    os.setsid()  # a Ctrl-C is for the process that waits
    with open(Path(out).with_suffix(".err"), "wb") as said, open(os.devnull, "r+b") as nothing:
        for number, file in enumerate((nothing, nothing, said)):
            os.dup2(file.fileno(), number)
    from fuzz_kit import Checker, by_structure, remove_folders
    from fuzz_targets import TARGETS

    target = TARGETS[name]
    tally = _Tally(Path(out), seconds, inputs)
    if way == "structure":
        by_structure(target, seed, seconds, inputs, tally.report)
        tally.say()
        remove_folders()
        return
    import atheris

    with Checker(target) as checker, tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder, "corpus")
        corpus.mkdir()
        for number, data in enumerate(target.seeds()):
            (corpus / f"{number:04}").write_bytes(data)
        words = Path(folder, "words")
        tokens = [token for token in target.tokens if 0 < len(token) < 60]
        quoted = ("".join(f"\\x{byte:02x}" for byte in token) for token in tokens)
        words.write_text("".join(f'"{text}"\n' for text in quoted) or "\n")

        def one(data: bytes) -> None:
            tally.report(1, checker.check(data))
            if tally.is_over:
                tally.say()
                remove_folders()
                os._exit(0)  # libFuzzer knows no other end

        arguments = [f"-max_len={target.longest}", f"-seed={seed}", "-close_fd_mask=3"]
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
    process: BaseProcess | None = None
    until: float = 0.0
    inputs: int = 0
    seconds: float = 0.0
    found: dict[str, dict[str, Any]] = field(default_factory=dict)
    status: int = 0

    @property
    def can_start(self) -> bool:
        return self.way == "structure" or _has_imported.is_set()

    def start(self, seconds: float, inputs: int, seed: int) -> None:
        # Copies of a process that has imported all: imports take longer than many a target's time.
        context = multiprocessing.get_context("fork" if self.way == "structure" else "forkserver")
        arguments = self.name, self.way, str(self.out), seed, seconds, inputs
        self.process = context.Process(target=_work, args=arguments)
        self.process.start()

    def take(self, is_stopped: bool = False) -> None:
        """Read what the worker has told, and end it if it hasn't ended by itself."""
        assert self.process is not None
        if is_stopped:
            self.process.kill()
        self.process.join()
        self.status = 0 if is_stopped else self.process.exitcode or 0
        if self.status > 0:
            said = self.out.with_suffix(".err").read_text(errors="replace")
            print(said[-3000:], file=sys.stderr)
        self.look()

    def look(self) -> None:
        """How far the worker is."""
        if self.out.exists():
            told = json.loads(self.out.read_text())
            self.inputs, self.seconds, self.found = told["inputs"], told["seconds"], told["found"]


# Set when there is a process that has imported all for coverage.
_has_imported = threading.Event()


def _import_instrumented() -> None:
    """Begin with it: it takes longer than many a target's time."""
    forkserver.set_forkserver_preload(["fuzz_instrumented"])
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C isn't for it
    forkserver.ensure_running()
    signal.signal(signal.SIGINT, handler)

    def wait() -> None:
        first = multiprocessing.get_context("forkserver").Process(target=_no_work)
        with contextlib.suppress(OSError, EOFError):  # the time is over
            first.start()
            first.join()
            _has_imported.set()

    threading.Thread(target=wait, daemon=True).start()


def _no_work() -> None:
    """What the first copy does."""


def _run(jobs: list[_Job], options: argparse.Namespace) -> tuple[bool, bool]:
    """Run all, so many at a time, until the time is over or a Ctrl-C comes; what was done counts.

    Returns:
        Whether nobody has ended it, and whether there was time for all.
    """
    running: list[_Job] = []
    waiting = list(jobs)
    done = 0

    def how_far() -> str:
        for job in running:
            job.look()
        inputs = sum(job.inputs for job in jobs)
        names = ", ".join(f"{job.name} {job.way}" for job in running)
        return f"{done} of {len(jobs)} targets, {inputs:,} inputs: {names or 'imports'}"

    over = _BEGAN + options.seconds if options.seconds else _MANY
    inputs = -(-options.inputs // len(jobs)) if options.inputs else _MANY
    is_whole = True
    with Progress(how_far) as progress:
        try:
            while (waiting or running) and time.monotonic() < over:
                for job in [job for job in waiting if job.can_start][: options.jobs - len(running)]:
                    now = time.monotonic()
                    free = (over - now) * options.jobs - sum(each.until - now for each in running)
                    share = free * job.weight / sum(each.weight for each in waiting)
                    waiting.remove(job)
                    running.append(job)
                    job.until = now + min(share, over - now)
                    job.start(job.until - now, inputs, options.seed + len(waiting))
                for job in [job for job in running if job.process and not job.process.is_alive()]:
                    job.take()
                    running.remove(job)
                    done += 1
                    progress.print(_row(job))
                time.sleep(0.05)
        except KeyboardInterrupt:
            is_whole = False
        for job in running:
            job.take(is_stopped=True)
            progress.print(_row(job))
    return is_whole, not waiting


def _row(job: _Job) -> str:
    rate = job.inputs / max(job.seconds, 1e-3)
    ended = f", ended with status {job.status}" if job.status else ""
    lines = [
        f"{job.name:18} {job.way:10} {job.inputs:>12,} inputs {rate:>9,.0f}/s "
        f"{len(job.found):>3} found{ended}"
    ]
    for where, told in job.found.items():
        path = os.path.relpath(told["file"], ROOT)
        lines.append(f"    {where} ({told['count']} times): {path}")
        last = told["text"].strip().splitlines()[-1:]
        lines.append(f"        {''.join(last)[:300]}")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; the status is 1 where something was found."""
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="default: all")
    parser.add_argument("--seconds", type=float, default=0, help="in all")
    parser.add_argument("--inputs", type=int, default=0, help="for all targets together")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--way", choices=WAYS, help="by structure or by coverage; default: both")
    options = parser.parse_args(argv)
    if not options.seconds and not options.inputs:
        options.seconds = 60.0
    interruptible()
    # Python 3.12 warns of a fork amid threads: the one that says how far it is.
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    # All that workers write is in it, and goes with it, whatever ends them.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="tfdbg-fuzz-", dir=memory) as folder:
        os.environ |= {"XDG_CONFIG_HOME": folder, "FUZZ_FOLDER": folder}
        os.environ["PYTHONPATH"] = os.pathsep.join(sys.path[:3])  # for what is preloaded
        ways = [options.way] if options.way else list(WAYS)
        if "coverage" in ways and importlib.util.find_spec("atheris") is None:
            print("atheris isn't installed: by structure only.")
            ways = ["structure"]
        if "coverage" in ways:  # what it imports takes long: from now on
            _import_instrumented()
        from fuzz_targets import TARGETS

        names = options.targets or list(TARGETS)
        unknown = [name for name in names if name not in TARGETS]
        if unknown:
            parser.error(f"there is no target {unknown[0]}; there are {', '.join(TARGETS)}")
        jobs = [
            # Those that read fast get more of the time.
            _Job(n, way, Path(folder, f"{n}-{way}.json"), 1 if TARGETS[n].few < 1000 else 3)
            for way in ways
            for n in names
        ]
        is_whole, had_time = _run(jobs, options)
        if "coverage" in ways:  # it may still import; nothing public ends it
            os.kill(forkserver._forkserver._forkserver_pid, signal.SIGKILL)
    inputs, found = sum(job.inputs for job in jobs), sum(len(job.found) for job in jobs)
    minutes = (time.monotonic() - _BEGAN) / 60
    count = len({job.name for job in jobs if job.inputs})
    early = "" if is_whole else "Ended early: "
    print(f"{early}{count} targets, {inputs:,} inputs, {found} found, {minutes:.1f} minutes")
    if is_whole and not had_time:
        print("There was no time for the others: --seconds gives more.")
    return int(found > 0 or any(job.status for job in jobs)) if is_whole else INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
