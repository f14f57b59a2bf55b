"""Numbers of runs that a program has computed: noted without waiting for a device."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

import torch

from tfdbg_cli.common.interpreter.program_signals import pass_on
from tfdbg_cli.dumps.series.points import CAPACITY
from tfdbg_cli.dumps.series.tracks import Tracks
from tfdbg_cli.engines.torch.private import unobserved
from tfdbg_cli.engines.torch.values.access import Access, access

__all__ = ["NotedNumbers", "is_dense", "is_number"]


def is_dense(tensor: Any) -> bool:
    """Whether something is a tensor that can be asked for its value, whoever made its class."""
    return isinstance(tensor, torch.Tensor) and access(tensor) >= Access.MEMORY


def is_number(tensor: Any) -> bool:
    """Whether it is one real floating point number."""
    return is_dense(tensor) and tensor.numel() == 1 and tensor.dtype.is_floating_point


class NotedNumbers:
    """Notes numbers of runs.

    What is on a CPU is read. Of what is elsewhere a copy is kept there until somebody looks.

    Args:
        tracks: tells where the numbers go; ``None``: nobody wants them.
    """

    def __init__(self, tracks: Callable[[], Tracks | None]) -> None:
        self._tracks = tracks
        self._told: Tracks | None = None  # whose source this is
        self._waiting: deque[tuple[str, int, float, torch.Tensor]] = deque(maxlen=CAPACITY)

    def note(self, name: str, run: int, number: torch.Tensor | float) -> None:
        """A number is known.

        Args:
            name: of the series.
            run: the number of the run.
            number: itself; one element.
        """
        tracks = self._tracks()
        if tracks is None:
            return
        if not isinstance(number, torch.Tensor):
            tracks.note(name, run, number)
            return
        if number.device.type == "cpu":
            tracks.note(name, run, number.item())
            return
        if number.is_cuda and torch.cuda.is_current_stream_capturing():
            return  # it would become a part of the graph
        if tracks is not self._told:
            self._told = tracks
            tracks.sources.append(self._settle)
        with torch.inference_mode(False):
            self._waiting.append((name, run, time.time(), number.detach().clone()))

    def _settle(self) -> None:
        """Read what is on devices: each is waited for once."""
        waiting = [*self._waiting]
        self._waiting.clear()
        tracks = self._told
        if tracks is None or not waiting:
            return
        numbers: dict[int, float] = {}
        kinds: dict[tuple[torch.device, torch.dtype], list[int]] = {}
        for at, (*_, tensor) in enumerate(waiting):
            kinds.setdefault((tensor.device, tensor.dtype), []).append(at)
        for places in kinds.values():
            try:
                with unobserved(), torch.inference_mode(False):
                    found = torch.stack([waiting[at][-1].reshape(()) for at in places]).tolist()
            except Exception as error:  # the device is lost
                pass_on(error)
                continue
            numbers.update(zip(places, found, strict=True))
        for at, (name, run, moment, _) in enumerate(waiting):
            if at in numbers:
                tracks.note(name, run, numbers[at], moment)
