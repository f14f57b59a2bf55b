"""Finds out which part of a pipeline has made something bad, by going through it once more.

A pipeline runs in threads of the runtime, where nobody can look. What of it has no effects, and is
the same each time, can be computed again from its beginning, element by element.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from tensorflow.python.data.util import structure
from tensorflow.python.eager import context
from tensorflow.python.ops import gen_array_ops

from tfdbg_cli.engines.tensorflow.functions.library import KnownFunction, Library
from tfdbg_cli.engines.tensorflow.functions.pipelines.iterators import (
    stage_of,
    stages,
)
from tfdbg_cli.engines.tensorflow.functions.pipelines.private import (
    batching,
    data_of,
    function_of,
    functions_of,
    inputs_of,
)
from tfdbg_cli.engines.tensorflow.functions.private import call_by_name, function_name

__all__ = ["Maker", "NotFound", "Search", "bad_places"]

#: So many seconds are spent, at most.
PATIENCE = 5.0
# Steps that hand elements on; those of the second kind maybe in another order, or from another
# place on.
_HANDING_ON = frozenset({"prefetch", "options", "model", "repeat", "cache", "assert_cardinality"})
_REORDERING = frozenset(
    {"auto_shard", "legacy_rebatch", "rebatch", "restructured", "shard", "shuffle", "skip", "take"}
)
# Those that something comes from, the same each time.
_SOURCES = frozenset(
    {
        "fixed_length_record",
        "from_sparse_tensor_slices",
        "from_tensor_slices",
        "from_tensors",
        "range",
        "text_line",
        "tfrecord",
    }
)


class NotFound(Exception):
    """Why it isn't known what has made something bad."""


class Maker(NamedTuple):
    """What has made something bad of what was clean.

    Attributes:
        dataset: the step.
        function: the function in it, as TensorFlow keeps it; ``None``: the data begin so.
        known: what is known of that.
        arguments: that it was given.
        added: what its twin has given besides.
        results: what it has given; of a source an element.
    """

    dataset: Any
    function: Any
    known: KnownFunction | None
    arguments: Sequence[Any]
    added: Sequence[Any]
    results: Sequence[Any]


class _Element(NamedTuple):
    tensors: list[Any]
    maker: Maker | None  # of what is bad in it


def bad_places(tensors: Sequence[Any]) -> list[int]:
    """Which of some eager tensors have a nan or an infinity in them."""
    return [
        at
        for at, tensor in enumerate(tensors)
        if (tensor.dtype.is_floating or tensor.dtype.is_complex)
        and not np.isfinite(tensor.numpy()).all()
    ]


