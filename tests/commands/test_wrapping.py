"""Lines of prose that are broken where a screen is narrow."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfdbg_cli.commands.wrapping import Prose, wrapped
from tfdbg_cli.common.documents import Line, Link, Span, line

WORDS = st.text("ab :.[", max_size=30)
SPANS = st.builds(
    Span,
    WORDS,
    st.sampled_from(["", "bold"]),
    st.sampled_from([None, Link("help")]),
)


@given(st.lists(SPANS, max_size=6), st.integers(10, 60))
def test_nothing_is_lost_and_all_that_can_be_fits(spans, columns):
    whole = Line(spans)
    made = wrapped([whole], columns, 4)
    assert "".join("".join(each.text for each in made).split()) == "".join(whole.text.split())
    for number, each in enumerate(made):
        words = each.text[4 * (number > 0) :]
        links = [span.text for span in each.spans if span.link]
        is_one_word = len(words.split()) == 1 or bool(links)
        assert len(each.text) <= columns or is_one_word
        assert not number or each.text.startswith("    ")
    marked = [(char, span.role) for each in made for span in each.spans for char in span.text]
    wanted = [(char, span.role) for span in spans for char in span.text]
    assert [each for each in marked if each[0] != " "] == [w for w in wanted if w[0] != " "]


def test_a_line_that_fits_is_the_line():
    whole = line("a b  c", ("d", "bold"))
    assert wrapped([whole], 7) == [whole]
    assert [each.text for each in wrapped([whole], 4)] == ["a b", "  cd"]


def test_links_stay_whole():
    made = wrapped([line("see ", ("help why", "link", "help why"), " now")], 10)
    assert [each.text for each in made] == ["see", "  help why", "  now"]
    assert made[1].spans[-1] == Span("help why", "link", Link("help why"))


def test_prose_is_broken_again_for_another_width():
    whole = [line("one two three four five six seven eight nine ten eleven twelve")]
    prose = Prose(whole, 78)
    assert prose.line_count == 1
    narrow = prose.resized(50)
    assert [each.text for each in narrow.lines(0, 9)] == [
        "one two three four five six seven eight nine ten",
        "  eleven twelve",
    ]
    assert narrow.resized(79).line_count == 1
    assert narrow.resized(50) is narrow


@pytest.mark.parametrize("columns", range(26, 60))
def test_no_number_is_parted_from_what_it_belongs_to(columns):
    kept = ["[8, 16, 16]", "4 -inf,", "4 +inf", "of 2048", "min -74.375,", "max 83.125", "run 10"]
    whole = line("float16 [8, 16, 16]  4 -inf, 4 +inf of 2048  min -74.375, max 83.125 at run 10")
    rows = [each.text for each in wrapped([whole], columns)]
    assert max(map(len, rows)) <= columns
    assert all(any(part in row for row in rows) for part in kept)


def test_a_list_of_numbers_is_still_broken():
    rows = wrapped([line(", ".join(map(str, range(100))))], 60)
    assert max(len(each.text) for each in rows) <= 60
