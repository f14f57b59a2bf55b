"""Quantized tensors: what their codes stand for, and how many of them are at the ends."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from tfdbg_cli.common.arrays import Array, np
from tfdbg_cli.common.node_words import ARGUMENT
from tfdbg_cli.dumps.dump import Datum, Dump
from tfdbg_cli.filters.causes.patterns import number_of
from tfdbg_cli.filters.lineage import TensorLineage, value_of
from tfdbg_cli.filters.narrow import Share

__all__ = ["QuantizedTensor", "clipped", "quantized"]

# What PyTorch's engine notes of a tensor whose value it has dequantized.
_NOTE = re.compile(
    r"dequantized q(u?int\d+), scales? (.+), zero points? (.+?)(?:, along dimension (\d+))?$"
)
# Attributes, of ONNX's ops and of PyTorch's.
_AXES = ("axis", f"{ARGUMENT}axis")
_SCALE, _ZERO = f"{ARGUMENT}scale", f"{ARGUMENT}zero_point"
_ENDS = (f"{ARGUMENT}quant_min", f"{ARGUMENT}quant_max")
_SHARE = Share(0.01)


@dataclass
class QuantizedTensor:
    """A tensor of codes: each stands for (code - zero point) * scale.

    Attributes:
        scale, zero: of the tensor, or along an axis.
        low, high: the smallest and the largest number that an element stands for.
        share: of the elements whose codes are the first or the last of their type: what lies beyond
            was clipped; from 0 to 1.
    """

    scale: Array
    zero: Array
    low: float
    high: float
    share: float

    def words(self) -> str:
        """``codes for -1.31 to 1.24, scale 0.01, zero point 3; 66.7 % of them at the ends``."""
        scale, zero = _span(self.scale), _span(self.zero)
        plural = "s" if self.scale.size > 1 else ""
        share = f"{100 * self.share:.1f} %" if self.share else "none"
        return (
            f"codes for {self.low:g} to {self.high:g}, scale{plural} {scale}, "
            f"zero point{plural} {zero}; {share} of them at the ends"
        )


def _span(values: Array) -> str:
    low, high = values.min(), values.max()
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def quantized(dump: Dump, datum: Datum, value: Any) -> QuantizedTensor | None:
    """What a tensor's codes stand for; ``None``: it has none, or their scale isn't known.

    Args:
        dump: of the run.
        datum: the tensor: a result of ONNX's ``QuantizeLinear`` or ``DynamicQuantizeLinear`` or of
            PyTorch's ``quantized_decomposed``, or a quantized tensor of PyTorch's, whose value is
            dequantized already (of one with more than 4,096 scales it isn't known).
        value: of it.
    """
    if not isinstance(value, np.ndarray) or not value.size:
        return None
    note = _NOTE.match(datum.note or "")
    if note is not None:
        scale, zero = (np.array(note[at].split(", "), np.float64) for at in (2, 3))
        scale, zero = _along(scale, zero, value, int(note[4] or 0))
        codes = np.asarray(np.rint(value.astype(np.float64) / scale) + zero)
        ends = np.iinfo(np.dtype(note[1]))
        return _made(codes, scale, zero, (ends.min, ends.max), value)
    lineage = TensorLineage.of(dump)
    node = lineage.node(datum)
    is_code = value.dtype.kind in "iu" and datum.output_slot == 0
    if node is None or not is_code or lineage.roles.computes(node.op_type) != "quantize":
        return None
    names = [*node.inputs[1:], *(f"{node.name}:{slot}" for slot in (1, 2))]  # dynamic: given
    found = [value_of(data[-1]) for name in names if (data := dump.by_tensor(name))]
    arrays = [np.asarray(each, np.float64) for each in found if isinstance(each, np.ndarray)]
    numbers = [number_of(node, name) for name in (_SCALE, _ZERO)]
    arrays += [np.asarray(each, np.float64) for each in numbers if each is not None]
    if not arrays:
        return None
    scale = arrays[0]
    zero = arrays[1] if len(arrays) > 1 else np.zeros_like(scale)
    axis = int(next((node.attributes[e] for e in _AXES if e in node.attributes), "1"))
    if scale.size > 1 and (scale.ndim != 1 or value.shape[axis] != scale.size):
        return None  # in blocks
    scale, zero = _along(scale, zero, value, axis)
    low, high = (number_of(node, name) for name in _ENDS)
    ends = np.iinfo(value.dtype)
    limits = (ends.min if low is None else low, ends.max if high is None else high)
    return _made(value, scale, zero, limits, (value.astype(np.float64) - zero) * scale)


def _along(scale: Array, zero: Array, value: Array, axis: int) -> tuple[Array, Array]:
    """The scales and zero points of channels, so that they fit to the elements."""
    if scale.size == 1:
        return scale.reshape(()), zero.reshape(-1)[:1].reshape(())
    shape = [1] * value.ndim
    shape[axis] = -1
    return scale.reshape(shape), np.broadcast_to(zero, scale.shape).reshape(shape)


def _made(
    codes: Array, scale: Array, zero: Array, ends: tuple[float, float], stands_for: Array
) -> QuantizedTensor:
    share = float(np.mean((codes <= ends[0]) | (codes >= ends[1])))
    return QuantizedTensor(scale, zero, float(stands_for.min()), float(stands_for.max()), share)


def clipped(datum: Datum, tensor: Any, dump: Dump, *, share: Share = _SHARE) -> bool:
    """Whether more than 1 % of a quantized tensor's codes are at an end of their range.

    What lies beyond was clipped: the scale is too small for these values. Another share is an
    argument: clipped:0.05.

    Args:
        datum: the tensor.
        tensor: its value.
        dump: whose tensor it is; the scale is read if the tensor has codes.
        share: the filter passes above it.
    """
    found = quantized(dump, datum, tensor)
    return found is not None and found.share > share
