"""The shadow of a stepped run: what its tensors would be if nothing were overridden.

It is the run done once more on the side, from how it began: only when somebody asks, and as far
as is asked for.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tfdbg_cli.engines.numpy.errors import OpError
from tfdbg_cli.engines.numpy.executor import PlanBlock, RunState, RunStep
from tfdbg_cli.engines.numpy.nodes import Tensor
from tfdbg_cli.engines.numpy.stepping.layout import NodeLayout

__all__ = ["NodeCounterfactual"]

#: A loop that the overrides have made finite may not end without them.
_MOST_ROUNDS = 10_000


class _Endless(Exception):
    """A loop goes on and on."""


class _SideStep(RunStep):
    """Computes on the side, for a limited time."""

    rounds = 0

    def iterate(self, block: PlanBlock, is_first: bool) -> bool:
        self.rounds += 1
        if self.rounds > _MOST_ROUNDS:
            raise _Endless
        return super().iterate(block, is_first)


class NodeCounterfactual:
    """A run without overrides.

    Args:
        layout: the steps.
        state: a copy of what the session had before the first one.
        fed: the fed values; they may be written to.
    """

    def __init__(self, layout: NodeLayout, state: RunState, fed: dict[Tensor, Any]) -> None:
        self._items = layout.items
        self._done = 0
        self._step = _SideStep(state, fed)

    def value(self, tensor: Tensor, maker: int) -> Any | None:
        """A tensor as nodes see it; ``None``: there would be none.

        Args:
            maker: the index of the step that makes it.
        """
        try:
            with np.errstate(all="ignore"):
                for item in self._items[self._done : maker + 1]:
                    self._done += 1
                    self._step.run((item,) if item is not None else ())
        except (OpError, _Endless):
            self._done = len(self._items)
        return self._step.values.get(tensor)
