"""The line UI, on prompt_toolkit: the same Documents, printed in colour, never repainted."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import sys
import time
from collections.abc import Iterable
from itertools import islice
from typing import Any, TextIO

from prompt_toolkit import PromptSession, print_formatted_text
from prompt_toolkit.application import Application, get_app_session
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.input import Input, create_input
from prompt_toolkit.output import ColorDepth, Output, create_output

from tfdbg_cli.commands.reply import Leave, Service, Toast
from tfdbg_cli.common.documents import Line
from tfdbg_cli.common.settings import Settings
from tfdbg_cli.common.streams import Streams
from tfdbg_cli.ui.base import CommandQueue
from tfdbg_cli.ui.hyperlinks import style_of
from tfdbg_cli.ui.inks import has_true_colour
from tfdbg_cli.ui.line.adapters import (
    HistoryAdapter,
    ServiceCompleter,
    formatted_lines,
    pager_keys,
)
from tfdbg_cli.ui.text import TextUI
from tfdbg_cli.ui.themes import Theme, choose_theme

__all__ = ["LineUI"]

_BLOCK = 64
# What asyncio needs for a loop, and one more.
_DESCRIPTORS = 4


class LineUI(TextUI):
    """Prints Documents and asks for commands, with editing, completion and history.

    Nothing is drawn over what was printed, so that screen readers and logs can follow.

    Args:
        settings: the theme is obeyed.
        color: False: no colours, whatever the theme.
        input: default: the terminal's, as prompt_toolkit finds it.
        output: default: the terminal's, as prompt_toolkit finds it.
        streams: whose terminal that is; default: those of the process as they are now.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        color: bool = True,
        input: Input | None = None,
        output: Output | None = None,
        streams: Streams | None = None,
    ) -> None:
        super().__init__()
        self._screen: TextIO | None = None
        if streams is not None and sys.platform != "win32":
            keys, screen = streams.terminal
            input = create_input(os.fdopen(keys, closefd=False))
            self._screen = os.fdopen(screen, "w", closefd=False)
            output = create_output(self._screen)
        self._streams = streams
        self._settings = settings
        self._color = color
        self._input = input
        self._given_output = output
        self._session: PromptSession[str] | None = None
        self._session_service: Service | None = None
        self._batch = False

    def close(self) -> None:
        # What a terminal that is gone has not taken: Python 3.13 prints that it can't be written.
        if self._screen is not None:
            with contextlib.suppress(OSError):
                self._screen.close()

    @property
    def interactive(self) -> bool:
        """Always: `make_ui` offers this UI only to a terminal."""
        return True

    @property
    def _output(self) -> Output:
        return self._given_output or get_app_session().output

    @property
    def _theme(self) -> Theme:
        return choose_theme(self._settings.get("theme"), color=self._color)

    @property
    def width(self) -> int:
        """The columns of the terminal, as they are now."""
        return max(self._output.get_size().columns, 1)

    @property
    def page_size(self) -> tuple[int, int] | None:
        """The terminal's size, as it is now."""
        size = self._output.get_size()
        return None if self._batch else (size.rows, max(size.columns, 1))

    def interact(self, service: Service, queue: CommandQueue) -> Leave:
        """One stop."""
        self._batch = queue.batch
        self._use(service)
        try:
            return super().interact(service, queue)
        finally:
            self._session = self._session_service = None  # they hold what the stop was about

    def execute(self, service: Service, queue: CommandQueue, command: str) -> Leave | None:
        self._batch = queue.batch
        self._use(service)
        return super().execute(service, queue, command)

    def print_lines(self, lines: Iterable[Line]) -> None:
        """Print lines."""
        rest = iter(lines)
        theme = self._theme
        depth = self._color_depth or self._output.get_default_color_depth()
        colours = 16 if depth is ColorDepth.DEPTH_4_BIT else 256
        encoding = self._output.encoding() or "utf-8"
        style = style_of(self._settings.get("hyperlinks"))
        while block := list(islice(rest, _BLOCK)):
            self._write(formatted_lines(block, theme, encoding, colours, style))

    def print_title(self, text: str, role: str) -> None:
        """Print ``--- title ---`` in the colour of the kind of stop."""
        style = self._theme.prompt_toolkit_style(f"title-{role}" if role else "heading")
        self._write(FormattedText([(style, f"--- {text} ---"), ("", "\n")]))

    def print_message(self, message: Toast) -> None:
        """Print a message; errors begin with ``ERROR:``."""
        style = self._theme.prompt_toolkit_style(message.role)
        prefix = "ERROR: " if message.role == "error" else ""
        self._write(FormattedText([(style, prefix + message.text), ("", "\n")]))

    def _write(self, text: FormattedText) -> None:
        if self._streams is not None:
            self._streams.out.flush()
        print_formatted_text(text, end="", output=self._output, color_depth=self._color_depth)

    @property
    def _color_depth(self) -> ColorDepth | None:
        if not self._theme.colors:
            return ColorDepth.DEPTH_1_BIT
        return ColorDepth.DEPTH_24_BIT if has_true_colour() else None

    def _use(self, service: Service) -> None:
        """Take history and completions from a service from now on."""
        if self._session is None or self._session_service is not service:
            self._session_service = service
            self._session = self._new_session(**self._commands_of(service))

    def _commands_of(self, service: Service) -> dict[str, Any]:
        return {
            "history": HistoryAdapter(service.history),
            "completer": ServiceCompleter(service),
            "complete_while_typing": False,
            "enable_history_search": True,
            "enable_open_in_editor": True,
        }

    def read_command(self, service: Service) -> str:
        """A command line, edited, completed, from the history."""
        self._use(service)
        assert self._session is not None
        style = self._theme.prompt_toolkit_style("prompt")
        return self._ask(self._session, FormattedText([(style, service.prompt)]))

    def read_more(self, prompt: str) -> str:
        """Space, Enter or q at once, or a command line, edited as at the prompt."""
        service = self._session_service
        commands = {} if service is None else self._commands_of(service)
        session = self._new_session(key_bindings=pager_keys(), **commands)
        style = self._theme.prompt_toolkit_style("dim")
        return self._ask(session, FormattedText([(style, prompt)]))

    def read_answer(self, prompt: str) -> str:
        """A short answer, which goes into no history."""
        return self._ask(self._new_session(), FormattedText([("", prompt)]))

    def _new_session(self, **arguments: Any) -> PromptSession[str]:
        return PromptSession(
            input=self._input, output=self._output, color_depth=self._color_depth, **arguments
        )

    def _ask(self, session: PromptSession[str], prompt: FormattedText) -> str:
        _look_for_descriptors()
        try:
            text = session.prompt(
                prompt,
                in_thread=_loop_is_running(),
                set_exception_handler=False,  # it would print on the program's stdout
                pre_run=functools.partial(_end_at_errors, session.app),
            )
        except BaseException:
            _end(session.app)  # a signal's handler has raised while its thread was waited for
            raise
        # A multi-line paste becomes one line: nothing in it runs by itself.
        return " ".join(text.split("\n"))


def _look_for_descriptors() -> None:
    """See whether asyncio can have what it needs: it prints tracebacks where it can't.

    Raises:
        OSError: there are too few.
    """
    found: list[int] = []
    try:
        while len(found) < _DESCRIPTORS:
            found += os.pipe()
    finally:
        for number in found:
            os.close(number)


def _end_at_errors(app: Application[Any]) -> None:
    """What goes wrong while a prompt waits (a terminal that can't be written to) ends it."""

    def end(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if app.is_running and isinstance(error, Exception):
            with contextlib.suppress(Exception):  # it has its answer already
                app.exit(exception=error)

    asyncio.get_running_loop().set_exception_handler(end)


def _end(app: Application[Any]) -> None:
    """Let a prompt that another thread is at come to its end, and give the terminal back."""
    while app.is_running and app.loop is not None:
        with contextlib.suppress(RuntimeError):  # it has ended in the meantime
            app.loop.call_soon_threadsafe(lambda: app.exit(exception=EOFError()))
        time.sleep(0.01)


def _loop_is_running() -> bool:
    """Whether this thread runs an asyncio loop: prompt_toolkit then needs a thread of its own."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
