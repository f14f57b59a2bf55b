"""Keeps values as they were: by reference, copied only before they are overwritten."""

from __future__ import annotations

import io
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from tfdbg_cli.engines.kit.spill import SizeWarning, SpillFile
from tfdbg_cli.engines.torch.private import (
    Pins,
    count_of,
    is_functional,
    nonzero_count,
    storage_key,
    storage_uses,
    top_interpreter,
    unobserved,
    write_count,
)
from tfdbg_cli.engines.torch.values.access import PLAIN, Access, access, is_readable
from tfdbg_cli.engines.torch.values.arrays import shared_array
from tfdbg_cli.engines.torch.values.composites import Composite, taken_apart
from tfdbg_cli.engines.torch.values.layouts import undisturbed
from tfdbg_cli.engines.torch.values.notes import note

__all__ = ["HeldValue", "Holder"]

_FREED = "Its memory was given back since (parameters of FSDP are, between uses)."
_NOT_KEPT = "Runs that are only waited for keep no more than this (config set level values)."
_OVERWRITTEN = "It was written to since, inside of a module or by an optimizer."


class HeldValue:
    """A value of one output.

    Attributes:
        tensor: the value, detached; ``None`` while it is on disk, when it is gone, and where it is
            held by its parts.
        key: of the storage that it shares with the program; 0: it shares none.
        charge: bytes that count for the limit, once for all that share the storage.
        place: where it is on disk.
        note: why it is gone.
        form: how it is made of its parts, where nobody but its class knows it as a whole.
        parts: those.
        version: how often the storage had been written to.
    """

    __slots__ = ("charge", "form", "key", "note", "parts", "place", "tensor", "version")

    def __init__(self, tensor: torch.Tensor | None, key: int) -> None:
        self.tensor = tensor
        self.key = key
        self.charge = 0
        self.place: _SpilledPlace | None = None
        self.note = ""
        self.form: Composite | None = None
        self.parts: Sequence[HeldValue] = ()
        self.version = count_of(tensor) if tensor is not None else -1

    @property
    def is_gone(self) -> bool:
        """Whether the value can't be had any more."""
        return self.tensor is None and self.place is None and self.form is None

    def get(self) -> torch.Tensor | None:
        """The value, read from disk if it is there; ``None``: it is gone, see `note`."""
        tensor, place = self.tensor, self.place
        if tensor is None and place is not None:
            return place.holder.load(place)
        if self.form is not None:
            parts = self._loaded()
            with undisturbed():
                return self.form.shown(parts) if parts else None
        return tensor

    def said(self) -> str:
        """What the elements don't tell."""
        if self.form is not None:
            parts = self._loaded()
            with undisturbed():
                return self.form.note(parts) if parts else ""
        tensor = self.get()
        return note(tensor) if tensor is not None else ""

    def _loaded(self) -> list[torch.Tensor]:
        """The parts; none unless all are there."""
        found = []
        for part in self.parts:
            tensor = part.get()
            if tensor is None:
                self.note = part.note
                return []
            found.append(tensor)
        return found


class _SpilledPlace:
    """Where a value is in the spill file, and how to make a tensor of it."""

    __slots__ = ("dtype", "holder", "length", "offset", "shape")

    def __init__(
        self,
        holder: Holder,
        offset: int,
        length: int,
        dtype: torch.dtype | None = None,
        shape: tuple[int, ...] = (),
    ) -> None:
        self.holder = holder
        self.offset = offset
        self.length = length
        self.dtype = dtype
        self.shape = shape


