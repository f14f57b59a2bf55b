"""The keys in effect: the table of `keys`, and what the user has bound otherwise."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from tfdbg_cli.commands.wrapping import Prose
from tfdbg_cli.common.documents import Document, Line, Span, line
from tfdbg_cli.common.errors import did_you_mean
from tfdbg_cli.ui.keys import KEYS, Key, Where, key_name, read_key

__all__ = ["COMMAND", "KeyTable"]

#: An action that begins with this runs the command line behind it.
COMMAND = "command:"

_PLACES = {where.name.lower(): where for where in Where}

# Where a key that is bound without a place is taken from the table. The lists keep theirs, so that
# there is a way out of them.
_EVERYWHERE = (Where.EMPTY, Where.PROMPT, Where.SOURCE, Where.PAGE, Where.EDIT, Where.ANYWHERE)

# Where a single letter is a letter.
_TYPED = frozenset({Where.PROMPT, Where.CANDIDATES, Where.PALETTE, Where.EDIT, Where.ANYWHERE})

# What nobody should have to look for in the list of all keys.
_NEEDED = (
    ("to_page", Where.PROMPT),
    ("to_prompt", Where.PAGE),
    ("complete", Where.PROMPT),
    ("history_back", Where.PROMPT),
    ("page_down", Where.ANYWHERE),
    ("page_up", Where.ANYWHERE),
    ("to_element", Where.PAGE),
    ("type_search", Where.PAGE),
    ("next_link", Where.PAGE),
    ("follow_link", Where.PAGE),
    ("copy", Where.PAGE),
    ("previous_screen", Where.ANYWHERE),
    ("open_palette", Where.ANYWHERE),
    ("next_pane", Where.ANYWHERE),
    ("cancel", Where.ANYWHERE),
    ("leave", Where.EMPTY),
)

_FUNCTION = re.compile(r"f\d")

_HELP = {key.action: key.help for key in reversed(KEYS) if key.help}
_ACTIONS = frozenset(key.action for key in KEYS)


class _Binding(NamedTuple):
    """A key of the user's: its places, its name, and what it does."""

    places: tuple[Where, ...]
    name: str
    action: str


class KeyTable:
    """What each key does, and where.

    Args:
        bindings: the user's own, as `Settings.keys` has them: ``"KEY"`` or ``"PLACE: KEY"`` to the
            name of an action or ``"command: COMMAND LINE"``. A place is the name of a `Where`; a
            key without one holds everywhere, a letter without one on the page.

    Attributes:
        warnings: what is wrong with the bindings that are not used, a line each.
    """

    def __init__(self, bindings: Mapping[str, str] | None = None) -> None:
        self.warnings: list[str] = []
        self._table = {(key.where, name): key.action for key in KEYS for name in key.keys}
        own: list[_Binding] = []
        for key, action in (bindings or {}).items():
            read = _read_binding(key, action)
            if isinstance(read, str):
                self.warnings.append(read)
            else:
                own.append(read)
        # What holds at one place beats what holds everywhere, whatever their order.
        for binding in sorted(own, key=lambda binding: -len(binding.places)):
            for where in binding.places:
                self._table.pop((where, binding.name), None)
            self._table[binding.places[-1], binding.name] = binding.action
        self._prefixes = {(where, _first_of(name)) for where, name in self._table}
        self._rows = tuple(self._group())

    def find(self, name: str, places: Iterable[Where]) -> str | None:
        """The action of a key, in the first of the places that knows it; ``None``: it has none."""
        for where in places:
            action = self._table.get((where, name))
            if action is not None:
                return action
        return None

    def is_prefix(self, name: str, places: Iterable[Where]) -> bool:
        """Whether a key waits for another one, in the first of the places that knows it."""
        for where in places:
            if (where, name) in self._prefixes:
                return True
            if (where, name) in self._table:
                return False
        return False

    @property
    def rows(self) -> tuple[Key, ...]:
        """The keys in effect, those of one action and one place together, place by place."""
        return self._rows

    def _group(self) -> Iterator[Key]:
        groups: dict[tuple[Where, str], list[str]] = {(k.where, k.action): [] for k in KEYS}
        for (where, name), action in self._table.items():
            groups.setdefault((where, action), []).append(name)
        for where in Where:
            for (place, action), names in groups.items():
                if place is where and names:
                    yield Key(tuple(names), action, _help(where, action), where)

    def key_of(self, action: str, *places: Where) -> str:
        """What people call a key of an action in the first place that has one; empty: none has."""
        for where in places or Where:
            for row in self._rows:
                if row.action == action and row.where is where:
                    # Beside other words, F1 reads better than a letter.
                    return key_name(next(filter(_FUNCTION.match, row.keys), row.keys[0]))
        return ""

    def document_of(self, places: Iterable[Where], columns: int = 78) -> Document:
        """The help page of a screen: the keys that it has, and those that every screen needs.

        Args:
            places: of its keys.
            columns: that a line may fill.
        """
        own = [where for where in places if where not in _EVERYWHERE]
        needed = [row for row in self.rows if (row.action, row.where) in _NEEDED]
        needed.sort(key=lambda row: _NEEDED.index((row.action, row.where)))
        # A key means what the first of the places says. At the prompt letters are text.
        taken: set[str] = set()
        parts = []
        for where in own:
            rows = [*_without(taken, (row for row in self.rows if row.help and row.where is where))]
            taken.update(name for row in rows for name in row.keys)
            parts.append((where, rows))
        needed = [*_without(taken, needed)]
        width = _width([*needed, *(row for _, rows in parts for row in rows)])
        lines = [made for part in parts if part[1] for made in _lines_of(*part, width, short=True)]
        lines.append(line(("On every screen", "heading")))
        lines += [
            line(("  " + (_names(row) + " ").ljust(width), "bold"), row.help) for row in needed
        ]
        lines += [line(), line("F1 again, or ", ("help keys", "link", "help keys"), ": all keys")]
        return _help_page(lines, "Keys of this screen", columns, width + 2)

    def document(self, columns: int = 78) -> Document:
        """The help page of all keys, with lines that fill so many columns."""
        width = _width(self.rows)
        lines = []
        for where in Where:
            rows = [row for row in self.rows if row.help and row.where is where]
            lines += _lines_of(where, rows, width)
        lines += [
            line(("Mouse", "heading")),
            line("  Click links, rows, the menu, the arrows, the status line and the scroll bar."),
            line("  The wheel scrolls the part under the pointer, and zooms a map."),
            line("  Dragging moves a map that doesn't show all."),
            line(
                "  Shift+drag selects text in most terminals; ", ("mouse off", "link", "mouse off")
            ),
            line(),
            line(("Your own keys", "heading")),
            line("  In the settings file (config shows where), by the dim names above, e.g."),
            line('    "keys": {"ctrl t": "search_next", "page: x": "page_down",'),
            line('             "f5": "command: lt -f"}'),
            line("  {} in a command is the tensor or node of the row under the cursor."),
            line('  "nothing" unbinds a key. The places are those in brackets.'),
        ]
        lines += [line((text, "warning")) for text in self.warnings]
        return _help_page(lines, "Keys", columns, width + 2)


