"""The tensors of nested values, as the user calls them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from tfdbg_cli.engines.kit.sites import named_parts

__all__ = ["tensors_in"]

_MOST_NAMES = 200


def tensors_in(
    name: str, value: Any, depth: int = 3, most: int | None = _MOST_NAMES
) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors of a nested value, with their names: ``batch.input_ids``, ``pair[0]``."""
    return named_parts(name, value, torch.Tensor, depth, most)
