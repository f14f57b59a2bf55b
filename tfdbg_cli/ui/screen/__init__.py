"""The full screen, on urwid: title, navigation, menu, a page, status line, prompt."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any

from tfdbg_cli.commands.reply import Leave, Service
from tfdbg_cli.common.settings import Settings
from tfdbg_cli.common.streams import Streams
from tfdbg_cli.ui.base import CommandQueue, UserInterface
from tfdbg_cli.ui.bindings import KeyTable
from tfdbg_cli.ui.hyperlinks import style_of
from tfdbg_cli.ui.plain import PlainUI
from tfdbg_cli.ui.screen.app import App
from tfdbg_cli.ui.screen.stack import ViewStack
from tfdbg_cli.ui.screen.terminal.progress import ProgressLine
from tfdbg_cli.ui.screen.terminal.terminal import Terminal
from tfdbg_cli.ui.themes import Theme, choose_theme

__all__ = ["ScreenUI"]

# A process has one terminal: a stop in another thread waits for the screen.
_TERMINAL = threading.RLock()


class ScreenUI(UserInterface):
    """The full-screen UI. Its screens can be gone back to from later stops.

    Args:
        settings: theme and mouse mode are obeyed now and when they change.
        color: False: no colours, whatever the theme.
        open_terminal: makes the terminal of a stop; tests have their own.
        streams: those of the process; default: as they are now.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        color: bool = True,
        open_terminal: Callable[[], Terminal] | None = None,
        streams: Streams | None = None,
    ) -> None:
        self._streams = streams = streams or Streams()
        self._settings = settings
        self._keys = KeyTable(settings.keys)
        for text in self._keys.warnings:
            settings.warn(text)
        self._was_warned = False
        self._color = color
        self._open_terminal = open_terminal or (lambda: Terminal(streams))
        self._views = ViewStack()
        self._app: App | None = None
        self._plain: PlainUI | None = None
        self._progress: ProgressLine | None = None
        settings.on_change(self._setting_changed)

    def _look(self) -> tuple[Theme, str]:
        theme = choose_theme(self._settings.get("theme"), color=self._color)
        return theme, style_of(self._settings.get("hyperlinks"))

    def _setting_changed(self, name: str, value: Any) -> None:
        if self._app is not None:
            if name == "mouse_mode":
                self._app.set_mouse(value)
            elif name in {"theme", "hyperlinks"}:
                self._app.set_look(*self._look())

    def interact(self, service: Service, queue: CommandQueue) -> Leave:
        """One stop. If queued commands end it, the terminal isn't touched at all."""
        if queue.batch:  # nobody looks at a screen
            if self._plain is None:
                self._plain = PlainUI(streams=self._streams)
            return self._plain.interact(service, queue)
        with _TERMINAL:
            if self._app is not None:
                # A command of this very stop started a run: there is no second screen for it.
                return _let_go(service)
            terminal = self._open_terminal()
            mouse = self._settings.get("mouse_mode")
            self._views.begin_stop(_run_of(service.title))
            app = App(service, queue, self._views, mouse, terminal.size(), self._keys, self.pdb)
            self._app = app
            try:
                app.run_queue()
                if app.leave is None:
                    if not self._was_warned:
                        self._was_warned = True
                        app.warn(self._settings.warning)
                    with terminal:
                        app.run_loop(terminal, *self._look())
            finally:
                self._app = None
                self._views.end_stop()
            return app.leave if app.leave is not None else _let_go(service)

    @property
    def takes_interrupts(self) -> bool:
        """Always: somebody is at the screen."""
        return True

    def running(self, describe: Callable[[], str], announcement: str = "") -> None:
        """Show how far the program is in the last row, above which it prints as it likes."""
        if self._app is None and self._progress is None:
            self._progress = ProgressLine(describe, self._streams.terminal[1])

    def refresh_progress(self) -> None:
        """Draw the last row again."""
        if self._progress is not None:
            self._progress.refresh()

    def stopped(self) -> None:
        """Give the last row back."""
        progress, self._progress = self._progress, None
        if progress is not None:
            progress.end()


def _run_of(title: str) -> str:
    """Which run a stop is about, by its title: ``run #3``; empty where it doesn't say."""
    found = re.search(r"\brun #\d+", title)
    return found[0] if found else ""


def _let_go(service: Service) -> Leave:
    reply = service.run("exit --detach")
    return reply.leave if reply.leave is not None else Leave(None)
