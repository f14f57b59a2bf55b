"""Values that are put in the place of what a program has computed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.engines.kit.fitting import cannot_have, wrong_dtype, wrong_shape
from tfdbg_cli.engines.torch.private import inference_mode, unobserved, write_count
from tfdbg_cli.engines.torch.values.access import has_own_dispatch, is_readable
from tfdbg_cli.engines.torch.values.layouts import equal_bits

__all__ = [
    "as_value",
    "copied",
    "fitted",
    "flat",
    "overwrite",
    "replaced",
    "same_bits",
    "version_of",
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
            raise cannot_have(name, f"{_dtype(like)} can't hold it")
        raise wrong_dtype(name, _dtype(like), _dtype(value))


def _is_same(made: torch.Tensor, value: torch.Tensor) -> bool:
    """Whether a value has become whole numbers, or truth values, without change."""
    if value.is_floating_point():
        return bool(torch.equal(made.to(value.dtype), value))
    return bool(np.array_equal(made.numpy(), value.numpy()))  # knows that 2**63 isn't -2**63


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def overwrite(tensor: torch.Tensor, value: torch.Tensor) -> None:
    """Give a tensor other elements, in its own memory: views see it, autograd doesn't.

    Raises:
        RuntimeError: it can't be written to.
    """
    is_inference = tensor.is_inference()
    with unobserved(), inference_mode(True) if is_inference else contextlib.nullcontext():
        tensor.data.copy_(value)  # `data` has a version counter of its own


def version_of(tensor: torch.Tensor) -> int:
    """How often a tensor was written to; 0 where nobody counts."""
    return 0 if tensor.is_inference() else write_count(tensor)


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two dense tensors have the same elements, nan for nan; others are taken for equal."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one.layout is not torch.strided or one.is_nested or one.is_quantized or one.is_meta:
        return True
    with unobserved():
        return equal_bits(one, other)


def flat(values: Any) -> Iterator[torch.Tensor]:
    """The tensors of nested lists, tuples and dictionaries."""
    if isinstance(values, torch.Tensor):
        yield values
    elif isinstance(values, list | tuple):
        for value in values:
            yield from flat(value)
    elif isinstance(values, dict):
        for value in values.values():
            yield from flat(value)


def replaced(values: Any, replacements: Mapping[int, torch.Tensor]) -> Any:
    """Nested lists, tuples and dictionaries with other tensors in them.

    Args:
        values: whose tensors are to be replaced.
        replacements: ``id`` of a tensor -> what stands for it; others stay.
    """
    if isinstance(values, torch.Tensor):
        return replacements.get(id(values), values)
    if type(values) is list or type(values) is tuple:
        return type(values)(replaced(value, replacements) for value in values)
    if type(values) is dict:
        return {name: replaced(value, replacements) for name, value in values.items()}
    return values
