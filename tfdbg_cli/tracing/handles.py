"""What a block asks of a run: a tensor, or the calls of a module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfdbg_cli.stepping.calls import INPUT, OUTPUT
from tfdbg_cli.tracing.errors import TraceError

if TYPE_CHECKING:
    from tfdbg_cli.tracing.tracer import Tracer

__all__ = ["GivenHandle", "Handle", "ModuleHandle"]


class Handle:
    """A tensor of the run, by name.

    Attributes:
        name: ``node:slot``.
    """

    __slots__ = ("_tracer", "name")

    def __init__(self, tracer: Tracer, name: str) -> None:
        self._tracer = tracer
        self.name = name

    @property
    def value(self) -> Any:
        """The value, as the framework's users hold it; the run goes on until it is computed.

        It is a copy. Assigned to, or written into (``value[...] = 0``), the rest of the run sees
        the new value: anything that becomes an array of the tensor's dtype and shape.

        Raises:
            OutOfOrderError: read: the run has passed it and its value wasn't kept; assigned to: a
                step that was done has used it. (What was written into it too late is an error of
                the next thing that is asked for, or of the end of the block.)
            TraceError: there is no such tensor in this run, or the run is over.
            Exception: what the run itself raises on the way.
        """
        return self._tracer._drive().read(self.name)

    @value.setter
    def value(self, value: Any) -> None:
        self._tracer._drive().assign(self.name, value)

    @property
    def grad(self) -> Any:
        """The gradient with respect to the tensor, of the backward pass of this run (PyTorch).

        Assigned to, the rest of the backward pass goes on with the new one: the gradients of what
        the tensor was computed from are computed from it.

        Raises:
            TraceError: the run computes none, or the engine has none: in a graph, gradients are
                tensors of their own names.
            UserError: assigned to: the backward pass has gone on with it, or it can't be this one.
        """
        return self._tracer._drive().gradient(self.name)

    @grad.setter
    def grad(self, value: Any) -> None:
        self._tracer._drive().assign_gradient(self.name, value)

    def __repr__(self) -> str:
        return f"<{self.name} of a trace>"


class GivenHandle(Handle):
    """A tensor that was read from a module's call.

    Args:
        tensor: the program's own.
    """

    __slots__ = ("_tensor",)

    def __init__(self, tracer: Tracer, name: str, tensor: Any) -> None:
        super().__init__(tracer, name)
        self._tensor = tensor

    @property
    def value(self) -> Any:
        """The tensor itself."""
        return self._tensor

    @value.setter
    def value(self, value: Any) -> None:
        raise TraceError(
            "This is the program's own tensor.",
            "Write into it (tensor[...] = value), or assign to t.module(...).output.",
        )


class ModuleHandle:
    """A call of a module (PyTorch).

    What is read are the program's own objects, no copies: what is written into them is what the
    rest of the run has, and PyTorch's own rules hold (of what autograd has saved, for example). To
    have a tensor as it is now, whatever becomes of it, copy it.
    """

    __slots__ = ("_module", "_number", "_tracer")

    def __init__(self, tracer: Tracer, module: Any, number: int | None) -> None:
        self._tracer = tracer
        self._module = module
        self._number = number

    @property
    def output(self) -> Any:
        """What the call returns: a tensor, a tuple, whatever it is; the run goes on until then.

        Assigned to, whoever has called the module gets the new one: of the same kind, and if it is
        a tensor, of the same shape, dtype and device (an array becomes one).

        Raises:
            OutOfOrderError: the run has passed it.
            TraceError: the module isn't there, or the run is over or doesn't call it as often.
            UserError: assigned to: it doesn't fit.
            Exception: what the run itself raises on the way.
        """
        return self._read(OUTPUT)

    @output.setter
    def output(self, value: Any) -> None:
        self._assign(OUTPUT, value)

    @property
    def inputs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What the module is called with: positional arguments and others; see `output`."""
        args, kwargs = self._read(INPUT)
        return args, kwargs

    @inputs.setter
    def inputs(self, value: tuple[tuple[Any, ...], dict[str, Any]]) -> None:
        args, kwargs = value
        self._assign(INPUT, (tuple(args), dict(kwargs)))

    @property
    def input(self) -> Any:
        """The first of `inputs`."""
        args, kwargs = self.inputs
        return next(iter((*args, *kwargs.values())), None)

    @input.setter
    def input(self, value: Any) -> None:
        args, kwargs = self.inputs
        if args:
            self._assign(INPUT, ((value, *args[1:]), kwargs))
        else:
            self._assign(INPUT, ((), {**kwargs, **dict.fromkeys([*kwargs][:1], value)}))

    def _read(self, moment: str) -> Any:
        return self._tracer._drive().calls.read(self._module, self._number, moment)

    def _assign(self, moment: str, value: Any) -> None:
        self._tracer._drive().calls.assign(self._module, self._number, moment, value)

    def __repr__(self) -> str:
        module = self._module
        return f"<module {module if isinstance(module, str) else type(module).__name__} of a trace>"
