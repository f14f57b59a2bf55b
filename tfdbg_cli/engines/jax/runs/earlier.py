"""The state that calls write over: on disk now and then, and computed again from there.

A function with ``donate_argnums`` writes over its arguments, and a call of it can only be replayed
from a copy of them. A training step donates the parameters and the optimizer's state: a copy at
each call doubles what the training takes. So the state goes to a file once, and from then on only
what each call gets besides it is held, which is a batch. Whoever wants to replay a call reads the
file, and lets the program's own function make the calls in between once more.
"""

from __future__ import annotations

import math
import shutil
import tempfile
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from tfdbg_cli.common.interpreter.program_signals import pass_on
from tfdbg_cli.common.memory import unnoticed_memory
from tfdbg_cli.common.streams import tell
from tfdbg_cli.engines.jax.plans.values import as_array, is_key, is_spread
from tfdbg_cli.engines.jax.private import is_committed
from tfdbg_cli.engines.jax.runs.copies import copied_arrays
from tfdbg_cli.engines.kit.spill import SpillFile

__all__ = ["EarlierState", "EarlierStates"]

#: Arguments that take no more than this are copied at each call, in bytes.
_SMALL = 1 << 26
# An array that takes no more than this stays in memory beside the file.
_LITTLE = 1 << 16
# The state is written again after so many times as long as writing it takes.
_APART = 20.0
# Of the disk's free bytes the file takes no more than this share.
_MOST_OF_DISK = 0.25
# Whoever would wait longer than this many seconds for the calls in between is told so.
_PATIENCE = 2.0


class _Result(NamedTuple):
    """An argument that the call before has returned, at this place."""

    at: int


class _Copy(NamedTuple):
    """An argument that is written over."""

    value: Any


class _OnDisk(NamedTuple):
    """An argument that is in the file; `sharding` is that of a JAX array."""

    begin: int
    dtype: Any
    shape: tuple[int, ...]
    sharding: Any
    is_committed: bool

    def read(self, file: SpillFile) -> Any:
        data = file.read(self.begin, self.dtype.itemsize * math.prod(self.shape))
        found = np.frombuffer(data, self.dtype).reshape(self.shape)
        if self.sharding is None:
            return found
        # An alias of the buffer would be written over with it.
        if self.is_committed:
            return jax.device_put(found, self.sharding, may_alias=False)
        with jax.default_device(next(iter(self.sharding.device_set))):
            return jax.device_put(found, may_alias=False)


class _Past(NamedTuple):
    """What one call got: its arguments, or where they are."""

    structure: Any
    leaves: Sequence[Any]


class EarlierStates:
    """Of each function the state that it was given once, and the calls since then."""

    def __init__(self) -> None:
        self._chains: weakref.WeakKeyDictionary[Any, _Chain] = weakref.WeakKeyDictionary()
        self._refused: weakref.WeakSet[Any] = weakref.WeakSet()

    def clear(self) -> None:
        """Nobody waits any more."""
        self._chains.clear()

    def begin(self, function: Any, given: Any, donated: Any) -> EarlierState | None:
        """A call that writes over some of its arguments is about to be made.

        Args:
            function: what is called.
            given: its positional arguments and those by name.
            donated: those that it writes over.

        Returns:
            What computes them again; ``None``: they have to be copied.
        """
        size = sum(getattr(each, "nbytes", 0) for each in jax.tree.leaves(donated))
        if size <= _SMALL or function in self._refused or not _can_be_written(donated):
            return None
        chain = self._chains.setdefault(function, _Chain())
        try:
            is_kept = chain.begin(given, donated, size)
        except OSError as error:
            pass_on(error)
            is_kept = False
        if not is_kept:
            self.refuse(function)
        return EarlierState(chain, len(chain.calls)) if is_kept else None

    def end(self, function: Any, outputs: Sequence[Any]) -> None:
        """The call is over, and has returned these."""
        chain = self._chains.get(function)
        if chain is not None:
            chain.end(outputs)

    def refuse(self, function: Any) -> None:
        """The arguments of a function are copied from now on."""
        self._chains.pop(function, None)
        self._refused.add(function)


class EarlierState(NamedTuple):
    """Computes the arguments of one call again.

    Attributes:
        chain: the calls of its function.
        until: how many of these there are until the call, itself included.
    """

    chain: _Chain
    until: int

    def compute(self, call: Callable[..., Any], title: str) -> Any:
        """The arguments, positional and by name.

        Args:
            call: makes a call past whoever debugs.
            title: the function's name.

        Raises:
            LookupError: they can't be computed, for the reason given.
            OSError: the file can't be read.
        """
        return self.chain.compute(call, title, self.until)


