"""The statistics of a dump's tensors: what is known of them, and a thread for the rest.

A list never waits for a statistic. It shows what is known and lets a `Background` compute what
isn't, while somebody looks.
"""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar, Generic, Protocol, TypeVar

from tfdbg_cli.common.arrays import np
from tfdbg_cli.common.errors import one_line
from tfdbg_cli.dumps.datum import known_dtype
from tfdbg_cli.dumps.dump import Datum, Dump
from tfdbg_cli.tensors.histogram import Histogram, histogram_of
from tfdbg_cli.tensors.statistics import Health, Statistics, holds_nonfinite, measure

__all__ = ["Background", "Histograms", "Itself", "Measurements", "Measures", "halt"]

_Item = TypeVar("_Item")
_Measured_contra = TypeVar("_Measured_contra", contravariant=True)

# Without a sign of interest for so long, nobody looks any more.
_LEASE_SECONDS = 1.0

# Somebody who scrolls on and on is at most so many rows ahead of the thread.
_MOST_WANTED = 1000

# The bars of a tensor in a list; of one of more elements than these, a sample is taken.
_BARS, _SAMPLED = 16, 1 << 20

# Element types without statistics; nothing is read to know that.
_WITHOUT = frozenset({"string", "resource", "variant"})


class Measurements:
    """The statistics of one dump's tensors, kept for as long as the dump lives.

    `Measurements.of` gives the same object for the same dump.
    """

    _all: ClassVar[weakref.WeakKeyDictionary[Dump, Measurements]] = weakref.WeakKeyDictionary()

    def __init__(self) -> None:
        # By identity: a dump keeps its data as long as it lives. References to them would keep
        # their values, and through some of them the dump itself, alive for good.
        self._known: dict[int, Statistics] = {}
        self._histograms: dict[int, Histogram] = {}

    @classmethod
    def of(cls, dump: Dump) -> Measurements:
        """The measurements of a dump."""
        return cls._all.setdefault(dump, cls())

    def peek(self, datum: Datum, *, numbers: bool = True) -> Statistics | None:
        """What is known of a tensor without reading its value; ``None``: too little.

        Args:
            datum: one of the dump's.
            numbers: whether minimum, maximum and mean are needed, besides the health.
        """
        known = self._known.get(id(datum))
        if known is not None:
            return known
        dtype = known_dtype(datum)
        if dtype in _WITHOUT:
            return Statistics()
        if numbers or not dtype:
            return None
        if not holds_nonfinite(dtype):
            return Statistics()
        health = _stored_health(datum)
        return Statistics(health) if health is not None else None

    def measure(self, datum: Datum, check: Callable[[], object] = lambda: None) -> Statistics:
        """The statistics of a tensor, computed now if need be. A value that fails to load has none.

        Args:
            datum: one of the dump's.
            check: called now and then while it is computed. What it raises goes on to the caller
                if it is no `Exception`, and nothing is kept.
        """
        known = self._known.get(id(datum))
        if known is None:
            try:
                known = measure(datum.get_tensor(), check)
            except Exception as error:
                text = one_line(error)
                known = Statistics(_stored_health(datum), error=text)
            self._known[id(datum)] = known
        return known

    def peek_histogram(self, datum: Datum) -> Histogram | None:
        """The small histogram of a tensor, if it was made; it has no bins where there are none."""
        return (
            Histogram((), ()) if known_dtype(datum) in _WITHOUT else self._histograms.get(id(datum))
        )

    def histogram(self, datum: Datum, check: Callable[[], object] = lambda: None) -> Histogram:
        """A histogram of a few bins, made now if need be; the statistics are known then, too.

        The arguments are those of `measure`.
        """
        found = self.peek_histogram(datum)
        if found is None:
            try:
                value = datum.get_tensor()
                if id(datum) not in self._known:
                    self._known[id(datum)] = measure(value, check)
                found = _small_histogram(value, self._known[id(datum)], check)
            except Exception:  # the statistics say why
                self.measure(datum, check)
                found = Histogram((), ())
            self._histograms[id(datum)] = found
        return found


class Histograms:
    """What makes the histograms of a dump's tensors for a `Background`.

    Args:
        measurements: where they are kept.
    """

    def __init__(self, measurements: Measurements) -> None:
        self._measurements = measurements

    def measure(self, datum: Datum, check: Callable[[], object]) -> Histogram:
        """Make and keep one; see `Measures`."""
        return self._measurements.histogram(datum, check)


def _small_histogram(value: object, known: Statistics, check: Callable[[], object]) -> Histogram:
    low, high, health = known.minimum, known.maximum, known.health
    bad = (health.nan, health.neg_inf, health.pos_inf) if health is not None else (0, 0, 0)
    if low is None or high is None or not isinstance(value, np.ndarray | np.generic):
        return Histogram((), (), bad)
    found = histogram_of(np.asarray(value), low, high, check, _SAMPLED)
    return replace(found.merged(_BARS), bad=bad)


def _stored_health(datum: Datum) -> Health | None:
    """What the dump itself says; of integers, that they have no health."""
    stored = getattr(datum, "health", None)
    return Health(*stored) if stored is not None and holds_nonfinite(known_dtype(datum)) else None


