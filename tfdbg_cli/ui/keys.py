"""The keys of the full screen: one table of what they do, and how keys are called."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

__all__ = ["HINTS", "KEYS", "Key", "Where", "key_name", "read_key"]


class Where(Enum):
    """Where a key is understood. The first of these that holds and knows the key decides."""

    EMPTY = "At the empty prompt"
    CANDIDATES = "In the list of completions"
    HISTORY = "In the search of former commands (Ctrl-R leads there)"
    PROMPT = "At the prompt"
    ELEMENT = "On an element (c, a click, @ or a match leads there)"
    HELP = "On a page of help, of details, of the program's output"
    BESIDE = "Beside a pane (F6)"
    VERDICT = "On a verdict (why, run -f)"
    SOURCE = "On the page of a source file (ps)"
    ROW = "On a row about a tensor or a node"
    TABLE = "On a row of a table (c or a click leads there)"
    MAP = "On a map, a tensor's picture (v on the page, or pt --map)"
    TENSOR = "On the page of a tensor"
    PAGE = "On the page (Esc leads there, : or i back to the prompt)"
    MENU = "In the menu"
    PALETTE = "In the list of commands"
    EDIT = "In the line that is typed"
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
        ("down", "to_rows", "on a list: the cursor on a row"),
        ("left", "scroll_left", "sideways"),
        ("right", "scroll_right", "sideways"),
        ("?", "show_keys", "these keys"),
        ("ctrl d", "leave", "leave the debugger (asks)"),
        ("backspace", "nothing", ""),
    ),
    *_table(
        Where.CANDIDATES,
        ("tab|down|ctrl n", "next_candidate", "the next one"),
        ("shift tab|up|ctrl p", "previous_candidate", "the one before"),
        ("page down", "candidates_down", "some further down"),
        ("page up", "candidates_up", "some further up"),
        ("enter", "accept_candidate", "take it; with none chosen: run the line"),
        ("esc", "close_candidates", "back to the line"),
    ),
    *_table(
        Where.HISTORY,
        ("ctrl r", "history_search", "the previous one that contains the typed text"),
        ("backspace|ctrl h", "history_search_less", "take back a letter"),
        ("enter", "submit", "run it; other keys edit it"),
        ("esc|ctrl g", "history_search_leave", "restore the line"),
    ),
    *_table(
        Where.PROMPT,
        ("enter", "submit", "run the command"),
        ("tab", "complete", "complete the word; typing narrows the list of several"),
        ("up|ctrl p", "history_back", "the command before that begins like this one"),
        ("down|ctrl n", "history_forward", "the command after it"),
        ("ctrl r", "history_search", "the previous command that contains the typed text"),
        ("ctrl x ctrl e", "edit_line", "edit the line with $EDITOR"),
        ("esc", "to_page", "to the page: single letters act there"),
    ),
    *_table(
        Where.ELEMENT,
        ("l|right", "element_right", "the element to the right"),
        ("h|left", "element_left", "the element to the left"),
        ("j|down", "element_down", "the element below"),
        ("k|up", "element_up", "the element above"),
        ("enter", "open_element", "all about the element"),
        ("c|esc", "leave_element", "back to the page"),
    ),
    *_table(Where.HELP, ("esc|q", "close_help", "back to the screen before")),
    *_table(Where.BESIDE, ("esc|q", "close_pane", "close the pane")),
    *_table(
        Where.VERDICT,
        ("v", "command: pt --map", "the tensor as a map (a picture)"),
        ("p", "command: pt", "its value"),
        ("s", "command: ps", "its line in the source"),
        ("g", "command: graph", "the graph around it"),
        ("i", "command: li -o op_type,health", "its inputs"),
        ("o", "command: lo -o op_type,health", "its recipients"),
        ("r", "command: report", "a report of the run, to pass on"),
        ("n", "command: why --next", "the next origin"),
    ),
    *_table(
        Where.SOURCE,
        ("] b", "next_bad", "the next line with an op that made a nan or an infinity"),
        ("[ b", "previous_bad", "the bad line before"),
        ("z", "fold", "fold or unfold the names under the lines"),
        ("] ]", "next_screen", "the screen after"),
        ("[ [", "previous_screen", "the screen before"),
    ),
    *_table(
        Where.ROW,
        ("v", "command: pt --map {}", "the row's tensor as a map (a picture)"),
        ("p", "command: pt {}", "its value"),
        ("s", "command: ps {}", "its line in the source"),
        ("g", "command: graph {}", "the graph around it"),
        ("i", "command: li {} -o op_type,health", "its inputs"),
        ("o", "command: lo {} -o op_type,health", "its recipients"),
        (" |t", "select_row", "select this row for pt --selected and eval, or no longer"),
    ),
    *_table(
        Where.TABLE,
        ("j|down|ctrl n", "row_down", "the row below"),
        ("k|up|ctrl p", "row_up", "the row above"),
        ("h|left", "column_left", "the column to the left"),
        ("l|right", "column_right", "the column to the right"),
        ("0|^", "first_column", "the first column"),
        ("$", "last_column", "the last column"),
        ("home|<", "first_row", "the first row"),
        ("G|end|>", "last_row", "the last row"),
        ("enter", "open_row", "open the link of the cell, or of the row"),
        ("[", "sort_up", "sort by this column, the smallest first"),
        ("]", "sort_down", "sort by this column, the largest first"),
        ("r", "turn_round", "the other order"),
        (
            "D|E|F|H|O|P|R|S|T",
            "sort_by_letter",
            "sort by the next column with this letter; again: the other order",
        ),
        ("-", "hide_column", "hide this column"),
        ("_", "widen_column", "make this column as wide as its cells; again: undo"),
        ("!", "freeze_column", "keep this column in sight, at the left; again: no longer"),
        ("=", "filter_cell", "only the rows with the same cell"),
        (",", "select_like", "select all rows with the same cell"),
        (
            '"',
            "only_selected",
            "only the selected rows; one alone: beside the cursor's row",
        ),
        ("U", "select_none", "select nothing"),
        ("J", "pane_down", "the pane beside the list: down"),
        ("K", "pane_up", "the pane beside the list: up"),
        ("c|esc", "leave_table", "back to the page"),
    ),
    *_table(
        Where.MAP,
        ("+|=|z", "map_closer", "zoom in at the cursor; also the wheel"),
        ("-|Z", "map_farther", "from farther away"),
        ("0", "map_whole", "all of it"),
        ("q", "previous_screen", "back to the screen before"),
        ("h|left", "map_left", "the part to the left; with the mouse: drag"),
        ("l|right", "map_right", "the part to the right"),
        ("j|down", "map_down", "the part below"),
        ("k|up", "map_up", "the part above"),
        ("]", "map_next_slice", "the next slice of a tensor of three and more dimensions"),
        ("[", "map_previous_slice", "the slice before"),
        ("t", "map_tiles", "all slices side by side, or one"),
        ("x", "map_axes", "other dimensions as rows and columns; of two: transposed"),
        ("s", "map_scale", "other colours: min to max, quantiles, symmetric, log"),
        ("r", "map_cells", "what a cell shows: mean, extreme, max, min"),
        ("n", "map_next_bad", "to the next nan or infinity"),
        ("N", "map_previous_bad", "to the one before"),
    ),
    *_table(
        Where.TENSOR,
        ("v", "map", "as a map (a picture), or as numbers again; the cursor goes along"),
    ),
    *_table(
        Where.PAGE,
        (
            "c",
            "to_element",
            "the cursor on an element: its exact value is in the status line; or on a row",
        ),
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
        ("@", "type_element", "scroll to an element: @10,0"),
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
        ("+", "zoom_in", "a curve: closer, about the cursor or to the latest runs"),
        ("-", "zoom_out", "a curve: more runs"),
        ("(", "zoom_earlier", "a curve: earlier runs"),
        (")", "zoom_later", "a curve: later runs"),
        ("y", "copy", "copy the focused link's text, or the found or first line"),
        ("Y", "copy_page", "copy the page"),
        ("V", "show_in_pager", "this screen in $PAGER"),
        ("v", "map", ""),
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
        Where.PALETTE,
        ("down|tab|ctrl n", "palette_down", "the next one"),
        ("up|shift tab|ctrl p", "palette_up", "the one before"),
        ("page down", "palette_page_down", "some further down"),
        ("page up", "palette_page_up", "some further up"),
        ("enter", "palette_run", "run it; what needs more words is put into the prompt"),
        ("esc|meta x|f4|ctrl c|ctrl g", "close_palette", "close the list"),
    ),
    *_table(
        Where.EDIT,
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
        ("ctrl y", "yank", "insert the cut text"),
    ),
    *_table(
        Where.ANYWHERE,
        ("meta x|f4", "open_palette", "find a command, a link, a key, a former line"),
        ("page down", "page_down", "a page down"),
        ("page up", "page_up", "a page up"),
        ("shift down|ctrl down", "line_down", "a line down"),
        ("shift up|ctrl up", "line_up", "a line up"),
        ("ctrl home", "top", "to the top"),
        ("ctrl end", "bottom", "to the bottom"),
        ("meta left|meta ,", "previous_screen", "the previous screen (prev)"),
        ("meta right|meta .", "next_screen", "the screen after (next)"),
        ("f1|meta ?", "show_keys", "these keys"),
        ("f2", "show_details", "details of the last error"),
        ("f3", "show_output", "the program's output behind the screen"),
        ("f5", "command: cont", "in the stepper: go on to a breakpoint or the end (cont)"),
        ("f6", "next_pane", "beside a list: value, source or graph of its row, or nothing"),
        ("f7", "command: step -b", "in the stepper: undo the last step (step -b)"),
        ("f8", "command: step", "in the stepper: the next node (step)"),
        ("f10", "open_menu", "to the menu"),
        ("ctrl l", "redraw", "repaint the screen"),
        ("ctrl c", "cancel", "cancel the command at work, or clear the line"),
    ),
)

#: What the status line tells of the keys: for each place its actions, the most wanted first.
HINTS: dict[Where, tuple[tuple[str, str], ...]] = {
    Where.HELP: (("close_help", "back"),),
    Where.BESIDE: (("close_pane", "close the pane"),),
    Where.VERDICT: (
        ("command: pt --map", "map"),
        ("command: pt", "value"),
        ("command: ps", "source"),
        ("command: graph", "graph"),
        ("command: li -o op_type,health", "inputs"),
        ("command: report", "report"),
        ("command: why --next", "next bad"),
    ),
    Where.ELEMENT: (("open_element", "all about it"), ("leave_element", "leave")),
    Where.ROW: (
        ("command: pt --map {}", "map"),
        ("command: pt {}", "value"),
        ("command: ps {}", "source"),
        ("command: graph {}", "graph"),
        ("command: li {} -o op_type,health", "inputs"),
        ("select_row", "select"),
    ),
    Where.TABLE: (("open_row", "open"), ("sort_up", "sort"), ("filter_cell", "same")),
    Where.MAP: (
        ("map", "numbers"),
        ("map_closer", "closer"),
        ("map_next_slice", "next slice"),
        ("map_scale", "colours"),
        ("map_next_bad", "next bad"),
    ),
    Where.TENSOR: (("map", "map"),),
    Where.SOURCE: (("next_bad", "next bad"), ("fold", "fold")),
    Where.PAGE: (
        ("to_element", "cursor"),
        ("type_search", "search"),
        ("next_link", "links"),
    ),
}

# What urwid calls keys, and what people call them.
_NAMES = {" ": "Space", "meta": "Alt", "page up": "PgUp", "page down": "PgDn"}

# Other words for urwid's names.
_WORDS = {
    "alt": "meta",
    "option": "meta",
    "m": "meta",
    "control": "ctrl",
    "c": "ctrl",
    "s": "shift",
    "escape": "esc",
    "return": "enter",
    "del": "delete",
    "ins": "insert",
    "bs": "backspace",
    "pgup": "page up",
    "pageup": "page up",
    "pgdn": "page down",
    "pgdown": "page down",
    "pagedown": "page down",
    "space": " ",
}
_NAMED = frozenset(
    {"enter", "tab", "backspace", "delete", "insert", "home", "end", "esc"}
    | {"up", "down", "left", "right", "page up", "page down"}
    | {f"f{number}" for number in range(1, 21)}
)

# Two keys of which the first is a bracket.
_BRACKETED = re.compile(r"([\[\]]) ?(\S)")

_MODIFIED = re.compile(r"((?:(?:shift|meta|ctrl) )*)(.+)", re.DOTALL)
_PREFIX = re.compile(r"(shift|control|ctrl|option|alt|meta|[csm])[-+ ](?=.)", re.IGNORECASE)


def key_name(name: str) -> str:
    """What people call a key."""
    if (match := _BRACKETED.fullmatch(name)) is not None:
        return match[1] + match[2]
    if " ctrl " in name:
        return " ".join(key_name(part) for part in re.split(r" (?=ctrl )", name))
    match = _MODIFIED.fullmatch(name)
    assert match is not None
    modifiers, last = match[1].split(), match[2]
    if modifiers and last.isalpha() and last.isupper():
        modifiers.append("shift")
    last = _NAMES.get(last, last)
    if modifiers or len(last) > 1:
        last = last[:1].upper() + last[1:]
    return "-".join([*(_NAMES.get(word, word.capitalize()) for word in modifiers), last])


def read_key(text: str) -> str | None:
    """The name that urwid gives to a key that somebody wrote down.

    Understood are urwid's own names (``ctrl x``, ``meta b``, ``page up``), those of the help page
    (``Ctrl-X``, ``Alt-B``, ``PgUp``), Emacs's (``C-x``, ``M-b``) and two keys after each other that
    begin with Ctrl (``Ctrl-X Ctrl-E``), or the first of which is a bracket (``]b``).

    Returns:
        ``None`` if that is not a key.
    """
    if len(text) == 1:
        return text if text.isprintable() else None
    if (match := _BRACKETED.fullmatch(text)) is not None:
        return f"{match[1]} {match[2]}" if text.isprintable() else None
    parts = [
        _read_one(part)
        for part in re.split(r"\s+(?=(?:ctrl|control|c)[-+ ])", text.strip(), flags=re.I)
    ]
    if len(parts) > 2 or (len(parts) == 2 and not all(p and p.startswith("ctrl ") for p in parts)):
        return None
    return " ".join(parts) if all(parts) else None


def _read_one(text: str) -> str:
    """One key; empty: it is none."""
    modifiers = set()
    while match := _PREFIX.match(text):
        modifiers.add(_WORDS.get(match[1].lower(), match[1].lower()))
        text = text[match.end() :]
    key = text if len(text) == 1 else " ".join(text.lower().split())
    key = _WORDS.get(key, key) if len(key) > 1 else key
    if len(key) == 1:
        if modifiers:
            key = key.lower()
        if "ctrl" in modifiers and not "a" <= key <= "z":
            return ""
        if "shift" in modifiers and "ctrl" not in modifiers:
            modifiers.remove("shift")
            key = key.upper()
    elif key not in _NAMED:
        return ""
    return "".join(f"{word} " for word in ("shift", "meta", "ctrl") if word in modifiers) + key
