"""Runs tests against mutants: imports all once, then each mutant in a forked child of its own.

The argument is a file of JSON that says what to do (`Job`); answers are lines of JSON in another.
A child has a session and a folder of its own, limits of time and memory, and may neither write
outside of its folder, nor start programs, nor send signals to others.
"""

from __future__ import annotations

import functools
import gc
import importlib
import json
import os
import resource
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import hypothesis
import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT)]

from mutants_kit import Mutant, code_of  # noqa: E402

_MEMORY = 4 << 30
_FILE = 1 << 30
#: What a mutant may take in seconds, besides some times of what its tests take without it.
_GRACE = 4.0
_TIMES = 4.0
#: So many lines of a function are looked at in each test: then it does the same again and again.
_MOST_LINES = 10_000
#: Assertions stay as they are: what pytest rewrites (a package with a plugin of pytest's, whole) is
#: loaded by pytest, never as a mutant.
_OPTIONS = ("-q", "--assert=plain", "-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:xdist")
#: Imported before the first child, which most tests want.
_COMMON = ("numpy", "urwid", "prompt_toolkit", "pyte", "pexpect")


@dataclass
class Job:
    """What the front wants done: a map of who runs what, or mutants and their tests."""

    folder: str
    out: str
    tests: list[str]
    select: str
    paths: list[str]
    root: str = str(ROOT)
    #: The part of the files whose tests are mapped: ``[1, 3]`` is the second of three.
    part: list[int] | None = None
    modules: Sequence[str] = ()
    #: ``[mutant, tests, seconds that they take]``
    mutants: Sequence[list[Any]] = ()
    #: Whether all is imported anew for each of them.
    anew: bool = False

    def answer(self, **answer: Any) -> None:
        with open(self.out, "a", encoding="utf-8") as file:
            file.write(json.dumps(answer) + "\n")

    def options(self) -> list[str]:
        base = f"--basetemp={self.folder}/base"
        return [*_OPTIONS, "-m", self.select, base, f"--rootdir={self.root}"]


def _environment(folder: str) -> Iterator[tuple[str, str]]:
    for name in ("HOME", "TMPDIR", "HYPOTHESIS_STORAGE_DIRECTORY"):
        yield name, os.path.join(folder, name.lower())


def _guard(folder: str) -> None:
    """Let this process's children do nothing to what isn't theirs."""
    server = os.getpid()
    writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
    with_two = ("os.rename", "os.link", "os.symlink")
    changing = ("os.remove", "os.rmdir", "os.rename", "os.truncate", "os.chmod", "os.chown")
    changing += ("os.link", "os.symlink", "os.mkdir", "shutil.rmtree", "os.utime")
    starting = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn")

    def inside(path: Any) -> bool:
        if isinstance(path, int) or path is None:
            return True
        text = os.path.realpath(os.path.dirname(os.path.abspath(os.fsdecode(path))))
        return text.startswith((folder, "/dev", "/proc/self"))

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        if os.getpid() == server:
            return
        if event == "open":
            refused = bool(arguments[2] & writing) and not inside(arguments[0])
        elif event in changing:
            paths = arguments[event == "os.symlink" : 1 + (event in with_two)]
            # What is reached through a folder's descriptor is where that folder is.
            by_descriptor = type(arguments[-1]) is int and arguments[-1] >= 0
            refused = not all(inside(path) for path in paths) and (
                event == "os.truncate" or not by_descriptor
            )
        elif event in ("os.kill", "os.killpg"):
            refused = arguments[0] < 0 or os.getsid(arguments[0]) != os.getsid(0)
        else:
            refused = event in starting
        if refused:
            raise PermissionError(f"A mutant may not do this: {event} {arguments}")

    sys.addaudithook(audit)


def _limit(seconds: float) -> None:
    whole = int(seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (whole, whole + 5))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_FILE, _FILE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _in_child(work: Callable[[], str], seconds: float) -> str:
    """What ``work`` says in a child, or ``timed out``, or ``died`` with the number of a signal."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        said = "died"
        try:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            _limit(seconds)
            said = work()
        except (KeyboardInterrupt, SystemExit, pytest.exit.Exception) as error:
            said = f"killed by {error!r}"
        except BaseException as error:
            said = f"broken: {error!r}"
        finally:
            os.write(writing, said.encode())
            os._exit(0)
    os.close(writing)
    try:
        heard, _, _ = select.select([reading], [], [], 3 * seconds)
        said = os.read(reading, 4096).decode() if heard else "timed out"
    finally:  # whoever ends this process ends its child
        os.close(reading)
        try:
            os.killpg(child, signal.SIGKILL)
        except ProcessLookupError:
            pass
    _, status = os.waitpid(child, 0)
    if said:
        return said
    number = os.waitstatus_to_exitcode(status)
    return "timed out" if number == -signal.SIGXCPU else f"died {number}"


# Mutants.


class _FirstFailure:
    """Ends the process at the first test that fails, and says which it was."""

    def __init__(self) -> None:
        self.failed = ""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid

    def run(self, items: Sequence[pytest.Item]) -> str:
        items[0].session.config.pluginmanager.register(self)
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self.failed:
                return f"killed by {self.failed}"
        return "survived"


def _codes(code: CodeType) -> Iterator[CodeType]:
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield part
            yield from _codes(part)


def _import_mutated(path: str, code: CodeType) -> None:
    """Let a module that isn't imported yet be the mutant."""
    original = SourceFileLoader.get_code

    def get_code(loader: Any, name: str) -> Any:
        if loader.get_filename(name) == path:
            return code
        return original(loader, name)

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign]


