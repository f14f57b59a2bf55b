"""What is looked at while a run is watched at the borders of its modules, and what was bad."""

from __future__ import annotations

import functools
import math
import time
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from tfdbg_cli.dumps.series import history
from tfdbg_cli.engines.torch.modules.calls import Border, InnerCall, alias_of
from tfdbg_cli.engines.torch.modules.state import version_of
from tfdbg_cli.engines.torch.names.scopes import Names
from tfdbg_cli.engines.torch.private import quiet
from tfdbg_cli.engines.torch.runs.exact_check import Verdicts, are_clean, largest_of
from tfdbg_cli.engines.torch.runs.magnitudes import Sizes
from tfdbg_cli.engines.torch.values.access import Access, access, gradient_of
from tfdbg_cli.engines.torch.values.layouts import undisturbed

__all__ = [
    "GRADIENT",
    "INPUT",
    "NODE",
    "OUTPUT",
    "PARAMETER",
    "UPDATED",
    "WEIGHT",
    "Checks",
    "Event",
    "Found",
    "Stale",
    "Words",
]

# What is kept of what isn't looked at, in bytes each: no more than it costs to look at that.
_SMALL = 1 << 16
_MOST_KEPT = 100
_LARGEST_WEIGHT = 1 << 22
_MOST_STALE = 100_000


class Event(NamedTuple):
    """A tensor that is looked at.

    Attributes:
        kind: `INPUT` and so on.
        thing: the call, border, call inside of another, or parameter.
        time: when it was looked at, in nanoseconds of the performance counter.
    """

    kind: str
    thing: Any
    time: int


INPUT, OUTPUT, GRADIENT, NODE = "input", "output", "gradient", "node"
PARAMETER, UPDATED = "parameter", "updated"
#: A parameter as it is before anything is done with it.
WEIGHT = "weight"

#: Of these tensors the largest magnitudes are kept, in place of what else tells of nan.
_MEASURED = {
    OUTPUT: history.OUTPUT,
    GRADIENT: history.OUTPUT_GRADIENT,
    PARAMETER: history.GRADIENT,
}

#: An event that was bad, and the slot of its tensor.
Found = tuple[Event, int]


class Words:
    """What was bad, in words.

    Args:
        names: of modules and parameters.
    """

    def __init__(self, names: Names) -> None:
        self._names = names

    def describe(self, event: Event, slot: int) -> str:
        """What was bad: the same in each run."""
        kind, thing = event.kind, event.thing
        if kind == INPUT:
            return f"input of {self.label(thing.chain)}"
        if kind == OUTPUT:
            return f"output of {self.label(_chain(thing))}" + (f" ({slot})" if slot else "")
        if kind == NODE:
            return f"gradient of {thing.kind}"
        if kind == GRADIENT:
            return f"gradient of the output of {self.label(_chain(thing))}"
        leaf = self._names.tensor(thing)
        owner = leaf.name if leaf is not None else "a parameter"
        words = {PARAMETER: "gradient", UPDATED: "new value", WEIGHT: "earlier value"}
        return f"{words[kind]} of {owner}"

    def key(self, event: Event, slot: int) -> tuple[str, int]:
        """Likewise, apart from what is called the same in another model."""
        thing = event.thing
        chain = thing.chain if event.kind == INPUT else ()
        if event.kind in (OUTPUT, GRADIENT):
            chain = _chain(thing)
        owner = chain[-1] if chain else None if event.kind == NODE else thing
        return self.describe(event, slot), id(owner)

    def label(self, chain: Sequence[torch.nn.Module]) -> str:
        """The last of some modules, whose calls led to each other, by its path, or its class."""
        caller = None
        for module in chain:
            caller = self._names.module(module, None, caller)
        assert caller is not None
        return caller.path or caller.class_name


def _chain(thing: Border | InnerCall) -> Sequence[torch.nn.Module]:
    return thing.chain if isinstance(thing, InnerCall) else thing.call.chain


class Stale:
    """Bad gradients and parameters of earlier runs, which a program may keep and not touch again.

    A model that has diverged and is still there says nothing of the runs of the next one.
    """

    def __init__(self) -> None:
        self._optimizers: weakref.WeakKeyDictionary[Any, tuple[int, ...]]
        self._optimizers = weakref.WeakKeyDictionary()
        self._known: dict[int, tuple[weakref.ref[torch.Tensor], int, int]] = {}

    def is_new(self, optimizer: Any, parameters: Sequence[torch.Tensor]) -> bool:
        """Whether an optimizer has others than when this was asked before."""
        ids = tuple(map(id, parameters))
        if not ids or self._optimizers.get(optimizer) == ids:
            return False
        self._optimizers[optimizer] = ids
        return True

    def __contains__(self, tensor: torch.Tensor) -> bool:
        """Whether it was bad before, and nobody has written to it since."""
        known = self._known.get(id(tensor))
        return known is not None and known[0]() is tensor and known[1] == version_of(tensor)

    def add(self, tensor: torch.Tensor) -> None:
        """It is bad as it is now."""
        if len(self._known) >= _MOST_STALE:
            self._known = {key: each for key, each in self._known.items() if each[0]() is not None}
        if version_of(tensor) >= 0:
            self._known[id(tensor)] = weakref.ref(tensor), version_of(tensor), _bad_count(tensor)

    def covers(self, tensor: torch.Tensor) -> bool:
        """Whether it was bad before, and no more of its elements are now."""
        known = self._known.get(id(tensor))
        if known is None or known[0]() is not tensor or _bad_count(tensor) > known[2]:
            return False
        self.add(tensor)
        return True


