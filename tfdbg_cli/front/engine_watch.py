"""Puts the debugger on the frameworks that a program imports, and takes it off again."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from tfdbg_cli.common.errors import one_line
from tfdbg_cli.common.interpreter.garbage import collector_paused
from tfdbg_cli.common.interpreter.signal_gate import uninterrupted
from tfdbg_cli.common.streams import is_unread, tell
from tfdbg_cli.common.traits import all_traits
from tfdbg_cli.engines.kit.run_threads import refused
from tfdbg_cli.engines.registry import entries, is_perhaps_unused, load
from tfdbg_cli.front.import_hook import ImportHook
from tfdbg_cli.front.unseen import UnseenFrameworks

if TYPE_CHECKING:
    from tfdbg_cli.sessions.debugger.debugger import Debugger

__all__ = ["EngineWatch"]

_UNUSED_SHOWN = 3
_BLOCK = "with tfdbg_cli.run(): makes its block a run."
_THREADS = "-c 'config set threads REGEX' names those that are."
_NUMPY = (
    "computations with NumPy itself can't be seen: the NumPy engine is a framework of the "
    "debugger's own"
)


class EngineWatch:
    """Installs each engine when the program imports its framework, and undoes it at the end.

    Args:
        debugger: what the sessions of the program are wrapped with.
        only: only debug these; ``None``: all that are known.

    Attributes:
        current: the one of this process that was started and has not finished.
        debugger: see above.
        program_started: whether a program runs that remarks may be made about.
    """

    current: ClassVar[EngineWatch | None] = None

    def __init__(self, debugger: Debugger, only: Sequence[str] | None = None) -> None:
        self.debugger = debugger
        self._only = only
        self._triggers = {
            module: entry.name
            for entry in entries()
            if only is None or entry.name in only
            for module in entry.modules
        }
        self._hook = ImportHook(tuple(self._triggers), self._imported)
        self._seen: dict[str, None] = {}
        self._told: dict[str, str] = {}
        self._perhaps_unused: set[str] = set()
        self._unseen = UnseenFrameworks()
        self._undo: list[Callable[[], None]] = []
        self._is_on = True
        self._process = os.getpid()
        self.program_started = False

    def start(self) -> None:
        """As `watch`, for the whole process: what a program asks for is asked of this one."""
        EngineWatch.current = self
        self.watch()

    def watch(self) -> None:
        """Watch the imports from now on; frameworks that are imported already count, too."""
        self._hook.install()
        if self._only is None:  # else somebody knows what is to be seen
            self._unseen.start()

    def _imported(self, module: str) -> None:
        name = self._triggers[module]
        if name not in self._seen:
            self._seen[name] = None
            if self._is_on:
                self._install(name)

    def _install(self, name: str) -> None:
        try:
            with collector_paused():
                engine = load(name)
            if is_perhaps_unused(engine):
                self._perhaps_unused.add(name)
            engine.configure(self.debugger.settings.get)
            self._undo.append(engine.install(functools.partial(self._wrapper, name)))
            self.debugger.engines.add(name)
        except Exception as error:
            self._tell_unusable(name, error)

    def _wrapper(self, name: str, session: Any) -> Any:
        try:
            return _host_of()(self.debugger, session)
        except Exception as error:  # what it needs is imported now
            self._tell_unusable(name, error)
            return None

    def _tell_unusable(self, name: str, error: Exception) -> None:
        reason = one_line(error)
        if self._told.get(name) != reason:  # it may be tried again
            self._told[name] = reason
            if name in self._perhaps_unused:
                return  # most programs that use the other one don't use this one
            tell(_unusable(name, reason))

    def failed(self, error: BaseException) -> None:
        """The program is about to end with an error that nobody caught: some engines want to know.

        Raises:
            SystemExit: the user ended the program at the stop that this led to.
        """
        if self._is_on and os.getpid() == self._process:
            for name in self.debugger.engines & self._seen.keys():
                load(name).failed(error)

    def show_last_run(self, error: BaseException) -> None:
        """``--post-mortem``: the program has ended with an error, which was printed."""
        last_run = self.debugger.last_run
        is_left = self.debugger.is_off or self.debugger.is_detached
        if last_run is not None and not is_left and os.getpid() == self._process:
            last_run.show(error)

    @property
    def is_on(self) -> bool:
        """Whether the engines are on, those that will be imported as well."""
        return self._is_on

    @property
    def names(self) -> list[str]:
        """The engines in use."""
        return [name for name in self._seen if name in self.debugger.engines]

    def turn(self, on: bool) -> None:
        """Take the engines off, so that runs cost nothing, or put them on again."""
        if on == self._is_on:
            return
        self._is_on = on
        if on:
            for name in self._seen:
                self._install(name)
        else:
            self.debugger.engines.clear()
            while self._undo:
                try:
                    self._undo.pop()()
                except Exception as error:  # the others are taken off all the same
                    tell(f"an engine couldn't be removed completely: {one_line(error)}")

    @uninterrupted  # a Ctrl-C at the very end would leave half of it
    def finish(self) -> None:
        """Uninstall, close the debugger, and say what didn't happen."""
        if os.getpid() != self._process:
            return  # A forked child ends; the debugger is its parent's.
        if EngineWatch.current is self:
            EngineWatch.current = None
        self._hook.uninstall()
        self._unseen.finish()
        try:
            self.turn(False)
            self.debugger.close()
        except Exception as error:
            tell(one_line(error))
        if self.program_started:
            for text in self._remarks():
                tell(text)

    def _remarks(self) -> Iterator[str]:
        queue = self.debugger.queue
        titles = {traits.name: traits.title for traits in all_traits()}
        names = dict.fromkeys(titles.get(name, name) for name in self._triggers.values())
        only = "" if self._only is None else f" (only {', '.join(names)} was watched)"
        if not self.debugger.run_count:
            for name in self._told.keys() & self._perhaps_unused:
                yield _unusable(name, self._told[name])
            if self._unseen.told:
                pass  # it was said at the first call
            elif self._seen:
                # One framework may import another: what the program itself uses isn't known then.
                alone = self._seen if len(self._seen) == 1 else ()
                seen = (each for each in all_traits() if each.name in alone and each.runs)
                known = "".join(f" ({each.title}: a run is {each.runs})" for each in seen)
                yield f"the program ended without a run to stop at{only}{known}. {_BLOCK}"
                if refused:
                    shown = ", ".join([*refused][:_UNUSED_SHOWN])
                    more = ", ..." if len(refused) > _UNUSED_SHOWN else ""
                    yield f"what other threads did wasn't looked at ({shown}{more}): {_THREADS}"
            else:
                known = only or f" ({', '.join(names)}; {_NUMPY})"
                yield f"the program imported no framework that the debugger knows{known}."
        elif self.debugger.last_run is not None:
            pass  # nothing went wrong
        elif not self.debugger.stops and not queue.batch and not self.debugger.is_detached:
            yield f"the program's {self.debugger.run_count} run(s) gave no occasion to stop{only}."
        is_told = queue.reads_stdin or self.debugger.has_commands
        if queue.batch and not is_told and is_unread(0):
            yield "stdin was left to the program, which didn't read all: commands on it need -c -."
        choice = self.debugger.choice
        if self.debugger.gate is not None:
            # It says what it has seen.
            if passed_over := self.debugger.waiting.passed_over():
                yield f"{passed_over}."
        elif choice is not None and choice.filter_name:
            yield (
                f"no tensor passed {choice.filter_name} up to the program's end, "
                f"run {self.debugger.run_count}{self.debugger.waiting.unseen()}."
            )
        elif choice is not None and choice.keeps:
            store = self.debugger.store
            yield f"the dumps of {store.kept_count} run(s) are kept in {store.shared_root()}."
        elif choice is not None and choice.times > 1 and self.debugger.countdown > 0:
            yield (
                f"the program ended after run {self.debugger.run_count}, "
                f"{self.debugger.countdown} before the one that run -t {choice.times} asked for."
            )
        unused = list(iter(queue.take, None))
        if unused:
            shown = "; ".join(unused[:_UNUSED_SHOWN])
            more = "; …" if len(unused) > _UNUSED_SHOWN else ""
            yield f"{len(unused)} command(s) were not run: {shown}{more}"


def _unusable(name: str, reason: str) -> str:
    return f"the {name} engine can't be used, its runs go undebugged: {reason}"


@functools.cache  # each run asks
def _host_of() -> Callable[[Debugger, Any], Any]:
    """What directs runs is imported when the first engine asks for it."""
    with collector_paused():
        from tfdbg_cli.sessions.wrappers.hosts import host_of
    return host_of
