"""Norms of gradients and parameters, module by module, read from devices some runs at a time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from tfdbg_cli.common.interpreter.program_signals import pass_on
from tfdbg_cli.dumps.series.tracks import Tracks
from tfdbg_cli.engines.torch.names.scopes import Names
from tfdbg_cli.engines.torch.private import norms_of, unobserved
from tfdbg_cli.engines.torch.runs.noted import is_dense
from tfdbg_cli.engines.torch.values.access import gradient_of

__all__ = ["Norms"]

# Norms of so many runs are on devices before they are read.
_BATCH = 64
# What the series are called: these, a dot and the module's path.
_GRADIENT, _PARAMETER, _STEP = "grad_norm", "param_norm", "step_norm"


class _Group(NamedTuple):
    """Norms of one run that are on one device: one tensor, and where each belongs."""

    run: int
    moment: float
    norms: torch.Tensor
    places: tuple[str, ...]
    scale: torch.Tensor | None


class Norms:
    """Takes the norms of a program's parameters and of their gradients after a backward pass.

    Args:
        tracks: tells where the numbers go; ``None``: nobody wants them.
        names: of modules and parameters.
        optimizers: those that are alive.
    """

    def __init__(
        self, tracks: Callable[[], Tracks | None], names: Names, optimizers: Iterable[Any]
    ) -> None:
        self._tracks = tracks
        self._names, self._optimizers = names, optimizers
        self._told: Tracks | None = None  # whose source this is
        self._is_off = False
        self._waiting: list[_Group] = []
        self._runs = 0  # that wait

    def take(self, run: int, multiple: tuple[torch.Tensor, torch.Tensor] | None) -> None:
        """A backward pass is over.

        Args:
            run: the number of the run.
            multiple: what it began with, and the loss that this is a multiple of; ``None``: it has
                begun with the loss.
        """
        self._try(run, ((_PARAMETER, None), (_GRADIENT, multiple)))

    def take_step(self, run: int) -> None:
        """An optimizer is about to make a step: gradients are unscaled and clipped by now.

        Args:
            run: the number of the run.
        """
        self._try(run, ((_STEP, None),))

    def _try(
        self,
        run: int,
        kinds: Sequence[tuple[str, tuple[torch.Tensor, torch.Tensor] | None]],
    ) -> None:
        tracks = self._tracks()
        if tracks is None or not tracks.has_norms or self._is_off:
            return
        if tracks is not self._told:
            self._told = tracks
            tracks.sources.append(self._settle)
        try:
            if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
                return  # it would become a part of the graph
            with unobserved():  # nor is it seen which attributes are read
                with torch.inference_mode(False):
                    scales = {
                        what: None if multiple is None else multiple[0] / multiple[1]
                        for what, multiple in kinds
                    }
                    self._take(run, scales)
                self._runs += _STEP not in scales
                is_near = all(group.norms.device.type == "cpu" for group in self._waiting)
                if is_near or self._runs >= _BATCH:
                    self._settle()
        except Exception as error:
            pass_on(error)
            self._is_off = True

    def _take(self, run: int, scales: Mapping[str, torch.Tensor | None]) -> None:
        kinds: dict[tuple[Any, ...], tuple[list[str], list[torch.Tensor]]] = {}
        for path, parameter in self._parameters():
            for what in scales:
                tensor = parameter if what == _PARAMETER else gradient_of(parameter)
                if tensor is None or not is_dense(tensor) or not tensor.dtype.is_floating_point:
                    continue
                names, tensors = kinds.setdefault((what, tensor.device, tensor.dtype), ([], []))
                names.append(f"{what}.{path}" if path else what)
                tensors.append(tensor.detach())
        moment = time.time()
        for (what, *_), (names, tensors) in kinds.items():
            norms = torch.stack(norms_of(tensors)).to(torch.float32)
            self._waiting.append(_Group(run, moment, norms, tuple(names), scales[what]))

    def _parameters(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Those that are trained, with the paths of their modules."""
        groups = (group for optimizer in self._optimizers for group in optimizer.param_groups)
        owned = {id(tensor): tensor for group in groups for tensor in group["params"]}
        is_all = not owned
        for tensor, leaf in self._names.tensors():
            if leaf.op_type == "Parameter" and (is_all or owned.pop(id(tensor), None) is not None):
                yield leaf.name.rpartition(".")[0], tensor
        for tensor in owned.values():  # of no module
            yield "", tensor

    def _settle(self) -> None:
        """Read what is on devices, and put the norms of each module together."""
        waiting, self._waiting, self._runs = self._waiting, [], 0
        tracks = self._told
        runs: dict[int, tuple[float, dict[str, float]]] = {}
        for group in waiting:
            try:
                with unobserved(), torch.inference_mode(False):
                    found = group.norms.tolist()
                    scale = group.scale.item() if group.scale is not None else 1.0
            except Exception as error:  # the device is lost
                pass_on(error)
                continue
            if math.isnan(scale):  # of a loss of 0
                continue
            squares = runs.setdefault(group.run, (group.moment, {}))[1]
            for place, norm in zip(group.places, found, strict=True):
                square = (norm / scale) ** 2
                whole = place.partition(".")[0]
                squares[whole] = squares.get(whole, 0.0) + square
                if place != whole:
                    squares[place] = squares.get(place, 0.0) + square
        for run, (moment, squares) in runs.items():
            for place, square in squares.items():
                if tracks is not None and tracks.has_norms:
                    tracks.note(place, run, math.sqrt(square), moment)
