"""The keys of the full screen: one table, from which keys are dispatched and their help is made."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from tfdbg_cli.documents import Document, Line, Span, TextDocument, line

__all__ = ["KEYS", "PREFIXES", "Key", "Where", "find_action", "key_name", "keys_document"]


class Where(Enum):
    """Where a key is understood. The first of these that holds and knows the key decides."""

    EMPTY = "At the empty prompt"
    PROMPT = "At the prompt"
    PAGE = "On the page (Esc leads there, : or i back to the prompt)"
    MENU = "In the menu"
    ANYWHERE = "Anywhere"


class Key(NamedTuple):
    """Keys with one meaning.

    Attributes:
        keys: names as urwid gives them.
        action: what the screen does.
        help: one line for the help page; empty: not listed there.
        where: where they are understood.
    """

    keys: tuple[str, ...]
    action: str
    help: str
    where: Where = Where.ANYWHERE


def _table(where: Where, *rows: tuple[str, str, str]) -> Iterable[Key]:
    """Rows of ``("key|other key", action, help)``."""
    for keys, action, text in rows:
        yield Key(tuple(keys.split("|")), action, text, where)


KEYS: tuple[Key, ...] = (
    *_table(
        Where.EMPTY,
        ("enter", "follow_link", "open the focused link"),
        ("tab", "next_link", "focus the next link"),
        ("shift tab", "previous_link", "focus the link before"),
        ("home", "top", "to the top"),
        ("end", "bottom", "to the bottom"),
        ("left", "scroll_left", "sideways"),
        ("right", "scroll_right", "sideways"),
        ("?", "show_keys", "these keys"),
        ("ctrl d", "leave", "leave the debugger (asks)"),
        ("backspace", "nothing", ""),
    ),
    *_table(
        Where.PROMPT,
        ("enter", "submit", "run the command"),
        ("tab", "complete", "complete the word; again: the next candidate"),
        ("shift tab", "complete_backwards", "the candidate before"),
        ("up|ctrl p", "history_back", "the command before that begins like this one"),
        ("down|ctrl n", "history_forward", "the command after it"),
        ("ctrl r", "history_search", "the command before that contains what is typed; again: more"),
        ("left|ctrl b", "cursor_left", "cursor left"),
        ("right|ctrl f", "cursor_right", "cursor right"),
        ("ctrl left|meta b", "word_left", "a word left"),
        ("ctrl right|meta f", "word_right", "a word right"),
        ("home|ctrl a", "line_start", "to the start of the line"),
        ("end|ctrl e", "line_end", "to the end of the line"),
        ("backspace|ctrl h", "delete_left", "delete the character before the cursor"),
        ("delete|ctrl d", "delete_right", "delete the character under the cursor"),
        ("ctrl w|meta backspace", "kill_word_left", "cut the word before the cursor"),
        ("meta d", "kill_word_right", "cut the word after the cursor"),
        ("ctrl u", "kill_to_start", "cut to the start of the line"),
        ("ctrl k", "kill_to_end", "cut to the end of the line"),
        ("ctrl y", "yank", "insert what was cut"),
        ("ctrl x ctrl e", "edit_line", "edit the line with $EDITOR"),
        ("esc", "to_page", "to the page: single letters act there"),
    ),
    *_table(
        Where.PAGE,
        ("j|down|ctrl n", "line_down", "a line down"),
        ("k|up|ctrl p", "line_up", "a line up"),
        (" |f|ctrl f", "page_down", "a page down"),
        ("b|ctrl b", "page_up", "a page up"),
        ("d|ctrl d", "half_page_down", "half a page down"),
        ("u|ctrl u", "half_page_up", "half a page up"),
        ("g|home|<", "top", "to the top"),
        ("G|end|>", "bottom", "to the bottom"),
        ("h|left", "scroll_left", "sideways"),
        ("l|right", "scroll_right", "sideways"),
        ("0|^", "scroll_home", "to the start of the lines"),
        ("/", "type_search", "search for a regular expression"),
        ("&", "type_filter", "show only the lines that match; & alone: all"),
        ("n", "search_next", "the next match; goes on at the other end"),
        ("N", "search_previous", "the match before"),
        ("tab", "next_link", "focus the next link"),
        ("shift tab", "previous_link", "focus the link before"),
        ("enter", "follow_link", "open the focused link"),
        ("backspace|[", "previous_screen", "the screen before"),
        ("]", "next_screen", "the screen after"),
        ("M", "open_menu", "to the menu"),
        ("m", "toggle_mouse", "take the mouse, or leave it to the terminal"),
        ("y", "copy", "copy the focused link's text, or the found or first line"),
        ("Y", "copy_page", "copy the page"),
        ("v", "show_in_pager", "this screen in $PAGER"),
        ("e", "show_details", "details of the last error"),
        ("q", "leave", "leave the debugger (asks)"),
        ("?", "show_keys", "these keys"),
        (":|i|esc", "to_prompt", "back to the prompt"),
    ),
    *_table(
        Where.MENU,
        ("left|shift tab|h", "menu_left", "the entry before"),
        ("right|tab|l", "menu_right", "the next entry"),
        ("enter| ", "menu_run", "run it"),
        ("esc|M|f10|up|down", "close_menu", "back"),
    ),
    *_table(
        Where.ANYWHERE,
        ("page down", "page_down", "a page down"),
        ("page up", "page_up", "a page up"),
        ("shift down|ctrl down", "line_down", "a line down"),
        ("shift up|ctrl up", "line_up", "a line up"),
        ("ctrl home", "top", "to the top"),
        ("ctrl end", "bottom", "to the bottom"),
        ("meta left|meta ,", "previous_screen", "the screen before, as it was (prev)"),
        ("meta right|meta .", "next_screen", "the screen after (next)"),
        ("f1|meta ?", "show_keys", "these keys"),
        ("f2", "show_details", "details of the last error"),
        ("f3", "show_output", "what the program printed behind the screen"),
        ("f10", "open_menu", "to the menu"),
        ("ctrl l", "redraw", "repaint the screen"),
        ("ctrl c", "cancel", "cancel the command at work, or clear the line"),
    ),
)

_ACTIONS = {(key.where, name): key.action for key in KEYS for name in key.keys}

#: Keys that wait for another one.
PREFIXES = frozenset(
    name.rpartition(" ctrl ")[0] for key in KEYS for name in key.keys if name.count("ctrl ") > 1
)

# What urwid calls keys, and what people call them.
_NAMES = {
    "ctrl x ctrl e": "Ctrl-X Ctrl-E",
    " ": "Space",
    "meta": "Alt",
    "page up": "PgUp",
    "page down": "PgDn",
}


def find_action(name: str, places: Iterable[Where]) -> str | None:
    """The action of a key, in the first of the places that knows it; ``None``: it has none."""
    for where in places:
        action = _ACTIONS.get((where, name))
        if action is not None:
            return action
    return None


def key_name(name: str) -> str:
    """What people call a key."""
    if name in _NAMES:
        return _NAMES[name]
    *modifiers, last = name.split(" ", name.startswith(("ctrl ", "meta ", "shift ")))
    last = _NAMES.get(last, last)
    if modifiers or len(last) > 1:
        last = last[:1].upper() + last[1:]
    return "-".join([*(_NAMES.get(word, word.capitalize()) for word in modifiers), last])


def keys_document() -> Document:
    """The help page of the keys."""
    lines: list[Line] = []
    width = max(len(" ".join(map(key_name, key.keys))) for key in KEYS) + 2
    for where in Where:
        lines += [line((where.value, "heading"))]
        for key in KEYS:
            if key.where is where and key.help:
                names = " ".join(map(key_name, key.keys))
                lines.append(Line([Span("  " + names.ljust(width), "bold"), Span(key.help)]))
        lines.append(line())
    lines += [
        line(("Mouse", "heading")),
        line("  Click links, the menu, the arrows and the scroll bar; the wheel scrolls."),
        line("  Shift+drag selects text in most terminals; ", ("mouse off", "link", "mouse off")),
    ]
    return TextDocument(lines, title="Keys")
