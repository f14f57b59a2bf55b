"""What is known of a call at its beginning."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tfdbg_cli.engines.jax.plans.values import as_array
from tfdbg_cli.engines.jax.runs.calls import Leaf
from tfdbg_cli.engines.kit.description import RunDescription, RunInputs

__all__ = ["CallDescription"]


class CallDescription(RunDescription):
    """A run that is a call.

    Args:
        kind, number, title: as of any run.
        leaves: gives the arrays that it gets.
    """

    def __init__(
        self, kind: str, number: int, title: str, leaves: Callable[[], list[Leaf]]
    ) -> None:
        super().__init__(kind, number, title)
        self._leaves: Callable[[], list[Leaf]] | None = leaves

    def tensors(self) -> Mapping[str, Any]:
        """The arrays by their paths."""
        if self._leaves is None:
            return {}
        leaves = self._leaves()
        return RunInputs(
            {leaf.path: _reader(leaf.value) for leaf in leaves},
            {leaf.path: _shape(leaf.value) for leaf in leaves},
        )

    def began(self, watcher: Any) -> None:
        """Its inputs' names are known from the call itself."""
        replayed = getattr(watcher, "replayed", None)
        inputs = replayed.inputs if replayed is not None else {}
        self._made = {path: _constantly(name) for path, name in inputs.items()}

    def forget(self) -> None:
        super().forget()
        self._leaves = None


def _reader(value: Any) -> Callable[[], Any]:
    return lambda: as_array(value)


def _constantly(name: str) -> Callable[[], str]:
    return lambda: name


def _shape(value: Any) -> str:
    dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
    return f"{dtype} {list(shape)}" if dtype is not None and shape is not None else ""
