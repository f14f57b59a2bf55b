"""The whole screen as one urwid box widget: rows of cells, a cursor, and what a click hits."""

from __future__ import annotations

from collections.abc import Callable

import urwid

from tfdbg_cli.ui.screen.input.controls import Controls
from tfdbg_cli.ui.screen.paint.cells import Cells, canvas_of
from tfdbg_cli.ui.screen.paint.painter import paint
from tfdbg_cli.ui.screen.state import ScreenState

__all__ = ["ScreenFrame"]


# urwid's type of a size; a box widget is only ever given columns and rows.
_Size = tuple[()] | tuple[int] | tuple[int, int]


def _box(size: _Size) -> tuple[int, int]:
    if len(size) != 2:
        raise ValueError("the screen is a box widget")
    return size


class ScreenFrame(urwid.Widget):
    """One box widget for the whole screen.

    A screen of rows that are all asked for anew is simpler than a tree of widgets, leaves nothing
    stale behind, and takes a millisecond or two: what is as it was isn't painted again.
    """

    _sizing = frozenset([urwid.BOX])
    _selectable = True
    no_cache = ["render"]  # noqa: RUF012

    def __init__(
        self, state: ScreenState, controls: Controls, on_drawn: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__()
        self._on_drawn = on_drawn
        self._state = state
        self._controls = controls
        self._rows: list[Cells] = []

    def render(self, size: _Size, focus: bool = False) -> urwid.TextCanvas:
        """Paint the screen."""
        cols, rows = _box(size)
        self._state.size = (cols, rows)
        self._rows, cursor = paint(self._state)
        self._on_drawn()
        return canvas_of(self._rows, cols, cursor)

    def keypress(self, size: _Size, key: str) -> str | None:
        """Every key is the handler's."""
        self._controls.key(key)
        return None

    def mouse_event(
        self, size: _Size, event: str, button: int, col: int, row: int, focus: bool
    ) -> bool:
        """Clicks and the wheel go to what was painted there."""
        if event.endswith("mouse press"):
            if button == 1:
                inside = 0 <= row < len(self._rows)
                target = self._rows[row].target_at(col) if inside else None
                self._controls.click(target, col, row)
            elif button in {4, 5}:
                step = -3 if button == 4 else 3
                sideways = "shift" in event
                self._controls.wheel(0 if sideways else step, step if sideways else 0, col, row)
            elif button in {6, 7}:
                self._controls.wheel(0, -3 if button == 6 else 3, col, row)
        elif event.endswith("mouse drag") and button == 1:
            self._controls.drag(col, row)
        elif event.endswith("mouse release"):
            self._controls.release()
        return True
