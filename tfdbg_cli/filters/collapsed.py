"""``constant``: a batch whose rows an op has made the same, though they were different."""

from __future__ import annotations

import re
from typing import Any

from tfdbg_cli.common.arrays import Array, np
from tfdbg_cli.common.node_words import PHASE
from tfdbg_cli.dumps.dump import Datum, Dump, explained
from tfdbg_cli.dumps.graph import Node, node_name_of
from tfdbg_cli.filters.lineage import TensorLineage, floats, holds_others
from tfdbg_cli.filters.magnitude import GRADIENT

__all__ = ["constant", "why_constant"]

# Fewer rows may be equal by chance; so may fewer elements be at the end of an activation.
_LEAST_ROWS = 4
_LEAST_ELEMENTS = 64

# Units in the last place: of rows that are the same but for rounding, and of what these come from.
_ROUNDING, _APART = 8, 800
# One unit of numbers from 1 to 2.
_UNITS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}

_NORM = re.compile(
    r"(?:native_|cudnn_|miopen_|_fused_)?(?:simplified)?(?:batch|layer|group|instance|rms)_?norm"
    r"(?:alization)?|fusedbatchnormv\d",
    re.IGNORECASE,
)
_SATURATING = frozenset({"relu", "sigmoid", "tanh"})
_SQUARED_DIFFERENCE = "SquaredDifference"
# What is between a tensor and the mean, or the maximum, that is subtracted from it.
_BETWEEN = frozenset({"cast", "clip", "div", "max", "mean", "mul", "same", "sum"})
_TOTALS = {"mean": "mean", "max": "maximum"}
_MOST_BETWEEN = 8


@explained
def constant(datum: Datum, tensor: Any, dump: Dump) -> bool:
    """Whether an op made the rows of a batch the same, though those of its input differ.

    That is in four rows or more, in what these ops of the forward pass make: a normalization and a
    difference from the mean (over one element), a softmax (over one class), a relu, a sigmoid or a
    tanh of 64 elements or more (all at the same end). Rows count as the same if they differ by no
    more than rounding; then those of the input have to differ by much more. Normalizations whose
    weight is zero are left out.

    Args:
        datum: the tensor.
        tensor: its value.
        dump: whose tensor it is. Its inputs are read if its rows are the same, and only then.
    """
    if not isinstance(tensor, np.ndarray) or not _are_same(tensor, datum.dtype, _ROUNDING):
        return False
    return bool(why_constant(TensorLineage.of(dump), datum))


def _are_same(value: Array, dtype: str, units: float) -> bool:
    """Whether all rows are the same, but for so many units in the last place of the largest one."""
    if value.ndim == 0 or len(value) < _LEAST_ROWS or not value.size:
        return False
    # The last row tells it of most tensors.
    first, end = (np.asarray(each, np.float64) for each in (value[0], value[-1]))
    with np.errstate(all="ignore"):
        apart = np.abs(first).max() * units * _UNITS.get(dtype, 0.0)
        if not (np.abs(first - end) <= apart).all():
            return False
        return bool((np.abs(value.astype(np.float64) - first) <= apart).all())


def why_constant(lineage: TensorLineage, datum: Datum) -> str:
    """By which op the rows of a tensor became the same; empty: they didn't, or that may be meant.

    Args:
        lineage: of the dump.
        datum: the tensor.
    """
    node, made = lineage.node(datum), floats(datum)
    if made is None or node is None or not node.inputs:
        return ""
    if not _are_same(made, datum.dtype, _ROUNDING):
        return ""
    is_forward = node.attributes.get(PHASE, "forward") == "forward"
    if not is_forward or GRADIENT.search(node.name) is not None:
        return ""
    given = lineage.floats_given(datum, node.inputs[0])
    if given is None or given.ndim == 0 or len(given) != len(made):
        return ""
    is_exact = bool((made == made[0]).all())
    if _are_same(given, datum.dtype, 0 if is_exact else _APART):
        return ""
    how = _how(lineage, datum, node, made, given, is_exact) if np.isfinite(given).all() else ""
    if not how:
        return ""
    return f"all {len(made)} rows are the same, though those of {node.inputs[0]} differ: {how}"


def _how(
    lineage: TensorLineage, datum: Datum, node: Node, made: Array, given: Array, is_exact: bool
) -> str:
    """By what an op made its rows the same; empty: that may be meant."""
    what = lineage.roles.computes(node.op_type)
    if _NORM.fullmatch(node.op_type) and datum.output_slot == 0:
        weight = lineage.floats_given(datum, node.inputs[1]) if len(node.inputs) > 1 else None
        if weight is not None and not weight.any():
            return ""
        is_one = given.shape[-1] == 1 and "batch" not in node.op_type.lower()
        return "it normalizes over one element" if is_one else "it normalizes them to the same"
    if what == "softmax" and made.ndim == 2 and is_exact:
        return "a softmax over one class is 1" if made.shape[1] == 1 else "it is at its end"
    if what in _SATURATING and made.ndim > 1 and made.size >= _LEAST_ELEMENTS:
        number = f", all are {made.flat[0]:g}" if (made == made.flat[0]).all() else ""
        return f"{node.op_type} is at its end for all of them{number}"
    if what == "sub" or node.op_type == _SQUARED_DIFFERENCE:
        total = _total_of(lineage, node) if not made.any() else ""
        if total == "mean" or (total == "max" and made.ndim == 2):
            return f"it subtracts the {_TOTALS[total]} of one element"
    return ""


def _total_of(lineage: TensorLineage, node: Node) -> str:
    """``mean`` or ``max``, if it is subtracted from what it is the mean or the maximum of."""
    if len(node.inputs) != 2 or lineage.graph is None:
        return ""
    whole, name = node.inputs
    found: set[str] = set()
    for _ in range(_MOST_BETWEEN):
        maker = lineage.graph.nodes.get(node_name_of(name))
        what = lineage.roles.computes(maker.op_type) if maker is not None else ""
        if maker is None or not maker.inputs:
            return ""
        if not (what in _BETWEEN or holds_others(maker)):
            return ""
        found.add(what)
        if whole in maker.inputs:
            return "mean" if found & {"mean", "sum"} else "max" if "max" in found else ""
        # Numbers such as the count are given as tensors as well, at either place.
        shaped = [each for each in maker.inputs if lineage.shape(each) != ()]
        name = (shaped or maker.inputs)[0]
    return ""
