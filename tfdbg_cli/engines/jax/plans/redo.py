"""Ops of a compiled function, computed again with other values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend import core

from tfdbg_cli.dumps.dump import CannotRedo, Redo
from tfdbg_cli.engines.jax.plans.ops import Constant, Op

__all__ = ["redo_of"]


def redo_of(ops: Mapping[str, Op]) -> Redo:
    """What `Dump.redo` is for a run of these ops.

    Args:
        ops: name of the node -> op; those inside of loops and branches aren't among them.
    """

    def redo(
        node: str, given: Sequence[Any], recorded: Sequence[Any], *, is_wide: bool = False
    ) -> Sequence[Any] | None:
        op = ops.get(node)
        if op is None or op.kind or op.shards is not None:
            raise CannotRedo("it is a loop or a branch, or inside of one")
        if op.op_type.startswith("random"):
            return None
        waiting = list(given)
        values = []
        for operand, variable in zip(op.inputs, op.equation.invars, strict=True):
            if isinstance(operand, Constant) and not operand.tensor:
                values.append(operand.value)
                continue
            if not waiting:
                raise CannotRedo("its inputs aren't known")
            value, kind = waiting.pop(0), getattr(variable.aval, "dtype", None)
            if kind is not None and value.dtype != kind and not is_wide:
                raise CannotRedo("it was compiled for another dtype")
            values.append(jax.numpy.asarray(value))
            if values[-1].dtype != value.dtype:
                raise CannotRedo("JAX computes in 32 bits here")
        try:
            variables = [each for each in op.equation.invars if not isinstance(each, core.Literal)]
            # The compiled function of one op takes each variable once.
            if not is_wide and len({*map(id, variables)}) == len(variables):
                return [np.asarray(each) for each in op.compute(values)]
            equation = op.equation
            made = equation.primitive.bind(*values, **equation.params)
            return [
                np.asarray(x) for x in (made if equation.primitive.multiple_results else [made])
            ]
        except Exception as error:
            raise CannotRedo(f"it refuses these values: {type(error).__name__}") from error

    return redo
