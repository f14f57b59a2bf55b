"""A run that a program has asked for, by whichever of the methods of a session."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tfdbg_cli.dumps.dtypes import dtype_by_name
from tfdbg_cli.dumps.dump import NewValues
from tfdbg_cli.engines.kit.fitting import replaced
from tfdbg_cli.engines.onnx.private import bound_inputs, bound_outputs
from tfdbg_cli.engines.onnx.values import ELEMENTS

__all__ = ["Request", "bound_request", "note_binding"]

# The parameters of ``IOBinding.bind_input`` after the name.
_BIND_INPUT = ("device_type", "device_id", "element_type", "shape", "buffer_ptr")


class Request:
    """What is asked of a session.

    Attributes:
        names: of the outputs.
        feeds: by the names of the inputs.
        options: the program's ``RunOptions``.
        plain: makes the run as the program has asked for it; gives what the program gets.
        outputs: of what that has given: the values by name, as ONNX Runtime gives them.
        unknown: the inputs whose values nobody knows.
        is_bound: inputs may share memory with outputs.
        gives_arrays: what the program gets are arrays, which another session can make as well.
        found: what a twin has given in place of the program's session, by name.
    """

    def __init__(
        self,
        names: Sequence[str],
        feeds: Mapping[str, Any],
        options: Any,
        plain: Callable[[], Any],
        outputs: Callable[[Any], Mapping[str, Any]] | None = None,
        unknown: Sequence[str] = (),
        is_bound: bool = False,
        gives_arrays: bool = False,
    ) -> None:
        self.names, self.feeds, self.options, self.plain = list(names), feeds, options, plain
        self._outputs = outputs
        self.unknown = unknown
        self.is_bound = is_bound
        self.gives_arrays = gives_arrays
        self.found: dict[str, Any] | None = None

    def outputs(self, value: Any) -> Mapping[str, Any]:
        """The values of a run's outputs, by name."""
        if self._outputs is not None:
            return self._outputs(value)
        return dict(zip(self.names, value, strict=False))

    def replaced(self, tensors: Mapping[str, str], value: Any, new: NewValues) -> Any:
        """What the program gets, with other values of some outputs; see `Capture.replaced`.

        Args:
            tensors: name of an output -> its tensor.
            value: the list that it would get.
            new: the tensors with other values.
        """
        return replaced(self.names, value, lambda name: tensors.get(name, ""), new)


class _Memory(NamedTuple):
    """Where an input is: what ``IOBinding.bind_input`` is given."""

    device: str
    element_type: Any
    shape: Sequence[int]
    address: int

    def read(self) -> Any:
        """A copy of it; ``None``: it isn't of an array's type, or on another device."""
        kind = self.element_type
        dtype = dtype_by_name(ELEMENTS[kind] if kind in ELEMENTS else np.dtype(kind).name)
        if self.device != "cpu" or dtype is None or not dtype.is_native or dtype.name == "string":
            return None
        made = np.empty(tuple(self.shape), dtype.name)
        if made.nbytes:
            ctypes.memmove(made.ctypes.data, self.address, made.nbytes)
        return made


#: The inputs that were bound by their addresses, by binding and name.
_memory: weakref.WeakKeyDictionary[Any, dict[str, _Memory]] = weakref.WeakKeyDictionary()


def note_binding(binding: Any, name: str, *arguments: Any, **options: Any) -> None:
    """An input was bound: remember by which address, or that it was by none."""
    known = _memory.setdefault(binding, {})
    known.pop(name, None)
    if len(arguments) + len(options) == len(_BIND_INPUT):
        given = {**dict(zip(_BIND_INPUT, arguments, strict=False)), **options}
        known[name] = _Memory(*(given[each] for each in _BIND_INPUT if each != "device_id"))


def bound_request(binding: Any, options: Any, plain: Callable[[], Any]) -> Request:
    """A run of what is bound."""
    inputs = dict(bound_inputs(binding))
    for name, memory in _memory.get(binding, {}).items():
        inputs[name] = memory.read()
    names = bound_outputs(binding)

    def outputs(_: Any) -> Mapping[str, Any]:
        return dict(zip(names, binding.get_outputs(), strict=False))

    known = {name: value for name, value in inputs.items() if value is not None}
    unknown = [name for name, value in inputs.items() if value is None]
    return Request(names, known, options, plain, outputs, unknown, is_bound=True)
