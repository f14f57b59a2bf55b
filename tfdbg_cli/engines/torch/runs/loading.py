"""What a data loader computes: no run, a part of the next one, and no price of waiting."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import Any

import torch
from torch.utils.data import Dataset, IterableDataset

from tfdbg_cli.common.errors import one_line
from tfdbg_cli.common.interpreter.program_signals import pass_on
from tfdbg_cli.engines.kit.levels import CaptureLevel
from tfdbg_cli.engines.torch.around.surrounding import Around
from tfdbg_cli.engines.torch.modules.effects import ReplayRefusal, confined
from tfdbg_cli.engines.torch.modules.level import ModulesLevel
from tfdbg_cli.engines.torch.modules.state import keep_object, keep_random
from tfdbg_cli.engines.torch.names.sites import has_parameters, tensors_in
from tfdbg_cli.engines.torch.private import quiet
from tfdbg_cli.engines.torch.runs.exact_check import are_clean, is_nonfinite
from tfdbg_cli.engines.torch.values.layouts import same_bits, undisturbed

__all__ = ["LoaderPause", "is_of_data"]

# A data set whose batches are bad in any case isn't read twice for each of them.
_MOST_AGAIN = 3
# What a data set may have of its own that goes on with each item, and can't be put back.
_GOING_ON = (Iterator, random.Random, torch.Generator)
# The methods by which a data set gives its items, and so many frames between them and a transform.
_GIVING = frozenset({"__getitem__", "__getitems__", "__iter__", "__next__"})
_MOST_FRAMES = 30


def is_of_data(frame: FrameType | None) -> bool:
    """Whether a frame is at work for a data set that the program itself asks for an item."""
    for _ in range(_MOST_FRAMES):
        if frame is None:
            break
        code = frame.f_code
        if code.co_name in _GIVING and code.co_argcount:
            owner = frame.f_locals.get(code.co_varnames[0])
            if isinstance(owner, Dataset):
                return True
        frame = frame.f_back
    return False


class LoaderPause:
    """Lets levels that look at modules rest while a data loader makes a batch.

    A batch that is bad is made once more with every op recorded, and the program gets that one:
    the run that uses it then knows where it was made.

    Args:
        watchers: those at work: of the run that is open, or of what comes before the next one.
    """

    def __init__(self, watchers: Callable[[], Iterable[CaptureLevel]]) -> None:
        self._watchers = watchers
        self._thread = 0  # that makes a batch
        self._count = 0  # of those that were made once more

    def is_here(self) -> bool:
        """Whether this thread is making a batch, and nobody looks."""
        return self._thread == threading.get_ident()

    def passes(self, args: tuple[Any, ...]) -> bool:
        """Whether a call of a module, the first argument, is a part of making a batch."""
        if not self._thread or not self.is_here():
            return False
        if not has_parameters(args[0]):
            return True
        self.leave()
        return False

    def leave(self) -> None:
        """The batch is made, or a model is called to make it: that is looked at as elsewhere."""
        if self.is_here():
            self._thread = 0
            for each in self._resting():
                each.start()

    def around(self, original: Any, fetcher: Any, indices: Any) -> Around:
        """One batch."""
        resting = self._resting()
        put_random = keep_random() if resting else None
        for each in resting:
            each.stop()
        self._thread = threading.get_ident()
        try:
            batch = yield original, (fetcher, indices), {}
        finally:
            was_unseen = self.is_here()
            self.leave()
        if put_random is not None and was_unseen and not _is_clean(batch):
            try:
                return self._again(original, fetcher, indices, batch, put_random)
            except ReplayRefusal as refusal:
                for each in self._resting():
                    each.refuse(f"the batch of the data loader: {refusal}")
        return batch

    def _resting(self) -> list[ModulesLevel]:
        return [each for each in self._watchers() if isinstance(each, ModulesLevel)]

    def _again(
        self,
        original: Any,
        fetcher: Any,
        indices: Any,
        first: Any,
        put_random: Callable[[], None],
    ) -> Any:
        """Make a batch once more, with its ops recorded; the program goes on with what it gets.

        Raises:
            Refused: that isn't possible, or would not be unnoticed.
        """
        parts = [fetcher.dataset]
        while (inner := getattr(parts[-1], "dataset", None)) is not None and inner not in parts:
            parts.append(inner)
        if isinstance(indices, Iterator) or any(
            isinstance(each, IterableDataset) for each in parts
        ):
            raise ReplayRefusal("its data set can be read only once")
        states = [vars(each) for each in parts if hasattr(each, "__dict__")]
        if any(map(_goes_on, (value for state in states for value in state.values()))):
            raise ReplayRefusal("its data set has a generator of its own")
        self._count += 1
        if self._count > _MOST_AGAIN:
            raise ReplayRefusal("other batches were bad before")
        after = [keep_random(), *(keep_object(each) for each in parts if hasattr(each, "__dict__"))]
        self._thread = threading.get_ident()
        try:
            with confined():
                put_random()
                second = _make_again(original, fetcher, indices)
        except Exception as error:
            pass_on(error)
            raise ReplayRefusal(f"it failed the second time ({one_line(error)})") from None
        finally:
            self._thread = 0
            for put_back in after:
                put_back()
        pairs = zip(_tensors(first), _tensors(second), strict=False)
        with undisturbed():
            if len(_tensors(first)) != len(_tensors(second)) or not all(
                same_bits(*pair) for pair in pairs
            ):
                raise ReplayRefusal("it is another one the second time")
        return second


def _make_again(original: Any, fetcher: Any, indices: Any) -> Any:
    return original(fetcher, indices)


def _goes_on(value: Any) -> bool:
    return isinstance(value, _GOING_ON) or type(value).__module__.startswith("numpy.random")


def _tensors(batch: Any) -> list[torch.Tensor]:
    return [tensor for _, tensor in tensors_in("", batch, most=None)]


def _is_clean(batch: Any) -> bool:
    with quiet():
        tensors = _tensors(batch)
        return are_clean(tensors) or not any(map(is_nonfinite, tensors))
