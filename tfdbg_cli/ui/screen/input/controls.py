"""Keys: what is understood where, pastes, and answers to questions."""

from __future__ import annotations

import time

from tfdbg_cli.commands.reply import Toast
from tfdbg_cli.ui.keys import Where, key_name
from tfdbg_cli.ui.screen.input.actions import Actions
from tfdbg_cli.ui.screen.input.commander import Commander
from tfdbg_cli.ui.screen.input.places import clicked_place, places
from tfdbg_cli.ui.screen.input.pointer import Pointer
from tfdbg_cli.ui.screen.paint.cells import Target

__all__ = ["Controls"]

_ENTER = frozenset({"enter", "ctrl j", "ctrl m"})


class Controls:
    """Finds out what a key or a click means, and has it done.

    Args:
        app: runs commands and holds the state.
    """

    def __init__(self, app: Commander) -> None:
        self._app = app
        self.state = app.state
        self._actions = Actions(app)
        self._pointer = Pointer(app, self._actions)
        self._prefix = ""
        self._pasted: list[str] | None = None

    @property
    def actions(self) -> frozenset[str]:
        """The names of all actions."""
        return self._actions.names

    def key(self, name: str) -> None:
        """A key was pressed: paste, question, table, text, in this order."""
        state = self.state
        state.last_key = time.monotonic()
        if name in {"begin paste", "end paste"} or self._pasted is not None:
            self._paste_key(name)
            return
        if state.question is not None:
            self._answer_key(name)
            return
        if name in {"esc", "ctrl c"} and self._app.cancel_work():
            return
        state.last_message, state.message = state.message or state.last_message, None
        prefix, self._prefix = self._prefix, ""
        if prefix and name == "esc":
            return
        name = prefix + name
        if state.keys.is_prefix(name, places(state)):
            self._prefix = name + " "
            state.message = Toast(f"{key_name(name)} …")
            return
        state.clicked = self._moves_clicked(name)
        action = state.keys.find(name, places(state))
        if action is None and name.startswith("meta ") and not prefix:
            # Esc and a key in quick succession come as one.
            self.key("esc")
            self.key(name.removeprefix("meta "))
        elif action is not None:
            self._actions.do(action, name)
            if state.view is not None:
                state.view.table.follow()
        elif prefix:
            state.message = Toast(f"{key_name(name)} does nothing here. F1: keys.")
        elif len(name) == 1 and name.isprintable():
            self._letter(name)
        elif state.palette is not None:
            action = state.keys.find(name, (Where.ANYWHERE,))
            if action is not None:  # what holds anywhere ends the list
                state.palette = None
                self._actions.do(action)

    def _moves_clicked(self, name: str) -> bool:
        """Whether a key is for the element under the cursor, and no letter of a command.

        So it is after a click, and where a screen has put its cursor itself.
        """
        state = self.state
        if len(name) == 1 or state.prompt.line.text:
            return False
        if state.view is None or not (state.view.cursor or state.view.table):
            return False
        if not state.clicked and state.view.document.initial_element is None:
            return False
        action = state.keys.find(name, (clicked_place(state),))
        return action not in {None, "leave_element", "leave_table"}

    def _letter(self, name: str) -> None:
        """A letter that is not a key."""
        state = self.state
        if state.palette is None and state.page_mode and state.menu_at is None:
            state.message = Toast(f'"{name}" does nothing on the page. Esc: prompt, ?: keys.')
        elif state.palette is not None or state.menu_at is None:
            self._actions.type(name)

    def do(self, action: str) -> None:
        """Do what the key table calls by that name."""
        if action == "cancel":
            self._pasted = None
        self._actions.do(action)

    # -- pastes

    def _paste_key(self, name: str) -> None:
        """A paste never runs anything: its lines become one, which waits for Enter."""
        if name == "begin paste":
            self._pasted = []
        elif name in {"end paste", "ctrl c"} or self._pasted is None:
            text = " ".join("".join(self._pasted or ()).split("\n")).strip()
            self._pasted = None
            if text and name == "end paste" and self.state.question is None:
                self._paste(text)
        elif name in _ENTER:
            self._pasted.append("\n")
        elif name == "tab":
            self._pasted.append(" ")
        elif len(name) == 1 and name.isprintable():
            self._pasted.append(name)

    def _paste(self, text: str) -> None:
        self.state.menu_at = None
        if self.state.palette is None:
            self.state.page_mode = False
            self.state.prompt.touch()
        self._actions.type(text)

    # -- answers

    def _answer_key(self, name: str) -> None:
        question = self.state.question
        assert question is not None
        if name in {"esc", "ctrl c"}:
            self._answered("")
        elif name in _ENTER:
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

    # -- mouse

    def click(self, target: Target | None, col: int, row: int) -> None:
        """The left button went down; a question takes nothing but an answer."""
        question = self.state.question
        if question is None:
            self._pointer.click(target, col, row)
        elif target is not None and target.kind == "answer":
            choice = question.choice(target.value)
            self._answered(choice.command if choice is not None else "")

    def drag(self, col: int, row: int) -> None:
        """The mouse moved with the left button down."""
        self._pointer.drag(col, row)

    def release(self) -> None:
        """A button went up."""
        self._pointer.release()

    def wheel(self, lines: int, columns: int, col: int, row: int) -> None:
        """The wheel turned over a place."""
        self._pointer.wheel(lines, columns, col, row)
