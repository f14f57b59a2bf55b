"""What a command sees besides its arguments."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from tfdbg_cli.commands.series.loss_line import loss_lines
from tfdbg_cli.commands.shell.history import History
from tfdbg_cli.common.documents import Line, line
from tfdbg_cli.common.errors import UserError, compile_regex
from tfdbg_cli.common.settings import Settings
from tfdbg_cli.dumps.dump import Datum, Dump, NewValues, RunError, RunInfo
from tfdbg_cli.dumps.elements import parse_tensor_name
from tfdbg_cli.dumps.graph import Graph
from tfdbg_cli.dumps.series.tracks import Tracks
from tfdbg_cli.filters.registry import FilterRegistry
from tfdbg_cli.stepping.walk import Walk

if TYPE_CHECKING:
    from tfdbg_cli.commands.registry import CommandRegistry

__all__ = [
    "ALL_MODES",
    "DUMP_MODES",
    "LIVE_MODES",
    "LOOK_MODES",
    "PROFILE_MODES",
    "STEPPER_MODES",
    "TENSOR_MODES",
    "Context",
    "Place",
    "compile_regex",
    "need_graph",
]

#: The stops of a living program: before a run, after it, after a run that was timed (``run -p``).
LIVE_MODES = frozenset({"run-start", "run-end", "profile"})
#: The stops in the middle of a run that is done step by step.
STEPPER_MODES = frozenset({"stepper"})
#: The stops that nothing but looking can be done at: in the middle of a run, after the program.
LOOK_MODES = frozenset({"here", "post-mortem"})
#: The stops with tensors to look at.
TENSOR_MODES = frozenset({"run-end", "offline"}) | STEPPER_MODES | LOOK_MODES
#: The stops with op timings to look at.
PROFILE_MODES = frozenset({"profile", "offline-profile"})
#: The stops with a dump: graph and sources are known.
DUMP_MODES = TENSOR_MODES | PROFILE_MODES
#: The kinds of stops.
ALL_MODES = LIVE_MODES | DUMP_MODES


class Place(NamedTuple):
    """Where somebody looks: a tensor or a node; the number of one of several dumps."""

    name: str = ""
    number: int | None = None


@dataclass
class Context:
    """One stop, as its commands see it.

    Attributes:
        mode: one of `ALL_MODES`: ``run-start``, ``run-end``, ``profile``, ``stepper``,
            ``here``, ``post-mortem``, ``offline`` or ``offline-profile``.
        registry: all commands.
        filters: all tensor filters.
        settings: what `config` shows.
        run_info: fetches and feeds of the run.
        dump: the run's tensors; ``None`` at run-start and after an undebugged run.
        width: columns of the screen that asked.
        keeps_dumps: dumps stay after the program's end.
        extra: what plug-ins and sessions keep from command to command of this stop.
        names: results stored by ``eval -o NAME``; kept from stop to stop.
        tracks: the numbers that are followed over runs, where a program runs on.
        selected: the names of the tensors that `select` has chosen, in their order.
        place: the tensor or node that was last looked at: what commands without a name mean.
        history: what was typed.
        is_printed: output goes to a pipe or a file, where rows needn't fit on a screen.
        walk: moves through the run, in the stepper.
        discard: in the stepper: gives the run up as if it had never begun.
        replace: lets the program get other values of the run's tensors, see `Capture.replace`;
            ``None``: it has them already.
        describe_error: what the framework says of an error of the run; ``None``: it isn't its.
        found_before: the tensors of the dump that pass a filter, by its name, where that is known;
            ``None``: it isn't.
    """

    mode: str
    registry: CommandRegistry
    filters: FilterRegistry
    settings: Settings
    run_info: RunInfo = field(default_factory=RunInfo)
    dump: Dump | None = None
    width: int = 80
    keeps_dumps: bool = False
    extra: dict[str, Any] = field(default_factory=dict)
    names: dict[str, Any] = field(default_factory=dict)
    tracks: Tracks | None = None
    selected: dict[str, None] = field(default_factory=dict)
    place: Place = field(default_factory=Place)
    history: History | None = None
    is_printed: bool = False
    walk: Walk | None = None
    discard: Callable[[], None] | None = None
    replace: Callable[[NewValues], None] | None = None
    describe_error: Callable[[BaseException], RunError | None] = lambda error: None
    found_before: Callable[[str], Sequence[Datum] | None] = lambda name: None

    @property
    def is_typed(self) -> bool:
        """Whether a person typed the command at a prompt."""
        return self.history is not None and self.history.is_typed

    @property
    def is_live(self) -> bool:
        """Whether there is a program that waits."""
        return self.mode in LIVE_MODES

    def here(self, what: str, name: str | None = None) -> Place:
        """The name that a command was given, or the current place.

        Args:
            what: the name is of, as the command's usage says it.
            name: as it was typed; empty: none was.

        Raises:
            UserError: there is neither.
        """
        if name:
            return Place(name)
        if not self.place.name:
            raise UserError(
                f"{what} is required: nothing was looked at yet at this stop.",
                "lt lists the tensors; here NAME chooses one.",
            )
        return self.place

    def look_at(self, name: str, number: int | None = None) -> None:
        """Note the current place; a node leaves the current tensor as it is, if it is its own."""
        if parse_tensor_name(self.place.name)[0] != name:
            self.place = Place(name, number)

    def refresh(self) -> None:
        """In the stepper: see what has been computed so far."""
        walk = self.walk
        if walk is None:
            return
        dump = walk.stepper.dump()
        if dump.run_info() is None:
            dump.set_run_info(self.run_info)
        if dump is not self.dump:
            dump.absence = functools.partial(_why_not_yet, weakref.ref(walk), dump.absence)
        self.dump = dump

    def take_notes(self) -> list[Line]:
        """What is to be said at this stop, once: warnings of the session, a line each, the loss."""
        notes = [line((text, "warning")) for text in self.extra.pop("notes", ())]
        return [*notes, *self.take_loss()] if self.mode == "run-end" else notes

    def take_loss(self) -> list[Line]:
        """The loss of the runs up to this one, if it is known; said once."""
        if self.extra.setdefault("loss is told", False):
            return []
        self.extra["loss is told"] = True
        return loss_lines(*self.numbers(), width=self.width)

    def numbers(self) -> tuple[Tracks | None, str]:
        """The numbers over runs that the stop is about; of several ranks, whose: ``of rank 1``."""
        here = self.place.name
        found, whose = self.dump.tracks_of(here) if self.dump is not None else (None, "")
        if found is not None and whose:
            return found, whose
        return (self.tracks if self.tracks is not None else self.run_info.tracks), ""

    def need_dump(self) -> Dump:
        """The dump.

        Raises:
            UserError: this stop has none.
        """
        if self.dump is None and self.mode == "post-mortem":
            raise UserError("There are no tensors: no run was recorded before the error.")
        if self.dump is None:
            raise UserError(
                "There are no tensors at this stop.", "run executes the run and keeps them."
            )
        return self.dump


def _why_not_yet(
    walk: weakref.ref[Walk], otherwise: Callable[[str], str] | None, node_name: str
) -> str:
    """Why a node of a run that is stepped through has no tensors; empty: nobody knows."""
    found = walk()
    place = found.index(node_name) if found is not None else None
    if found is None or place is None or place < found.stepper.position:
        return otherwise(node_name) if otherwise is not None else ""
    return f"The tensor is not computed yet: cont {node_name} goes on to it."


def need_graph(dump: Dump) -> Graph:
    """The dump's graph.

    Raises:
        UserError: it holds none.
    """
    graph = dump.graph()
    if graph is None:
        raise UserError(
            "This dump holds no graph, so nothing is known of its nodes.",
            "lt and pt work without it.",
        )
    return graph
