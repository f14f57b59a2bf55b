"""The parts of ``tf.data`` that have no public name: see `engines.tensorflow.shared.private`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = [
    "batching",
    "data_of",
    "dataset_of",
    "function_of",
    "functions_of",
    "handle_of",
    "inputs_of",
    "iterator_handle",
    "shares_of",
]


def inputs_of(dataset: Any) -> list[Any]:
    """The datasets that one is made of."""
    return list(dataset._inputs())


def functions_of(dataset: Any) -> list[Any]:
    """The program's functions in a dataset itself, as TensorFlow keeps them."""
    return list(dataset._functions())


def function_of(kept: Any) -> Any:
    """What the program wrote, of a function as TensorFlow keeps it."""
    return kept._func


def handle_of(dataset: Any) -> Any:
    """The tensor by which the runtime knows a dataset."""
    return getattr(dataset, "_variant_tensor", None)


def iterator_handle(iterator: Any) -> Any:
    """The tensor by which the runtime knows an iterator."""
    return iterator._iterator_resource


def shares_of(iterator: Any) -> list[Any]:
    """The iterators of the devices that one hands its elements out to."""
    return list(getattr(iterator, "_device_iterators", ()))


def dataset_of(iterator: Any) -> Any:
    """What an iterator goes through."""
    return iterator._dataset


def batching(dataset: Any) -> tuple[int, bool]:
    """How many elements a batch has, and whether a shorter one at the end is left out."""
    return int(dataset._batch_size.numpy()), bool(dataset._drop_remainder.numpy())


def data_of(dataset: Any) -> Sequence[Any] | None:
    """The tensors that a dataset holds itself."""
    found: Sequence[Any] | None = getattr(dataset, "_tensors", None)
    return found
