"""The debugger of one process: what all its debugged sessions share."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from tfdbg_cli.commands.builtin import make_registry
from tfdbg_cli.commands.context import Context
from tfdbg_cli.commands.registry import CommandRegistry
from tfdbg_cli.commands.reply import Leave
from tfdbg_cli.commands.run.choices import ExitChoice, RunChoice
from tfdbg_cli.commands.shell.history import History, default_history_path
from tfdbg_cli.common.errors import UserError, one_line
from tfdbg_cli.common.interpreter import signal_gate
from tfdbg_cli.common.interpreter.program_signals import pass_on, with_program_signals
from tfdbg_cli.common.settings import Settings, default_config_path
from tfdbg_cli.common.streams import Streams, tell, tell_failure
from tfdbg_cli.common.temporary import sweep
from tfdbg_cli.dumps.dump import Dump, RunInfo
from tfdbg_cli.dumps.series.tracks import Tracks
from tfdbg_cli.engines import registry  # noqa: F401 (it makes their settings known)
from tfdbg_cli.engines.base import Adapter, MeetsRanks
from tfdbg_cli.filters.registry import FilterRegistry, load_filters
from tfdbg_cli.net.tokens import remove_dead_tickets
from tfdbg_cli.sessions.debugger.storage import DumpStore
from tfdbg_cli.sessions.debugger.waiting import Waiting
from tfdbg_cli.sessions.ranks.interface import RankPlace, SingleRank
from tfdbg_cli.tensors.measurements import halt as halt_measurements
from tfdbg_cli.ui.base import CommandQueue, UserInterface

if TYPE_CHECKING:
    from tfdbg_cli.sessions.debugger.gate import Gate, GateOptions
    from tfdbg_cli.sessions.debugger.last_run import LastRun
    from tfdbg_cli.sessions.debugger.precision_gate import PrecisionGate, PrecisionOptions
    from tfdbg_cli.sessions.debugger.reports import Reports
    from tfdbg_cli.sessions.debugger.stop_log import StopLog
    from tfdbg_cli.sessions.sending.sending import Sending
    from tfdbg_cli.ui.remote.host import RemoteUI

__all__ = ["Debugger"]

# Seconds in which statistics that are being computed have to come to their end.
_LAST_MEASUREMENTS = 10.0


class Debugger:
    """Settings, filters, queue, UI, and the choice that holds for the next runs.

    Args:
        ui: kind of UI, see `tfdbg_cli.ui.choose.KINDS`.
        commands: the queue of ``-c``. Where there are some, stdin is left to the program, unless
            a person types there or one of them is ``-``.
        batch: nobody is there to ask.
        color, mouse, theme: of the UI; ``None``: as the settings say.
        dump_root: where dumps go; default: a temporary folder.
        keep_dumps: the dumps of the runs that stopped stay, one run folder each.
        dump_limit: bytes of tensors held in memory; a larger dump goes to a run folder.
        filters: Python files with tensor filters.
        config_path: settings file; ``None``: the user's own.
        as_directory: dumps that stay are written in the original's format.
        digest: dumps that stay have hashes and statistics of the tensors, and no values.
        report: where to write a report at each stop of ``run -f`` and each run that fails.
        log: the file that gets a line of JSON for each of these stops.
        sending: sends a message at each of them.
        check: nobody is asked at a stop: a tensor that passes a filter ends the program.
        post_mortem: no run stops; the last one is shown if the program ends with an error.
        place: which of the ranks of a distributed program this is; ``None``: it is no such program,
            or only the framework knows that it is one.
        leader: the rank that is to lead, where only the framework knows.
        owns_stdin: no program reads stdin.

    Attributes:
        has_commands: some were given.
        ranks: the debuggers of the other ranks, as far as there are any.
        last_run: of ``post_mortem``; ``None``: it wasn't asked for.
        is_off: the debugger is disabled: its sessions run as without it.
        outcome: the error that the program ends with, on one line; empty: none is known.

    Raises:
        UserError: a filters file can't be used, or ``dump_root`` can't.
    """

    #: Whether the dump of the last stop is looked at while the program runs on.
    looks_back: ClassVar[bool] = False

    #: All that are in use in this process; more than one where sessions are wrapped by hand.
    instances: ClassVar[weakref.WeakSet[Debugger]] = weakref.WeakSet()

    def __init__(
        self,
        *,
        ui: str = "auto",
        commands: Sequence[str] = (),
        batch: bool = False,
        color: bool = True,
        mouse: bool | None = None,
        theme: str | None = None,
        dump_root: str | None = None,
        keep_dumps: bool = False,
        dump_limit: int | None = None,
        filters: Sequence[str] = (),
        config_path: str | None = None,
        place: RankPlace | None = None,
        leader: int = 0,
        as_directory: bool = False,
        digest: bool = False,
        report: str | None = None,
        check: GateOptions | PrecisionOptions | None = None,
        log: str | None = None,
        sending: Sending | None = None,
        post_mortem: bool = False,
        owns_stdin: bool = False,
    ) -> None:
        self._reports, self._log = _reports(report), _stop_log(log)
        self._sending = sending
        self.settings = Settings(Path(config_path) if config_path else default_config_path())
        signal_gate.install()
        #: Before the program has redirected them.
        self.streams = Streams()
        self.streams.take_messages()
        self.history = History(None if batch else default_history_path())
        self.has_commands = bool(commands)
        if owns_stdin:
            reads_stdin = not batch or (not commands and _stdin_is_a_script())
        else:  # as of a shell's: -c leaves it to the program
            reads_stdin = not batch and not commands
        self.queue = CommandQueue(commands, batch=batch, reads_stdin=reads_stdin)
        self.registry = make_registry()
        self.filters = FilterRegistry(self.settings)
        for path in filters:
            load_filters(path, self.filters)
        self.gate: Gate | PrecisionGate | None = check.gate(self.filters) if check else None
        if not Debugger.instances:
            sweep()
            remove_dead_tickets()
        self.store = DumpStore(
            dump_root,
            keep_dumps,
            dump_limit,
            as_directory=as_directory,
            digest=digest,
        )
        #: What `eval -o` stored.
        self.names: dict[str, Any] = {}
        #: Numbers over runs.
        self.tracks = Tracks()
        self.stops = 0
        self.run_count = 0
        self.session_count = 0
        self.lock = threading.RLock()
        self._ui_options: dict[str, Any] = {
            "color": color,
            "mouse": mouse,
            "theme": theme,
            "batch": batch,
        }
        self._ui_kind = ui
        self._ui: UserInterface | None = None
        self._notes: list[str] = []
        self._reported_filters: set[str] = set()
        self._reported_gaps: set[str] = set()
        #: The choice that holds for the next runs; ``None``: stop at the next run-start.
        self.choice: RunChoice | None = RunChoice() if post_mortem else None
        #: How many runs are still to pass before the one that the choice is about.
        self.countdown = 0
        self._is_detached = False
        self._resting: list[Callable[[], None]] = []
        self.is_ended = False
        self.waiting = Waiting()
        self.ranks: SingleRank = SingleRank()
        self._leader = leader
        if place is not None:
            self._be_rank(place)
        self.last_run = _last_run(self) if post_mortem else None
        self.is_off = False
        self.outcome = ""
        #: The engines whose patches send the program's runs here.
        self.engines: set[str] = set()
        self._remote: RemoteUI | None = None
        Debugger.instances.add(self)

    def _be_rank(self, place: RankPlace) -> None:
        self.store.rank = place.rank
        from tfdbg_cli.sessions.ranks.group import RankGroup

        self.ranks = RankGroup(
            place, self.store, self.settings, self.note, lambda: self.waiting.is_interrupted
        )
        if self.ranks.is_silent:
            self.queue = CommandQueue(batch=self.queue.batch)  # the leader runs the commands
            self._reports = self._log = self._sending = None

    def meet(self, adapter: Adapter) -> None:
        """Find the other ranks, once the framework has.

        What no launcher has said the program may say itself, before its first run.
        """
        is_open = type(self.ranks) is SingleRank and not self.stops and self.last_run is None
        if is_open and isinstance(adapter, MeetsRanks):
            meeting = adapter.meeting()
            counts = meeting is not None and meeting.counts_alone
            if meeting is not None and counts and self._leader < meeting.size:
                self._be_rank(RankPlace(meeting.rank, meeting.size, self._leader))
        self.ranks.meet(adapter)

    @classmethod
    def listening(cls) -> Debugger | None:
        """The debugger of this process that can be attached to, if there is one."""
        return next((found for found in cls.instances if found._remote is not None), None)

    def listen(self, address: str, *, wait: bool = True) -> str:
        """Let people attach from other terminals; it is their UI that the stops ask from now on.

        Args:
            address: ``[HOST:]PORT`` or ``unix:PATH``; port 0 takes one that is free.
            wait: whether a stop waits for the first client. Otherwise the program runs without
                stops until somebody attaches.

        Returns:
            The command that attaches.

        Raises:
            UserError: it can't listen there, or it listens already.
        """
        from tfdbg_cli.ui.remote.detach import DETACH
        from tfdbg_cli.ui.remote.host import RemoteUI

        if self._remote is not None:
            raise UserError(f"The program listens already: {self._remote.invitation}.")
        ui = RemoteUI(
            address,
            self.settings,
            waits=wait,
            on_wish=self.request_stop,
            on_stop=self.waiting.end,
            on_lost=self._run_on,
            on_fork=self._leave_child_alone,
            how_ended=lambda: self.outcome,
            streams=self.streams,
        )
        if self._ui is not None:
            self.waiting.end()
            self._ui.close()
        self._ui = self._remote = ui
        self.registry = make_registry([DETACH])
        self.is_detached = not wait
        return ui.invitation

    @property
    def is_detached(self) -> bool:
        """Whether nobody wants to know of runs, until somebody asks for a stop."""
        return self._is_detached

    @is_detached.setter
    def is_detached(self, value: bool) -> None:
        self._is_detached = value
        while self._resting and not value:
            self._resting.pop()()

    def when_wanted(self, wake: Callable[[], None]) -> None:
        """Call a function as soon as that isn't so any more."""
        self._resting.append(wake)

    def request_stop(self, *, waits: bool = False) -> None:
        """Stop at the next end of a debugged run, or start of a run; also after a detach.

        Any thread and any signal handler may call it: it sets flags, and wakes the engines that
        rest after a detach.

        Args:
            waits: where people attach from other terminals: wait for somebody there.
        """
        self.waiting.is_interrupted = True
        self.is_detached = False
        if waits and self._remote is not None:
            self._remote.is_expecting = True

    def _run_on(self) -> None:
        """Nobody is there any more: no run is debugged until somebody asks for a stop."""
        self.is_detached = True
        self.ranks.chosen(ExitChoice())
        self.choice = None

    def _leave_child_alone(self) -> None:
        """In a forked child: its runs are its own, and whoever held the lock isn't there."""
        self.lock = threading.RLock()
        self._run_on()

    def note(self, text: str) -> None:
        """A line to show at the next stop."""
        if len(self._notes) < 20:
            self._notes.append(text)

    def report_filter(self, name: str, run: str, failures: Sequence[str]) -> None:
        """A filter raised in a run: say so at once, the first time, and at the next stop."""
        if name in self._reported_filters:
            return
        self._reported_filters.add(name)
        more = f" (and {len(failures) - 1} more tensors)" if len(failures) > 1 else ""
        text = f'The filter "{name}" raised in {run} at {failures[0]}{more}; the run goes on.'
        tell(text)
        self.note(text)

    def report_gap(self, name: str, gap: str) -> bool:
        """A run isn't fully known: say so at the next stop; False: that was said before."""
        if gap in self._reported_gaps:
            return False
        self._reported_gaps.add(gap)
        self.note(
            f"run -f {name} ends here without an answer, because this run isn't fully known: "
            f"{gap}. The same command goes on."
        )
        return True

    def context(
        self,
        mode: str,
        info: RunInfo | None = None,
        dump: Dump | None = None,
        *,
        commands: CommandRegistry | None = None,
        **more: Any,
    ) -> Context:
        """A stop as its commands see it.

        Args:
            mode: the kind of stop.
            info: of its run.
            dump: of its run.
            commands: default: all.
            more: further attributes of the `Context`.
        """
        return Context(
            mode,
            commands or self.registry,
            self.filters,
            self.settings,
            info or RunInfo(),
            dump,
            names=self.names,
            **more,
        )

    def stop(self, context: Context, *, title: str, title_role: str, initial_command: str) -> Any:
        """Give control to the user.

        Returns:
            The token of the command that ended the stop (`RunChoice` or `ExitChoice`).

        Raises:
            BaseException: what a signal handler of the program's has raised meanwhile.
        """
        if self.ranks.is_silent:
            return self.ranks.follow()
        self.ranks.stopping()
        action: Any = ExitChoice()
        try:
            action = self._stop(context, title, title_role, initial_command)
        except Exception as error:
            pass_on(error)
            # Whatever is wrong with us, the program is to go on.
            tell_failure(error)
        finally:
            self.ranks.chosen(action)
        return action

    def look(self, context: Context, *, title: str, title_role: str, initial_command: str) -> None:
        """A stop at which nothing is decided: what was waited for before still is."""
        waiting, is_asked = self.waiting, self.waiting.is_interrupted
        choice = self.choice if waiting.is_on else None
        self.stop(context, title=title, title_role=title_role, initial_command=initial_command)
        if choice is not None and self._ui is not None:
            waiting.begin(choice, self.run_count + 1, self._ui)
        waiting.is_interrupted = waiting.is_interrupted or is_asked

    def _stop(self, context: Context, title: str, title_role: str, initial_command: str) -> Any:
        from tfdbg_cli.commands.service import CommandService
        from tfdbg_cli.ui.choose import make_ui

        self.waiting.end()
        self.stops += 1
        context.is_printed = self.queue.batch
        context.extra["notes"], self._notes = self._notes, []
        service = CommandService(
            context,
            title=title,
            title_role=title_role,
            initial_command=initial_command,
            history=self.history,
        )
        if self._ui is None:
            self._ui = make_ui(
                self._ui_kind, self.settings, streams=self.streams, **self._ui_options
            )
        ui = self._ui
        ui.pdb = context.extra.get("pdb")
        is_event = context.mode == "run-end" and title_role == "error"

        def interact() -> Leave:
            dump = context.dump
            folder = self.store.folder_of(dump) if dump is not None else ""
            if is_event and self._reports is not None:
                self._reports.write(context, initial_command)
            if is_event or context.mode == "post-mortem":
                self._tell_others(context, title, initial_command, folder)
            if self.gate is not None:
                self.store.keep = self.store.keep and not folder  # the first one is enough
                prompt = self.gate.prompt(context, initial_command)
                said = None
                if prompt is not None:
                    with prompt:
                        said = ui.interact(service, self.queue).action
                return Leave(self.gate.answer(context, title, initial_command, folder, said))
            return ui.interact(service, self.queue)

        try:
            leave: Leave = with_program_signals(interact)
        finally:
            halt_measurements()  # nothing goes on behind the program's back
        return leave.action

    def _tell_others(self, context: Context, title: str, command: str, folder: str) -> None:
        if self._log is None and self._sending is None:
            return
        from tfdbg_cli.sessions.debugger.stop_log import stop_record

        try:
            record = stop_record(context, title, command, folder)
        except Exception as error:
            pass_on(error)
            tell(f"nothing is logged of this stop: {one_line(error)}")
            return
        if self._log is not None:
            self._log.write(record)
        if self._sending is not None:
            self._sending.stop(context, record, self.tracks)

    def choose(self, action: Any, next_run: int) -> None:
        """Take over what a stop decided.

        Raises:
            SystemExit: the user ended the program.
        """
        if isinstance(action, RunChoice):
            self.choice = action
            self.countdown = action.times
            if self._ui is not None and not self.queue.batch and self.gate is None:
                self.waiting.begin(action, next_run, self._ui)
            return
        self.is_detached = True
        self.choice = None
        if isinstance(action, ExitChoice) and action.ends_program:
            if action.error is not None:
                raise action.error
            self.is_ended = True
            raise SystemExit(action.status)
        if self._remote is not None and self._remote.is_attached:
            self.request_stop()  # somebody came in the meantime

    @signal_gate.uninterrupted
    def close(self) -> None:
        """The program is at its end: let go of the UI and of temporary dumps."""
        halt_measurements(_LAST_MEASUREMENTS)
        self.waiting.end()
        if self.gate is not None and not self.ranks.is_silent:
            try:
                self.gate.finish(self.run_count)
            except UserError as error:
                tell(str(error))
        if self._sending is not None:
            self._sending.end(self.tracks)
        if self._ui is not None:
            with contextlib.suppress(OSError):  # a full disk, a terminal that is gone
                self._ui.close()
        self._remote = None
        self.ranks.leave(self.outcome)
        Debugger.instances.discard(self)
        self.store.close()


# What few programs are started with: its modules are imported for these.


def _reports(path: str | None) -> Reports | None:
    if not path:
        return None
    from tfdbg_cli.sessions.debugger.reports import Reports

    return Reports(path)


def _stop_log(path: str | None) -> StopLog | None:
    if not path:
        return None
    from tfdbg_cli.sessions.debugger.stop_log import StopLog

    return StopLog(path)


def _last_run(debugger: Debugger) -> LastRun:
    from tfdbg_cli.sessions.debugger.last_run import LastRun

    return LastRun(debugger)


def _stdin_is_a_script() -> bool:
    """Whether commands can come from stdin without anybody typing them: a pipe, or a file."""
    try:
        mode = os.fstat(0).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)
