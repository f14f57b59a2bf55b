"""The actions on the rows and columns of a table: each writes a command line and runs it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from tfdbg_cli.commands.preview import row_subject
from tfdbg_cli.commands.reply import Toast
from tfdbg_cli.commands.shell.parsing import quoted
from tfdbg_cli.common.documents import Link
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.ui.screen.input.commander import Commander
from tfdbg_cli.ui.screen.input.table import TableCursor
from tfdbg_cli.ui.screen.view import View

__all__ = ["TableActions"]


class TableActions:
    """Moves the cursor in a table, and has done what is asked for there.

    Args:
        app: runs commands and holds the state.
    """

    def __init__(self, app: Commander) -> None:
        self._app = app
        self._state = app.state
        #: The key that was pressed, for the action of several letters.
        self.key = ""

    @property
    def table(self) -> dict[str, Callable[[], object]]:
        """By their names."""

        def moving(move: Callable[[TableCursor], object]) -> Callable[[], None]:
            def moved() -> None:
                view = self._view()
                if view is not None:
                    move(view.table)

            return moved

        def doing(verb: str) -> Callable[[], object]:
            return lambda: self._do(verb)

        return {
            "row_down": moving(lambda cursor: cursor.move(1)),
            "row_up": moving(lambda cursor: cursor.move(-1)),
            "first_row": moving(lambda cursor: cursor.move_to_end(-1)),
            "last_row": moving(lambda cursor: cursor.move_to_end(1)),
            "column_left": moving(lambda cursor: cursor.move_column(-1)),
            "column_right": moving(lambda cursor: cursor.move_column(1)),
            "first_column": moving(lambda cursor: cursor.move_column(-(1 << 20))),
            "last_column": moving(lambda cursor: cursor.move_column(1 << 20)),
            "leave_table": moving(lambda cursor: cursor.clear()),
            "open_row": self._open,
            "sort_up": doing("sort"),
            "sort_down": doing("sort-down"),
            "turn_round": doing("turn"),
            "sort_by_letter": self._sort_by_letter,
            "hide_column": doing("hide"),
            "widen_column": doing("width"),
            "freeze_column": doing("freeze"),
            "filter_cell": doing("filter"),
            "select_row": self._select,
            "select_like": doing("select-like"),
            "only_selected": self._only_selected,
            "select_none": doing("unselect"),
            "pane_down": lambda: self._state.pane.scroll(0.5),
            "pane_up": lambda: self._state.pane.scroll(-0.5),
            "next_pane": self._next_pane,
        }

    def follow(self, command: str) -> None:
        """Run a command line of a key: ``{}`` in it is what the row under the cursor is about.

        On the page, a list that it leads to has the cursor at once, so that the keys of a row hold.
        """
        view = self._state.view
        if "{}" in command:
            on_row = self._view()
            if on_row is None:
                return
            row = on_row.table.line
            name = row_subject(row)[0] if row is not None else ""
            if not name:
                self._state.message = Toast("This row is about no tensor or node.", "warning")
                return
            command = command.replace("{}", quoted(name))
        self._app.follow(command)
        made = self._state.view
        is_new = made is not None and made is not view and made.document.kind != "verdict"
        if made is not None and is_new and self._state.page_mode:
            made.table.begin()

    def _next_pane(self) -> None:
        """Show something else beside lists; the cursor in the list says of which row."""
        kind, view = self._state.pane.next_kind(), self._state.view
        text = f"Beside lists: {kind} of the row (config set pane {kind})."
        if kind == "off":
            text = "Beside lists: nothing (config set pane off)."
        elif view is not None and view.document.tables:
            self._state.page_mode = view.table.begin()
            if not self._state.pane.lay_out(view, *self._room()):
                text += " It takes a terminal of 100 columns."
        self._state.message = Toast(text)

    def _room(self) -> tuple[int, int]:
        return self._state.size[0], self._state.areas.page_height

    def _view(self) -> View | None:
        """The view, with a cursor in its table; ``None``: it has no table on the page."""
        view = self._state.view
        if view is not None and view.table.begin():
            return view
        self._state.message = Toast("This page shows no rows of a table.", "warning")
        return None

    def _open(self) -> None:
        """Follow the link of the cell, else the first one of the row."""
        view = self._view()
        row, cell = (view.table.row, view.table.field) if view is not None else (None, None)
        if view is None or row is None:
            return
        places = view.links(row, row + 1)
        made, first = view.lines(row, row + 1), None
        for place in places:
            start = sum(len(span.text) for span in made[0].spans[: place.first_span])
            if cell is not None and cell.start <= start < cell.stop:
                first = first or place
        first = first or next(iter(places), None)
        if first is not None:
            self._app.follow(first.command)
        else:
            self._state.message = Toast("This row has no link.", "warning")

    def _do(self, verb: str) -> bool:
        """Run the command line of a verb, show it, and keep the cursor where it is."""
        view = self._view()
        if view is None:
            return False
        try:
            command = Link(view.table.command(verb)).command
        except UserError as error:
            self._state.message = Toast(str(error), "error")
            return False
        place = view.table.place
        reply = self._app.run(self._state.service.history.add(command))
        if reply is None or reply.failed:
            return False
        now = self._state.view
        if now is not None and (now is not view or not now.table):
            now.table.restore(place)
        said = self._state.message
        text = command if said is None else f"{command}: {said.text}"
        self._state.message = Toast(text, "info" if said is None else said.role)
        return True

    def _sort_by_letter(self) -> None:
        view = self._view()
        if view is None:
            return
        before = view.table.field
        if not view.table.move_to_head(self.key):
            text = f'No head of a column begins with "{self.key}".'
            self._state.message = Toast(text, "warning")
            return
        found = view.table.field
        # The same column again: the other order.
        is_again = found == before and found is not None and f"-s {found.column}" in view.command
        self._do("turn" if is_again else "sort")

    def _only_selected(self) -> None:
        """The selected rows; one alone is compared with that under the cursor."""
        view = self._view()
        if view is None:
            return
        with contextlib.suppress(UserError):
            view.table.command("join")  # fails unless one other row is selected
            self._do("join")
        self._do("selected")

    def _select(self) -> None:
        if self._do("select"):
            view = self._state.view
            if view is not None:
                view.table.move(1)
