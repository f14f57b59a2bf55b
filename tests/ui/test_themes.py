"""Themes: every role has a look in every theme, for both libraries."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from prompt_toolkit.styles import Attrs, Style
from urwid.testing import resolve_attr

from tfdbg_cli.common.documents import ROLES
from tfdbg_cli.common.settings import FIELDS
from tfdbg_cli.ui.themes import THEMES, UI_ROLES, Look, Theme, choose_theme


@pytest.mark.parametrize("name", THEMES)
def test_both_libraries_take_every_role(name: str) -> None:
    theme = THEMES[name]
    palette = theme.urwid_palette()
    for entry in palette:
        for colors in (1, 16, 256):
            resolve_attr(entry[0], palette, colors=colors)
    style = Style([])
    for role in (*ROLES, *UI_ROLES):
        assert (role or "text") in {entry[0] for entry in palette}
        attrs = style.get_attrs_for_style_str(theme.prompt_toolkit_style(role, link=True))
        assert isinstance(attrs, Attrs)
        assert attrs.underline


def test_mono_uses_no_colour_and_tells_bad_numbers_apart() -> None:
    mono = THEMES["mono"]
    assert not mono.colors
    looks = [mono.look(role) for role in (*ROLES, *UI_ROLES)]
    assert {look.foreground for look in looks} == {""}
    assert {look.background for look in looks} == {""}
    assert len({mono.look(role) for role in ("", "nan", "inf", "highlight")}) == 4


@pytest.mark.parametrize(
    ("name", "color", "environ", "expected"),
    [
        ("auto", True, {}, "dark"),
        ("auto", True, {"COLORFGBG": "0;15"}, "light"),
        ("auto", True, {"COLORFGBG": "15;0"}, "dark"),
        ("light", True, {"COLORFGBG": "15;0"}, "light"),
        ("light", False, {}, "mono"),
        ("light", True, {"NO_COLOR": "1"}, "mono"),
        ("light", True, {"NO_COLOR": ""}, "light"),
        ("mono", True, {}, "mono"),
        ("auto", True, {"TERM": "vt100"}, "mono"),
        ("auto", True, {"TERM": "vt100", "COLORTERM": "truecolor"}, "dark"),
        ("dark", True, {"TERM": "vt100"}, "dark"),
        ("colorblind", True, {}, "colorblind"),
        ("colorblind", True, {"COLORFGBG": "0;15"}, "colorblind-light"),
        ("colorblind-light", True, {"COLORFGBG": "15;0"}, "colorblind-light"),
    ],
)
def test_which_theme(name: str, color: bool, environ: dict[str, str], expected: str) -> None:
    assert choose_theme(name, color=color, environ=environ).name == expected


def test_every_theme_can_be_set() -> None:
    choices = next(field.choices for field in FIELDS if field.name == "theme")
    assert set(choices) == {"auto", *THEMES}


# The sixteen colours of xterm, https://en.wikipedia.org/wiki/ANSI_escape_code#Colors
XTERM = {
    "black": "#000000",
    "red": "#cd0000",
    "green": "#00cd00",
    "yellow": "#cdcd00",
    "blue": "#0000ee",
    "magenta": "#cd00cd",
    "cyan": "#00cdcd",
    "white": "#e5e5e5",
    "bright-black": "#7f7f7f",
    "bright-red": "#ff0000",
    "bright-green": "#00ff00",
    "bright-yellow": "#ffff00",
    "bright-blue": "#5c5cff",
    "bright-magenta": "#ff00ff",
    "bright-cyan": "#00ffff",
    "bright-white": "#ffffff",
}
COLORED = [theme for theme in THEMES.values() if theme.colors]
# What is there to be overlooked.
FAINT = {"scrollbar", "menu-disabled"}


def rgb(name: str, default: str) -> np.ndarray:
    """Linear red, green and blue, 0 to 1."""
    text = XTERM.get(name, name) or default
    share = np.array([int(text[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)


def colors(theme: Theme, look: Look) -> tuple[np.ndarray, np.ndarray]:
    """Foreground and background on a terminal of the kind that the theme is for."""
    grounds = ("#000000", "#ffffff") if "light" in theme.name else ("#ffffff", "#000000")
    found = rgb(look.foreground, grounds[0]), rgb(look.background, grounds[1])
    return found[::-1] if "standout" in look.attributes else found


def contrast(one: np.ndarray, other: np.ndarray) -> float:
    """The contrast of WCAG 2 (https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio)."""
    light = sorted(float(color @ [0.2126, 0.7152, 0.0722]) for color in (one, other))
    return (light[1] + 0.05) / (light[0] + 0.05)


@pytest.mark.parametrize("rich", [False, True])
@pytest.mark.parametrize("theme", COLORED, ids=lambda theme: theme.name)
def test_every_role_can_be_read(theme: Theme, rich: bool) -> None:
    for role in (*ROLES, *UI_ROLES):
        found = contrast(*colors(theme, theme.look(role, rich=rich)))
        # WCAG asks for 4.5, and for 3 where text is large or bold, as signs are. The terminal's
        # own sixteen colours are not ours to choose.
        limit = 1.5 if role in FAINT else 4.5 if rich else 3.0
        assert found >= limit, f"{role}: {found:.2f}"


# Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation of Color Vision
# Deficiency" (2009), severity 1.0; for linear red, green and blue.
EYES = {
    "protan": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deutan": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritan": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
# What must never be taken for each other, be it by colour or by an attribute besides bold.
APART = [
    ("", "nan", "inf", "highlight"),
    ("title-start", "title-end", "title-error", "title-offline"),
    ("toast-info", "toast-success", "toast-warning", "toast-error"),
    ("error", "success", "warning"),
    ("match", "match-current", ""),
    ("popup", "popup-focus"),
]


def lab(color: np.ndarray) -> np.ndarray:
    """CIE L*a*b*, in which equal distances look about equal."""
    to_xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    share = to_xyz @ np.clip(color, 0, 1) / [0.9505, 1.0, 1.089]
    x, y, z = np.where(share > 0.008856, np.cbrt(share), 7.787 * share + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize("rich", [False, True])
@pytest.mark.parametrize("name", ["colorblind", "colorblind-light"])
def test_all_eyes_tell_apart_what_matters(name: str, rich: bool, eye: str) -> None:
    theme, matrix = THEMES[name], np.array(EYES[eye])
    for group in APART:
        for one, other in itertools.combinations(group, 2):
            looks = [theme.look(role, rich=rich) for role in (one, other)]
            seen = [[lab(matrix @ color) for color in colors(theme, look)] for look in looks]
            distance = max(np.linalg.norm(a - b) for a, b in zip(*seen, strict=True))
            alike = looks[0].attributes - {"bold"} == looks[1].attributes - {"bold"}
            assert distance > 20 or not alike, f"{one}, {other}: {distance:.1f}"


@pytest.mark.parametrize("theme", COLORED, ids=lambda theme: theme.name)
def test_rich_colours_are_the_same_with_256(theme: Theme) -> None:
    for role in (*ROLES, *UI_ROLES):
        look = theme.look(role, rich=True)
        for color in (look.foreground, look.background):
            if color.startswith("#"):
                parts = {color[at : at + 2] for at in (1, 3, 5)}
                assert parts <= {"00", "5f", "87", "af", "d7", "ff"}, f"{role}: {color}"


@pytest.mark.parametrize("theme", COLORED, ids=lambda theme: theme.name)
def test_on_one_colour_every_theme_looks_like_mono(theme: Theme) -> None:
    palettes = [theme.urwid_palette(), THEMES["mono"].urwid_palette()]
    for role in ("title-error", "status", "nan", "inf", "popup-focus", "link+link"):
        assert len({str(resolve_attr(role, palette, colors=1)) for palette in palettes}) == 1
