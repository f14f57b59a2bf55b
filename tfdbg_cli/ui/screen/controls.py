"""Keys and the mouse: what they do to the state of the screen."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from tfdbg_cli.commands.reply import Reply, Toast
from tfdbg_cli.documents import Document, TextDocument, line
from tfdbg_cli.errors import UserError
from tfdbg_cli.ui.keys import PREFIXES, Where, find_action, key_name, keys_document
from tfdbg_cli.ui.screen.cells import Target
from tfdbg_cli.ui.screen.page import thumb
from tfdbg_cli.ui.screen.state import State
from tfdbg_cli.ui.screen.view import View

__all__ = ["Commander", "Controls"]


class Commander(Protocol):
    """What keys and clicks can ask for besides changing the state (see `App`)."""

    state: State

    def execute(self, text: str) -> Reply | None:
        """Run a command line and apply its Reply."""
        ...

    def drain_queue(self) -> None:
        """Run the commands that are still queued."""
        ...

    def push(self, document: Document, command: str) -> None:
        """Show a Document as a new screen."""
        ...

    def move_screen(self, step: int) -> None:
        """Go back (-1) or forward (1) in the screens."""
        ...

    def search(self, regex: str, direction: int) -> None:
        """Go to a match; an empty regex is the last one."""
        ...

    def cancel_work(self) -> bool:
        """Give up a search that is still going on; False: there is none."""
        ...

    def at_work(self) -> AbstractContextManager[None]:
        """Ctrl-C interrupts what is done inside."""
        ...

    def copy(self, text: str) -> None:
        """Put a text on the clipboard."""
        ...

    def show_in_pager(self) -> None:
        """Give the lines of this screen to ``$PAGER``."""
        ...

    def edit(self, text: str) -> str:
        """A command line, after the user has edited it."""
        ...

    def set_mouse(self, on: bool) -> None:
        """Take the mouse, or leave it to the terminal."""
        ...

    def program_output(self) -> str:
        """What the program printed at this stop."""
        ...

    def redraw(self) -> None:
        """Repaint everything."""
        ...


class Controls:
    """Dispatches keys through the key table, and clicks by their targets."""

    def __init__(self, app: Commander) -> None:
        self._app = app
        self.state = app.state
        self._dragging = False
        self._pasted: list[str] | None = None
        self._prefix = ""
        self._actions = self._make_actions()

    @property
    def actions(self) -> frozenset[str]:
        """Every action that a key can have."""
        return frozenset(self._actions)

    # -- keys

    def _places(self) -> tuple[Where, ...]:
        if self.state.menu_at is not None:
            return (Where.MENU, Where.ANYWHERE)
        if self.state.page_mode:
            return (Where.PAGE, Where.ANYWHERE)
        if not self.state.prompt.line.text:
            return (Where.EMPTY, Where.PROMPT, Where.ANYWHERE)
        return (Where.PROMPT, Where.ANYWHERE)

    def key(self, name: str) -> None:
        """A key was pressed: paste, question, table, text, in this order."""
        if name in {"begin paste", "end paste"} or self._pasted is not None:
            self._paste_key(name)
            return
        if self.state.question is not None:
            self._answer_key(name)
            return
        if name in {"esc", "ctrl c"} and self._app.cancel_work():
            return
        self.state.message = None
        name, self._prefix = self._prefix + name, ""
        if name in PREFIXES:
            self._prefix = name + " "
            self.state.message = Toast(f"{key_name(name)} …")
            return
        action = find_action(name, self._places())
        if action is not None:
            self.do(action)
        elif len(name) == 1 and name.isprintable() and self.state.menu_at is None:
            if self.state.page_mode:
                self.state.message = Toast(
                    f'"{name}" does nothing on the page. Esc: prompt, ?: keys.'
                )
            else:
                self.state.prompt.line.insert(name)
                self.state.prompt.touch()

    def _paste_key(self, name: str) -> None:
        """A paste never runs anything: its lines become one, which waits for Enter."""
        if name == "begin paste":
            self._pasted = []
        elif name in {"end paste", "ctrl c"} or self._pasted is None:
            text = " ".join("".join(self._pasted or ()).split("\n")).strip()
            self._pasted = None
            if text and name == "end paste" and self.state.question is None:
                self.state.page_mode, self.state.menu_at = False, None
                self.state.prompt.line.insert(text)
                self.state.prompt.touch()
        elif name in {"enter", "ctrl j", "ctrl m"}:
            self._pasted.append("\n")
        elif name == "tab":
            self._pasted.append(" ")
        elif len(name) == 1 and name.isprintable():
            self._pasted.append(name)

    def _answer_key(self, name: str) -> None:
        question = self.state.question
        assert question is not None
        if name in {"esc", "ctrl c"}:
            self._answered("")
        elif name in {"enter", "ctrl j", "ctrl m"}:
            choice = question.choice(self.state.answer)
            self.state.answer = ""
            if choice is not None:
                self._answered(choice.command)
        elif name in {"backspace", "ctrl h"}:
            self.state.answer = self.state.answer[:-1]
        elif len(name) == 1 and name.isprintable():
            self.state.answer += name

    def _answered(self, command: str) -> None:
        self.state.question = self.state.message = None
        self.state.answer = ""
        if command:
            self._app.execute(command)
        self._app.drain_queue()

    def _run(self, command: str) -> None:
        """Run a command line and what it is made of."""
        self._app.execute(command)
        self._app.drain_queue()

    def _follow(self, command: str) -> None:
        """Run the command of a link or of a menu."""
        self.state.service.history.play(command)
        self._run(command)

    def do(self, action: str) -> None:
        """Do what the key table calls by that name."""
        self._actions[action]()

    def _make_actions(self) -> dict[str, Callable[[], object]]:
        line_editor = self.state.prompt.line

        def edit(change: Callable[[], None]) -> Callable[[], None]:
            def changed() -> None:
                change()
                self.state.prompt.touch()

            return changed

        def on_view(move: Callable[[View], object]) -> Callable[[], None]:
            def moved() -> None:
                if self.state.view is not None:
                    move(self.state.view)

            return moved

        edits = (
            "cursor_left cursor_right word_left word_right line_start line_end delete_left "
            "delete_right kill_word_left kill_word_right kill_to_start kill_to_end yank"
        )
        return {name: edit(getattr(line_editor, name)) for name in edits.split()} | {
            "nothing": lambda: None,
            "submit": self._submit,
            "complete": lambda: self._complete(1),
            "complete_backwards": lambda: self._complete(-1),
            "history_back": lambda: self.state.prompt.move_in_history(
                self.state.service.history, 1
            ),
            "history_forward": lambda: self.state.prompt.move_in_history(
                self.state.service.history, -1
            ),
            "history_search": self._search_history,
            "to_page": self._to_page,
            "to_prompt": self._to_prompt,
            "type_search": lambda: self._type("/"),
            "type_filter": lambda: self._type("&"),
            "line_down": on_view(lambda view: view.scroll(1)),
            "line_up": on_view(lambda view: view.scroll(-1)),
            "page_down": on_view(lambda view: view.scroll(max(view.height - 1, 1))),
            "page_up": on_view(lambda view: view.scroll(-max(view.height - 1, 1))),
            "half_page_down": on_view(lambda view: view.scroll(max(view.height // 2, 1))),
            "half_page_up": on_view(lambda view: view.scroll(-max(view.height // 2, 1))),
            "top": on_view(lambda view: view.go_to(0)),
            "bottom": on_view(lambda view: view.go_to(view.last_top)),
            "scroll_left": on_view(lambda view: view.scroll_sideways(-max(view.width // 2, 1))),
            "scroll_right": on_view(lambda view: view.scroll_sideways(max(view.width // 2, 1))),
            "scroll_home": on_view(lambda view: view.scroll_sideways(-view.left)),
            "search_next": lambda: self._search_again(1),
            "search_previous": lambda: self._search_again(-1),
            "next_link": lambda: self._move_link(1),
            "previous_link": lambda: self._move_link(-1),
            "follow_link": self._follow_link,
            "previous_screen": lambda: self._app.move_screen(-1),
            "next_screen": lambda: self._app.move_screen(1),
            "open_menu": self._open_menu,
            "close_menu": self._close_menu,
            "menu_left": lambda: self._move_in_menu(-1),
            "menu_right": lambda: self._move_in_menu(1),
            "menu_run": self._run_menu,
            "show_keys": lambda: self._app.push(keys_document(), "(keys)"),
            "show_details": self._show_details,
            "show_output": self._show_output,
            "redraw": self._app.redraw,
            "copy": self._copy,
            "copy_page": self._copy_page,
            "show_in_pager": self._app.show_in_pager,
            "edit_line": self._edit_line,
            "toggle_mouse": self._toggle_mouse,
            "cancel": self._cancel,
            "leave": lambda: self._app.execute("exit"),
        }

    def _submit(self) -> None:
        text = self.state.prompt.line.text.lstrip()
        if not text.startswith(("/", "&")):  # a blank at the end of a regular expression counts
            text = text.rstrip()
        self.state.prompt.clear()
        if text:
            self._run(self.state.service.history.add(text))

    def _complete(self, step: int) -> None:
        prompt = self.state.prompt
        if prompt.completion is not None:
            prompt.cycle(step)
        elif not prompt.offer(self.state.service.complete(prompt.line.text, prompt.line.cursor)):
            self.state.message = Toast("Nothing completes this.", "warning")

    def _search_history(self) -> None:
        if not self.state.prompt.search_history(self.state.service.history):
            self.state.message = Toast("No other command contains this.", "warning")

    def _to_page(self) -> None:
        if self.state.prompt.completion is not None:
            self.state.prompt.touch()  # Esc closes the list of candidates first
        else:
            self.state.page_mode = True

    def _to_prompt(self) -> None:
        self.state.page_mode = False

    def _type(self, text: str) -> None:
        """Begin a line at the prompt."""
        self.state.page_mode = False
        self.state.prompt.line.set(text)
        self.state.prompt.touch()

    def _search_again(self, direction: int) -> None:
        try:
            with self._app.at_work():
                self._app.search("", direction)
        except UserError as error:
            self.state.message = Toast(str(error), "error")
        except KeyboardInterrupt:
            self.state.message = Toast("Cancelled.", "warning")

    def _move_link(self, step: int) -> None:
        view = self.state.view
        if view is not None and not view.move_link(step):
            self.state.message = Toast("No more links that way.", "warning")

    def _follow_link(self) -> None:
        view = self.state.view
        place = view.focused_link() if view is not None else None
        if place is not None:
            self._follow(place.command)
        elif self.state.page_mode:
            self.state.message = Toast("No link has the focus: Tab moves to one.")

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
        self._follow(view.document.menu[self.state.menu_at].command)

    def _show_details(self) -> None:
        if not self.state.details:
            self.state.message = Toast("There was no error with details.", "warning")
            return
        details = [line(part) for text in self.state.details for part in text.splitlines() or [""]]
        self._app.push(TextDocument(details, title="Details of the last error"), "(details)")

    def _show_output(self) -> None:
        text = self._app.program_output()
        if not text:
            self.state.message = Toast("The program printed nothing at this stop.")
            return
        output = [line(part) for part in text.splitlines()]
        document = TextDocument(output, title="What the program printed at this stop")
        self._app.push(document, "(program output)")

    def _copy(self) -> None:
        """Copy what has the focus: a link's text, else the line on top."""
        view = self.state.view
        if view is None:
            return
        place = view.focused_link()
        if place is not None:
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

    def _edit_line(self) -> None:
        prompt = self.state.prompt
        try:
            prompt.line.set(self._app.edit(prompt.line.text))
        except (UserError, OSError) as error:
            self.state.message = Toast(str(error), "error")
        self.state.page_mode = False
        prompt.touch()

    def _toggle_mouse(self) -> None:
        self._app.set_mouse(not self.state.mouse)
        if self.state.mouse:
            self.state.message = Toast("Mouse on: Shift+drag selects text.")
        else:
            self.state.message = Toast("Mouse off: drag selects text.")

    def _cancel(self) -> None:
        """Ctrl-C: whatever is half done is dropped, nothing more."""
        self._pasted = self.state.question = self.state.message = self.state.menu_at = None
        self.state.page_mode = False
        self.state.prompt.clear()

    # -- mouse

    def click(self, target: Target | None, col: int, row: int) -> None:
        """The left button went down on a target, the scroll bar, or nothing."""
        if self.state.question is not None:
            if target is not None and target.kind == "answer":
                choice = self.state.question.choice(target.value)
                self._answered(choice.command if choice is not None else "")
            return
        self.state.message = None
        self.state.menu_at = None
        if target is None:
            self._click_scroll_bar(col, row)
        elif target.kind == "command":
            self._follow(target.value)
        elif target.kind == "action":
            self.do(target.value)
        elif target.kind == "candidate" and self.state.prompt.completion is not None:
            self.state.prompt.choose(int(target.value))
            self.state.prompt.touch()

    def _click_scroll_bar(self, col: int, row: int) -> None:
        view = self.state.view
        first_row, behind = self.state.areas.page
        if view is None or col != self.state.size[0] - 1 or not first_row <= row < behind:
            return
        first, length = thumb(view)
        row -= first_row
        if not length:
            return
        if row < first:
            self.do("page_up")
        elif row >= first + length:
            self.do("page_down")
        else:
            self._dragging = True

    def drag(self, col: int, row: int) -> None:
        """The scroll bar follows the mouse."""
        view = self.state.view
        if self._dragging and view is not None:
            first_row = self.state.areas.page[0]
            share = (row - first_row) / max(view.height - 1, 1)
            view.go_to(round(share * view.last_top))

    def release(self) -> None:
        """A button went up."""
        self._dragging = False

    def wheel(self, lines: int, columns: int) -> None:
        """The wheel turned."""
        view = self.state.view
        if view is not None:
            if lines:
                view.scroll(lines)
            if columns:
                view.scroll_sideways(4 * columns)
