"""One stop on the full screen: runs commands and urwid's loop."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import urwid
from urwid.display import raw

from tfdbg_cli.commands.reply import Leave, Reply, Service, Toast, UiRequest
from tfdbg_cli.common.documents import Document, ElementStep
from tfdbg_cli.common.errors import UserError, compile_regex
from tfdbg_cli.common.interpreter.garbage import collector_paused
from tfdbg_cli.ui.base import CommandQueue
from tfdbg_cli.ui.bindings import KeyTable
from tfdbg_cli.ui.screen.input.commander import Commander
from tfdbg_cli.ui.screen.input.controls import Controls
from tfdbg_cli.ui.screen.jobs import FilteredDocument, matching_steps
from tfdbg_cli.ui.screen.paint.frame import ScreenFrame
from tfdbg_cli.ui.screen.panes import PaneWork
from tfdbg_cli.ui.screen.stack import ViewStack
from tfdbg_cli.ui.screen.state import ScreenState, areas_for
from tfdbg_cli.ui.screen.terminal.outside import clipboard_sequence, edited, pager_command, to_tmux
from tfdbg_cli.ui.screen.terminal.terminal import Terminal
from tfdbg_cli.ui.screen.view import FoundLine, View
from tfdbg_cli.ui.screen.work import Work
from tfdbg_cli.ui.text import parse_indices
from tfdbg_cli.ui.themes import Theme

__all__ = ["App"]

# How often the size is looked at where no signal tells of a new one.
_POLL_SECONDS = 0.5

# Lines above the first element of a tensor, at most.
_HEADER_LINES = 200

# How often a page whose values are still computed is drawn again.
_REFRESH_SECONDS = 0.2


class _Loop(urwid.MainLoop):
    """urwid's, in which the garbage collector waits while a screen is drawn.

    A screen is thousands of small objects, none of them garbage before the next one is drawn; and
    the program that is debugged may have millions that would be gone through for them.
    """

    def draw_screen(self) -> None:
        """Draw the screen."""
        with collector_paused():
            super().draw_screen()


class App(Commander):
    """Runs commands, applies their Replies to the state, and keeps the screen up.

    Args:
        service: runs the commands.
        queue: commands given beforehand.
        views: the screens so far; new ones are pushed.
        mouse: whether the mouse is taken.
        size: columns and rows of the terminal.
        keys: what the keys do; default: as the table says.
        pdb: opens Python's debugger on the terminal; ``None``: there is nothing for it.
    """

    def __init__(
        self,
        service: Service,
        queue: CommandQueue,
        views: ViewStack,
        mouse: bool,
        size: tuple[int, int],
        keys: KeyTable | None = None,
        pdb: Callable[[], None] | None = None,
    ) -> None:
        self.state = ScreenState(service, views, size, mouse, keys or KeyTable())
        self.leave: Leave | None = None
        self._queue = queue
        self._pdb = pdb
        self._controls = Controls(self)
        self._loop: urwid.MainLoop | None = None
        self._terminal: Terminal | None = None
        self._colors: Any = 1
        self._was_pending = self._redraws = False
        self._work = Work(self.state, self.at_work)
        self._panes = PaneWork(self.state, self.at_work)

    # -- running

    def warn(self, text: str) -> None:
        """Say something when the screen comes up, unless there is something to say already."""
        if self.state.message is None and text:
            self.state.message = Toast(text, "warning")

    def run_queue(self) -> None:
        """The first screen and the queued commands, as far as nobody has to be asked."""
        if self.state.service.initial_command:
            self.execute(self.state.service.initial_command)
        self.drain_queue()

    def drain_queue(self) -> None:
        """Run queued commands until one leaves or asks."""
        while self.leave is None and self.state.question is None:
            command = self._queue.take()
            if command is None:
                return
            if not self._queue.is_nested:
                command = self.state.service.history.play(command)
            reply = self.execute(command)
            if reply is None:  # interrupted: the user wants to have a say
                return
            if reply.failed:
                self._queue.failed = True

    def run_loop(self, terminal: Terminal, theme: Theme, hyperlinks: str) -> None:
        """Show the screen until a command gives control back."""
        screen = terminal.screen
        self._colors = getattr(screen, "colors", 1)
        loop = _Loop(
            ScreenFrame(self.state, self._controls, self._drawn),
            screen=screen,
            handle_mouse=self.state.mouse,
        )
        self._loop = self._work.loop = self._panes.loop = loop
        self._terminal = terminal
        self.set_look(theme, hyperlinks)
        loop.event_loop.alarm(0, terminal.started)
        if terminal.polls_size:
            loop.event_loop.alarm(_POLL_SECONDS, self._poll_size)
        wake = loop.watch_pipe(self._signalled)
        os.set_blocking(wake, False)

        def on_signal() -> None:
            with contextlib.suppress(BlockingIOError):  # full: it has been told often enough
                os.write(wake, b"s")

        before, terminal.on_signal = terminal.on_signal, on_signal
        try:
            loop.run()
        finally:
            self._loop = self._work.loop = self._panes.loop = self._terminal = None
            terminal.on_signal = before
            loop.remove_watch_pipe(wake)
            os.close(wake)

    def _signalled(self, _data: bytes) -> None:
        """Signals wait for the loop."""
        try:
            self._take_signals()
        except KeyboardInterrupt:
            self._controls.do("cancel")

    def _take_signals(self) -> None:
        terminal = self._terminal
        if terminal is None:
            return
        for number in terminal.waiting_signals():
            if number == signal.SIGINT:
                raise KeyboardInterrupt
            terminal.terminate(number)

    def _drawn(self) -> None:
        """If something drawn was still computed, draw again soon; else leave the line alone."""
        loop, view = self._loop, self.state.view
        self._panes.drawn()
        views = (view, self.state.pane.view if self.state.pane.columns else None)
        pending = any(each is not None and each.document.pending for each in views)
        if loop is not None and not self._redraws and (pending or self._was_pending):
            self._redraws = True  # urwid itself draws after every alarm
            loop.event_loop.alarm(_REFRESH_SECONDS, self._redrawn)
        self._was_pending = pending

    def _redrawn(self) -> None:
        self._redraws = False

    def _poll_size(self) -> None:
        """Where no SIGWINCH can be had: look for a new size now and then."""
        loop = self._loop
        if loop is None:
            return
        if loop.screen_size and loop.screen.get_cols_rows() != loop.screen_size:
            loop.screen.clear()
            loop.screen_size = None
        loop.event_loop.alarm(_POLL_SECONDS, self._poll_size)

    def set_look(self, theme: Theme, hyperlinks: str) -> None:
        """Use other colours, and links of the terminal's own, at once."""
        if self._loop is not None:
            self.state.hyperlinks = hyperlinks
            screen = self._loop.screen
            self.state.colors = self._colors if theme.colors else 1
            if isinstance(screen, raw.Screen):
                screen.set_terminal_properties(
                    colors=self._colors if theme.colors else 1, hyperlinks=bool(hyperlinks)
                )
            screen.register_palette(theme.urwid_palette())
            screen.clear()

    def set_mouse(self, on: bool) -> None:
        self.state.mouse = on
        if self._loop is not None:
            self._loop.handle_mouse = on
            self._loop.screen.set_mouse_tracking(on)

    def copy(self, text: str) -> None:
        try:
            sequence = clipboard_sequence(text)
        except UserError as error:
            self.state.message = Toast(str(error), "error")
            return
        if not to_tmux(text) and self._terminal is not None:
            self._terminal.write(sequence)
        lines = text.count("\n") + 1
        what = f'"{text}"' if lines == 1 and len(text) <= 60 else f"{lines} line(s)"
        self.state.message = Toast(f"Copied {what}.", "success")

    def show_in_pager(self) -> None:
        view = self.state.view
        if view is not None:
            command = pager_command()
            status = self._run_outside(command, (made.text + "\n" for made in view.document))
            if status:
                self.state.message = Toast(f"{command} ended with status {status}.", "error")

    def edit(self, text: str) -> str:
        """A command line, after the user has edited it with ``$EDITOR``.

        Raises:
            UserError: that failed.
        """
        return edited(text, self._run_outside)

    def _run_outside(self, command: str, lines: Iterable[str] | None = None) -> int:
        """Run a shell command on the terminal, and come back."""
        if self._terminal is None or self._loop is None:
            return 1
        with self._loop.paused():
            status = self._terminal.run(command, lines)
        self.redraw()
        return status

    def redraw(self) -> None:
        if self._loop is not None:
            self._loop.screen.clear()

    def program_output(self) -> str:
        return self._terminal.output() if self._terminal is not None else ""

    # -- commands

    def execute(self, text: str) -> Reply | None:
        self.state.message, self.state.details = Toast("Processing…"), ()
        self.state.question = self.state.menu_at = self.state.palette = None
        self._work.drop()
        self.state.pane.forget()
        if self._loop is not None:
            self._loop.draw_screen()
        try:
            with self.at_work():
                reply = self.state.service.run(text, max(self.state.size[0] - 1, 1))
                reply = self._queue.accept(reply)
                self.state.message = None
                self.apply(reply)
        except KeyboardInterrupt:
            self._queue.abandon()
            self.state.message = Toast("Cancelled.", "warning")
            return None
        if self._terminal is not None:
            self.state.program_printed = self._terminal.has_output()
        if self.leave is not None and self._loop is not None:
            raise urwid.ExitMainLoop
        return reply

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        terminal = self._terminal
        if terminal is None:
            yield
            return
        terminal.working(True)
        try:
            self._take_signals()  # one that came just before would wait until the end
            yield
        finally:
            terminal.working(False)

    def apply(self, reply: Reply) -> None:
        """Do what a Reply says."""
        self.state.details = reply.details
        if reply.document is not None:
            self.push(reply.document, reply.command)
        if reply.request is not None:
            self._request(reply.request)
        if reply.message is not None:
            self.state.message = reply.message
        self.state.question = reply.question
        self.leave = reply.leave

    def push(self, document: Document, command: str, *, once: bool = False) -> None:
        """Show a Document as a new screen.

        Args:
            document: what is shown.
            command: what made it.
            once: there is only one screen of that command; the new one replaces it.
        """
        height = areas_for(self.state.size[1], bool(document.menu)).page_height
        role = document.title_role or self.state.service.title_role
        title = document.title or self.state.service.title
        view = View(document, command, title, role, (self.state.size[0], max(height, 0)))
        if once:
            self.state.views.show(view)
        else:
            self.state.views.push(view)
        self.state.menu_at = None
        view.steps = document.steps
        if document.initial_element is not None:
            with contextlib.suppress(UserError):
                view.cursor.go_to(document.initial_element)
        elif self.state.pane.is_on:
            view.table.begin()
        if document.steps and document.initial_search:
            self.search("", 1)
        elif document.initial_search:
            with contextlib.suppress(UserError):
                # What stands above the elements is not what is looked for.
                lines = range(min(document.line_count, _HEADER_LINES))
                first = next((number for number in lines if document.cells(number)), None)
                self.search(document.initial_search, 1, first)

    def _request(self, request: UiRequest) -> None:
        try:
            if request.name == "prev":
                self.move_screen(-1)
            elif request.name == "next":
                self.move_screen(1)
            elif request.name == "search":
                self.search(request.argument, 1)
            elif request.name == "filter":
                self.narrow(request.argument)
            elif request.name == "scroll":
                self._show_element(request.argument)
            elif request.name == "mouse":
                self._mouse_request(request.argument)
            elif request.name == "pdb":
                self._ask_python()
            elif request.name == "keys":
                self.push(self.state.keys.document(self.state.size[0] - 2), "(keys)", once=True)
            elif request.name == "link":
                raise UserError("The full screen shows its links.", "Tab and Enter follow them.")
        except UserError as error:
            self.state.message = Toast(str(error), "error")

    def _ask_python(self) -> None:
        if self._pdb is None:
            raise UserError("There is no traceback for pdb at this stop.")
        if self._loop is None:  # the screen isn't up yet
            self._pdb()
            return
        with self._loop.paused():
            self._pdb()
        self.redraw()

    def _mouse_request(self, argument: str) -> None:
        if argument:
            if argument not in {"on", "off"}:
                raise UserError(f'"{argument}" is not a mouse mode.', "Use mouse on or mouse off.")
            self.set_mouse(argument == "on")
        hint = "Shift+drag selects text" if self.state.mouse else "drag selects text"
        self.state.message = Toast(f"Mouse mode: {'on' if self.state.mouse else 'off'} ({hint}).")

    def move_screen(self, step: int) -> None:
        self._work.drop()
        if not self.state.views.move(step):
            which = "first" if step < 0 else "last"
            self.state.message = Toast(f"This is the {which} screen.", "warning")

    def _show_element(self, argument: str) -> None:
        view = self.state.view
        if view is None:
            raise UserError("There is no screen yet.")
        indices = parse_indices(argument)
        at = view.document.locate(indices)
        view.mark = at
        view.show(at)
        view.cursor.go_to(indices)

    def search(self, regex: str, direction: int, first: int | None = None) -> None:
        """Go to a match of a regular expression; an empty one stands for the last.

        Args:
            regex: the expression.
            direction: 1 downwards, -1 upwards.
            first: the line to begin at; default: after the last match, or the top of the page.

        Raises:
            UserError: it is none, or nothing matches.
        """
        view = self.state.view
        if view is None:
            raise UserError("There is no screen yet.")
        if not regex and view.steps:
            step = view.step(direction)
            parts = [view.cursor.text(), f"{view.steps} {step.number} of {step.total}"]
            self.state.message = Toast("   ".join(filter(None, parts)) + _turned(step, direction))
            return
        if not regex and view.pattern is not None and view.cursor.step(view.pattern, direction):
            self.state.message = Toast(f"{view.cursor.text()}   /{view.pattern.pattern}")
            return
        steps = view.search(compile_regex(regex) if regex else None, direction, first)

        def done(hit: Any) -> None:
            found = view.show_hit(hit, direction)
            shown = view.pattern.pattern if view.pattern is not None else regex
            if found is None:
                raise UserError(f'Nothing matches "{shown}".')
            text = f"/{shown}: line {found.line + 1}"
            if found.total:
                text += f", matching line {found.number} of {found.total}"
            text += _turned(found, direction)
            if element := view.cursor.text():
                text = f"{element}   {text}"
            self.state.message = Toast(text + ".")

        self._work.start(steps, "Searching", done)

    def narrow(self, regex: str) -> None:
        """Show only the lines that match; an empty regular expression: all of them again.

        Raises:
            UserError: it is none, or nothing matches.
        """
        view = self.state.view
        if view is None:
            raise UserError("There is no screen yet.")
        whole = view.document
        while isinstance(whole, FilteredDocument):
            whole = whole.whole
        if not regex:
            view.narrow(whole)
            return

        def done(document: Any) -> None:
            if not document.line_count:
                raise UserError(f'Nothing matches "{regex}".')
            view.narrow(document)

        self._work.start(matching_steps(whole, compile_regex(regex)), "Filtering", done)

    def cancel_work(self) -> bool:
        return self._work.cancel()


def _turned(found: FoundLine | ElementStep, direction: int) -> str:
    """What is said of a search that went on at the other end."""
    if not found.wrapped:
        return ""
    return "; the search went on at the " + ("top" if direction > 0 else "bottom")
