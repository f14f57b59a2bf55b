"""``scripts/mutate``: makes mutants, lets the tests look for them, and says which are left."""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(HERE.parent), str(ROOT)]

from long_run import INTERRUPTED, Progress, interruptible  # noqa: E402
from mutants_kit import Mutant, diff_of, mutants_of, reasons  # noqa: E402

#: What is mutated unless modules are named: dumps, values, filters, stepping, and their commands.
ROOMS = (
    "dumps",
    "tensors",
    "filters",
    "stepping",
    "commands/tensors",
    "commands/stepper",
    "engines/numpy/stepping",
    "sessions/director/stepping.py",
    "sessions/wrappers/node_stepper.py",
)
#: The tests that may tell: those that need no framework and no terminal, and start no programs.
SELECT = "not tensorflow and not torch and not jax and not onnx and not tty and not slow"
TESTS = (
    "dumps",
    "tensors",
    "filters",
    "stepping",
    "commands",
    "comparing",
    "scanning",
    "engines/kit",
    "engines/numpy",
    "sessions",
    "tracing",
    "ui",
)
#: Why nothing has to tell a mistake: those that somebody has looked at.
JUDGED = HERE / "judged.txt"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/mutate", description=__doc__)
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="files or folders")
    parser.add_argument("--gut", action="store_true", help="functions that do nothing, instead")
    parser.add_argument("--sample", type=int, metavar="N", help="at most N mutants of each module")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--seconds", type=float, default=10.0, help="of tests for each mutant")
    parser.add_argument("--tests", action="append", help="only those of this folder or file")
    own = "of a module's own lines (constants, defaults): tests of so many files, imported anew"
    parser.add_argument("--files", type=int, default=3, help=own)
    parser.add_argument("-m", dest="select", default=SELECT, help="which of them: pytest's -m")
    parser.add_argument("-j", "--jobs", type=int, default=2)
    parser.add_argument("--map", type=Path, help="a file to keep in which test runs which lines")
    parser.add_argument("--out", type=Path, help="a file for all results, as lines of JSON")
    parser.add_argument("--again", type=Path, help="an --out of before: only its survivors")
    parser.add_argument("-v", "--verbose", action="store_true", help="say what killed each one")
    return parser.parse_args()


def _files(modules: Sequence[str]) -> list[Path]:
    chosen = [Path(name).resolve() for name in modules] or [
        ROOT / "tfdbg_cli" / name for name in ROOMS
    ]
    found: list[Path] = []
    for path in chosen:
        found += sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return [path for path in dict.fromkeys(found) if path.name != "__init__.py"]


# Workers.


