"""Updates by Keras' optimizers that make nothing bad of what is clean: no op of them is recorded.

Most ops of an eager step are those of the update, and to record an op takes longer than the op.
So `run -f` looks at what such an update leaves behind, and at none of its ops.
"""

from __future__ import annotations

import math
from typing import Any

from tensorflow.python.distribute import distribute_lib
from tensorflow.python.framework import dtypes
from tensorflow.python.ops.variables import Variable

from tfdbg_cli.engines.tensorflow.functions.private import parameters_of, rate_of
from tfdbg_cli.engines.tensorflow.functions.variables import quietly, variable_values

__all__ = ["handles_of", "is_ordinary"]

# Numbers with which an update can't go bad.
_LEAST_EPSILON, _LARGEST_BETA = 1e-16, 0.9999
_BETAS = {"Adam": ("beta_1", "beta_2"), "AdamW": ("beta_1", "beta_2"), "SGD": ("momentum",)}
# What does more with gradients than the formula of the optimizer.
_EXTRAS = (
    "clipnorm",
    "clipvalue",
    "global_clipnorm",
    "gradient_accumulation_steps",
    "loss_scale_factor",
    "use_ema",
)
_DTYPES = frozenset({dtypes.float32, dtypes.float64})


def is_ordinary(optimizer: Any) -> bool:
    """Whether an update makes nothing bad of what is clean, but for values at the dtype's end.

    Adam divides a mean of gradients by the root of a mean of their squares, to which it adds
    epsilon. It is one of Keras 3, with the usual numbers, and calls nothing of the program's.
    """
    kind = type(optimizer)
    betas = _BETAS.get(kind.__name__, ())
    if not betas or not kind.__module__.startswith("keras.src.optimizers."):
        return False
    if any(getattr(optimizer, name, None) for name in _EXTRAS) or distribute_lib.has_strategy():
        return False
    if not all(_is_within(getattr(optimizer, name, None), 0, _LARGEST_BETA) for name in betas):
        return False
    if len(betas) > 1 and not _is_within(optimizer.epsilon, _LEAST_EPSILON, 1):
        return False
    if not _is_within(optimizer.weight_decay or 0, 0, 1):
        return False
    parameters = parameters_of(optimizer)
    if not parameters or any(each.constraint is not None for each in parameters):
        return False
    if any(dtypes.as_dtype(each.dtype) not in _DTYPES for each in parameters):
        return False
    return _is_within(_learning_rate(optimizer), 0, 1)


def _is_within(value: Any, least: float, most: float) -> bool:
    return isinstance(value, float | int) and least <= value <= most


def _learning_rate(optimizer: Any) -> float:
    """The learning rate of the next update; nan: it can't be asked for without a call of others."""
    rate = rate_of(optimizer)
    with quietly():
        if type(rate).__module__.startswith("keras.src.optimizers.schedules."):
            return float(rate(optimizer.iterations))
        handle = getattr(getattr(rate, "value", None), "handle", None)
        found = variable_values({0: handle} if handle is not None else {})
    return float(found[0]) if found else math.nan


def handles_of(optimizer: Any) -> dict[str, Any]:
    """The handles of what an update writes to, by the names of the variables."""
    found = {}
    for each in (*parameters_of(optimizer), *optimizer.variables):
        variable = each if isinstance(each, Variable) else each.value
        if isinstance(variable, Variable) and variable.dtype.is_floating:
            found[getattr(each, "path", None) or each.name] = variable.handle
    return found
