"""Themes: what each role looks like, for urwid and for prompt_toolkit, in colour and without."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from tfdbg_cli.common.documents import ROLES
from tfdbg_cli.ui.looks import (
    COLORBLIND,
    COLORBLIND_LIGHT,
    COLORBLIND_LIGHT_RICH,
    COLORBLIND_RICH,
    DARK,
    DARK_RICH,
    LIGHT,
    LIGHT_RICH,
    MONO,
)

__all__ = ["THEMES", "UI_ROLES", "Look", "Theme", "choose_theme"]

#: What the UIs themselves draw, besides the roles of Documents.
UI_ROLES = (
    "title-start",
    "title-end",
    "title-error",
    "title-offline",
    "nav",
    "nav-link",
    "menu",
    "menu-disabled",
    "menu-focus",
    "status",
    "prompt",
    "popup",
    "popup-focus",
    "popup-summary",
    "popup-match",
    "toast-info",
    "toast-success",
    "toast-warning",
    "toast-error",
    "question",
    "link-focus",
    "table-row",
    "table-cell",
    "match-current",
    "mark",
    "scrollbar",
    "scrollbar-thumb",
)

# Our colour names are the sixteen of ANSI.
_URWID_COLORS = {
    "black": "black",
    "red": "dark red",
    "green": "dark green",
    "yellow": "brown",
    "blue": "dark blue",
    "magenta": "dark magenta",
    "cyan": "dark cyan",
    "white": "light gray",
    "bright-black": "dark gray",
    "bright-red": "light red",
    "bright-green": "light green",
    "bright-yellow": "yellow",
    "bright-blue": "light blue",
    "bright-magenta": "light magenta",
    "bright-cyan": "light cyan",
    "bright-white": "white",
}
_MONOCHROME = frozenset({"vt52", "vt100", "vt102", "vt220", "vt320", "xterm-mono"})
_ATTRIBUTES = {
    "bold": "bold",
    "underline": "underline",
    "standout": "reverse",
    "italics": "italic",
}


class Look(NamedTuple):
    """Foreground, background and attributes.

    A colour is one of the sixteen ANSI names, ``#rrggbb``, or empty: the terminal's own.
    """

    foreground: str = ""
    background: str = ""
    attributes: frozenset[str] = frozenset()

    def with_attributes(self, *names: str) -> Look:
        """This look with more attributes."""
        return self._replace(attributes=self.attributes | set(names))


def _look(text: str) -> Look:
    """A look from words: ``"bright-white on red bold"``."""
    words = text.split()
    background = ""
    if "on" in words:
        at = words.index("on")
        background = words[at + 1]
        del words[at : at + 2]
    attributes = frozenset(word for word in words if word in _ATTRIBUTES)
    colors = [word for word in words if word not in _ATTRIBUTES]
    return Look(colors[0] if colors else "", background, attributes)


class Theme:
    """Looks by role. Every role of Documents and of the UIs has one.

    Args:
        name: as `config set theme` takes it.
        looks: words by role, for sixteen colours.
        colors: whether colours are used at all.
        rich: words by role for terminals of 256 and more colours, where they differ. The colours
            are of the 6x6x6 cube (components 00, 5f, 87, af, d7, ff), so that 256 are enough.
    """

    def __init__(
        self,
        name: str,
        looks: Mapping[str, str],
        colors: bool = True,
        rich: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.colors = colors
        self._looks = {role: _look(text) for role, text in looks.items()}
        self._rich = self._looks | {role: _look(text) for role, text in (rich or {}).items()}

    def look(self, role: str, *, link: bool = False, rich: bool = False) -> Look:
        """The look of a role; a link's is underlined. Unknown roles look like plain text.

        Args:
            role: of a Document or a UI.
            link: whether it is a link's.
            rich: for a terminal of 256 and more colours.
        """
        found = (self._rich if rich else self._looks).get(role, Look())
        return found.with_attributes("underline") if link else found

    def urwid_palette(self) -> list[tuple[str, str, str, str, str, str]]:
        """Palette entries ``(role, foreground, background, mono, rich foreground and background)``.

        Links have entries of their own, ``role + "+link"``; plain text is called ``"text"``.
        """
        entries = []
        for role in (*ROLES, *UI_ROLES):
            for link in (False, True):
                look = self.look(role, link=link)
                rich = self.look(role, link=link, rich=True)
                mono = THEMES["mono"].look(role, link=link)
                entries.append(
                    (
                        (role or "text") + ("+link" if link else ""),
                        _urwid_foreground(look),
                        _urwid_color(look.background),
                        ",".join(sorted(mono.attributes)) or "default",
                        _urwid_foreground(rich),
                        _urwid_color(rich.background),
                    )
                )
        return entries

    def prompt_toolkit_style(self, role: str, *, link: bool = False) -> str:
        """A style string for prompt_toolkit; the arguments are `look`'s."""
        look = self.look(role, link=link)
        words = [_ATTRIBUTES[name] for name in sorted(look.attributes)]
        if look.foreground:
            words.append("fg:" + _prompt_toolkit_color(look.foreground))
        if look.background:
            words.append("bg:" + _prompt_toolkit_color(look.background))
        return " ".join(words)


def _urwid_color(name: str) -> str:
    return name if name.startswith("#") else _URWID_COLORS.get(name, "default")


def _urwid_foreground(look: Look) -> str:
    return ",".join([_urwid_color(look.foreground), *sorted(look.attributes)])


def _prompt_toolkit_color(name: str) -> str:
    if name.startswith("#"):
        return name
    # prompt_toolkit calls light grey "ansigray" and white "ansiwhite".
    special = {"white": "ansigray", "bright-white": "ansiwhite"}
    return special.get(name, "ansi" + name.replace("-", ""))


#: The themes by name. ``auto`` is no theme, and ``colorblind`` two: `choose_theme` decides.
THEMES = {
    "dark": Theme("dark", DARK, rich=DARK_RICH),
    "light": Theme("light", LIGHT, rich=LIGHT_RICH),
    "colorblind": Theme("colorblind", COLORBLIND, rich=COLORBLIND_RICH),
    "colorblind-light": Theme("colorblind-light", COLORBLIND_LIGHT, rich=COLORBLIND_LIGHT_RICH),
    "mono": Theme("mono", MONO, colors=False),
}


def choose_theme(
    name: str = "auto", *, color: bool = True, environ: Mapping[str, str] | None = None
) -> Theme:
    """The theme to use.

    Args:
        name: ``dark``, ``light``, ``colorblind-light``, ``mono``; ``auto``, which asks
            ``COLORFGBG`` for the terminal's background and takes it for dark if nothing is said,
            and ``TERM`` for a terminal without colours; or ``colorblind``, which asks for the
            background, too.
        color: False gives mono, as a non-empty ``NO_COLOR`` does (https://no-color.org).
        environ: default: the process's environment.
    """
    environ = os.environ if environ is None else environ
    if not color or environ.get("NO_COLOR"):
        return THEMES["mono"]
    if name == "auto" and environ.get("TERM") in _MONOCHROME and not environ.get("COLORTERM"):
        return THEMES["mono"]
    is_light = environ.get("COLORFGBG", "").rpartition(";")[2] in {"7", "15"}
    if name == "colorblind":
        return THEMES["colorblind-light" if is_light else "colorblind"]
    if name in THEMES:
        return THEMES[name]
    return THEMES["light" if is_light else "dark"]
