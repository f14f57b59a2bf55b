"""Operators that make nothing bad of what is clean, so that nobody has to look at what they give.

Clean is a tensor without nan and infinities. What is in here holds for all finite elements, the
largest of their dtype included: no sum, no ratio, no conversion to a smaller dtype is among them.
Nor is anything said of complex numbers, whose magnitudes may overflow.
"""

from __future__ import annotations

import torch

__all__ = ["REAL", "clean_with"]

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

_WITH: dict[str, frozenset[torch.dtype]] = {}
for _text, _dtypes in (
    (_MOVED, _PLACES),
    (_JOINED, frozenset({torch.bool})),
    (_CHOSEN, frozenset()),
    (_BOUNDED, frozenset()),
):
    _WITH |= {f"aten::{_name}": _dtypes for _name in _text.split()}
_ANYWAY = frozenset(f"aten::{_name}" for _name in _MADE.split())


def clean_with(overload: str) -> frozenset[torch.dtype] | bool:
    """When an operator's real outputs are clean if its inputs are.

    Args:
        overload: ``aten::add.Tensor``.

    Returns:
        Which dtypes besides that of the output its inputs may have; or whether it doesn't even
        matter what they are.
    """
    found = _WITH.get(overload)
    return found if found is not None else overload in _ANYWAY
