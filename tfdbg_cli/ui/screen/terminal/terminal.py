"""The terminal while the full screen is up: its descriptors, its signals, the program's output."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable
from types import FrameType
from typing import TYPE_CHECKING, Any, BinaryIO, Self, TextIO

import urwid
from urwid.display import raw

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.common.streams import Streams
from tfdbg_cli.ui.foreign import is_foreign

if TYPE_CHECKING:
    from tfdbg_cli.ui.screen.terminal.watchdog import Watchdog

__all__ = ["Terminal", "watchdog_of_terminal"]


class _TerminalScreen(raw.Screen):
    """urwid's screen, on which Ctrl-C is a key as long as no command is at work.

    As a signal it would reach the program's children and whoever started it, too. Outside the main
    thread, where no signal handlers can be set, Ctrl-Z is a mere key as well.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._typed: list[int] = []

    def start(self, *args: Any, **kwargs: Any) -> Any:
        """Take the terminal, and the signal from Ctrl-C.

        Whoever types before the screen is up means the first prompt: urwid throws that away.
        """
        self._typed = self._typed_before()
        context = super().start(*args, **kwargs)
        self.interrupts(False)
        if threading.current_thread() is not threading.main_thread():
            self.tty_signal_keys(susp="undefined", fileno=self._term_input_file.fileno())
        return context

    def _typed_before(self) -> list[int]:
        """What was typed, unread so far; Enter need not have been pressed."""
        descriptor = self._term_input_file.fileno()
        if sys.platform == "win32" or not os.isatty(descriptor):
            return []
        import termios

        before = termios.tcgetattr(descriptor)
        modes = [*before[:6], [*before[6]]]
        modes[3] &= ~(termios.ICANON | termios.ECHO)
        modes[6][termios.VMIN] = modes[6][termios.VTIME] = 0  # reading waits for nobody
        termios.tcsetattr(descriptor, termios.TCSANOW, modes)
        try:
            return list(os.read(descriptor, _MOST_TYPED))
        finally:
            termios.tcsetattr(descriptor, termios.TCSANOW, before)

    def get_available_raw_input(self) -> list[int]:
        """What is typed, after what was typed before."""
        typed, self._typed = self._typed, []
        return [*typed, *super().get_available_raw_input()]

    def hook_event_loop(self, event_loop: Any, callback: Any) -> None:
        """Have input reported; what was typed before is reported at once."""
        super().hook_event_loop(event_loop, callback)
        if self._typed:
            event_loop.alarm(
                0,
                lambda: self.parse_input(event_loop, callback, self.get_available_raw_input()),
            )

    def interrupts(self, on: bool) -> None:
        """Whether Ctrl-C is a signal."""
        self.tty_signal_keys(
            intr=_CTRL_C if on else "undefined", fileno=self._term_input_file.fileno()
        )

    def signal_init(self) -> None:
        if threading.current_thread() is threading.main_thread():
            super().signal_init()

    def signal_restore(self) -> None:
        if threading.current_thread() is threading.main_thread():
            super().signal_restore()


_CTRL_C = 3
_MOST_TYPED = 4096

# What comes before the end of the process, and what urwid handles itself.
_ENDING = {
    getattr(signal, name) for name in ("SIGTERM", "SIGHUP", "SIGQUIT") if hasattr(signal, name)
}
_URWIDS = {signal.SIGWINCH, signal.SIGTSTP, signal.SIGCONT}