def _bad_count(tensor: torch.Tensor) -> int:
    """How many elements are nan or infinite; 0 where the memory doesn't hold just the elements.

    That is also on a device, which nobody waits for.
    """
    if access(tensor) is not Access.HOST:
        return 0
    with undisturbed():
        return int((~torch.isfinite(tensor)).sum())


class Checks:
    """What was looked at in one run.

    Args:
        stale: what was bad in earlier runs; gets what is bad in this one.
        sizes: gets the largest magnitudes: on a CPU they cost more than what else tells of nan, on
            a CUDA device they don't, and are noted in any case.

    Attributes:
        has_news: there is something that nobody has judged.
        kept: what was bad inside of the outermost calls of modules, and parameters that were.
        with_nan: what has a nan, on a CPU, and not only infinities of one sign.
        failure: what went wrong where nobody could be told.
    """

    def __init__(self, stale: Stale, sizes: Sizes) -> None:
        self._stale, self._sizes = stale, sizes
        self.has_news = False
        self.kept: dict[Found, torch.Tensor] = {}
        self.with_nan: set[Found] = set()
        self.failure: Exception | None = None
        keep = functools.partial(Checks._keep, weakref.proxy(self))
        self._verdicts: Verdicts[Event] = Verdicts(keep, measures=True)
        self._small: list[tuple[Event, torch.Tensor]] = []

    def add(self, kind: str, thing: Any, slot: int, tensor: torch.Tensor) -> None:
        """Look at a tensor."""
        self.has_news = True
        measures = self._sizes.is_due and kind in _MEASURED
        if not (self._measure(kind, (thing,), (tensor,)) if measures else are_clean((tensor,))):
            self._verdicts.add(Event(kind, thing, time.perf_counter_ns()), slot, tensor)

    def _measure(self, kind: str, things: Sequence[Any], tensors: Sequence[torch.Tensor]) -> bool:
        """As `are_clean`; the magnitudes are noted."""
        found = largest_of(tensors)
        if found is None:
            return are_clean(tensors)
        is_clean = True
        for thing, size in zip(things, found, strict=True):
            self._note(kind, thing, size)
            is_clean = is_clean and math.isfinite(size)
        return is_clean

    def _note(self, kind: str, thing: Any, size: float) -> None:
        if kind != PARAMETER:  # a call: several of a module are one
            thing = thing.module if isinstance(thing, InnerCall) else thing.call.module
        self._sizes.note(_MEASURED[kind], thing, size)

    def add_all(
        self, kind: str, things: Sequence[Any], tensors: Sequence[torch.Tensor]
    ) -> list[torch.Tensor]:
        """Look at many; returns those that may be bad, and weren't before."""
        self.has_news = True
        found: list[torch.Tensor] = []
        with quiet():
            measures = self._sizes.is_due and kind in _MEASURED
            if self._measure(kind, things, tensors) if measures else are_clean(tensors):
                return found
            with torch.no_grad():
                for thing, tensor in zip(things, tensors, strict=True):
                    is_old = tensor in self._stale
                    if not is_old and not (kind == UPDATED and self._stale.covers(tensor)):
                        found.append(tensor)
                        self.add(kind, thing, 0, tensor)
        return found

    def add_shown(self, thing: InnerCall, tensor: torch.Tensor) -> None:
        """Something shows it: it is looked at only to tell where what is bad began."""
        self.has_news = True
        if tensor.nbytes <= _SMALL:
            event = Event(OUTPUT, thing, time.perf_counter_ns())
            self._small.append((event, alias_of(tensor)))

    def _keep(self, event: Event, slot: int, tensor: torch.Tensor) -> None:
        is_weight = event.kind == WEIGHT and tensor.nbytes <= _LARGEST_WEIGHT
        is_kept = is_weight or isinstance(event.thing, InnerCall)
        with undisturbed():
            # Of a part of a distributed tensor PyTorch would ask the other ranks for the sum.
            is_here = access(tensor) is Access.HOST and tensor.dtype.itemsize > 1
            if is_here and bool(torch.isnan(tensor.sum())):
                self.with_nan.add((event, slot))
            if is_kept and len(self.kept) < _MOST_KEPT:
                self.kept[event, slot] = tensor.detach().clone()

    def bad(self, others: Verdicts[Any] | None) -> list[Found]:
        """What was bad so far, in the order of time.

        Args:
            others: what else there is to wait for: that is done once.
        """
        self.has_news = False
        if others is not None:
            self._verdicts.read_with(others)
        bad, largest = self._verdicts.bad(), self._verdicts.largest
        for (event, _), size in largest.items():
            if event.kind in _MEASURED:
                self._note(event.kind, event.thing, size)
        largest.clear()
        small, self._small = self._small, []
        if not bad:
            return bad
        for event, tensor in small:
            self._verdicts.add(event, 0, tensor)
        found = sorted(self._verdicts.bad(), key=lambda found: found[0].time)
        with quiet():
            for event, _ in found:
                if event.kind in (UPDATED, WEIGHT):
                    self._stale.add(event.thing)
                elif event.kind == PARAMETER:
                    gradient = gradient_of(event.thing)
                    if gradient is not None:
                        self._stale.add(gradient)
        return found

    def forget(self) -> None:
        """Let go of all tensors."""
        self._small, self.kept, self._sizes.found = [], {}, {}
        self.with_nan.clear()
