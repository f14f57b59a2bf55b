"""What the steppers of all engines keep and refuse alike."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Sequence

from tfdbg_cli.common.errors import UserError, did_you_mean
from tfdbg_cli.engines.base import SteppedRun

__all__ = ["GraphStepper", "at_its_end", "check_overridden", "names_to_restore", "no_step_done"]


def at_its_end() -> UserError:
    """There is no step to do."""
    return UserError("The run is at its end.")


def no_step_done() -> UserError:
    """There is no step to undo."""
    return UserError("No step was done yet.")


def check_overridden(name: str, overrides: Collection[str]) -> None:
    """Refuse to take an override back that there isn't.

    Raises:
        UserError: there isn't.
    """
    if name not in overrides:
        raise UserError(f"{name} is not overridden.", did_you_mean(name, overrides))


def names_to_restore(variables: Iterable[str], changed: Collection[str]) -> list[str]:
    """The variables that are to be restored, by the names of their nodes.

    Args:
        variables: those asked for, as nodes or as tensors; none: all that were changed.
        changed: those that steps have changed.

    Raises:
        UserError: no step has changed one of them.
    """
    names = [name.removesuffix(":0") for name in variables] or list(changed)
    for name in names:
        if name not in changed:
            raise UserError(f"No step has changed a variable {name}.", did_you_mean(name, changed))
    return names


class GraphStepper(SteppedRun):
    """A run of a graph: all its steps are known before the first is done."""

    def __init__(self) -> None:
        self._position = 0

    @property
    def position(self) -> int:
        return self._position

    @property
    @abstractmethod
    def is_over(self) -> bool:
        """Whether the run was finished, discarded or stopped."""

    @abstractmethod
    def readers(self, tensor_name: str) -> Sequence[int]:
        """The indices of the steps that read a tensor."""

    def has_read(self, index: int) -> bool:
        """Whether a step has seen its inputs by now."""
        return index < self._position

    def check_open(self) -> None:
        """Refuse what can't be done any more.

        Raises:
            UserError: the run is over.
        """
        if self.is_over:
            raise UserError("This run is over.")

    def check_not_at_end(self) -> None:
        """Refuse to go on where there is nothing to do.

        Raises:
            UserError: all steps were done.
        """
        if self._position >= len(self.steps):
            raise at_its_end()

    def check_known(self, tensor_name: str, tensors: Collection[str]) -> None:
        """Refuse to override what isn't there.

        Raises:
            UserError: the run has no such tensor.
        """
        if tensor_name not in tensors:
            raise UserError(
                f"There is no tensor {tensor_name} in this run.",
                did_you_mean(tensor_name, tensors),
            )

    def check_unread(self, tensor_name: str) -> None:
        """Refuse to override what has been used.

        Raises:
            UserError: a step has read the tensor.
        """
        for reader in self.readers(tensor_name):
            if self.has_read(reader):
                raise UserError(
                    f"{self.steps[reader].node} has used {tensor_name} already.",
                    "`step -b` goes back.",
                )

    def check_inside(self, tensor_name: str, index: int) -> None:
        """Refuse to override what is inside of a step.

        Args:
            tensor_name: what is to be overridden.
            index: of the step that makes it.

        Raises:
            UserError: no override of the step's outputs can be meant.
        """
        step = self.steps[index]
        if step.unfit:
            raise UserError(step.unfit)
        if tensor_name not in step.outputs:
            comes_out = f", or its outputs: {', '.join(step.outputs)}" if step.outputs else ""
            raise UserError(
                f"{tensor_name} is inside {step.node}, which is one step: an override can't say "
                "which of its values it means.",
                f"Override its inputs{comes_out}.",
            )

    def not_taken(self, tensor_name: str) -> UserError:
        """A tensor of the side of a branch that wasn't taken is to be overridden."""
        return UserError(f"{tensor_name} has no value in this run: its branch was not taken.")
