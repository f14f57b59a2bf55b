"""The calls of modules that a block reads and changes."""

from __future__ import annotations

import weakref
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tfdbg_cli.common.errors import UserError, did_you_mean
from tfdbg_cli.stepping.calls import INPUT, ModuleCalls, Spot
from tfdbg_cli.tracing.errors import AbsentError, OutOfOrderError, TraceError, user_line

if TYPE_CHECKING:
    from tfdbg_cli.tracing.drive import Drive

__all__ = ["Calls"]

_KEEP = "Ask in this order, or keep every value: trace(..., keep=True)."


class Calls:
    """Drives a run to calls of modules.

    Args:
        drive: of the run.
        from_inside: the block is the run's own code: a module's last call is meant, and by an
            assignment its next one.
    """

    def __init__(self, drive: Drive, *, from_inside: bool) -> None:
        self._drive: Drive = weakref.proxy(drive)
        self._from_inside = from_inside
        self._read: dict[Spot, Any] = {}
        self._assigned: dict[Spot, TracebackType | None] = {}

    def read(self, module: Any, number: int | None, moment: str) -> Any:
        """The result or the arguments of a call; the run goes on until it is there.

        Raises:
            OutOfOrderError: the run has passed it.
            TraceError: it isn't called, or not as often; or the run is over.
            Exception: what the run itself raises on the way.
        """
        drive = self._drive
        modules = drive.program().modules
        spot = _found(modules, module, number, moment)
        if self._from_inside:
            if number is None and not spot.number:
                spot = spot._replace(number=max(modules.count(spot) - 1, 0))
            if not modules.is_at_hand(spot):
                raise OutOfOrderError(
                    f"There is no {spot.label.removeprefix('the ')} up to here.",
                    "Every statement of this block is part of the run: read it after the call.",
                )
            return modules.get(spot)
        if spot in self._read:
            return self._read[spot]
        drive.settle()
        if not modules.is_at_hand(spot):
            if drive.is_over:
                raise drive.over(f"{spot.label} was not read before")
            if modules.count(spot) > spot.number:
                raise self._passed(spot)
            if not drive.program().reach_call(spot):
                drive.end()
                raise self._absent(spot)
        value = self._read[spot] = modules.get(spot)
        return value

    def assign(self, module: Any, number: int | None, moment: str, value: Any) -> None:
        """Let the program go on with another result of a call, or call it with something else.

        Raises:
            OutOfOrderError: the run has passed it.
            TraceError: there is no such module, or the run is over.
            UserError: it doesn't fit.
        """
        drive = self._drive
        modules = drive.program().modules
        spot = _found(modules, module, number, moment)
        if drive.is_over:
            raise drive.over(f"{spot.label} can't be changed any more")
        drive.settle()
        count = modules.count(spot)
        if self._from_inside and number is None and not spot.number:
            spot = spot._replace(number=count)
        elif count > spot.number and (self._from_inside or not modules.is_open(spot)):
            raise self._passed(spot, "can't be changed any more")
        modules.put(spot, value)
        self._read.pop(spot, None)
        self._assigned[spot] = user_line()

    def missed(self) -> TraceError | None:
        """The error for a call that was to be changed and never came."""
        for spot in self._drive.program().modules.missed if self._assigned else ():
            return self._absent(spot).with_traceback(self._assigned.get(spot))
        return None

    def _passed(self, spot: Spot, what: str = "was passed") -> OutOfOrderError:
        order = "A module has its input before its output. " if spot.moment == INPUT else ""
        label = spot.label[0].upper() + spot.label[1:]
        return OutOfOrderError(f"{label} {what}: the run has gone on.", f"{order}{_KEEP}")

    def _absent(self, spot: Spot) -> AbsentError:
        modules = self._drive.program().modules
        name, count = spot.path or "the model", modules.count(spot)
        if count:
            times = "once" if count == 1 else f"{count} times"
            return AbsentError(
                f"The run has called {name} {times}: there is no call {spot.number}."
            )
        hint = did_you_mean(spot.path, modules.paths) if spot.module is None else ""
        return AbsentError(f"The run has not called {name}. {hint}".rstrip(), is_elsewhere=True)


def _found(modules: ModuleCalls, module: Any, number: int | None, moment: str) -> Spot:
    try:
        return modules.find(module, number, moment)
    except UserError as error:
        raise TraceError(error.message, error.hint) from None
