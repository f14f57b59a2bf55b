"""A run that a program has asked for, by whichever of the methods of a session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tfdbg_cli.engines.onnx.private import bound_inputs, bound_outputs

__all__ = ["Request", "bound_request"]


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


def bound_request(binding: Any, options: Any, plain: Callable[[], Any]) -> Request:
    """A run of what is bound."""
    inputs = bound_inputs(binding)
    names = bound_outputs(binding)

    def outputs(_: Any) -> Mapping[str, Any]:
        return dict(zip(names, binding.get_outputs(), strict=False))

    known = {name: value for name, value in inputs.items() if value is not None}
    unknown = [name for name, value in inputs.items() if value is None]
    return Request(names, known, options, plain, outputs, unknown, is_bound=True)
