"""What a run is to the debugger: asked for, watched, begun, ended."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from tfdbg_cli.dumps.dump import CannotRedo, Datum, Dump, NewValues, Predicate, RunError, RunInfo
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.series.tracks import Tracks

if TYPE_CHECKING:
    from tfdbg_cli.engines.base.stepped import SteppedRun

__all__ = [
    "Capture",
    "Glimpse",
    "ProgramRun",
    "RunAction",
    "RunCall",
    "RunHandle",
    "RunHost",
    "Watch",
]


@dataclass(frozen=True)
class Watch:
    """Which tensors of a run to keep. Regexes are searched anywhere; ``None`` keeps all.

    Attributes:
        node_name: on the node's name.
        op_type: on its op type.
        tensor_dtype: on the name of the output's dtype (``float32``).
        debug_urls: where an engine that can writes its own dumps; most engines ignore it.
        debug_ops: as in the original; ``DebugIdentity`` keeps the value.
        tolerate_failures: a debug op that can't be made for a tensor is left out.
        filter_name: the filter that the run is watched for (``run -f``); empty: none, or another
            one under the name of a built-in filter. An engine that can tell more cheaply than by
            keeping every value whether it passes may do so.
        exclude: nodes whose name this regex is found in don't count for it.
        predicate: the filter itself.
        limit: bytes of values that may be held in memory; ``None``: no limit. Only engines that
            hold values while a run lasts look at it.
    """

    node_name: str | None = None
    op_type: str | None = None
    tensor_dtype: str | None = None
    debug_urls: tuple[str, ...] = ()
    debug_ops: tuple[str, ...] = ("DebugIdentity",)
    tolerate_failures: bool = False
    filter_name: str = ""
    exclude: str = ""
    predicate: Predicate | None = field(default=None, compare=False)
    limit: int | None = field(default=None, compare=False)

    def excludes(self, node_name: str) -> bool:
        """Whether a node doesn't count for the filter."""
        return bool(self.exclude) and re.search(self.exclude, node_name) is not None

    def passes(
        self,
        dump: Dump,
        among: Iterable[Datum] | None = None,
        on_error: Callable[[Datum, Exception], None] | None = None,
    ) -> bool:
        """Whether a tensor of a run passes the filter.

        Args:
            dump: of the run.
            among: only these tensors; ``None``: all but views.
            on_error: as for `Dump.find`.
        """
        assert self.predicate is not None
        exclude = re.compile(self.exclude) if self.exclude else None
        found = dump.iter_find(self.predicate, exclude=exclude, on_error=on_error, among=among)
        return next(found, None) is not None


@dataclass
class Capture:
    """What a debugged run gave.

    Attributes:
        value: what the plain run would have returned; meaningless if ``error`` is set.
        dump: the tensors; after an error, those that were computed before it; ``None`` after an
            undebugged run.
        error: the exception of the run itself, to be raised after it was shown.
        late: what to tell of ``error`` where the program's own code (a hook, a callback) has raised
            it after the framework's work; ``None``: it is the framework's, or no failure.
        run_metadata: the engine's own record of the run, if it has one.
        filter_passed: whether a tensor passed the watch's filter, where the engine has found that
            out itself; ``None``: it is still to be looked for in the dump.
        progress_text: what the engine saw of the run, in a few words for the progress line.
        only: what alone was looked at of a run in which nothing passed, in words (``the outputs``);
            empty: all that it has computed.
        only_because: why no more was looked at, where another level would change nothing.
        gap: why the run isn't fully known, so that nobody can say whether a tensor passes a
            filter; empty: the run is fully known.
        make_dump: makes the dump of a run in which nothing passed, for somebody who wants to see it
            all the same; to be called before the program goes on. ``None``: it can't be made.
        replaced: makes what the run would return of other values of its tensors: ``f(value, new)``.
            The program's own value stays as it is. Raises `CannotRedo`. ``None``: the program has
            the values already, or the run returns none.
        is_replaced: ``value`` is another one than the run has computed: the user wants it so.
        held: gives what of the run is in memory anyway: tensors' names and arrays, before the
            program goes on. ``None``: nothing is, or the engine measures tensors itself.
    """

    value: Any
    dump: MemoryDump | None
    error: BaseException | None = None
    run_metadata: Any = None
    late: RunError | None = None
    filter_passed: bool | None = None
    progress_text: str = ""
    only: str = ""
    only_because: str = ""
    gap: str = ""
    make_dump: Callable[[], MemoryDump] | None = None
    replaced: Callable[[Any, NewValues], Any] | None = None
    is_replaced: bool = False
    held: Callable[[], Iterable[tuple[str, Any]]] | None = None

    @property
    def may_replace(self) -> bool:
        """Whether the program can still get other values."""
        return self.replaced is not None and self.error is None

    def replace(self, new: NewValues) -> None:
        """Let the program get other values than the run has computed, where it `may_replace` them.

        Args:
            new: the tensors with other values.

        Raises:
            CannotRedo: what the run returns can't be made of them.
        """
        if self.replaced is None:
            raise CannotRedo("the program has gone on")
        self.value, self.is_replaced = self.replaced(self.value, new), True

    def take_value(self) -> Any:
        """What the program gets, which is its own from now on: nothing of it is held here."""
        value, self.value, self.replaced, self.held = self.value, None, None, None
        return value


