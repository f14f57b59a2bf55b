"""The loss of each run: what its backward pass begins with, noted without waiting for a device."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

import torch

from tfdbg_cli.common.interpreter.program_signals import pass_on
from tfdbg_cli.dumps.series.points import CAPACITY
from tfdbg_cli.dumps.series.tracks import LOSS, Tracks
from tfdbg_cli.engines.torch.private import unobserved
from tfdbg_cli.engines.torch.values.access import Access, access

__all__ = ["Losses", "is_dense"]


def is_dense(tensor: Any) -> bool:
    """Whether something is a tensor that can be asked for its value, whoever made its class."""
    return isinstance(tensor, torch.Tensor) and access(tensor) >= Access.MEMORY


class Losses:
    """Notes the losses of a program's runs.

    What is on a CPU is read. Of what is elsewhere a copy is kept there until somebody looks.

    Args:
        tracks: tells where the numbers go; ``None``: nobody wants them.
    """

    def __init__(self, tracks: Callable[[], Tracks | None]) -> None:
        self._tracks = tracks
        self._told: Tracks | None = None  # whose source this is
        self._is_off = False
        self._waiting: deque[tuple[int, float, torch.Tensor]] = deque(maxlen=CAPACITY)
        self._scaled: tuple[int, torch.Tensor, torch.Tensor] | None = None
        #: What the last backward pass began with, and the loss that it is a multiple of.
        self.multiple: tuple[torch.Tensor, torch.Tensor] | None = None

    def scaled(self, loss: Any, product: Any) -> None:
        """A gradient scaler has multiplied a loss, and its backward pass begins with the product.

        Args:
            loss: the program's.
            product: what the backward pass will begin with.
        """
        if self._is_off:
            return
        with unobserved():  # nor is it seen which attributes are read
            if isinstance(product, torch.Tensor) and _is_number(loss):
                self._scaled = id(product), product.detach(), loss.detach()

    def begins(self, root: Any, run: int) -> None:
        """A backward pass begins.

        Args:
            root: with what: a tensor, or several.
            run: the number of the run.
        """
        scaled, self._scaled, self.multiple = self._scaled, None, None
        if self._is_off:
            return
        try:
            with unobserved():  # nor is it seen which attributes are read
                if isinstance(root, list | tuple) and root:
                    root = root[0]
                if scaled is not None and scaled[0] == id(root):
                    self.multiple = scaled[1:]
                    root = scaled[2]
                if _is_number(root):
                    self._take(root, run)
        except Exception as error:
            pass_on(error)
            self._is_off = True

    def _take(self, loss: torch.Tensor, run: int) -> None:
        tracks = self._tracks()
        if tracks is None:
            return
        if loss.device.type == "cpu":
            tracks.note(LOSS, run, loss.item())
            return
        if loss.is_cuda and torch.cuda.is_current_stream_capturing():
            return  # it would become a part of the graph
        if tracks is not self._told:
            self._told = tracks
            tracks.sources.append(self._settle)
        with torch.inference_mode(False):
            self._waiting.append((run, time.time(), loss.detach().clone()))

    def _settle(self) -> None:
        """Read what is on devices: each is waited for once."""
        waiting = [*self._waiting]
        self._waiting.clear()
        tracks = self._told
        if tracks is None or not waiting:
            return
        numbers: dict[int, float] = {}
        kinds: dict[tuple[torch.device, torch.dtype], list[int]] = {}
        for at, (_, _, tensor) in enumerate(waiting):
            kinds.setdefault((tensor.device, tensor.dtype), []).append(at)
        for places in kinds.values():
            try:
                with unobserved(), torch.inference_mode(False):
                    found = torch.stack([waiting[at][2].reshape(()) for at in places]).tolist()
            except Exception as error:  # the device is lost
                pass_on(error)
                continue
            numbers.update(zip(places, found, strict=True))
        for at, (run, moment, _) in enumerate(waiting):
            if at in numbers:
                tracks.note(LOSS, run, numbers[at], moment)


def _is_number(tensor: Any) -> bool:
    """Whether it is one real floating point number."""
    return is_dense(tensor) and tensor.numel() == 1 and tensor.dtype.is_floating_point