class _Unwanted(BaseException):
    """Nobody waits for this tensor any more. Not an error: those are kept as the result."""


class Measures(Protocol[_Measured_contra]):
    """Something that measures items of one kind, as `Measurements` does tensors."""

    def measure(self, item: _Measured_contra, check: Callable[[], object], /) -> object:
        """Measure one item and keep the result. Raises nothing but what ``check`` raises."""
        ...


class Works(Protocol):
    """Something that has work for a thread."""

    def work(self, check: Callable[[], object], /) -> None:
        """Do it. Raises nothing but what ``check`` raises, and goes on from there later."""
        ...


class Itself:
    """Measures what does it itself, and refers to nothing: neither it nor its tensors are kept."""

    def measure(self, item: Works, check: Callable[[], object]) -> None:
        """Let it; see `Measures`."""
        item.work(check)


class Background(Generic[_Item]):
    """A thread that measures the tensors somebody waits for, the latest wish first.

    It measures other things as well, if something `Measures` them; they are told apart by identity.

    There is no thread where nothing is wanted. It ends, between two blocks of a tensor, when nobody
    has asked for a while (`want` and `is_pending` are the signs of interest), at `halt`, and when
    this object is garbage, which it doesn't prevent.
    """

    def __init__(self, measurements: Measures[_Item]) -> None:
        self._measurements = measurements
        self._lock = threading.Lock()
        self._wanted: dict[int, _Item] = {}  # the next one is the last
        self._has_news = False
        self._until = 0.0
        self._thread: threading.Thread | None = None

    def want(self, data: Sequence[_Item]) -> None:
        """Ask for the statistics of tensors; they come before all that was asked for earlier."""
        with self._lock:
            for datum in reversed(data):
                self._wanted.pop(id(datum), None)
                self._wanted[id(datum)] = datum
            while len(self._wanted) > _MOST_WANTED:
                del self._wanted[next(iter(self._wanted))]
            self._renew()

    @property
    def is_pending(self) -> bool:
        """Whether some tensor that was asked for isn't measured yet, or was since this was asked.

        A screen that was drawn before the last of them was measured is thus drawn once more.
        """
        with self._lock:
            if self._wanted:
                self._renew()
            has_news, self._has_news = self._has_news, False
            return bool(self._wanted) or has_news

    def drop(self, data: Sequence[_Item]) -> None:
        """Tensors that aren't needed any more."""
        with self._lock:
            for datum in data:
                self._wanted.pop(id(datum), None)
            self._has_news = self._has_news and bool(self._wanted)

    def _finish(self, datum: _Item) -> None:
        """The thread has measured a tensor."""
        with self._lock:
            if self._wanted.pop(id(datum), None) is not None:
                self._has_news = True

    def _renew(self) -> None:
        self._until = time.monotonic() + _LEASE_SECONDS
        if self._wanted and (self._thread is None or not self._thread.is_alive()):
            self._thread = threading.Thread(
                target=_work,
                args=(weakref.ref(self), _halts),
                name="tfdbg statistics",
                daemon=True,
            )
            # Where the process can't have another thread, what isn't known stays unknown.
            with contextlib.suppress(RuntimeError):
                self._thread.start()
                _threads.add(self._thread)

    def _next(self, halts: int) -> _Item | None:
        """The tensor to measure now. ``None``: the thread that asks is no longer needed."""
        with self._lock:
            if self._is_over(halts) or not self._wanted:
                if self._thread is threading.current_thread():
                    self._thread = None
                return None
            return next(reversed(self._wanted.values()))

    def _is_over(self, halts: int) -> bool:
        return halts != _halts or time.monotonic() > self._until

    def _is_wanted(self, datum: _Item, halts: int) -> bool:
        return id(datum) in self._wanted and not self._is_over(halts)


# How often all threads were told to end.
_halts = 0


_threads: weakref.WeakSet[threading.Thread] = weakref.WeakSet()


def halt(seconds: float = 0.0) -> None:
    """End all threads, each at the end of the block that it is at: the program is to run on.

    Args:
        seconds: how long to wait for that. A thread that is in the code of a framework, or lets go
            of a tensor, when the interpreter ends, aborts the process.
    """
    global _halts
    _halts += 1
    until = time.monotonic() + seconds
    for thread in list(_threads) if seconds else ():
        with contextlib.suppress(RuntimeError):  # it is this one, or in a forked child
            thread.join(max(until - time.monotonic(), 0))


def _work(reference: weakref.ref[Background[_Item]], halts: int) -> None:
    """What the thread does. It holds no more than the tensor that it measures."""
    while True:
        owner = reference()
        datum = owner._next(halts) if owner is not None else None
        if owner is None or datum is None:
            return
        measurements = owner._measurements
        del owner
        _measure_wanted(reference, measurements, datum, halts)
        del datum


def _measure_wanted(
    reference: weakref.ref[Background[_Item]],
    measurements: Measures[_Item],
    datum: _Item,
    halts: int,
) -> None:
    def check() -> None:
        owner = reference()
        if owner is None or not owner._is_wanted(datum, halts):
            raise _Unwanted

    try:
        measurements.measure(datum, check)
    except _Unwanted:
        return
    owner = reference()
    if owner is not None:
        owner._finish(datum)
