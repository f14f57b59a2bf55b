"""Ops of a compiled function, computed again with other values."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend import core

from tfdbg_cli.dumps.dump import CannotRedo, Redo
from tfdbg_cli.engines.jax.plans.ops import Constant, Op
from tfdbg_cli.engines.jax.private import calls_back, unchecked
from tfdbg_cli.tensors.numeric import dtype_kind

__all__ = ["redo_of"]

_BEFORE = "jax.experimental"
# The parameter of products in which dtype they are added up, and given.
_SUMS_IN = "preferred_element_type"


def redo_of(ops: Mapping[str, Op]) -> Redo:
    """What `Dump.redo` is for a run of these ops.

    Args:
        ops: name of the node -> op; those inside of loops aren't among them.
    """

    def redo(
        node: str, given: Sequence[Any], recorded: Sequence[Any], *, is_wide: bool = False
    ) -> Sequence[Any] | None:
        op = ops.get(node)
        if op is None or op.kind not in ("", "cond") or op.shards is not None:
            raise CannotRedo("it is a loop, a branch or a shard_map, or inside of one")
        if op.kind and (is_wide or calls_back(op.equation)):
            raise CannotRedo("it is a branch")
        if op.op_type.startswith("random"):
            return None
        with unchecked(), _wide() if is_wide else contextlib.nullcontext():
            return _redo(op, given, is_wide=is_wide)

    return redo


def _wide() -> contextlib.AbstractContextManager[Any]:
    """While it lasts, JAX computes in 64 bits on this thread."""
    # The second is its place up to JAX 0.7.
    place = jax if hasattr(jax, "enable_x64") else importlib.import_module(_BEFORE)
    enable = place.enable_x64
    found: contextlib.AbstractContextManager[Any] = enable(True)
    return found


def _redo(op: Op, given: Sequence[Any], *, is_wide: bool) -> Sequence[Any]:
    waiting = list(given)
    floats = [each.dtype for each in given if dtype_kind(each.dtype) == "float"]
    values = []
    for operand, variable in zip(op.inputs, op.equation.invars, strict=True):
        if isinstance(operand, Constant) and not operand.tensor:
            value = np.asarray(operand.value)
            is_other = is_wide and floats and dtype_kind(value.dtype) == "float"
            values.append(value.astype(floats[0]) if is_other else operand.value)
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
        equation, params = op.equation, {**op.equation.params}
        if is_wide and params.get(_SUMS_IN) is not None:
            params[_SUMS_IN] = floats[0] if floats else None
        made = equation.primitive.bind(*values, **params)
        return [np.asarray(x) for x in (made if equation.primitive.multiple_results else [made])]
    except Exception as error:
        raise CannotRedo(f"it refuses these values: {type(error).__name__}") from error
