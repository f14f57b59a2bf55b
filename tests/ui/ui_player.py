"""A screen without a terminal that a generator plays on: it yields keys and looks at the result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import urwid
from ui_service import SmallService
from urwid.testing import resolve_attr

from tfdbg_cli.commands.reply import Leave
from tfdbg_cli.ui.base import CommandQueue
from tfdbg_cli.ui.screen import ScreenUI

Input = str | tuple[str, int, int, int]
Script = Callable[["Player"], Iterator[list[Input]]]


def enter(text: str) -> list[Input]:
    """The keys of a command line."""
    return [*text, "enter"]


class Player(urwid.BaseScreen):
    """urwid's loop draws on it; after each redraw the script yields the next keys.

    The script ends the loop by ending, or by a command that leaves.
    """

    def __init__(self, script: Script, size: tuple[int, int]) -> None:
        super().__init__()
        self.size = size
        self.mouse = False
        self.seen: list[list[str]] = []
        self._script = script(self)
        self._idle: Any = None
        self.sent: list[str] = []
        self.programs: list[tuple[str, str | None]] = []
        self.run_program: Callable[[str], int] = lambda command: 0

    # what a script looks at

    @property
    def rows(self) -> list[str]:
        """The text of the screen now, row by row, without trailing blanks."""
        return [row.rstrip() for row in self.canvas.decoded_text]

    @property
    def page(self) -> list[str]:
        """The page without the scroll bar, on a screen with a menu or (blank first row) without."""
        return [row[:-1].rstrip() for row in self.canvas.decoded_text[2:-2]]

    @property
    def text(self) -> str:
        return "\n".join(self.rows)

    @property
    def cursor(self) -> tuple[int, int] | None:
        found: tuple[int, int] | None = self.canvas.cursor
        return found

    def attribute(self, text: str) -> str:
        """The attribute that a text is drawn in."""
        for row in self.canvas.content():
            for attribute, _charset, data in row:
                if text in data.decode():
                    return str(attribute)
        raise AssertionError(f"{text!r} is not drawn in one piece:\n{self.text}")

    def place(self, text: str) -> tuple[int, int]:
        """Column and row of a text."""
        for number, row in enumerate(self.rows):
            if text in row:
                return urwid.calc_width(row, 0, row.index(text)), number
        raise AssertionError(f"{text!r} is not on the screen:\n{self.text}")

    def click(self, text: str) -> list[Input]:
        """A click on a text."""
        column, row = self.place(text)
        return [("mouse press", 1, column, row), ("mouse release", 0, column, row)]

    def mono(self, attribute: str) -> Any:
        """What an attribute looks like on a terminal without colours."""
        from tfdbg_cli.ui.themes import THEMES

        return resolve_attr(attribute, THEMES["mono"].urwid_palette(), colors=1)

    # what urwid's loop asks of a screen

    def get_cols_rows(self) -> tuple[int, int]:
        return self.size

    def set_mouse_tracking(self, enable: bool = True) -> None:
        self.mouse = enable

    def draw_screen(self, size: tuple[int, int], canvas: urwid.Canvas) -> None:
        list(canvas.content())
        assert (canvas.cols(), canvas.rows()) == size == self.size
        for row in canvas.text:
            assert urwid.calc_width(row, 0, len(row)) == size[0]
        self.canvas = canvas
        self.seen.append(self.rows)

    def hook_event_loop(self, event_loop: Any, callback: Any) -> None:
        def feed() -> None:
            try:
                keys = next(self._script)
            except StopIteration:
                raise urwid.ExitMainLoop from None
            callback(keys, [])

        self._idle = event_loop.enter_idle(lambda: event_loop.alarm(0, feed))

    def unhook_event_loop(self, event_loop: Any) -> None:
        if self._idle is not None:
            event_loop.remove_enter_idle(self._idle)
            self._idle = None


class PlayedTerminal:
    """A terminal that is a `Player`."""

    polls_size = False

    def __init__(self, script: Script, size: tuple[int, int]) -> None:
        self.on_signal: Callable[[], None] = lambda: None
        self.screen = Player(script, size)

    def __enter__(self) -> PlayedTerminal:
        return self

    def __exit__(self, *exc: object) -> None:
        self.screen.stop()

    def size(self) -> tuple[int, int]:
        return self.screen.size

    def started(self) -> None:
        pass

    def waiting_signals(self) -> list[int]:
        return []

    def terminate(self, number: int) -> None:
        pass

    def working(self, busy: bool) -> None:
        pass

    def write(self, text: str) -> None:
        self.screen.sent.append(text)

    def run(self, command: str, lines: Iterable[str] | None = None) -> int:
        self.screen.programs.append((command, None if lines is None else "".join(lines)))
        return self.screen.run_program(command)

    def has_output(self) -> bool:
        return False

    def output(self) -> str:
        return ""


def play(
    script: Script,
    service: SmallService | None = None,
    *,
    size: tuple[int, int] = (80, 24),
    queue: CommandQueue | None = None,
) -> Leave:
    """One stop on a played screen."""
    service = service or SmallService()
    ui = ScreenUI(service.settings, open_terminal=lambda: PlayedTerminal(script, size))
    return ui.interact(service, queue if queue is not None else CommandQueue())


def play_stops(*stops: tuple[SmallService, Script], size: tuple[int, int] = (80, 24)) -> None:
    """Several stops of one UI."""
    scripts = iter([script for _, script in stops])
    settings = stops[0][0].settings
    ui = ScreenUI(settings, open_terminal=lambda: PlayedTerminal(next(scripts), size))
    for service, _ in stops:
        ui.interact(service, CommandQueue())
