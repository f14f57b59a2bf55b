"""What JAX's ops do with nan and infinities; see `tfdbg_cli.engines.kit.op_facts`."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

from jax.extend import core

from tfdbg_cli.engines.jax.twins.loops import is_inexact
from tfdbg_cli.engines.kit.op_facts import FIRST, KINDS, Fact, Op, Value, is_real, table

__all__ = ["FACTS", "op_of"]


def _adds_only(op: Op) -> bool:
    return all(min(low, high) >= 0 for low, high, _ in op.attributes["padding_config"])


def _reads_all(op: Op) -> bool:
    """No element of the first input is stepped over, or cut off."""
    steps = {*op.attributes["window_strides"], *op.attributes["rhs_dilation"]}
    return steps <= {1} and all(min(ends) >= 0 for ends in op.attributes["padding"])


#: By the names of primitives.
FACTS = table(
    {
        "conv_general_dilated": Fact(spreads=FIRST, when=_reads_all),
        "dynamic_update_slice": KINDS["moved"]._replace(spreads=itemgetter(slice(1, 2))),
        # What is out of bounds may be filled with nan.
        "gather": Fact(lambda op: "FILL" not in str(op.attributes.get("mode"))),
        "integer_pow": Fact(spreads=FIRST, when=lambda op: op.attributes["y"] > 0),
        "pad": KINDS["moved_first"]._replace(when=_adds_only),
        # Of an infinite imaginary part 1 is left.
        "tan": Fact(spreads=FIRST, when=is_real),
    },
    moved="complex concatenate conj copy neg",
    moved_first="""
        broadcast_in_dim layout_constraint pvary reshape reshard rev sharding_constraint split
        squeeze transpose
    """,
    picked="""
        clamp cummax cummin device_put dynamic_slice imag max min optimization_barrier real scatter
        select_n slice sort top_k
    """,
    largest="reduce_max reduce_min",
    rounded="abs asinh cbrt ceil cos floor round sin",
    bounded="atan erf erfc logistic sign tanh",
    converted="convert_element_type",
    spread="""
        acos add add_any asin cosh dot_general log log1p mul reduce_precision sinh sqrt square sub
    """,
    spread_first="cumprod cumsum div reduce_prod reduce_sum rem scatter-add",
)


def op_of(equation: Any) -> Op:
    """An equation of a jaxpr in the words of the search."""
    inputs, outputs = (tuple(map(_value, each)) for each in (equation.invars, equation.outvars))
    return Op(equation.primitive.name, inputs, outputs, equation.params)


def _value(operand: Any) -> Value:
    aval = operand.aval
    is_number = is_inexact(aval) or getattr(getattr(aval, "dtype", None), "kind", "") in "biu"
    key = None if isinstance(operand, core.Literal) else operand
    return Value(key, str(aval.dtype) if is_number else "opaque", getattr(aval, "shape", None))