class _Diversion:
    """Sends descriptors that are the terminal into a file, and replays the file afterwards.

    C++ logs and other threads write past Python's streams: only the descriptors catch them all.
    """

    def __init__(self, screen: int) -> None:
        terminal = os.fstat(screen).st_rdev
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
        self._screen = screen
        self._kept: dict[int, int] = {}
        _flush_streams()
        for fd in (1, 2):
            with contextlib.suppress(OSError):
                if os.isatty(fd) and os.fstat(fd).st_rdev == terminal:
                    kept = os.dup(fd)
                    os.dup2(self._file.fileno(), fd)
                    self._kept[fd] = kept

    @property
    def size(self) -> int:
        """How many bytes were written."""
        return os.fstat(self._file.fileno()).st_size

    def fileno(self) -> int:
        """The file."""
        return self._file.fileno()

    def text(self, limit: int = 1 << 24) -> str:
        """What was written, its last ``limit`` bytes."""
        _flush_streams()
        start = max(self.size - limit, 0)
        return os.pread(self._file.fileno(), limit, start).decode("utf-8", "replace")

    def end(self) -> None:
        """Give the descriptors back and write out what was held."""
        if self._file.closed:
            return
        _flush_streams()
        target = self._screen if self._kept else None
        for fd, kept in self._kept.items():
            os.dup2(kept, fd)
            os.close(kept)
        if target is not None:
            at = 0
            with contextlib.suppress(OSError):
                while chunk := os.pread(self._file.fileno(), 1 << 16, at):
                    at += os.write(target, chunk)
        self._file.close()


def _flush_streams() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()


_watchdogs: dict[int, Watchdog | None] = {}


def watchdog_of_terminal(terminal: int) -> Watchdog | None:
    """The watchdog of this process's terminal, started when it is first needed.

    Args:
        terminal: a descriptor of it.
    """
    pid = os.getpid()  # after a fork the child has none
    if pid not in _watchdogs:
        _watchdogs.clear()
        _watchdogs[pid] = None
        with contextlib.suppress(OSError, ImportError):  # not on Windows
            from tfdbg_cli.ui.screen.terminal.watchdog import Watchdog

            _watchdogs[pid] = Watchdog(terminal)
    return _watchdogs[pid]


def _screen_is_down() -> None:
    watchdog = _watchdogs.get(os.getpid())
    if watchdog is not None:
        watchdog.down()


def _ends_process(number: int) -> bool:
    """Whether a signal would end the process, or call a handler of Python's.

    `faulthandler.register` and libraries in C have handlers that Python knows nothing of.
    """
    if signal.getsignal(number) is not signal.SIG_DFL:
        return callable(signal.getsignal(number))
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:
            caught = next(text for text in file if text.startswith("SigCgt:"))
    except (OSError, StopIteration):  # not everywhere
        return True
    return not int(caught.split()[1], 16) >> number - 1 & 1


def _ignore() -> None:
    """Before the loop runs, and after it, there is nobody to tell of a signal."""


