"""The iterators of a program, each with the pipeline that it takes batches from."""

from __future__ import annotations

import inspect
import os
import re
import weakref
from collections.abc import Iterator
from typing import Any

from tfdbg_cli.dumps.sources import Frame, is_library_path
from tfdbg_cli.engines.tensorflow.functions.pipelines.private import (
    dataset_of,
    function_of,
    handle_of,
    inputs_of,
    iterator_handle,
    shares_of,
)

__all__ = ["Iterators", "place_of", "stage_of", "stages"]

_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])")
# Where TensorFlow's class has another name than the function that makes it.
_MADE_BY = {
    "generator": "from_generator",
    "sparse_tensor_slice": "from_sparse_tensor_slices",
    "tensor": "from_tensors",
    "tensor_slice": "from_tensor_slices",
}


class Iterators:
    """Knows iterators and datasets for as long as the program has them."""

    def __init__(self) -> None:
        self._known: weakref.WeakSet[Any] = weakref.WeakSet()
        self._shared: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        self._datasets: weakref.WeakSet[Any] = weakref.WeakSet()

    def add(self, iterator: Any) -> None:
        """The program has made one."""
        self._known.add(iterator)

    def add_shared(self, iterator: Any, dataset: Any) -> None:
        """The program has made one that hands the elements of a dataset out to devices."""
        self._shared[iterator] = dataset

    def add_dataset(self, dataset: Any) -> None:
        """The program has made a dataset."""
        self._datasets.add(dataset)

    def dataset(self, handle: Any) -> Any:
        """The dataset, or that which an iterator goes through; ``None``: it isn't known.

        Args:
            handle: the tensor that the runtime knows the iterator or the dataset by.
        """
        for iterator, dataset in list(self._shared.items()):
            if any(iterator_handle(each) is handle for each in shares_of(iterator)):
                return dataset
        for iterator in list(self._known):
            if iterator_handle(iterator) is handle:
                return dataset_of(iterator)
        return next((each for each in list(self._datasets) if handle_of(each) is handle), None)


def stages(dataset: Any) -> Iterator[Any]:
    """A dataset and all that it is made of, the last step first."""
    pending = [dataset]
    while pending:
        found = pending.pop()
        yield found
        pending += reversed(inputs_of(found))


def stage_of(dataset: Any) -> str:
    """What the program calls a step: ``map``, ``from_tensor_slices``."""
    name = type(dataset).__name__.strip("_").removeprefix("Parallel")
    step = _WORDS.sub("_", re.sub(r"Dataset(V\d)?$", "", name)).lower() or name
    return _MADE_BY.get(step, step)


def place_of(function: Any) -> Frame | None:
    """Where a function of a dataset was written; ``None``: it isn't the program's."""
    code = getattr(inspect.unwrap(function_of(function)), "__code__", None)
    if code is None or is_library_path(code.co_filename):
        return None
    return Frame(os.path.abspath(code.co_filename), code.co_firstlineno, code.co_name)