class Holder:
    """The values of one run.

    Args:
        limit: bytes in memory; the oldest values beyond it go to disk. ``None``: no limit.
        spill_root: makes the folder for the file on disk; default: the system's for such files.
        clones: values are copied at once, whether or not the program writes to them.
        allowance: bytes that may be in memory for the values' sake alone, which the program hasn't
            by itself; beyond it all are let go of but the precious ones. ``None``: any number.

    Attributes:
        spent: is called when that happens.
        precious: gives the values that are kept then.
        is_spent: it has happened.
        held_bytes: of the values in memory. What belongs to the program anyway (parameters, its
            inputs) counts from the time at which a copy is made.
        warnings: what could not be kept.
    """

    def __init__(
        self,
        limit: int | None = None,
        spill_root: Callable[[], str] | None = None,
        clones: bool = False,
        allowance: int | None = None,
    ) -> None:
        self._clones = clones
        self._allowance = allowance
        self._copied = 0  # bytes
        self._weighed_at = allowance or 0
        self.is_spent = False
        self.spent: Callable[[], object] = lambda: None
        self.precious: Callable[[], Iterable[HeldValue | None]] = lambda: ()
        self.held_bytes = 0
        self.warnings: list[str] = []
        self._limit = limit
        self._warning = SizeWarning(limit)
        self._spill_root = spill_root
        self._file: SpillFile | None = None
        self._lock = threading.RLock()
        # Storage -> the values that are nothing but references to it.
        self._shared: dict[int, HeldValue | list[HeldValue]] = {}
        # Storage -> how many of them count for the limit, and its bytes when they began to.
        self._charged: dict[int, tuple[int, int]] = {}
        # What may go to disk, oldest first.
        self._order: deque[HeldValue] = deque()
        self._pins = Pins()

    @property
    def is_limited(self) -> bool:
        """Whether values may be let go of."""
        return self._allowance is not None or self.is_spent

    def allow(self, allowance: int | None) -> None:
        """Hold so much from now on; ``None``: all that comes, however much it is."""
        self._allowance, self._weighed_at = allowance, allowance or 0

    @property
    def has_shared(self) -> bool:
        """Whether a value is a reference to the program's memory."""
        return bool(self._shared)

    @property
    def spilled_bytes(self) -> int:
        """Bytes of the values on disk."""
        return self._file.size if self._file is not None else 0

    def hold(self, tensor: torch.Tensor, key: int, *, is_owned: bool = False) -> HeldValue:
        """Keep a value as it is now.

        Args:
            tensor: of the program; it is not changed, and its autograd graph is not kept.
            key: its `private.storage_key`.
            is_owned: the program keeps it too, whether it is held or not.
        """
        # What has a storage and no class of its own is not a wrapper.
        is_plain = bool(key) and type(tensor) in PLAIN and not is_functional(tensor)
        form = None if is_plain else taken_apart(tensor)
        if form is not None:
            return self._hold_parts(form, tensor, key, is_owned)
        if (is_owned or self._clones) and not is_readable(tensor):
            return _gone(_FREED)
        if not key or self._clones:  # nobody could tell when it is written to
            held = HeldValue(_made(_cloned, tensor), 0)
            self.reserve(tensor, key)
            with self._lock:
                self._copied += (size := _size(tensor))
                self._charge(held, size)
                self._weigh()
            return held
        held = HeldValue(_made(torch.Tensor.detach, tensor), key)
        with self._lock:
            shared = self._shared.get(key)
            if shared is None:
                self._shared[key] = held
            elif isinstance(shared, list):
                shared.append(held)
            else:
                self._shared[key] = [shared, held]
            if not is_owned:
                count, size = self._charged.get(key, (0, 0))
                if count:
                    self._charged[key] = (count + 1, size)
                    held.charge = 1
                    self._order.append(held)
                else:
                    size = tensor.untyped_storage().nbytes()
                    self._charged[key] = (1, size)
                    self._charge(held, size)
                if self._allowance is not None:
                    self._weigh()
        return held

    def _hold_parts(
        self, form: Composite, tensor: torch.Tensor, key: int, is_owned: bool
    ) -> HeldValue:
        held = HeldValue(None, 0)
        held.form, held.note = form, form.problem
        held.parts = [self.hold(part, storage_key(part), is_owned=is_owned) for part in form.parts]
        form.parts = ()
        self.reserve(tensor, key)
        return held

    def reserve(self, tensor: torch.Tensor, key: int) -> None:
        """Make sure that no other storage gets this key, though the value isn't held."""
        if key and key not in self._shared:
            self._pins.add(key, tensor)

    def before_write(self, key: int) -> None:
        """The program is about to write to a storage: copy what refers to it."""
        if key not in self._shared:
            return
        with self._lock:
            if self._allowance is not None:
                tensors = (each.tensor for each in _each(self._shared[key]))
                sizes = (_size(tensor) for tensor in tensors if tensor is not None)
                if self._copied + sum(sizes) > self._allowance:
                    self._let_go()
            for held in _each(self._shared.pop(key, None)):
                self._copy(held)

    def freed(self, key: int) -> None:
        """The program is about to give the memory of a storage back: what refers to it is gone.

        It isn't copied: the program may do so because there is no room for it.
        """
        with self._lock:
            for held in _each(self._shared.get(key)):
                self._release(held)
                held.note = _FREED

    def overwritten(self, key: int) -> None:
        """Somebody has written to a storage while nobody looked: what refers to it is gone."""
        with self._lock:
            for held in list(_each(self._shared.get(key))):
                self._release(held)
                held.note = _OVERWRITTEN

    def settle(self) -> None:
        """Copy what the program could still write to, so that the values outlive the recording."""
        with self._lock, unobserved():
            for key, shared in list(self._shared.items()):
                if storage_uses(key) > len(_each(shared)):
                    self.before_write(key)

    def look_through(self) -> None:
        """Let go of what was overwritten while nobody looked."""
        with self._lock:
            for shared in list(self._shared.values()):
                for held in list(_each(shared)):
                    tensor = held.tensor
                    is_counted = tensor is not None and held.version >= 0
                    if is_counted and write_count(tensor) != held.version:
                        self._release(held)
                        held.note = _OVERWRITTEN

    def drop(self, held: HeldValue) -> None:
        """A value is not wanted after all."""
        with self._lock:
            for each in (held, *held.parts):
                self._release(each)
                each.note = "It was not watched."

    def get(self, held: HeldValue) -> torch.Tensor | None:
        """A value, read from disk if it is there; ``None``: it is gone, see `HeldValue.note`."""
        return held.get()

    def load(self, place: _SpilledPlace) -> torch.Tensor | None:
        """A value that is on disk; ``None``: the dump is closed."""
        with self._lock:
            file = self._file
            if file is None:
                return None
            data = file.read(place.offset, place.length)
        with unobserved():
            if place.dtype is None:
                loaded: torch.Tensor = torch.load(io.BytesIO(data), weights_only=True)
                return loaded
            if not data:
                return torch.empty(place.shape, dtype=place.dtype)
            return torch.frombuffer(data, dtype=torch.uint8).view(place.dtype).reshape(place.shape)

    def close(self) -> None:
        """Let go of everything; values can't be read any more."""
        with self._lock:
            for shared in self._shared.values():
                for held in _each(shared):
                    held.tensor, held.note = None, "The dump is closed."
            for held in self._order:
                held.tensor, held.note = None, "The dump is closed."
            self._shared.clear()
            self._charged.clear()
            self._order.clear()
            self._pins.clear()
            self.held_bytes = 0
            if self._file is not None:
                self._file.close()
                self._file = None

    # With the lock held.

    def _weigh(self) -> None:
        """Let go of the values if they are too many."""
        allowance = self._allowance
        if allowance is None or self.held_bytes <= self._weighed_at:
            return
        own = self._copied
        for key, (_, size) in self._charged.items():
            if storage_uses(key) <= len(_each(self._shared.get(key))):
                own += size
        self._weighed_at = self.held_bytes + max(allowance - own, allowance // 4)
        if own > allowance:
            self._let_go()

    def _let_go(self) -> None:
        self._allowance, self.is_spent = None, True
        kept = set(map(id, self.precious()))
        shared = [held for each in self._shared.values() for held in _each(each)]
        for held in (*shared, *self._order):
            if id(held) not in kept and held.tensor is not None:
                self._release(held)
                held.note = _NOT_KEPT
        self.spent()

    def _charge(self, held: HeldValue, size: int) -> None:
        held.charge = size or 1
        self.held_bytes += size
        self._order.append(held)
        self._warning.see(self.held_bytes)
        if self._limit is not None and self.held_bytes > self._limit:
            self._spill(self._limit)

    def _copy(self, held: HeldValue) -> None:
        """Give a value memory of its own."""
        tensor = held.tensor
        assert tensor is not None
        key = held.key
        self._discharge(held)
        self._pins.add(key, tensor)
        held.key = 0
        if not is_readable(tensor):
            held.tensor, held.note = None, _FREED
            return
        try:
            held.tensor = _made(_cloned, tensor)
        except (RuntimeError, MemoryError) as error:  # above all: there is no memory for it
            held.tensor, held.note = None, f"It was overwritten, and copying it failed: {error}"
            self._warn("Some values that were overwritten could not be copied.")
            return
        was_listed = held.charge > 0
        self._copied += (size := _size(held.tensor))
        held.charge = size or 1
        self.held_bytes += size
        if not was_listed:
            self._order.append(held)
        self._warning.see(self.held_bytes)
        if self._limit is not None and self.held_bytes > self._limit:
            self._spill(self._limit)

    def _discharge(self, held: HeldValue) -> None:
        """Its memory no longer counts."""
        if not held.charge or held.tensor is None:
            return
        if not held.key:
            self.held_bytes -= held.charge
            self._copied -= held.charge
            return
        count, size = self._charged[held.key]
        if count > 1:
            self._charged[held.key] = (count - 1, size)
        else:
            del self._charged[held.key]
            self.held_bytes -= size

    def _release(self, held: HeldValue) -> None:
        """Let go of the tensor in memory."""
        tensor = held.tensor
        if tensor is None:
            return
        self._discharge(held)
        if held.key:
            rest = [each for each in _each(self._shared.get(held.key)) if each is not held]
            if rest:
                self._shared[held.key] = rest
            else:
                self._shared.pop(held.key, None)
            self._pins.add(held.key, tensor)
        held.tensor = None

    def _spill(self, limit: int) -> None:
        """Write the oldest values to disk until the others fit."""
        with unobserved():
            while self.held_bytes > limit and self._order:
                held = self._order.popleft()
                if held.tensor is None:
                    continue
                if not is_readable(held.tensor):
                    self._release(held)
                    held.note = _FREED
                    continue
                try:
                    held.place = self._write(held.tensor)
                except (OSError, RuntimeError, MemoryError) as error:
                    self._order.appendleft(held)
                    self._limit = None
                    self._warn(f"Values stay in memory, above the limit: {error}")
                    return
                self._release(held)

    def _write(self, tensor: torch.Tensor) -> _SpilledPlace:
        if self._file is None:
            folder = self._spill_root() if self._spill_root is not None else None
            self._file = SpillFile(folder)
        dtype: torch.dtype | None = None
        shape: tuple[int, ...] = ()
        data: Any
        if tensor.layout is torch.strided and not tensor.is_nested and not tensor.is_quantized:
            dtype, shape = tensor.dtype, tuple(tensor.shape)
            dense = tensor.resolve_conj().resolve_neg().contiguous().cpu()
            data = shared_array(dense.reshape(-1).view(torch.uint8), "uint8").data
        else:
            buffer = io.BytesIO()
            torch.save(tensor, buffer)
            data = buffer.getbuffer()
        return _SpilledPlace(self, self._file.add(data), len(data), dtype, shape)

    def _warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)


def _made(make: Callable[[torch.Tensor], torch.Tensor], tensor: torch.Tensor) -> torch.Tensor:
    """What is made of a tensor.

    A transform of `torch.func` that is at work would wrap it, and some layouts are warned of.
    """
    if top_interpreter() is None and tensor.layout is torch.strided:
        return make(tensor)
    with undisturbed():
        return make(tensor)


def _cloned(tensor: torch.Tensor) -> torch.Tensor:
    if access(tensor) is Access.ZEROS:
        return torch.zeros(tensor.shape, dtype=tensor.dtype, device=tensor.device)
    return tensor.detach().clone()


def _gone(why: str) -> HeldValue:
    held = HeldValue(None, 0)
    held.note = why
    return held


def _each(shared: HeldValue | list[HeldValue] | None) -> list[HeldValue]:
    if shared is None:
        return []
    return shared if isinstance(shared, list) else [shared]


def _size(tensor: torch.Tensor) -> int:
    """Bytes of the elements of a tensor of any layout."""
    try:
        if tensor.layout is torch.strided:
            return int(tensor.numel() * tensor.element_size())
        return nonzero_count(tensor) * int(tensor.element_size())
    except (RuntimeError, NotImplementedError):
        return 0
