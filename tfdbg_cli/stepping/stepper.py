"""What can be asked of a run that goes on step by step, whatever the engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tfdbg_cli.common.arrays import Array, np
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.common.interpreter.program_signals import contained
from tfdbg_cli.dumps.dump import Datum
from tfdbg_cli.dumps.graph import Graph
from tfdbg_cli.dumps.memory import MemoryDump

__all__ = ["Step", "StepOutcome", "Stepper"]


class Step(NamedTuple):
    """What is done at a time: one node, or a loop or a function's body as a whole.

    Attributes:
        node: its name; of a loop, the name under which the user knows it.
        op_type: of the node.
        inputs: the tensors it reads, as ``node:slot``.
        outputs: the tensors it makes; of a loop, those that leave it.
        members: every node that is done with it, itself included.
        is_feed: the caller gives its value; nothing is computed.
        unfit: why its outputs can't be overridden; empty: they can.
    """

    node: str
    op_type: str
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    members: tuple[str, ...] = ()
    is_feed: bool = False
    unfit: str = ""


class StepOutcome(NamedTuple):
    """What came of one step.

    Attributes:
        step: what was done.
        updated: the names of the variables that it has changed.
        is_partial: only an iteration of the loop was done; the step itself is still the next one.
    """

    step: Step
    updated: tuple[str, ...] = ()
    is_partial: bool = False


class Stepper(ABC):
    """A run that is done step by step.

    Whatever is asked, a stateful op is executed once, and where nothing is overridden the result
    is that of the plain run, bit for bit.

    Attributes:
        engine_name: of the engine.
        is_open_ended: the steps to come aren't known before the program gets to them.
        can_iterate: `advance` can do a single iteration of a loop.
        numbers_values: of a tensor inside of a step each value can be overridden, computed or not;
            its name is ``node:slot (#17)`` then.
        caveats: what can't be stepped, overridden or undone in this run, a sentence each; known
            before the first step.
    """

    engine_name: str = ""
    is_open_ended: bool = False
    can_iterate: bool = False
    numbers_values: bool = False
    caveats: Sequence[str] = ()

    @property
    @abstractmethod
    def steps(self) -> Sequence[Step]:
        """In the order in which they are done. Open-ended: those done, and the next one."""

    @property
    @abstractmethod
    def position(self) -> int:
        """The index of the next step; the number of steps at the end."""

    @property
    def next(self) -> Step | None:
        """The next step; ``None`` at the end of the run."""
        steps = self.steps
        return steps[self.position] if self.position < len(steps) else None

    @abstractmethod
    def advance(self, iteration: bool = False) -> StepOutcome:
        """Do the next step.

        Args:
            iteration: of a loop do one iteration, where `can_iterate`.

        Raises:
            UserError: the run is at its end.
            Exception: what the framework raises. The step is not done then: it is still the next
                one, and may be tried again with another value of its input.
        """

    @property
    def done(self) -> Sequence[Step]:
        """The steps that were done. Asking for them doesn't let a program begin."""
        return self.steps[: self.position]

    def is_made(self, tensor_name: str) -> bool:
        """Whether there is a tensor of this name by now; may be cheaper than `has`."""
        return self.has(tensor_name)

    def go_on(self, is_there: Callable[[], bool] | None) -> bool:
        """Go on until something is so, at most to the end of the run.

        Args:
            is_there: whether it is; called after each step, maybe while the step's own surroundings
                (modes, devices) are in effect. ``None``: to the end.

        Returns:
            Whether it is.

        Raises:
            Exception: as `advance`.
        """
        while is_there is None or not is_there():
            if self.next is None:
                return False
            self.advance()
        return True

    def reach(self, tensor_name: str) -> bool:
        """Go on until there is a tensor of this name, at most to the end; whether there is."""
        return self.go_on(lambda: self.is_made(tensor_name))

    @abstractmethod
    def back(self) -> Step:
        """Undo the last step: variables and random streams are as before it.

        Overrides stay. The step is the next one then.

        Raises:
            UserError: there is none, or it can't be undone; the message says why.
        """

    def resolve(self, name: str) -> str:
        """The name in the run of what a user asks for, where it is known and slightly another.

        `has`, `value`, `original`, `override` and `take_back` understand either.

        Args:
            name: of a node, or of a tensor.
        """
        return name

    @abstractmethod
    def has(self, tensor_name: str) -> bool:
        """Whether a tensor is known: computed by a step that was done, fed, or overridden."""

    @abstractmethod
    def value(self, tensor_name: str) -> Any:
        """The value of a tensor now, as the framework's users hold it (ndarray, torch.Tensor).

        What is returned is nobody else's: the program can't change it, nor does writing to it
        change the run.

        Raises:
            KeyError: there is none (see `has`).
        """

    def as_array(self, value: Any) -> Array | None:
        """What `value` or `original` has given as an array; ``None`` where it can't be one."""
        if value is None:
            return None
        with contained:  # of whatever made the value
            return np.asarray(value)
        return None

    @abstractmethod
    def override(self, tensor_name: str, value: Any) -> None:
        """Let a tensor have another value for every step from now on.

        A tensor that is not computed yet gets the value as soon as its node has been done (a
        stateful node is executed all the same).

        Args:
            tensor_name: ``node:slot``.
            value: anything that becomes an array of the tensor's dtype.

        Raises:
            UserError: the tensor can't be overridden, or not with this value (its dtype or shape);
                or a step that was done has used it and it can't be undone.
        """

    def shape(self, tensor_name: str) -> tuple[int, ...] | None:
        """The shape of a tensor, where it is known before there is a value."""
        return None

    def mendable(self) -> Sequence[str]:
        """Of the next step, which has failed: the tensors whose overrides let it be done.

        Those that it reads; where that will do, also what it makes.
        """
        step = self.next
        if step is None:
            return ()
        unfit = {name for each in self.steps if each.unfit for name in each.outputs}
        return [name for name in dict.fromkeys(step.inputs) if name not in unfit]

    @abstractmethod
    def take_back(self, tensor_name: str) -> None:
        """Remove an override: steps from now on see the value that the node has computed.

        Raises:
            UserError: there is no such override.
        """

    @property
    @abstractmethod
    def overrides(self) -> Mapping[str, Any]:
        """The overridden tensors and their values."""

    def original(self, tensor_name: str) -> Any | None:
        """What a tensor would be if nothing were overridden; ``None``: not known."""
        return None

    @property
    def updated(self) -> Sequence[str]:
        """The variables that steps have changed so far, by name."""
        return ()

    def restore(self, variables: Sequence[str] = ()) -> Sequence[str]:
        """Give variables the value that they had before the first step.

        Args:
            variables: their names; empty: all that were changed.

        Returns:
            The names of those restored.

        Raises:
            UserError: one can't be restored.
        """
        raise UserError("The variables of this run can't be restored.")

    @abstractmethod
    def graph(self) -> Graph | None:
        """The graph as far as it is known."""

    def made(self, outcome: StepOutcome) -> Sequence[Datum]:
        """The tensors that the last step has made, those inside a loop included.

        Args:
            outcome: of that step.
        """
        dump = self.dump()
        names = outcome.step.members or (outcome.step.node,)
        return [datum for name in names for datum in dump.by_node(name)]

    @abstractmethod
    def dump(self) -> MemoryDump:
        """What has been computed so far, overrides included. Cheap; reads no values.

        It may be the same object each time, grown or shrunk.
        """
