"""The actions of the key table: what each does to the screen."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from tfdbg_cli.commands.reply import Toast
from tfdbg_cli.common.documents import TextDocument, line
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.ui.bindings import COMMAND
from tfdbg_cli.ui.screen.input.commander import Commander
from tfdbg_cli.ui.screen.input.editor import HistoryMatch, LineEditor
from tfdbg_cli.ui.screen.input.element_actions import ElementActions
from tfdbg_cli.ui.screen.input.palette import palette_of
from tfdbg_cli.ui.screen.input.places import page_places, places
from tfdbg_cli.ui.screen.input.table_actions import TableActions
from tfdbg_cli.ui.screen.view import View

__all__ = ["Actions"]

_EDITS = (
    "cursor_left",
    "cursor_right",
    "word_left",
    "word_right",
    "line_start",
    "line_end",
    "delete_left",
    "delete_right",
    "kill_word_left",
    "kill_word_right",
    "kill_to_start",
    "kill_to_end",
    "yank",
)

# So far the page keys move in a list.
_LIST_PAGE = 8


class Actions:
    """Does what the key table calls by a name.

    Args:
        app: runs commands and holds the state.

    Attributes:
        elements: those on the elements of a tensor.
    """

    def __init__(self, app: Commander) -> None:
        self._app = app
        self.state = app.state
        self._came_from_page = False
        self._rows = TableActions(app)
        self.elements = ElementActions(app)
        self._table = self._make_table()

    @property
    def names(self) -> frozenset[str]:
        """All actions."""
        return frozenset(self._table)

    def do(self, action: str, key: str = "") -> None:
        """Do an action, or run the command line behind ``command:``.

        Args:
            action: its name.
            key: that was pressed for it.
        """
        self._rows.key = key
        if action.startswith(COMMAND):
            self._rows.follow(action.removeprefix(COMMAND).strip())
        else:
            self._table[action]()

    def _make_table(self) -> dict[str, Callable[[], object]]:
        return {
            "nothing": lambda: None,
            **{name: self._edit(name) for name in _EDITS},
            **self._prompt_actions(),
            **self._page_actions(),
            **self._palette_actions(),
            **self.elements.table,
            **self._rows.table,
            "previous_screen": lambda: self._app.move_screen(-1),
            "next_screen": lambda: self._app.move_screen(1),
            "open_menu": self._open_menu,
            "close_menu": self._close_menu,
            "menu_left": lambda: self._move_in_menu(-1),
            "menu_right": lambda: self._move_in_menu(1),
            "menu_run": self._run_menu,
            "show_keys": self._show_keys,
            "close_help": self._close_help,
            "close_pane": self._close_pane,
            "show_details": self._show_details,
            "show_output": self._show_output,
            "show_in_pager": self._app.show_in_pager,
            "redraw": self._app.redraw,
            "copy": self._copy,
            "copy_page": self._copy_page,
            "toggle_mouse": self._toggle_mouse,
            "cancel": self._cancel,
            "leave": lambda: self._app.execute("exit"),
        }

    # -- the line that is typed

    def _edit(self, name: str) -> Callable[[], None]:
        def edit() -> None:
            palette = self.state.palette
            change: Callable[[], None] = getattr(self._line, name)
            change()
            if palette is not None:
                palette.touch()
            elif name in {"delete_left", "delete_right"}:
                self._typed()
            else:
                self.state.prompt.touch()

        return edit

    @property
    def _line(self) -> LineEditor:
        palette = self.state.palette
        return self.state.prompt.line if palette is None else palette.line

    def type(self, letter: str) -> None:
        """A letter was typed."""
        prompt = self.state.prompt
        if self.state.palette is None and prompt.is_searching:
            self._recalled(prompt.search_for(self.state.service.history, letter))
            return
        self._line.insert(letter)
        if self.state.palette is not None:
            self.state.palette.touch()
        else:
            self._typed()

    def _typed(self) -> None:
        """The word at the prompt has changed: an open list of completions follows it."""
        prompt = self.state.prompt
        if prompt.completion is None or prompt.chosen >= 0:
            prompt.touch()
        else:
            prompt.narrow(self.state.service.complete(prompt.line.text, prompt.line.cursor))

    def _prompt_actions(self) -> dict[str, Callable[[], object]]:
        prompt, history = self.state.prompt, self.state.service.history
        return {
            "submit": self._submit,
            "complete": self._complete,
            "next_candidate": lambda: prompt.cycle(1),
            "previous_candidate": lambda: prompt.cycle(-1),
            "candidates_down": lambda: prompt.skip(_LIST_PAGE),
            "candidates_up": lambda: prompt.skip(-_LIST_PAGE),
            "accept_candidate": self._accept,
            "close_candidates": prompt.touch,
            "history_back": lambda: prompt.move_in_history(history, 1),
            "to_rows": self._to_rows,
            "history_forward": lambda: prompt.move_in_history(history, -1),
            "history_search": self._search_history,
            "history_search_less": self._search_less,
            "history_search_leave": prompt.leave_search,
            "edit_line": self._edit_line,
            "to_page": self._to_page,
            "to_prompt": self._to_prompt,
        }

    def _to_rows(self) -> None:
        """From the empty prompt into the list above it; elsewhere there is only the history."""
        view = self.state.view
        if view is not None and view.document.tables and view.table.begin():
            self._to_page()
        else:
            self.state.prompt.move_in_history(self.state.service.history, -1)

    def _submit(self) -> None:
        text = self.state.prompt.line.text.lstrip()
        if not text.startswith(("/", "&")):  # a blank at the end of a regular expression counts
            text = text.rstrip()
        self.state.prompt.clear()
        # A search that was begun on the page goes on there.
        self.state.page_mode = self._came_from_page and text.startswith(("/", "&", "@"))
        self._came_from_page = False
        if text:
            self._app.run(self.state.service.history.add(text))

    def _complete(self) -> None:
        prompt = self.state.prompt
        if not prompt.offer(self.state.service.complete(prompt.line.text, prompt.line.cursor)):
            self.state.message = Toast("Nothing completes this.", "warning")

    def _accept(self) -> None:
        if self.state.prompt.chosen >= 0:
            self.state.prompt.touch()
        else:
            self._submit()

    def _search_history(self) -> None:
        self._recalled(self.state.prompt.search_history(self.state.service.history), "other ")

    def _search_less(self) -> None:
        self._recalled(self.state.prompt.search_for(self.state.service.history, ""))

    def _recalled(self, found: HistoryMatch | None, other: str = "") -> None:
        """Say what the search of the history has put into the line."""
        if found is None:
            self.state.message = Toast(f"No {other}command contains this.", "warning")
            return
        text = f"{found.number} of {found.total} former commands"
        if found.typed:
            text += f' that contain "{found.typed}"'
        self.state.message = Toast(f"{text}. Enter runs it, Esc gives it up.")

    def _edit_line(self) -> None:
        prompt = self.state.prompt
        try:
            prompt.line.set(self._app.edit(prompt.line.text))
        except (UserError, OSError) as error:
            self.state.message = Toast(str(error), "error")
        self.state.page_mode = False
        prompt.touch()

    def _to_page(self) -> None:
        self.state.page_mode = True

    def _to_prompt(self) -> None:
        self.state.page_mode = False

    def _begin(self, text: str) -> None:
        """Begin a line at the prompt; from the page, that is where Enter leads back to."""
        self._came_from_page = self.state.page_mode
        self.state.page_mode = False
        self.state.prompt.line.set(text)
        self.state.prompt.touch()

    # -- the page

    def _page_actions(self) -> dict[str, Callable[[], object]]:
        def on_view(move: Callable[[View], object]) -> Callable[[], None]:
            def moved() -> None:
                if self.state.view is not None:
                    move(self.state.view)

            return moved

        return {
            "type_search": lambda: self._begin("/"),
            "type_filter": lambda: self._begin("&"),
            "type_element": lambda: self._begin("@"),
            "line_down": on_view(lambda view: view.scroll(1)),
            "line_up": on_view(lambda view: view.scroll(-1)),
            "page_down": on_view(lambda view: view.scroll(max(view.rows - 1, 1))),
            "page_up": on_view(lambda view: view.scroll(-max(view.rows - 1, 1))),
            "half_page_down": on_view(lambda view: view.scroll(max(view.height // 2, 1))),
            "half_page_up": on_view(lambda view: view.scroll(-max(view.height // 2, 1))),
            "top": on_view(lambda view: view.go_to(0)),
            "bottom": on_view(lambda view: view.go_to(view.last_top)),
            "scroll_left": on_view(lambda view: view.scroll_sideways(-max(view.width // 2, 1))),
            "scroll_right": on_view(lambda view: view.scroll_sideways(max(view.width // 2, 1))),
            "scroll_home": on_view(lambda view: view.scroll_sideways(-view.left)),
            "search_next": lambda: self._search_again(1),
            "search_previous": lambda: self._search_again(-1),
            "next_bad": lambda: self._step_bad(1),
            "previous_bad": lambda: self._step_bad(-1),
            "fold": self._fold,
            "next_link": lambda: self._move_link(1),
            "previous_link": lambda: self._move_link(-1),
            "follow_link": self._follow_link,
        }

    def _search_again(self, direction: int) -> None:
        try:
            with self._app.at_work():
                self._app.search("", direction)
        except UserError as error:
            self.state.message = Toast(str(error), "error")
        except KeyboardInterrupt:
            self.state.message = Toast("Cancelled.", "warning")

    def _step_bad(self, direction: int) -> None:
        """As the next match, whatever was searched for."""
        view = self.state.view
        if view is None or not view.document.steps:
            self.state.message = Toast("This page shows no bad elements or lines.", "warning")
            return
        view.steps = view.document.steps
        self._search_again(direction)

    def _fold(self) -> None:
        """Open the menu's other view of a source file, at the line that is on top."""
        view = self.state.view
        items = view.document.menu if view is not None else ()
        found = next((item for item in items if item.caption in {"fold", "unfold"}), None)
        if view is None or found is None:
            self.state.message = Toast("There is nothing to fold on this page.", "warning")
            return
        visible = (made.indices for made in view.visible())
        place = next((indices[0] for indices in visible if indices is not None), None)
        self._app.follow(found.command)
        other = self.state.view
        if other is not None and other is not view and place is not None:
            with contextlib.suppress(UserError):
                other.go_to(other.document.locate(place))

    def _move_link(self, step: int) -> None:
        view = self.state.view
        if view is not None and not view.move_link(step):
            self.state.message = Toast("No more links that way.", "warning")

    def _follow_link(self) -> None:
        view = self.state.view
        place = view.focused_link() if view is not None else None
        if place is not None:
            self._app.follow(place.command)
        elif self.state.page_mode:
            self.state.message = Toast("No link has the focus: Tab moves to one.")

    def _copy(self) -> None:
        """Copy what has the focus: an element, a link's text, else the line on top."""
        view = self.state.view
        if view is None:
            return
        place = view.focused_link()
        if view.cursor:
            text = view.cursor.text()
            text = text.partition(" = ")[2] or text
        elif place is not None:
            spans = view.lines(place.line, place.line + 1)[0].spans
            text = "".join(span.text for span in spans[place.first_span : place.last_span + 1])
        else:
            at = view.match if view.match is not None else view.top
            text = "".join(made.text for made in view.lines(at, at + 1))
        self._app.copy(text.strip())

    def _copy_page(self) -> None:
        view = self.state.view
        if view is not None:
            self._app.copy("\n".join(made.text for made in view.visible()))

    # -- the list of commands

    def _palette_actions(self) -> dict[str, Callable[[], object]]:
        return {
            "open_palette": self._open_palette,
            "close_palette": self._close_palette,
            "palette_down": lambda: self.move_in_palette(1, around=True),
            "palette_up": lambda: self.move_in_palette(-1, around=True),
            "palette_page_down": lambda: self.move_in_palette(_LIST_PAGE),
            "palette_page_up": lambda: self.move_in_palette(-_LIST_PAGE),
            "palette_run": self._run_palette,
        }

    def _open_palette(self) -> None:
        self.state.prompt.touch()
        self.state.menu_at = None
        self.state.palette = palette_of(self.state)

    def _close_palette(self) -> None:
        self.state.palette = None

    def move_in_palette(self, step: int, *, around: bool = False) -> None:
        """Choose another entry."""
        if self.state.palette is not None:
            self.state.palette.move(step, around=around)

    def _run_palette(self) -> None:
        """Do what the chosen entry says; what is no whole command goes to the prompt."""
        palette = self.state.palette
        entry = palette.current if palette is not None else None
        if entry is None:
            return
        self.state.palette = None
        if entry.kind == "action":
            self.do(entry.value)
        elif entry.needs_more:
            self._begin(entry.value + " ")
        elif entry.kind in {"menu", "link"}:
            self._app.follow(entry.value)
        else:
            reply = self._app.run(self.state.service.history.add(entry.value))
            if entry.kind == "command" and reply is not None and reply.failed:
                self._begin(entry.value + " ")  # it does need more

    # -- the menu

    def _open_menu(self) -> None:
        view = self.state.view
        if view is None or not any(item.enabled for item in view.document.menu):
            self.state.message = Toast("This screen has no menu.", "warning")
            return
        self.state.menu_at = -1
        self._move_in_menu(1)

    def _close_menu(self) -> None:
        self.state.menu_at = None

    def _move_in_menu(self, step: int) -> None:
        view = self.state.view
        assert view is not None
        assert self.state.menu_at is not None
        menu = view.document.menu
        at = self.state.menu_at
        for _ in menu:
            at = (at + step) % len(menu)
            if menu[at].enabled:
                break
        self.state.menu_at = at

    def _run_menu(self) -> None:
        view = self.state.view
        assert view is not None
        assert self.state.menu_at is not None
        self._app.follow(view.document.menu[self.state.menu_at].command)

    # -- the rest

    def _show_keys(self) -> None:
        """The keys of this screen; from there, all of them."""
        columns = self.state.size[0] - 2
        if self.state.view is not None and self.state.view.command == "(keys)":
            self._app.push(self.state.keys.document(columns), "(keys)", once=True)
            return
        here = dict.fromkeys([*page_places(self.state), *places(self.state)])
        self._app.push(self.state.keys.document_of(here, columns), "(keys)", once=True)

    def _close_help(self) -> None:
        if self.state.views.can_move(-1):
            self._app.move_screen(-1)

    def _close_pane(self) -> None:
        self.state.service.settings.override("pane", "off")

    def _show_details(self) -> None:
        texts = self.state.details
        if not texts and self.state.last_message is not None:
            texts = (self.state.last_message.text,)
        if not texts:
            self.state.message = Toast("There was no error with details.", "warning")
            return
        details = [line(part) for text in texts for part in text.splitlines() or [""]]
        document = TextDocument(details, title="Details of the last message")
        document.kind = "help"
        self._app.push(document, "(details)", once=True)

    def _show_output(self) -> None:
        text = self._app.program_output()
        if not text:
            self.state.message = Toast(
                "The program printed nothing at this stop; what it printed between stops is on the "
                "terminal behind this screen (Ctrl-Z, fg)."
            )
            return
        output = [line(part) for part in text.splitlines()]
        document = TextDocument(output, title="What the program printed at this stop")
        document.kind = "help"
        self._app.push(document, "(program output)", once=True)

    def _toggle_mouse(self) -> None:
        self._app.set_mouse(not self.state.mouse)
        if self.state.mouse:
            self.state.message = Toast("Mouse on: Shift+drag selects text.")
        else:
            self.state.message = Toast("Mouse off: drag selects text.")

    def _cancel(self) -> None:
        """Ctrl-C: whatever is half done is dropped, nothing more."""
        self.state.question = self.state.message = self.state.menu_at = None
        self.state.page_mode = False
        if self.state.palette is not None:
            self.state.palette = None  # the line below it stays
        else:
            self.state.prompt.clear()
