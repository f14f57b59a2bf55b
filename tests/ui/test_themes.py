"""Themes: every role has a look in every theme, for both libraries."""

from __future__ import annotations

import pytest
from prompt_toolkit.styles import Attrs, Style
from urwid.testing import resolve_attr

from tfdbg_cli.documents import ROLES
from tfdbg_cli.ui.themes import THEMES, UI_ROLES, choose_theme


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
    ],
)
def test_which_theme(name: str, color: bool, environ: dict[str, str], expected: str) -> None:
    assert choose_theme(name, color=color, environ=environ).name == expected