def _work(jobs: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The answers of all workers, as they come."""
    folder = Path(tempfile.mkdtemp(prefix="mutate-")).resolve()
    workers: list[tuple[subprocess.Popen[bytes], Any]] = []
    try:
        for number, job in enumerate(jobs):
            own = folder / str(number)
            own.mkdir()
            job |= {"folder": str(own), "out": str(own / "out")}
            (own / "out").touch()
            (own / "job").write_text(json.dumps(job))
            environment = os.environ | {
                "PYTHONDONTWRITEBYTECODE": "1",
                "PYTHONHASHSEED": "0",
                "OPENBLAS_NUM_THREADS": "1",
            }
            with (own / "log").open("wb") as log:
                worker = subprocess.Popen(
                    [sys.executable, HERE / "mutate_server.py", own / "job"],
                    cwd=ROOT,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            workers.append((worker, (own / "out").open(encoding="utf-8")))
        while workers:
            for worker, answers in list(workers):
                ended = worker.poll() is not None
                yield from _complete(answers)
                if ended:
                    answers.close()
                    workers.remove((worker, answers))
                    if worker.returncode:
                        log = Path(answers.name).with_name("log").read_text(errors="replace")
                        print(log[-3000:], file=sys.stderr)
            time.sleep(0.1)
    finally:
        for worker, _ in workers:
            worker.terminate()
        for worker, _ in workers:
            try:
                worker.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(worker.pid, signal.SIGKILL)
                worker.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _complete(answers: Any) -> Iterator[dict[str, Any]]:
    while True:
        place = answers.tell()
        line = answers.readline()
        if not line.endswith("\n"):
            answers.seek(place)
            return
        yield json.loads(line)


def _job(paths: Iterable[Path], options: argparse.Namespace, **more: Any) -> dict[str, Any]:
    tests = [str(ROOT / "tests" / name) for name in options.tests or TESTS]
    return {"tests": tests, "select": options.select, "paths": [str(p) for p in paths], **more}


# Who runs what.


class _Lines:
    """Which tests run which lines of which module."""

    def __init__(self, answers: Iterable[dict[str, Any]]) -> None:
        self.modules: set[str] = set()
        self.seconds: dict[str, float] = {}
        self.at_import: dict[str, set[int]] = {}
        self._tests: dict[str, dict[int, set[str]]] = {}
        for answer in answers:
            self.modules |= set(answer.get("modules", ()))
            test = answer.get("test")
            if test is None:
                continue
            self.seconds[test] = answer["seconds"]
            for path, lines in answer["hit"].items():
                if not test:
                    self.at_import.setdefault(path, set()).update(lines)
                    continue
                known = self._tests.setdefault(path, {})
                for line in lines:
                    known.setdefault(line, set()).add(test)

    def tests(self, mutant: Mutant, most: float, count: int) -> tuple[list[str], bool]:
        """The tests that can tell, quick ones first, ``most`` seconds of them.

        Of what is used at an import, those of ``count`` files.

        And whether all is to be imported anew: what a module is made of is used at its import.
        """
        words = [word for word in Path(mutant.path).stem.split("_") if len(word) > 3]
        known = self._tests.get(mutant.path, {})
        lines = range(mutant.lines[0], mutant.lines[1] + 1)
        at_import = self.at_import.get(mutant.path, set())
        found: set[str] = set()
        for line in lines if mutant.function else ():
            found |= known.get(line, set())
        anew = not found and (not mutant.function or any(line in at_import for line in lines))
        if anew:
            found = set().union(*known.values())
            files = collections.Counter(_file(test) for test in found).most_common()
            files.sort(key=lambda file: not _is_alike(file[0], words))
            most_of_it = {file for file, _ in files[:count]}
            found = {test for test in found if _file(test) in most_of_it}
        chosen: list[str] = []
        left = most
        for test in sorted(found, key=lambda test: self._order(test, words)):
            if self.seconds[test] <= left:
                chosen.append(test)
                left -= self.seconds[test]
        return chosen, anew

    def _order(self, test: str, words: Sequence[str]) -> Any:
        """Those of files that are called alike first, then quick ones.

        Of those that are about as quick the ones that share fixtures follow each other.
        """
        seconds, file = self.seconds[test], _file(test)
        is_other = not _is_alike(file, words)
        return (is_other, seconds > 0.02, seconds > 0.1, seconds > 0.5, file, seconds, test)


def _is_alike(file: str, words: Sequence[str]) -> bool:
    return any(word in Path(file).stem for word in words)


def _file(test: str) -> str:
    return test.partition("::")[0]


def _map(options: argparse.Namespace, paths: list[Path]) -> _Lines:
    """What is in the file, and anew what has changed since."""
    known: list[dict[str, Any]] = []
    folders = [ROOT / "tests" / name for name in options.tests or TESTS]
    tests = [
        path
        for folder in folders
        for path in ([folder] if folder.is_file() else folder.rglob("test_*.py"))
    ]
    if options.map and options.map.exists():
        made = options.map.stat().st_mtime
        if all(path.stat().st_mtime < made for path in paths):
            known = [json.loads(line) for line in options.map.read_text().splitlines()]
            tests = [path for path in tests if path.stat().st_mtime >= made]
    if tests:
        print(f"Looking which lines {len(tests)} files of tests run …", file=sys.stderr)
        changed = {str(path.relative_to(ROOT)) for path in tests}
        known = [each for each in known if _file(each.get("test", "")) not in changed]
        several = min(options.jobs, len(tests))
        jobs = [_job(paths, options, part=[number, several]) for number in range(several)]
        for job in jobs:
            job["tests"] = [str(path) for path in tests]
        with Progress(lambda: f"lines of {len(known)} tests"):
            for answer in _work(jobs):
                known.append(answer)
        for answer in known:
            if answer.get("said", "done") != "done":
                print(f"The map is not whole: {answer['said']}", file=sys.stderr)
        if options.map:
            options.map.write_text("".join(json.dumps(answer) + "\n" for answer in known))
    return _Lines(known)


# What is said.

_REASONS = ("killed", "timed out", "died", "judged", "survived", "not run", "broken")
_TOLD = ("killed", "timed out", "died")


def _reason(said: str) -> str:
    return next(reason for reason in _REASONS if said.startswith(reason))


def _judged(results: Iterable[tuple[Mutant, str]]) -> Iterator[tuple[Mutant, str]]:
    """The same, but survivors that have a reason are ``judged``."""
    known = reasons(JUDGED.read_text(encoding="utf-8"))
    for mutant, said in results:
        key = str(Path(mutant.path).relative_to(ROOT)), mutant.function or "-"
        is_judged = said == "survived" and (*key, diff_of(mutant)) in known
        yield mutant, "judged" if is_judged else said


def _report(results: Sequence[tuple[Mutant, str]]) -> None:
    by_module: dict[str, collections.Counter[str]] = {}
    for mutant, said in results:
        name = str(Path(mutant.path).relative_to(ROOT))
        by_module.setdefault(name, collections.Counter())[_reason(said)] += 1
    print(f"{'module':<48}{'made':>6}" + "".join(f"{reason:>10}" for reason in _REASONS))
    whole = sum(by_module.values(), collections.Counter[str]())
    for name, counts in [*sorted(by_module.items()), ("all", whole)]:
        print(f"{name:<48}{counts.total():>6}" + "".join(f"{counts[r]:>10}" for r in _REASONS))
    for mutant, said in results:
        if _reason(said) in ("survived", "not run", "broken"):
            path = Path(mutant.path).relative_to(ROOT)
            print(f"\n{path}:{mutant.lines[0]} {mutant.kind}, in {mutant.function or '-'}: {said}")
            print(diff_of(mutant))


def main() -> int:
    """Make mutants, run their tests, and report."""
    options = _options()
    interruptible()  # the workers are in sessions of their own: they end with this one
    paths = _files(options.modules)
    try:
        lines = _map(options, [*{*_files(()), *paths}] if options.map else paths)
    except KeyboardInterrupt:
        print("Ended early: no mutant was tried.", file=sys.stderr)
        return INTERRUPTED
    mutants: list[Mutant] = []
    draw = random.Random(options.seed)
    for path in paths:
        made = mutants_of(path, options.gut)
        if options.sample is not None and len(made) > options.sample:
            made = sorted(draw.sample(made, options.sample), key=lambda mutant: mutant.number)
        mutants += made
    if options.again:
        left = [json.loads(line) for line in options.again.read_text().splitlines()]
        names = {tuple(one["mutant"][:3]) for one in left if _reason(one["said"]) not in _TOLD}
        mutants = [mutant for mutant in mutants if _key(mutant) in names]
    results: dict[tuple[Any, ...], str] = {}
    work: dict[bool, list[Any]] = {False: [], True: []}
    for mutant in mutants:
        tests, anew = lines.tests(mutant, options.seconds, options.files)
        if tests:
            seconds = sum(lines.seconds[test] for test in tests)
            fields = [mutant.path, mutant.number, mutant.kind, mutant.function, mutant.lines]
            work[anew].append([fields, tests, seconds])
        else:
            results[_key(mutant)] = "not run by any test"
    several = sum(map(len, work.values()))
    print(f"{len(mutants)} mutants, {several} with tests", file=sys.stderr)
    out = options.out.open("w") if options.out else None
    for mutant in mutants if out else ():
        if said := results.get(_key(mutant)):
            print(json.dumps({"mutant": [*_key(mutant)], "said": said}), file=out)
    answers = _answers(options, lines, paths, work)
    warm = {tuple(one[0][:3]): one for one in work[False]}
    untested, survivors, is_whole = len(results), 0, True

    def how_far() -> str:
        return f"{len(results) - untested} of {several} mutants, {survivors} survived"

    try:
        with Progress(how_far) as progress, contextlib.closing(answers):
            for answer in answers:
                if answer["said"] == "anew":
                    work[True].append(warm[tuple(answer["mutant"][:3])])
                    continue
                results[tuple(answer["mutant"][:3])] = answer["said"]
                survivors += answer["said"] == "survived"
                if out:
                    print(json.dumps(answer), file=out, flush=True)
                if options.verbose:
                    progress.print(f"{answer['mutant']} {answer['said']}")
    except KeyboardInterrupt:
        is_whole = False
        print("Ended early: what wasn't tried isn't counted.", file=sys.stderr)
    done = [(mutant, results[_key(mutant)]) for mutant in mutants if _key(mutant) in results]
    _report(list(_judged(done)))
    return 0 if is_whole else INTERRUPTED


def _answers(
    options: argparse.Namespace, lines: _Lines, paths: list[Path], work: dict[bool, list[Any]]
) -> Generator[dict[str, Any]]:
    for anew, mutants in work.items():
        random.Random(0).shuffle(mutants)  # all workers have about the same to do
        parts = [mutants[number :: options.jobs] for number in range(options.jobs)]
        more: dict[str, Any] = {"modules": sorted(lines.modules), "anew": anew}
        jobs = [_job(paths, options, mutants=part, **more) for part in parts if part]
        yield from _work(jobs)


def _key(mutant: Mutant) -> tuple[Any, ...]:
    return (mutant.path, mutant.number, mutant.kind)


if __name__ == "__main__":
    sys.exit(main())
