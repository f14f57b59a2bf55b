"""Operators that make nothing bad of what is clean; see `tfdbg_cli.engines.kit.op_facts`.

Ops are judged as they are recorded, in no time: there is no search, and `CleanRule` is a condition
whose parts the recorder reads.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from tfdbg_cli.engines.kit.op_facts import Fact, Op

__all__ = ["FACTS", "REAL", "RULES", "CleanRule"]

#: The dtypes of outputs that this is about.
REAL = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
# What says which elements are meant. No number of it gets into the output.
_PLACES = frozenset({torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool})


@dataclass(frozen=True, slots=True)
class CleanRule:
    """When the real outputs of an operator are clean.

    Attributes:
        dtypes: what its inputs may have besides the dtype of the output, if they are clean.
        is_certain: it doesn't matter what they are.
    """

    dtypes: frozenset[torch.dtype] = frozenset()
    is_certain: bool = False

    def __call__(self, op: Op) -> bool:
        """As the recorder judges it."""
        given, made = (
            {getattr(torch, each.dtype) for each in values} for values in (op.inputs, op.outputs)
        )
        real = made & REAL
        return bool(real) and (self.is_certain or given <= real | self.dtypes)


#: By the full names of overloads: ``aten::relu``, ``aten::max.dim``.
RULES = {
    f"aten::{name}": rule
    for rule, names in {
        # Each element is one that was given, or zero in its place.
        CleanRule(_PLACES): """
            clone diagonal_copy embedding expand_copy flip gather index.Tensor index_select
            masked_select permute_copy repeat roll select_backward select_copy.int slice_backward
            slice_copy.Tensor squeeze_copy squeeze_copy.dim t_copy take transpose_copy.int tril
            triu unsqueeze_copy view_copy
        """,
        # Likewise, where what is given has one dtype: an integer may be too large for the output's.
        CleanRule(frozenset({torch.bool})): "cat stack where.self maximum minimum",
        # Each is one that was given, without its sign or rounded, or zero; or between two small
        # numbers.
        CleanRule(): """
            abs abs_ amax amin ceil floor max max.dim min min.dim neg neg_ relu relu_ round sort
            sort.stable threshold_backward topk trunc
            _safe_softmax _softmax atan cos erf sgn sigmoid sigmoid_ sign sin tanh tanh_
        """,
        CleanRule(is_certain=True): """
            bernoulli bernoulli.p bernoulli_.float bernoulli_.Tensor eye new_ones new_zeros ones
            ones_like rand rand_like zero_ zeros zeros_like
        """,
    }.items()
    for name in names.split()
}
FACTS = {name: Fact(rule, absorbs=rule.is_certain) for name, rule in RULES.items()}
