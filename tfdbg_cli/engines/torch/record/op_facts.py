"""Operators that make nothing bad of what is clean; see `tfdbg_cli.engines.kit.op_facts`.

Ops are judged as they are recorded, in no time: so there is no search, and a rule for each overload
in place of a condition.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from tfdbg_cli.engines.kit.op_facts import Fact, SameDtype, always, each

__all__ = ["FACTS", "REAL", "CleanRule", "rule_of"]

#: The dtypes of outputs that this is about.
REAL = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
# What says which elements are meant. No number of it gets into the output.
_PLACES = SameDtype(frozenset({"bool", "int8", "int16", "int32", "int64", "uint8"}))

#: By the full names of overloads, without their ``aten::``: ``relu``, ``max.dim``.
_FACTS = {
    # Each element is one that was given, or zero in its place.
    **each(
        """
            clone diagonal_copy embedding expand_copy flip gather index.Tensor index_select
            masked_select permute_copy repeat roll select_backward select_copy.int slice_backward
            slice_copy.Tensor squeeze_copy squeeze_copy.dim t_copy take transpose_copy.int tril
            triu unsqueeze_copy view_copy
        """,
        Fact(_PLACES),
    ),
    # Likewise, where what is given has one dtype: an integer may be too large for the output's.
    **each("cat stack where.self maximum minimum", Fact(SameDtype(frozenset({"bool"})))),
    # Each is one that was given, without its sign or rounded, or zero; or between small numbers.
    **each(
        """
            abs abs_ amax amin ceil floor max max.dim min min.dim neg neg_ relu relu_ round sort
            sort.stable threshold_backward topk trunc
            _safe_softmax _softmax atan cos erf sgn sigmoid sigmoid_ sign sin tanh tanh_
        """,
        Fact(SameDtype()),
    ),
    **each(
        """
            bernoulli bernoulli.p bernoulli_.float bernoulli_.Tensor eye new_ones new_zeros ones
            ones_like rand rand_like zero_ zeros zeros_like
        """,
        Fact(always, absorbs=True),
    ),
}
FACTS: dict[str, Fact] = {f"aten::{name}": fact for name, fact in _FACTS.items()}


class CleanRule(NamedTuple):
    """When the real outputs of an operator are clean.

    Attributes:
        dtypes: what its inputs may have besides the dtype of the output, if they are clean.
        is_certain: it doesn't matter what they are.
    """

    dtypes: frozenset[torch.dtype]
    is_certain: bool


def rule_of(overload: str) -> CleanRule | None:
    """What the table says of an overload; ``None``: nothing."""
    fact = FACTS.get(overload)
    if fact is None:
        return None
    besides = fact.clean.besides if isinstance(fact.clean, SameDtype) else ()
    return CleanRule(frozenset(getattr(torch, name) for name in besides), fact.absorbs)
