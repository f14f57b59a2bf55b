"""A run that is done step by step, as an engine offers it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from tfdbg_cli.common.arrays import np
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.engines.base.runs import Capture
from tfdbg_cli.stepping.calls import ModuleCalls, Spot
from tfdbg_cli.stepping.stepper import Stepper

__all__ = ["CannotStep", "HasGradients", "OpenEndedRun", "SteppedRun", "no_modules"]


class CannotStep(UserError, NotImplementedError):
    """This run can't be done step by step, though others of its engine can.

    Programs that use the stepper as an API know it as a `NotImplementedError`.
    """


class SteppedRun(Stepper):
    """A run that an engine does step by step, and its two ends."""

    @property
    def real(self) -> Capture | None:
        """The run as it is without overrides, where it was made before the first step."""
        return None

    @abstractmethod
    def finish(self) -> Capture:
        """Do the rest of the run, overrides included.

        Returns:
            What the caller of the run gets, with the dump of the whole run. An error of the run
            itself is in `Capture.error`.
        """

    @abstractmethod
    def discard(self) -> Capture | None:
        """Give the run up as if it had never begun: state and random streams as before it.

        Returns:
            ``None``: the run can be made anew. Where that is not so, the run as it is without
            overrides: whoever asked for the run gets this instead of another one.

        Raises:
            UserError: what was done can't be taken back; the message says why, and nothing has
                changed.
        """

    def withhold(self) -> None:
        """Let the program's variables be what they were before the run, until it is finished.

        For an engine that makes the run before the first step. Where nothing else is said they
        are as that has left them.
        """

    def again(self) -> SteppedRun | None:
        """After a `discard` that has given a capture: the run from its beginning, once more.

        Returns:
            ``None``: it can't be gone through again.
        """
        return None

    def variable(self, name: str) -> Any:
        """The value of a variable as the steps that were done have left it; ``None``: it has none.

        Args:
            name: of the variable's node.
        """
        return self.value(f"{name}:0") if self.has(f"{name}:0") else None

    def stop(self) -> None:
        """End the run where it is: what was done stays, nothing more is computed or updated.

        Raises:
            UserError: this run can't be ended here; nothing has changed.
        """

    def mark(self, value: Any, like: Any = None) -> Any:
        """What tells later whether a value that was given out was written to.

        Args:
            value: what `Stepper.value` or `gradient` has given.
            like: what `lent` has given of it, which saves a copy: the mark is good for as long as
                that is.

        Returns:
            ``None``: it can't be written to.
        """
        if not (isinstance(value, np.ndarray) and value.flags.writeable):
            return None
        return value.copy() if like is None else like

    def lent(self, tensor_name: str) -> Any:
        """What `Stepper.value` makes a copy of: the same elements until the run goes on.

        Returns:
            ``None``: it isn't at hand.
        """
        return None

    def is_written(self, value: Any, mark: Any) -> bool:
        """Whether a value was written to since `mark` was made of it."""
        if (value.shape, value.dtype) != (mark.shape, mark.dtype):
            return True
        if value.dtype.hasobject:
            return any(one is not other for one, other in zip(value.flat, mark.flat, strict=True))
        return bool(value.tobytes() != mark.tobytes())


class OpenEndedRun(SteppedRun):
    """A run of a program that drives itself: its steps aren't known before they come."""

    is_open_ended = True

    @abstractmethod
    def look(self) -> None:
        """To be called by the program itself: something is done."""

    @abstractmethod
    def before_each(self, look: Callable[[], None]) -> None:
        """Call something before each op."""

    @abstractmethod
    def is_blind_to(self, tensor_name: str) -> bool:
        """Whether something may have been done with a tensor that nobody has watched."""

    @property
    @abstractmethod
    def modules(self) -> ModuleCalls:
        """The calls of modules that it makes.

        Raises:
            UserError: there are no modules.
        """

    @abstractmethod
    def reach_call(self, spot: Spot) -> bool:
        """Go on until a moment of a module's call is at hand; whether it is."""

    @abstractmethod
    def name_tensor(self, tensor: Any) -> str:
        """A name, of any kind, for a tensor of the run that is no part of a graph.

        Raises:
            KeyError: it isn't known.
        """

    @property
    @abstractmethod
    def unused_gradients(self) -> Sequence[str]:
        """Tensors whose gradient was set and never came."""


@runtime_checkable
class HasGradients(Protocol):
    """A stepped run whose gradients aren't tensors of the graph."""

    def gradient(self, tensor_name: str) -> Any:
        """The gradient with respect to a tensor.

        Raises:
            KeyError: it is not computed yet.
            UserError: the tensor has none.
        """

    def set_gradient(self, tensor_name: str, value: Any) -> None:
        """Let the rest of the backward pass have another gradient with respect to a tensor.

        Raises:
            KeyError: there is no such tensor yet.
            UserError: it has none, or can't have this one, or it has been used.
        """

    def has_gradient(self, tensor_name: str, *, is_to_set: bool = False) -> bool:
        """Whether `gradient` has an answer by now, be it an error; or `set_gradient`."""
        ...

    def is_gradient_open(self, tensor_name: str) -> bool:
        """Whether a gradient that is computed can still be set."""
        ...


def no_modules(engine_name: str) -> UserError:
    """A run that calls no modules is asked for one."""
    return UserError(
        f"Runs of the {engine_name} engine have no modules.",
        "Their tensors go by the names of the graph.",
    )
