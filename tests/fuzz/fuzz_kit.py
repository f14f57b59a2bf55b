"""What a fuzz target is, what must hold for every input, and the loops that make inputs."""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import tracemalloc
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Self

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import tfdbg_cli
from tfdbg_cli.commands.reply import Reply, Toast
from tfdbg_cli.common.documents import Document
from tfdbg_cli.common.errors import UserError

PACKAGE = os.path.dirname(tfdbg_cli.__file__) + os.sep
HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FINDINGS = HERE / "findings"
IN_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None

# What an input may cost. The times are of the processor, and far above what any input takes.
CPU_SECONDS = 10
SLOW_SECONDS = 2.0
# An array of a few elements that stands for many (a constant of a graph) may have 16 MB.
FIXED_BYTES, BYTES_PER_BYTE = 24 << 20, 100
# One input of so many is run with its allocations traced, and one under the own coverage.
_TRACED, _COVERED = 64, 24
# After so many the memory of the process is looked at.
_MEASURED = 16

#: What a terminal would obey.
ACTING = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


class BrokenPromiseError(AssertionError):
    """A reader has done what none may do."""


@dataclass(frozen=True)
class Target:
    """One reader.

    Attributes:
        name: of the target, its module of targets aside.
        read: feeds one input to the reader; for an input that is none it raises a `UserError`.
        seeds: valid inputs.
        tokens: pieces that mutations put in.
        refusals: what else the reader may raise, as it documents.
        longest: bytes of an input.
        few: how many inputs the tests try.
    """

    name: str
    read: Callable[[bytes], object]
    seeds: Callable[[], Iterable[bytes]]
    tokens: tuple[bytes, ...] = ()
    refusals: tuple[type[BaseException], ...] = ()
    longest: int = 4096
    few: int = 2000


@dataclass(frozen=True)
class Finding:
    """An input that broke a promise.

    Attributes:
        target: its name.
        data: the input.
        where: kind of failure and the place, which tell findings apart.
        text: the traceback.
    """

    target: str
    data: bytes
    where: str
    text: str

    def keep(self) -> Path:
        """Write the input where the tests find it."""
        folder = FINDINGS / self.target
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / hashlib.sha256(self.data).hexdigest()[:12]
        path.write_bytes(self.data)
        return path


def shown(*texts: str) -> None:
    """What reaches the screen holds nothing that a terminal obeys.

    Raises:
        BrokenPromiseError: it does.
    """
    for text in texts:
        if not text.isprintable() and (match := ACTING.search(text)) is not None:
            raise BrokenPromiseError(f"{match[0]!r} reaches the screen in {text[:200]!r}")


def shown_document(document: Document, most: int = 400) -> None:
    """The same for the lines and links of a Document."""
    shown(document.title)
    for line in document.lines(0, min(document.line_count, most)):
        for span in line.spans:
            shown(span.text)
            if "\n" in span.text:
                raise BrokenPromiseError(f"a line holds a line feed: {span.text[:200]!r}")
            if span.link is not None:
                shown(span.link.command)


def shown_reply(reply: Reply) -> None:
    """The same for the answer to a command, which is no failure of ours."""
    if reply.document is not None:
        shown_document(reply.document)
    if reply.message is not None:
        shown(reply.message.text)
        if "Error in the debugger" in reply.message.text:
            raise BrokenPromiseError("\n".join([reply.message.text, *reply.details]))


# What is watched while a reader is at work.

_root: str | None = None
_outside: str | None = None
_allowed: tuple[str, ...] = ()


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    global _outside
    if _root is None or event not in ("open", "os.listdir", "os.scandir", "os.remove", "os.rename"):
        return
    path = arguments[0]
    if not isinstance(path, str | bytes | os.PathLike):
        return
    if event == "os.remove" and arguments[1] != -1:  # in a folder that is open, as rmtree does
        return
    text = os.path.realpath(os.fsdecode(os.fspath(path)))
    if event == "os.listdir" and text in {os.path.realpath(folder) for folder in sys.path}:
        return  # an import sees that something new is there
    if not text.startswith(_root) and not text.startswith(_allowed):
        _outside = f"{event} of {text}"


@contextlib.contextmanager
def confined(root: str | os.PathLike[str]) -> Iterator[None]:
    """Opening anything outside of a folder is a broken promise; modules may be imported."""
    global _root, _outside, _allowed
    if not _allowed:
        sys.addaudithook(_audit)
        _allowed = tuple(
            # Of live programs, such as this one, the sources of modules are read.
            {os.path.realpath(p) + os.sep for p in (sys.prefix, sys.base_prefix, ROOT)}
            | {os.path.realpath(path) + os.sep for path in sys.path if "site-packages" in path}
        )
    _root, _outside = os.path.realpath(root), None
    try:
        yield
    finally:
        _root = None
    if _outside is not None:
        raise BrokenPromiseError(f"outside of the folder: {_outside}")