class Terminal:
    """The terminal of the process, by its descriptors 0 and 1 as the debugger found them.

    The UI reads and writes duplicates of them; what the program prints meanwhile is held back and
    printed when the screen is gone. In the main thread SIGINT becomes a key (or interrupts the
    command at work), SIGTERM, SIGHUP and SIGQUIT restore the terminal before they do what
    they did, and handlers of the program's wait until nothing is being drawn.
    """

    def __init__(self, streams: Streams | None = None) -> None:
        self._streams = streams or Streams()
        self.on_signal: Callable[[], None] = _ignore
        self._waiting: list[int] = []
        self._in_main = threading.current_thread() is threading.main_thread()
        # SIGWINCH goes to the main thread, and to the terminal's own session.
        self.polls_size = not self._in_main or is_foreign(self._streams.terminal[0])
        self._busy = False
        self._handlers: dict[int, Any] = {}
        self._diversion: _Diversion | None = None
        self._files: tuple[BinaryIO, TextIO] | None = None
        self._screen: _TerminalScreen | None = None

    @property
    def screen(self) -> _TerminalScreen:
        """urwid's screen; it is up while urwid's loop runs."""
        assert self._screen is not None
        return self._screen

    def size(self) -> tuple[int, int]:
        """Columns and rows of the terminal."""
        try:
            size = os.get_terminal_size(self._streams.terminal[1])
        except OSError:
            return 80, 24
        return size.columns, size.lines

    def __enter__(self) -> Self:
        keys, screen = self._streams.terminal
        reader = os.fdopen(os.dup(keys), "rb", buffering=0)
        encoding = urwid.util.get_encoding()
        writer = os.fdopen(os.dup(screen), "w", encoding=encoding, errors="replace", newline="")
        self._files = reader, writer
        self._screen = _TerminalScreen(
            reader, writer, bracketed_paste_mode=True, focus_reporting=False
        )
        watchdog = watchdog_of_terminal(screen)
        with contextlib.suppress(OSError):  # no room for a temporary file: do without
            self._diversion = _Diversion(screen)
        if watchdog is not None:
            watchdog.up(self._diversion.fileno() if self._diversion is not None else None)
        if self._in_main:
            for number in signal.valid_signals() - _URWIDS:
                before = signal.getsignal(number)
                ends = number in _ENDING and _ends_process(number)
                if number == signal.SIGINT or ends or callable(before):
                    self._handlers[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        assert self._files is not None
        try:
            self.screen.stop()
        finally:
            for number, handler in self._handlers.items():
                signal.signal(number, handler if handler is not None else signal.SIG_DFL)
            self._handlers.clear()
            self._end_diversion()
            _screen_is_down()
            for file in self._files:
                with contextlib.suppress(OSError):
                    file.close()
            self._files = self._screen = None
            for number in self.waiting_signals():
                if number != signal.SIGINT:
                    signal.raise_signal(number)

    def _end_diversion(self) -> None:
        if self._diversion is not None:
            self._diversion.end()
            self._diversion = None

    def _handle(self, number: int, frame: FrameType | None) -> None:
        """A signal: at once if a command is at work, else by the loop, never amid a redraw."""
        if not self._busy:
            self._waiting.append(number)
            self.on_signal()
        elif number == signal.SIGINT:
            self._busy = False
            raise KeyboardInterrupt
        else:
            self.terminate(number)

    def waiting_signals(self) -> Iterable[int]:
        """Signals that came while no command was at work; each is returned once."""
        while self._waiting:
            yield self._waiting.pop(0)

    def terminate(self, number: int) -> None:
        """Let a signal do what it would have done; for one that ends, give the terminal back."""
        before = self._handlers[number]
        if number not in _ENDING:
            before(number, None)
            return
        self.screen.stop()
        if callable(before):
            before(number, None)
            self.screen.start()  # the program chose to live on
            return
        self._end_diversion()
        _screen_is_down()
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)

    def started(self) -> None:
        """The screen is up."""
        if self._waiting:
            self.on_signal()

    def working(self, busy: bool) -> None:
        """Tell whether a command is at work, which Ctrl-C then interrupts."""
        if self._in_main and self.screen.started:
            self.screen.interrupts(busy)
        self._busy = busy

    def write(self, text: str) -> None:
        """Send something to the terminal that draws nothing."""
        assert self._files is not None
        writer = self._files[1]
        with contextlib.suppress(OSError):
            writer.write(text)
            writer.flush()

    def run(self, command: str, lines: Iterable[str] | None = None) -> int:
        """Run a shell command on the terminal, while the screen is down."""
        assert self._files is not None
        reader, writer = self._files
        source = reader if lines is None else subprocess.PIPE
        try:
            process = subprocess.Popen(
                command, shell=True, stdin=source, stdout=writer, stderr=writer
            )
        except OSError as error:
            raise UserError(f"The shell can't be started: {error.strerror or error}.") from None
        try:
            if process.stdin is not None:
                with contextlib.suppress(BrokenPipeError), process.stdin as stdin:
                    for text in lines or ():
                        stdin.write(text.encode("utf-8", "replace"))
            return process.wait()
        finally:
            # A Ctrl-C there was meant for that command.
            self._waiting = [number for number in self._waiting if number != signal.SIGINT]

    def has_output(self) -> bool:
        """Whether the program printed something since the screen is up."""
        return self._diversion is not None and self._diversion.size > 0

    def output(self) -> str:
        """What it printed."""
        return self._diversion.text() if self._diversion is not None else ""
