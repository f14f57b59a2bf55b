"""The page: rows that were painted before look as rows that are painted anew."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import pytest

from tfdbg_cli.common.documents import LazyDocument, Line, Link, Span
from tfdbg_cli.ui.screen.paint import page
from tfdbg_cli.ui.screen.paint.page import page_rows
from tfdbg_cli.ui.screen.view import View


def a_line(number: int) -> Line:
    """A line with links, wide characters and an element."""
    link = Link(f"pt n{number}")
    spans = [Span(f"[{number}] "), Span("日本 ", "dim"), Span(f"n{number}:0", "link", link)]
    return Line([*spans, Span(" 77" * 40)], ((number,), (number,)))


def test_a_page_looks_the_same_whatever_was_painted_before() -> None:
    draw = random.Random(3)
    words = {"text": "a"}
    document = LazyDocument(200, lambda number: Line([*a_line(number).spans, Span(words["text"])]))
    view = View(document, "lines", "", "end", (60, 12))

    def change_text() -> None:
        words["text"] = draw.choice("ab")

    def mark() -> None:
        view.mark = draw.randrange(200)

    def look_for() -> None:
        view.pattern = draw.choice([None, re.compile("77"), re.compile("n1")])
        view.match = draw.randrange(200)

    moves: list[Callable[[], object]] = [
        *(change_text, mark, look_for, lambda: view.move_link(1), lambda: view.move_link(-1)),
        lambda: view.scroll(draw.randint(-5, 5)),
        lambda: view.go_to(draw.randrange(200)),
        lambda: view.scroll_sideways(draw.randint(-9, 9)),
        lambda: view.resize(draw.randint(20, 80), draw.randint(3, 20)),
    ]
    for _ in range(400):
        draw.choice(moves)()
        shown = page_rows(view)
        view.painted = {}
        assert page_rows(view) == shown


def test_a_row_that_stays_is_painted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    painted: list[int] = []
    paint = page._segments

    def counted(view: View, made: Line, number: int, *rest: Any) -> object:
        painted.append(number)
        return paint(view, made, number, *rest)

    monkeypatch.setattr(page, "_segments", counted)
    view = View(LazyDocument(200, a_line), "lines", "", "end", (60, 12))
    page_rows(view)
    page_rows(view)
    assert painted == [*range(12)]
    view.scroll(2)
    page_rows(view)
    assert painted == [*range(14)]