class _HangError(BaseException):
    pass


class _Watch:
    """Ends what takes too long; without a system call for each input."""

    def __init__(self) -> None:
        self.at = 0
        self._before = 0

    def ring(self, number: int, frame: FrameType | None) -> None:
        before, self._before = self._before, self.at
        if self.at and self.at == before:
            raise _HangError


def _place(error: BaseException) -> str:
    """The innermost line of ours."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename.startswith(PACKAGE)] or list(frames)
    return f"{own[-1].filename.removeprefix(PACKAGE)}:{own[-1].lineno}" if own else "?"


class Checker:
    """Runs inputs of one target and tells which break a promise; to be used in a ``with``.

    Args:
        target: which.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self.count = 0
        self._peak = 0
        self._last: deque[bytes] = deque(maxlen=_MEASURED)
        self._watch = _Watch()

    def __enter__(self) -> Self:
        # A warning of Python's would be printed on the person's terminal.
        self._filters = warnings.catch_warnings()
        self._filters.__enter__()
        warnings.simplefilter("error")
        self._handler = signal.signal(signal.SIGPROF, self._watch.ring)
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS, CPU_SECONDS)
        return self

    def __exit__(self, *error: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, self._handler)
        self._filters.__exit__(None, None, None)

    def check(self, data: bytes) -> Finding | None:
        """What an input breaks, if anything."""
        self.count += 1
        if self.count % _TRACED == 0:
            return self._check_memory(data)
        began = time.perf_counter()
        finding = self._read(data)
        if finding is None and time.perf_counter() - began > SLOW_SECONDS:
            finding = self._check_time(data)
        self._last.append(data)
        if finding is None and self.count % _MEASURED == 0:
            before, self._peak = self._peak, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            if before and (self._peak - before) * 1024 > FIXED_BYTES:
                found = [self._check_memory(each) for each in self._last]
                finding = next((each for each in found if each is not None), None)
        return finding

    def _read(self, data: bytes) -> Finding | None:
        self._watch.at = self.count
        try:
            self.target.read(data)
        except UserError as error:
            problem = self._refused(error)
            return None if problem is None else self._finding(data, problem)
        except self.target.refusals:
            return None
        except _HangError as error:
            return self._finding(data, error, "hang")
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return self._finding(data, error)
        finally:
            self._watch.at = 0
        return None

    def _check_time(self, data: bytes) -> Finding | None:
        """Whether it was the input that took the time, and not the machine."""
        began = time.process_time()
        self._read(data)
        took = time.process_time() - began
        if took <= SLOW_SECONDS:
            return None
        return Finding(self.target.name, data, "slow", f"{took:.1f} s of the processor")

    def _check_memory(self, data: bytes) -> Finding | None:
        tracemalloc.start(1)
        try:
            finding = self._read(data)
            allocated = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        if finding is None and allocated > FIXED_BYTES + BYTES_PER_BYTE * len(data):
            text = f"{allocated} bytes for an input of {len(data)}"
            return Finding(self.target.name, data, "memory", text)
        return finding

    def _refused(self, error: UserError) -> BaseException | None:
        """Whether the line that a person gets is one, and harmless."""
        try:
            shown(Toast(str(error)).text)
        except Exception as problem:
            return problem
        return None

    def _finding(self, data: bytes, error: BaseException, kind: str = "") -> Finding:
        where = f"{kind or type(error).__name__} at {_place(error)}"
        return Finding(
            self.target.name, data, where, "".join(traceback.format_exception(error))[-4000:]
        )


# Where files of a target lie.

_folders: list[str] = []


def memory_folder() -> str:
    """A new folder, in memory where there is such a place; it is removed at the end."""
    where = os.environ.get("FUZZ_FOLDER") or IN_MEMORY
    _folders.append(tempfile.mkdtemp(prefix="tfdbg-fuzz-", dir=where))
    return os.path.realpath(_folders[-1])


def remove_folders() -> None:
    """Remove those of `memory_folder`."""
    while _folders:
        shutil.rmtree(_folders.pop(), ignore_errors=True)


# Inputs.


def drawn(strategy: st.SearchStrategy[bytes], count: int = 60) -> list[bytes]:
    """Valid inputs by a strategy, the same ones each time."""
    found: list[bytes] = []

    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(data: bytes) -> None:
        found.append(data)

    collect()
    return found


