"""Operators that make nothing bad of what is clean, so that nobody has to look at what they give.

Clean is a tensor without nan and infinities. What is in here holds for all finite elements, the
largest of their dtype included: no sum, no ratio, no conversion to a smaller dtype is among them.
Nor is anything said of complex numbers, whose magnitudes may overflow.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

__all__ = ["CLEAN", "REAL", "CleanRule"]

#: The dtypes of outputs that this is about.
REAL = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
# What says which elements are meant. No number of it gets into the output.
_PLACES = frozenset({torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool})

# Each element is one that was given, or zero in its place.
_MOVED = """
    clone diagonal_copy embedding expand_copy flip gather index.Tensor index_select masked_select
    permute_copy repeat roll select_backward select_copy.int slice_backward slice_copy.Tensor
    squeeze_copy squeeze_copy.dim t_copy take transpose_copy.int tril triu unsqueeze_copy view_copy
"""
# Likewise, where what is given has one dtype: an integer may be too large for the output's.
_JOINED = "cat stack where.self maximum minimum"
# Each is one that was given, without its sign or rounded, or zero.
_CHOSEN = """
    abs abs_ amax amin ceil floor max max.dim min min.dim neg neg_ relu relu_ round sort
    sort.stable threshold_backward topk trunc
"""
# Each lies between two small numbers, as long as none that was given is nan.
_BOUNDED = """
    _safe_softmax _softmax atan cos erf sgn sigmoid sigmoid_ sign sin tanh tanh_
"""
# Likewise, whatever was given.
_MADE = """
    bernoulli bernoulli.p bernoulli_.float bernoulli_.Tensor eye new_ones new_zeros ones ones_like
    rand rand_like zero_ zeros zeros_like
"""


class CleanRule(NamedTuple):
    """When the real outputs of an operator are clean.

    Attributes:
        dtypes: what its inputs may have besides the dtype of the output, if they are clean.
        is_certain: it doesn't matter what they are.
    """

    dtypes: frozenset[torch.dtype]
    is_certain: bool = False


_NO_OTHERS: frozenset[torch.dtype] = frozenset()

#: By the full names of overloads: ``aten::relu``, ``aten::max.dim``.
CLEAN: dict[str, CleanRule] = {
    f"aten::{_name}": _rule
    for _names, _rule in (
        (_MOVED, CleanRule(_PLACES)),
        (_JOINED, CleanRule(frozenset({torch.bool}))),
        (_CHOSEN, CleanRule(_NO_OTHERS)),
        (_BOUNDED, CleanRule(_NO_OTHERS)),
        (_MADE, CleanRule(_NO_OTHERS, is_certain=True)),
    )
    for _name in _names.split()
}
