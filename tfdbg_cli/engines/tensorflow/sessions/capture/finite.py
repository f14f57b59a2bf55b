"""Whether a run has computed nothing but finite numbers, told without a dump."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tfdbg_cli.tensors.numeric import any_nonfinite, dtype_kind, has_nonfinite

__all__ = ["FiniteCheck"]

# What they make of finite numbers is finite: they move, choose or bound them.
_KEEPING = frozenset(
    {
        "Abs",
        "BroadcastTo",
        "ConcatV2",
        "ExpandDims",
        "GatherV2",
        "Identity",
        "IdentityN",
        "Maximum",
        "Minimum",
        "Neg",
        "Pack",
        "PreventGradient",
        "Relu",
        "Relu6",
        "ReluGrad",
        "Reshape",
        "Sigmoid",
        "Slice",
        "Split",
        "SplitV",
        "Squeeze",
        "StopGradient",
        "StridedSlice",
        "Tanh",
        "Tile",
        "Transpose",
        "Unpack",
        "ZerosLike",
    }
)


class FiniteCheck:
    """Looks for nan and infinities in what the runs of a plan have computed.

    What follows from other tensors that are looked at is not looked at itself.

    Args:
        tensors: those that are fetched, producers first.
        given: how many of the first ones are fed.
        ahead: how many of the last ones are read before the run.
        constants: node, slot and value of what is written down in the graph.
    """

    def __init__(
        self,
        tensors: Sequence[Any],
        given: int,
        ahead: int,
        constants: Sequence[tuple[str, int, Callable[[], Any]]],
    ) -> None:
        self._places: dict[np.dtype[Any], list[int]] = {}
        self._is_spoilt = any(has_nonfinite(value()) for _, _, value in constants)
        known = {(node, slot) for node, slot, _ in constants}
        end = len(tensors) - ahead
        for place in (*range(end, len(tensors)), *range(end)):
            tensor = tensors[place]
            dtype = np.dtype(tensor.dtype.base_dtype.as_numpy_dtype)
            if dtype_kind(dtype) in ("float", "complex"):
                if not given <= place < end or not _follows(tensor, known):
                    self._places.setdefault(dtype, []).append(place)
                known.add((tensor.op.name, tensor.value_index))

    def passes(self, extra: Sequence[Any], others: Sequence[Any]) -> bool:
        """Whether all is finite.

        Args:
            extra: the values of the tensors.
            others: what was seen besides.
        """
        return not (
            self._is_spoilt
            or any(
                any_nonfinite([extra[place] for place in places], dtype)
                for dtype, places in self._places.items()
            )
            or any(map(has_nonfinite, others))
        )


def _follows(tensor: Any, known: set[tuple[str, int]]) -> bool:
    """Whether a tensor is finite if those that are known are.

    Args:
        tensor: one of floating point or complex numbers that the run computes.
        known: node and slot of others.
    """
    return tensor.op.type in _KEEPING and all(
        (each.op.name, each.value_index) in known
        for each in tensor.op.inputs
        if each.dtype.is_floating or each.dtype.is_complex
    )