_TOKENS = (
    b"\x00",
    b"\xff" * 10,
    b"\x80" * 10 + b"\x01",
    b"\x1b[2J\x9b\x07",
    "\u202e\u2066\u2028\x85".encode(),
    b"\xed\xa0\x80",
    b"9" * 5000,
    b"-1",
    b"18446744073709551616",
    b"1e999",
    b"NaN",
    b"[" * 3000,
    b'{"a":' * 1500,
    b"(" * 300,
    b"../" * 4,
    b"/etc/passwd",
    b"\r\n",
    b"\\",
    b'"',
    b"'",
    b"`",
    "٣\u00b2".encode(),
    b"\xe2\x90\x80",
)
_NUMBER = re.compile(rb"\d+")
_NUMBERS = (b"0", b"-1", b"1", b"255", b"65536", b"2147483648", b"9223372036854775808", b"1e9")


class Mutator:
    """Makes inputs of others.

    Args:
        seed: of the random numbers.
        tokens: pieces that are put in, besides those that no reader likes.
        longest: bytes of an input.
    """

    def __init__(self, seed: int, tokens: Iterable[bytes], longest: int) -> None:
        self.random = random.Random(seed)
        self._own = tuple(tokens)
        self._longest = longest

    def mutate(self, data: bytes, other: bytes) -> bytes:
        """Another input.

        Args:
            data: an input.
            other: another one, of which a part may be taken.
        """
        draw = self.random.random
        for _ in range(1 + int(3 * draw())):
            at = int(draw() * (len(data) + 1))
            kind = int(draw() * 9)
            if kind == 0 and data:
                at = min(at, len(data) - 1)
                data = data[:at] + bytes([data[at] ^ 1 << int(draw() * 8)]) + data[at + 1 :]
            elif kind == 1:
                data = data[:at] + bytes([int(draw() * 256)]) + data[at + 1 :]
            elif kind == 2:
                data = data[:at] + data[at + 1 + int(draw() * draw() * 40) :]
            elif kind == 3:
                data = data[:at] + self.random.randbytes(1 + int(draw() * 8)) + data[at:]
            elif kind == 4:
                tokens = self._own if self._own and draw() < 0.7 else _TOKENS
                data = data[:at] + tokens[int(draw() * len(tokens))] + data[at:]
            elif kind == 5:
                start = int(draw() * (len(other) + 1))
                part = other[start : start + 1 + int(draw() * 60)]
                data = data[:at] + part + data[at + (len(part) if draw() < 0.5 else 0) :]
            elif kind == 6:
                start = int(draw() * (len(data) + 1))
                data = data[:at] + data[start : start + 1 + int(draw() * 60)] + data[at:]
            elif kind == 7:
                data = data[:at]
            else:
                places = [match.span() for match in _NUMBER.finditer(data)]
                if places:
                    start, stop = places[int(draw() * len(places))]
                    number = _NUMBERS[int(draw() * len(_NUMBERS))]
                    data = data[:start] + number + data[stop:]
        return data[: self._longest]


class _Coverage:
    """The lines of ours that inputs have reached; slow, so few inputs run under it.

    Attributes:
        is_new: whether the last input reached a line that none before it had.
    """

    def __init__(self) -> None:
        self._seen: set[tuple[str, int]] = set()
        self.is_new = False

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        place = (frame.f_code.co_filename, frame.f_lineno)
        if place not in self._seen:
            self._seen.add(place)
            self.is_new = True
        return self._trace

    def run(self, checker: Checker, data: bytes) -> Finding | None:
        """Check an input, and see whether it reaches anything new."""
        self.is_new = False
        before = sys.gettrace()
        sys.settrace(self._trace)
        try:
            return checker.check(data)
        finally:
            sys.settrace(before)


#: Told how many inputs were run and, if one of them broke a promise, what it found.
Report = Callable[[int, Finding | None], None]


def by_structure(target: Target, seed: int, seconds: float, inputs: int, report: Report) -> None:
    """Mutate valid inputs; those that reach new lines are mutated further.

    Args:
        target: which.
        seed: of the random numbers.
        seconds: how long, at most.
        inputs: how many, at most.
        report: called after each input.
    """
    with Checker(target) as checker:
        _feed(checker, seed, seconds, inputs, report)


def _feed(checker: Checker, seed: int, seconds: float, inputs: int, report: Report) -> None:
    target, coverage = checker.target, _Coverage()
    mutator = Mutator(seed, target.tokens, target.longest)
    pool = list(target.seeds())
    until = time.monotonic() + seconds
    for data in pool[:inputs]:
        if time.monotonic() > until:
            return
        report(1, coverage.run(checker, data))
    for number in range(max(inputs - len(pool), 0)):
        if time.monotonic() > until:
            return
        pick = mutator.random.random
        size = len(pool)
        data = mutator.mutate(pool[int(pick() * size)], pool[int(pick() * size)])
        if number % _COVERED == 0:
            found = coverage.run(checker, data)
            if coverage.is_new and found is None and size < 5000:
                pool.append(data)
            report(1, found)
        else:
            report(1, checker.check(data))