@dataclass(frozen=True)
class Glimpse:
    """A run that goes on, as far as it has come.

    Attributes:
        info: what is known of it.
        dump: the tensors so far; ``None``: they aren't recorded, or not yet.
    """

    info: RunInfo
    dump: MemoryDump | None


@dataclass(frozen=True)
class RunCall:
    """One run that was asked for, by whichever way, and what can be done with it.

    Attributes:
        fetches: the names of what it computes.
        feeds: feed name -> value as the caller gave it.
        run: does it, untouched by the debugger.
        debug: does it and keeps what is watched.
        profile: does it, timed op by op; ``None``: this kind of run can't be timed.
        stepper: does it step by step; ``None``: this kind of run can't be.
        runner: a sentence instead of fetches and feeds, where they aren't known.
        plain: ``run`` where it can tell an error that the program's own code has raised after the
            framework's work from a wrong argument; ``None``: it can't, or there is no such code.
    """

    fetches: Sequence[str]
    feeds: Mapping[str, Any]
    run: Callable[[], Any]
    debug: Callable[[Watch], Capture]
    profile: Callable[[], Capture] | None = None
    stepper: Callable[[], SteppedRun] | None = None
    runner: str = ""
    plain: Callable[[], Capture] | None = None


class RunAction:
    """What is to be done with a run."""

    DEBUG_RUN = "debug_run"
    NON_DEBUG_RUN = "non_debug_run"
    PROFILE_RUN = "profile_run"
    INVOKE_STEPPER = "invoke_stepper"


@dataclass(frozen=True)
class ProgramRun:
    """A run that is a stretch of the program and not a call of ours.

    Program engines see where such a run begins and ends; see `RunHost.open_run`.

    Attributes:
        kind: in two words, e.g. ``training run``.
        describe: what is known at its beginning: called only where somebody is to be told.
        can_profile: whether the engine can time its ops.
        can_step: whether it can stop at each of them.
        no_stepper: why it can't, as a sentence, where that could be mended.
        whose: see `RunInfo.whose`.
    """

    kind: str
    describe: Callable[[], RunInfo]
    can_profile: bool = True
    can_step: bool = True
    no_stepper: str = ""
    whose: str = ""


class RunHandle(Protocol):
    """A run between its beginning and its end, as its `RunHost` knows it."""

    @property
    def action(self) -> str:
        """What the engine is to do: one of `RunAction`'s."""

    @property
    def watch(self) -> Watch:
        """Which tensors to keep, if it is to be debugged."""

    @property
    def info(self) -> RunInfo:
        """Its description, made when this is first asked; the engine adds to it at the end."""

    @property
    def conduct(self) -> Callable[[SteppedRun], None]:
        """To be called for `RunAction.INVOKE_STEPPER`: drives a stepper as long as the user likes.

        What isn't done when it returns, the program does.
        """


class RunHost(ABC):
    """Who debugs a program: what its engine tells of the runs, and asks about them.

    Attributes:
        tracks: where numbers over runs go, the loss of each, say; ``None``: nobody wants any.
    """

    tracks: Tracks | None = None

    @property
    def is_idle(self) -> bool:
        """Whether nobody wants to know of runs now: the engine may keep out of the way."""
        return False

    def when_wanted(self, wake: Callable[[], None]) -> None:
        """Call a function, once, as soon as somebody wants to know of runs again.

        Args:
            wake: the engine comes back. It may be called on any thread, and at once.
        """

    def followed(self) -> frozenset[str]:
        """The nodes whose values are asked for at the end of each run, debugged or not."""
        return frozenset()

    def follow(self, number: int, dump: Dump) -> None:
        """The values of a run that is over.

        Args:
            number: of the run.
            dump: has those of the nodes that `followed` names, as far as they are known.
        """

    def expected_watch(self) -> Watch | None:
        """What the next run will be watched for; ``None``: it isn't known that it will be.

        For engines that have to record what comes before a run.
        """
        return None

    @abstractmethod
    def open_run(self, run: ProgramRun) -> RunHandle:
        """A run begins: what is to be done with it?

        The engine does as `RunHandle.action` says and calls `close_run` at the end.

        Raises:
            SystemExit: the user ended the program.
        """

    @abstractmethod
    def close_run(self, run: Any, capture: Capture) -> None:
        """The run is at its end; its error, if it has one, is the caller's to raise.

        Args:
            run: what `open_run` has given.
            capture: what came of it.

        Raises:
            SystemExit: the user ended the program.
        """

    def gave_up(self, reason: str) -> None:
        """The engine has failed: nothing is watched any more, nobody is to wait for runs."""
