"""How somebody moves through a run: so many steps, up to a node, to a breakpoint, and back."""

from __future__ import annotations

import contextlib
import itertools
import signal
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from tfdbg_cli.common.arrays import np
from tfdbg_cli.common.errors import UserError, did_you_mean
from tfdbg_cli.dumps.elements import node_name_of, parse_execution, parse_tensor_name
from tfdbg_cli.stepping.breakpoints import Breakpoints
from tfdbg_cli.stepping.stepper import Step, StepOutcome, Stepper

__all__ = ["LEGEND", "Halt", "Walk"]


@dataclass
class Halt:
    """Where and why a move has ended.

    Attributes:
        why: in a sentence; empty: it has done just what it was asked for.
        outcomes: what was done on the way.
        error: what the next step has raised.
    """

    why: str = ""
    outcomes: list[StepOutcome] = field(default_factory=list)
    error: Exception | None = None

    @property
    def updated(self) -> list[str]:
        """The variables that were changed on the way."""
        return list(dict.fromkeys(name for each in self.outcomes for name in each.updated))


class Walk:
    """Moves a stepper, and remembers what a person wants to know of the way.

    Args:
        stepper: the run.
    """

    def __init__(self, stepper: Stepper) -> None:
        self.stepper = stepper
        self.breakpoints = Breakpoints()
        #: Nodes that somebody asked to get to; the others were done on the way.
        self.asked: set[str] = set()
        #: Tensors that are to be filled with a number as soon as they are computed.
        self.fills: dict[str, Any] = {}
        #: Whether somebody was told how to move.
        self.is_known = False
        self._iterations = 0  # of the loop that is the next step, as far as they are done

    # Where it is.

    @property
    def next(self) -> Step | None:
        """The next step; ``None`` at the end."""
        return self.stepper.next

    @property
    def iterations(self) -> int:
        """How many iterations of the next step, a loop, are done."""
        return self._iterations

    def names(self) -> list[str]:
        """Every name that a step goes by, in order."""
        return [name for step in self.stepper.steps for name in (step.members or (step.node,))]

    def index(self, name: str) -> int | None:
        """The index of the step that does a node or makes a tensor; ``None``: not known (yet).

        Args:
            name: of a node, of a tensor, or of one of a tensor's values.
        """
        name = self.stepper.resolve(parse_execution(name)[0])
        node, slot = parse_tensor_name(name)
        for index, step in enumerate(self.stepper.steps):
            if name == step.node or name in step.members or name in step.outputs:
                return index
            # Of what an operation makes not every step knows; of a loop, only what leaves it.
            if slot is not None and (
                (node == step.node and not step.outputs)
                or (node != step.node and node in step.members)
            ):
                return index
        return None

    def find(self, name: str) -> int | None:
        """As `index`, for a name that must be there unless the run's future is open.

        Raises:
            UserError: there is none.
        """
        found = self.index(name)
        if found is None and (not self.stepper.is_open_ended or self.next is None):
            raise UserError(
                f'"{name}" is not in this run.',
                did_you_mean(name, self.names()) or "list_sorted_nodes lists its nodes.",
            )
        return found

    # Moving.

    def step(self, count: int = 1, iteration: bool = False) -> Halt:
        """Do the next steps.

        Args:
            count: how many.
            iteration: of a loop do one iteration at a time.

        Raises:
            UserError: the run is at its end.
        """
        if self.next is None:
            raise UserError("The run is at its end.", "exit shows it; step -b goes back.")
        halt = Halt()
        with _interrupts() as is_interrupted:
            for done in range(count):
                step = self.next
                if step is None:
                    halt.why = _END
                elif done:
                    halt.why = _INTERRUPTED if is_interrupted() else self._reason(step)
                if halt.why:
                    break
                if not self._advance(halt, iteration):
                    break
        self._asked_for(halt)
        return halt

    def go(self, target: str = "", before: bool = False) -> Halt:
        """Go on to a node or tensor, to a breakpoint, or to the end.

        Args:
            target: of a node or tensor; empty: the end.
            before: stop before it and not behind it.

        Raises:
            UserError: there is no such name, or its step is done.
        """
        place = self.find(target) if target else None
        if place is not None and place < self.stepper.position:
            count = self.stepper.position - place
            raise UserError(f'"{target}" is done.', f"step -b -t {count} goes back to it.")
        if self.next is None:
            raise UserError("The run is at its end.", "exit shows it; step -b goes back.")
        halt = Halt()
        with _interrupts() as is_interrupted:
            while (step := self.next) is not None:
                is_there = bool(target) and self._is_at(target, place)
                if is_there and before:
                    break
                if halt.outcomes:
                    halt.why = self._reason(step)
                    if is_interrupted():
                        halt.why = _INTERRUPTED
                    if halt.why:
                        break
                if not self._advance(halt) or is_there:
                    break
            else:
                if target:
                    halt.why = (
                        f'{_END} There was no "{target}". {did_you_mean(target, self.names())}'
                    )
                    halt.why = halt.why.rstrip()
                else:
                    halt.why = _END
        self._asked_for(halt)
        return halt

    def _is_at(self, target: str, place: int | None) -> bool:
        """Whether the next step is the one that somebody wants to go to.

        Of a run whose future is open nobody knows the names: there an op type and the last part of
        a name will do, so that one that is not quite right doesn't mean the end of the run.
        """
        if place is not None:
            return place == self.stepper.position
        step = self.next
        node = node_name_of(target)
        return step is not None and node in (
            *(step.members or (step.node,)),
            step.node.rpartition("/")[2],
            step.op_type,
        )

    def _reason(self, step: Step) -> str:
        """Why to stop before a step; empty: no reason."""
        found = self.breakpoints.at(step)
        if found is not None:
            return f"Breakpoint {found.number}: {found.describe()}"
        caught = self.breakpoints.caught(step)
        if caught is not None:
            found, tensor = caught
            return (
                f"Breakpoint {found.number}: {tensor} passes {found.filter_name}, "
                f"and {step.node} is about to read it"
            )
        return ""

    def _advance(self, halt: Halt, iteration: bool = False) -> bool:
        """One step; whether it was done."""
        try:
            outcome = self.stepper.advance(iteration and self.stepper.can_iterate)
        except UserError as error:
            if self.stepper.overrides and not error.hint:
                error.hint = "restore takes an override back."
            raise
        except Exception as error:
            halt.error = error
            return False
        halt.outcomes.append(outcome)
        self._fill(outcome)
        self._iterations = self._iterations + 1 if outcome.is_partial else 0
        if self.breakpoints.has_filters:
            self.breakpoints.look(self.stepper.made(outcome), self.stepper.dump)
        return True

    def _fill(self, outcome: StepOutcome) -> None:
        """Override what was made and is to be full of a number."""
        for name in outcome.step.outputs if self.fills and not outcome.is_partial else ():
            if name in self.fills and self.stepper.has(name):
                shape = np.shape(self.stepper.value(name))
                self.stepper.override(name, np.full(shape, self.fills.pop(name)))

    def _asked_for(self, halt: Halt) -> None:
        if halt.outcomes:
            self.asked.add(halt.outcomes[-1].step.node)

    def back(self, count: int = 1) -> list[Step]:
        """Undo steps; returns those undone, the last one first.

        Raises:
            UserError: not even one can be undone.
        """
        undone: list[Step] = []
        try:
            while len(undone) < count:
                undone.append(self._undo())
        except UserError:
            if not undone:
                raise
        return undone

    def rewind(self, index: int) -> list[Step]:
        """Undo a step and all after it; returns those undone, the last one first.

        Raises:
            UserError: one of them can't be undone; those after it are.
        """
        undone: list[Step] = []
        while self.stepper.position > index or (
            self.stepper.position == index and self._iterations
        ):
            undone.append(self._undo())
        return undone

    def _undo(self) -> Step:
        step = self.stepper.back()
        self._iterations = max(self._iterations - 1, 0)
        self.breakpoints.forget()
        self.asked.discard(step.node)
        return step

    def watch(self) -> None:
        """A filter was added: it looks at what has been computed so far, too."""
        self.breakpoints.look(self.stepper.dump().data(), self.stepper.dump)

    # Values.

    def readers(self, tensor_name: str) -> list[int]:
        """The steps done or begun that have read a tensor, by index.

        One of several values is read by the step that it is inside of.
        """
        if parse_execution(tensor_name)[1] is not None:
            place = self.index(tensor_name)
            return [place] if place is not None and place < self.stepper.position else []
        done = self.stepper.steps[: self.stepper.position + bool(self._iterations)]
        return [at for at, step in enumerate(done) if tensor_name in step.inputs]

    def override(self, tensor_name: str, value: Any) -> list[Step]:
        """Override a tensor; goes back to before the first step that has read it.

        Returns:
            The steps that were undone for it, the last one first.

        Raises:
            UserError: it can't be overridden, or not any more.
        """
        if self.index(tensor_name) is None and not self.stepper.has(tensor_name):
            self.find(tensor_name)
        undone: list[Step] = []
        readers = self.readers(tensor_name)
        place, iterations, asked = self.stepper.position, self._iterations, set(self.asked)
        if readers and not self.stepper.is_open_ended:
            undone = self.rewind(readers[0])
        try:
            self.stepper.override(tensor_name, value)
        except UserError:
            # As if nothing had been asked.
            while undone and self.stepper.position < place:
                self.stepper.advance()
            while undone and self._iterations < iterations:
                self._iterations += self.stepper.advance(iteration=True).is_partial
            self.asked = asked
            raise
        self.fills.pop(tensor_name, None)
        return undone

    def letters(self, index: int) -> str:
        """The state of a step as the original's letters: P U H I O D; see `LEGEND`."""
        step = self.stepper.steps[index]
        overrides = self.stepper.overrides
        found = "P" if step.is_feed else ""
        found += "U" if step.unfit else ""
        if index < self.stepper.position and not step.is_feed:
            found += "H" if step.node in self.asked else "I"
        inside = (node_name_of(parse_execution(name)[0]) for name in overrides)
        is_changed = any(name in overrides or name in self.fills for name in step.outputs)
        # A node's name is among its members; its other outputs aren't inside of it.
        is_changed = is_changed or any(n != step.node and n in step.members for n in inside)
        found += "O" if is_changed else ""
        found += "D" if step.node in self.stepper.updated else ""
        return found

    def sources(self, outcome: StepOutcome) -> list[tuple[str, str]]:
        """What a step has read, each with where it came from; see `source`."""
        return [(name, self.source(name)) for name in dict.fromkeys(outcome.step.inputs)]

    def _is_given(self, tensor_name: str) -> bool:
        """Whether a tensor was there before the first step, and no step stands for it."""
        if self.stepper.is_open_ended or self.index(tensor_name) is not None:
            return False
        return self.stepper.has(tensor_name)

    def source(self, tensor_name: str) -> str:
        """Where the value of a tensor comes from, in the original's words."""
        if tensor_name in self.stepper.overrides:
            return "override"
        feeds = itertools.takewhile(lambda step: step.is_feed, self.stepper.steps)  # come first
        if any(tensor_name in step.outputs for step in feeds) or self._is_given(tensor_name):
            return "client"
        is_asked = node_name_of(tensor_name) in self.asked
        return "handle" if is_asked else "dumped_intermediate"


#: The state letters and what they mean.
LEGEND: Sequence[tuple[str, str]] = (
    ("P", "placeholder"),
    ("U", "unfeedable"),
    ("H", "gone to"),
    ("I", "on the way"),
    ("O", "overridden"),
    ("D", "updated"),
)

_END = "The run is at its end."
_INTERRUPTED = "Interrupted."


@contextlib.contextmanager
def _interrupts() -> Iterator[Any]:
    """Inside, a Ctrl-C ends the move after its step, and raises nothing in the program.

    A second one does what it would do anyway.
    """
    seen: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = signal.getsignal(signal.SIGINT)
    if before is None:  # not Python's: it couldn't be put back
        yield lambda: False
        return

    def note(number: int, frame: FrameType | None) -> None:
        seen.append(number)
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(seen)
    finally:
        signal.signal(signal.SIGINT, before)