class Search:
    """Goes through a pipeline.

    Args:
        library: knows functions.
        patience: seconds.
    """

    def __init__(self, library: Library, patience: float = PATIENCE) -> None:
        self._library = library
        self._end = time.monotonic() + patience
        self._is_reordered = False

    def maker(self, dataset: Any, batch: Sequence[Any]) -> tuple[Maker, bool | None]:
        """What has made a batch bad; whether that is certain.

        Otherwise it is what has made the first one bad that comes out of the pipeline. ``None``:
        nothing was computed again, but the bad rows of the batch are rows of the source.

        Args:
            dataset: the last step.
            batch: the values of the batch.

        Raises:
            NotFound: nobody knows.
        """
        first: Maker | None = None
        with context.eager_mode():
            try:
                for element in self._elements(dataset):
                    if element.maker is None:
                        continue
                    if _is_same(element.tensors, batch):
                        return element.maker, True
                    first = first or element.maker
                    if self._is_reordered:
                        break
            except NotFound:
                source = _source_of_rows(dataset, batch) if first is None else None
                if source is not None:
                    return source, None
                if first is None:
                    raise
        if first is None:
            raise NotFound("it gives nothing bad when it is recomputed")
        return first, False

    def _elements(self, dataset: Any) -> Iterator[_Element]:
        stage = stage_of(dataset)
        made = getattr(self, f"_{stage}", None)
        if made is not None:
            yield from made(dataset)
        elif stage in _SOURCES:
            yield from self._source(dataset)
        elif stage in _HANDING_ON or stage in _REORDERING:
            self._is_reordered = self._is_reordered or stage in _REORDERING
            (given,) = inputs_of(dataset)
            yield from self._elements(given)
        else:
            raise NotFound(f"Dataset.{stage} isn't run a second time")

    def _source(self, dataset: Any) -> Iterator[_Element]:
        for element in dataset:
            if time.monotonic() > self._end:
                raise NotFound("it has more elements than can be searched in a short time")
            tensors = structure.to_tensor_list(dataset.element_spec, element)
            is_bad = bad_places(tensors)
            yield _Element(tensors, Maker(dataset, None, None, (), (), tensors) if is_bad else None)

    def _map(self, dataset: Any) -> Iterator[_Element]:
        (given,), (function,) = inputs_of(dataset), functions_of(dataset)
        call = self._caller(dataset, function)
        for element in self._elements(given):
            made = call(element.tensors)
            if not bad_places(made.results):
                yield _Element([*made.results], None)
            elif bad_places(element.tensors):
                yield _Element([*made.results], element.maker)
            else:
                yield _Element([*made.results], made)

    def _filter(self, dataset: Any) -> Iterator[_Element]:
        (given,), (function,) = inputs_of(dataset), functions_of(dataset)
        call = self._caller(dataset, function)
        for element in self._elements(given):
            if bool(call(element.tensors).results[0].numpy()):
                yield element

    def _batch(self, dataset: Any) -> Iterator[_Element]:
        (given,) = inputs_of(dataset)
        size, is_whole = batching(dataset)
        elements = self._elements(given)
        while rows := list(itertools.islice(elements, size)):
            if len(rows) < size and is_whole:
                return
            maker = next((row.maker for row in rows if row.maker is not None), None)
            columns = zip(*(row.tensors for row in rows), strict=True)
            try:
                yield _Element([gen_array_ops.pack(list(column)) for column in columns], maker)
            except Exception as error:  # no plain tensors
                raise NotFound("its batches aren't made of plain tensors") from error

    def _zip(self, dataset: Any) -> Iterator[_Element]:
        for parts in zip(*map(self._elements, inputs_of(dataset)), strict=False):
            maker = next((part.maker for part in parts if part.maker is not None), None)
            yield _Element([tensor for part in parts for tensor in part.tensors], maker)

    def _concatenate(self, dataset: Any) -> Iterator[_Element]:
        for given in inputs_of(dataset):
            yield from self._elements(given)

    def _caller(self, dataset: Any, function: Any) -> Callable[[Sequence[Any]], Maker]:
        """Calls a function of a dataset, which mustn't have effects."""
        concrete = function.function
        try:
            known = self._library.get(concrete) or self._library.know(
                concrete, function_name(concrete)
            )
        except Exception as error:
            raise NotFound(f"{function_of(function)!r} can't be looked into") from error
        if not known.only_reads:
            name = getattr(function_of(function), "__name__", "its function")
            raise NotFound(f"{name} has effects or draws random numbers, and isn't called again")
        twin = known.twin()
        plain = len(known.body.definition.signature.output_arg)
        captured = list(concrete.captured_inputs)

        def call(tensors: Sequence[Any]) -> Maker:
            given = [*tensors, *captured]
            results = call_by_name(twin.name, given, plain + twin.added)
            return Maker(dataset, function, known, given, results[plain:], results[:plain])

        return call


def _source_of_rows(dataset: Any, batch: Sequence[Any]) -> Maker | None:
    """A source that holds its data itself, whose rows are all that is bad in a batch."""
    given = [row for value in batch for row in _bad_rows(value)]
    for found in stages(dataset):
        tensors = data_of(found) if not inputs_of(found) else None
        held = [] if tensors is None else [row for each in tensors for row in _bad_rows(each)]
        if held and all(any(_is_same_row(row, each) for each in held) for row in given):
            return Maker(found, None, None, (), (), tensors or ())
    return None


def _bad_rows(value: Any) -> list[Any]:
    """The rows of a tensor that have a nan or an infinity in them."""
    array = np.asarray(value.numpy() if hasattr(value, "numpy") else value)
    if array.dtype.kind not in "fc" or not array.ndim:
        return []
    is_bad = ~np.isfinite(array).reshape(len(array), -1).all(axis=1)
    return [*array[is_bad]]


def _is_same_row(row: Any, held: Any) -> bool:
    """Whether a row is one of a source, be it in another precision."""
    return row.shape == held.shape and np.array_equal(row, held.astype(row.dtype), equal_nan=True)


def _is_same(tensors: Sequence[Any], values: Sequence[Any]) -> bool:
    if len(tensors) != len(values):
        return False
    for tensor, value in zip(tensors, values, strict=True):
        made = tensor.numpy() if hasattr(tensor, "numpy") else None
        if made is None or np.shape(made) != np.shape(value):
            return False
        is_number = np.asarray(made).dtype.kind in "fc"
        if not np.array_equal(made, value, equal_nan=is_number):
            return False
    return True
