"""What a run was asked for, and what it raised."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tfdbg_cli.common.errors import message_of
from tfdbg_cli.common.traits import EngineTraits, OpRoles, op_roles, traits_of
from tfdbg_cli.dumps.series.tracks import Tracks
from tfdbg_cli.dumps.sources import own_place

__all__ = ["CALLS", "RunError", "RunInfo", "late_error", "roles_of"]

#: The kinds of runs that are one call and compute no gradients.
CALLS = frozenset(["call", "inference run"])


@dataclass
class RunError:
    """An error that the run itself raised, in the engine's words.

    Attributes:
        type_name: of the exception.
        message: its text.
        op_name: the node that raised it; empty if unknown.
        file, line: where in the user's own code it was raised, if the engine knows: the innermost
            line outside libraries.
        is_late: the program's own code (a hook, a callback) has raised it after the framework's
            work was done: no tensor is missing because of it.
    """

    type_name: str
    message: str
    op_name: str = ""
    file: str = ""
    line: int = 0
    is_late: bool = False


@dataclass
class RunInfo:
    """What a run was asked for.

    Attributes:
        can_profile, can_step: whether it can be timed, and done step by step; while it is live.
        call_count: 1 for the first run of its session.
        fetches: names of the fetches, flattened.
        feeds: feed name -> value as the caller gave it.
        engine: name of the engine, empty if unknown.
        runner: a sentence instead of fetches and feeds, for runs made through a callable.
        error: what the run raised.
        kind: ``run`` or another word of the engine's for its unit of work.
        unit: ``session``: somebody asked a session for fetches; ``program``: it is a stretch of a
            program, and what it has to do was not known before.
        filter_name: the tensor filter that stopped the program at this run; empty: none did.
        details: what else there is to say of it, as (label, text).
        outputs: the program's own names of what the run made -> tensor name.
        number: 1 for the first run of its kind, where an engine has several kinds; else 0.
        results: the tensors that the run leaves behind -> whether as a result of it (the output of
            a model, a loss, a gradient), or because the program just still has them at its end.
            ``None``: that isn't known; the tensors that no op has read are taken for it.
        program: what the program was, see `program_facts`; empty: nobody has asked.
        tracks: the numbers that were followed over the runs up to this one.
        written: parameters -> the first and the last of the runs of which one has written what
            they held at the start of this one, as far as runs were kept; the first is 0 where no
            run before was.
        roles: op type -> its roles, as its dump tells (`OpRoles.table`); ``None``: its engine's.
        whose: the function or the session that the run is of, where others may have tensors of
            the same names.
    """

    call_count: int = 0
    fetches: Sequence[str] = ()
    feeds: Mapping[str, Any] = field(default_factory=dict)
    engine: str = ""
    runner: str = ""
    error: RunError | None = None
    kind: str = "run"
    unit: Literal["session", "program"] = "session"
    filter_name: str = ""
    details: Sequence[tuple[str, str]] = ()
    outputs: Mapping[str, str] = field(default_factory=dict)
    number: int = 0
    results: Mapping[str, bool] | None = None
    program: Sequence[tuple[str, str]] = ()
    tracks: Tracks | None = None
    written: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    roles: Mapping[str, Sequence[str]] | None = None
    can_profile: bool = True
    can_step: bool = True
    whose: str = ""

    @property
    def measured_as(self) -> str:
        """The runs that it is like: their tensors of one name are the same one."""
        return measured_as(self.kind, self.whose)

    @property
    def ends(self) -> set[str]:
        """The tensors that the run hands over, by their names; empty: that isn't known."""
        found = {name for name, is_result in (self.results or {}).items() if is_result}
        fetched = (*self.fetches, *(f"{each}:0" for each in self.fetches))
        return found or {*self.outputs.values(), *fetched}


def measured_as(kind: str, whose: str) -> str:
    """What tells runs whose tensors of one name are the same one: ``call of train_step``."""
    return f"{kind} of {whose}" if whose else kind


def traits_of_run(info: RunInfo | None) -> EngineTraits | None:
    """What is known of the engine of a run; ``None``: it isn't known."""
    return traits_of(info.engine) if info is not None else None


def roles_of(info: RunInfo | None) -> OpRoles:
    """The roles of a run's op types: those that its dump was written with, if it was."""
    if info is not None and info.roles is not None:
        return OpRoles.of_table(info.roles)
    return op_roles(info.engine if info is not None else "")


def late_error(error: BaseException, message: str | None = None) -> RunError | None:
    """What to tell of an error that came after the framework's work; call it where it is caught.

    Args:
        error: what was raised.
        message: its text, where that isn't its ``str``.

    Returns:
        ``None``: it is a way of ending the program or the thread, and no failure.
    """
    if not isinstance(error, Exception):
        return None
    file, line = own_place(error, sys._getframe(1))
    if message is None:
        message = message_of(error)
    return RunError(type(error).__name__, message, "", file, line, is_late=True)
