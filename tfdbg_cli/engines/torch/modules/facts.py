"""What one tensor at the border of a module tells of another, so that this isn't looked at."""

from __future__ import annotations

import weakref

import torch
from torch import nn

from tfdbg_cli.engines.torch.private import gradient_hooks_of, module_hooks_of, parameters_of

__all__ = ["Facts", "FactsOf"]

# Of these a bad element of what they get makes bad elements of what they return: a product of a
# nan or an infinity with anything, zero too, is one.
_SHOWING = frozenset(
    {
        nn.AdaptiveAvgPool1d,
        nn.AdaptiveAvgPool2d,
        nn.Dropout,
        nn.Dropout2d,
        nn.Flatten,
        nn.GroupNorm,
        nn.Identity,
        nn.LayerNorm,
        nn.Linear,
    }
)
# Of these a bad gradient of what they return makes a bad one of what they get.
_HANDING_BACK = _SHOWING - {nn.GroupNorm, nn.LayerNorm, nn.Linear}
_CONVOLUTIONS = frozenset({nn.Conv1d, nn.Conv2d, nn.Conv3d})
_BATCH_NORMS = frozenset({nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d})
_MOST = 100_000


class Facts:
    """What is known of a module, the same for all its calls until it is changed.

    Attributes:
        reference: the module.
        has_averages: it is a batch norm that keeps them.
        may_hand_back: see `hands_back`, as far as its class tells.
        told_by: see `teller`: the name of that parameter, empty: there is none.
        is_shown: what it returned last was shown by the module that got it.
        is_told: its teller had a gradient after the last backward pass.
        known_writes: how often its parameters had been written to when they were looked at.
        writes: a call of it has written to what it got; ``None``: none was seen.
    """

    __slots__ = (
        "_is_showing",
        "has_averages",
        "is_shown",
        "is_told",
        "known_writes",
        "may_hand_back",
        "reference",
        "told_by",
        "writes",
    )

    def __init__(self, module: nn.Module) -> None:
        kind = type(module)
        self.reference = weakref.ref(module)
        self.is_shown = self.is_told = self.has_averages = False
        self.writes: bool | None = None
        self.known_writes = -1
        self._is_showing = kind in _SHOWING
        self.may_hand_back = kind in _HANDING_BACK
        self.told_by = ""
        if kind in _CONVOLUTIONS:
            assert isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d)
            is_dense = all(step == 1 for step in module.dilation)
            # Every element that it gets is read for one that it returns, and the other way round.
            self._is_showing = is_dense and all(step == 1 for step in module.stride)
            pads = module.padding if isinstance(module.padding, tuple) else ()
            sizes = zip(pads, module.kernel_size, strict=False)
            if is_dense and all(pad < size for pad, size in sizes):
                self.told_by = "weight"
        elif kind in _BATCH_NORMS:
            assert isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d)
            self._is_showing = True
            self.has_averages = module.running_mean is not None and module.momentum != 0
            self.told_by = "bias"
        elif kind in (nn.LayerNorm, nn.GroupNorm, nn.Linear):
            self.told_by = "weight"
        elif isinstance(module, nn.Dropout | nn.Dropout2d):
            self._is_showing = self._is_showing and not module.inplace

    def shows(self, module: nn.Module) -> bool:
        """Whether a bad element of what it gets now shows in what it returns."""
        return self._is_showing and _is_itself(module)

    def hands_back(self, module: nn.Module) -> bool:
        """Whether a bad gradient of what it returns now shows in that of what it gets."""
        return self.may_hand_back and self.shows(module)

    def averages(self, module: nn.Module) -> bool:
        """Whether the averages of a batch norm tell of what it gets and of what it returns now."""
        return self.has_averages and module.training and _is_itself(module)

    def teller(self, module: nn.Module) -> torch.Tensor | None:
        """The parameter whose gradient will be bad if that of what it returns now is."""
        if not self.told_by or not _is_itself(module):
            return None
        found = parameters_of(module).get(self.told_by)
        if found is None or not found.requires_grad or any(gradient_hooks_of(found)):
            return None
        return found


def _is_itself(module: nn.Module) -> bool:
    """Whether nobody has put anything around what it does."""
    return not any(module_hooks_of(module)) and "forward" not in vars(module)


class FactsOf:
    """The facts of all modules; they outlive runs."""

    def __init__(self) -> None:
        self._known: dict[int, Facts] = {}

    def __call__(self, module: nn.Module) -> Facts:
        """Of one module."""
        known = self._known.get(id(module))
        if known is not None and known.reference() is module:
            return known
        if len(self._known) > _MOST:  # a program that makes modules all the time
            self._known.clear()
        found = self._known[id(module)] = Facts(module)
        return found
