"""Gradients of what a call returns, with respect to anything that it computes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.engines.jax.plans.ops import Constant
from tfdbg_cli.engines.jax.plans.plan import Plan
from tfdbg_cli.engines.jax.plans.values import is_floating
from tfdbg_cli.engines.jax.stepping.layout import CallLayout

__all__ = ["gradient_of"]


@jax.custom_vjp
def _pass_on(value: Any, gradient: Any) -> Any:
    """A value whose gradient is another one, whatever is made of it."""
    del gradient
    return value


_pass_on.defvjp(
    lambda value, gradient: (value, gradient),
    lambda gradient, _: (gradient, jax.numpy.zeros_like(gradient)),
)


def gradient_of(
    plan: Plan,
    layout: CallLayout,
    known: Mapping[int, Any],
    place: int,
    maker: int,
    given: Mapping[int, Any],
) -> np.ndarray[Any, Any]:
    """The gradient of the only number that a call returns, or of the first of several.

    Args:
        plan: of the call.
        layout: of its steps.
        known: place -> value, at its end.
        place: of the tensor.
        maker: the index of the step that makes it.
        given: place -> the gradient that was set, of others.

    Raises:
        UserError: the call returns no number.
    """
    numbers = [
        each
        for each in plan.block.outputs
        if isinstance(each, int) and is_floating(known[each]) and not np.ndim(known[each])
    ]
    if not numbers:
        raise UserError(
            "The call returns no floating-point number, so there is no gradient.",
            "Return the loss as well.",
        )

    def rest(value: Any) -> Any:
        values = {**known, place: value}
        changed = {place}
        for op in layout.ops[maker + 1 :]:
            inputs = [
                each.value if isinstance(each, Constant) else values[each] for each in op.inputs
            ]
            if changed.isdisjoint(each for each in op.inputs if isinstance(each, int)):
                continue
            made = op.compute(inputs)
            for each, made_value in zip(op.outputs, made, strict=True):
                other = given.get(each)
                values[each] = made_value if other is None else _pass_on(made_value, other)
            changed.update(op.outputs)
        return values[numbers[0]]

    try:
        return np.array(jax.grad(rest)(known[place]))
    except Exception as error:
        text = str(error).partition("\n")[0]
        raise UserError(f"There is no gradient: {text}.") from error