class _Chain:
    """The calls of one function each of which gets what the one before has returned.

    Attributes:
        calls: since the state was written.
        size: of the state, in bytes.
    """

    def __init__(self) -> None:
        self.calls: list[_Past] = []
        self.size = 0
        self._file: SpillFile | None = None
        self._results: dict[int, tuple[int, weakref.ref[Any]]] = {}
        self._held = 0
        self._written_at = self._seconds = 0.0

    def begin(self, given: Any, donated: Any, size: int) -> bool:
        """Keep what a call gets; false: that can't be, as it didn't come from the call before."""
        leaves, structure = jax.tree.flatten(given)
        written_over = {id(each) for each in jax.tree.leaves(donated)}
        file, past = self._file, None
        if file is not None and time.monotonic() - self._written_at < _APART * self._seconds:
            past = [self._place(file, each, id(each) in written_over) for each in leaves]
            if any(each is None for each in past):
                return False
        if past is None:
            past = self._write(leaves, written_over, size)
        self.calls.append(_Past(structure, past))
        self._results = {}
        return True

    def end(self, outputs: Sequence[Any]) -> None:
        self._results = {
            id(each): (at, weakref.ref(each))
            for at, each in enumerate(outputs)
            if isinstance(each, jax.Array)
        }

    def _place(self, file: SpillFile, leaf: Any, is_written_over: bool) -> Any:
        """An argument, or where it is afterwards; ``None``: nowhere."""
        at, reference = self._results.get(id(leaf), (-1, None))
        if reference is not None and reference() is leaf:
            return _Result(at)
        size = int(getattr(leaf, "nbytes", 0) or 0)
        if is_written_over:
            return _Copy(copied_arrays(leaf)) if size <= _LITTLE else None
        if not size or any(leaf is each for each in self.calls[-1].leaves):
            return leaf
        if self._held + size > unnoticed_memory() and not is_key(leaf):
            return _to_disk(file, leaf)
        self._held += size
        # A loader may write over its own buffers.
        return leaf.copy() if isinstance(leaf, np.ndarray) else leaf

    def _write(self, leaves: Sequence[Any], written_over: set[int], size: int) -> list[Any]:
        self.calls, self._file, self._held, self.size = [], None, 0, size
        folder = tempfile.gettempdir()
        if size > _MOST_OF_DISK * shutil.disk_usage(folder).free:
            raise OSError(f"{size:,} bytes are too many for {folder}")
        began = time.monotonic()
        file = SpillFile()
        places: list[Any] = []
        for leaf in leaves:
            if id(leaf) not in written_over:
                places.append(leaf.copy() if isinstance(leaf, np.ndarray) else leaf)
            elif getattr(leaf, "nbytes", 0) <= _LITTLE:
                places.append(_Copy(copied_arrays(leaf)))
            else:
                places.append(_to_disk(file, leaf))
        self._file, self._written_at = file, time.monotonic()
        self._seconds = self._written_at - began
        return places

    def compute(self, call: Callable[..., Any], title: str, count: int) -> Any:
        """See `EarlierState.compute`."""
        file = self._file
        if file is None or len(self.calls) < count:
            raise LookupError("its state was written again since")
        results: Sequence[Any] = ()
        began = time.monotonic()
        for number, past in enumerate(self.calls[:count], 1):
            leaves = [_again(each, file, results) for each in past.leaves]
            args, kwargs = jax.tree.unflatten(past.structure, leaves)
            if number == count:
                break
            results = jax.tree.leaves(call(*args, **kwargs))
            if number == 1 and (left := (time.monotonic() - began) * (count - 2)) > _PATIENCE:
                tell(f"{count - 2} earlier calls of {title} are made again: some {left:.0f} s.")
        return args, kwargs


def _to_disk(file: SpillFile, leaf: Any) -> _OnDisk:
    data = np.ascontiguousarray(as_array(leaf))
    begin = file.add(data.reshape(-1).view(np.uint8).data)
    is_array = isinstance(leaf, jax.Array)
    return _OnDisk(
        begin,
        data.dtype,
        data.shape,
        leaf.sharding if is_array else None,
        is_array and is_committed(leaf),
    )


def _again(leaf: Any, file: SpillFile, results: Sequence[Any]) -> Any:
    if isinstance(leaf, _Result):
        return results[leaf.at]
    if isinstance(leaf, _OnDisk):
        return leaf.read(file)
    if isinstance(leaf, _Copy):
        return copied_arrays(leaf.value)
    if isinstance(leaf, jax.Array) and leaf.is_deleted():
        raise LookupError("another function has written over an argument since")
    return leaf


def _can_be_written(donated: Any) -> bool:
    """Whether arrays come back from a file as they were."""
    return all(
        isinstance(each, jax.Array)
        and not (is_key(each) or is_spread(each) or each.weak_type or len(each.devices()) > 1)
        for each in jax.tree.leaves(donated)
        if getattr(each, "nbytes", 0) > _LITTLE
    )
