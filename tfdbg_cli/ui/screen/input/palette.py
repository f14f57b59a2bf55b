"""The list of everything that can be done here, which typing filters."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tfdbg_cli.ui.bindings import COMMAND
from tfdbg_cli.ui.fuzzy import Query, lower
from tfdbg_cli.ui.keys import Where, key_name
from tfdbg_cli.ui.screen.input.editor import LineEditor

if TYPE_CHECKING:
    from tfdbg_cli.ui.screen.state import ScreenState

__all__ = ["Palette", "PaletteEntry", "palette_of"]

# What is found beyond the name counts less.
_BEYOND_NAME = -10

# So many former command lines are offered.
_RECENT = 500

# What is done to a line, or in a list, is no use from another list.
_ACTION_PLACES = (Where.ANYWHERE, Where.PAGE, Where.EMPTY)
_NO_ENTRY = frozenset({"nothing", "open_palette", "to_prompt", "cancel", "sort_by_letter"})

_LINES = frozenset({"menu", "link", "history"})

_PLACE = re.compile(r"%[1-9*]")


class PaletteEntry(NamedTuple):
    """One thing that can be done.

    Attributes:
        kind: ``command``, ``alias``, ``menu``, ``link``, ``action`` or ``history``.
        label: what it is called.
        summary: a few words on it.
        value: the command line, or the name of the action.
        note: at the right edge: the keys, or what kind of entry it is.
        needs_more: whether words must follow before it can be run.
    """

    kind: str
    label: str
    summary: str
    value: str
    note: str
    needs_more: bool = False


class Palette:
    """The entries, the line that is typed, and which of those that fit it is chosen.

    Attributes:
        line: what is typed.
        entries: all of them.
        found: the indices of those that fit, the best first.
        chosen: an index in ``found``.
    """

    def __init__(self, entries: Sequence[PaletteEntry]) -> None:
        self.line = LineEditor()
        self.entries = entries
        self._names = [lower(entry.label) for entry in entries]
        self._texts = [lower(f"{e.label} {e.summary} {e.note}") for e in entries]
        self._typed = ""
        self._query = Query("")
        self.found: Sequence[int] = range(len(entries))
        self.chosen = 0

    def touch(self) -> None:
        """What is typed has changed."""
        typed = " ".join(lower(self.line.text).split())
        if typed == self._typed:
            return
        # Whatever fits the longer query fits the shorter one.
        among = self.found if typed.startswith(self._typed) else range(len(self.entries))
        self._typed, self._query, self.chosen = typed, Query(typed), 0
        if not typed:
            self.found = range(len(self.entries))
            return
        score, names, texts = self._query.score, self._names, self._texts
        ranked = []
        for index in among:
            fit = score(names[index])
            if fit is None:
                fit = score(texts[index])
                if fit is None:
                    continue
                fit += _BEYOND_NAME
            ranked.append((-fit, index))
        ranked.sort()
        self.found = [index for _, index in ranked]

    def places(self, index: int) -> Sequence[int]:
        """Which characters of ``label + " " + summary`` of an entry fit what is typed."""
        places = self._query.places(self._names[index])
        if self._query.score(self._names[index]) is None:
            places = self._query.places(self._texts[index])
        return places

    def move(self, step: int, *, around: bool = False) -> None:
        """Choose another entry, some further down (or up)."""
        last = len(self.found) - 1
        at = self.chosen + step
        if around and last >= 0:
            at %= last + 1
        self.chosen = min(max(at, 0), max(last, 0))

    @property
    def current(self) -> PaletteEntry | None:
        """The entry that is chosen; ``None``: nothing fits."""
        return self.entries[self.found[self.chosen]] if self.found else None


def palette_of(state: ScreenState) -> Palette:
    """What can be done now: this screen's menu, commands, aliases, keys, links, former lines."""
    # A link, or a former line, that is in the menu already needn't be offered again.
    seen: set[str] = set()
    entries = []
    for entry in _entries(state):
        name = entry.value if entry.kind in _LINES else f"{entry.kind} {entry.value}"
        if name not in seen:
            seen.add(name)
            entries.append(entry)
    return Palette(entries)


def _entries(state: ScreenState) -> Iterator[PaletteEntry]:
    view = state.view
    for item in view.document.menu if view is not None else ():
        if item.enabled:
            summary = item.command if item.command != item.caption else ""
            yield PaletteEntry("menu", item.caption, summary, item.command, "menu")
    for command in state.service.commands():
        label = ", ".join((command.name, *command.aliases))
        summary, more = command.summary, command.needs_argument
        yield PaletteEntry("command", label, summary, command.name, "command", more)
    for name, text in sorted(state.service.settings.aliases.items()):
        yield PaletteEntry("alias", name, text, name, "alias", _PLACE.search(text) is not None)
    yield from _actions(state)
    for place in view.links(view.top, view.bottom) if view is not None else ():
        yield PaletteEntry("link", place.command, "", place.command, "link")
    for text in state.service.history.matching("")[:_RECENT]:
        yield PaletteEntry("history", text, "", text, "typed before")


def _actions(state: ScreenState) -> Iterator[PaletteEntry]:
    turns = state.view.document.turns if state.view is not None else frozenset()
    places = [*_ACTION_PLACES]
    places += [Where.TENSOR] if "picture" in turns else []
    places += [Where.MAP] if "closer" in turns else []
    places += (
        [Where.ROW, Where.TABLE] if state.view is not None and state.view.document.tables else []
    )
    is_source = state.view is not None and state.view.document.kind == "source"
    places += [Where.SOURCE] if is_source else []
    for where in places:
        for row in state.keys.rows:
            if row.where is not where or not row.help or row.action in _NO_ENTRY:
                continue
            summary = "" if row.action.startswith(COMMAND) else row.action
            keys = " ".join(key_name(name) for name in row.keys[:3])
            yield PaletteEntry("action", row.help, summary, row.action, keys)