def _mutate(mutant: Mutant, functions: Sequence[FunctionType], caches: Sequence[Any]) -> bool:
    """Turn what is imported into the mutant; ``False``: only an import anew makes it."""
    code = code_of(mutant)
    _import_mutated(mutant.path, code)
    made = {(part.co_qualname, part.co_firstlineno): part for part in _codes(code)}
    for function in functions:
        old = function.__code__
        new = made.get((old.co_qualname, old.co_firstlineno))
        if old.co_filename != mutant.path or not new:
            continue
        if new.co_freevars != old.co_freevars:  # ``super()`` is left out, say
            return False
        function.__code__ = new
    for cache in caches:
        cache.cache_clear()
    return True


class _Warm:
    """A plugin: when all tests are collected, the mutants run instead of them."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        for name in self._job.modules:
            importlib.import_module(name)
        items = {item.nodeid: item for item in session.items}
        objects = gc.get_objects()
        functions = [part for part in objects if type(part) is FunctionType]
        functions = [part for part in functions if part.__code__.co_filename in self._job.paths]
        caches = [part for part in objects if type(part) is functools._lru_cache_wrapper]
        caches = [part for part in caches if part.__module__.startswith("tfdbg_cli")]
        del objects
        gc.collect()
        gc.freeze()
        for fields, tests, seconds in self._job.mutants:
            mutant = _mutant(fields)
            chosen = [items[test] for test in tests]

            def work(mutant: Mutant = mutant, chosen: Any = chosen) -> str:
                is_made = _mutate(mutant, functions, caches)
                return _FirstFailure().run(chosen) if is_made else "anew"

            began = time.monotonic()
            said = _in_child(work, _GRACE + _TIMES * seconds)
            self._job.answer(mutant=fields, said=said, seconds=time.monotonic() - began)
        return True


class _Cold:
    """A plugin of a child that has imported nothing of ours: it runs the tests of one mutant."""

    def __init__(self, tests: Sequence[str]) -> None:
        self.said = "killed by an error at the import"
        self._tests = tests

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            return True
        items = {item.nodeid: item for item in session.items}
        chosen = [items[test] for test in self._tests if test in items]
        if chosen:
            self.said = _FirstFailure().run(chosen)
        return True


def _run_cold(job: Job) -> None:
    for fields, tests, seconds in job.mutants:
        mutant = _mutant(fields)

        def work(mutant: Mutant = mutant, tests: Any = tests) -> str:
            _silence()
            _import_mutated(mutant.path, code_of(mutant))
            plugin = _Cold(tests)
            files = list(
                dict.fromkeys(os.path.join(job.root, test.partition("::")[0]) for test in tests)
            )
            pytest.main([*job.options(), *files], plugins=[plugin])
            return plugin.said

        began = time.monotonic()
        said = _in_child(work, 3 * _GRACE + _TIMES * seconds)
        job.answer(mutant=fields, said=said, seconds=time.monotonic() - began)


def _mutant(fields: Sequence[Any]) -> Mutant:
    path, number, kind, function, lines = fields
    return Mutant(path, number, kind, function, tuple(lines))


# The map.


class _Map:
    """A plugin: which test runs which lines, and how long it takes."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._wanted = set(job.paths)
        self._hit: dict[str, set[int]] = {}
        self._failed = False
        self._seen: dict[int, int] = {}

    def start(self) -> None:
        threading.settrace(self._trace)
        sys.settrace(self._trace)
        if greenlet := sys.modules.get("greenlet"):  # each greenlet is traced on its own
            greenlet.settrace(lambda *switched: sys.settrace(self._trace))

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if code.co_filename not in self._wanted or self._seen.get(id(code), 0) > _MOST_LINES:
            return None
        return self._local

    def _local(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        self._hit.setdefault(code.co_filename, set()).add(frame.f_lineno)
        self._seen[id(code)] = seen = self._seen.get(id(code), 0) + 1
        if seen > _MOST_LINES:
            frame.f_trace_lines = False
        return self._local

    def _taken(self) -> dict[str, list[int]]:
        hit, self._hit = self._hit, {}
        return {path: sorted(lines) for path, lines in hit.items()}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        self._job.answer(test="", seconds=0.0, hit=self._taken())
        assert self._job.part is not None
        number, several = self._job.part
        files = sorted({str(item.path) for item in items})
        items[:] = [item for item in items if files.index(str(item.path)) % several == number]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        self._hit.clear()
        self._seen.clear()
        self._failed = False
        began = time.monotonic()
        self.start()
        done = yield
        if not self._failed:
            seconds = time.monotonic() - began
            self._job.answer(test=item.nodeid, seconds=seconds, hit=self._taken())
        return done

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed |= report.failed

    def pytest_sessionfinish(self) -> None:
        names = [name for name in sys.modules if name.startswith("tfdbg_cli")]
        self._job.answer(modules=names)


def _silence() -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nowhere, number)


def main(path: str) -> None:
    """Do what the job says."""
    with open(path, encoding="utf-8") as file:
        job = Job(**json.load(file))
    for name in _COMMON:
        try:
            importlib.import_module(name)
        except ImportError:
            pass
    for name, value in _environment(job.folder):
        os.makedirs(value, exist_ok=True)
        os.environ[name] = value
    # Failures needn't be small, and the same examples are tried each time.
    phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
    hypothesis.settings.register_profile(
        "mutants", phases=phases, derandomize=True, database=None, deadline=None
    )
    hypothesis.settings.load_profile("mutants")
    _guard(job.folder)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if job.part is not None:

        def work() -> str:
            plugin = _Map(job)
            plugin.start()
            pytest.main([*job.options(), *job.tests], plugins=[plugin])
            return "done"

        job.answer(said=_in_child(work, 3000.0))
        return
    if job.anew:
        _run_cold(job)
    else:
        pytest.main([*job.options(), *job.tests], plugins=[_Warm(job)])


if __name__ == "__main__":
    main(sys.argv[1])
