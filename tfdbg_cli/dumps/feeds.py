"""The values of feeds: what the caller gave as an array, and what a dump reads on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tfdbg_cli.common.arrays import np
from tfdbg_cli.dumps.dump import InconvertibleTensorProto
from tfdbg_cli.dumps.proto.tensor_proto import string_elements

__all__ = ["LazyFeeds", "as_tensor", "is_text"]

# Of a feed that is not a tensor, so much of its text is kept.
_LONGEST_REPR = 2000


def is_text(array: np.ndarray[Any, Any]) -> bool:
    """Whether all elements are ``str``; false for an empty array of objects."""
    if array.dtype.kind in "UT":
        return True
    if array.dtype.kind == "S":
        return False
    return array.size > 0 and all(isinstance(each, str) for each in array.reshape(-1).tolist())


def as_tensor(value: Any) -> np.ndarray[Any, Any] | InconvertibleTensorProto:
    """What a caller fed (a list, a number, an array) as an array.

    Something that is not a tensor (a sparse value, any object) is described by its ``repr``.
    """
    if isinstance(value, InconvertibleTensorProto):
        return value
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, Warning):  # ragged; older versions of NumPy only warn of it
        array = None
    if array is None or (array.dtype.kind == "O" and string_elements(array) is None):
        return InconvertibleTensorProto(repr(value)[:_LONGEST_REPR])
    return array


class LazyFeeds(Mapping[str, Any]):
    """Feed name -> value, read when somebody asks.

    Args:
        loaders: feed name -> a function that reads its value.
        shapes: feed name -> dtype and shape, as far as known.
        tensors: feed name -> ``node:slot``, as far as the run was debugged.
    """

    def __init__(
        self,
        loaders: Mapping[str, Callable[[], Any]],
        shapes: Mapping[str, str] | None = None,
        tensors: Mapping[str, str] | None = None,
    ) -> None:
        self._loaders = loaders
        self.shapes = shapes or {}
        self.tensors = tensors or {}

    def __getitem__(self, name: str) -> Any:
        return self._loaders[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaders)

    def __len__(self) -> int:
        return len(self._loaders)

    def __contains__(self, name: object) -> bool:
        return name in self._loaders

    def __repr__(self) -> str:
        return f"LazyFeeds({list(self._loaders)})"
