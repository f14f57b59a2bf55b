"""Themes: what each role looks like, for urwid and for prompt_toolkit, in colour and without."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from tfdbg_cli.documents import ROLES

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
    "status-key",
    "prompt",
    "popup",
    "popup-focus",
    "popup-summary",
    "toast-info",
    "toast-success",
    "toast-warning",
    "toast-error",
    "question",
    "link-focus",
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
_ATTRIBUTES = {
    "bold": "bold",
    "underline": "underline",
    "standout": "reverse",
    "italics": "italic",
}


class Look(NamedTuple):
    """Foreground, background (ANSI names, empty: the terminal's own) and attributes."""

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
        looks: words by role.
        colors: whether colours are used at all.
    """

    def __init__(self, name: str, looks: Mapping[str, str], colors: bool = True) -> None:
        self.name = name
        self.colors = colors
        self._looks = {role: _look(text) for role, text in looks.items()}

    def look(self, role: str, *, link: bool = False) -> Look:
        """The look of a role; a link's is underlined. Unknown roles look like plain text."""
        found = self._looks.get(role, Look())
        return found.with_attributes("underline") if link else found

    def urwid_palette(self) -> list[tuple[str, str, str, str]]:
        """Palette entries ``(role, foreground, background, mono)``.

        Links have entries of their own, ``role + "+link"``; plain text is called ``"text"``.
        """
        entries = []
        for role in (*ROLES, *UI_ROLES):
            for link in (False, True):
                look = self.look(role, link=link)
                attributes = sorted(look.attributes)
                foreground = _URWID_COLORS.get(look.foreground, "default")
                entries.append(
                    (
                        (role or "text") + ("+link" if link else ""),
                        ",".join([foreground, *attributes]),
                        _URWID_COLORS.get(look.background, "default"),
                        ",".join(attributes) or "default",
                    )
                )
        return entries

    def prompt_toolkit_style(self, role: str, *, link: bool = False) -> str:
        """A style string for prompt_toolkit."""
        look = self.look(role, link=link)
        words = [_ATTRIBUTES[name] for name in sorted(look.attributes)]
        if look.foreground:
            words.append("fg:" + _prompt_toolkit_color(look.foreground))
        if look.background:
            words.append("bg:" + _prompt_toolkit_color(look.background))
        return " ".join(words)


def _prompt_toolkit_color(name: str) -> str:
    # prompt_toolkit calls light grey "ansigray" and white "ansiwhite".
    special = {"white": "ansigray", "bright-white": "ansiwhite"}
    return special.get(name, "ansi" + name.replace("-", ""))


_DARK = {
    "": "",
    "bold": "bold",
    "heading": "bright-white bold",
    "dim": "bright-black",
    "error": "bright-red bold",
    "warning": "bright-yellow",
    "info": "bright-cyan",
    "success": "bright-green",
    "link": "bright-blue",
    "highlight": "bright-yellow bold",
    "match": "black on yellow",
    "nan": "bright-white on red bold",
    "inf": "bright-magenta bold",
    "op_type": "cyan",
    "number": "green",
    "string": "yellow",
    "source": "bright-white",
    "logo": "bright-cyan bold",
    "title-start": "bright-white on blue bold",
    "title-end": "black on green",
    "title-error": "bright-white on red bold",
    "title-offline": "black on cyan",
    "nav": "bright-black",
    "nav-link": "bright-blue",
    "menu": "bright-cyan",
    "menu-disabled": "bright-black",
    "menu-focus": "standout bold",
    "status": "black on white",
    "status-key": "black on white bold",
    "prompt": "bright-green bold",
    "popup": "bright-white on blue",
    "popup-focus": "black on cyan bold",
    "popup-summary": "white on blue",
    "toast-info": "bright-white on blue",
    "toast-success": "black on green",
    "toast-warning": "black on yellow",
    "toast-error": "bright-white on red bold",
    "question": "bright-white on magenta bold",
    "link-focus": "standout underline bold",
    "match-current": "black on bright-yellow bold",
    "mark": "bright-yellow bold",
    "scrollbar": "bright-black",
    "scrollbar-thumb": "bright-cyan",
}
_LIGHT = _DARK | {
    "heading": "black bold",
    "dim": "bright-black",
    "error": "red bold",
    "warning": "magenta",
    "info": "blue",
    "success": "green",
    "link": "blue",
    "highlight": "red bold",
    "inf": "magenta bold",
    "op_type": "blue",
    "number": "green",
    "string": "red",
    "source": "black",
    "logo": "blue bold",
    "nav-link": "blue",
    "menu": "blue",
    "status": "bright-white on bright-black",
    "status-key": "bright-white on bright-black bold",
    "prompt": "blue bold",
    "mark": "red bold",
    "scrollbar-thumb": "blue",
}
_MONO = {
    "": "",
    "bold": "bold",
    "heading": "bold",
    "dim": "",
    "error": "bold standout",
    "warning": "bold",
    "info": "",
    "success": "",
    "link": "",
    "highlight": "bold underline",
    "match": "standout",
    "nan": "standout",
    "inf": "bold standout",
    "op_type": "",
    "number": "",
    "string": "",
    "source": "bold",
    "logo": "bold",
    "title-start": "standout bold",
    "title-end": "standout",
    "title-error": "standout bold underline",
    "title-offline": "standout",
    "nav": "",
    "nav-link": "",
    "menu": "",
    "menu-disabled": "",
    "menu-focus": "standout bold",
    "status": "standout",
    "status-key": "standout bold",
    "prompt": "bold",
    "popup": "standout",
    "popup-focus": "bold underline",
    "popup-summary": "standout",
    "toast-info": "bold",
    "toast-success": "bold",
    "toast-warning": "bold underline",
    "toast-error": "standout bold",
    "question": "standout bold",
    "link-focus": "standout underline bold",
    "match-current": "standout bold underline",
    "mark": "bold",
    "scrollbar": "",
    "scrollbar-thumb": "standout",
}

#: The themes by name. ``auto`` is no theme: `choose_theme` decides.
THEMES = {
    "dark": Theme("dark", _DARK),
    "light": Theme("light", _LIGHT),
    "mono": Theme("mono", _MONO, colors=False),
}


def choose_theme(
    name: str = "auto", *, color: bool = True, environ: Mapping[str, str] | None = None
) -> Theme:
    """The theme to use.

    Args:
        name: ``dark``, ``light``, ``mono`` or ``auto``, which asks ``COLORFGBG`` for the
            terminal's background and takes it for dark if nothing is said.
        color: False gives mono, as a non-empty ``NO_COLOR`` does (https://no-color.org).
        environ: default: the process's environment.
    """
    environ = os.environ if environ is None else environ
    if not color or environ.get("NO_COLOR"):
        return THEMES["mono"]
    if name in THEMES:
        return THEMES[name]
    background = environ.get("COLORFGBG", "").rpartition(";")[2]
    return THEMES["light"] if background in {"7", "15"} else THEMES["dark"]
