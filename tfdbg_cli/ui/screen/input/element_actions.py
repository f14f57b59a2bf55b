"""The actions on the elements of a tensor, as numbers, as a map, or of a curve."""

from __future__ import annotations

from collections.abc import Callable

from tfdbg_cli.commands.reply import Toast
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.ui.screen.input.commander import Commander

__all__ = ["ElementActions"]

# What turns a map, see `Document.turned`.
_MAP = {
    **{
        f"map_{way}": way
        for way in ("closer", "farther", "whole", "axes", "scale", "cells", "tiles")
    },
    **{f"map_{way}": way for way in ("left", "right", "up", "down")},
    **{
        f"map_{which}_{what}": f"{which} {what}"
        for which in ("next", "previous")
        for what in ("slice", "bad")
    },
}


class ElementActions:
    """Moves the cursor over elements, and shows them otherwise.

    Args:
        app: runs commands and holds the state.
    """

    def __init__(self, app: Commander) -> None:
        self._app = app
        self._state = app.state

    @property
    def table(self) -> dict[str, Callable[[], object]]:
        """By their names."""
        return {
            "map": lambda: self.turn("picture"),
            **{name: self._turning(way) for name, way in _MAP.items()},
            "zoom_in": self._zoom_in,
            "zoom_out": lambda: self._zoom("zoom out"),
            "zoom_earlier": lambda: self._zoom("earlier"),
            "zoom_later": lambda: self._zoom("later"),
            "to_element": self._to_element,
            "leave_element": self._leave,
            "open_element": self._open_element,
            "element_left": lambda: self._move_element("left", 0, -1),
            "element_right": lambda: self._move_element("right", 0, 1),
            "element_up": lambda: self._move_element("up", -1, 0),
            "element_down": lambda: self._move_element("down", 1, 0),
        }

    def _leave(self) -> None:
        if self._state.view is not None:
            self._state.view.cursor.clear()

    def _move_element(self, way: str, rows: int, columns: int) -> None:
        """Move the cursor; beyond the edge of a part of a map lies another part."""
        view = self._state.view
        if view is None:
            return
        is_inside = way not in view.document.turns or view.cursor.stays_on_line(columns)
        if is_inside and view.move_cursor(rows, columns):
            return
        if way in view.document.turns:
            before = view.document
            self.turn(way)
            if view.document is not before:
                view.cursor.move(rows, columns)

    def _turning(self, way: str) -> Callable[[], None]:
        return lambda: self.turn(way)

    def turn(self, way: str) -> None:
        """Show what is on the page otherwise."""
        view = self._state.view
        turns = view.document.turns if view is not None else frozenset()
        if view is None or not ("closer" in turns or way.partition(":")[0] in turns):
            self._state.message = Toast(
                "This page shows no tensor of numbers: pt NAME does. V opens the page in $PAGER.",
                "warning",
            )
            return
        try:
            with self._app.at_work():
                view.turn(way)
        except UserError as error:
            self._state.message = Toast(str(error), "warning")
        except KeyboardInterrupt:
            self._state.message = Toast("Cancelled.", "warning")

    def _to_element(self) -> None:
        view = self._state.view
        if view is None or not (view.cursor.begin() or view.table.begin()):
            text = "This page shows no elements of a tensor and no rows of a table."
            self._state.message = Toast(text, "warning")

    def _zoom(self, caption: str) -> None:
        """Do what an entry of the menu of a curve says."""
        view = self._state.view
        menu = {item.caption: item for item in view.document.menu} if view is not None else {}
        item = menu.get(caption) if "zoom in" in menu else None
        if item is None:
            self._state.message = Toast("This page shows no curve: plot draws some.", "warning")
        elif not item.enabled:
            self._state.message = Toast("There are no more runs that way.", "warning")
        else:
            self._app.follow(item.command)

    def _zoom_in(self) -> None:
        """Closer, about the cursor if there is one: what is under it has a link that does so."""
        view = self._state.view
        found = view.cursor.element() if view is not None and view.cursor else None
        if found is not None and view is not None and view.document.menu[:1]:
            links = [span.link for line in found.lines(0, 4) for span in line.spans if span.link]
            if links and view.document.menu[0].caption == "zoom in":
                self._app.follow(links[0].command)
                return
        self._zoom("zoom in")

    def _open_element(self) -> None:
        view = self._state.view
        link = view.link_under_cursor() if view is not None else None
        document = view.cursor.element() if view is not None else None
        if link is not None:
            self._app.follow(link.command)
        elif document is not None:
            self._app.push(document, "(element)")
