"""Colours of data: painted as far as there are colours, read as text where there are none."""

from __future__ import annotations

import io

import pyte
import pytest
import urwid
from prompt_toolkit.data_structures import Size
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from urwid.display import raw

from tfdbg_cli.common.documents import Ink, Line, Link, Span, TextDocument
from tfdbg_cli.ui.inks import has_true_colour, nearest
from tfdbg_cli.ui.line import LineUI
from tfdbg_cli.ui.line.adapters import formatted_lines
from tfdbg_cli.ui.notebook.html import to_html
from tfdbg_cli.ui.screen.paint.cells import canvas_of
from tfdbg_cli.ui.screen.paint.page import page_rows
from tfdbg_cli.ui.screen.view import View
from tfdbg_cli.ui.themes import THEMES, choose_theme

ORANGE, TEAL = 0xFF8700, 0x008787
PICTURE = Span("#.", "", None, Ink(ORANGE, TEAL, halves=True))
CODE = Span("def", "source", None, Ink(TEAL))
LINE = Line([PICTURE, Span(" plain "), CODE])


def drawn(colors: int, spans: Line = LINE) -> pyte.Screen:
    """A page as a terminal emulator shows it."""
    written = io.StringIO()
    terminal = raw.Screen(io.StringIO(), written)
    terminal.set_terminal_properties(colors=colors)  # type: ignore[arg-type]
    terminal.register_palette(choose_theme("dark").urwid_palette())
    terminal._started = True
    view = View(TextDocument([spans]), "x", "", "end", (30, 2))
    terminal.draw_screen((30, 2), canvas_of(page_rows(view, colors), 30))
    screen = pyte.Screen(30, 2)
    pyte.Stream(screen).feed(written.getvalue())
    return screen


@pytest.mark.parametrize("colors", [1 << 24, 256])
def test_halves_are_pixels_where_there_are_many_colours(colors: int) -> None:
    screen = drawn(colors)
    assert screen.display[0].startswith("▀▀ plain def")
    pixel = screen.buffer[0][0]
    assert (pixel.fg, pixel.bg) == ("ff8700", "008787")  # of the cube: 256 are enough for these
    assert screen.buffer[0][9].fg == "008787"
    assert screen.buffer[0][9].bg == "default"
    assert screen.buffer[0][4].fg == "default"


def test_sixteen_colours_make_no_picture_but_show_what_sticks_out() -> None:
    red = Span("N", "nan", None, Ink(TEAL, 0xFF0000, halves=True))
    screen = drawn(16, Line([*LINE.spans, red]))
    assert screen.display[0].startswith("#. plain defN")
    assert (screen.buffer[0][0].fg, screen.buffer[0][0].bg) == ("default", "default")
    assert (screen.buffer[0][12].fg, screen.buffer[0][12].bg) == ("brightwhite", "red")
    assert screen.buffer[0][9].fg == "cyan"  # the nearest
    lines = formatted_lines([Line([red])], THEMES["dark"], "utf-8", 16)
    assert lines[0][1] == "N"
    assert "bg:ansired" in lines[0][0]


def test_without_colours_the_text_is_read() -> None:
    screen = drawn(1)
    assert screen.display[0].startswith("#. plain def")
    assert screen.buffer[0][0].fg == screen.buffer[0][0].bg == "default"


def test_where_half_blocks_are_missing_the_text_stands_on_its_colour() -> None:
    before = urwid.util.get_encoding()
    urwid.set_encoding("ascii")
    try:
        screen = drawn(1 << 24)
    finally:
        urwid.set_encoding(before)
    assert screen.display[0].startswith("#. plain def")
    assert (screen.buffer[0][0].fg, screen.buffer[0][0].bg) == ("ffffff", "008787")


def test_every_colour_has_its_nearest() -> None:
    for number in range(0, 1 << 24, 99_991):
        assert 16 <= nearest(number, 256) <= 255
        assert 0 <= nearest(number, 16) <= 15
    assert nearest(0xFFFFFF, 256) == 231
    assert nearest(0x080808, 256) == 232


def test_the_line_ui_prints_them() -> None:
    lines = formatted_lines([LINE], THEMES["dark"])
    assert ("▀▀", " fg:#ff8700 bg:#008787") in [(text, style[-24:]) for style, text in lines]
    plain = formatted_lines([LINE], THEMES["mono"])
    assert "".join(text for _, text in plain) == "#. plain def\n"
    ascii_only = formatted_lines([LINE], THEMES["dark"], "ascii")
    assert "".join(text for _, text in ascii_only) == "#. plain def\n"


@pytest.mark.parametrize(
    ("told", "escape"), [("truecolor", "38;2;255;135;0"), ("", "38;5;208"), ("24bit", "38;2;255")]
)
def test_the_line_ui_takes_what_the_terminal_has(
    monkeypatch: pytest.MonkeyPatch, told: str, escape: str
) -> None:
    from tfdbg_cli.common.settings import Settings

    monkeypatch.setenv("COLORTERM", told)
    monkeypatch.delenv("NO_COLOR", raising=False)
    printed = io.StringIO()
    output = Vt100_Output(
        printed,
        lambda: Size(rows=10, columns=80),
        term="xterm-256color",
        default_color_depth=ColorDepth.DEPTH_8_BIT,
    )
    LineUI(Settings(None), output=output).print_lines([LINE])
    assert escape in printed.getvalue()
    assert "▀▀" in printed.getvalue()


def test_what_a_terminal_says_of_itself() -> None:
    assert has_true_colour({"COLORTERM": "truecolor"})
    assert not has_true_colour({"COLORTERM": "yes"})
    assert not has_true_colour({})


def test_notebooks_show_them() -> None:
    html = to_html([LINE])
    assert "linear-gradient(#ff8700 50%,#008787 50%)" in html
    assert "color:#008787" in html
    assert "#." not in html


def test_a_link_with_colours_stays_a_link() -> None:
    link = Link("pt x")
    view = View(TextDocument([Line([Span("x", "", link, Ink(ORANGE))])]), "x", "", "end", (9, 2))
    (first, _) = page_rows(view, 256)
    assert first.target_at(0) is not None
    assert 'title="%tfdbg pt x"' in to_html([Line([Span("x", "", link, Ink(ORANGE))])])


def test_plain_text_has_glyphs_only() -> None:
    assert LINE.text == "#. plain def"
    assert isinstance(formatted_lines([LINE], THEMES["dark"]), FormattedText)