def _lines_of(where: Where, rows: Iterable[Key], width: int, *, short: bool = False) -> list[Line]:
    """The keys of one place under its heading; ``short``: without the names of actions."""
    place = "" if short else f"  [{where.name.lower()}]"
    lines = [line((where.value, "heading"), (place, "dim"))]
    for row in rows:
        name = "" if short or row.action.startswith(COMMAND) else f"  {row.action}"
        names = Span("  " + (_names(row) + " ").ljust(width), "bold")
        lines.append(Line([names, Span(row.help), Span(name, "dim")]))
    return [*lines, line()]


def _without(taken: Collection[str], rows: Iterable[Key]) -> Iterator[Key]:
    """Rows without the keys that are taken on the page; one that has no other isn't there."""
    for row in rows:
        is_typed = row.where is Where.PROMPT
        keys = tuple(name for name in row.keys if is_typed or name not in taken)
        if keys:
            yield row._replace(keys=keys)


def _width(rows: Iterable[Key]) -> int:
    """What the names of keys need, and a gap; the few that are longer stand out."""
    return min(max((len(_names(row)) for row in rows if row.help), default=0), 28) + 2


def _help_page(lines: Iterable[Line], title: str, columns: int, indent: int) -> Document:
    document = Prose(lines, columns, indent, title)
    document.kind = "help"
    return document


def _first_of(name: str) -> str:
    """The first of two keys after each other; empty: it is one."""
    if len(name) == 3 and name[0] in "[]":
        return name[0]
    return name.rpartition(" ctrl ")[0] if name.count("ctrl ") > 1 else ""


def _names(row: Key) -> str:
    return " ".join(map(key_name, row.keys))


def _help(where: Where, action: str) -> str:
    """One line on an action; the same action may be called otherwise at different places."""
    for key in KEYS:
        if key.where is where and key.action == action:
            return key.help
    if action.startswith(COMMAND):
        return action.removeprefix(COMMAND).strip()
    return _HELP.get(action, "")


def _read_binding(key: str, action: str) -> _Binding | str:
    """A binding, or what is wrong with it."""
    place, colon, rest = key.partition(":")
    places: tuple[Where, ...] = _EVERYWHERE
    text = key
    if colon and rest.strip():
        where = _PLACES.get(place.strip().lower())
        if where is None:
            hint = (
                did_you_mean(place.strip().lower(), _PLACES) or f"There are {', '.join(_PLACES)}."
            )
            return f'Key "{key}": there is no place "{place.strip()}". {hint}'
        text = rest.strip()
        if where is not Where.ANYWHERE:
            places = (where,)
    name = read_key(text)
    if name is None:
        return f'Key "{key}": "{text}" is not a key. Write for example ctrl t, Alt-X, F5, PgDn.'
    if len(name) == 1 or _first_of(name) in {"[", "]"}:
        if text is key:
            places = (Where.SOURCE, Where.PAGE)
        elif places[-1] in _TYPED:
            return f'Key "{key}": "{name}" could not be typed any more. Use page: {text}.'
    if action.startswith(COMMAND) and action.removeprefix(COMMAND).strip():
        return _Binding(places, name, f"{COMMAND} {action.removeprefix(COMMAND).strip()}")
    if action not in _ACTIONS:
        hint = did_you_mean(action, _ACTIONS) or "? shows all of them."
        return f'Key "{key}": there is no action "{action}". {hint}'
    return _Binding(places, name, action)
