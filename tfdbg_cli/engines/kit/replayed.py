"""Runs that were made before their first step, gone through with other values if asked."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar

import numpy as np

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.common.interpreter.program_signals import pass_on
from tfdbg_cli.common.streams import tell, tell_failure
from tfdbg_cli.dumps.dump import Datum
from tfdbg_cli.dumps.elements import split_tensor_name
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.engines.base import CannotStep, Capture, SteppedRun
from tfdbg_cli.engines.kit.fitting import fitted_array, nobody_elses
from tfdbg_cli.engines.kit.stepped import (
    GraphStepper,
    check_overridden,
    names_to_restore,
    no_step_done,
)
from tfdbg_cli.stepping.stepper import Step, StepOutcome

__all__ = ["ReplayStepper", "StepData", "StepReader", "held_datum"]

#: Gives the tensors of a step by its index; by -1 those that were there before the first step.
StepReader: TypeAlias = Callable[[int], Sequence[Datum]]


class StepData:
    """The tensors of one execution, by the steps that made them.

    Args:
        place: says which step has made a tensor: its index, -1 for a tensor that was given, or
            ``None`` for a tensor of no step.
        data: the tensors, in the order in which they were made.
    """

    def __init__(self, place: Callable[[Datum], int | None], data: Iterable[Datum]) -> None:
        self._by_step: dict[int, list[Datum]] = {}
        self._last: dict[str, tuple[int, Datum]] = {}
        for datum in data:
            at = place(datum)
            if at is not None:
                self._add(at, datum)

    def _add(self, index: int, datum: Datum) -> None:
        self._by_step.setdefault(index, []).append(datum)
        self._last[datum.tensor_name] = index, datum

    def take_over(self, other: StepData, steps: Iterable[int]) -> None:
        """Add what another execution gave for steps of which nothing, or not all, is known."""
        for index in steps:
            for datum in other.of(index):
                if datum.tensor_name not in self._last:
                    self._add(index, datum)

    def of(self, index: int) -> Sequence[Datum]:
        """The tensors of a step; of -1: those that were given."""
        return self._by_step.get(index, ())

    @property
    def names(self) -> Iterable[str]:
        """The names of the tensors."""
        return self._last

    def place(self, tensor_name: str) -> int | None:
        """The step that made a tensor; -1: the tensor was given; ``None``: it has no value."""
        found = self._last.get(tensor_name)
        return found[0] if found is not None else None

    def value(self, tensor_name: str) -> Any:
        """The last value of a tensor, which others hold as well; ``None``: there is none."""
        found = self._last.get(tensor_name)
        return found[1].get_tensor() if found is not None else None


class ReplayStepper(GraphStepper):
    """Goes through a run that was made, and through what it would have been with overrides.

    What no override has changed is what the run has given; a step moves the position, and an error
    of the run comes at the step that has raised it. How an override leads to other values is the
    engine's: the engine says what a step has made (`_reader`), whether a tensor has a value and
    which (`_is_there`, `_found`), and what the program gets in the end (`_finished`).

    Args:
        steps: in order.
        readers: tensor -> the indices of the steps that read it; ``None``: as the steps say.

    Attributes:
        _overrides: tensor -> its other value.
        _begun: the time from which the tensors of a dump are counted, in microseconds.
        _apart: how many microseconds the tensors of a dump are apart.
    """

    _begun = 0
    _apart = 1
    _overrides: Mapping[str, Any]

    def __init__(
        self, steps: Sequence[Step], readers: Mapping[str, Sequence[int]] | None = None
    ) -> None:
        super().__init__()
        self._steps = steps
        self._readers = readers if readers is not None else _readers(steps)
        self._capture: Capture | None = None
        self._shown: MemoryDump | None = None

    # Where it is.

    @property
    def steps(self) -> Sequence[Step]:
        return self._steps

    @property
    def is_over(self) -> bool:
        return self._capture is not None

    @property
    @abstractmethod
    def real(self) -> Capture:
        """The run that was made."""

    def readers(self, tensor_name: str) -> Sequence[int]:
        return self._readers.get(tensor_name, ())

    def advance(self, iteration: bool = False) -> StepOutcome:
        del iteration
        self.check_open()
        self.check_not_at_end()
        index = self._position
        self._do(index)
        self._position, self._shown = index + 1, None
        return StepOutcome(self.steps[index], tuple(self._writes(index)))

    @abstractmethod
    def _do(self, index: int) -> None:
        """Get what a step has made; raise what the step raises."""

    def _writes(self, index: int) -> Sequence[str]:
        """The variables that a step has written."""
        return ()

    def back(self) -> Step:
        self.check_open()
        if not self._position:
            raise no_step_done()
        self._position -= 1
        self._shown = None
        self._went_back()
        return self.steps[self._position]

    def _went_back(self) -> None:
        """Forget what came after the position."""

    # Values.

    @property
    def overrides(self) -> Mapping[str, Any]:
        return MappingProxyType(self._overrides)

    @abstractmethod
    def _is_there(self, tensor_name: str) -> bool:
        """Whether a tensor has a value by now besides an override."""

    @abstractmethod
    def _found(self, tensor_name: str) -> Any:
        """The value of a tensor that is there and not overridden, whoever holds the value."""

    def has(self, tensor_name: str) -> bool:
        name = self.resolve(tensor_name)
        return name in self._overrides or self._is_there(name)

    def value(self, tensor_name: str) -> Any:
        """A copy of the value of a tensor; of one inside a loop, that of its last iteration."""
        return nobody_elses(self._get(tensor_name))

    def lent(self, tensor_name: str) -> Any:
        value = self._get(tensor_name)
        return value if isinstance(value, np.ndarray) else None

    def _get(self, tensor_name: str) -> Any:
        name = self.resolve(tensor_name)
        if name in self._overrides:
            return self._overrides[name]
        if not self._is_there(name):
            raise KeyError(tensor_name)
        return self._found(name)

    def override(self, tensor_name: str, value: Any) -> None:
        self.check_open()
        name = self.resolve(tensor_name)
        dtype, shape = self._overridable(name)
        is_symbolic = hasattr(value, "op") and hasattr(value, "value_index")
        array = fitted_array(name, value, dtype, shape, value.name if is_symbolic else "")
        self._override(name, array)
        self._shown = None

    @abstractmethod
    def _overridable(self, tensor_name: str) -> tuple[np.dtype[Any], Sequence[int | None] | None]:
        """The dtype, and the shape as far as it is known, that another value has to have.

        Raises:
            UserError: the tensor can't be overridden.
        """

    @abstractmethod
    def _override(self, tensor_name: str, value: np.ndarray[Any, Any] | None) -> None:
        """Let a tensor have another value from now on; ``None``: the value that was computed."""

    def take_back(self, tensor_name: str) -> None:
        self.check_open()
        name = self.resolve(tensor_name)
        check_overridden(name, self._overrides)
        self._check_takes_back(name)
        self._override(name, None)
        self._shown = None

    def _check_takes_back(self, tensor_name: str) -> None:
        self.check_unread(tensor_name)

    def mendable(self) -> Sequence[str]:
        step = self.next
        names = [*super().mendable(), *(step.outputs if step is not None else ())]
        return [name for name in names if self._mends(name)]

    def _mends(self, tensor_name: str) -> bool:
        """Whether an override of a tensor lets the next step be done."""
        try:
            self._overridable(tensor_name)
        except UserError:
            return False
        return True

    # Variables.

    @property
    def updated(self) -> Sequence[str]:
        """The variables that steps have written and that were not restored since."""
        found: dict[str, None] = {}
        for index in range(self._position):
            found.update((each, None) for each in self._writes(index) if self._stays(each, index))
        return list(found)

    def _stays(self, variable: str, index: int) -> bool:
        """Whether what a step has written to a variable was not restored since."""
        return True

    def restore(self, variables: Sequence[str] = ()) -> Sequence[str]:
        """Give variables the value from before the first step, for all steps to come.

        The program's variable gets it when the run is finished, updates to come included.
        """
        self.check_open()
        names = names_to_restore(variables, self.updated)
        self._restore(names)
        self._shown = None
        return names

    def _restore(self, variables: Sequence[str]) -> None:
        """Restore variables that steps have changed, of which there may be none."""

    # What there is to see.

    @abstractmethod
    def _reader(self) -> StepReader:
        """Tells what the steps have made, as the run is at this moment."""

    def _to_show(self) -> Mapping[str, Any]:
        """The overrides that a dump shows in place of what `_reader` tells, or after it."""
        return dict(self._overrides)

    @property
    def _end(self) -> int:
        """How many steps were done or begun."""
        return self._position

    def dump(self) -> MemoryDump:
        """What was computed so far; overridden tensors that were not computed yet come last."""
        if self._shown is None:
            self._shown = self._make_dump()
        return self._shown

    def _make_dump(self) -> MemoryDump:
        read, steps, overrides = self._reader(), range(-1, self._end), self._to_show()

        def made() -> Iterator[Datum]:
            return _in_order(map(read, steps), overrides, self._begun, self._apart)

        return MemoryDump(self.graph, make=made)

    def made(self, outcome: StepOutcome) -> Sequence[Datum]:
        outputs, overrides = outcome.step.outputs, self._overrides
        shown = {name: overrides[name] for name in outputs if name in overrides}
        return list(_in_order([self._reader()(self._position - 1)], shown))

    # The ends.

    def finish(self) -> Capture:
        if self._capture is None:
            capture = self._finished()
            self._shown = None
            if capture.dump is None:
                capture.dump = self.dump()
            self._capture = capture
        return self._capture

    @abstractmethod
    def _finished(self) -> Capture:
        """Do the rest of the run: what the program gets, and the position where the run ends.

        The dump is made from that position if the capture has none.
        """

    def discard(self) -> Capture | None:
        """The run as it is without overrides.

        Variables are as that has left them; where they were withheld, as before the run.
        """
        self._forget()
        self._capture = self._shown = None
        return self.finish()

    def _forget(self) -> None:
        """Let the run be the one that was made."""

    def again(self) -> SteppedRun | None:
        """The same record from its beginning."""
        self._capture = self._shown = None
        self._position = 0
        return self

    def stop(self) -> None:
        """End the run where it is: variables are as the steps that were done have left them."""
        self.check_open()
        self._stop_here()
        self._capture = Capture(None, self.dump())

    def _stop_here(self) -> None:
        """Let the variables be as the steps that were done have left them."""


T = TypeVar("T")


class PromptedRun:
    """A run of the program that a person steps through, within its call.

    Args:
        watcher: of the run; its ``stepped`` becomes the dump of what was stepped through.
        conduct: steps through the run for as long as it likes.
    """

    def __init__(self, watcher: Any, conduct: Callable[[SteppedRun], None]) -> None:
        self._watcher, self._conduct = watcher, conduct
        self._is_done = False

    def conducted(self, make: Callable[[], ReplayStepper]) -> Capture | None:
        """Let the person go through the run before the program gets what the run has given.

        Args:
            make: makes its stepper.

        Returns:
            What the program is to get; ``None``: what the run that was made has given.
        """
        self._is_done = True
        stepper = self._made(make)
        if stepper is None:
            return None
        self._conduct(stepper)
        capture = self._made(stepper.finish)
        if capture is not None:
            self._watcher.stepped = capture.dump
            if stepper.overrides and capture.dump is not None:
                names = ", ".join(stepper.overrides)
                capture.dump.warnings.append(f"Overridden in the stepper: {names}.")
        return capture

    def _made(self, make: Callable[[], T]) -> T | None:
        try:
            return make()
        except CannotStep as refusal:
            tell(f"{refusal} It was a debugged run.")
        except Exception as failure:  # ours
            pass_on(failure)
            tell_failure(failure)
        return None

    def end(self, error: BaseException | None) -> None:
        """The run is at its end."""


def _readers(steps: Sequence[Step]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for index, step in enumerate(steps):
        for name in dict.fromkeys(step.inputs):
            found.setdefault(name, []).append(index)
    return found


def _in_order(
    groups: Iterable[Sequence[Datum]], overrides: Mapping[str, Any], now: int = 0, apart: int = 1
) -> Iterator[Datum]:
    """Tensors with times of their own; those overridden that are not among them come last.

    Args:
        groups: the tensors of each step.
        overrides: tensor name -> value.
        now: when the run has begun.
        apart: how many microseconds the tensors are apart.
    """
    shown = set()
    for group in groups:
        for datum in group:
            now += apart
            name = datum.tensor_name
            shown.add(name)
            if name in overrides:
                yield held_datum(name, overrides[name], now)
            else:
                found = copy.copy(datum)
                found.timestamp = now
                yield found
    for name, value in overrides.items():
        if name not in shown:
            now += apart
            yield held_datum(name, value, now)


def held_datum(tensor_name: str, value: Any, timestamp: int = 0) -> Datum:
    """A tensor of a dump whose value is held in memory."""
    return Datum(*split_tensor_name(tensor_name), lambda: value, timestamp=timestamp)
