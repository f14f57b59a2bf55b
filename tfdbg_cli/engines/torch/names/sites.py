"""The tensors of nested values: as the user calls them, and others in their place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from tfdbg_cli.engines.kit.sites import named_parts
from tfdbg_cli.engines.torch.private import children_of, parameters_of

__all__ = ["has_parameters", "parameters_in", "replaced", "tensors_in"]

_MOST_NAMES = 200


def tensors_in(
    name: str, value: Any, depth: int = 3, most: int | None = _MOST_NAMES
) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors of a nested value, with their names: ``batch.input_ids``, ``pair[0]``."""
    return named_parts(name, value, torch.Tensor, depth, most)


def parameters_in(module: torch.nn.Module) -> Iterator[torch.Tensor]:
    """As ``module.parameters()``, faster at the first ones; one that is shared comes again."""
    for parameter in parameters_of(module).values():
        if parameter is not None:
            yield parameter
    for child in children_of(module).values():
        if child is not None:
            yield from parameters_in(child)


def has_parameters(module: torch.nn.Module) -> bool:
    """Whether a module has any."""
    return next(parameters_in(module), None) is not None


def replaced(value: Any, others: Mapping[int, torch.Tensor]) -> Any:
    """A nested value with other tensors in place of some.

    Args:
        value: lists, tuples (also with names) and dictionaries; what is in others stays.
        others: ``id`` of a tensor -> what stands for it.
    """
    if isinstance(value, torch.Tensor):
        return others.get(id(value), value)
    if type(value) in (tuple, list):
        return type(value)(replaced(item, others) for item in value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(replaced(item, others) for item in value))
    if type(value) is dict:
        return {key: replaced(item, others) for key, item in value.items()}
    return value
