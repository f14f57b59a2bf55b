"""The mouse: what clicks, drags and the wheel do."""

from __future__ import annotations

from typing import NamedTuple

from tfdbg_cli.ui.screen.input.actions import Actions
from tfdbg_cli.ui.screen.input.commander import Commander
from tfdbg_cli.ui.screen.paint.cells import Target
from tfdbg_cli.ui.screen.paint.page import thumb
from tfdbg_cli.ui.screen.view import View

__all__ = ["Pointer"]


class _Thumb(NamedTuple):
    """The thumb of a scroll bar that was taken hold of: whose, the top row, and which of it."""

    view: View
    first_row: int
    row: int


class Pointer:
    """Turns what the mouse does into actions. A second click does what the first one did.

    Args:
        app: runs commands and holds the state.
        actions: by their names.
    """

    def __init__(self, app: Commander, actions: Actions) -> None:
        self._app = app
        self._actions = actions
        self._state = app.state
        self._held: _Thumb | None = None
        # The element of a map that was taken hold of.
        self._grabbed: tuple[int, ...] | None = None

    def click(self, target: Target | None, col: int, row: int) -> None:
        """The left button went down on a target, the scroll bar, or nothing."""
        state = self._state
        state.message = None
        state.menu_at = None
        state.clicked = False
        if target is not None and target.kind == "entry" and state.palette is not None:
            state.palette.chosen = int(target.value)
            self._actions.do("palette_run")
            return
        first, behind = state.popup
        if state.palette is not None:
            if not first <= row < behind:
                self._actions.do("close_palette")
        elif target is None:
            self._click_element(col, row)
            self._click_scroll_bar(col, row)
        elif target.kind == "command":
            self._app.follow(target.value)
        elif target.kind == "action":
            self._actions.do(target.value)
        elif target.kind == "candidate" and state.prompt.completion is not None:
            state.prompt.choose(int(target.value))
            state.prompt.touch()

    def _page_at(self, col: int) -> tuple[View | None, int, int]:
        """What a column of the page belongs to, the list or its pane; where that begins."""
        view, pane = self._state.view, self._state.pane
        first = self._state.size[0] - pane.columns
        if pane.columns and col > first:
            return pane.view, first + 1, 1  # below its title
        return view, 0, 0

    def _click_element(self, col: int, row: int) -> None:
        view, first_column, _ = self._page_at(col)
        first_row, behind = self._state.areas.page
        if view is None or first_column or not first_row <= row < behind or col >= view.width - 1:
            return
        number = view.line_at(row - first_row)
        if view.top <= number < view.document.line_count:
            at = view.character_at(number, col)
            self._state.clicked = view.cursor.put_at(number, at) or view.table.put_at(number, at)
            if self._state.clicked and "drag" in view.document.turns:
                self._grabbed = view.cursor.indices

    def _click_scroll_bar(self, col: int, row: int) -> None:
        view, first_column, below = self._page_at(col)
        first_row, behind = self._state.areas.page
        first_row += below
        if view is None or col != first_column + view.width - 1 or not first_row <= row < behind:
            return
        first, length = thumb(view)
        row -= first_row
        if not length:
            return
        if row < first:
            view.scroll(-max(view.rows - 1, 1))
        elif row >= first + length:
            view.scroll(max(view.rows - 1, 1))
        else:
            self._held = _Thumb(view, first_row, row - first)
            return
        view.table.follow()

    def drag(self, col: int, row: int) -> None:
        """The scroll bar follows the mouse."""
        if self._grabbed is not None:
            self._drag_map(col, row)
        if self._held is None:
            return
        view, first_row, at = self._held
        _, length = thumb(view)
        room = view.height - length
        if length and room:
            share = (row - first_row - at) / room
            view.go_to(round(min(max(share, 0.0), 1.0) * view.last_top))
            view.table.follow()

    def release(self) -> None:
        """A button went up."""
        self._held = self._grabbed = None

    def _drag_map(self, col: int, row: int) -> None:
        """The element that was taken hold of stays under the mouse."""
        grabbed = self._grabbed
        self._click_element(col, row)
        view = self._state.view
        self._grabbed = grabbed
        now = view.cursor.indices if view is not None else None
        if now is None or grabbed is None or len(now) != len(grabbed) or now == grabbed:
            return
        down, right = ([0, *grabbed][-2] - [0, *now][-2], grabbed[-1] - now[-1])
        self._actions.elements.turn(f"drag:{down},{right}")

    def wheel(self, lines: int, columns: int, col: int, row: int) -> None:
        """The wheel turned: a list there scrolls, or the page or its pane; a map is zoomed."""
        state = self._state
        view, _, _ = self._page_at(col)
        state.message = None
        first, behind = state.popup
        if lines and first <= row < behind and (state.palette or state.prompt.completion):
            if state.palette is not None:
                self._actions.move_in_palette(lines)
            else:
                state.prompt.skip(1 if lines > 0 else -1)
        elif view is not None and view is self._state.view and "closer" in view.document.turns:
            if lines:
                self._click_element(col, row)
                self._actions.elements.turn("closer" if lines < 0 else "farther")
            if columns:
                self._actions.elements.turn("right" if columns > 0 else "left")
        elif view is not None:
            if lines:
                view.scroll(lines)
            if columns:
                view.scroll_sideways(4 * columns)
            view.table.follow()
