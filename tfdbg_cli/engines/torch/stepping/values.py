"""Values that are put in the place of what a program has computed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.engines.kit.fitting import cannot_have, wrong_dtype, wrong_shape
from tfdbg_cli.engines.kit.sites import leaves
from tfdbg_cli.engines.torch.private import inference_mode, unobserved
from tfdbg_cli.engines.torch.values.access import has_own_dispatch, is_readable
from tfdbg_cli.engines.torch.values.layouts import dtype_name

__all__ = [
    "as_value",
    "copied",
    "fitted",
    "flat",
    "overwrite",
]


def as_value(name: str, value: Any) -> torch.Tensor:
    """A value as a tensor of its own.

    Args:
        name: of the tensor that is to have it.
        value: a tensor, an array (also of a dtype of ml_dtypes), numbers in nested lists.

    Raises:
        UserError: it is none of these.
    """
    with unobserved():
        if isinstance(value, torch.Tensor):
            return copied(value)
        try:
            array = np.array(value)
            if array.dtype.kind == "V":  # bfloat16 and its like
                return torch.from_numpy(array.astype(np.float32))
            return torch.from_numpy(array)
        except (TypeError, ValueError) as error:
            raise cannot_have(name, error) from None


def copied(tensor: torch.Tensor) -> torch.Tensor:
    """The same value in memory of its own."""
    with unobserved():
        # Of memory that was given back there is nothing to copy.
        return tensor.detach().clone() if is_readable(tensor) else tensor.detach()


def fitted(name: str, value: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """A value that can stand for a tensor: on its device, of its dtype.

    Raises:
        UserError: it has another shape, or can't be converted without changing it.
    """
    is_dense = like.layout is torch.strided and not (like.is_nested or like.is_quantized)
    if not is_dense or not is_readable(like):
        kind = str(like.layout).removeprefix("torch.")
        if like.is_nested:
            kind = "nested"
        elif has_own_dispatch(like):
            kind = f"a {type(like).__name__}"
        raise UserError(f"{name} can't be overridden: it is {kind}, and only dense tensors can.")
    if value.shape != like.shape:
        raise wrong_shape(name, like.shape, value.shape)
    with unobserved():
        is_kind = torch.can_cast(value.dtype, like.dtype)
        made = None
        if is_kind or not value.is_complex():
            made = value.to(device=like.device, dtype=like.dtype)
            is_free = is_kind and (like.is_floating_point() or like.is_complex())
            if is_free or _is_same(made.cpu(), value.cpu()):
                return made
        if made is not None and is_kind:
            raise cannot_have(name, f"{dtype_name(like.dtype)} can't hold it")
        raise wrong_dtype(name, dtype_name(like.dtype), dtype_name(value.dtype))


def _is_same(made: torch.Tensor, value: torch.Tensor) -> bool:
    """Whether a value has become whole numbers, or truth values, without change."""
    if value.is_floating_point():
        return bool(torch.equal(made.to(value.dtype), value))
    return bool(np.array_equal(made.numpy(), value.numpy()))  # knows that 2**63 isn't -2**63


def overwrite(tensor: torch.Tensor, value: torch.Tensor) -> None:
    """Give a tensor other elements, in its own memory: views see it, autograd doesn't.

    Raises:
        RuntimeError: it can't be written to.
    """
    is_inference = tensor.is_inference()
    with unobserved(), inference_mode(True) if is_inference else contextlib.nullcontext():
        tensor.data.copy_(value)  # `data` has a version counter of its own


def flat(values: Any) -> Iterator[torch.Tensor]:
    """The tensors of nested lists, tuples and dictionaries."""
    return (each for each in leaves(values) if isinstance(each, torch.Tensor))
