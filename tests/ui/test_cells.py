"""Clipping of text by columns."""

from __future__ import annotations

import urwid
from hypothesis import given
from hypothesis import strategies as st

from tfdbg_cli.ui.screen.paint.cells import Segment, Target, clip

_TEXT = st.text(st.sampled_from("ab 日本\u0301é👍🏽\u200d\ufe0f🇩🇪\udc80テ"), max_size=12)


def _width(data: bytes) -> int:
    return urwid.calc_width(data, 0, len(data))


@given(
    st.lists(st.tuples(_TEXT, st.sampled_from(["text", "nan"])), max_size=5),
    st.integers(0, 30),
    st.integers(1, 30),
)
def test_a_row_is_as_wide_as_asked_for(parts: list[tuple[str, str]], left: int, width: int) -> None:
    segments = [Segment(*part) for part in parts]
    marked = clip(segments, left, width, marker=Segment(">"))
    assert _width(marked.data) == width
    assert marked.data.endswith(b">") is (marked.more and width > 1)
    cells = clip(segments, left, width)
    assert _width(cells.data) == width
    assert sum(length for _, length in cells.runs) == len(cells.data)
    cells.data.decode()


@given(st.text("abc ", max_size=40), st.integers(0, 45), st.integers(1, 45))
def test_plain_text_is_sliced(text: str, left: int, width: int) -> None:
    cells = clip([Segment(text[:7]), Segment(text[7:], "nan")], left, width)
    assert cells.data.decode() == text[left : left + width].ljust(width)
    assert cells.more is (len(text) > left + width)


def test_targets_are_where_their_text_is() -> None:
    target = Target("command", "lt")
    segments = [Segment("日本 "), Segment("link", "link", target), Segment(" rest")]
    cells = clip(segments, 2, 9)
    assert cells.data.decode() == "本 link r"
    assert [cells.target_at(column) for column in (2, 3, 6, 7)] == [None, target, target, None]


def test_half_a_wide_character_is_a_blank() -> None:
    assert clip([Segment("日本")], 1, 3).data.decode() == " 本"
    assert clip([Segment("日本")], 0, 3).data.decode() == "日 "
    assert clip([Segment("日本")], 1, 1).data.decode() == " "


def test_a_line_of_a_million_characters_is_cheap() -> None:
    segments = [Segment("x" * 1_000_000, "text")]
    for left in (0, 500_000, 999_990):
        cells = clip(segments, left, 80)
        assert _width(cells.data) == 80
